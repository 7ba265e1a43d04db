/* Shims and their tasks, in place of lib/proc/shim: with the real writer of logs. */
#include "shim.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

static uint64_t boot(const struct sim_shim *shim)
{
	return sim_clock(shim->machine, CLOCK_BOOTTIME);
}

static void view(const struct sim_shim *shim, struct sim_task_view *ret_view)
{
	*ret_view = (struct sim_task_view){shim->job, shim->name, shim->attempt, shim->machine};
}

static void task_ended(struct sim_shim *shim, uint32_t reason, int32_t status)
{
	struct tfc__report report = {.kind = TFC__MSG_EXITED,
				     .reason = reason,
				     .status = status,
				     .id = shim->id,
				     .pid = shim->pid,
				     .shim = shim->pid + 1,
				     .silent_ms = shim->silent_ms,
				     .user_us = 1};
	struct sim_task_view seen;
	view(shim, &seen);
	shim->is_alive = false;
	shim->serial++;
	tfc__log_writer_close(&shim->log);
	if (shim->lock >= 0)
		close(shim->lock);
	report.log_end = shim->log.position;
	if (report.silent_ms)
		report.reason = TFC__END_LOST;
	sim_note("%s of attempt %u ends: %u, %d", shim->name, shim->attempt, reason, status);
	if (*shim->job)
		sim_referee_ended(&seen);
	sim_guard_report(shim->guard, &report);
}

static void task_step(struct sim_shim *shim);

static void on_task(void *user, uint64_t serial)
{
	struct sim_shim *shim = user;
	if (shim->is_alive && shim->serial == serial && shim->machine->power == SIM_RUNS) {
		sim.kernel = shim->machine;
		task_step(shim);
		sim.kernel = NULL;
	}
}

static void arm(struct sim_shim *shim)
{
	uint64_t at = sim_true_time(shim->machine, CLOCK_MONOTONIC, shim->program.next);
	if (shim->kill_at) {
		uint64_t kill = sim_true_time(shim->machine, CLOCK_BOOTTIME, shim->kill_at);
		at = kill < at ? kill : at;
	}
	sim_at(at, on_task, shim, ++shim->serial);
}

/* ---- the program */

static uint32_t word(const char *launch, const struct tfc__launch *head, const char *key,
		     uint32_t otherwise)
{
	const uint64_t *argv = (const void *)(launch + head->argv);
	for (uint32_t i = 1; i + 1 < head->argc; i++)
		if (strcmp(launch + argv[i], key) == 0)
			return (uint32_t)strtoul(launch + argv[i + 1], NULL, 10);
	return otherwise;
}

static void program_init(struct sim_program *program, const char *launch,
			 const struct tfc__launch *head)
{
	program->lines = word(launch, head, "lines", 0);
	program->pace_ms = word(launch, head, "pace", 10);
	program->save_ms = word(launch, head, "save", 0);
	program->is_stubborn = word(launch, head, "stubborn", 0);
	program->exit_code = (int32_t)word(launch, head, "exit", 0);
}

static void program_begin(struct sim_shim *shim)
{
	shim->program.next = sim_clock(shim->machine, CLOCK_MONOTONIC) + SIM_MS +
			     sim_draw(20 * SIM_MS);
}

static void write_line(struct sim_shim *shim)
{
	char record[TFC__LOG_HEADER + 128];
	int len = snprintf(record + TFC__LOG_HEADER, 100, "attempt %u line %u\n", shim->attempt,
			   shim->program.line++);
	tfc__log_append(&shim->log, record, (size_t)len, 'o');
}

/* The next thing that it does. */
static void program_step(struct sim_shim *shim)
{
	struct sim_program *program = &shim->program;
	if (program->is_saving) {
		task_ended(shim, TFC__END_CODE, 143);
	} else if (program->line < program->lines) {
		write_line(shim);
		program->next = sim_clock(shim->machine, CLOCK_MONOTONIC) +
				program->pace_ms * SIM_MS;
		arm(shim);
	} else {
		task_ended(shim, TFC__END_CODE, program->exit_code);
	}
}

static void program_terminate(struct sim_shim *shim)
{
	struct sim_program *program = &shim->program;
	if (program->is_stubborn)
		return;
	program->is_saving = true;
	program->next = sim_clock(shim->machine, CLOCK_MONOTONIC) + program->save_ms * SIM_MS +
			SIM_MS;
}

/* The library's own program that removes a directory. */
static void run_removal(const char *launch, const struct tfc__launch *head)
{
	const uint64_t *argv = (const void *)(launch + head->argv);
	if (head->argc < 3 || strcmp(launch + argv[1], "remove") != 0)
		abort();
	if (head->argc > 3)
		tfc__remove_tree_last(launch + argv[2], launch + argv[3]);
	else
		tfc__remove_tree(launch + argv[2]);
}

/* ---- the shim */

/* What is due for a task: it is killed, or its program does the next thing. */
static void task_step(struct sim_shim *shim)
{
	if (shim->kill_at && shim->kill_at <= boot(shim))
		task_ended(shim, TFC__END_SIGNAL, SIGKILL);
	else if (shim->program.next > sim_clock(shim->machine, CLOCK_MONOTONIC))
		arm(shim);
	else
		program_step(shim);
}

void sim_shim_stop(struct sim_shim *shim, uint64_t kill_at)
{
	if (!shim->is_alive)
		return;
	bool is_first = !shim->kill_at;
	if (is_first || kill_at < shim->kill_at)
		shim->kill_at = kill_at ? kill_at : 1;
	if (is_first && kill_at > boot(shim))
		program_terminate(shim);
	arm(shim);
}

void sim_shim_kill(struct sim_shim *shim)
{
	task_ended(shim, TFC__END_SIGNAL, SIGKILL);
}

void sim_shim_wake(struct sim_shim *shim)
{
	if (shim->is_alive)
		arm(shim);
}

void sim_shim_lose_power(struct sim_shim *shim)
{
	struct sim_task_view seen;
	view(shim, &seen);
	if (shim->is_alive && *shim->job)
		sim_referee_ended(&seen);
	shim->is_alive = false;
}

static const char *string_at(const char *launch, uint64_t at)
{
	return at ? launch + at : "";
}

static void open_log(struct sim_shim *shim, const struct tfc__launch *head, const char *log_dir)
{
	shim->log = (struct tfc__log_writer){.dir_fd = -1,
					     .fd = -1,
					     .segment_bytes = head->log_segment_bytes,
					     .segments = head->log_segments,
					     .attempt = head->attempt};
	snprintf(shim->log.name, sizeof(shim->log.name), "%s", shim->name);
	if (*log_dir && tfc__log_writer_open(&shim->log, log_dir) != 0)
		sim_broken("a shim can open its log", "%s", log_dir);
}

void sim_shim_start(struct sim_shim *shim, const char *launch)
{
	const struct tfc__launch *head = (const void *)launch;
	const char *log_dir = string_at(launch, head->log_dir);
	const char *slash = strrchr(log_dir, '/');
	snprintf(shim->job, sizeof(shim->job), "%s", slash ? slash + 1 : "");
	snprintf(shim->name, sizeof(shim->name), "%s", string_at(launch, head->log_name));
	shim->attempt = head->attempt;
	program_init(&shim->program, launch, head);
	open_log(shim, head, log_dir);
	shim->is_alive = true;
	sim_guard_report(shim->guard, &(struct tfc__report){.kind = TFC__MSG_STARTED,
							    .id = shim->id,
							    .pid = shim->pid,
							    .shim = shim->pid + 1,
							    .isolation = TFC__ISOLATION_PLAIN});
	if (!*shim->name) {
		run_removal(launch, head);
		task_ended(shim, TFC__END_CODE, 0);
		return;
	}
	struct sim_task_view seen;
	view(shim, &seen);
	sim_note("%s of %s starts attempt %u", shim->name, shim->job, shim->attempt);
	sim_referee_started(&seen);
	program_begin(shim);
	arm(shim);
}
