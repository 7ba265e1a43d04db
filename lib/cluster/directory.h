/*
 * The directory: all jobs of this node, running and ended, and the way to find one.
 */
#ifndef TFC_CLUSTER_DIRECTORY_H
#define TFC_CLUSTER_DIRECTORY_H

#include "agent/agent.h"
#include "base/observers.h"
#include "cluster/journal.h"
#include "cluster/maintainer.h"
#include "cluster/record.h"
#include "store/store.h"

struct tfc__directory;

/* What a record says of itself, whatever is behind it. */
uint32_t tfc__record_state(const struct tfc__record *record); /* enum tfc_job_state */
uint32_t tfc__record_generation(const struct tfc__record *record);

/* The node that an entry about a task is about; "": none yet. Borrowed from the record. */
const char *tfc__record_node(const struct tfc__record *record,
			     const struct tfc__journal_entry *entry);

/* Reads a task's log on a node from `position` (0: the oldest there is), see log/source.h.
 * NULL and *error. */
struct tfc__log_source;
struct tfc__log_source *tfc__record_log_open(struct tfc__record *record, uint32_t task,
					     const char *node, uint64_t position, tfc_error *error);

/* What is kept of ended jobs: 0 is no limit. */
struct tfc__directory_options {
	struct tfc__store *store; /* taken over, also when the directory cannot be opened */
	/* 32 bytes of the node's own, without which nothing in the store tells the values of
	 * secret_env; read before the call returns. NULL: none. */
	const uint8_t *secret;
	uint32_t retain_jobs;
	uint32_t retain_s;
	uint64_t retain_bytes; /* of their logs */
};

/*
 * Opens the directory on a store: the jobs in it are there again, and those that had not ended go
 * on under their old ids with a higher epoch. Reads it before it returns, unless it is a host's own
 * that answers later: until then submit and find give TFC_EAGAIN. TFC_ETIMEDOUT: the disk hangs.
 * nodes: where its maintainers place tasks; agent: of this machine. Both are borrowed.
 */
int tfc__directory_open(tfc_ctx *ctx, struct tfc__agent *agent, struct tfc__nodes *nodes,
			const struct tfc__directory_options *options,
			struct tfc__directory **ret_directory);

/* Kills what still runs, without an end: it goes on when the store is opened again. */
void tfc__directory_close(struct tfc__directory *directory);
struct tfc__agent *tfc__directory_agent(const struct tfc__directory *directory);

/* Embedded in one who waits for the store; called once, in dispatch. */
struct tfc__directory_answer {
	struct tfc__link link;
	void (*fn)(struct tfc__directory_answer *answer, int code, const tfc_error *error,
		   struct tfc__record *record); /* NULL unless code is 0 */
};

/* The one who waits goes away. */
void tfc__directory_unanswer(struct tfc__directory_answer *answer);

struct tfc__submit {
	const tfc_job *job; /* validated */
	const void *host_tag;
	uint64_t host_tag_len;
	struct tfc__client_key client_key; /* its digest is of what was sent, without a key */
	const char *submitter;             /* who sends it, in words, at most 128 bytes; or NULL */
	bool has_minimal_env;              /* see tfc__agent_job_info */
};

/*
 * Stores a copy of the job, and then starts its maintainer: TFC_OK with ret_id "", and the answer
 * comes. With a client key that was seen before, and the same job, that job's id is given at once
 * (the job may have been forgotten since) or, while it is not stored yet, by the answer;
 * TFC_EEXIST: it was another job, or another user's key. TFC_ESTATE while draining, TFC_EPARSE:
 * what is known of the key is damaged.
 */
int tfc__directory_submit(struct tfc__directory *directory, const struct tfc__submit *submit,
			  struct tfc__directory_answer *answer, tfc_error *error, char ret_id[17]);

/* Stops a job, as tfc__maintainer_stop. */
void tfc__directory_stop(struct tfc__record *record, uint32_t interrupt_ms, bool is_kill);

/* Forgets an ended job, or one that cannot be read, and its logs; the answer comes once that is
 * stored, the record is gone at once, and its readers are notified. TFC_ESTATE: it has not ended;
 * those of tfc__directory_find, but TFC_EPARSE. */
int tfc__directory_forget(struct tfc__directory *directory, const char *job,
			  struct tfc__directory_answer *answer, tfc_error *error);

/* The addresses of the tasks in the cluster, as last told; the caller's. TFC_ESTATE: none yet. */
int tfc__record_spec(const struct tfc__record *record, tfc_error *error, tfc_spec **ret_spec);

/* A job of which the store has something that cannot be read. */
struct tfc__damaged {
	struct tfc__link link;
	char id[17];
	char why[256]; /* a sentence that names it, and where it is */
};
const struct tfc__link *tfc__directory_damaged(const struct tfc__directory *directory);

/* What an id, a prefix of one, or a name fits on here. */
struct tfc__directory_match {
	struct tfc__record *by_name;   /* the latest that has it; NULL: none */
	struct tfc__record *by_prefix; /* one of them that can be read; NULL: none */
	struct tfc__damaged *damaged;  /* one of them that cannot; NULL: none */
	uint32_t prefixes;             /* of both kinds */
	char ids[64];                  /* of the first of these, "ID, ID, ID" */
};
void tfc__directory_match(struct tfc__directory *directory, const char *job,
			  struct tfc__directory_match *ret_match);

/* By id, unambiguous prefix of one, or name (the latest that has it). TFC_ENOENT, TFC_EINVAL,
 * TFC_EPARSE: its record is damaged. */
int tfc__directory_find(struct tfc__directory *directory, const char *job, tfc_error *error,
			struct tfc__record **ret_record);

/* Asks to be told when the directory closes; a user that goes before removes its link. */
/* Called once, event NULL, when the directory is closed, while all records are still there. */
void tfc__directory_join(struct tfc__directory *directory, struct tfc__observer *user);

const struct tfc__link *tfc__directory_records(const struct tfc__directory *directory);

/* Takes no new job, stops all there are; fn is called in dispatch once none is left. */
int tfc__directory_drain(struct tfc__directory *directory, void (*fn)(void *user), void *user,
			 tfc_error *error);

/* Takes no new job and stops the tasks of all there are, each with its grace, but ends no job: they
 * go on when the store is opened again. As tfc__directory_drain otherwise. */
int tfc__directory_suspend(struct tfc__directory *directory, void (*fn)(void *user), void *user,
			   tfc_error *error);

#endif
