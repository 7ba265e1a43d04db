/* Epochs of a job: each process that maintains it begins one, and stores that first. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "cluster/internal.h"

static void epoch_on_end(void *user, enum tfc__maintainer_end end)
{
	struct tfc__record *record = user;
	if (end == TFC__MAINTAINER_FENCED)
		tfc__log(record->directory->ctx, TFC_LOG_WARNING, "cluster", record->id,
			 "another node has taken over the job (a later epoch has begun); this node "
			 "no longer maintains it");
	record->is_ended = end == TFC__MAINTAINER_ENDED;
	if (record->is_ended) {
		tfc__bundle_leave(record->bundle);
		record->bundle = NULL;
	}
	tfc__directory_count_end(record->directory);
	tfc__retention_check(record->directory);
}

static int epoch_open_maintainer(struct tfc__record *record, const struct tfc__resume *resume,
				 tfc_error *error)
{
	struct tfc__directory *directory = record->directory;
	const struct tfc__agent_job_info info = {
		.id = record->id,
		.job = record->job,
		.host_tag = record->host_tag,
		.host_tag_len = record->host_tag_len,
		.epoch = record->epoch,
		.has_minimal_env = record->has_minimal_env,
	};
	/* A volatile store would not outlive the journal in memory. */
	if (!tfc__store_is_volatile(directory->store))
		tfc__keeper_open(&record->keeper, directory->ctx, directory->store,
				 &record->journal, record->id);
	int code = tfc__maintainer_open(directory->ctx, directory->nodes, &info, resume,
					&record->journal, epoch_on_end, record, error,
					&record->maintainer);
	if (code < 0)
		return code;
	if (record->is_stop_waiting)
		tfc__maintainer_stop(record->maintainer, record->interrupt_ms, record->is_kill);
	if (directory->is_suspending)
		tfc__maintainer_suspend(record->maintainer);
	return TFC_OK;
}

int tfc__epoch_begin(struct tfc__record *record, tfc_error *error)
{
	return epoch_open_maintainer(record, NULL, error);
}

/* ---- resuming: the state of the job according to its journal */

static struct tfc__resume_task *resume_read_tasks(const struct tfc__record *record)
{
	uint32_t count = tfc__job_task_count(record->job);
	struct tfc__resume_task *tasks = calloc(count ? count : 1, sizeof(*tasks));
	for (uint32_t i = 0; tasks && i < count; i++) {
		const struct tfc__journal_task *task = tfc__journal_task(&record->journal, i);
		tasks[i] = (struct tfc__resume_task){
			.attempt = task->attempt,
			.is_done = task->is_done,
			.was_running = task->state == TFC_TASK_STARTING ||
				       task->state == TFC_TASK_RUNNING ||
				       task->state == TFC_TASK_READY,
			.node = task->node,
			.address = task->is_done ? task->address : NULL,
		};
	}
	return tasks;
}

/* The verdict of a job that was being stopped is in the entry that reported the stop. Later ones
 * say what the stop waits for. */
static void resume_read_verdict(const struct tfc__journal *journal, struct tfc__resume *resume)
{
	resume->task = UINT32_MAX;
	resume->text = "";
	if (journal->job_state != TFC_JOB_STOPPING)
		return;
	for (uint32_t i = 0; i < journal->count; i++) {
		const struct tfc__journal_entry *entry = &journal->entries[i];
		if (entry->kind != TFC_EVENT_JOB || entry->job_state != TFC_JOB_STOPPING)
			continue;
		resume->reason = entry->reason;
		resume->status = entry->end.status;
		resume->task = entry->task;
		resume->text = entry->text;
		return;
	}
}

/* The job cannot be resumed: it ends. */
static void epoch_end_job(struct tfc__record *record, const tfc_error *why)
{
	struct tfc__journal_entry end = {
		.kind = TFC_EVENT_END,
		.job_state = TFC_JOB_FAILED,
		.generation = record->journal.generation,
		.epoch = record->epoch,
		.task = UINT32_MAX,
		.reason = TFC_END_REFUSED,
		.time_ns = tfc__wall(),
		.text = (char *)why->text,
	};
	tfc__journal_add(&record->journal, &end);
	epoch_on_end(record, TFC__MAINTAINER_ENDED);
}

static void epoch_resume_job(struct tfc__record *record)
{
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__resume_task *tasks = resume_read_tasks(record);
	struct tfc__resume resume = {
		.generation = record->journal.generation,
		.job_state = record->journal.job_state,
		.tasks = tasks,
	};
	resume_read_verdict(&record->journal, &resume);
	int code = tasks ? epoch_open_maintainer(record, &resume, &error)
			 : tfc__fail_nomem(&error, "cluster");
	free(tasks);
	if (code < 0)
		epoch_end_job(record, &error);
	else
		tfc__log(record->directory->ctx, TFC_LOG_INFO, "cluster", record->id,
			 "resumed in epoch %llu; the job was %s", (unsigned long long)record->epoch,
			 tfc_job_state_name(resume.job_state));
}

/* ---- the next epoch */

static void epoch_schedule_retry(struct tfc__record *record)
{
	tfc__timer_set(&record->retry, tfc__now() + TFC__STORE_RETRY_NS);
}

static void epoch_fail(struct tfc__record *record, const tfc_error *error)
{
	tfc__log(record->directory->ctx, TFC_LOG_ERROR, "cluster", record->id,
		 "cannot resume the job, because its record cannot be stored; retrying: %s",
		 error->text);
	record->epoch--;
	epoch_schedule_retry(record);
}

static void epoch_on_stored(void *user, int code, const tfc_store_value *values, uint32_t count,
			    const tfc_error *error)
{
	struct tfc__record *record = user;
	record->put = NULL;
	if (code < 0) {
		epoch_fail(record, error);
		return;
	}
	record->version = values[0].version;
	epoch_resume_job(record);
}

static void epoch_store_next(struct tfc__record *record)
{
	tfc_error error = TFC_ERROR_INIT;
	record->epoch++;
	record->put = tfc__record_put(record, epoch_on_stored, &error);
	if (!record->put)
		epoch_fail(record, &error);
}

static bool record_is_as_written(const struct tfc__record *record, const tfc_store_value *value)
{
	uint8_t hash[sizeof(record->written)];
	crypto_generichash(hash, sizeof(hash), value->data, value->len, NULL, 0);
	return memcmp(hash, record->written, sizeof(hash)) == 0;
}

static void epoch_on_read(void *user, int code, const tfc_store_value *values, uint32_t count,
			  const tfc_error *error)
{
	struct tfc__record *record = user;
	record->put = NULL;
	if (code < 0 && code != TFC_ENOENT) {
		epoch_schedule_retry(record);
		return;
	}
	if (code == TFC_OK && record_is_as_written(record, &values[0]))
		record->version = values[0].version;
	epoch_store_next(record);
}

/* A write that failed may have been done all the same. Then its version is the one to replace. */
static void epoch_on_retry(struct tfc__timer *timer)
{
	struct tfc__record *record = tfc__container_of(timer, struct tfc__record, retry);
	record->put = tfc__record_get(record, epoch_on_read);
	if (!record->put)
		epoch_schedule_retry(record);
}

void tfc__epoch_resume(struct tfc__record *record)
{
	tfc__timer_init(&record->retry, record->directory->ctx, epoch_on_retry);
	epoch_store_next(record);
}
