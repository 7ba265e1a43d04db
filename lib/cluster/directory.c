#include "cluster/directory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "ctx/ctx.h"

struct tfc__directory {
	tfc_ctx *ctx;
	struct tfc__agent *agent;
	struct tfc__nodes *nodes;
	struct tfc__link records;
	struct tfc__link users;
	uint32_t running;
	bool is_draining;
	struct tfc__work drained;
	void (*drain_fn)(void *user);
	void *drain_user;
};

static void on_drained(struct tfc__work *work)
{
	struct tfc__directory *directory = tfc__container_of(work, struct tfc__directory, drained);
	directory->drain_fn(directory->drain_user);
}

int tfc__directory_open(tfc_ctx *ctx, struct tfc__agent *agent, struct tfc__nodes *nodes,
			struct tfc__directory **ret_directory)
{
	struct tfc__directory *directory = calloc(1, sizeof(*directory));
	if (!directory)
		return tfc__fail_nomem(tfc__ctx_error(ctx), "cluster");
	directory->ctx = ctx;
	directory->agent = agent;
	directory->nodes = nodes;
	tfc__list_init(&directory->records);
	tfc__list_init(&directory->users);
	tfc__work_init(&directory->drained, ctx, on_drained);
	*ret_directory = directory;
	return TFC_OK;
}

static void free_record(struct tfc__record *record)
{
	tfc__maintainer_close(record->maintainer);
	tfc__journal_fini(&record->journal);
	tfc_job_free(record->job);
	tfc__list_remove(&record->link);
	free(record->host_tag);
	free(record);
}

void tfc__directory_close(struct tfc__directory *directory)
{
	if (!directory)
		return;
	TFC__LIST_EACH (link, &directory->users) {
		struct tfc__directory_user *user =
			tfc__container_of(link, struct tfc__directory_user, link);
		tfc__list_remove(link);
		user->fn(user);
	}
	TFC__LIST_EACH (link, &directory->records)
		free_record(tfc__container_of(link, struct tfc__record, link));
	tfc__work_cancel(&directory->drained);
	free(directory);
}

void tfc__directory_join(struct tfc__directory *directory, struct tfc__directory_user *user)
{
	tfc__list_append(&directory->users, &user->link);
}

struct tfc__agent *tfc__directory_agent(const struct tfc__directory *directory)
{
	return directory->agent;
}

const struct tfc__link *tfc__directory_records(const struct tfc__directory *directory)
{
	return &directory->records;
}

static void check_drained(struct tfc__directory *directory)
{
	if (directory->is_draining && directory->running == 0)
		tfc__work_schedule(&directory->drained);
}

static void on_end(void *user, enum tfc__maintainer_end end)
{
	struct tfc__record *record = user;
	(void)end; /* whichever it is, nothing runs here any more */
	record->is_ended = true;
	record->directory->running--;
	check_drained(record->directory);
}

static int fill_record(struct tfc__record *record, const struct tfc__submit *submit,
		       tfc_error *error)
{
	if (tfc__random_hex(record->id) < 0)
		return tfc__fail_errno(error, "cluster", errno, "no random bytes for a job id");
	record->job = tfc__job_copy(submit->job);
	record->host_tag = malloc(submit->host_tag_len ? submit->host_tag_len : 1);
	if (!record->job || !record->host_tag)
		return tfc__fail_nomem(error, "cluster");
	if (submit->host_tag_len)
		memcpy(record->host_tag, submit->host_tag, submit->host_tag_len);
	record->host_tag_len = submit->host_tag_len;
	if (submit->client_key)
		strncpy(record->client_key, submit->client_key, sizeof(record->client_key) - 1);
	record->epoch = 1;
	record->submitted_ns = tfc__wall();
	return TFC_OK;
}

static struct tfc__record *find_by_key(struct tfc__directory *directory, const char *key)
{
	if (!key || !*key)
		return NULL;
	TFC__LIST_EACH (link, &directory->records) {
		struct tfc__record *record = tfc__container_of(link, struct tfc__record, link);
		if (strcmp(record->client_key, key) == 0)
			return record;
	}
	return NULL;
}

int tfc__directory_submit(struct tfc__directory *directory, const struct tfc__submit *submit,
			  tfc_error *error, struct tfc__record **ret_record)
{
	struct tfc__record *known = find_by_key(directory, submit->client_key);
	if (known) {
		*ret_record = known;
		return TFC_OK;
	}
	if (directory->is_draining)
		return tfc__fail(error, TFC_ESTATE, "cluster", 0,
				 "the node is draining and takes no new job");
	struct tfc__record *record = calloc(1, sizeof(*record));
	if (!record)
		return tfc__fail_nomem(error, "cluster");
	record->directory = directory;
	int code = tfc__journal_init(&record->journal);
	tfc__list_append(&directory->records, &record->link);
	code = code == TFC_OK ? fill_record(record, submit, error)
			      : tfc__fail_nomem(error, "cluster");
	struct tfc__agent_job_info info = {
		.id = record->id,
		.job = record->job,
		.host_tag = record->host_tag,
		.host_tag_len = record->host_tag_len,
		.epoch = record->epoch,
	};
	if (code == TFC_OK)
		code = tfc__maintainer_open(directory->ctx, directory->nodes, &info, NULL,
					    &record->journal, on_end, record, error,
					    &record->maintainer);
	if (code < 0) {
		free_record(record);
		return code;
	}
	directory->running++;
	*ret_record = record;
	return TFC_OK;
}

int tfc__directory_find(struct tfc__directory *directory, const char *job, tfc_error *error,
			struct tfc__record **ret_record)
{
	struct tfc__record *by_prefix = NULL, *by_name = NULL;
	size_t len = strlen(job);
	uint32_t prefixes = 0;
	TFC__LIST_EACH (link, &directory->records) {
		struct tfc__record *record = tfc__container_of(link, struct tfc__record, link);
		if (len && strncmp(record->id, job, len) == 0) {
			by_prefix = record;
			prefixes++;
		}
		if (len && strcmp(record->job->name, job) == 0)
			by_name = record;
	}
	if (!by_name && prefixes > 1)
		return tfc__fail(error, TFC_EINVAL, "cluster", 0,
				 "job %s: %u job ids begin like that; give more of the id", job,
				 prefixes);
	if (!by_name && !by_prefix)
		return tfc__fail(error, TFC_ENOENT, "cluster", 0, "no such job: %s", job);
	*ret_record = by_name ? by_name : by_prefix;
	return TFC_OK;
}

/* ---- looking at a record */

uint32_t tfc__record_state(const struct tfc__record *record)
{
	return tfc__core_job_state(tfc__maintainer_core(record->maintainer));
}

uint32_t tfc__record_generation(const struct tfc__record *record)
{
	return tfc__core_generation(tfc__maintainer_core(record->maintainer));
}

const char *tfc__record_node(const struct tfc__record *record,
			     const struct tfc__journal_entry *entry)
{
	return entry->node ? entry->node : "";
}

struct tfc__log_source *tfc__record_log_open(struct tfc__record *record, uint32_t task,
					     const char *node, uint64_t position, tfc_error *error)
{
	return tfc__maintainer_log_open(record->maintainer, node, task, position, error);
}

int tfc__directory_drain(struct tfc__directory *directory, void (*fn)(void *user), void *user,
			 tfc_error *error)
{
	if (directory->is_draining)
		return tfc__fail(error, TFC_ESTATE, "cluster", 0, "the node is draining already");
	directory->is_draining = true;
	directory->drain_fn = fn;
	directory->drain_user = user;
	TFC__LIST_EACH (link, &directory->records) {
		struct tfc__record *record = tfc__container_of(link, struct tfc__record, link);
		if (!record->is_ended)
			tfc__maintainer_stop(record->maintainer, 0, false);
	}
	check_drained(directory);
	return TFC_OK;
}
