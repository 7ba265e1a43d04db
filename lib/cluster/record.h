/*
 * A job as it is kept: who asked for what, and the term of its maintainer. How it stands is in its
 * journal.
 */
#ifndef TFC_CLUSTER_RECORD_H
#define TFC_CLUSTER_RECORD_H

#include "base/buf.h"
#include "bundle/cache.h"
#include "cluster/client_keys.h"
#include "cluster/journal.h"
#include "cluster/keeper.h"
#include "job/job.h"
#include "store/store.h"
#include <stdbool.h>
#include <stdint.h>

struct tfc__directory;
struct tfc__maintainer;

#define TFC__SUBMITTER_SIZE 129

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
	struct tfc__client_key client_key;
	char submitter[TFC__SUBMITTER_SIZE]; /* who sent it, in words, or "" */
	bool has_minimal_env;                /* its tasks begin with a minimal environment */
	struct tfc__journal journal;
	struct tfc__maintainer *maintainer; /* NULL: it was read from the store and has ended, or
					       its new term is not stored yet */
	bool has_lost_secrets;              /* sealed with a key that is not there any more */
	bool is_ended;
	struct tfc__bundle *bundle; /* used until it has ended, if the job names one; or NULL */
	/* The directory's own. */
	struct tfc__keeper keeper;
	struct tfc__store_op *put; /* the record is being written or removed */
	tfc__store_fn put_fn;      /* called once it is written */
	struct tfc__buf value;     /* to be written, behind the segment that it names */
	uint8_t written[16];       /* BLAKE2b of the record that is being written, or was */
	tfc_error *refusal;        /* of the submit, until the record is not in the store */
	uint32_t segment;          /* number of the first segment of its latest term */
	bool is_of_0_2;            /* it was read, and does not say so */
	bool is_damaged;  /* its journal is, or its secrets are: in the store it stays as it is */
	uint64_t version; /* of the record in the store; 0: not there */
	struct tfc__link answers; /* who waits for that: struct tfc__directory_answer */
	struct tfc__timer retry;
	bool is_stop_waiting; /* until there is a maintainer */
	bool is_kill;
	uint32_t interrupt_ms;
};

/* An empty one, which is in no list; NULL when out of memory. */
struct tfc__record *tfc__record_new(void);
void tfc__record_free(struct tfc__record *record); /* its maintainer and keeper are closed */

/*
 * What is stored. Values of secret_env are sealed with the key (crypto_secretbox); without one
 * (NULL) a job that has some is refused: TFC_ENOTSUP. TFC_ENOMEM.
 */
int tfc__record_write(const struct tfc__record *record, const uint8_t *seal_key,
		      struct tfc__buf *buf, tfc_error *error);

/* Fills a new record. seal_keys: those that are tried, NULL-terminated; when none fits, the values
 * of secret_env are missing and has_lost_secrets is set. TFC_EPARSE: not one of ours, or of a later
 * version; TFC_ENOMEM. */
int tfc__record_read(struct tfc__record *record, const void *data, size_t len,
		     const uint8_t *const *seal_keys, tfc_error *error);

/* "jobs/ID/record" and the like. */
#define TFC__RECORD_KEY_SIZE 64
void tfc__record_key(const char *id, const char *name, char key[TFC__RECORD_KEY_SIZE]);

#endif
