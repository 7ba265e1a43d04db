#include "proc_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "folder.h"
#include "leaks.h"
#include "log/tail.h"
#include "proc/proc.h"
#include <tfcluster/log.h>

#define PATIENCE (30 * TFC__SECOND)

const char *proc_task_program(void)
{
	const char *program = getenv("TFC_TEST_TASK");
	assert_non_null(program);
	return program;
}

int proc_ctx_new(tfc_ctx **ret_ctx)
{
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	options.helper_dir = getenv("TFC_HELPER_DIR");
	return tfc_ctx_new(&options, NULL, ret_ctx);
}

void proc_run_begin(struct proc_run *run)
{
	tfc_error error = TFC_ERROR_INIT;
	*run = (struct proc_run){.fds = folder_count_fds()};
	assert_int_equal(proc_ctx_new(&run->ctx), 0);
	assert_int_equal(tfc__make_private_dir(leaks_temp_dir(), "tfc-proc-", "test", &error,
					       &run->dir),
			 0);
}

static void put_in_place(const char *dir, const char *name, const char *program)
{
	char *path = tfc__path_join(dir, name);
	assert_int_equal(symlink(program, path), 0);
	free(path);
}

void proc_run_begin_with(struct proc_run *run, const char *name, const char *guard,
			 const char *shim)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	*run = (struct proc_run){.fds = folder_count_fds()};
	assert_int_equal(tfc__make_private_dir(leaks_temp_dir(), "tfc-proc-", "test", &error,
					       &run->dir),
			 0);
	options.helper_dir = proc_path(run, name);
	assert_int_equal(mkdir(options.helper_dir, 0700), 0);
	put_in_place(options.helper_dir, "tfc-guard", guard);
	put_in_place(options.helper_dir, "tfc-shim", shim);
	assert_int_equal(tfc_ctx_new(&options, &error, &run->ctx), 0);
}

void proc_run_end(struct proc_run *run)
{
	if (run->ctx)
		tfc_process_close(run->zygote);
	tfc_ctx_free(run->ctx);
	assert_int_equal(tfc__remove_tree(run->dir), 0);
	free(run->dir);
	assert_int_equal(folder_count_fds(), run->fds);
	assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
	assert_int_equal(errno, ECHILD);
}

static void receive(void *user, const tfc_process_event *event)
{
	struct proc_task *task = user;
	if (event->kind == TFC_PROCESS_STARTED) {
		assert_int_equal(task->ends, 0);
		task->is_started = true;
		task->pid = event->pid;
		snprintf(task->started_text, sizeof(task->started_text), "%s", event->text);
		task->started_memory_limit = event->memory_limit;
		return;
	}
	if (event->kind >= TFC_PROCESS_STALLED && event->kind <= TFC_PROCESS_CONTINUED) {
		assert_true(task->is_started);
		assert_int_equal(task->ends, 0);
		assert_int_equal(event->pid, task->pid);
		task->stalls += event->kind == TFC_PROCESS_STALLED;
		task->suspensions += event->kind == TFC_PROCESS_SUSPENDED;
		task->continuations += event->kind == TFC_PROCESS_CONTINUED;
		if (event->kind == TFC_PROCESS_SUSPENDED)
			task->suspended_by = event->status;
		else
			assert_int_equal(event->status, 0);
		assert_int_not_equal(event->isolation, TFC_ISOLATION_AUTO);
		task->silent_ms = event->silent_ms;
		return;
	}
	assert_int_equal(event->kind, TFC_PROCESS_EXITED);
	task->ends++;
	task->end = *event;
	snprintf(task->text, sizeof(task->text), "%s", event->text);
	task->end.text = task->text;
}

static void on_zygote(void *user, const tfc_process_event *event)
{
	struct proc_run *run = user;
	run->is_zygote_ready |= event->kind == TFC__PROCESS_READY;
	if (event->kind != TFC_PROCESS_EXITED)
		return;
	tfc_process_close(run->zygote);
	run->zygote = NULL;
	run->is_zygote_ready = false;
}

void proc_start_zygote(struct proc_run *run)
{
	const struct tfc__run_terms terms = {.is_zygote = true,
					     .import_ms = run->import_ms ? run->import_ms
									 : 60 * 1000};
	const char *argv[] = {proc_task_program(), "zygote", NULL};
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	options.argv = argv;
	options.env = (const char *const *)environ; /* its ZYGOTE_... */
	options.grace_ms = 1;
	options.isolation = TFC_ISOLATION_PLAIN;
	if (!run->zygote &&
	    tfc__process_spawn(run->ctx, &options, &terms, on_zygote, run, &run->zygote) < 0)
		run->zygote = NULL; /* what the test is about: the next start fails, too */
}

static int spawn_warm(struct proc_run *run, struct proc_task *task,
		      const tfc_process_options *options)
{
	proc_start_zygote(run);
	const struct tfc__run_terms terms = {.zygote = run->zygote};
	return tfc__process_spawn(run->ctx, options, &terms, receive, task, &task->process);
}

void proc_start_with(struct proc_run *run, struct proc_task *task,
		     const tfc_process_options *options)
{
	memset(task, 0, sizeof(*task));
	int code = getenv("TFC_TEST_WARM")
			   ? spawn_warm(run, task, options)
			   : tfc_process_spawn(run->ctx, options, receive, task, &task->process);
	if (code < 0)
		fail_msg("%s", tfc_ctx_error(run->ctx)->text);
	assert_false(task->is_started);
	assert_int_equal(task->ends, 0);
}

static void start_args(struct proc_run *run, struct proc_task *task, uint32_t isolation,
		       const char *name, va_list args)
{
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	const char *argv[32] = {proc_task_program()};
	for (int i = 1; i < 31 && (argv[i] = va_arg(args, const char *)); i++)
		;
	options.argv = argv;
	options.log_dir = name ? run->dir : NULL;
	options.log_name = name;
	options.grace_ms = 1000;
	options.isolation = isolation;
	proc_start_with(run, task, &options);
}

void proc_start(struct proc_run *run, struct proc_task *task, const char *name, ...)
{
	va_list args;
	va_start(args, name);
	start_args(run, task, TFC_ISOLATION_AUTO, name, args);
	va_end(args);
}

void proc_start_isolated(struct proc_run *run, struct proc_task *task, uint32_t isolation,
			 const char *name, ...)
{
	va_list args;
	va_start(args, name);
	start_args(run, task, isolation, name, args);
	va_end(args);
}

void proc_expect_signal(struct proc_run *run, uint32_t isolation, int number)
{
	struct proc_task task;
	char text[16];
	snprintf(text, sizeof(text), "%d", number);
	proc_start_isolated(run, &task, isolation, NULL, "die", text, "wait", NULL);
	proc_await_end(run, &task);
	assert_int_equal(task.end.reason, TFC_EXIT_SIGNAL);
	assert_int_equal(task.end.status, number);
	assert_int_equal(task.end.is_oom, 0);
	proc_close(&task);
}

bool proc_can_isolate(uint32_t isolation)
{
	struct proc_run run;
	struct proc_task task;
	proc_run_begin(&run);
	proc_start_isolated(&run, &task, isolation, NULL, "exit", "0", NULL);
	proc_await_end(&run, &task);
	if (!task.is_started)
		printf("skipped: %s\n", task.text);
	proc_close(&task);
	proc_run_end(&run);
	return task.is_started;
}

int proc_isolation_of(int argc, char **argv, uint32_t *ret_isolation)
{
	uint32_t isolation = 0;
	while (argc == 2 && isolation <= TFC_ISOLATION_PIDNS &&
	       strcmp(tfc__isolation_name(isolation), argv[1]) != 0)
		isolation++;
	if (argc != 2 || isolation > TFC_ISOLATION_PIDNS)
		return 2;
	*ret_isolation = isolation;
	return proc_can_isolate(isolation) ? 0 : 77;
}

void proc_as_outsider(void (*check)(void))
{
	assert_int_equal(chmod(leaks_temp_dir(), 01777), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		if (geteuid() == 0 && (setgid(PROC_OUTSIDER) < 0 || setuid(PROC_OUTSIDER) < 0))
			_exit(10);
		check();
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void dispatch(struct proc_run *run, uint64_t deadline)
{
	assert_true(tfc__now() < deadline);
	assert_true(tfc_ctx_run(run->ctx, 1000) >= 0);
}

void proc_await_start(struct proc_run *run, struct proc_task *task)
{
	for (uint64_t deadline = tfc__now() + PATIENCE; !task->is_started && !task->ends;)
		dispatch(run, deadline);
	assert_true(task->is_started);
}

void proc_await_end(struct proc_run *run, struct proc_task *task)
{
	for (uint64_t deadline = tfc__now() + 2 * PATIENCE; !task->ends;)
		dispatch(run, deadline);
	assert_int_equal(task->ends, 1);
}

void proc_await_count(struct proc_run *run, struct proc_task *task, const int *count)
{
	int before = *count;
	for (uint64_t deadline = tfc__now() + PATIENCE; *count == before;) {
		assert_int_equal(task->ends, 0);
		dispatch(run, deadline);
	}
}

void proc_await_stall(struct proc_run *run, struct proc_task *task)
{
	proc_await_count(run, task, &task->stalls);
}

void proc_close(struct proc_task *task)
{
	tfc_process_close(task->process);
	task->process = NULL;
}

char *proc_output(struct proc_run *run, const char *name, size_t *ret_len)
{
	struct tfc__buf out = {0};
	tfc_error error = TFC_ERROR_INIT;
	tfc_log_record record = TFC_LOG_RECORD_INIT;
	tfc_log *log;
	int code;
	assert_int_equal(tfc_log_open(run->dir, name, 0, &error, &log), 0);
	while ((code = tfc_log_next(log, &record, &error)) > 0)
		if (record.data)
			tfc__buf_add(&out, record.data, record.len);
	if (code < 0)
		fail_msg("%s", error.text);
	tfc_log_close(log);
	if (ret_len)
		*ret_len = out.len;
	return tfc__buf_steal(&out);
}

const char *proc_path(struct proc_run *run, const char *name)
{
	static char paths[8][4096];
	static int next;
	char *path = paths[next++ % 8];
	snprintf(path, sizeof(paths[0]), "%s/%s", run->dir, name);
	return path;
}

int proc_watch(const char *dir)
{
	int watch = inotify_init1(IN_CLOEXEC);
	assert_true(watch >= 0);
	if (inotify_add_watch(watch, dir, IN_CREATE | IN_MODIFY | IN_DELETE) < 0)
		assert_int_equal(errno, ENOENT);
	return watch;
}

void proc_await_change(int watch, const char *what)
{
	char events[4096];
	struct pollfd changed = {.fd = watch, .events = POLLIN};
	if (poll(&changed, 1, (int)(PATIENCE / 1000000)) != 1)
		fail_msg("%s: waited in vain", what);
	assert_true(read(watch, events, sizeof(events)) > 0);
}

void proc_await_output(struct proc_run *run, const char *name)
{
	int watch = proc_watch(run->dir);
	while (tfc__log_end(run->dir, name) == 0)
		proc_await_change(watch, name);
	close(watch);
}

/* A file's appearance has no event here that is simpler than looking again. */
long proc_await_number(const char *path)
{
	char text[32];
	for (uint64_t deadline = tfc__now() + PATIENCE; tfc__now() < deadline; poll(NULL, 0, 2)) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		ssize_t len = read(fd, text, sizeof(text) - 1);
		close(fd);
		assert_true(len > 0);
		text[len] = 0;
		return atol(text);
	}
	fail_msg("%s did not appear", path);
	return 0;
}

static bool read_stat(pid_t pid, char *ret_state, int *ret_parent)
{
	char path[64], text[512];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t len = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (len <= 0)
		return false;
	text[len] = 0;
	const char *after = strrchr(text, ')');
	return after && sscanf(after + 1, " %c %d", ret_state, ret_parent) == 2;
}

char proc_state(pid_t pid)
{
	char state;
	int parent;
	return read_stat(pid, &state, &parent) ? state : 0;
}

bool proc_is_alive(pid_t pid)
{
	char state = proc_state(pid);
	return state && state != 'Z' && state != 'X';
}

/* No event comes of another's child: its state is polled. */
void proc_stop(pid_t pid)
{
	assert_return_code(kill(pid, SIGSTOP), errno);
	for (uint64_t end = tfc__now() + 20 * TFC__SECOND; proc_state(pid) != 'T'; poll(NULL, 0, 1))
		assert_true(tfc__now() < end);
}

bool proc_await_gone(pid_t pid, int ms)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd watched = {.fd = fd, .events = POLLIN};
	if (fd < 0)
		return errno == ESRCH;
	int ready = poll(&watched, 1, ms);
	close(fd);
	return ready == 1;
}

pid_t proc_parent(pid_t pid)
{
	char state;
	int parent = 0;
	assert_true(read_stat(pid, &state, &parent));
	return parent;
}

bool proc_has_children(pid_t pid)
{
	char state;
	int parent;
	bool found = false;
	DIR *dir = opendir("/proc");
	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		if (read_stat(atoi(entry->d_name), &state, &parent) && parent == pid)
			found = true;
	closedir(dir);
	return found;
}

size_t proc_family(pid_t root, pid_t *pids, size_t size)
{
	char state;
	int parent;
	size_t count = 1;
	pids[0] = root;
	for (size_t i = 0; i < count; i++) {
		DIR *dir = opendir("/proc");
		assert_non_null(dir);
		for (struct dirent *entry; (entry = readdir(dir));)
			if (read_stat(atoi(entry->d_name), &state, &parent) && parent == pids[i] &&
			    count < size)
				pids[count++] = atoi(entry->d_name);
		closedir(dir);
	}
	return count;
}

/* A small file of /proc/PID, terminated; "" when it cannot be read. */
static void read_of(pid_t pid, const char *name, char *text, size_t size)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? 0 : read(fd, text, size - 1);
	text[len > 0 ? len : 0] = 0;
	if (fd >= 0)
		close(fd);
}

static uint32_t read_signals(pid_t pid, const char *field)
{
	char text[4096];
	read_of(pid, "status", text, sizeof(text));
	const char *line = strstr(text, field);
	assert_non_null(line);
	return (uint32_t)strtoull(line + strlen(field), NULL, 16) & 0x7fffffffu;
}

uint32_t proc_blocked(pid_t pid)
{
	return read_signals(pid, "SigBlk:");
}

uint32_t proc_ignored(pid_t pid)
{
	return read_signals(pid, "SigIgn:");
}

void proc_await_deaf(pid_t pid)
{
	for (uint64_t end = tfc__now() + PATIENCE; !(proc_ignored(pid) & 1u << (SIGTERM - 1));
	     poll(NULL, 0, 1))
		assert_true(tfc__now() < end);
}

static const int node_signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};

uint32_t proc_node_signals(void)
{
	uint32_t set = 0;
	for (size_t i = 0; i < sizeof(node_signals) / sizeof(node_signals[0]); i++)
		set |= 1u << (node_signals[i] - 1);
	return set;
}

void proc_send_node_signals(pid_t pid)
{
	for (size_t i = 0; i < sizeof(node_signals) / sizeof(node_signals[0]); i++)
		assert_int_equal(kill(pid, node_signals[i]), 0);
}

bool proc_is_waiting_shim(pid_t pid)
{
	char name[32];
	read_of(pid, "comm", name, sizeof(name));
	return strcmp(name, "tfc-shim\n") == 0 && proc_state(pid) == 'S';
}

/* Nothing reports the state of another process's child: it is read every millisecond. */
pid_t proc_await_spare(pid_t guard)
{
	pid_t pids[64];
	for (uint64_t end = tfc__now() + 5 * TFC__SECOND; tfc__now() < end; usleep(1000)) {
		size_t count = proc_family(guard, pids, 64);
		for (size_t i = 1; i < count; i++)
			if (proc_is_waiting_shim(pids[i]) && !proc_has_children(pids[i]))
				return pids[i];
	}
	fail_msg("the guard has made no spare");
	return 0;
}

void proc_group(pid_t pid, char path[4096])
{
	char text[4096];
	const char *mount = access("/sys/fs/cgroup/unified/cgroup.procs", F_OK) == 0
				    ? "/sys/fs/cgroup/unified"
				    : "/sys/fs/cgroup";
	read_of(pid, "cgroup", text, sizeof(text));
	const char *line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
	assert_non_null(line);
	line = strchr(line, '/');
	assert_non_null(line);
	snprintf(path, 4096, "%s%.*s", mount, (int)strcspn(line, "\n"), line);
}

int proc_count_named(const char *name)
{
	char state, text[32];
	int parent, count = 0;
	DIR *dir = opendir("/proc");
	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));) {
		pid_t pid = atoi(entry->d_name);
		if (pid <= 0)
			continue;
		read_of(pid, "comm", text, sizeof(text));
		text[strcspn(text, "\n")] = 0;
		count += strcmp(text, name) == 0 && read_stat(pid, &state, &parent) &&
			 state != 'Z' && state != 'X';
	}
	closedir(dir);
	return count;
}
