#include "cluster/client_keys.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fail.h"
#include "wire/fields.h"

#define FORMAT 1
#define NAME_BYTES 16
#define STORE_KEY_SIZE (sizeof(TFC__CLIENT_KEYS_PREFIX) + 2 * NAME_BYTES)

struct kept_key {
	struct tfc__link link;
	struct tfc__link in_bucket;
	struct tfc__client_keys *keys;
	char store_key[STORE_KEY_SIZE];
	uint32_t format;
	bool is_damaged; /* only its place in the store is known */
	struct tfc__client_key key;
	char job[17];
	uint64_t expires_ns; /* CLOCK_REALTIME */
	struct tfc__store_op *put;
};

static struct kept_key *kept_key_of(struct tfc__link *link)
{
	return tfc__container_of(link, struct kept_key, link);
}

int tfc__client_key_check(const struct tfc__client_key *known, const char *job,
			  const struct tfc__client_key *wanted, tfc_error *error)
{
	if (known->owner != wanted->owner)
		return tfc__fail(error, TFC_EEXIST, "cluster", 0,
				 "client key \"%s\" belongs to another user", wanted->text);
	if (sodium_is_zero(known->digest, sizeof(known->digest)) ||
	    memcmp(known->digest, wanted->digest, sizeof(known->digest)) == 0)
		return TFC_OK;
	return tfc__fail(error, TFC_EEXIST, "cluster", 0,
			 "client key \"%s\" was used for another job, %s; a key is for one job",
			 wanted->text, job);
}

/* Writes the name of a key's record. It depends only on the key, so that a damaged record still
 * refuses its key. */
static void client_key_store_key(const char *text, char store_key[STORE_KEY_SIZE])
{
	uint8_t hash[NAME_BYTES];
	char hex[2 * NAME_BYTES + 1];
	crypto_generichash(hash, sizeof(hash), (const uint8_t *)text, strlen(text), NULL, 0);
	sodium_bin2hex(hex, sizeof(hex), hash, sizeof(hash));
	snprintf(store_key, STORE_KEY_SIZE, "%s%s", TFC__CLIENT_KEYS_PREFIX, hex);
}

/* ---- the list */

/* The name of a record is a hash; its last two digits select the bucket. */
static unsigned client_key_bucket(const char *store_key)
{
	unsigned bucket = 0;
	for (const char *digit = store_key + STORE_KEY_SIZE - 3; *digit; digit++)
		bucket = bucket * 16 + (unsigned)(*digit <= '9' ? *digit - '0' : *digit - 'a' + 10);
	return bucket % TFC__CLIENT_KEYS_BUCKETS;
}

static void kept_key_free(struct kept_key *kept)
{
	tfc__list_remove(&kept->link);
	tfc__list_remove(&kept->in_bucket);
	kept->keys->count--;
	tfc__store_drop(kept->put);
	free(kept);
}

static struct kept_key *kept_key_new(struct tfc__client_keys *keys, const char *store_key)
{
	struct kept_key *kept = calloc(1, sizeof(*kept));
	if (!kept)
		return NULL;
	kept->keys = keys;
	snprintf(kept->store_key, sizeof(kept->store_key), "%s", store_key);
	tfc__list_append(&keys->all, &kept->link);
	tfc__list_append(&keys->buckets[client_key_bucket(store_key)], &kept->in_bucket);
	keys->count++;
	return kept;
}

static void kept_key_remove(struct kept_key *kept)
{
	tfc__store_remove(kept->keys->store, kept->store_key, NULL, NULL);
	kept_key_free(kept);
}

static struct kept_key *kept_key_find(const struct tfc__client_keys *keys, const char *store_key)
{
	TFC__LIST_EACH (link, &keys->buckets[client_key_bucket(store_key)]) {
		struct kept_key *kept = tfc__container_of(link, struct kept_key, in_bucket);
		if (strcmp(kept->store_key, store_key) == 0)
			return kept;
	}
	return NULL;
}

/* Removes expired keys, and sets the timer for the next one. */
static void client_keys_expire(struct tfc__client_keys *keys)
{
	uint64_t now = tfc__wall();
	TFC__LIST_EACH (link, &keys->all) {
		struct kept_key *kept = kept_key_of(link);
		if (kept->expires_ns > now) {
			tfc__timer_set(&keys->expiry, tfc__now() + (kept->expires_ns - now));
			return;
		}
		kept_key_remove(kept);
	}
	tfc__timer_cancel(&keys->expiry);
}

static void client_keys_on_expiry(struct tfc__timer *timer)
{
	client_keys_expire(tfc__container_of(timer, struct tfc__client_keys, expiry));
}

void tfc__client_keys_init(struct tfc__client_keys *keys, tfc_ctx *ctx, struct tfc__store *store)
{
	*keys = (struct tfc__client_keys){.ctx = ctx,
					  .store = store,
					  .max = TFC__CLIENT_KEYS_MAX,
					  .keep_ns = TFC__CLIENT_KEY_NS};
	tfc__list_init(&keys->all);
	for (size_t i = 0; i < TFC__CLIENT_KEYS_BUCKETS; i++)
		tfc__list_init(&keys->buckets[i]);
	tfc__timer_init(&keys->expiry, ctx, client_keys_on_expiry);
}

void tfc__client_keys_fini(struct tfc__client_keys *keys)
{
	tfc__timer_cancel(&keys->expiry);
	TFC__LIST_EACH (link, &keys->all)
		kept_key_free(kept_key_of(link));
}

/* ---- storing a key */

static void kept_key_on_put(void *user, int code, const tfc_store_value *values, uint32_t count,
			    const tfc_error *error)
{
	struct kept_key *kept = user;
	kept->put = NULL;
	if (code < 0)
		tfc__log(kept->keys->ctx, TFC_LOG_WARNING, "cluster", kept->job,
			 "cannot store the job's client key; this node forgets it when it ends: %s",
			 error->text);
}

#define KEPT(name, type, member) TFC__FIELD(struct kept_key, name, type, member, TFC__V0_3)
static const struct tfc__field kept_rows[] = {
	KEPT("format", TFC__UINT, format),   KEPT("client_key", TFC__TEXT, key.text),
	KEPT("owner", TFC__UINT, key.owner), KEPT("digest", TFC__DIGEST, key.digest),
	KEPT("job", TFC__TEXT, job),         KEPT("expires_ns", TFC__UINT, expires_ns),
};
static const struct kept_key no_key = {.key.owner = UINT32_MAX};
static const struct tfc__fields kept_fields = TFC__FIELDS(kept_rows, struct kept_key, &no_key);

static void kept_key_store(struct kept_key *kept)
{
	struct tfc__buf buf = {0};
	kept->format = FORMAT;
	tfc__fields_write(&buf, &kept_fields, kept);
	if (!buf.is_failed)
		kept->put = tfc__store_put(kept->keys->store, kept->store_key, buf.data, buf.len,
					   UINT64_MAX, kept_key_on_put, kept);
	if (!kept->put) {
		tfc_error error = TFC_ERROR_INIT;
		tfc__fail_nomem(&error, "cluster");
		kept_key_on_put(kept, error.code, NULL, 0, &error);
	}
	tfc__buf_fini(&buf);
}

static void client_keys_limit(struct tfc__client_keys *keys)
{
	if (keys->count <= keys->max)
		return;
	struct kept_key *oldest = kept_key_of(keys->all.next);
	if (!keys->is_full_logged)
		tfc__log(keys->ctx, TFC_LOG_WARNING, "cluster", oldest->job,
			 "more than %u jobs were removed within a day; the oldest client keys are "
			 "forgotten early",
			 keys->max);
	keys->is_full_logged = true;
	kept_key_remove(oldest);
}

int tfc__client_keys_keep(struct tfc__client_keys *keys, const struct tfc__client_key *key,
			  const char *job)
{
	char store_key[STORE_KEY_SIZE];
	if (!key->text[0])
		return TFC_OK;
	client_key_store_key(key->text, store_key);
	/* from an earlier attempt to forget the job */
	struct kept_key *kept = kept_key_find(keys, store_key);
	if (!kept && !(kept = kept_key_new(keys, store_key)))
		return TFC_ENOMEM;
	tfc__store_drop(kept->put);
	kept->put = NULL;
	kept->is_damaged = false;
	kept->key = *key;
	snprintf(kept->job, sizeof(kept->job), "%s", job);
	kept->expires_ns = tfc__wall() + keys->keep_ns;
	tfc__list_remove(&kept->link);
	tfc__list_append(&keys->all, &kept->link);
	kept_key_store(kept);
	client_keys_limit(keys);
	client_keys_expire(keys);
	return TFC_OK;
}

int tfc__client_keys_find(const struct tfc__client_keys *keys, const struct tfc__client_key *wanted,
			  tfc_error *error, char ret_job[17])
{
	char store_key[STORE_KEY_SIZE];
	client_key_store_key(wanted->text, store_key);
	const struct kept_key *kept = kept_key_find(keys, store_key);
	if (!kept)
		return TFC_ENOENT;
	if (kept->is_damaged)
		return tfc__fail(error, TFC_EPARSE, "cluster", 0,
				 "cannot find out whether client key \"%s\" created a job: \"%s\" "
				 "is damaged",
				 wanted->text, store_key);
	int code = tfc__client_key_check(&kept->key, kept->job, wanted, error);
	if (code == TFC_OK)
		memcpy(ret_job, kept->job, sizeof(kept->job));
	return code;
}

/* ---- keys of the previous incarnation */

static void kept_key_read(struct kept_key *kept, const tfc_store_value *value)
{
	struct tfc__reader reader = {.ahead_ns = 0};
	struct tfc__msg msg;
	kept->is_damaged = true;
	if (value->data && tfc__msg_parse(&msg, value->data, value->len, NULL, NULL) == TFC_OK) {
		int code = tfc__fields_read(&reader, &kept_fields, &msg.root, NULL, kept);
		kept->is_damaged = code < 0 || kept->format != FORMAT || !kept->key.text[0] ||
				   !kept->job[0] || kept->key.owner == no_key.key.owner;
		tfc__reader_fini(&reader);
		tfc__msg_fini(&msg);
	}
	if (kept->is_damaged)
		kept->expires_ns = tfc__wall() + kept->keys->keep_ns;
}

static int compare_expiry(const void *one, const void *other)
{
	const struct kept_key *a = *(struct kept_key *const *)one;
	const struct kept_key *b = *(struct kept_key *const *)other;
	return a->expires_ns < b->expires_ns ? -1 : a->expires_ns > b->expires_ns;
}

static int client_keys_sort(struct tfc__client_keys *keys)
{
	struct kept_key **all = calloc(keys->count ? keys->count : 1, sizeof(struct kept_key *));
	uint32_t count = 0;
	if (!all)
		return TFC_ENOMEM;
	TFC__LIST_EACH (link, &keys->all)
		all[count++] = kept_key_of(link);
	qsort(all, count, sizeof(struct kept_key *), compare_expiry);
	for (uint32_t i = 0; i < count; i++) {
		tfc__list_remove(&all[i]->link);
		tfc__list_append(&keys->all, &all[i]->link);
	}
	free(all);
	return TFC_OK;
}

int tfc__client_keys_restore(struct tfc__client_keys *keys, const tfc_store_value *values,
			     uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct kept_key *kept;
		if (strlen(values[i].key) != STORE_KEY_SIZE - 1)
			continue;
		if (!(kept = kept_key_new(keys, values[i].key)))
			return TFC_ENOMEM;
		kept_key_read(kept, &values[i]);
		if (kept->is_damaged)
			tfc__log(keys->ctx, TFC_LOG_ERROR, "cluster", "",
				 "\"%s\" is damaged; its client key is refused for a day",
				 values[i].key);
	}
	int code = client_keys_sort(keys);
	client_keys_expire(keys);
	return code;
}
