/* Loads the jobs that the previous incarnation has left in the store. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "cluster/internal.h"
#include "cluster/journal_msg.h"

#define READ_MS 10000

/* The values of one job. In the list they are adjacent, the journal before the record. */
struct stored {
	char id[17];
	const tfc_store_value *record;
	const tfc_store_value *segments; /* in order */
	uint32_t segment_count;
};

static void restore_log_failure(struct tfc__directory *directory, const char *key, const char *why)
{
	tfc__log(directory->ctx, TFC_LOG_ERROR, "cluster", "",
		 "cannot read \"%s\", which stays unchanged: %s", key, why);
}

static bool segment_is_empty(const tfc_store_value *segment)
{
	return segment->data && tfc__journal_is_empty(segment->data, segment->len);
}

/* Whether only the empty journal of a submit was stored: its submitter received no response. */
static bool stored_is_never_begun(const struct stored *stored)
{
	bool is_begun = false;
	for (uint32_t i = 0; i < stored->segment_count; i++)
		is_begun |= !segment_is_empty(&stored->segments[i]);
	return !is_begun;
}

static void stored_remove(struct tfc__directory *directory, const struct stored *stored)
{
	char key[TFC__RECORD_KEY_SIZE];
	tfc__record_key(stored->id, "", key);
	/* if this fails, the next start removes it */
	tfc__store_remove(directory->store, key, NULL, NULL);
}

/* A damaged job is no job of the directory; requests that name it fail with the reason. */
static void restore_note_damaged(struct tfc__directory *directory, const struct stored *stored,
				 const char *why)
{
	struct tfc__damaged damaged = {.why = ""}, *kept = malloc(sizeof(*kept));
	char key[TFC__RECORD_KEY_SIZE];
	tfc__record_key(stored->id, "record", key);
	memcpy(damaged.id, stored->id, sizeof(damaged.id));
	snprintf(
		damaged.why, sizeof(damaged.why),
		"cannot read job %s, whose files stay unchanged: %s in the store of node %.40s: %s",
		stored->id, key, tfc__agent_name(directory->agent), why);
	tfc__log(directory->ctx, TFC_LOG_ERROR, "cluster", "", "%s", damaged.why);
	if (!kept)
		return;
	*kept = damaged;
	tfc__list_append(&directory->damaged, &kept->link);
}

/* ---- the journal */

static const tfc_store_value *stored_find_segment(const struct stored *stored, uint32_t first)
{
	for (uint32_t i = 0; i < stored->segment_count; i++)
		if (tfc__keeper_segment(stored->segments[i].key) == first)
			return &stored->segments[i];
	return NULL;
}

static bool journal_has_end(const struct tfc__journal *journal)
{
	return journal->count && journal->entries[journal->count - 1].kind == TFC_EVENT_END;
}

static int journal_fail_missing(const struct tfc__record *record, uint32_t segment,
				tfc_error *error)
{
	return tfc__fail(error, TFC_EPARSE, "cluster", 0,
			 "the journal is incomplete: its entries from %u on are missing: "
			 "\"jobs/%s/journal/%010u\"",
			 segment, record->id, segment);
}

/* A journal without an END is continued, so it must be complete. `last`: the last segment that has
 * entries, or NULL. */
static int journal_check_complete(const struct tfc__record *record, const struct stored *stored,
				  const tfc_store_value *last, tfc_error *error)
{
	uint32_t added = record->journal.added;
	uint32_t entries = last ? added - tfc__keeper_segment(last->key) : 0;
	bool is_full = last && tfc__keeper_is_full(entries, last->len);
	if (journal_has_end(&record->journal))
		return TFC_OK;
	if (added < record->segment)
		return journal_fail_missing(record, added, error);
	if (!stored_find_segment(stored, record->segment))
		return journal_fail_missing(record, record->segment, error);
	if (is_full && !record->is_of_0_2 && !stored_find_segment(stored, added))
		return journal_fail_missing(record, added, error);
	return TFC_OK;
}

static int stored_read_journal(struct tfc__record *record, const struct stored *stored,
			       tfc_error *error)
{
	uint32_t task_count = tfc__job_task_count(record->job);
	const tfc_store_value *last = NULL;
	for (uint32_t i = 0; i < stored->segment_count; i++) {
		const tfc_store_value *segment = &stored->segments[i];
		if (!segment->data)
			return tfc__fail(error, TFC_EPARSE, "cluster", 0, "\"%s\" is damaged",
					 segment->key);
		/* the write that would have filled it, or the one before it, was not done */
		if (segment_is_empty(segment))
			continue;
		if (tfc__keeper_segment(segment->key) != record->journal.added)
			return journal_fail_missing(record, record->journal.added, error);
		int code = tfc__journal_read(&record->journal, segment->data, segment->len,
					     task_count, error);
		if (code < 0)
			return tfc__fail_prefix(error, code, "%s: ", segment->key);
		last = segment;
	}
	return journal_check_complete(record, stored, last, error);
}

/* Entries of 0.2 have no epoch. Each gets the highest one that it can have. */
static void journal_complete_epochs(struct tfc__record *record)
{
	struct tfc__journal *journal = &record->journal;
	uint64_t epoch = record->epoch;
	for (uint32_t i = journal->count; i-- > 0;) {
		struct tfc__journal_entry *entry = &journal->entries[i];
		if (entry->epoch)
			epoch = entry->epoch > 1 ? entry->epoch - 1 : 1;
		else
			entry->epoch = epoch;
	}
}

/* Ends a job that cannot continue, with the reason. Its values in the store are not changed. */
static void record_end_damaged(struct tfc__record *record, enum tfc_end_reason reason,
			       const tfc_error *why)
{
	const struct tfc__journal *journal = &record->journal;
	struct tfc__journal_entry end = {
		.kind = TFC_EVENT_END,
		.job_state = TFC_JOB_FAILED,
		.generation = journal->generation,
		.epoch = record->epoch,
		.task = UINT32_MAX,
		.reason = reason,
		.time_ns = journal->count ? journal->entries[journal->count - 1].time_ns
					  : record->submitted_ns,
		.text = (char *)why->text,
	};
	tfc__journal_add(&record->journal, &end);
}

/* ---- one job */

static int stored_read_record(struct tfc__record *record, const struct stored *stored,
			      tfc_error *error)
{
	int code = tfc__record_read(record, stored->record->data, stored->record->len,
				    record->directory->seal_keys, error);
	if (code == TFC_OK && strcmp(record->id, stored->id) != 0)
		code = tfc__fail(error, TFC_EPARSE, "cluster", 0,
				 "it is the record of another job, %s", record->id);
	return code;
}

static void restore_job(struct tfc__directory *directory, const struct stored *stored)
{
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__record *record = tfc__record_new();
	if (!record) {
		restore_note_damaged(directory, stored, "out of memory");
		return;
	}
	record->directory = directory;
	record->version = stored->record->version;
	if (stored_read_record(record, stored, &error) < 0) {
		restore_note_damaged(directory, stored, error.text);
		tfc__record_free(record);
		return;
	}
	int code = stored_read_journal(record, stored, &error);
	journal_complete_epochs(record);
	if (code < 0) {
		restore_log_failure(directory, stored->record->key, error.text);
		record->is_damaged = true;
		if (!journal_has_end(&record->journal))
			record_end_damaged(record, TFC_END_LOST, &error);
	} else if (record->has_lost_secrets && !journal_has_end(&record->journal)) {
		tfc__fail(&error, TFC_EACCES, "cluster", 0,
			  "cannot resume the job: its secret_env was encrypted with a lost key of "
			  "node %.63s (\"identity\" in its state directory, or \"key\" in its "
			  "store); submit the job again",
			  tfc__agent_name(directory->agent));
		restore_log_failure(directory, stored->record->key, error.text);
		record->is_damaged = true;
		record_end_damaged(record, TFC_END_REFUSED, &error);
	}
	record->is_ended = journal_has_end(&record->journal);
	tfc__directory_insert(directory, record);
	tfc__record_appear(record);
	if (record->is_ended)
		return;
	directory->running++;
	tfc__record_keep_bundle(record);
	tfc__epoch_resume(record);
}

/* ---- the list of values */

/* Reads the id in "jobs/ID/..."; false: not such a key. */
static bool stored_read_id(const char *key, char id[17])
{
	if (strlen(key) < 22 || strncmp(key, "jobs/", 5) != 0 || key[21] != '/')
		return false;
	memcpy(id, key + 5, 16);
	id[16] = '\0';
	return true;
}

static void restore_jobs(struct tfc__directory *directory, const tfc_store_value *values,
			 uint32_t count)
{
	for (uint32_t i = 0; i < count;) {
		struct stored stored = {0};
		if (!stored_read_id(values[i].key, stored.id)) {
			i++;
			continue;
		}
		for (; i < count && strncmp(values[i].key + 5, stored.id, 16) == 0; i++) {
			if (strncmp(values[i].key + 22, "journal", 7) == 0 &&
			    stored.segment_count++ == 0)
				stored.segments = &values[i];
			if (strcmp(values[i].key + 22, "record") == 0)
				stored.record = &values[i];
		}
		if (!stored.record && stored_is_never_begun(&stored))
			stored_remove(directory, &stored);
		else if (!stored.record)
			restore_note_damaged(directory, &stored,
					     "it is missing, although the job's journal exists");
		else if (!stored.record->data)
			restore_note_damaged(directory, &stored, "it is damaged");
		else if (!stored.segment_count)
			restore_note_damaged(directory, &stored, "the job's journal is missing");
		else
			restore_job(directory, &stored);
	}
}

static void restore_fail(struct tfc__directory *directory, const tfc_error *error)
{
	directory->load_error = *error;
	tfc__fail_prefix(&directory->load_error, error->code, "cannot read the store: ");
	tfc__observers_notify(&directory->changes.watchers, NULL);
	if (directory->is_late)
		tfc__log(directory->ctx, TFC_LOG_ERROR, "cluster", "", "%s",
			 directory->load_error.text);
}

/* Comes before the jobs: submits are accepted when both are loaded. */
static void restore_on_client_keys(void *user, int code, const tfc_store_value *values,
				   uint32_t count, const tfc_error *error)
{
	struct tfc__directory *directory = user;
	tfc_error why = *error;
	directory->loading_keys = NULL;
	if (code == TFC_OK || code == TFC_EPARSE) {
		code = tfc__client_keys_restore(&directory->client_keys, values, count);
		if (code < 0)
			tfc__fail_nomem(&why, "cluster");
	}
	if (code < 0)
		restore_fail(directory, &why);
}

static void restore_on_list(void *user, int code, const tfc_store_value *values, uint32_t count,
			    const tfc_error *error)
{
	struct tfc__directory *directory = user;
	directory->loading = NULL;
	if (directory->load_error.code < 0)
		return;
	if (code < 0 && code != TFC_EPARSE) {
		restore_fail(directory, error);
		return;
	}
	if (code == TFC_EPARSE)
		tfc__log(directory->ctx, TFC_LOG_ERROR, "cluster", "", "%s", error->text);
	restore_jobs(directory, values, count);
	directory->is_loaded = true;
	tfc__changes_complete(&directory->changes);
	tfc__retention_check(directory);
}

int tfc__restore_begin(struct tfc__directory *directory, tfc_error *error)
{
	directory->loading_keys = tfc__store_list(directory->store, TFC__CLIENT_KEYS_PREFIX,
						  restore_on_client_keys, directory);
	directory->loading = tfc__store_list(directory->store, "jobs/", restore_on_list, directory);
	if (!directory->loading_keys || !directory->loading)
		return tfc__fail_nomem(error, "cluster");
	int code = tfc__store_wait(directory->store, READ_MS);
	directory->is_late = true;
	if (directory->load_error.code < 0) {
		*error = directory->load_error;
		return error->code;
	}
	if (code == TFC_ETIMEDOUT && !directory->is_loaded)
		return tfc__fail(error, TFC_ETIMEDOUT, "cluster", 0,
				 "cannot read the store within %d s: the disk does not respond",
				 READ_MS / 1000);
	return TFC_OK;
}
