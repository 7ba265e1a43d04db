/*
 * Shared by the files of this module. The maintainer's files also share maintainer_state.h, those
 * of its pure core core_state.h.
 *
 *   directory.c  finding jobs
 *   submit.c     submitting and forgetting jobs
 *   restore.c    loading the jobs of the previous incarnation
 *   epoch.c      running jobs
 *   changes.c    the order in which jobs have changed, for watches
 *   retention.c  how long ended jobs are kept
 *   placement*.c nodes for tasks
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
	struct tfc__job_defaults job_defaults;
	/* Keys that seal the secrets in records. The first is used for writing. The second, the
	 * store's own, opens records of 0.2. */
	uint8_t seal_key[TFC__STORE_SEAL_SIZE];
	const uint8_t *seal_keys[3];
	struct tfc__link records;
	/* records that are not stored yet, or whose submit is being refused */
	struct tfc__link submits;
	struct tfc__link leaving;            /* records that are being removed */
	struct tfc__link damaged;            /* struct tfc__damaged */
	struct tfc__observers users;         /* observers of its end */
	struct tfc__changes changes;         /* of records */
	struct tfc__client_keys client_keys; /* of forgotten jobs */
	struct tfc__store_op *loading;
	struct tfc__store_op *loading_keys;
	bool is_loaded;
	bool is_late;         /* the store was not read when opening returned */
	tfc_error load_error; /* why the store cannot be read */
	uint32_t running;     /* jobs that have not ended, including submits */
	bool is_draining;
	bool is_suspending; /* running jobs are left for a later epoch */
	struct tfc__work drained;
	struct tfc__timer drain_timer;
	uint64_t drain_by; /* no job runs: until then their ends may still be stored; 0: not yet */
	void (*drain_fn)(void *user); /* NULL: was called */
	void *drain_user;
	struct tfc__work tidy;
	struct tfc__timer tidy_later;
};

static inline struct tfc__record *record_of(struct tfc__link *link)
{
	return tfc__container_of(link, struct tfc__record, link);
}

/* ---- directory.c */

/* A job has ended. */
void tfc__directory_count_end(struct tfc__directory *directory);
/* Adds the record to the list of records, which is in the order of submission. */
void tfc__directory_insert(struct tfc__directory *directory, struct tfc__record *record);
/* The record is stored and in the list of records: watches report it from now on. */
void tfc__record_appear(struct tfc__record *record);
/* Calls all requesters that wait for the record. */
void tfc__record_respond(struct tfc__record *record, int code, const tfc_error *error);
/* Keeps the bundle that the job names in the cache until the job has ended. Returns false if it is
 * not in the cache, or if the job names none. */
bool tfc__record_keep_bundle(struct tfc__record *record);
/* Closes the record's maintainer and keeper, and frees it. */
void tfc__record_close(struct tfc__record *record);

/* ---- epoch.c */

/* Starts the maintainer of a new job, whose record is stored. */
int tfc__epoch_begin(struct tfc__record *record, tfc_error *error);
/* Continues a job of the previous incarnation: stores the next epoch, then starts the
 * maintainer. */
void tfc__epoch_resume(struct tfc__record *record);

/* ---- restore.c */

/* Begins to read the store. */
int tfc__restore_begin(struct tfc__directory *directory, tfc_error *error);

/* ---- submit.c */

/* Writes the first segment of the epoch, and then the record. Returns NULL on failure and sets
 * *error. */
struct tfc__store_op *tfc__record_put(struct tfc__record *record, tfc__store_fn fn,
				      tfc_error *error);
/* Reads the record from the store. NULL: out of memory. */
struct tfc__store_op *tfc__record_get(struct tfc__record *record, tfc__store_fn fn);
/* Removes the record and its journal; fn may be NULL. NULL: out of memory. */
struct tfc__store_op *tfc__record_remove(struct tfc__record *record, tfc__store_fn fn);
/* Removes an ended job and calls the requesters that wait for the removal. Returns TFC_ENOMEM if
 * its client key or the request to the store cannot be kept. The job then stays, as it does when
 * the store fails: listed, with its logs and readers. */
int tfc__record_forget(struct tfc__record *record, tfc_error *error);

/* ---- retention.c */

void tfc__retention_init(struct tfc__directory *directory);
void tfc__retention_check(struct tfc__directory *directory); /* a job has ended */

/* ==== placement */

/* Free capacity of a node. */
struct tfc__place_room {
	bool is_usable; /* accepts tasks and has the job's labels */
	/* per role of the job: the node lacks labels of the role; NULL: no role has labels */
	const bool *lacking;
	bool is_cooling_down;
	uint64_t slots;  /* UINT64_MAX: no limit */
	uint64_t memory; /* UINT64_MAX: no limit */
	uint32_t gpus;
	uint32_t ports;        /* of the pool; UINT32_MAX: no limit known */
	const uint8_t *barred; /* as in struct tfc__place_ports; or NULL */
	uint32_t own;          /* tasks of this job on the node */
	uint32_t load;         /* tasks of all jobs on the node */
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
	const struct tfc__place_ports **reports; /* of the nodes that have one */
	uint32_t report_count;
	bool *lacking;                       /* per node and role; NULL: no role has labels */
	bool is_pool_limited;                /* a node has reported how many ports it has */
	struct tfc__place_room *empty_rooms; /* before placing */
	struct tfc__place_room *rooms;
	/* The nodes with room for another task of one kind; the first is the preferred one. */
	uint32_t *heap;
	uint32_t heap_len;
	struct tfc__place_item *items; /* the largest need first */
};

/* The order in which tasks are placed, the largest need first; 0: the tasks are of one kind. */
int tfc__place_compare_needs(const struct tfc__place_need *a, const struct tfc__place_need *b);
bool tfc__place_takes_tasks(const struct tfc__member *member);
bool tfc__place_has_label(const struct tfc__member *member, const char *label);
uint64_t tfc__place_fit(const struct tfc__place_room *room, const struct tfc__place_need *need);
void tfc__place_acquire(struct tfc__place_room *room, const struct tfc__place_need *need,
			int64_t count);

/* Places all items without a node, in any possible way. Returns false if none was found. */
bool tfc__place_search(struct tfc__placing *place);

/* Writes the reason why nothing fits. `failed` is the task without a place. Returns TFC_EAGAIN. */
int tfc__place_explain(const struct tfc__placing *place, const struct tfc__place_item *failed,
		       tfc_error *error);

#endif
