/*
 * The stacks of Python processes, printed by the processes themselves: Python's faulthandler prints
 * them from a signal handler, without the interpreter, so it also works for a main thread that is
 * stuck in C. A sitecustomize.py in front of PYTHONPATH registers that handler (python_stacks.py).
 *
 * The signal is one that no other program uses, and only a process that catches it, according to
 * /proc, gets it. When it is neither pending nor blocked by a thread, as it is inside the handler,
 * it has been handled.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/internal.h"
#include "agent/python_stack.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "log/tail.h"
#include "port/owner.h"
#include "python_stacks.h"
#include <tfcluster/log.h>

#define STACKS_SIGNAL 58 /* as in python_stacks.py */
#define STACKS_BIT (UINT64_C(1) << (STACKS_SIGNAL - 1))
#define PROCESSES_MAX 64
#define PAUSE (20 * TFC__MS)
#define PATIENCE (2 * TFC__SECOND)
#define DUMP_MAX (256u << 10) /* of a log that are read for a dump */

struct dump {
	pid_t pid;
	uint32_t blocked; /* threads that blocked the signal before */
};

struct stacks {
	bool is_ending;
	bool is_done; /* all have printed; the output may still be in the shim */
	uint64_t until;
	uint32_t count;
	char stop[64];         /* how one of them was stopped at the request; or empty */
	uint32_t silent_ms;    /* at the request */
	uint64_t log_position; /* the dumps follow this position in the log */
	struct tfc__python_stack stack;
	struct dump dumps[PROCESSES_MAX];
};

/* ---- signals in /proc */

struct signals {
	uint64_t caught, pending, blocked;
	char state;
};

/*
 * The line of the user's groups, of which there may be 65,536, comes before: fgets returns a long
 * line in parts.
 */
static bool read_signals(const char *path, struct signals *signals)
{
	char line[256];
	unsigned long long value;
	FILE *file = fopen(path, "re");
	*signals = (struct signals){0};
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "State: %c", &signals->state) == 1)
			continue;
		if (sscanf(line, "SigPnd: %llx", &value) == 1 ||
		    sscanf(line, "ShdPnd: %llx", &value) == 1)
			signals->pending |= value;
		else if (sscanf(line, "SigBlk: %llx", &value) == 1)
			signals->blocked = value;
		else if (sscanf(line, "SigCgt: %llx", &value) == 1)
			signals->caught = value;
	}
	if (file)
		fclose(file);
	return signals->state;
}

static bool read_process_signals(pid_t pid, struct signals *signals)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	return read_signals(path, signals);
}

/* How many threads of a process block the signal now; a thread inside the handler does. */
static uint32_t count_blocked(pid_t pid)
{
	char path[300];
	uint32_t count = 0;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	DIR *dir = opendir(path);
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		struct signals signals;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/status", (int)pid, entry->d_name);
		if (entry->d_name[0] != '.' && read_signals(path, &signals))
			count += (signals.blocked & STACKS_BIT) != 0;
	}
	if (dir)
		closedir(dir);
	return count;
}

/* ---- requests */

/* The pidfd ensures that the process whose state was read is the one that gets the signal. */
static bool request_dump(void *user, pid_t pid)
{
	struct stacks *stacks = user;
	struct signals signals;
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0)
		return true;
	if (read_process_signals(pid, &signals) && signals.caught & STACKS_BIT) {
		bool is_stopped = signals.state == 'T';
		stacks->dumps[stacks->count] = (struct dump){pid, count_blocked(pid)};
		if ((!is_stopped || stacks->is_ending) &&
		    syscall(SYS_pidfd_send_signal, fd, STACKS_SIGNAL, NULL, 0) == 0) {
			stacks->count++;
			if (is_stopped)
				syscall(SYS_pidfd_send_signal, fd, SIGCONT, NULL, 0);
		}
	}
	close(fd);
	return stacks->count < PROCESSES_MAX;
}

/* A process that has ended counts as written. */
static bool dumps_are_written(const struct stacks *stacks)
{
	for (uint32_t i = 0; i < stacks->count; i++) {
		const struct dump *dump = &stacks->dumps[i];
		struct signals signals;
		if (read_process_signals(dump->pid, &signals) &&
		    (signals.pending & STACKS_BIT || count_blocked(dump->pid) > dump->blocked))
			return false;
	}
	return true;
}

/* ---- reading the dumps */

/* The dumps of several processes cannot be told apart in one log, so only a single one is read. */
static void stacks_read_dump(const struct agent_task *task, struct stacks *stacks)
{
	char name[TFC__LOG_NAME_SIZE];
	tfc_log *log;
	tfc_log_record record = TFC_LOG_RECORD_INIT;
	struct tfc__buf text = {0};
	tfc__agent_log_name(task->job, task->number, name);
	if (stacks->count != 1 ||
	    tfc_log_open(tfc__agent_log_dir(task->job), name, stacks->log_position, NULL, &log) < 0)
		return;
	while (text.len < DUMP_MAX && tfc_log_next(log, &record, NULL) > 0)
		if (record.stream == TFC_STREAM_STDERR && record.attempt == task->attempt)
			tfc__buf_add(&text, record.data, record.len);
	tfc_log_close(log);
	tfc__buf_add(&text, "", 1);
	if (!text.is_failed)
		tfc__python_stack_read(text.data, &stacks->stack);
	tfc__buf_fini(&text);
}

/* ---- the event */

static void stacks_notify(struct agent_task *task)
{
	char text[160] = "";
	struct tfc__task_event event = {.kind = TFC__AGENT_STACKED,
					.activity = TFC__ACTIVITY_UNKNOWN,
					.text = text};
	const struct stacks *stacks = task->stacks;
	if (stacks) {
		const char *place = stacks->stop[0] ? stacks->stop : stacks->stack.place;
		snprintf(text, sizeof(text), "%s%s%s", place, *place ? "; " : "",
			 !stacks->count    ? "it prints no Python stacks"
			 : stacks->is_done ? "its stacks are in its log"
					   : "its stacks may be missing");
		if (stacks->stop[0])
			event.activity = TFC__ACTIVITY_STOPPED;
		else if (stacks->stack.activity)
			event.activity = stacks->stack.activity;
		event.silent_ms = stacks->silent_ms;
	}
	task->silence.stack_at = tfc__now();
	tfc__stacks_end(task);
	tfc__agent_notify(task, &event);
}

static bool stacks_are_complete(const struct stacks *stacks)
{
	if (stacks->count == 1)
		return stacks->stack.activity != TFC__ACTIVITY_NONE;
	return stacks->count == 0 || stacks->is_done;
}

void tfc__stacks_tick(struct tfc__timer *timer)
{
	struct agent_task *task = tfc__container_of(timer, struct agent_task, stacks_timer);
	struct stacks *stacks = task->stacks;
	uint64_t now = tfc__now();
	if (stacks && stacks->is_done)
		stacks_read_dump(task, stacks);
	if (!stacks || stacks_are_complete(stacks) || now >= stacks->until) {
		stacks_notify(task);
		return;
	}
	stacks->is_done = dumps_are_written(stacks);
	tfc__timer_set(timer, now + PAUSE);
}

void tfc__agent_stacks(struct tfc__agent_job *job, uint32_t number, bool is_ending)
{
	struct agent_task *task = &job->tasks[number];
	struct stacks *stacks = calloc(1, sizeof(*stacks));
	free(task->stacks);
	task->stacks = stacks;
	tfc__timer_set(&task->stacks_timer, tfc__now() + PAUSE);
	if (!stacks)
		return;
	stacks->is_ending = is_ending;
	pid_t root = task->attempt_state == ATTEMPT_STARTED ? tfc__process_shim(task->process) : 0;
	if (!root)
		return;
	char name[TFC__LOG_NAME_SIZE];
	uint64_t last_output, now = tfc__wall();
	stacks->until = tfc__now() + PATIENCE;
	tfc__agent_log_name(job, number, name);
	if (tfc__log_newest(tfc__agent_log_dir(job), name, &stacks->log_position, &last_output) ==
	    0) {
		/* since its last output, or since the start of a silence in progress */
		uint64_t ms = now > last_output ? (now - last_output) / TFC__MS : 0;
		if (task->silence.from)
			ms = (tfc__now() - task->silence.from) / TFC__MS;
		stacks->silent_ms = ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
	}
	tfc__activity_describe_stop(task, stacks->stop, sizeof(stacks->stop));
	tfc__owner_each_in_tree(root, request_dump, stacks);
}

void tfc__stacks_end(struct agent_task *task)
{
	tfc__timer_cancel(&task->stacks_timer);
	free(task->stacks);
	task->stacks = NULL;
}

/* ---- before the start */

static char *stacks_job_dir(const struct tfc__agent_job *job)
{
	return tfc__path_join(job->run_dir, "python");
}

bool tfc__stacks_are_wanted(const struct agent_task *task)
{
	return tfc__stall_ms(task) && task->job->info.job->on_stall != TFC__STALL_REPORT;
}

int tfc__stacks_prepare(struct tfc__agent_job *job, tfc_error *error)
{
	bool is_wanted = false;
	for (uint32_t i = 0; i < job->task_count; i++)
		is_wanted |= tfc__stacks_are_wanted(&job->tasks[i]);
	if (!is_wanted)
		return TFC_OK;
	char *dir = stacks_job_dir(job);
	char *path = dir ? tfc__path_join(dir, "sitecustomize.py") : NULL;
	int code = path ? TFC_OK : tfc__fail_nomem(error, "agent");
	int fd = -1;
	/* Independent of the umask: tasks of other users read it as well. */
	if (path && (mkdir(dir, 0755) < 0 || chmod(dir, 0755) < 0 ||
		     (fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)) < 0 ||
		     fchmod(fd, 0644) < 0 ||
		     tfc__write_all(fd, tfc__python_stacks, strlen(tfc__python_stacks)) < 0))
		code = tfc__fail_errno(error, "agent", errno, "cannot write \"%s\"", path);
	if (fd >= 0)
		close(fd);
	free(path);
	free(dir);
	return code;
}

char *tfc__stacks_dir(const struct agent_task *task)
{
	return tfc__stacks_are_wanted(task) ? stacks_job_dir(task->job) : NULL;
}
