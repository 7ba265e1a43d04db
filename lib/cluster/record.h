/*
 * The record of a job: its submit and the epoch of its maintainer. The journal has its state.
 */
#ifndef TFC_CLUSTER_RECORD_H
#define TFC_CLUSTER_RECORD_H

#include "base/buf.h"
#include "bundle/cache.h"
#include "cluster/changes.h"
#include "cluster/client_keys.h"
#include "cluster/journal.h"
#include "cluster/keeper.h"
#include "job/job.h"
#include "store/store.h"
#include <stdbool.h>
#include <stdint.h>

struct tfc__damaged;
struct tfc__directory;
struct tfc__maintainer;

#define TFC__SUBMITTER_SIZE 129

/* One job. The gateway reads the fields; only this module changes them. */
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
	char submitter[TFC__SUBMITTER_SIZE]; /* as text, or "" */
	bool has_minimal_env;                /* its tasks begin with a minimal environment */
	struct tfc__journal journal;
	/* NULL: the job was loaded and has ended, or its new epoch is not stored yet */
	struct tfc__maintainer *maintainer;
	/* sealed with a key that does not exist any more */
	bool has_lost_secrets;
	bool is_ended;
	bool is_log_counted; /* `log_bytes` is set */
	uint64_t log_bytes;  /* size of the logs of an ended job, as far as the journal knows */
	struct tfc__bundle *bundle; /* in use until the job has ended; NULL: it names none */
	/* In the directory's changes, once the job is stored; and what was noted there. */
	struct tfc__change appeared, changed;
	struct tfc__observer journal_watch;
	uint32_t noted_state;
	uint32_t noted_generation;
	uint64_t noted_restarts;
	/* Used only by this module. */
	struct tfc__keeper keeper;
	struct tfc__store_op *put; /* the record is being read, written or removed */
	tfc__store_fn put_fn;      /* called when the record is written */
	struct tfc__buf value;     /* the encoded record, written after its segment */
	/* BLAKE2b of the last record that was written or is being written */
	uint8_t written[16];
	/* why the submit is refused, until the record is removed from the store */
	tfc_error *refusal;
	uint32_t segment; /* number of the first segment of the latest epoch */
	bool is_of_0_2;   /* loaded from a record that does not name a segment */
	/* its journal or its secrets cannot be read; its values in the store are not changed */
	bool is_damaged;
	struct tfc__damaged *damaged; /* listed again if the record is not removed; or NULL */
	uint64_t version;             /* of the record in the store; 0: not stored */
	/* requesters that wait for the store: struct tfc__directory_callback */
	struct tfc__link callbacks;
	struct tfc__timer retry;
	bool is_stop_waiting; /* stop requested before there is a maintainer */
	bool is_kill;
	uint32_t interrupt_ms;
};

/* Makes an empty record, which is in no list; NULL when out of memory. */
struct tfc__record *tfc__record_new(void);
void tfc__record_free(struct tfc__record *record); /* its maintainer and keeper must be closed */

/* Copies the tag. TFC_ENOMEM. */
int tfc__record_set_host_tag(struct tfc__record *record, const void *tag, uint64_t len);

/*
 * Encodes a record for the store. The values of secret_env are sealed with the key
 * (crypto_secretbox). Without a key (NULL) a job with secrets is refused: TFC_ENOTSUP. TFC_ENOMEM.
 */
int tfc__record_write(const struct tfc__record *record, const uint8_t *seal_key,
		      struct tfc__buf *buf, tfc_error *error);

/* Fills a new record. seal_keys: the keys to try, NULL-terminated. If none fits, the values of
 * secret_env are missing and has_lost_secrets is set. Returns TFC_EPARSE (not a record, or one of a
 * later version) or TFC_ENOMEM. */
int tfc__record_read(struct tfc__record *record, const void *data, size_t len,
		     const uint8_t *const *seal_keys, tfc_error *error);

/* Writes a key of the store, such as "jobs/ID/record". */
#define TFC__RECORD_KEY_SIZE 64
void tfc__record_key(const char *id, const char *name, char key[TFC__RECORD_KEY_SIZE]);

#endif
