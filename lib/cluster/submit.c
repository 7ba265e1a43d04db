/* Submitting and forgetting jobs: neither is reported before it is stored. */
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "cluster/internal.h"

static void record_on_segment(void *user, int code, const tfc_store_value *values, uint32_t count,
			      const tfc_error *error)
{
	struct tfc__record *record = user;
	char key[TFC__RECORD_KEY_SIZE];
	tfc_error why = *error;
	record->put = NULL;
	if (code == TFC_OK) {
		tfc__record_key(record->id, "record", key);
		record->put = tfc__store_put(record->directory->store, key, record->value.data,
					     record->value.len, record->version, record->put_fn,
					     record);
		code = record->put ? TFC_OK : tfc__fail_nomem(&why, "cluster");
	}
	tfc__buf_fini(&record->value);
	if (code < 0)
		record->put_fn(record, code, NULL, 0, &why);
}

struct tfc__store_op *tfc__record_put(struct tfc__record *record, tfc__store_fn fn,
				      tfc_error *error)
{
	struct tfc__store *store = record->directory->store;
	struct tfc__store_op *op = NULL;
	record->segment = record->journal.added;
	record->put_fn = fn;
	if (tfc__record_write(record, record->directory->seal_keys[0], &record->value, error) ==
	    TFC_OK) {
		crypto_generichash(record->written, sizeof(record->written),
				   (const uint8_t *)record->value.data, record->value.len, NULL, 0);
		op = tfc__keeper_begin(store, record->id, record->segment, record_on_segment,
				       record);
		if (!op)
			tfc__fail_nomem(error, "cluster");
	}
	if (!op)
		tfc__buf_fini(&record->value);
	return op;
}

struct tfc__store_op *tfc__record_get(struct tfc__record *record, tfc__store_fn fn)
{
	char key[TFC__RECORD_KEY_SIZE];
	tfc__record_key(record->id, "record", key);
	return tfc__store_get(record->directory->store, key, fn, record);
}

struct tfc__store_op *tfc__record_remove(struct tfc__record *record, tfc__store_fn fn)
{
	char key[TFC__RECORD_KEY_SIZE];
	tfc__record_key(record->id, "", key);
	return tfc__store_remove(record->directory->store, key, fn, record);
}

/* ---- submit */

static int submit_copy(struct tfc__record *record, const struct tfc__submit *submit,
		       const struct tfc__client_key *key, tfc_error *error)
{
	if (tfc__random_hex(record->id) < 0)
		return tfc__fail_errno(error, "cluster", errno,
				       "cannot get random bytes for a job id");
	record->job = tfc__job_copy(submit->job);
	if (!record->job ||
	    tfc__record_set_host_tag(record, submit->host_tag, submit->host_tag_len) < 0)
		return tfc__fail_nomem(error, "cluster");
	tfc__job_set_defaults(record->job, &record->directory->job_defaults);
	record->client_key = *key;
	if (submit->submitter)
		strncpy(record->submitter, submit->submitter, sizeof(record->submitter) - 1);
	record->has_minimal_env = submit->has_minimal_env;
	record->epoch = 1;
	record->submitted_ns = tfc__wall();
	return TFC_OK;
}

/* Records of 0.2 may have the same key for two users; the requester's own is preferred. */
static struct tfc__record *record_find_by_key(const struct tfc__link *records,
					      const struct tfc__client_key *key)
{
	struct tfc__record *found = NULL;
	TFC__LIST_EACH (link, records) {
		struct tfc__record *record = record_of(link);
		if (strcmp(record->client_key.text, key->text) == 0 &&
		    (!found || record->client_key.owner == key->owner))
			found = record;
	}
	return found;
}

/* Seals the digest, so that the stored digest cannot be used to guess the values of secret_env. */
static struct tfc__client_key seal_digest(const struct tfc__directory *directory,
					  const struct tfc__client_key *key)
{
	const uint8_t *seal_key = directory->seal_keys[0];
	struct tfc__client_key sealed = *key;
	crypto_generichash(sealed.digest, sizeof(sealed.digest), key->digest, sizeof(key->digest),
			   seal_key, seal_key ? TFC__STORE_SEAL_SIZE : 0);
	return sealed;
}

static void submit_respond_refused(struct tfc__record *record)
{
	tfc_error nomem;
	const tfc_error *why = record->refusal;
	if (!why) {
		tfc__fail_nomem(&nomem, "cluster");
		why = &nomem;
	}
	tfc__record_respond(record, why->code, why);
}

static void submit_end_refused(struct tfc__record *record)
{
	tfc__directory_count_end(record->directory);
	submit_respond_refused(record);
	tfc__record_close(record);
}

/* Requesters do not wait for memory. */
static void submit_retry_refusal(struct tfc__record *record, int code)
{
	if (code == TFC_ENOMEM)
		submit_respond_refused(record);
	tfc__timer_set(&record->retry, tfc__now() + TFC__STORE_RETRY_NS);
}

static void submit_on_withdrawn(void *user, int code, const tfc_store_value *values, uint32_t count,
				const tfc_error *error)
{
	struct tfc__record *record = user;
	record->put = NULL;
	if (code == TFC_OK) {
		submit_end_refused(record);
		return;
	}
	tfc__log(record->directory->ctx, TFC_LOG_ERROR, "cluster", record->id,
		 "cannot remove the refused job, which may be stored although the store reported a "
		 "failure; retrying: %s",
		 error->text);
	submit_retry_refusal(record, code);
}

static void submit_on_read(void *user, int code, const tfc_store_value *values, uint32_t count,
			   const tfc_error *error)
{
	struct tfc__record *record = user;
	record->put = NULL;
	if (code == TFC_ENOENT) {
		/* its journal; if this fails, the next start removes it */
		tfc__record_remove(record, NULL);
		submit_end_refused(record);
		return;
	}
	record->put = tfc__record_remove(record, submit_on_withdrawn);
	if (!record->put)
		submit_retry_refusal(record, TFC_ENOMEM);
}

static void submit_check_stored(struct tfc__timer *timer)
{
	struct tfc__record *record = tfc__container_of(timer, struct tfc__record, retry);
	record->put = tfc__record_get(record, submit_on_read);
	if (!record->put)
		submit_retry_refusal(record, TFC_ENOMEM);
}

/* A write that failed may have been done all the same. The requester gets its response once the
 * record is not in the store: a refused job must not run after the next start. */
static void submit_refuse(struct tfc__record *record, const tfc_error *error)
{
	record->refusal = malloc(sizeof(*error));
	if (record->refusal)
		*record->refusal = *error;
	tfc__timer_init(&record->retry, record->directory->ctx, submit_check_stored);
	submit_check_stored(&record->retry);
}

static void submit_on_stored(void *user, int code, const tfc_store_value *values, uint32_t count,
			     const tfc_error *error)
{
	struct tfc__record *record = user;
	struct tfc__directory *directory = record->directory;
	tfc_error why = *error;
	record->put = NULL;
	if (code == TFC_OK) {
		record->version = values[0].version;
		tfc__list_remove(&record->link);
		tfc__list_append(&directory->records, &record->link);
		code = tfc__epoch_begin(record, &why);
		if (code == TFC_OK) {
			tfc__record_appear(record);
			tfc__record_respond(record, TFC_OK, NULL);
			return;
		}
		tfc__keeper_abandon(&record->keeper);
		tfc__list_remove(&record->link);
		tfc__list_append(&directory->submits, &record->link);
	}
	submit_refuse(record, &why);
}

/* A bundle given as a path is read when the job begins; an uploaded one must be in the cache. */
static int submit_check_bundle(struct tfc__record *record, tfc_error *error)
{
	const char *name = record->job->bundle;
	if (!name || !tfc__bundle_named(name) || tfc__record_keep_bundle(record))
		return TFC_OK;
	return tfc__fail(error, TFC_ENOENT, "cluster", 0, "bundle: \"%.80s\" is not on this node",
			 name);
}

static int submit_new(struct tfc__directory *directory, const struct tfc__submit *submit,
		      const struct tfc__client_key *key, struct tfc__directory_callback *callback,
		      tfc_error *error)
{
	struct tfc__record *record = tfc__record_new();
	if (!record)
		return tfc__fail_nomem(error, "cluster");
	record->directory = directory;
	int code = submit_copy(record, submit, key, error);
	if (code == TFC_OK)
		code = submit_check_bundle(record, error);
	tfc_error why = TFC_ERROR_INIT;
	if (code == TFC_OK && !(record->put = tfc__record_put(record, submit_on_stored, &why))) {
		code = why.code;
		if (error)
			*error = why;
	}
	if (code < 0) {
		tfc__record_free(record);
		return code;
	}
	tfc__list_append(&directory->submits, &record->link);
	tfc__list_append(&record->callbacks, &callback->link);
	directory->running++;
	return TFC_OK;
}

/* Finds the job that was made for a key. Returns TFC_OK with its id, or "" while it is not stored
 * yet; TFC_ENOENT: there is none. */
static int submit_find_existing(struct tfc__directory *directory, const struct tfc__client_key *key,
				struct tfc__directory_callback *callback, char id[17],
				tfc_error *error)
{
	struct tfc__record *stored = record_find_by_key(&directory->records, key);
	struct tfc__record *waiting = record_find_by_key(&directory->submits, key);
	struct tfc__record *made = stored ? stored : waiting;
	if (!made)
		return tfc__client_keys_find(&directory->client_keys, key, error, id);
	int code = tfc__client_key_check(&made->client_key, made->id, key, error);
	if (code == TFC_OK && stored)
		memcpy(id, stored->id, sizeof(stored->id));
	else if (code == TFC_OK)
		tfc__list_append(&waiting->callbacks, &callback->link);
	return code;
}

int tfc__directory_submit(struct tfc__directory *directory, const struct tfc__submit *submit,
			  struct tfc__directory_callback *callback, tfc_error *error,
			  char ret_id[17])
{
	const struct tfc__client_key key = seal_digest(directory, &submit->client_key);
	int code = tfc__directory_check_loaded(directory, error);
	if (code < 0)
		return code;
	tfc__list_init(&callback->link);
	ret_id[0] = '\0';
	code = key.text[0] ? submit_find_existing(directory, &key, callback, ret_id, error)
			   : TFC_ENOENT;
	if (code != TFC_ENOENT)
		return code;
	if (directory->is_draining)
		return tfc__fail(error, TFC_ESTATE, "cluster", 0,
				 "the node is draining and accepts no new job");
	return submit_new(directory, submit, &key, callback, error);
}

/* ---- forget */

static bool journal_has_node(const struct tfc__journal *journal, const char *node)
{
	for (uint32_t i = 0; i < journal->added; i++)
		if (strcmp(journal->entries[i].node, node) == 0)
			return true;
	return false;
}

/* This node may also have opened a job for a task that it then refused: the journal shows nothing
 * of that, and no other node asks for the job. */
static void record_forget_logs(const struct tfc__record *record)
{
	TFC__LIST_EACH (link, tfc__nodes_all(record->directory->nodes)) {
		const struct tfc__node_entry *node = tfc__container_of(link, struct tfc__node_entry,
								       link);
		struct tfc__agent_handle agent = tfc__nodes_agent(node);
		bool is_self = node->member && node->member->is_self;
		bool may_have_logs = record->is_damaged || is_self ||
				     journal_has_node(&record->journal, node->name);
		if (agent.ops && agent.ops->forget && may_have_logs)
			agent.ops->forget(agent.agent, record->id);
	}
}

/* It may still be in the store, and would return when this node restarts: it stays listed. */
static void record_list_again(struct tfc__record *record)
{
	struct tfc__directory *directory = record->directory;
	tfc__list_remove(&record->link);
	if (record->damaged) {
		tfc__list_append(&directory->damaged, &record->damaged->link);
		record->damaged = NULL;
		tfc__record_close(record);
		return;
	}
	tfc__directory_insert(directory, record);
}

static void forget_on_removed(void *user, int code, const tfc_store_value *values, uint32_t count,
			      const tfc_error *error)
{
	struct tfc__record *record = user;
	const enum tfc__journal_event event = TFC__JOURNAL_FORGOTTEN;
	record->put = NULL;
	if (code < 0) {
		tfc__log(record->directory->ctx, TFC_LOG_ERROR, "cluster", record->id,
			 "cannot remove the job: %s", error->text);
		tfc__record_respond(record, code, error);
		tfc__keeper_resume(&record->keeper);
		record_list_again(record);
		return;
	}
	tfc__observers_notify(&record->journal.readers, &event);
	tfc__observers_close(&record->journal.readers);
	tfc__changes_forget(&record->directory->changes, &record->appeared, &record->changed,
			    record->id);
	tfc__keeper_abandon(&record->keeper);
	record_forget_logs(record);
	tfc__record_respond(record, TFC_OK, NULL);
	tfc__record_close(record);
}

int tfc__record_forget(struct tfc__record *record, tfc_error *error)
{
	struct tfc__directory *directory = record->directory;
	if (tfc__client_keys_keep(&directory->client_keys, &record->client_key, record->id) < 0 ||
	    !(record->put = tfc__record_remove(record, forget_on_removed)))
		return tfc__fail_nomem(error, "cluster");
	tfc__keeper_pause(&record->keeper);
	tfc__list_remove(&record->link);
	tfc__list_append(&directory->leaving, &record->link);
	return TFC_OK;
}

/* Makes the record of an ended job from a damaged one. */
static struct tfc__record *replace_damaged(struct tfc__directory *directory, const char *job)
{
	struct tfc__directory_match match;
	struct tfc__record *record = tfc__record_new();
	if (!record)
		return NULL;
	tfc__directory_match(directory, job, &match);
	memcpy(record->id, match.damaged->id, sizeof(record->id));
	record->directory = directory;
	record->is_damaged = record->is_ended = true;
	record->damaged = match.damaged;
	tfc__list_remove(&match.damaged->link);
	return record;
}

int tfc__directory_forget(struct tfc__directory *directory, const char *job,
			  struct tfc__directory_callback *callback, tfc_error *error)
{
	struct tfc__record *record = NULL;
	int code = tfc__directory_find(directory, job, error, &record);
	if (code == TFC_EPARSE && !(record = replace_damaged(directory, job)))
		return tfc__fail_nomem(error, "cluster");
	if (!record)
		return code;
	if (!record->is_ended)
		return tfc__fail(error, TFC_ESTATE, "cluster", 0,
				 "job %s has not ended; stop it first", record->id);
	tfc__list_init(&callback->link);
	tfc__list_append(&record->callbacks, &callback->link);
	code = tfc__record_forget(record, error);
	if (code == TFC_OK)
		return TFC_OK;
	tfc__list_remove(&callback->link);
	if (record->damaged)
		record_list_again(record);
	return code;
}
