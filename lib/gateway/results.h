/*
 * The results of JOBS, DESCRIBE, MEMBERS and EXPLAIN. A node writes a result once, by the tables in
 * results.c, also for a gateway in its own process; the gateway that the host called reads it as
 * structs and shows these as JSON.
 */
#ifndef TFC_GATEWAY_RESULTS_H
#define TFC_GATEWAY_RESULTS_H

#include "wire/fields.h"
#include <tfcluster/gateway.h>

/* Whether the result of the verb is a struct; others are text. */
bool tfc__is_typed(enum tfc_verb verb);

/* ---- writing: out of memory is in buf->is_failed */

/* A job of a list. */
void tfc__job_write(struct tfc__buf *buf, const tfc_job_info *job);
/* A described job: its task_count tasks follow, each written by tfc__job_task_write. */
void tfc__job_write_head(struct tfc__buf *buf, const tfc_job_info *job);
void tfc__job_task_write(struct tfc__buf *buf, const tfc_job_task *task);

/* A member of a list, and a task of an explanation. */
void tfc__member_write(struct tfc__buf *buf, const tfc_member_info *member);
void tfc__task_plan_write(struct tfc__buf *buf, const tfc_task_plan *plan);
/* An explanation: its task_count plans follow. */
void tfc__explanation_write_head(struct tfc__buf *buf, const tfc_explanation *explanation);

/* The list of jobs: written jobs, and nodes whose jobs are missing, one after the other. */
struct tfc__result_items {
	struct tfc__buf items;
	uint32_t count;
};
void tfc__missing_node_write(struct tfc__buf *buf, const char *node, const char *reason);
void tfc__jobs_write(struct tfc__buf *buf, const struct tfc__result_items *jobs,
		     const struct tfc__result_items *missing);

void tfc__members_write(struct tfc__buf *buf, const struct tfc__result_items *members);

/* Appends the jobs of another node's list. TFC_OK, TFC_EPARSE, TFC_ENOMEM. */
int tfc__jobs_append(struct tfc__result_items *jobs, const void *data, size_t len,
		     tfc_error *error);

/* ---- reading */

/* A result that was read. Its strings are its own, its bytes those of the data. Zeroed: empty. */
struct tfc__result {
	struct tfc__reader reader;
	struct tfc__json_writer json;
	tfc_jobs jobs;
	tfc_job_info job;
	tfc_members members;
	tfc_explanation explanation;
};

/* Reads the result of a verb, and makes its JSON. TFC_OK, TFC_EPARSE, TFC_ENOMEM. Call
 * tfc__result_fini in any case. */
int tfc__result_read(struct tfc__result *result, enum tfc_verb verb, const void *data, size_t len,
		     tfc_error *error);
/* Sets the pointer of a reply to the struct that was read. */
void tfc__result_set(const struct tfc__result *result, enum tfc_verb verb, tfc_reply *reply);
void tfc__result_fini(struct tfc__result *result);

#endif
