/*
 * The directory: all jobs of this node, running and ended, and the way to find one.
 */
#ifndef TFC_CLUSTER_DIRECTORY_H
#define TFC_CLUSTER_DIRECTORY_H

#include "agent/agent.h"
#include "base/list.h"
#include "cluster/journal.h"
#include "cluster/maintainer.h"

struct tfc__directory;

/* One job. Fields are read by the gateway; only this room changes them. */
struct tfc__record {
	struct tfc__link link;
	struct tfc__directory *directory;
	char id[17];
	tfc_job *job;
	void *host_tag;
	uint64_t host_tag_len;
	uint64_t epoch;
	uint64_t submitted_ns; /* CLOCK_REALTIME */
	char client_key[65];   /* the submitter's own name for it, or "" */
	struct tfc__journal journal;
	struct tfc__maintainer *maintainer;
	bool is_ended;
};

/* What a record says of itself, whatever is behind it. */
uint32_t tfc__record_state(const struct tfc__record *record); /* enum tfc_job_state */
uint32_t tfc__record_generation(const struct tfc__record *record);

/* The node that an entry about a task is about; "": none yet. Borrowed from the record. */
const char *tfc__record_node(const struct tfc__record *record,
			     const struct tfc__journal_entry *entry);

/* Reads a task's log on a node from `position` (0: the oldest there is), see agent/log_source.h.
 * NULL and *error. */
struct tfc__log_source;
struct tfc__log_source *tfc__record_log_open(struct tfc__record *record, uint32_t task,
					     const char *node, uint64_t position, tfc_error *error);

/* Embedded in a user of the directory; fn is called once, while all records are still there. */
struct tfc__directory_user {
	struct tfc__link link;
	void (*fn)(struct tfc__directory_user *user);
};

/* nodes: where its maintainers place tasks; agent: of this machine. Both are borrowed. */
int tfc__directory_open(tfc_ctx *ctx, struct tfc__agent *agent, struct tfc__nodes *nodes,
			struct tfc__directory **ret_directory);
void tfc__directory_close(struct tfc__directory *directory); /* kills what still runs */
struct tfc__agent *tfc__directory_agent(const struct tfc__directory *directory);

struct tfc__submit {
	const tfc_job *job; /* validated */
	const void *host_tag;
	uint64_t host_tag_len;
	const char *client_key; /* at most 64 bytes; or NULL */
};

/* Records a copy of the job and starts its maintainer; with a client key that was seen before it
 * gives that record. TFC_ESTATE while draining. */
int tfc__directory_submit(struct tfc__directory *directory, const struct tfc__submit *submit,
			  tfc_error *error, struct tfc__record **ret_record);

/* By id, unambiguous prefix of one, or name (the latest that has it). TFC_ENOENT, TFC_EINVAL. */
int tfc__directory_find(struct tfc__directory *directory, const char *job, tfc_error *error,
			struct tfc__record **ret_record);

/* Asks to be told when the directory closes; a user that goes before removes its link. */
void tfc__directory_join(struct tfc__directory *directory, struct tfc__directory_user *user);

const struct tfc__link *tfc__directory_records(const struct tfc__directory *directory);

/* Takes no new job, stops all there are; fn is called in dispatch once none is left. */
int tfc__directory_drain(struct tfc__directory *directory, void (*fn)(void *user), void *user,
			 tfc_error *error);

#endif
