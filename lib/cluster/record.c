#include "cluster/record.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/names.h"
#include "wire/fields.h"

#define FORMAT 1

struct tfc__record *tfc__record_new(void)
{
	struct tfc__record *record = calloc(1, sizeof(*record));
	if (!record)
		return NULL;
	tfc__list_init(&record->link);
	tfc__list_init(&record->callbacks);
	if (tfc__journal_init(&record->journal) < 0) {
		free(record);
		return NULL;
	}
	return record;
}

void tfc__record_free(struct tfc__record *record)
{
	if (!record)
		return;
	tfc__list_remove(&record->link);
	tfc__timer_cancel(&record->retry);
	tfc__journal_fini(&record->journal);
	tfc__bundle_leave(record->bundle);
	tfc__buf_fini(&record->value);
	tfc_job_free(record->job);
	free(record->host_tag);
	free(record->refusal);
	free(record->damaged);
	free(record);
}

int tfc__record_set_host_tag(struct tfc__record *record, const void *tag, uint64_t len)
{
	record->host_tag = malloc(len ? (size_t)len : 1);
	if (!record->host_tag)
		return TFC_ENOMEM;
	if (len)
		memcpy(record->host_tag, tag, (size_t)len);
	record->host_tag_len = len;
	return TFC_OK;
}

void tfc__record_key(const char *id, const char *name, char key[TFC__RECORD_KEY_SIZE])
{
	snprintf(key, TFC__RECORD_KEY_SIZE, "jobs/%.16s/%s", id, name);
}

/* ---- fields: of the record itself, and of values that exist only while it is encoded */

#define RECORD(...) TFC__FIELD(struct tfc__record, __VA_ARGS__)
static const struct tfc__field record_rows[] = {
	RECORD("id", TFC__TEXT, id, TFC__V0_2),
	RECORD("epoch", TFC__UINT, epoch, TFC__V0_2),
	RECORD("journal", TFC__UINT, segment, TFC__V0_3),
	RECORD("submitted_ns", TFC__UINT, submitted_ns, TFC__V0_2),
	RECORD("client_key", TFC__TEXT, client_key.text, TFC__V0_2),
	RECORD("owner", TFC__UINT, client_key.owner, TFC__V0_3),
	RECORD("digest", TFC__DIGEST, client_key.digest, TFC__V0_3),
	RECORD("submitter", TFC__TEXT, submitter, TFC__V0_2),
	RECORD("minimal_env", TFC__BOOL, has_minimal_env, TFC__V0_3),
};
/* 0.2 stored no segment, and the owner only in the submitter's text. */
static const struct tfc__record of_0_2 = {
	.segment = UINT32_MAX,
	.client_key.owner = UINT32_MAX,
};
static const struct tfc__fields record_fields = TFC__FIELDS(record_rows, struct tfc__record,
							    &of_0_2);

struct stored {
	uint32_t format;
	const void *host_tag;
	uint64_t host_tag_len;
	const char *job; /* JSON */
	const void *sealed;
	uint64_t sealed_len;
};

#define STORED(...) TFC__FIELD(struct stored, __VA_ARGS__)
static const struct tfc__field stored_rows[] = {
	STORED("format", TFC__UINT, format, TFC__V0_2),
	STORED("host_tag", TFC__BYTES, host_tag, TFC__V0_2,
	       .count = offsetof(struct stored, host_tag_len)),
	STORED("job", TFC__STRING, job, TFC__V0_2),
	STORED("sealed", TFC__BYTES, sealed, TFC__V0_2,
	       .count = offsetof(struct stored, sealed_len)),
};
static const struct tfc__fields stored_fields = TFC__FIELDS(stored_rows, struct stored, NULL);

/* ---- writing */

/* The job with its secrets, encrypted: the nonce, then the box. */
static int record_seal(const tfc_job *job, const uint8_t *seal_key, struct tfc__buf *box,
		       tfc_error *error)
{
	char *json;
	if (!seal_key)
		return tfc__fail(error, TFC_ENOTSUP, "cluster", 0,
				 "secret_env: this node's store cannot keep secrets; give only the "
				 "names, and set the values in the environment of the nodes");
	if (tfc_job_json(job, TFC_JSON_SECRETS, &json) < 0)
		return tfc__fail_nomem(error, "cluster");
	size_t len = strlen(json);
	size_t size = crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES + len;
	uint8_t *at = (uint8_t *)tfc__buf_reserve(box, size);
	if (at) {
		randombytes_buf(at, crypto_secretbox_NONCEBYTES);
		crypto_secretbox_easy(at + crypto_secretbox_NONCEBYTES, (const uint8_t *)json, len,
				      at, seal_key);
		tfc__buf_grow(box, size);
	}
	sodium_memzero(json, len);
	tfc_free(json);
	return at ? TFC_OK : tfc__fail_nomem(error, "cluster");
}

int tfc__record_write(const struct tfc__record *record, const uint8_t *seal_key,
		      struct tfc__buf *buf, tfc_error *error)
{
	struct tfc__buf box = {0};
	char *json;
	int code = tfc__job_has_secrets(record->job)
			   ? record_seal(record->job, seal_key, &box, error)
			   : TFC_OK;
	if (code == TFC_OK && tfc_job_json(record->job, 0, &json) < 0)
		code = tfc__fail_nomem(error, "cluster");
	if (code == TFC_OK) {
		const struct stored stored = {
			.format = FORMAT,
			.host_tag = record->host_tag,
			.host_tag_len = record->host_tag_len,
			.job = json,
			.sealed = box.data,
			.sealed_len = box.len,
		};
		tfc__msg_map(buf, tfc__fields_pairs(&record_fields, record) +
					  tfc__fields_pairs(&stored_fields, &stored));
		tfc__fields_put(buf, &stored_fields, &stored);
		tfc__fields_put(buf, &record_fields, record);
		tfc_free(json);
		if (buf->is_failed)
			code = tfc__fail_nomem(error, "cluster");
	}
	tfc__buf_fini(&box);
	return code;
}

/* ---- reading */

static int record_check_format(uint32_t format, tfc_error *error)
{
	if (format == FORMAT)
		return TFC_OK;
	if (format > FORMAT)
		return tfc__fail(error, TFC_EPARSE, "cluster", 0,
				 "the record was written by a later version of libtfcluster "
				 "(format %u); use that version",
				 format);
	return tfc__fail(error, TFC_EPARSE, "cluster", 0, "not a record of a job");
}

static int record_check(struct tfc__record *record, tfc_error *error)
{
	unsigned uid;
	if (!tfc__is_job_id(record->id) || record->epoch == 0)
		return tfc__fail(error, TFC_EPARSE, "cluster", 0, "not a record of a job");
	record->is_of_0_2 = record->segment == of_0_2.segment;
	if (record->is_of_0_2)
		record->segment = 0;
	if (record->client_key.owner == of_0_2.client_key.owner)
		record->client_key.owner = sscanf(record->submitter, "uid %u", &uid) == 1
						   ? uid
						   : geteuid();
	return TFC_OK;
}

static int record_parse_job(struct tfc__record *record, const char *json, size_t len,
			    tfc_error *error)
{
	int code = tfc__job_parse_stored(json, len, NULL, error, &record->job);
	if (code == TFC_OK || code == TFC_ENOMEM)
		return code;
	if (error)
		error->code = TFC_EPARSE;
	return tfc__fail_prefix(error, TFC_EPARSE, "the job in the record: ");
}

static bool record_unseal(const uint8_t *box, size_t len, const uint8_t *const *seal_keys,
			  uint8_t *json)
{
	for (; *seal_keys; seal_keys++)
		if (crypto_secretbox_open_easy(json, box + crypto_secretbox_NONCEBYTES,
					       len - crypto_secretbox_NONCEBYTES, box,
					       *seal_keys) == 0)
			return true;
	return false;
}

static int record_read_sealed(struct tfc__record *record, const uint8_t *box, size_t len,
			      const uint8_t *const *seal_keys, tfc_error *error)
{
	size_t extra = crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES;
	char *json = len > extra ? malloc(len - extra) : NULL;
	int code = TFC_OK;
	if (len > extra && !json)
		return tfc__fail_nomem(error, "cluster");
	record->has_lost_secrets = !json || !record_unseal(box, len, seal_keys, (uint8_t *)json);
	if (!record->has_lost_secrets)
		code = record_parse_job(record, json, len - extra, error);
	if (json)
		sodium_memzero(json, len - extra);
	free(json);
	return code;
}

static int record_read_job(struct tfc__record *record, const struct stored *stored,
			   const uint8_t *const *seal_keys, tfc_error *error)
{
	int code = stored->sealed_len
			   ? record_read_sealed(record, stored->sealed, (size_t)stored->sealed_len,
						seal_keys, error)
			   : TFC_OK;
	if (code < 0 || record->job)
		return code;
	if (!stored->job)
		return tfc__fail(error, TFC_EPARSE, "cluster", 0, "the record has no job");
	return record_parse_job(record, stored->job, strlen(stored->job), error);
}

int tfc__record_read(struct tfc__record *record, const void *data, size_t len,
		     const uint8_t *const *seal_keys, tfc_error *error)
{
	struct tfc__reader reader = {.ahead_ns = 0};
	struct stored stored;
	struct tfc__msg msg;
	int code = tfc__msg_parse(&msg, data, len, NULL, error);
	if (code < 0)
		return code;
	code = tfc__fields_read(&reader, &stored_fields, &msg.root, error, &stored);
	if (code == TFC_OK)
		code = record_check_format(stored.format, error);
	if (code == TFC_OK)
		code = tfc__fields_read(&reader, &record_fields, &msg.root, error, record);
	if (code == TFC_OK)
		code = record_check(record, error);
	if (code == TFC_OK &&
	    tfc__record_set_host_tag(record, stored.host_tag, stored.host_tag_len) < 0)
		code = tfc__fail_nomem(error, "cluster");
	if (code == TFC_OK)
		code = record_read_job(record, &stored, seal_keys, error);
	tfc__reader_fini(&reader);
	tfc__msg_fini(&msg);
	return code;
}
