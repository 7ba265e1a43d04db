#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/internal.h"
#include "base/fail.h"
#include "log/tail.h"

struct tfc__run_terms tfc__agent_run_terms(const struct tfc__agent_job *job)
{
	return (struct tfc__run_terms){.lease = job->info.lease,
				       .grace_ms = tfc__job_abort_grace_ms(job->info.job),
				       .dir = job->agent->private_dir};
}

/*
 * Output of a program that cannot bind its port: TensorFlow's message
 * (core/distributed_runtime/rpc/ grpc_server_lib.cc), and the C library's text of EADDRINUSE, which
 * nearly all other programs print.
 */
static const char *const bind_failures[] = {"Could not start gRPC server", "Address already in use",
					    NULL};

/*
 * Output of TensorFlow when it, or one of its peers, saves a checkpoint because of SIGTERM:
 * messages of PreemptionCheckpointHandler (distribute/failure_handling/failure_handling.py), of
 * which by default only a warning about the save itself is printed; and those of the notifier in
 * C++ (coordination/preemption_notifier.cc).
 */
static const char *const preemption_notices[] = {
	"PreemptionCheckpointHandler.total_run_calls",
	"PreemptionCheckpointHandler: Starting saving a checkpoint",
	"has received termination notice", "SIGTERM caught", NULL};

/* The first of the texts that is in this attempt's last lines; or NULL. */
static const char *attempt_find_output(const struct agent_task *task, const char *const *words)
{
	char name[TFC__LOG_NAME_SIZE];
	char **lines;
	const char *found = NULL;
	tfc__agent_log_name(task->job, task->number, name);
	if (tfc__log_tail(task->job->log_dir, name, task->attempt, 0, 20, &lines) < 0)
		return NULL;
	for (; *words && !found; words++)
		for (char **line = lines; *line && !found; line++)
			found = strstr(*line, *words) ? *words : NULL;
	tfc_strv_free(lines);
	return found;
}

/* Only with mirrored workers do all save when one of them is preempted. */
static bool attempt_had_notice(const struct agent_task *task, const tfc_process_event *process)
{
	const tfc_job *job = task->job->info.job;
	bool is_failure = process->reason == TFC_EXIT_SIGNAL ||
			  (process->reason == TFC_EXIT_CODE && process->status != 0);
	return is_failure && tfc__job_strategy(job) == TFC_STRATEGY_MULTI_WORKER_MIRRORED &&
	       attempt_find_output(task, preemption_notices);
}

/*
 * An attempt that failed while its bind window was open may have met a foreign listener that has
 * ended since. The kernel keeps no trace of that, but the task's output shows that it could not
 * bind. A program that can never bind is stopped by its restart limit.
 */
static void attempt_explain_end(struct agent_task *task, struct tfc__task_event *event)
{
	bool is_failure = event->end.reason == TFC_EXIT_CODE && event->end.status != 0;
	bool is_window_open = task->listener == LISTENER_AWAITED ||
			      task->listener == LISTENER_DOUBTED;
	const char *words = NULL;
	/* Without the shim the task's own listeners seemed foreign; they have ended by now. */
	if (task->listener == LISTENER_FOREIGN && event->end.reason == TFC_EXIT_LOST) {
		task->listener = LISTENER_NONE;
		tfc__agent_find_foreign_listener(task);
	}
	if (is_failure && task->hold && task->listener != LISTENER_FOREIGN &&
	    !tfc__agent_find_foreign_listener(task) && is_window_open)
		words = attempt_find_output(task, bind_failures);
	if (words) {
		tfc__fail(task->error, TFC_EBUSY, "agent", 0,
			  "the task could not bind port %u (\"%s\"); either another process "
			  "listened there for a moment, or the program does not set SO_REUSEADDR "
			  "(if so, set port_handover to release)",
			  task->port, words);
		event->end.is_bind_failed = true;
		event->text = task->error->text;
	}
	if (task->listener == LISTENER_FOREIGN) {
		event->end.is_port_occupied = true;
		event->text = task->error->text;
	}
}

struct attempt_error {
	struct tfc__error_line line;
	char quote[TFC__ERROR_QUOTE_SIZE];
};

/*
 * Quotes the attempt's error file, or else its output. A program may send both streams to standard
 * output, where only a traceback and the like are a reason. What a program printed before a signal
 * of the kernel or another process killed it is none, unless a runtime has reported the signal.
 */
static void attempt_quote_error(struct agent_task *task, struct attempt_error *error,
				struct tfc__task_event *event)
{
	static const uint32_t streams[] = {TFC_STREAM_STDERR, TFC_STREAM_STDOUT};
	const struct tfc__attempt_end *end = &event->end;
	bool is_abort = end->reason == TFC_EXIT_SIGNAL && end->status == SIGABRT;
	bool is_crash = end->reason == TFC_EXIT_SIGNAL &&
			(end->status == SIGSEGV || end->status == SIGBUS || end->status == SIGFPE ||
			 end->status == SIGILL || end->status == SIGTRAP);
	bool is_exit = end->reason == TFC_EXIT_CODE && end->status != 0;
	bool is_found;
	char name[TFC__LOG_NAME_SIZE];
	char **lines;
	if (!is_exit && !is_abort && !is_crash)
		return;
	is_found = tfc__error_file_find(task, &error->line);
	tfc__agent_log_name(task->job, task->number, name);
	for (int i = 0; i < 2 && !is_found; i++) {
		enum tfc__error_source source = is_crash ? TFC__ERROR_FATAL
						: streams[i] == TFC_STREAM_STDERR
							? TFC__ERROR_LAST
							: TFC__ERROR_RAISED;
		if (tfc__log_tail(task->job->log_dir, name, task->attempt, streams[i],
				  TFC__ERROR_LINE_LINES, &lines) < 0)
			return;
		is_found = tfc__error_line_find(lines, source, &error->line);
		tfc_strv_free(lines);
	}
	if (!is_found)
		return;
	event->error_line = error->line.text;
	if (event->text && *event->text)
		return;
	tfc__error_line_quote(&error->line, error->quote);
	event->text = error->quote;
}

struct tfc__task_event tfc__agent_process_event(const tfc_process_event *process)
{
	struct tfc__task_event event = {.kind = TFC__AGENT_STARTED,
					.process = process->kind,
					.pid = process->pid,
					.isolation = process->isolation,
					.memory_limit = process->memory_limit};
	if (process->kind != TFC_PROCESS_EXITED)
		return event;
	event.kind = TFC__AGENT_EXITED;
	event.text = process->text;
	event.end = (struct tfc__attempt_end){.reason = process->reason,
					      .status = process->status,
					      .is_oom = process->is_oom,
					      .memory_limit = process->memory_limit,
					      .time_ns = process->time_ns,
					      .user_us = process->user_us,
					      .system_us = process->system_us,
					      .max_rss_kib = process->max_rss_kib,
					      .log_gap = process->log_gap};
	return event;
}

static void attempt_on_exit(struct agent_task *task, const tfc_process_event *process)
{
	struct tfc__agent *agent = task->job->agent;
	struct tfc__task_event event = tfc__agent_process_event(process);
	struct attempt_error error;
	event.end.log_end = process->log_end;
	if (process->reason == TFC_EXIT_LOST) { /* a killed shim could not report it */
		char name[TFC__LOG_NAME_SIZE];
		tfc__agent_log_name(task->job, task->number, name);
		event.end.log_end = tfc__log_end(task->job->log_dir, name);
	}
	tfc__agent_unwatch_listener(task);
	tfc__stall_fini(task);
	attempt_explain_end(task, &event);
	attempt_quote_error(task, &error, &event);
	event.end.had_notice = attempt_had_notice(task, process);
	/* With port_handover "release" only the task had the port: acquire it again before another
	 * program does. */
	if (task->hold && tfc__port_is_lost(task->hold))
		tfc__agent_hold_port(task);
	else if (task->hold)
		tfc_port_hold_set_open(task->hold, 0);
	tfc__output_loss_end(task, process);
	tfc_process_close(task->process);
	task->process = NULL;
	task->pid = 0;
	task->attempt_state = ATTEMPT_NONE;
	task->listener = LISTENER_NONE;
	if (agent->hooks.after_exit) {
		tfc_task_info info;
		tfc__agent_task_info(task, &info);
		agent->hooks.after_exit(agent->hooks.user, &info);
	}
	tfc__agent_continue_query(task->job);
	tfc__agent_notify(task, &event);
}

/* Once for the job: it is the same for each task. */
static void attempt_report_unlimited(struct agent_task *task, const char *text)
{
	struct tfc__agent_job *job = task->job;
	if (job->is_memory_reported)
		return;
	job->is_memory_reported = true;
	tfc__log(job->agent->ctx, TFC_LOG_WARNING, "agent", job->info.id,
		 "%s/%u: %s; set memory_limit to false if the memory is only to be reserved",
		 task->role->name, task->index, text);
}

static void attempt_on_event(void *user, const tfc_process_event *process)
{
	struct agent_task *task = user;
	if (process->kind == TFC_PROCESS_EXITED) {
		attempt_on_exit(task, process);
		return;
	}
	switch (process->kind) {
	case TFC_PROCESS_STALLED:
		tfc__stall_report(task, process->silent_ms);
		return;
	case TFC_PROCESS_SUSPENDED:
		tfc__suspension_report(task, process);
		return;
	case TFC_PROCESS_CONTINUED:
		tfc__suspension_report_end(task, process);
		return;
	case TFC_PROCESS_OUTPUT_LOST:
		tfc__output_loss_begin(task, process);
		return;
	case TFC_PROCESS_OUTPUT_RESUMED:
		tfc__output_loss_end(task, process);
		return;
	}
	if (*process->text)
		attempt_report_unlimited(task, process->text);
	task->pid = process->pid;
	task->attempt_state = ATTEMPT_STARTED;
	tfc__activity_begin(task);
	if (task->hold)
		tfc__agent_watch_listener(task);
	struct tfc__task_event event = tfc__agent_process_event(process);
	tfc__agent_notify(task, &event);
}

/* The program's working directory: the one the job names, or that of its bundle. */
char *tfc__agent_working_dir(const struct agent_task *task)
{
	const tfc_job *job = task->job->info.job;
	const char *cwd = task->role->cwd ? task->role->cwd : job->cwd;
	if (!job->bundle || (cwd && cwd[0] == '/'))
		return strdup(cwd ? cwd : "/");
	char *dir = tfc__bundle_dir(task);
	if (!dir || !cwd)
		return dir;
	char *below;
	if (asprintf(&below, "%s/%s", dir, cwd) < 0)
		below = NULL;
	free(dir);
	return below;
}

void tfc__agent_spawn_attempt(struct agent_task *task)
{
	struct tfc__agent_job *job = task->job;
	struct tfc__run_terms run_terms = tfc__agent_run_terms(job);
	char name[TFC__LOG_NAME_SIZE];
	char *cwd = tfc__agent_working_dir(task);
	tfc__error_file_remove(task);
	tfc__agent_log_name(job, task->number, name);
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	tfc_process_limits limits;
	tfc_rlimit rlimits[TFC__RLIMITS];
	tfc__limits_fill(task, &limits, rlimits);
	options.limits = &limits;
	options.argv = (const char *const *)task->argv.items;
	options.env = (const char *const *)task->env.items;
	options.cwd = cwd;
	options.log_dir = job->log_dir;
	options.log_name = name;
	options.attempt = task->attempt;
	/* When this process dies; 0 would be the default. A stop has a grace of its own. */
	options.grace_ms = run_terms.grace_ms ? run_terms.grace_ms : 1;
	options.stall_ms = tfc__stall_ms(task);
	options.suspend_ms = TFC__SUSPEND_MS;
	options.reports_lost_output = 1;
	options.has_reports = job->info.job->reports;
	options.isolation = job->info.job->isolation;
	run_terms.zygote = tfc__warm_zygote(task, &options);
	if (task->hold && task->role->port_handover == TFC__HANDOVER_RELEASE)
		tfc__port_hand_over(task->hold);
	else
		options.hold = task->hold;
	int code = cwd ? tfc__process_spawn(job->agent->ctx, &options, &run_terms, attempt_on_event,
					    task, &task->process)
		       : tfc__ctx_fail(job->agent->ctx, TFC_ENOMEM, "agent", 0, "out of memory");
	/*
	 * This call has noticed that the guard is dead and the port lost: the next guard keeps the
	 * port.
	 */
	if (code == TFC_ELOST && (code = tfc__agent_hold_port(task)) == TFC_OK)
		code = tfc__process_spawn(job->agent->ctx, &options, &run_terms, attempt_on_event,
					  task, &task->process);
	free(cwd);
	tfc__strv_fini(&task->argv);
	tfc__strv_fini(&task->env);
	if (code < 0) {
		*task->error = *tfc_ctx_error(job->agent->ctx);
		tfc__agent_reply(task, REPLY_REFUSED);
		return;
	}
	task->attempt_state = ATTEMPT_SPAWNED;
}

static int run_before_launch(struct agent_task *task)
{
	struct tfc__agent *agent = task->job->agent;
	tfc_task_info info;
	if (!agent->hooks.before_launch)
		return TFC_OK;
	tfc__agent_task_info(task, &info);
	int code = agent->hooks.before_launch(agent->hooks.user, &info, (tfc_env *)&task->env);
	if (code < 0)
		return tfc__fail(task->error, code, "agent", 0,
				 "refused by the host's before_launch hook: %s",
				 tfc_err_text(code));
	return TFC_OK;
}

static void launch_now(struct agent_task *task)
{
	const tfc_spec *spec = task->job->spec;
	if (!spec)
		tfc__fail_nomem(task->error, "agent");
	if (!spec || tfc__agent_hold_port(task) < 0 ||
	    tfc__render_argv(task, spec, &task->argv, task->error) < 0 ||
	    tfc__render_environ(task, spec, &task->env, task->error) < 0 ||
	    run_before_launch(task) < 0) {
		tfc__strv_fini(&task->argv);
		tfc__strv_fini(&task->env);
		tfc__agent_reply(task, REPLY_REFUSED);
		return;
	}
	tfc__bundle_launch(task);
}

/*
 * ---- launches that wait until the guard has room
 *
 * An environment names every task of the cluster, so the environments of a thousand tasks, all
 * rendered at once, would take a thousand times the memory of one. Each is therefore rendered when
 * it can be sent. One batch has only a few launches, because each costs some 50 us.
 */

#define LAUNCHES_PER_BATCH 16

static int launch_copy_task(void *user, const char *task_type, uint32_t task_index,
			    const char *address)
{
	return tfc_spec_add(user, task_type, task_index, address, NULL);
}

void tfc__agent_set_spec(struct tfc__agent_job *job, const struct tfc__task_order *order)
{
	tfc_spec *copy = NULL;
	tfc__strv_fini(&job->hosts);
	job->hosts = (struct tfc__strv){0};
	tfc__strv_add_all(&job->hosts, order->hosts);
	if (tfc_spec_new(&copy) < 0 || tfc_spec_each(order->spec, launch_copy_task, copy) != 0 ||
	    job->hosts.is_failed) {
		tfc_spec_free(copy);
		copy = NULL;
	}
	tfc_spec_free(job->spec);
	job->spec = copy;
	job->spec_generation = order->generation;
}

void tfc__waiting_resume(struct tfc__work *work)
{
	struct tfc__agent *agent = tfc__container_of(work, struct tfc__agent, guard_is_free);
	agent->launched = 0;
	while (!tfc__list_is_empty(&agent->waiting) && !tfc__guard_is_busy(agent->ctx) &&
	       agent->launched++ < LAUNCHES_PER_BATCH) {
		struct agent_task *task = tfc__container_of(agent->waiting.next, struct agent_task,
							    waiting_link);
		tfc__list_remove(&task->waiting_link);
		task->attempt_state = ATTEMPT_NONE;
		launch_now(task);
	}
	if (!tfc__list_is_empty(&agent->waiting))
		tfc__guard_when_free(agent->ctx, &agent->guard_is_free);
	agent->launched = 0;
}

/* ---- launching */

void tfc__agent_launch(struct tfc__agent_job *job, uint32_t number, uint32_t attempt,
		       uint32_t generation)
{
	struct tfc__agent *agent = job->agent;
	struct agent_task *task = &job->tasks[number];
	task->attempt = attempt;
	task->generation = generation;
	tfc__strv_fini(&task->argv);
	tfc__strv_fini(&task->env);
	if (!generation || job->spec_generation != generation) {
		tfc__fail(task->error, TFC_EINVAL, "agent", 0,
			  "the node has no cluster spec of generation %u", generation);
		tfc__agent_reply(task, REPLY_REFUSED);
	} else if (tfc__list_is_empty(&agent->waiting) && !tfc__guard_is_busy(agent->ctx) &&
		   agent->launched < LAUNCHES_PER_BATCH) {
		agent->launched++;
		tfc__work_schedule(&agent->guard_is_free);
		launch_now(task);
	} else {
		task->attempt_state = ATTEMPT_WAITING;
		tfc__list_append(&agent->waiting, &task->waiting_link);
		tfc__guard_when_free(agent->ctx, &agent->guard_is_free);
	}
}
