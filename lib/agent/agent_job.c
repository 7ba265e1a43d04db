#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/internal.h"
#include "base/fail.h"
#include "base/file.h"

#define INSPECTED_AT_ONCE 64 /* tasks per dispatch */
#define REMOVED_AT_ONCE 64   /* up to so many tasks, directories are removed in this process */

/* ---- events */

void tfc__agent_notify(struct agent_task *task, struct tfc__task_event *event)
{
	event->task = task->number;
	event->attempt = task->attempt;
	task->job->fn(task->job->user, event);
}

static void set_reply(struct agent_task *task, enum reply kind)
{
	task->job->refused_holds -= task->reply_kind == REPLY_HOLD_FAILED;
	task->job->refused_holds += kind == REPLY_HOLD_FAILED;
	task->reply_kind = kind;
}

void tfc__agent_reply(struct agent_task *task, enum reply kind)
{
	set_reply(task, kind);
	tfc__work_schedule(&task->reply);
}

/*
 * A port that another program or this job itself holds stays unavailable; one that another job
 * holds, and other failures, may be temporary.
 */
static bool is_hold_failure_lasting(const struct agent_task *task)
{
	int code = task->error->code;
	if (code != TFC_EEXHAUSTED && code != TFC_EBUSY)
		return code == TFC_EACCES;
	TFC__LIST_EACH (link, &task->job->agent->jobs) {
		const struct tfc__agent_job *job = tfc__container_of(link, struct tfc__agent_job,
								     link);
		if (job == task->job || !job->holds)
			continue;
		if (!task->role->port)
			return false;
		for (uint32_t i = 0; i < job->task_count; i++)
			if (tfc_port_hold_number(job->tasks[i].hold) == task->port)
				return false;
	}
	return true;
}

/*
 * Acquires the task's slot and port. False: the response comes later, after the holds requested
 * before have been tried, or when the guard has closed a port that may be the one needed.
 */
static bool acquire_hold(struct agent_task *task, struct tfc__task_event *event)
{
	struct tfc__agent_job *job = task->job;
	if (tfc__slot_acquire(task) < 0) {
		event->kind = TFC__AGENT_HOLD_FAILED;
		event->is_full = true;
		return true;
	}
	int code;
	if (job->portless && !task->port && tfc__role_has_port(job->info.job, task->role)) {
		*task->error = *job->portless->error;
		code = task->error->code;
	} else if ((code = tfc__agent_hold_port(task)) == TFC_EEXHAUSTED) {
		job->portless = task;
	}
	if (code < 0) {
		if ((task->error->code == TFC_EBUSY || task->error->code == TFC_EEXHAUSTED) &&
		    tfc__guard_await_releases(job->agent->ctx, &task->reply))
			job->portless = NULL;
		else
			tfc__agent_reply(task, REPLY_HOLD_FAILED);
		return false;
	}
	event->kind = TFC__AGENT_HELD;
	event->address = task->address ? task->address : "";
	return true;
}

static void deliver_reply(struct tfc__work *work)
{
	struct agent_task *task = tfc__container_of(work, struct agent_task, reply);
	struct tfc__agent_job *job = task->job;
	struct tfc__task_event event = {.text = task->error->text, .number = task->hold_number};
	switch (task->reply_kind) {
	case REPLY_NONE:
		return;
	case REPLY_TO_HOLD:
		if (!acquire_hold(task, &event))
			return;
		break;
	case REPLY_HOLD_FAILED:
		event.kind = TFC__AGENT_HOLD_FAILED;
		event.missing = job->refused_holds;
		event.ports = job->pool_holds;
		job->portless = NULL;
		event.is_lasting = is_hold_failure_lasting(task);
		break;
	case REPLY_REFUSED:
		event.kind = TFC__AGENT_REFUSED;
		/* The port's holder has died, and another program has the port since. */
		event.end.is_port_occupied = task->hold && tfc__port_is_lost(task->hold) &&
					     task->error->code == TFC_EBUSY;
		break;
	}
	set_reply(task, REPLY_NONE);
	tfc__agent_notify(task, &event);
}

void tfc__agent_task_info(const struct agent_task *task, tfc_task_info *ret_info)
{
	*ret_info = (tfc_task_info){
		.size = sizeof(*ret_info),
		.task_index = task->index,
		.job = task->job->info.id,
		.task_type = task->role->name,
		.address = task->address ? task->address : "",
		.attempt = task->attempt,
		.generation = task->generation,
		.host_tag = task->job->info.host_tag,
		.host_tag_len = task->job->info.host_tag_len,
	};
}

/* ---- opening and closing */

static int agent_job_create_dirs(struct tfc__agent_job *job, tfc_error *error)
{
	const char *logs = job->agent->log_dir;
	if (logs && mkdir(logs, 0777) < 0 && errno != EEXIST)
		return tfc__fail_errno(error, "agent", errno, "cannot create log directory \"%s\"",
				       logs);
	if (mkdir(job->run_dir, 0700) < 0)
		return tfc__fail_errno(error, "agent", errno, "cannot create \"%s\"", job->run_dir);
	/* The logs of an earlier epoch, or of this one before its lease was over, are continued. */
	bool may_be_there = job->info.epoch > 1 || job->info.lease;
	if (mkdir(job->log_dir, 0700) < 0 && (errno != EEXIST || !may_be_there))
		return tfc__fail_errno(error, "agent", errno, "cannot create log directory \"%s\"",
				       job->log_dir);
	return TFC_OK;
}

static void init_tasks(struct tfc__agent_job *job)
{
	struct agent_task *task = job->tasks;
	for (uint32_t r = 0; r < job->info.job->role_count; r++) {
		const struct tfc__role *role = &job->info.job->roles[r];
		for (uint32_t i = 0; i < role->count; i++, task++) {
			task->job = job;
			task->role = role;
			task->number = (uint32_t)(task - job->tasks);
			task->index = i;
			task->error = &job->errors[task->number];
			task->port = role->port ? (uint16_t)(role->port + i) : 0;
			tfc__list_init(&task->watch_link);
			tfc__list_init(&task->waiting_link);
			tfc__work_init(&task->reply, job->agent->ctx, deliver_reply);
			tfc__stall_init(task);
		}
	}
}

static void deliver_states(struct tfc__work *work);

/* Creates the struct; nothing of the job is created or run yet. */
static int agent_job_new(struct tfc__agent *agent, const struct tfc__agent_job_info *info,
			 struct tfc__agent_job **ret_job, tfc_error *error)
{
	struct tfc__agent_job *job = calloc(1, sizeof(*job));
	if (!job)
		return tfc__fail_nomem(error, "agent");
	job->agent = agent;
	job->info = *info;
	tfc__observer_init(&job->bundle_waiter, NULL);
	tfc__list_append(&agent->jobs, &job->link);
	tfc__work_init(&job->delivery, agent->ctx, deliver_states);
	tfc__work_init(&job->inspected, agent->ctx, tfc__agent_deliver_inspection);
	uint32_t count = tfc__job_task_count(info->job);
	job->tasks = calloc(count, sizeof(*job->tasks));
	job->states = calloc(count, 1);
	job->errors = calloc(count, sizeof(*job->errors));
	job->run_dir = tfc__path_join(agent->run_dir, info->id);
	if (job->run_dir)
		job->log_dir = agent->log_dir ? tfc__path_join(agent->log_dir, info->id)
					      : tfc__path_join(job->run_dir, "logs");
	if (!job->tasks || !job->states || !job->errors || !job->log_dir) {
		tfc__agent_job_close(job);
		return tfc__fail_nomem(error, "agent");
	}
	job->task_count = count;
	init_tasks(job);
	tfc__log_dir_init(&job->logs, agent->ctx, job->log_dir, job->info.id, &agent->open_logs);
	*ret_job = job;
	return TFC_OK;
}

int tfc__agent_job_open(struct tfc__agent *agent, const struct tfc__agent_job_info *info,
			tfc__agent_fn fn, void *user, tfc_error *error,
			struct tfc__agent_job **ret_job)
{
	struct tfc__agent_job *job;
	int code = agent_job_new(agent, info, &job, error);
	if (code < 0)
		return code;
	job->fn = fn;
	job->user = user;
	if ((code = agent_job_create_dirs(job, error)) < 0 ||
	    (code = tfc__limits_begin(job, error)) < 0 ||
	    (code = tfc__stacks_prepare(job, error)) < 0 ||
	    (code = tfc__bundle_begin(job, error)) < 0) {
		tfc__agent_job_close(job);
		return code;
	}
	*ret_job = job;
	return TFC_OK;
}

int tfc__agent_plan_job(struct tfc__agent *agent, const struct tfc__agent_job_info *info,
			tfc_error *error, struct tfc__agent_job **ret_job)
{
	struct tfc__agent_job *job;
	int code = agent_job_new(agent, info, &job, error);
	if (code < 0)
		return code;
	job->is_plan = true;
	if ((code = tfc__limits_begin(job, error)) < 0) {
		tfc__agent_job_close(job);
		return code;
	}
	*ret_job = job;
	return TFC_OK;
}

void tfc__agent_job_end(struct tfc__agent_job *job)
{
	tfc__log_dir_complete(&job->logs);
	tfc__zygotes_leave(job->agent->zygotes, job);
	tfc__agent_bundle_end(job);
}

/*
 * The directories of many tasks are removed by a separate process, under another name, because the
 * same job may be opened again.
 */
static void remove_run_dir(struct tfc__agent_job *job)
{
	struct tfc__agent *agent = job->agent;
	char renamed[PATH_MAX];
	snprintf(renamed, sizeof(renamed), "%s.%u", job->run_dir, ++agent->removed);
	if (agent->is_closing || job->task_count <= REMOVED_AT_ONCE ||
	    rename(job->run_dir, renamed) < 0)
		tfc__remove_tree(job->run_dir);
	else if (tfc__removal_begin(agent, renamed, -1) < 0)
		tfc__remove_tree(renamed);
}

void tfc__agent_job_close(struct tfc__agent_job *job)
{
	if (!job)
		return;
	for (uint32_t i = 0; i < job->task_count; i++) {
		struct agent_task *task = &job->tasks[i];
		tfc__agent_unwatch_listener(task);
		tfc__list_remove(&task->waiting_link);
		tfc__stall_fini(task);
		tfc__work_cancel(&task->reply);
		tfc_process_close(task->process);
		tfc_port_hold_release(task->hold);
		tfc__slot_release(task);
		tfc__strv_fini(&task->argv);
		tfc__strv_fini(&task->env);
		tfc__strv_fini(&task->extra_env);
		free(task->address);
	}
	tfc__zygotes_leave(job->agent->zygotes, job);
	tfc__bundle_close(job);
	tfc__work_cancel(&job->delivery);
	tfc__work_cancel(&job->inspected);
	tfc__log_dir_fini(&job->logs);
	tfc__limits_end(job);
	if (job->feed)
		job->agent->feeds.close(job->feed);
	if (job->run_dir)
		remove_run_dir(job);
	tfc__list_remove(&job->link);
	free(job->run_dir);
	free(job->log_dir);
	free(job->tasks);
	tfc_spec_free(job->spec);
	tfc__strv_fini(&job->hosts);
	free(job->states);
	free(job->errors);
	free(job);
}

/* ---- ports */

int tfc__agent_set_address(struct agent_task *task, const char *host)
{
	const char *format = strchr(host, ':') ? "[%s]:%u" : "%s:%u"; /* brackets: IPv6 */
	char *address;
	if (asprintf(&address, format, host, task->port) < 0)
		return tfc__fail_nomem(task->error, "agent");
	free(task->address);
	task->address = address;
	return TFC_OK;
}

/* Ensures that the guard holds the task's port, for the first time or again. */
int tfc__agent_hold_port(struct agent_task *task)
{
	struct tfc__agent *agent = task->job->agent;
	if (!tfc__role_has_port(task->job->info.job, task->role))
		return TFC_OK;
	int code = TFC_OK;
	if (!task->hold) {
		code = tfc__port_acquire(agent->pool, task->port, &task->hold);
		task->job->holds += code == TFC_OK;
		task->job->pool_holds += code == TFC_OK && !task->role->port;
	} else if (tfc__port_is_lost(task->hold)) {
		code = tfc__port_reacquire(task->hold);
	} else {
		return TFC_OK;
	}
	if (code == TFC_OK && !task->job->is_plan)
		code = tfc__guard_keep(agent->ctx, task->hold);
	if (code < 0) {
		*task->error = *tfc_ctx_error(agent->ctx);
		return code;
	}
	task->port = tfc_port_hold_number(task->hold);
	return tfc__agent_set_address(task, agent->host);
}

void tfc__agent_hold(struct tfc__agent_job *job, uint32_t number, uint32_t hold)
{
	struct agent_task *task = &job->tasks[number];
	task->hold_number = hold;
	set_reply(task, REPLY_TO_HOLD);
	if (job->is_plan)
		tfc__work_schedule(&task->reply);
	else
		tfc__agent_after_previous(job->agent, &task->reply);
}

void tfc__agent_release(struct tfc__agent_job *job, uint32_t number)
{
	struct agent_task *task = &job->tasks[number];
	if (task->reply_kind != REPLY_REFUSED)
		set_reply(task, REPLY_NONE);
	if (task->job->portless == task)
		task->job->portless = NULL;
	job->holds -= task->hold != NULL;
	job->pool_holds -= task->hold && !task->role->port;
	tfc_port_hold_release(task->hold);
	tfc__slot_release(task);
	task->hold = NULL;
	task->port = task->role->port ? (uint16_t)(task->role->port + task->index) : 0;
}

/* ---- signals and stops */

void tfc__agent_refuse_stopped(struct agent_task *task)
{
	task->attempt_state = ATTEMPT_NONE;
	tfc__fail(task->error, TFC_ECANCELED, "agent", 0, "stopped before it started");
	tfc__agent_reply(task, REPLY_REFUSED);
}

void tfc__agent_stop(struct tfc__agent_job *job, uint32_t number, uint32_t grace_ms)
{
	struct agent_task *task = &job->tasks[number];
	switch (task->attempt_state) {
	case ATTEMPT_NONE:
		break;
	case ATTEMPT_WAITING:
	case ATTEMPT_QUEUED:
		tfc__list_remove(&task->waiting_link);
		tfc__agent_refuse_stopped(task);
		break;
	case ATTEMPT_UNPACKING:
	case ATTEMPT_CANCELED:
		task->attempt_state = ATTEMPT_CANCELED;
		tfc_process_stop(task->process, 0);
		break;
	case ATTEMPT_SPAWNED:
	case ATTEMPT_STARTED:
		tfc_process_stop(task->process, grace_ms);
		break;
	}
}

/* ---- queries */

/*
 * Each task is inspected once after the query, in batches. A task that is dead but not yet reported
 * delays the response: its EXITED comes first.
 */
static bool inspect_states(struct tfc__agent_job *job)
{
	uint32_t end = job->known_states + INSPECTED_AT_ONCE;
	for (; job->known_states < job->task_count; job->known_states++) {
		const struct agent_task *task = &job->tasks[job->known_states];
		uint8_t *state = &job->states[job->known_states];
		if (job->known_states == end) {
			tfc__work_schedule(&job->delivery);
			return false;
		}
		*state = task->process ? TFC__PROC_RUNNING : TFC__PROC_NONE;
		if (task->attempt_state != ATTEMPT_STARTED)
			continue;
		char letter = tfc__activity_process_state(task->pid);
		if (letter == 0 || letter == 'Z' || letter == 'X')
			return false;
		if (letter == 'T' || letter == 't')
			*state = TFC__PROC_STOPPED;
	}
	return true;
}

static void deliver_states(struct tfc__work *work)
{
	struct tfc__agent_job *job = tfc__container_of(work, struct tfc__agent_job, delivery);
	if (!job->query || !inspect_states(job))
		return;
	tfc__zygotes_report(job->agent->zygotes, job); /* another maintainer does not know them */
	for (uint32_t i = 0; i < job->task_count; i++)
		if (!job->tasks[i].process) /* it has ended since it was inspected */
			job->states[i] = TFC__PROC_NONE;
	struct tfc__task_event event = {.kind = TFC__AGENT_STATES,
					.number = job->query,
					.states = job->states,
					.state_count = job->task_count};
	job->query = 0;
	job->fn(job->user, &event);
}

void tfc__agent_continue_query(struct tfc__agent_job *job)
{
	if (job->query)
		tfc__work_schedule(&job->delivery);
}

void tfc__agent_query(struct tfc__agent_job *job, uint32_t query)
{
	job->query = query;
	job->known_states = 0;
	tfc__agent_after_previous(job->agent, &job->delivery);
}

/* ---- inspection */

int tfc__agent_spec(const struct tfc__agent_job *job, tfc_error *error, tfc_spec **ret_spec)
{
	tfc_spec *spec = NULL;
	int code = tfc_spec_new(&spec);
	if (code < 0)
		tfc__fail_nomem(error, "agent");
	for (uint32_t i = 0; code == TFC_OK && i < job->task_count; i++) {
		const struct agent_task *task = &job->tasks[i];
		if (tfc__role_is_in_cluster(task->role->name) && task->address && *task->address)
			code = tfc_spec_add(spec, task->role->name, task->index, task->address,
					    error);
	}
	if (code < 0) {
		tfc_spec_free(spec);
		return code;
	}
	*ret_spec = spec;
	return TFC_OK;
}

bool tfc__agent_keeps_logs(const struct tfc__agent *agent)
{
	return agent->log_dir;
}

const char *tfc__agent_log_dir(const struct tfc__agent_job *job)
{
	return job->log_dir;
}

void tfc__agent_log_name(const struct tfc__agent_job *job, uint32_t task,
			 char name[TFC__LOG_NAME_SIZE])
{
	snprintf(name, TFC__LOG_NAME_SIZE, "%s-%u", job->tasks[task].role->name,
		 job->tasks[task].index);
}
