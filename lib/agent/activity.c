/*
 * The activity of a task's processes, as a short text for people, from /proc: whether one is
 * stopped; whether they use the CPU and for what; where they sleep; and, before the task is ready,
 * on which other port it listens. The state may have changed by the time it is read.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/internal.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/proc_stat.h"
#include "port/owner.h"

#define PROCESSES_MAX 256 /* processes of a task that are inspected */
#define BUSY_PERCENT 10   /* of one CPU: less counts as idle */
#define MARK_MIN_MS 50    /* CPU time is counted in 10 ms units */

struct seen_processes {
	struct tfc__proc_stat stopped; /* the first stopped process; pid 0: none */
	struct tfc__proc_stat busiest; /* by its total CPU time */
	uint64_t cpu_ms;               /* of all processes */
	uint32_t count;
};

/* ---- /proc */

static uint64_t process_cpu_ms(const struct tfc__proc_stat *process)
{
	long hertz = sysconf(_SC_CLK_TCK);
	return process->ticks * 1000 / (uint64_t)(hertz > 0 ? hertz : 100);
}

char tfc__activity_process_state(pid_t pid)
{
	struct tfc__proc_stat process;
	return tfc__proc_stat_read(pid, &process) == 0 ? process.state : 0;
}

static bool inspect_process(void *user, pid_t pid)
{
	struct seen_processes *seen = user;
	struct tfc__proc_stat process;
	if (tfc__proc_stat_read(pid, &process) < 0 || process.state == 'Z' ||
	    strncmp(process.name, "tfc-", 4) == 0)
		return true;
	seen->cpu_ms += process_cpu_ms(&process);
	bool is_stopped = process.state == 'T' || process.state == 't';
	if (!seen->stopped.pid && is_stopped)
		seen->stopped = process;
	/* Of two with equal CPU time, the child: its parent waits for it. */
	if (!seen->count || process.ticks >= seen->busiest.ticks)
		seen->busiest = process;
	return ++seen->count < PROCESSES_MAX;
}

static pid_t task_root_pid(const struct agent_task *task)
{
	return task->attempt_state == ATTEMPT_STARTED ? tfc__process_shim(task->process) : 0;
}

static void inspect_processes(const struct agent_task *task, struct seen_processes *seen)
{
	*seen = (struct seen_processes){0};
	if (task_root_pid(task))
		tfc__owner_each_in_tree(task_root_pid(task), inspect_process, seen);
}

/* ---- CPU time */

static void set_activity_mark(struct agent_task *task, const struct seen_processes *seen)
{
	task->mark = (struct activity_mark){tfc__now(), seen->cpu_ms};
}

/* Reads nothing, because a thousand tasks may start at once. */
void tfc__activity_begin(struct agent_task *task)
{
	task->mark = (struct activity_mark){tfc__now(), 0};
}

void tfc__activity_mark(struct agent_task *task)
{
	struct seen_processes seen;
	inspect_processes(task, &seen);
	set_activity_mark(task, &seen);
}

/* Of one CPU, since the last mark; -1: unknown. */
static int cpu_percent(const struct agent_task *task, const struct seen_processes *seen)
{
	uint64_t ms = (tfc__now() - task->mark.at) / TFC__MS;
	if (!task->mark.at || ms < MARK_MIN_MS || seen->cpu_ms < task->mark.cpu_ms)
		return -1;
	return (int)((seen->cpu_ms - task->mark.cpu_ms) * 100 / ms);
}

/* A runnable process counts as busy even if others leave it little CPU time. */
static bool is_busy(const struct seen_processes *seen, int percent)
{
	return percent >= BUSY_PERCENT || seen->busiest.state == 'R';
}

/* ---- text */

static void activity_addf(char *text, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void activity_addf(char *text, size_t size, const char *format, ...)
{
	size_t len = strlen(text);
	va_list args;
	va_start(args, format);
	vsnprintf(text + len, size - len, format, args);
	va_end(args);
}

static void add_process(const struct agent_task *task, const struct tfc__proc_stat *process,
			char *text, size_t size)
{
	if (process->pid != task->pid)
		activity_addf(text, size, " (%s, pid %d)", process->name, (int)process->pid);
}

/* What it sleeps on in the kernel: the function names most frequent in wchan, as text. */
static const char *sleep_text(const char *wchan)
{
	static const struct {
		const char *part;
		const char *words;
	} places[] = {
		{"futex", "waits for a lock or another thread"},
		{"nanosleep", "sleeps in nanosleep"},
		{"poll", "waits for a descriptor"},
		{"epoll", "waits for a descriptor"},
		{"select", "waits for a descriptor"},
		{"pipe", "waits for a pipe"},
		{"wait_woken", "waits for a connection"},
		{"skb", "waits for a connection"},
		{"inet_csk", "waits for a connection"},
		{"unix_stream", "waits for a local socket"},
		{"do_wait", "waits for a child process"},
		{"sigsuspend", "waits for a signal"},
		{"pause", "waits for a signal"},
		{"flock", "waits for a file lock"},
		{"folio", "waits for a disk"},
		{"io_schedule", "waits for a disk"},
		{"nfs", "waits for a file server"},
		{"fuse", "waits for a file server"},
	};
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (strstr(wchan, places[i].part))
			return places[i].words;
	return NULL;
}

static void add_sleep(const struct tfc__proc_stat *process, char *text, size_t size)
{
	char path[64], wchan[64];
	snprintf(path, sizeof(path), "/proc/%d/wchan", (int)process->pid);
	tfc__read_text(path, wchan, sizeof(wchan));
	const char *words = sleep_text(wchan);
	if (words)
		activity_addf(text, size, ", %s", words);
	else if (wchan[0] && strcmp(wchan, "0") != 0)
		activity_addf(text, size, ", sleeps in %s", wchan);
	if (process->state == 'D')
		activity_addf(text, size, ", cannot be interrupted");
}

/*
 * The library that was mapped last. The kernel assigns addresses from the top down, so it is
 * usually the lowest one. Only a hint, for a program that is still in its imports.
 */
static void add_newest_library(pid_t pid, char *text, size_t size)
{
	char path[64], *line = NULL;
	size_t capacity = 0;
	bool is_found = false;
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	FILE *file = fopen(path, "re");
	while (file && !is_found && getline(&line, &capacity, file) > 0) {
		char *slash = strrchr(line, '/'), *so = strstr(line, ".so");
		is_found = slash && so > slash;
		if (is_found) {
			slash[1 + strcspn(slash + 1, " \n")] = '\0';
			activity_addf(text, size, ", newest library %.60s", slash + 1);
		}
	}
	free(line);
	if (file)
		fclose(file);
}

/* ---- listeners on other ports */

struct other_listeners {
	struct tfc__sought sockets[64];
	uint16_t ports[64];
	size_t count;
};

static void note_listener(void *user, uint16_t port, uint32_t uid, uint32_t inode)
{
	struct other_listeners *all = user;
	if (all->count == sizeof(all->ports) / sizeof(all->ports[0]))
		return;
	all->sockets[all->count] = (struct tfc__sought){.inode = inode, .uid = uid};
	all->ports[all->count++] = port;
}

/* Another port that the task listens on; 0: none. */
static uint16_t find_other_port(const struct agent_task *task)
{
	struct other_listeners all = {.count = 0};
	if (tfc__port_each_listener(task->job->agent->ctx, 1, UINT16_MAX, note_listener, &all) <
		    0 ||
	    !all.count || tfc__owner_find_in_tree(task_root_pid(task), all.sockets, all.count))
		return 0;
	for (size_t i = 0; i < all.count; i++)
		if (all.sockets[i].pid && all.ports[i] != task->port) /* its own may be new */
			return all.ports[i];
	return 0;
}

/* ---- descriptions */

bool tfc__activity_is_stopped(const struct agent_task *task)
{
	struct seen_processes seen;
	inspect_processes(task, &seen);
	return seen.stopped.pid != 0;
}

/* Whether a process is stopped; if so, adds how. */
static bool describe_stop(const struct agent_task *task, const struct seen_processes *seen,
			  char *text, size_t size)
{
	if (!seen->stopped.pid)
		return false;
	activity_addf(text, size,
		      seen->stopped.state == 't' ? "held by a debugger" : "stopped (SIGSTOP)");
	add_process(task, &seen->stopped, text, size);
	return true;
}

void tfc__activity_describe_stop(const struct agent_task *task, char *text, size_t size)
{
	struct seen_processes seen;
	text[0] = '\0';
	inspect_processes(task, &seen);
	describe_stop(task, &seen, text, size);
}

static void describe_starting(struct agent_task *task, const struct seen_processes *seen,
			      int percent, char *text, size_t size)
{
	uint16_t port = find_other_port(task);
	if (port) {
		activity_addf(text, size, "listens on %u, not on %u", port, task->port);
		return;
	}
	activity_addf(text, size, is_busy(seen, percent) ? "loading" : "not listening");
	add_process(task, &seen->busiest, text, size);
	if (percent >= 0)
		activity_addf(text, size, ", %d %% of a CPU", percent);
	if (is_busy(seen, percent))
		add_newest_library(seen->busiest.pid, text, size);
	else
		add_sleep(&seen->busiest, text, size);
}

static void describe_silence(struct agent_task *task, const struct seen_processes *seen,
			     int percent, char *text, size_t size)
{
	activity_addf(text, size, is_busy(seen, percent) ? "works" : "idle");
	add_process(task, &seen->busiest, text, size);
	if (percent >= 0)
		activity_addf(text, size, ", %d %% of a CPU", percent);
	if (!is_busy(seen, percent))
		add_sleep(&seen->busiest, text, size);
}

static const char *stage_before_start(const struct agent_task *task)
{
	switch (task->attempt_state) {
	case ATTEMPT_QUEUED:
		return "not started: its bundle is being packed";
	case ATTEMPT_UNPACKING:
	case ATTEMPT_CANCELED:
		return "not started: its bundle is being unpacked";
	case ATTEMPT_SPAWNED:
		if (tfc__warm_is_importing(task))
			return "not started: the modules of \"warm\" are being imported";
		return "not started: its process is being created";
	default:
		return "not started";
	}
}

void tfc__activity_describe(struct agent_task *task, char *text, size_t size)
{
	struct seen_processes seen;
	text[0] = '\0';
	inspect_processes(task, &seen);
	int percent = cpu_percent(task, &seen);
	if (percent >= 0 || seen.cpu_ms < task->mark.cpu_ms) /* else the mark is too recent */
		set_activity_mark(task, &seen);
	if (!seen.count) {
		activity_addf(text, size, "%s", stage_before_start(task));
		return;
	}
	if (describe_stop(task, &seen, text, size))
		return;
	if (!tfc__agent_is_ready(task) && task->hold)
		describe_starting(task, &seen, percent, text, size);
	else
		describe_silence(task, &seen, percent, text, size);
}
