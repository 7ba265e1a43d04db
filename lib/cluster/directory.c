#include "cluster/directory.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "cluster/internal.h"

#define STORE_PATIENCE_S 5 /* of a shutdown */

/* The jobs whose end is not stored; *ret_why: why one of them is not. */
static uint32_t count_unstored_ends(const struct tfc__directory *directory, const char **ret_why)
{
	uint32_t count = 0;
	*ret_why = "";
	TFC__LIST_EACH (link, &directory->records) {
		const struct tfc__record *record = record_of(link);
		if (!record->is_ended || tfc__keeper_is_done(&record->keeper))
			continue;
		count++;
		if (!**ret_why)
			*ret_why = record->keeper.why;
	}
	return count;
}

static void directory_end_drain(struct tfc__directory *directory)
{
	void (*fn)(void *user) = directory->drain_fn;
	tfc__timer_cancel(&directory->drain_timer);
	directory->drain_fn = NULL;
	fn(directory->drain_user);
}

/* No job runs any more. A shutdown also waits until the ends of its jobs are stored, because
 * otherwise they would resume. */
static void directory_on_drained(struct tfc__work *work)
{
	struct tfc__directory *directory = tfc__container_of(work, struct tfc__directory, drained);
	const char *why;
	if (directory->drain_fn &&
	    (directory->is_suspending || count_unstored_ends(directory, &why) == 0)) {
		directory_end_drain(directory);
	} else if (directory->drain_fn && !directory->drain_by) {
		directory->drain_by = tfc__now() + STORE_PATIENCE_S * TFC__SECOND;
		tfc__timer_set(&directory->drain_timer, directory->drain_by);
	}
}

static void directory_on_drain_timer(struct tfc__timer *timer)
{
	struct tfc__directory *directory = tfc__container_of(timer, struct tfc__directory,
							     drain_timer);
	const char *why;
	uint32_t count = count_unstored_ends(directory, &why);
	if (count)
		tfc__log(directory->ctx, TFC_LOG_WARNING, "cluster", "",
			 "cannot store how %u of the node's jobs ended; they resume when the node "
			 "is back, unless the store accepts their ends when the node closes: %s",
			 count, *why ? why : "the store does not respond");
	directory_end_drain(directory);
}

/* Without a seal key in the store there are no keys: the store keeps no secrets. */
static void derive_seal_keys(struct tfc__directory *directory, const uint8_t *secret)
{
	const uint8_t *stored = tfc__store_seal_key(directory->store);
	const uint8_t **keys = directory->seal_keys;
	directory->options.secret = NULL; /* borrowed for this call only */
	if (stored && secret) {
		crypto_generichash(directory->seal_key, sizeof(directory->seal_key), stored,
				   TFC__STORE_SEAL_SIZE, secret, 32);
		*keys++ = directory->seal_key;
	}
	*keys = stored;
}

int tfc__directory_open(tfc_ctx *ctx, struct tfc__agent *agent, struct tfc__nodes *nodes,
			const struct tfc__directory_options *options,
			struct tfc__directory **ret_directory)
{
	tfc_error *error = tfc__ctx_error(ctx);
	struct tfc__directory *directory = calloc(1, sizeof(*directory));
	if (!directory) {
		tfc__store_close(options->store);
		return tfc__fail_nomem(error, "cluster");
	}
	directory->ctx = ctx;
	directory->agent = agent;
	directory->nodes = nodes;
	directory->store = options->store;
	directory->options = *options;
	derive_seal_keys(directory, options->secret);
	tfc__list_init(&directory->records);
	tfc__list_init(&directory->submits);
	tfc__list_init(&directory->leaving);
	tfc__list_init(&directory->damaged);
	tfc__observers_init(&directory->users);
	tfc__changes_init(&directory->changes, tfc__wall());
	tfc__client_keys_init(&directory->client_keys, ctx, options->store);
	tfc__work_init(&directory->drained, ctx, directory_on_drained);
	tfc__timer_init(&directory->drain_timer, ctx, directory_on_drain_timer);
	tfc__retention_init(directory);
	int code = tfc__restore_begin(directory, error);
	if (code < 0) {
		tfc__directory_close(directory);
		return code;
	}
	*ret_directory = directory;
	return TFC_OK;
}

static void check_drained(struct tfc__directory *directory)
{
	if (directory->is_draining && directory->running == 0)
		tfc__work_schedule(&directory->drained);
}

static void record_on_journal(struct tfc__observer *observer, const void *event)
{
	struct tfc__record *record = tfc__container_of(observer, struct tfc__record, journal_watch);
	const struct tfc__journal *journal = &record->journal;
	if (record->noted_state == journal->job_state &&
	    record->noted_generation == journal->generation &&
	    record->noted_restarts == journal->restarts)
		return;
	record->noted_state = journal->job_state;
	record->noted_generation = journal->generation;
	record->noted_restarts = journal->restarts;
	if (*(const enum tfc__journal_event *)event == TFC__JOURNAL_SHOWN)
		tfc__changes_note(&record->directory->changes, &record->changed);
	check_drained(record->directory);
}

void tfc__record_appear(struct tfc__record *record)
{
	const struct tfc__journal *journal = &record->journal;
	record->noted_state = journal->job_state;
	record->noted_generation = journal->generation;
	record->noted_restarts = journal->restarts;
	tfc__observer_init(&record->journal_watch, record_on_journal);
	tfc__observers_add(&record->journal.readers, &record->journal_watch);
	tfc__changes_add(&record->directory->changes, record, &record->appeared, &record->changed);
}

void tfc__directory_insert(struct tfc__directory *directory, struct tfc__record *record)
{
	struct tfc__link *before = &directory->records;
	while (before->prev != &directory->records &&
	       record_of(before->prev)->submitted_ns > record->submitted_ns)
		before = before->prev;
	tfc__list_append(before, &record->link);
}

struct tfc__changes *tfc__directory_changes(struct tfc__directory *directory)
{
	return &directory->changes;
}

void tfc__record_respond(struct tfc__record *record, int code, const tfc_error *error)
{
	TFC__LIST_EACH (link, &record->callbacks) {
		struct tfc__directory_callback *callback =
			tfc__container_of(link, struct tfc__directory_callback, link);
		tfc__list_remove(link);
		callback->fn(callback, code, error, code < 0 ? NULL : record);
	}
}

void tfc__directory_callback_cancel(struct tfc__directory_callback *callback)
{
	tfc__list_remove(&callback->link);
}

bool tfc__record_keep_bundle(struct tfc__record *record)
{
	const char *name = record->job->bundle;
	if (name && tfc__bundle_named(name))
		record->bundle = tfc__bundle_keep(tfc__agent_bundles(record->directory->agent),
						  name);
	return record->bundle;
}

void tfc__record_close(struct tfc__record *record)
{
	tfc_error error;
	tfc__fail(&error, TFC_ESTATE, "cluster", 0,
		  "the node was closed before the store completed the request");
	tfc__record_respond(record, TFC_ESTATE, &error);
	tfc__maintainer_close(record->maintainer);
	tfc__keeper_close(&record->keeper);
	tfc__store_drop(record->put);
	tfc__record_free(record);
}

void tfc__directory_close(struct tfc__directory *directory)
{
	if (!directory)
		return;
	tfc__observers_notify(&directory->users, NULL);
	tfc__observers_close(&directory->users);
	tfc__changes_fini(&directory->changes);
	TFC__LIST_EACH (link, &directory->records)
		tfc__record_close(record_of(link));
	TFC__LIST_EACH (link, &directory->leaving) {
		tfc__keeper_abandon(&record_of(link)->keeper);
		tfc__record_close(record_of(link));
	}
	TFC__LIST_EACH (link, &directory->submits) {
		/* A job whose submitter received no response must not run later. */
		tfc__record_remove(record_of(link), NULL);
		tfc__record_close(record_of(link));
	}
	TFC__LIST_EACH (link, &directory->damaged)
		free(tfc__container_of(link, struct tfc__damaged, link));
	tfc__client_keys_fini(&directory->client_keys);
	tfc__store_drop(directory->loading_keys);
	tfc__store_drop(directory->loading);
	tfc__work_cancel(&directory->drained);
	tfc__timer_cancel(&directory->drain_timer);
	tfc__work_cancel(&directory->tidy);
	tfc__timer_cancel(&directory->tidy_later);
	tfc__store_close(directory->store);
	sodium_memzero(directory->seal_key, sizeof(directory->seal_key));
	free(directory);
}

void tfc__directory_join(struct tfc__directory *directory, struct tfc__observer *user)
{
	tfc__observers_add(&directory->users, user);
}

struct tfc__agent *tfc__directory_agent(const struct tfc__directory *directory)
{
	return directory->agent;
}

struct tfc__nodes *tfc__directory_nodes(const struct tfc__directory *directory)
{
	return directory->nodes;
}

void tfc__directory_set_job_defaults(struct tfc__directory *directory,
				     const struct tfc__job_defaults *defaults)
{
	directory->job_defaults = *defaults;
}

const struct tfc__link *tfc__directory_records(const struct tfc__directory *directory)
{
	return &directory->records;
}

const struct tfc__link *tfc__directory_damaged(const struct tfc__directory *directory)
{
	return &directory->damaged;
}

void tfc__directory_count_end(struct tfc__directory *directory)
{
	directory->running--;
	check_drained(directory);
}

/* ---- finding */

int tfc__directory_check_loaded(const struct tfc__directory *directory, tfc_error *error)
{
	if (directory->is_loaded)
		return TFC_OK;
	if (directory->load_error.code < 0) {
		if (error)
			*error = directory->load_error;
		return directory->load_error.code;
	}
	return tfc__fail(error, TFC_EAGAIN, "cluster", 0,
			 "the node is still reading its store; try again");
}

static void add_match(uint32_t *count, char ids[64], const char *id)
{
	size_t len = strlen(ids);
	if ((*count)++ < 3)
		snprintf(ids + len, 64 - len, "%s%s", len ? ", " : "", id);
}

static bool match_id(struct tfc__directory_match *match, const char *id, const char *job)
{
	if (strncmp(id, job, strlen(job)) != 0)
		return false;
	add_match(&match->prefixes, match->ids, id);
	return true;
}

/* The records are in the order in which they were submitted. */
static void match_name(struct tfc__directory_match *match, struct tfc__record *record)
{
	bool has_ended = tfc__journal_has_ended(&record->journal);
	if (!has_ended)
		add_match(&match->names, match->name_ids, record->id);
	if (!has_ended || !match->names)
		match->by_name = record;
}

void tfc__directory_match(struct tfc__directory *directory, const char *job,
			  struct tfc__directory_match *ret_match)
{
	*ret_match = (struct tfc__directory_match){.prefixes = 0};
	if (!*job)
		return;
	TFC__LIST_EACH (link, &directory->records) {
		struct tfc__record *record = record_of(link);
		if (match_id(ret_match, record->id, job))
			ret_match->by_prefix = record;
		if (strcmp(record->job->name, job) == 0)
			match_name(ret_match, record);
	}
	TFC__LIST_EACH (link, &directory->damaged) {
		struct tfc__damaged *damaged = tfc__container_of(link, struct tfc__damaged, link);
		if (match_id(ret_match, damaged->id, job))
			ret_match->damaged = damaged;
	}
}

int tfc__directory_find(struct tfc__directory *directory, const char *job, tfc_error *error,
			struct tfc__record **ret_record)
{
	struct tfc__directory_match match;
	int code = tfc__directory_check_loaded(directory, error);
	if (code < 0)
		return code;
	tfc__directory_match(directory, job, &match);
	if (match.names > 1)
		return tfc__fail(error, TFC_EINVAL, "cluster", 0,
				 "job name \"%.60s\" is ambiguous: %u jobs of this name have not "
				 "ended; give an id: %s%s",
				 job, match.names, match.name_ids, match.names > 3 ? " ..." : "");
	if (!match.by_name && match.prefixes > 1)
		return tfc__fail(error, TFC_EINVAL, "cluster", 0,
				 "job id \"%.60s\" is ambiguous: %u job ids begin with it; give "
				 "more of the id: %s%s",
				 job, match.prefixes, match.ids, match.prefixes > 3 ? " ..." : "");
	if (!match.by_name && match.damaged)
		return tfc__fail(error, TFC_EPARSE, "cluster", 0, "%s", match.damaged->why);
	if (!match.by_name && !match.by_prefix)
		return tfc__fail(error, TFC_ENOENT, "cluster", 0, "job \"%s\" not found", job);
	*ret_record = match.by_name ? match.by_name : match.by_prefix;
	return TFC_OK;
}

/* ---- queries of a record */

uint32_t tfc__record_state(const struct tfc__record *record)
{
	return record->journal.job_state;
}

uint32_t tfc__record_generation(const struct tfc__record *record)
{
	return record->journal.generation;
}

const char *tfc__record_node(const struct tfc__record *record,
			     const struct tfc__journal_entry *entry)
{
	return entry->node ? entry->node : "";
}

struct tfc__log_source *tfc__record_log_open(struct tfc__record *record, uint32_t task,
					     const char *node, uint64_t position, tfc_error *error)
{
	if (record->maintainer)
		return tfc__maintainer_log_open(record->maintainer, node, task, position, error);
	const struct tfc__node_entry *entry = tfc__nodes_find(record->directory->nodes, node);
	struct tfc__agent_handle agent = {0};
	if (entry && entry->member)
		agent = tfc__nodes_agent(entry);
	if (agent.ops && agent.ops->kept_log)
		return agent.ops->kept_log(agent.agent, record->id, record->job, task, position,
					   error);
	tfc__fail(error, TFC_ELOST, "cluster", 0,
		  "cannot read the output on node %s: it is not a member", node);
	return NULL;
}

static int add_addresses(const struct tfc__record *record, tfc_spec *spec, tfc_error *error)
{
	uint32_t number = 0;
	for (uint32_t r = 0; r < record->job->role_count; r++) {
		const struct tfc__role *role = &record->job->roles[r];
		bool is_in_cluster = tfc__role_is_in_cluster(role->name);
		for (uint32_t i = 0; i < role->count; i++, number++) {
			const char *address = tfc__journal_task(&record->journal, number)->address;
			if (!is_in_cluster || !address[0])
				continue;
			int code = tfc_spec_add(spec, role->name, i, address, error);
			if (code < 0)
				return code;
		}
	}
	return TFC_OK;
}

int tfc__record_spec(const struct tfc__record *record, tfc_error *error, tfc_spec **ret_spec)
{
	tfc_spec *spec;
	if (tfc_spec_new(&spec) < 0)
		return tfc__fail_nomem(error, "cluster");
	int code = add_addresses(record, spec, error);
	if (code == TFC_OK && record->journal.generation == 0)
		code = tfc__fail(error, TFC_ESTATE, "cluster", 0, "job %s is not placed yet",
				 record->id);
	if (code < 0)
		tfc_spec_free(spec);
	else
		*ret_spec = spec;
	return code;
}

void tfc__directory_stop(struct tfc__record *record, uint32_t interrupt_ms, bool is_kill)
{
	if (record->maintainer) {
		tfc__maintainer_stop(record->maintainer, interrupt_ms, is_kill);
		return;
	}
	record->is_stop_waiting = true;
	record->interrupt_ms = interrupt_ms;
	record->is_kill = record->is_kill || is_kill;
}

/* ---- shutdown */

static int stop_accepting(struct tfc__directory *directory, void (*fn)(void *user), void *user,
			  tfc_error *error)
{
	if (directory->is_draining)
		return tfc__fail(error, TFC_ESTATE, "cluster", 0, "the node is draining already");
	directory->is_draining = true;
	directory->drain_fn = fn;
	directory->drain_user = user;
	return TFC_OK;
}

int tfc__directory_drain(struct tfc__directory *directory, void (*fn)(void *user), void *user,
			 tfc_error *error)
{
	int code = stop_accepting(directory, fn, user, error);
	if (code < 0)
		return code;
	TFC__LIST_EACH (link, &directory->records)
		if (!record_of(link)->is_ended)
			tfc__directory_stop(record_of(link), 0, false);
	TFC__LIST_EACH (link, &directory->submits)
		tfc__directory_stop(record_of(link), 0, false);
	check_drained(directory);
	return TFC_OK;
}

/* A record without a maintainer gets one when it is stored, which is then suspended. */
int tfc__directory_suspend(struct tfc__directory *directory, void (*fn)(void *user), void *user,
			   tfc_error *error)
{
	int code = stop_accepting(directory, fn, user, error);
	if (code < 0)
		return code;
	directory->is_suspending = true;
	TFC__LIST_EACH (link, &directory->records)
		if (!record_of(link)->is_ended && record_of(link)->maintainer)
			tfc__maintainer_suspend(record_of(link)->maintainer);
	check_drained(directory);
	return TFC_OK;
}

bool tfc__directory_is_storing(const struct tfc__directory *directory)
{
	TFC__LIST_EACH (link, &directory->records) {
		const struct tfc__record *record = record_of(link);
		bool is_begun = record->is_ended || record->maintainer;
		if (!is_begun || !tfc__keeper_is_done(&record->keeper))
			return true;
	}
	return !tfc__list_is_empty(&directory->submits);
}
