#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/options.h"
#include "log/format.h"
#include "port/port.h"
#include "proc/guard.h"

#define GRACE_MS 10000

int tfc_process_limits_init(tfc_process_limits *limits, uint32_t size)
{
	return tfc__options_init(limits, size, sizeof(*limits));
}

int tfc_process_options_init(tfc_process_options *options, uint32_t size)
{
	return tfc__options_init(options, size, sizeof(*options));
}

/* ---- events */

/* What failed, by step; steps that concern the directory and the program have their own texts. */
static const char *const steps[] = {
	[TFC__STEP_NONE] = "the start",
	[TFC__STEP_GUARD] = "creating its supervisor",
	[TFC__STEP_LAUNCH] = "reading what to run",
	[TFC__STEP_LOG] = "opening its log",
	[TFC__STEP_PIPE] = "creating its pipes",
	[TFC__STEP_FORK] = "creating a process",
	[TFC__STEP_NAMESPACE] = "creating a PID namespace",
	[TFC__STEP_PROC] = "mounting /proc in its PID namespace",
	[TFC__STEP_CGROUP] = "creating a cgroup",
};

/* A hint for a program that exec refuses. */
static const char *exec_hint(const char *program, int error)
{
	if (error == ENOENT && strchr(program, ' '))
		return "; it contains a space: give the program and each argument as a word of its "
		       "own, without quotes around them all, or run sh -c";
	if (error == ENOENT && strchr(program, '/'))
		return "; the file and the interpreter in its first line must exist";
	if (error == ENOENT)
		return " in PATH; give its path, or set PATH in the environment";
	if (error == ENOEXEC)
		return "; a script must begin with a line such as #!/bin/sh";
	if (error == EACCES || error == EISDIR)
		return "; it must be an executable file (chmod +x)";
	return "";
}

/* A hint for a kernel that does not allow the isolation. */
static const char *isolation_hint(uint32_t step)
{
	switch (step) {
	case TFC__STEP_NAMESPACE:
		return "; isolation \"pidns\" requires root, or a kernel that allows user "
		       "namespaces (sysctl user.max_user_namespaces, "
		       "kernel.apparmor_restrict_unprivileged_userns)";
	case TFC__STEP_PROC:
		return "; isolation \"pidns\" requires a machine or container whose /proc is not "
		       "masked";
	case TFC__STEP_CGROUP:
		return "; isolation \"cgroup\" requires cgroup v2, Linux 5.14, and a cgroup that "
		       "this user can write to (systemd: Delegate=yes)";
	}
	return "";
}

static void process_describe_start(const tfc_process *process, const struct tfc__report *report,
				   char *text, size_t size)
{
	char buffer[64];
	const char *reason = strerror_r(report->status, buffer, sizeof(buffer));
	if (report->step == TFC__STEP_CWD)
		snprintf(text, size, "cannot start \"%.400s\": working directory \"%.400s\": %s",
			 process->program, process->cwd, reason);
	else if (report->step == TFC__STEP_EXEC)
		snprintf(text, size, "%.400s: %s%s", process->program, reason,
			 exec_hint(process->program, report->status));
	else if (tfc__limits_is_step(report->step))
		tfc__limits_describe(process->program, report, text, size);
	else
		snprintf(text, size, "cannot start \"%.400s\": %s failed: %s%s", process->program,
			 report->step < sizeof(steps) / sizeof(steps[0]) && steps[report->step]
				 ? steps[report->step]
				 : steps[0],
			 reason, isolation_hint(report->step));
}

static void process_describe_end(const tfc_process *process, const struct tfc__report *report,
				 char *text, size_t size)
{
	text[0] = 0;
	if (report->reason == TFC__END_LOST && report->silent_ms)
		snprintf(text, size,
			 "%s was stopped: the job's maintainer was unreachable for %u.%u s",
			 process->program, report->silent_ms / 1000, report->silent_ms / 100 % 10);
	else if (report->reason == TFC__END_LOST)
		snprintf(text, size, "%s was killed: its supervisor died", process->program);
	else if (report->oom >= TFC__OOM_KILLED)
		tfc__limits_describe_oom(process->program, report, text, size);
	else if (report->reason == TFC__END_NOT_STARTED)
		process_describe_start(process, report, text, size);
}

void tfc__process_free(tfc_process *process)
{
	free(process->program);
	free(process->cwd);
	free(process);
}

static void process_call_fn(tfc_process *process, const tfc_process_event *event)
{
	process->is_calling = true;
	if (process->fn)
		process->fn(process->user, event);
	process->is_calling = false;
}

static void process_report_started(tfc_process *process, const struct tfc__report *report)
{
	char text[320] = "";
	if (report->step == TFC__STEP_MEMORY)
		tfc__limits_describe_unlimited(report, text, sizeof(text));
	tfc_process_event event = {.size = sizeof(event),
				   .kind = TFC_PROCESS_STARTED,
				   .pid = report->pid,
				   .time_ns = report->time_ns,
				   .isolation = report->isolation,
				   .memory_limit = *text ? 0 : (uint64_t)report->requested,
				   .text = text};
	process->pid = report->pid;
	process->shim = report->shim;
	process->isolation = report->isolation;
	process_call_fn(process, &event);
}

/* Reports that the process is silent, suspended, or continues. */
static void process_report_alive(tfc_process *process, uint32_t kind,
				 const struct tfc__report *report)
{
	tfc_process_event event = {.size = sizeof(event),
				   .kind = kind,
				   .pid = report->pid,
				   .status = kind == TFC_PROCESS_SUSPENDED ? report->status : 0,
				   .time_ns = report->time_ns,
				   .silent_ms = report->silent_ms,
				   .isolation = process->isolation,
				   .text = ""};
	process_call_fn(process, &event);
}

static void process_report_exited(tfc_process *process, const struct tfc__report *report)
{
	char text[1024];
	int32_t status = report->status;
	if (report->reason == TFC__END_NOT_STARTED)
		status = report->step == TFC__STEP_CWD       ? TFC_ECWD
			 : tfc__limits_is_step(report->step) ? TFC_ELIMIT
							     : tfc__err_from_errno(report->status);
	process_describe_end(process, report, text, sizeof(text));
	tfc_process_event event = {
		.size = sizeof(event),
		.kind = TFC_PROCESS_EXITED,
		.pid = report->pid,
		.reason = report->reason,
		.status = status,
		.is_oom = report->oom >= TFC__OOM_KILLED,
		.time_ns = report->time_ns,
		.user_us = report->user_us,
		.system_us = report->system_us,
		.max_rss_kib = report->max_rss_kib,
		.log_end = report->log_end,
		.log_dropped = report->log_dropped,
		.log_gap = report->log_gap,
		.memory_limit = report->oom == TFC__OOM_LIMIT ? (uint64_t)report->requested : 0,
		.isolation = process->isolation,
		.text = text,
	};
	tfc__guard_remove(process);
	process->pid = process->shim = 0;
	process_call_fn(process, &event);
}

static void process_report_loss(tfc_process *process, uint32_t kind,
				const struct tfc__report *report)
{
	bool is_lost = kind == TFC_PROCESS_OUTPUT_LOST;
	char buffer[64];
	tfc_process_event event = {
		.size = sizeof(event),
		.kind = kind,
		.pid = report->pid,
		.status = is_lost ? tfc__err_from_errno(report->status) : 0,
		.time_ns = report->time_ns,
		.log_dropped = is_lost ? 0 : report->log_dropped,
		.dropped_lines = is_lost ? 0 : report->lost_lines,
		.isolation = process->isolation,
		.text = is_lost ? strerror_r(report->status, buffer, sizeof(buffer)) : "",
	};
	process_call_fn(process, &event);
}

void tfc__process_receive(tfc_process *process, const struct tfc__report *report)
{
	if (report->kind == TFC__MSG_STARTED)
		process_report_started(process, report);
	else if (report->kind == TFC__MSG_STALLED)
		process_report_alive(process, TFC_PROCESS_STALLED, report);
	else if (report->kind == TFC__MSG_SUSPENDED)
		process_report_alive(process, TFC_PROCESS_SUSPENDED, report);
	else if (report->kind == TFC__MSG_CONTINUED)
		process_report_alive(process, TFC_PROCESS_CONTINUED, report);
	else if (report->kind == TFC__MSG_OUTPUT_LOST)
		process_report_loss(process, TFC_PROCESS_OUTPUT_LOST, report);
	else if (report->kind == TFC__MSG_OUTPUT_RESUMED)
		process_report_loss(process, TFC_PROCESS_OUTPUT_RESUMED, report);
	else if (report->kind == TFC__MSG_READY)
		process_report_alive(process, TFC__PROCESS_READY, report);
	else if (report->kind == TFC__MSG_EXITED)
		process_report_exited(process, report);
	if (process->is_closed && !process->guard)
		tfc__process_free(process);
}

/* ---- calls */

static int process_check_options(const tfc_process_options *options, tfc_process_fn fn,
				 tfc_process **ret_process, tfc_error *error)
{
	if (!ret_process || !fn)
		return tfc__fail(error, TFC_EINVAL, "proc", 0, "%s is NULL",
				 fn ? "ret_process" : "fn");
	if (!options->argv || !options->argv[0])
		return tfc__fail(error, TFC_EINVAL, "proc", 0,
				 "tfc_process_options.argv is empty; it must name the program");
	if (options->log_dir && (!options->log_name || !tfc__is_log_name(options->log_name)))
		return tfc__fail(error, TFC_EINVAL, "proc", 0,
				 "tfc_process_options.log_name must be 1 to %d bytes without a "
				 "slash and not begin with a dot",
				 TFC__LOG_NAME_MAX);
	if (options->has_reports && !options->log_dir)
		return tfc__fail(error, TFC_EINVAL, "proc", 0,
				 "tfc_process_options.has_reports requires log_dir, to which the "
				 "reports are written");
	if (options->isolation > TFC_ISOLATION_PIDNS)
		return tfc__fail(
			error, TFC_EINVAL, "proc", 0,
			"tfc_process_options.isolation is %u, which is not in enum tfc_isolation",
			options->isolation);
	return options->limits ? tfc__limits_check(options->limits, error) : TFC_OK;
}

static int process_send_spawn(struct tfc__guard *guard, tfc_process *process,
			      const tfc_process_options *options,
			      const struct tfc__run_terms *run_terms)
{
	void *data;
	size_t len;
	struct tfc__command command = {.kind = TFC__MSG_SPAWN,
				       .grace_ms = options->grace_ms ? options->grace_ms : GRACE_MS,
				       .value = options->isolation};
	if (run_terms && run_terms->lease) {
		command.lease = tfc__lease_id(run_terms->lease);
		command.lease_grace_ms = run_terms->grace_ms;
	}
	if (run_terms && run_terms->dir)
		command.dir = run_terms->dir->id;
	if (run_terms && run_terms->zygote && run_terms->zygote->guard == guard)
		command.zygote = run_terms->zygote->id;
	command.is_zygote = run_terms && run_terms->is_zygote;
	command.import_ms = run_terms ? run_terms->import_ms : 0;
	int code = tfc__launch_build(options, tfc__ctx_error(guard->ctx), &data, &len);
	if (code < 0)
		return code;
	code = options->hold ? tfc__guard_keep_in(guard, options->hold) : TFC_OK;
	if (code == TFC_OK)
		code = tfc__guard_add(guard, process);
	if (code < 0) {
		free(data);
		return code;
	}
	command.keep_id = options->hold ? tfc__guard_keep_id(guard, options->hold) : 0;
	command.id = process->id;
	if (command.grace_ms > guard->longest_grace_ms)
		guard->longest_grace_ms = command.grace_ms;
	code = tfc__guard_send(guard, &command, -1, data, len);
	if (code < 0)
		tfc__guard_remove(process);
	return code;
}

/* A guard that turns out to be dead is replaced, up to a limit (tfc__guard_get). */
static int process_spawn_in_guard(tfc_ctx *ctx, tfc_process *process,
				  const tfc_process_options *options,
				  const struct tfc__run_terms *run_terms)
{
	struct tfc__guard *guard;
	int code = TFC_ELOST;
	for (int attempt = 0; attempt <= TFC__EARLY_ENDS_MAX && code == TFC_ELOST; attempt++) {
		code = tfc__guard_get(ctx, &guard);
		if (code == TFC_OK)
			code = process_send_spawn(guard, process, options, run_terms);
	}
	return code;
}

int tfc__process_spawn(tfc_ctx *ctx, const tfc_process_options *options,
		       const struct tfc__run_terms *run_terms, tfc_process_fn fn, void *user,
		       tfc_process **ret_process)
{
	tfc_process_options own;
	tfc_process_limits limits;
	int code = tfc__ctx_enter(ctx);
	if (code < 0)
		return code;
	tfc_error *error = tfc__ctx_error(ctx);
	code = tfc__options_copy(&own, sizeof(own), options, "proc", "tfc_process_options",
				 offsetof(tfc_process_options, reserved), error);
	if (code == TFC_OK && own.limits) {
		code = tfc__options_copy(&limits, sizeof(limits), own.limits, "proc",
					 "tfc_process_limits",
					 offsetof(tfc_process_limits, reserved), error);
		own.limits = &limits;
	}
	if (code == TFC_OK)
		code = process_check_options(&own, fn, ret_process, error);
	if (code < 0)
		return code;
	tfc_process *process = calloc(1, sizeof(*process));
	if (!process || !(process->program = strdup(own.argv[0])) ||
	    !(process->cwd = strdup(own.cwd ? own.cwd : "/"))) {
		if (process)
			tfc__process_free(process);
		return tfc__fail_nomem(error, "proc");
	}
	process->ctx = ctx;
	process->fn = fn;
	process->user = user;
	code = process_spawn_in_guard(ctx, process, &own, run_terms);
	if (code < 0) {
		tfc__process_free(process);
		return code;
	}
	*ret_process = process;
	return TFC_OK;
}

static void process_close_handle(struct tfc__handle *handle)
{
	tfc_process_close(tfc__container_of(handle, tfc_process, handle));
}

int tfc_process_spawn(tfc_ctx *ctx, const tfc_process_options *options, tfc_process_fn fn,
		      void *user, tfc_process **ret_process)
{
	int code = tfc__process_spawn(ctx, options, NULL, fn, user, ret_process);
	if (code == TFC_OK)
		tfc__handle_open(ctx, &(*ret_process)->handle, TFC__HANDLE_PROCESS,
				 process_close_handle);
	return code;
}

/* A guard that is gone counts as success: the shim is ending the process already. */
int tfc_process_stop(tfc_process *process, uint32_t grace_ms)
{
	if (!process)
		return TFC_EINVAL;
	if (!process->guard)
		return TFC_OK;
	int code = tfc__ctx_enter(process->ctx);
	if (code < 0)
		return code;
	struct tfc__guard *guard = process->guard;
	struct tfc__command *stop = &process->stop.command;
	uint64_t kill_at = tfc__boot_time() + grace_ms * TFC__MS;
	/* The first stop is sent. One that is still queued is changed in place. */
	if (tfc__list_is_empty(&process->stop.link)) {
		stop->deadline_ns = kill_at;
		if (tfc__guard_post(guard, &process->stop) < 0)
			return TFC_OK;
	} else if (kill_at < stop->deadline_ns) {
		stop->deadline_ns = kill_at;
	}
	guard->stops += !process->is_stopping;
	process->is_stopping = true;
	tfc__guard_expect(guard);
	return TFC_OK;
}

int tfc_process_signal(tfc_process *process, int signal_number)
{
	if (!process)
		return TFC_EINVAL;
	if (signal_number < 1 || signal_number > SIGRTMAX)
		return tfc__ctx_fail(process->ctx, TFC_EINVAL, "proc", 0,
				     "signal number %d is not valid", signal_number);
	if (!process->guard)
		return TFC_OK;
	int code = tfc__ctx_enter(process->ctx);
	if (code < 0)
		return code;
	const struct tfc__command command = {.kind = TFC__MSG_SIGNAL,
					     .id = process->id,
					     .value = (uint32_t)signal_number};
	code = tfc__guard_send(process->guard, &command, -1, NULL, 0);
	return code == TFC_ELOST ? TFC_OK : code;
}

pid_t tfc_process_pid(const tfc_process *process)
{
	return process ? process->pid : 0;
}

const char *tfc__isolation_name(uint32_t isolation)
{
	static const char *const names[] = {"auto", "plain", "cgroup", "pidns"};
	return isolation < sizeof(names) / sizeof(names[0]) ? names[isolation] : "?";
}

pid_t tfc__process_shim(const tfc_process *process)
{
	return process ? process->shim : 0;
}

void tfc_process_close(tfc_process *process)
{
	if (!process || process->is_closed)
		return;
	process->is_closed = true;
	tfc__handle_closed(&process->handle);
	process->fn = NULL;
	if (process->guard)
		tfc_process_stop(process, 0);
	else if (!process->is_calling)
		tfc__process_free(process);
}
