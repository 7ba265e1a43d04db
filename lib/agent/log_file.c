/*
 * A task's log on this machine as a source of records: the file, and inotify for its growth.
 */
#include <stdlib.h>

#include "agent/agent_ops.h"
#include "agent/inside.h"
#include "base/fail.h"

struct log_file {
	struct tfc__log_source source;
	struct tfc__agent_job *job;
	uint32_t task;
	tfc_log *log;
	struct tfc__log_watch watch;
};

static int next(void *source, tfc_log_record *record, tfc_error *error)
{
	struct log_file *file = tfc__container_of(source, struct log_file, source);
	return tfc_log_next(file->log, record, error);
}

static void close_file(void *source)
{
	struct log_file *file = tfc__container_of(source, struct log_file, source);
	if (!tfc__list_is_empty(&file->watch.link))
		tfc__agent_unwatch(file->job, &file->watch);
	tfc_log_close(file->log);
	free(file);
}

static const struct tfc__log_source_ops ops = {next, close_file};

static void on_grown(struct tfc__log_watch *watch, uint32_t task)
{
	struct log_file *file = tfc__container_of(watch, struct log_file, watch);
	if ((task == file->task || task == TFC__ALL_TASKS) && file->source.wake)
		file->source.wake(file->source.user);
}

struct tfc__log_source *tfc__agent_log_open(struct tfc__agent_job *job, uint32_t task,
					    uint64_t position, tfc_error *error)
{
	char name[TFC__LOG_NAME_SIZE];
	struct log_file *file = calloc(1, sizeof(*file));
	if (!file) {
		tfc__fail_nomem(error, "agent");
		return NULL;
	}
	file->source.ops = &ops;
	file->job = job;
	file->task = task;
	file->watch.fn = on_grown;
	tfc__list_init(&file->watch.link);
	tfc__agent_log_name(job, task, name);
	int code = tfc_log_open(job->log_dir, name, position, error, &file->log);
	if (code == TFC_OK && (code = tfc__agent_watch(job, &file->watch)) < 0 && error)
		*error = *tfc_ctx_error(job->agent->ctx);
	if (code < 0) {
		close_file(&file->source);
		return NULL;
	}
	return &file->source;
}
