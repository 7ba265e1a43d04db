/*
 * Shims and their tasks. A shim carries out what lib/proc/shim/core.c decides, on its machine's
 * clocks and with the real writer of logs; its task is a program that the simulator plays.
 */
#include "shim.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static struct sim_shim *shims; /* that are not over, the latest first */

static uint64_t boot(const struct sim_shim *shim)
{
	return sim_clock(shim->machine, CLOCK_BOOTTIME);
}

static uint64_t monotonic(const struct sim_shim *shim)
{
	return sim_clock(shim->machine, CLOCK_MONOTONIC);
}

static void view(const struct sim_shim *shim, struct sim_task_view *ret_view)
{
	*ret_view = (struct sim_task_view){shim->job, shim->name, shim->attempt, shim->machine};
}

/* Time does not go beyond that without a look at all shims. */
static void on_time(void *user, uint64_t number)
{
}

static void wait_until(const struct sim_shim *shim, clockid_t clock, uint64_t at)
{
	if (at)
		sim_at(sim_true_time(shim->machine, clock, at), on_time, NULL, 0);
}

/* ---- the task */

static struct sim_process process_of(const struct sim_shim *shim)
{
	return (struct sim_process){.machine = shim->machine,
				    .pid = shim->task,
				    .parent = shim->pid,
				    .uid = SIM_UID,
				    .name = "count"};
}

static void leave_port(const struct sim_shim *shim)
{
	const struct sim_process process = process_of(shim);
	sim_port_close(shim->machine, shim->task);
	sim_referee_port_left(&process,
			      shim->end.reason == TFC__END_CODE && !shim->program.is_saving,
			      !sim_guard_is_dead(shim->guard));
}

static void task_die(struct sim_shim *shim, uint32_t reason, int32_t status)
{
	struct sim_task_view seen;
	if (!shim->is_alive)
		return;
	view(shim, &seen);
	shim->is_alive = false;
	shim->end = (struct tfc__report){.reason = reason, .status = status};
	sim_note("%s of attempt %u ends: %u, %d", shim->name, shim->attempt, reason, status);
	if (*shim->job)
		sim_referee_ended(&seen);
	if (shim->port)
		leave_port(shim);
}

void sim_task_kill(struct sim_shim *shim)
{
	task_die(shim, TFC__END_SIGNAL, SIGKILL);
}

static uint32_t word(const char *launch, const struct tfc__launch *head, const char *key,
		     uint32_t otherwise)
{
	const uint64_t *argv = (const void *)(launch + head->argv);
	for (uint32_t i = 1; i + 1 < head->argc; i++)
		if (strcmp(launch + argv[i], key) == 0)
			return (uint32_t)strtoul(launch + argv[i + 1], NULL, 10);
	return otherwise;
}

/* Of its first attempts, `fails`, each fails at some line; others never do. */
static void program_init(struct sim_program *program, const char *launch,
			 const struct tfc__launch *head)
{
	bool is_failing = head->attempt <= word(launch, head, "fails", 0);
	program->lines = word(launch, head, "lines", 0);
	program->pace_ms = word(launch, head, "pace", 10);
	program->save_ms = word(launch, head, "save", 0);
	program->is_stubborn = word(launch, head, "stubborn", 0);
	program->exit_code = (int32_t)word(launch, head, "exit", 0);
	program->port = (uint16_t)word(launch, head, "port", 0);
	program->listen_at = sim_draw(1 + word(launch, head, "listen", 0) * SIM_MS);
	program->refused_line = UINT32_MAX;
	program->fail_line = is_failing ? (uint32_t)sim_draw(program->lines) : UINT32_MAX;
	program->fail_code = is_failing ? (int32_t)word(launch, head, "with", 0) : 0;
}

static void program_wait(struct sim_shim *shim, uint64_t ns)
{
	shim->program.next = monotonic(shim) + ns;
	wait_until(shim, CLOCK_MONOTONIC, shim->program.next);
}

/* False: somebody else does, and it says so. */
static bool program_listen(struct sim_shim *shim)
{
	const struct sim_process process = process_of(shim);
	shim->program.is_listening = true;
	if (sim_port_listen(&process, shim->program.port) == 0)
		return true;
	sim_referee_port_refused(&process);
	shim->program.refused_line = shim->program.line++;
	return false;
}

/* The next thing that it does. */
static void program_step(struct sim_shim *shim)
{
	struct sim_program *program = &shim->program;
	bool is_to_listen = program->port && !program->is_listening &&
			    program->listen_at <= monotonic(shim);
	if (program->is_saving) {
		task_die(shim, TFC__END_CODE, 143);
	} else if (is_to_listen && !program_listen(shim)) {
		task_die(shim, TFC__END_CODE, 1);
	} else if (program->line == program->fail_line) {
		task_die(shim, TFC__END_CODE, program->fail_code);
	} else if (program->line < program->lines) {
		program->line++;
		program_wait(shim, program->pace_ms * SIM_MS);
	} else {
		task_die(shim, TFC__END_CODE, program->exit_code);
	}
}

static void program_terminate(struct sim_shim *shim)
{
	struct sim_program *program = &shim->program;
	if (program->is_stubborn || program->is_saving)
		return;
	program->is_saving = true;
	program_wait(shim, program->save_ms * SIM_MS + SIM_MS);
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

static void give_port(const struct sim_shim *shim, const struct sim_task_view *seen)
{
	const struct sim_process process = process_of(shim);
	sim_referee_port_given(&(struct sim_tenant){.task = *seen,
						    .process = &process,
						    .host = shim->host,
						    .guard = sim_guard_pid(shim->guard),
						    .port = shim->port,
						    .hold = shim->hold,
						    .is_awaited = shim->program.port &&
								  sim_job_is_ready_on_listen()});
}

static void task_start(struct sim_shim *shim, const char *launch)
{
	const struct tfc__launch *head = (const void *)launch;
	struct sim_task_view seen;
	shim->is_alive = true;
	if (!*shim->name) {
		run_removal(launch, head);
		task_die(shim, TFC__END_CODE, 0);
		return;
	}
	view(shim, &seen);
	sim_note("%s of %s starts attempt %u", shim->name, shim->job, shim->attempt);
	sim_referee_started(&seen);
	program_init(&shim->program, launch, head);
	if (shim->port)
		give_port(shim, &seen);
	shim->program.listen_at += monotonic(shim);
	program_wait(shim, SIM_MS + sim_draw(20 * SIM_MS));
}

/* ---- the shim: what its core decides */

static struct shim_result decide(struct sim_shim *shim, struct shim_event event)
{
	const struct tfc__lease_entry *lease = &shim->leases[(uint32_t)shim->spawn.lease];
	bool is_monotonic = event.kind == SHIM_WATCH_SILENCE || event.kind == SHIM_SIGN ||
			    event.kind == SHIM_SILENCE;
	event.now = is_monotonic ? monotonic(shim) : boot(shim);
	if (shim->spawn.lease && lease->id == shim->spawn.lease)
		event.lease = lease;
	struct shim_result result = shim_core_step(&shim->core, &event);
	if (result.actions & SHIM_TERM)
		program_terminate(shim);
	if (result.actions & SHIM_KILL)
		sim_task_kill(shim);
	if (shim->timer_at != shim->core.timer_at)
		wait_until(shim, CLOCK_BOOTTIME, shim->core.timer_at);
	shim->timer_at = shim->core.timer_at;
	return result;
}

static void send_report(struct sim_shim *shim, struct tfc__report report)
{
	report.pid = shim->task;
	report.time_ns = sim_clock(shim->machine, CLOCK_REALTIME);
	if (shim->report_count == SIM_SHIM_MESSAGES)
		abort(); /* a socket holds far more than a task says */
	shim->reports[shim->report_count++] = report;
}

static void shim_end(struct sim_shim *shim)
{
	struct sim_shim **at = &shims;
	while (*at != shim)
		at = &(*at)->next;
	*at = shim->next;
	shim->is_over = true;
	sim_close_all(shim->owner);
}

/* ---- starting */

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

static void start(struct sim_shim *shim, const char *launch)
{
	const struct tfc__launch *head = (const void *)launch;
	const char *log_dir = string_at(launch, head->log_dir);
	const char *slash = strrchr(log_dir, '/');
	snprintf(shim->job, sizeof(shim->job), "%s", slash ? slash + 1 : "");
	snprintf(shim->name, sizeof(shim->name), "%s", string_at(launch, head->log_name));
	shim->attempt = head->attempt;
	open_log(shim, head, log_dir);
	if (head->stall_ms)
		decide(shim, (struct shim_event){.kind = SHIM_WATCH_SILENCE,
						 .silence_ms = head->stall_ms});
	shim->task = sim_next_pid();
	task_start(shim, launch);
	send_report(shim, (struct tfc__report){.kind = TFC__MSG_STARTED,
					       .isolation = TFC__ISOLATION_PLAIN});
	decide(shim, (struct shim_event){.kind = SHIM_STARTED});
}

static void spawn(struct sim_shim *shim)
{
	struct stat status;
	struct shim_result result = decide(shim, (struct shim_event){.kind = SHIM_SPAWN,
								     .command = &shim->spawn});
	if (!(result.actions & SHIM_START)) {
		result = decide(shim, (struct shim_event){.kind = SHIM_NOT_STARTED});
		send_report(shim, (struct tfc__report){.kind = TFC__MSG_EXITED,
						       .reason = result.reason,
						       .silent_ms = result.silent_ms});
		shim_end(shim);
		return;
	}
	if (fstat(shim->launch, &status) < 0)
		abort();
	size_t size = (size_t)status.st_size;
	char *launch = mmap(NULL, size, PROT_READ, MAP_PRIVATE, shim->launch, 0);
	if (launch == MAP_FAILED)
		abort();
	start(shim, launch);
	munmap(launch, size);
	close(shim->launch);
	shim->launch = -1;
}

/* ---- running */

static void copy_output(struct sim_shim *shim)
{
	char record[TFC__LOG_HEADER + 128];
	if (shim->copied < shim->program.line && shim->core.silence)
		decide(shim, (struct shim_event){.kind = SHIM_SIGN});
	while (shim->copied < shim->program.line) {
		bool is_refused = shim->copied == shim->program.refused_line;
		int len = snprintf(record + TFC__LOG_HEADER, 100, "attempt %u line %u%s\n",
				   shim->attempt, shim->copied++,
				   is_refused ? ": Address already in use" : "");
		tfc__log_append(&shim->log, record, (size_t)len, 'o');
	}
}

static void obey(struct sim_shim *shim)
{
	for (uint32_t i = 0; i < shim->command_count; i++) {
		const struct tfc__command *command = &shim->commands[i];
		if (command->kind == TFC__MSG_STOP)
			decide(shim, (struct shim_event){.kind = SHIM_STOP, .command = command});
		else if (command->kind == TFC__MSG_SIGNAL && command->value == SIGKILL)
			sim_task_kill(shim);
	}
	shim->command_count = 0;
}

static void reap_task(struct sim_shim *shim)
{
	struct tfc__report report = shim->end;
	decide(shim, (struct shim_event){.kind = SHIM_DIED});
	copy_output(shim);
	tfc__log_writer_close(&shim->log);
	report.kind = TFC__MSG_EXITED;
	report.user_us = 1;
	report.log_end = shim->log.position;
	report.silent_ms = decide(shim, (struct shim_event){.kind = SHIM_ENDED}).silent_ms;
	send_report(shim, report);
	shim_end(shim);
}

static bool is_timer_due(const struct sim_shim *shim)
{
	return shim->core.timer_at && shim->core.timer_at <= boot(shim);
}

static bool is_silence_due(const struct sim_shim *shim)
{
	return shim->core.silence_at && shim->core.silence_at <= monotonic(shim);
}

static bool is_orphaned(const struct sim_shim *shim)
{
	return !shim->core.is_orphan && sim_guard_is_dead(shim->guard);
}

static bool has_lost_host(const struct sim_shim *shim)
{
	return !shim->core.is_host_gone && shim->host->is_dead;
}

static void live(struct sim_shim *shim)
{
	if (is_timer_due(shim))
		decide(shim, (struct shim_event){.kind = SHIM_TIMER});
	copy_output(shim);
	if (is_silence_due(shim)) {
		uint32_t ms = decide(shim, (struct shim_event){.kind = SHIM_SILENCE}).silent_ms;
		send_report(shim, (struct tfc__report){.kind = TFC__MSG_STALLED, .silent_ms = ms});
		wait_until(shim, CLOCK_MONOTONIC, shim->core.silence_at);
	}
	obey(shim);
	if (is_orphaned(shim))
		decide(shim, (struct shim_event){.kind = SHIM_GUARD_GONE});
	if (has_lost_host(shim))
		decide(shim, (struct shim_event){.kind = SHIM_HOST_GONE});
	if (!shim->is_alive)
		reap_task(shim);
}

/* ---- one turn of shim and task */

static bool is_task_ready(const struct sim_shim *shim)
{
	return shim->is_alive && shim->program.next <= monotonic(shim);
}

static bool is_shim_ready(const struct sim_shim *shim)
{
	return !shim->is_stopped &&
	       (shim->launch >= 0 || !shim->is_alive || shim->command_count ||
		shim->copied < shim->program.line || is_timer_due(shim) || is_silence_due(shim) ||
		is_orphaned(shim) || has_lost_host(shim));
}

static bool is_ready(const struct sim_shim *shim)
{
	return shim->machine->power == SIM_RUNS && (is_task_ready(shim) || is_shim_ready(shim));
}

bool sim_shims_are_ready(void)
{
	for (const struct sim_shim *shim = shims; shim; shim = shim->next)
		if (is_ready(shim))
			return true;
	return false;
}

static void step(struct sim_shim *shim)
{
	uint32_t before = sim_set_owner(shim->owner);
	sim.kernel = shim->machine;
	if (is_task_ready(shim))
		program_step(shim);
	if (is_shim_ready(shim) && shim->launch >= 0)
		spawn(shim);
	else if (is_shim_ready(shim))
		live(shim);
	sim.kernel = NULL;
	sim_set_owner(before);
}

void sim_shims_step(void)
{
	for (struct sim_shim *shim = shims, *next; shim; shim = next) {
		next = shim->next;
		if (is_ready(shim))
			step(shim);
	}
}

/* ---- what others do to it */

static int own_copy(int fd)
{
	return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

struct sim_shim *sim_shim_new(const struct sim_shim_options *options)
{
	struct sim_shim *shim = calloc(1, sizeof(*shim));
	if (!shim)
		abort();
	shim->machine = options->machine;
	shim->guard = options->guard;
	shim->host = options->host;
	shim->leases = options->leases;
	shim->spawn = *options->spawn;
	shim->port = options->port;
	shim->hold = options->hold;
	shim->pid = sim_next_pid();
	shim->owner = sim_new_owner();
	uint32_t before = sim_set_owner(shim->owner);
	shim->launch = own_copy(options->launch);
	own_copy(options->lifeline);
	for (int i = 0; i < TFC__LOCKS; i++)
		own_copy(options->locks[i]);
	sim_set_owner(before);
	shim->next = shims;
	shims = shim;
	return shim;
}

void sim_shim_send(struct sim_shim *shim, const struct tfc__command *command)
{
	if (shim->command_count < SIM_SHIM_MESSAGES)
		shim->commands[shim->command_count++] = *command;
}

bool sim_shim_receive(struct sim_shim *shim, struct tfc__report *ret_report)
{
	if (!shim->report_count)
		return false;
	*ret_report = shim->reports[0];
	memmove(shim->reports, shim->reports + 1, --shim->report_count * sizeof(*shim->reports));
	return true;
}

void sim_shim_kill(struct sim_shim *shim)
{
	if (shim->is_over)
		return;
	sim_task_kill(shim);
	shim_end(shim);
}

static struct sim_shim *choose(const struct sim_machine *machine, uint64_t which)
{
	uint64_t count = 0;
	for (const struct sim_shim *shim = shims; shim; shim = shim->next)
		count += shim->machine == machine;
	if (!count)
		return NULL;
	which %= count;
	for (struct sim_shim *shim = shims;; shim = shim->next)
		if (shim->machine == machine && which-- == 0)
			return shim;
}

bool sim_shim_stop(const struct sim_machine *machine, uint64_t which)
{
	struct sim_shim *shim = choose(machine, which);
	if (!shim || shim->is_stopped || sim_guard_is_dead(shim->guard) ||
	    sim_guard_is_stopped(shim->guard))
		return false;
	sim_note("shim %d is stopped", shim->pid);
	return shim->is_stopped = true;
}

bool sim_shims_are_stopped(const struct sim_machine *machine)
{
	for (const struct sim_shim *shim = shims; shim; shim = shim->next)
		if (shim->machine == machine && shim->is_stopped)
			return true;
	return false;
}

void sim_shims_continue(const struct sim_machine *machine)
{
	for (struct sim_shim *shim = shims; shim; shim = shim->next)
		if (shim->machine == machine)
			shim->is_stopped = false;
}

bool sim_shim_kill_one(const struct sim_machine *machine, uint64_t which)
{
	struct sim_shim *shim = choose(machine, which);
	if (shim)
		sim_note("shim %d is killed", shim->pid);
	if (shim)
		sim_shim_kill(shim);
	return shim;
}

void sim_shims_wake(const struct sim_machine *machine)
{
	for (const struct sim_shim *shim = shims; shim; shim = shim->next) {
		if (shim->machine != machine)
			continue;
		wait_until(shim, CLOCK_MONOTONIC, shim->program.next);
		wait_until(shim, CLOCK_MONOTONIC, shim->core.silence_at);
		wait_until(shim, CLOCK_BOOTTIME, shim->core.timer_at);
	}
}

void sim_shims_lose_power(const struct sim_machine *machine)
{
	for (struct sim_shim *shim = shims, *next; shim; shim = next) {
		next = shim->next;
		if (shim->machine == machine)
			sim_shim_kill(shim);
	}
}

uint32_t sim_tasks_alive(void)
{
	uint32_t count = 0;
	for (const struct sim_shim *shim = shims; shim; shim = shim->next)
		count += shim->is_alive;
	return count;
}
