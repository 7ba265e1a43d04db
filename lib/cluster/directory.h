/*
 * The directory: all jobs of this node, running and ended, found by id, prefix or name.
 */
#ifndef TFC_CLUSTER_DIRECTORY_H
#define TFC_CLUSTER_DIRECTORY_H

#include "agent/agent.h"
#include "base/observers.h"
#include "cluster/changes.h"
#include "cluster/journal.h"
#include "cluster/maintainer.h"
#include "cluster/record.h"
#include "store/store.h"

struct tfc__directory;

/* The state and generation in a record's journal. */
uint32_t tfc__record_state(const struct tfc__record *record); /* enum tfc_job_state */
uint32_t tfc__record_generation(const struct tfc__record *record);

/* The node of a task's entry; "": none yet. Borrowed from the record. */
const char *tfc__record_node(const struct tfc__record *record,
			     const struct tfc__journal_entry *entry);

/* Reads a task's log on a node from `position` (0: the oldest byte), see log/source.h. Returns NULL
 * on failure and sets *error. */
struct tfc__log_source;
struct tfc__log_source *tfc__record_log_open(struct tfc__record *record, uint32_t task,
					     const char *node, uint64_t position, tfc_error *error);

/* Limits for ended jobs; 0: no limit. */
struct tfc__directory_options {
	struct tfc__store *store; /* acquired, also when tfc__directory_open fails */
	/* 32 bytes that only this node has. They are part of the key that seals secret_env, so the
	 * store's contents alone do not reveal the values. Read before the call returns. NULL:
	 * none. */
	const uint8_t *secret;
	uint32_t retain_jobs;
	uint32_t retain_s;
	uint64_t retain_bytes; /* of their logs */
};

/*
 * Opens the directory on a store. Jobs that had not ended continue under their old ids with a
 * higher epoch. Reads the store before it returns, except a store of the host that completes
 * requests later: until then submit and find return TFC_EAGAIN. Returns TFC_ETIMEDOUT if the disk
 * hangs.
 *
 * nodes: where the maintainers place tasks; agent: of this machine. Both are borrowed.
 */
int tfc__directory_open(tfc_ctx *ctx, struct tfc__agent *agent, struct tfc__nodes *nodes,
			const struct tfc__directory_options *options,
			struct tfc__directory **ret_directory);

/* Closes the directory and kills all running tasks. No job ends: running jobs continue when the
 * store is opened again. */
void tfc__directory_close(struct tfc__directory *directory);
struct tfc__agent *tfc__directory_agent(const struct tfc__directory *directory);
struct tfc__nodes *tfc__directory_nodes(const struct tfc__directory *directory);

/* For jobs that are submitted from now on. A job from a client of another process has set all keys.
 */
void tfc__directory_set_job_defaults(struct tfc__directory *directory,
				     const struct tfc__job_defaults *defaults);

/* Embedded in a requester that waits for the store; called once, in dispatch. */
struct tfc__directory_callback {
	struct tfc__link link;
	void (*fn)(struct tfc__directory_callback *callback, int code, const tfc_error *error,
		   struct tfc__record *record); /* NULL unless code is 0 */
};

/* Cancels the callback: the requester does not wait any more. */
void tfc__directory_callback_cancel(struct tfc__directory_callback *callback);

struct tfc__submit {
	const tfc_job *job; /* validated */
	const void *host_tag;
	uint64_t host_tag_len;
	struct tfc__client_key client_key; /* its digest covers the submitted job without the key */
	/* the submitter, as text of at most 128 bytes; or NULL */
	const char *submitter;
	bool has_minimal_env; /* see tfc__agent_job_info */
};

/*
 * Stores a copy of the job and then starts its maintainer. Returns TFC_OK: if ret_id is "",
 * `callback` is called later. If the client key is known and names the same job, ret_id is that
 * job's id (the job may have been forgotten since) or, while that job is not stored yet, "".
 * Returns TFC_EEXIST if the key was used for another job or by another user, TFC_ESTATE if the node
 * shuts down, TFC_EPARSE if the key's record is damaged.
 */
int tfc__directory_submit(struct tfc__directory *directory, const struct tfc__submit *submit,
			  struct tfc__directory_callback *callback, tfc_error *error,
			  char ret_id[17]);

/* Stops a job, as tfc__maintainer_stop does. */
void tfc__directory_stop(struct tfc__record *record, uint32_t interrupt_ms, bool is_kill);

/* Forgets an ended or damaged job and its logs. The record is removed and its readers are notified
 * at once; `callback` is called when the removal is stored. Returns TFC_ESTATE if the job has not
 * ended, or an error of tfc__directory_find except TFC_EPARSE. */
int tfc__directory_forget(struct tfc__directory *directory, const char *job,
			  struct tfc__directory_callback *callback, tfc_error *error);

/* Makes a cluster spec of the tasks' last reported addresses; the caller owns it. Returns
 * TFC_ESTATE if the job was not placed yet. */
int tfc__record_spec(const struct tfc__record *record, tfc_error *error, tfc_spec **ret_spec);

/* A job whose record or journal in the store is missing or unreadable. */
struct tfc__damaged {
	struct tfc__link link;
	char id[17];
	char why[1024]; /* names the job, the damaged key and the reason */
};
const struct tfc__link *tfc__directory_damaged(const struct tfc__directory *directory);

/* The jobs that match an id, a prefix of an id, or a name. */
struct tfc__directory_match {
	/* the latest job of that name that has not ended, or else the latest one; NULL: none */
	struct tfc__record *by_name;
	uint32_t names;                /* number of jobs of that name that have not ended */
	char name_ids[64];             /* up to three of their ids, "ID, ID, ID" */
	struct tfc__record *by_prefix; /* a readable job with that prefix; NULL: none */
	struct tfc__damaged *damaged;  /* a damaged job with that prefix; NULL: none */
	uint32_t prefixes;             /* number of readable and damaged jobs with that prefix */
	char ids[64];                  /* up to three of their ids, "ID, ID, ID" */
};
void tfc__directory_match(struct tfc__directory *directory, const char *job,
			  struct tfc__directory_match *ret_match);

/* Returns TFC_OK, or the reason why jobs cannot be found yet. */
int tfc__directory_check_loaded(const struct tfc__directory *directory, tfc_error *error);

/* Finds a job by id, unambiguous prefix of an id, or name. Returns TFC_ENOENT, TFC_EINVAL
 * (ambiguous), or TFC_EPARSE (its record is damaged). */
int tfc__directory_find(struct tfc__directory *directory, const char *job, tfc_error *error,
			struct tfc__record **ret_record);

/* Adds an observer of the directory's end; an observer that ends earlier removes itself. It is
 * called once, event NULL, when the directory is closed, while all records still exist. */
void tfc__directory_join(struct tfc__directory *directory, struct tfc__observer *user);

/* What has changed in its jobs. */
struct tfc__changes *tfc__directory_changes(struct tfc__directory *directory);

const struct tfc__link *tfc__directory_records(const struct tfc__directory *directory);

/* Begins a shutdown: refuses new jobs and stops all running ones. `fn` is called in dispatch when
 * no job is running. */
int tfc__directory_drain(struct tfc__directory *directory, void (*fn)(void *user), void *user,
			 tfc_error *error);

/* Like tfc__directory_drain, but ends no job: the tasks are stopped with their grace, and the jobs
 * continue when the store is opened again. */
int tfc__directory_suspend(struct tfc__directory *directory, void (*fn)(void *user), void *user,
			   tfc_error *error);

/* Whether jobs wait until the store has written them or their events. */
bool tfc__directory_is_storing(const struct tfc__directory *directory);

#endif
