/*
 * The log of a task on this machine as a log source: its files, and the watch that says when they
 * grow. Of the readers that have read all there is, only so many keep their files open.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/internal.h"
#include "base/fail.h"
#include "log/source.h"

#define OPEN_LOGS_MAX 32

struct local_log {
	struct tfc__log_source source;
	struct tfc__link link;      /* in job->logs */
	struct tfc__agent_job *job; /* NULL: nobody writes it any more, or it is closed */
	bool is_left;
	struct tfc__log_watch watch;
	tfc_log *log;      /* NULL: not open now */
	uint64_t position; /* then: where to go on */
	char *dir;
	char name[TFC__LOG_NAME_SIZE];
};

static void close_files(struct local_log *log)
{
	if (!log->log)
		return;
	log->position = tfc_log_position(log->log);
	tfc_log_close(log->log);
	log->log = NULL;
	if (log->job)
		log->job->agent->open_logs--;
}

static int open_files(struct local_log *log, tfc_error *error)
{
	if (log->log)
		return TFC_OK;
	int code = tfc_log_open(log->dir, log->name, log->position, error, &log->log);
	if (code == TFC_OK && log->job)
		log->job->agent->open_logs++;
	return code;
}

static int next(void *source, tfc_log_record *record, tfc_error *error)
{
	struct local_log *log = source;
	if (log->is_left)
		return 0;
	int code = open_files(log, error);
	if (code == TFC_OK)
		code = tfc_log_next(log->log, record, error);
	if (code == 0 && log->job && log->job->agent->open_logs > OPEN_LOGS_MAX)
		close_files(log);
	return code;
}

static void close_log(void *source)
{
	struct local_log *log = source;
	close_files(log);
	if (log->job)
		tfc__agent_unwatch(log->job, &log->watch);
	tfc__list_remove(&log->link);
	free(log->dir);
	free(log);
}

void tfc__agent_logs_leave(struct tfc__agent_job *job)
{
	TFC__LIST_EACH (link, &job->logs) {
		struct local_log *log = tfc__container_of(link, struct local_log, link);
		tfc__agent_unwatch(job, &log->watch);
		tfc__list_remove(link);
		job->agent->open_logs -= log->log != NULL;
		log->job = NULL;
		log->is_left = true;
	}
}

static void on_growth(struct tfc__log_watch *watch)
{
	struct local_log *log = tfc__container_of(watch, struct local_log, watch);
	if (log->source.wake)
		log->source.wake(log->source.user);
}

static struct local_log *new_log(const char *dir, const char *name, uint64_t position,
				 tfc_error *error)
{
	static const struct tfc__log_source_ops ops = {next, close_log};
	struct local_log *log = calloc(1, sizeof(*log));
	if (log)
		log->dir = strdup(dir);
	if (!log || !log->dir) {
		free(log);
		tfc__fail_nomem(error, "agent");
		return NULL;
	}
	log->source.ops = &ops;
	log->position = position;
	log->watch.fn = on_growth;
	tfc__list_init(&log->watch.link);
	tfc__list_init(&log->link);
	snprintf(log->name, sizeof(log->name), "%s", name);
	return log;
}

struct tfc__log_source *tfc__log_file_open(const char *dir, const char *name, uint64_t position,
					   tfc_error *error)
{
	struct local_log *log = new_log(dir, name, position, error);
	return log ? &log->source : NULL;
}

/* Without a watch the output comes late, at the end of each attempt, but it comes. */
static int watch(struct local_log *log, uint32_t task, tfc_error *error)
{
	struct tfc__agent_job *job = log->job;
	tfc_error *why = tfc__ctx_error(job->agent->ctx);
	if (job->is_ended || job->is_unwatchable)
		return TFC_OK;
	int code = tfc__agent_watch(job, task, &log->watch);
	if (code == TFC_ENOMEM)
		return tfc__fail_nomem(error, "agent");
	if (code < 0)
		tfc__log(job->agent->ctx, TFC_LOG_WARNING, "agent", job->info.id,
			 "%s: output comes only when an attempt ends", why->text);
	job->is_unwatchable = code < 0;
	return TFC_OK;
}

struct tfc__log_source *tfc__agent_log_open(struct tfc__agent_job *job, uint32_t task,
					    uint64_t position, tfc_error *error)
{
	char name[TFC__LOG_NAME_SIZE];
	tfc__agent_log_name(job, task, name);
	struct local_log *log = new_log(job->log_dir, name, position, error);
	if (!log)
		return NULL;
	log->job = job;
	tfc__list_append(&job->logs, &log->link);
	if (watch(log, task, error) == TFC_OK)
		return &log->source;
	close_log(log);
	return NULL;
}
