/*
 * What the files of this module share; the maintainer's have maintainer_state.h, its pure core
 * core_state.h.
 *
 *   directory.c  finding jobs
 *   submit.c     new jobs, and those that are forgotten
 *   restore.c    jobs of an earlier process
 *   term.c       running them
 *   retention.c  how long ended jobs are kept
 *   placement*.c which node each task goes to
 */
#ifndef TFC_CLUSTER_INTERNAL_H
#define TFC_CLUSTER_INTERNAL_H

#include "cluster/directory.h"
#include "cluster/placement.h"
#include "ctx/ctx.h"

/* ==== the directory */

struct tfc__directory {
	tfc_ctx *ctx;
	struct tfc__agent *agent;
	struct tfc__nodes *nodes;
	struct tfc__store *store;
	struct tfc__directory_options options;
	/* What secrets in records are sealed with: the first from now on; those of 0.2 with the
	 * second, the store's own. */
	uint8_t seal_key[TFC__STORE_SEAL_SIZE];
	const uint8_t *seal_keys[3];
	struct tfc__link records;
	struct tfc__link submits;            /* records that are not stored yet */
	struct tfc__link leaving;            /* records that are being removed */
	struct tfc__link damaged;            /* struct tfc__damaged */
	struct tfc__observers users;         /* of its end */
	struct tfc__client_keys client_keys; /* of forgotten jobs */
	struct tfc__store_op *loading;
	struct tfc__store_op *loading_keys;
	bool is_loaded;
	bool is_late;         /* the store did not answer while it was opened */
	tfc_error load_error; /* it cannot be */
	uint32_t running;     /* jobs that have not ended, submits among them */
	bool is_draining;
	bool is_suspending; /* jobs are left as they are, for a later term */
	struct tfc__work drained;
	void (*drain_fn)(void *user);
	void *drain_user;
	struct tfc__work tidy;
	struct tfc__timer tidy_later;
};

static inline struct tfc__record *record_of(struct tfc__link *link)
{
	return tfc__container_of(link, struct tfc__record, link);
}

/* ---- directory.c */

/* TFC_OK, or why no job can be looked for yet. */
int tfc__directory_check_loaded(const struct tfc__directory *directory, tfc_error *error);
/* One job less is running. */
void tfc__directory_count_end(struct tfc__directory *directory);
/* All who wait for the record are answered. */
void tfc__record_answer(struct tfc__record *record, int code, const tfc_error *error);
/* The bundle that the job names is kept in the cache, as long as it has not ended. False: it is not
 * there, or none is named. */
bool tfc__record_keep_bundle(struct tfc__record *record);
/* Closes what it has open, and frees it. */
void tfc__record_close(struct tfc__record *record);

/* ---- term.c */

/* A job that was never begun: gives it to a maintainer. Its record is stored. */
int tfc__term_begin(struct tfc__record *record, tfc_error *error);
/* A job that an earlier process had: stores the next epoch, then begins it. */
void tfc__term_resume(struct tfc__record *record);

/* ---- restore.c */

/* Reads what is in the store. */
int tfc__restore_begin(struct tfc__directory *directory, tfc_error *error);

/* ---- submit.c */

/* Writes the first segment of its term, and then the record; NULL: *error. */
struct tfc__store_op *tfc__record_put(struct tfc__record *record, tfc__store_fn fn,
				      tfc_error *error);
/* Reads the record as it is in the store. NULL: out of memory. */
struct tfc__store_op *tfc__record_get(struct tfc__record *record, tfc__store_fn fn);
/* Removes the record and its journal; fn may be NULL. NULL: out of memory. */
struct tfc__store_op *tfc__record_remove(struct tfc__record *record, tfc__store_fn fn);
/* Removes an ended job, and answers who waits for that. TFC_ENOMEM: its client key cannot be kept,
 * and the job stays. */
int tfc__record_forget(struct tfc__record *record, tfc_error *error);

/* ---- retention.c */

void tfc__retention_init(struct tfc__directory *directory);
void tfc__retention_check(struct tfc__directory *directory); /* a job has ended */

/* ==== placement */

/* What is left of a node. */
struct tfc__place_room {
	bool is_usable; /* takes tasks and has the labels */
	bool is_avoided;
	uint64_t slots;  /* UINT64_MAX: no limit */
	uint64_t memory; /* UINT64_MAX: no limit */
	uint32_t gpus;
	uint32_t ports;        /* of the pool; UINT32_MAX: no limit known */
	const uint8_t *barred; /* as in struct tfc__place_ports, or NULL */
	uint32_t own;          /* tasks of this job there */
	uint32_t load;         /* of all jobs */
};

/* A task to be placed. */
struct tfc__place_item {
	uint32_t task;
	uint32_t position; /* in the request */
	uint32_t node;     /* UINT32_MAX: none yet */
	struct tfc__place_need need;
};

struct tfc__placing {
	const struct tfc__place_request *request;
	struct tfc__place_room *empty_rooms; /* as they were */
	struct tfc__place_room *rooms;
	struct tfc__place_item *items; /* what needs most stands first */
};

bool tfc__place_takes_tasks(const struct tfc__member *member);
bool tfc__place_has_label(const struct tfc__member *member, const char *label);
uint64_t tfc__place_fit(const struct tfc__place_room *room, const struct tfc__place_need *need);
void tfc__place_take(struct tfc__place_room *room, const struct tfc__place_need *need,
		     int64_t count);

/* Places the items that have no node in any way at all; false when it found none. */
bool tfc__place_search(struct tfc__placing *place);

/* Why nothing fits, from the task that found no place. TFC_EAGAIN. */
int tfc__place_say(const struct tfc__placing *place, const struct tfc__place_item *failed,
		   tfc_error *error);

#endif
