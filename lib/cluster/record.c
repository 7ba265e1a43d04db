#include "cluster/record.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/names.h"
#include "wire/msg.h"

#define FORMAT 1

struct tfc__record *tfc__record_new(void)
{
	struct tfc__record *record = calloc(1, sizeof(*record));
	if (!record)
		return NULL;
	tfc__list_init(&record->link);
	tfc__list_init(&record->answers);
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
	free(record);
}

void tfc__record_key(const char *id, const char *name, char key[TFC__RECORD_KEY_SIZE])
{
	snprintf(key, TFC__RECORD_KEY_SIZE, "jobs/%.16s/%s", id, name);
}

/* ---- writing */

/* The job with its secrets, as nonce and box. */
static int seal(const tfc_job *job, const uint8_t *seal_key, struct tfc__buf *box, tfc_error *error)
{
	char *json;
	if (!seal_key)
		return tfc__fail(error, TFC_ENOTSUP, "cluster", 0,
				 "secret_env: this node's store keeps no secrets; give their names "
				 "alone, and the values in the nodes' environment");
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

static void write_map(const struct tfc__record *record, const char *json,
		      const struct tfc__buf *box, struct tfc__buf *buf)
{
	tfc__msg_map(buf, 13);
	tfc__msg_put_u64(buf, "format", FORMAT);
	tfc__msg_put_str(buf, "id", record->id);
	tfc__msg_put_u64(buf, "epoch", record->epoch);
	tfc__msg_put_u64(buf, "journal", record->segment);
	tfc__msg_put_u64(buf, "submitted_ns", record->submitted_ns);
	tfc__msg_put_str(buf, "client_key", record->client_key.text);
	tfc__msg_put_u64(buf, "owner", record->client_key.owner);
	tfc__msg_put_bin(buf, "digest", record->client_key.digest,
			 sizeof(record->client_key.digest));
	tfc__msg_put_str(buf, "submitter", record->submitter);
	tfc__msg_put_bool(buf, "minimal_env", record->has_minimal_env);
	tfc__msg_put_bin(buf, "host_tag", record->host_tag, (size_t)record->host_tag_len);
	tfc__msg_put_str(buf, "job", json);
	tfc__msg_put_bin(buf, "sealed", box->data, box->len);
}

int tfc__record_write(const struct tfc__record *record, const uint8_t *seal_key,
		      struct tfc__buf *buf, tfc_error *error)
{
	struct tfc__buf box = {0};
	char *json;
	int code = tfc__job_has_secrets(record->job) ? seal(record->job, seal_key, &box, error)
						     : TFC_OK;
	if (code == TFC_OK && tfc_job_json(record->job, 0, &json) < 0)
		code = tfc__fail_nomem(error, "cluster");
	if (code == TFC_OK) {
		write_map(record, json, &box, buf);
		tfc_free(json);
		if (buf->is_failed)
			code = tfc__fail_nomem(error, "cluster");
	}
	tfc__buf_fini(&box);
	return code;
}

/* ---- reading */

/* A record of 0.2 has no owner but in the words for its submitter, and no digest. */
static void read_client_key(struct tfc__record *record, const msgpack_object *map)
{
	struct tfc__client_key *key = &record->client_key;
	size_t len = 0;
	const void *digest = tfc__msg_get_bin(map, "digest", &len);
	unsigned uid;
	uint32_t owner = sscanf(record->submitter, "uid %u", &uid) == 1 ? uid : geteuid();
	tfc__msg_get_text(map, "client_key", key->text, sizeof(key->text));
	key->owner = (uint32_t)tfc__msg_get_u64(map, "owner", owner);
	if (len == sizeof(key->digest))
		memcpy(key->digest, digest, len);
}

static int read_head(struct tfc__record *record, const msgpack_object *map, tfc_error *error)
{
	uint64_t format = tfc__msg_get_u64(map, "format", 0);
	if (format > FORMAT)
		return tfc__fail(error, TFC_EPARSE, "cluster", 0,
				 "the record is of a later version (format %llu)",
				 (unsigned long long)format);
	record->epoch = tfc__msg_get_u64(map, "epoch", 0);
	record->segment = (uint32_t)tfc__msg_get_u64(map, "journal", 0);
	record->is_of_0_2 = !tfc__msg_get(map, "journal");
	record->submitted_ns = tfc__msg_get_u64(map, "submitted_ns", 0);
	tfc__msg_get_text(map, "submitter", record->submitter, sizeof(record->submitter));
	record->has_minimal_env = tfc__msg_get_bool(map, "minimal_env", false);
	read_client_key(record, map);
	tfc__msg_get_text(map, "id", record->id, sizeof(record->id));
	if (format != FORMAT || !tfc__is_job_id(record->id) || record->epoch == 0)
		return tfc__fail(error, TFC_EPARSE, "cluster", 0, "this is no record of a job");
	return TFC_OK;
}

static int read_tag(struct tfc__record *record, const msgpack_object *map, tfc_error *error)
{
	size_t len = 0;
	const void *tag = tfc__msg_get_bin(map, "host_tag", &len);
	record->host_tag = malloc(len ? len : 1);
	if (!record->host_tag)
		return tfc__fail_nomem(error, "cluster");
	if (len)
		memcpy(record->host_tag, tag, len);
	record->host_tag_len = len;
	return TFC_OK;
}

static int parse_job(struct tfc__record *record, const char *json, size_t len, tfc_error *error)
{
	int code = tfc_job_parse(json, len, NULL, error, &record->job);
	if (code == TFC_OK || code == TFC_ENOMEM)
		return code;
	if (error)
		error->code = TFC_EPARSE;
	return tfc__fail_prefix(error, TFC_EPARSE, "the job in the record: ");
}

static bool unseal(const uint8_t *box, size_t len, const uint8_t *const *seal_keys, uint8_t *json)
{
	for (; *seal_keys; seal_keys++)
		if (crypto_secretbox_open_easy(json, box + crypto_secretbox_NONCEBYTES,
					       len - crypto_secretbox_NONCEBYTES, box,
					       *seal_keys) == 0)
			return true;
	return false;
}

static int read_sealed(struct tfc__record *record, const uint8_t *box, size_t len,
		       const uint8_t *const *seal_keys, tfc_error *error)
{
	size_t extra = crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES;
	char *json = len > extra ? malloc(len - extra) : NULL;
	int code = TFC_OK;
	if (len > extra && !json)
		return tfc__fail_nomem(error, "cluster");
	record->has_lost_secrets = !json || !unseal(box, len, seal_keys, (uint8_t *)json);
	if (!record->has_lost_secrets)
		code = parse_job(record, json, len - extra, error);
	if (json)
		sodium_memzero(json, len - extra);
	free(json);
	return code;
}

static int read_job(struct tfc__record *record, const msgpack_object *map,
		    const uint8_t *const *seal_keys, tfc_error *error)
{
	size_t len = 0, box_len = 0;
	const char *json = tfc__msg_get_bin(map, "job", &len);
	const uint8_t *box = tfc__msg_get_bin(map, "sealed", &box_len);
	int code = box && box_len ? read_sealed(record, box, box_len, seal_keys, error) : TFC_OK;
	if (code < 0 || record->job)
		return code;
	if (!json)
		return tfc__fail(error, TFC_EPARSE, "cluster", 0, "the record has no job");
	return parse_job(record, json, len, error);
}

int tfc__record_read(struct tfc__record *record, const void *data, size_t len,
		     const uint8_t *const *seal_keys, tfc_error *error)
{
	struct tfc__msg msg;
	int code = tfc__msg_parse(&msg, data, len, NULL, error);
	if (code < 0)
		return code;
	code = read_head(record, &msg.root, error);
	if (code == TFC_OK)
		code = read_tag(record, &msg.root, error);
	if (code == TFC_OK)
		code = read_job(record, &msg.root, seal_keys, error);
	tfc__msg_fini(&msg);
	return code;
}
