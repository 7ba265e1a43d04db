/* node: one that is started again waits for the tasks of its previous incarnation, by the locks of
 * its state directory alone; what nobody uses any more is removed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/file.h"
#include "folder.h"
#include "leaks.h"
#include "proc/dir_lock.h"
#include "proc/proc.h"
#include "proc/task_lock.h"
#include "proc_run.h"

#define GRACE_MS 1000
#define MARGIN_MS 10000 /* for guard and shim, beyond it */
#define JOB                                                                                       \
	"{\"argv\": [\"%s\", \"deaf\", \"begin\", \"%s\", \"wait\"], \"grace_s\": 1, \"roles\": " \
	"{\"worker\": {\"count\": 1, \"ready\": \"started\"}}}"

/* ---- calls that a test has in its own hands */

int __real_openat64(int dir, const char *path, int flags, ...);
int __wrap_openat64(int dir, const char *path, int flags, ...);
int __real_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);

static void (*on_lock_made)(int dir); /* just before the lock of a directory is made */
static bool is_query_broken;          /* F_OFD_GETLK fails */

int __wrap_openat64(int dir, const char *path, int flags, ...)
{
	void (*hook)(int dir) = on_lock_made;
	if (hook && strcmp(path, TFC__DIR_LOCK) == 0 && (flags & O_EXCL)) {
		on_lock_made = NULL;
		hook(dir);
	}
	return __real_openat64(dir, path, flags, 0600); /* the mode of all who make one */
}

int __wrap_fcntl64(int fd, int command, ...)
{
	va_list args;
	va_start(args, command);
	void *argument = va_arg(args, void *);
	va_end(args);
	if (is_query_broken && command == F_OFD_GETLK) {
		errno = EIO;
		return -1;
	}
	return __real_fcntl64(fd, command, argument);
}

/* ---- one incarnation of a node */

struct run {
	tfc_ctx *ctx;
	struct tfc__agent *agent;
	struct tfc__agent_job *job;
	tfc_job *definition;
	char address[64];
	bool is_held;
	bool is_answered;
	pid_t pid;
};

static void hear(void *user, const struct tfc__agent_event *event)
{
	struct run *run = user;
	if (event->kind == TFC__AGENT_HELD) {
		run->is_held = true;
		snprintf(run->address, sizeof(run->address), "%s", event->address);
	} else if (event->kind == TFC__AGENT_STARTED) {
		run->pid = event->process->pid;
	} else if (event->kind == TFC__AGENT_ANSWER) {
		run->is_answered = true;
	}
}

/* `dir` is the parent of private directories; `state` may be NULL: there is none. */
static int open_agent(struct run *run, const char *state, const char *dir)
{
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	tfc_error error = TFC_ERROR_INIT;
	char *logs = tfc__path_join(dir, "logs");
	struct tfc__agent_options agent = {.temp_dir = dir, .state_dir = state, .log_dir = logs};
	*run = (struct run){0};
	options.helper_dir = getenv("TFC_HELPER_DIR");
	int code = tfc_ctx_new(&options, &error, &run->ctx);
	if (code == TFC_OK)
		code = tfc__agent_open(run->ctx, &agent, &run->agent);
	free(logs);
	return code;
}

static int begin(struct run *run, const char *dir)
{
	char json[512];
	tfc_error error = TFC_ERROR_INIT;
	snprintf(json, sizeof(json), JOB, proc_task_program(), dir);
	int code = open_agent(run, dir, dir);
	if (code == TFC_OK)
		code = tfc_job_parse(json, strlen(json), "job", &error, &run->definition);
	const struct tfc__agent_job_info info = {.id = "1", .job = run->definition, .epoch = 2};
	if (code == TFC_OK)
		code = tfc__agent_job_open(run->agent, &info, hear, run, &run->job, &error);
	if (code == TFC_OK)
		tfc__agent_hold(run->job, 0, 1);
	return code;
}

static void end(struct run *run)
{
	tfc__agent_job_close(run->job);
	tfc__agent_close(run->agent);
	tfc_job_free(run->definition);
	tfc_ctx_free(run->ctx);
}

static void be_host(int tell, const char *dir)
{
	struct run run;
	tfc_spec *spec;
	if (begin(&run, dir) < 0)
		_exit(1);
	while (!run.is_held)
		tfc_ctx_run(run.ctx, 100);
	if (tfc_spec_new(&spec) < 0 || tfc_spec_add(spec, "worker", 0, run.address, NULL) < 0)
		_exit(2);
	tfc__agent_launch(run.job, 0, 1, 1, spec);
	while (!run.pid)
		tfc_ctx_run(run.ctx, 100);
	if (write(tell, &run.pid, sizeof(run.pid)) != sizeof(run.pid))
		_exit(3);
	for (;;)
		pause(); /* until it is killed */
}

/* ---- one that is killed */

struct dead {
	pid_t host;
	pid_t guard;
	pid_t shim;
	pid_t task;
};

/* What it tells is the return value. */
static pid_t fork_host(struct dead *dead, void (*host)(int tell, const char *dir), const char *dir)
{
	pid_t told;
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	dead->host = fork();
	assert_true(dead->host >= 0);
	if (dead->host == 0)
		host(ends[1], dir);
	close(ends[1]);
	assert_int_equal(read(ends[0], &told, sizeof(told)), sizeof(told));
	close(ends[0]);
	return told;
}

static void start_host(struct dead *dead, const char *dir)
{
	char attempts[LEAKS_PATH + 16];
	dead->task = fork_host(dead, be_host, dir);
	snprintf(attempts, sizeof(attempts), "%s/attempts", dir);
	for (uint64_t limit = tfc__now() + 30 * TFC__SECOND; access(attempts, F_OK) < 0;) {
		assert_true(tfc__now() < limit);
		poll(NULL, 0, 2); /* it is deaf from then on */
	}
	dead->shim = proc_parent(dead->task);
	dead->guard = proc_parent(dead->shim);
}

static void kill_host(const struct dead *dead)
{
	int status;
	assert_int_equal(kill(dead->host, SIGKILL), 0);
	assert_int_equal(waitpid(dead->host, &status, 0), dead->host);
}

/* Its guard does not come to stop the task: it is stopped itself. */
static void die_beside_stopped_guard(struct dead *dead, const char *dir)
{
	start_host(dead, dir);
	proc_stop(dead->guard);
	kill_host(dead);
}

/* Host and guard die together, and with is_shim the shim; it can do nothing about that. */
static void die_with_guard(struct dead *dead, const char *dir, bool is_shim)
{
	start_host(dead, dir);
	if (is_shim)
		proc_stop(dead->shim);
	proc_stop(dead->guard);
	assert_int_equal(kill(dead->guard, SIGKILL), 0);
	if (is_shim)
		assert_int_equal(kill(dead->shim, SIGKILL), 0);
	kill_host(dead);
	assert_true(proc_await_gone(dead->guard, 5000));
}

static void run_until(struct run *run, const bool *what, int seconds)
{
	for (uint64_t limit = tfc__now() + (uint64_t)seconds * TFC__SECOND; !*what;) {
		assert_true(tfc__now() < limit);
		assert_true(tfc_ctx_run(run->ctx, 100) >= 0);
	}
}

static void run_for(struct run *run, uint64_t ns)
{
	for (uint64_t until = tfc__now() + ns; tfc__now() < until;)
		assert_true(tfc_ctx_run(run->ctx, 10) >= 0);
}

static void await_private_dirs(struct run *run, const char *dir, int count)
{
	for (uint64_t limit = tfc__now() + 30 * TFC__SECOND; folder_count(dir, "tfc-") != count;) {
		assert_true(tfc__now() < limit);
		assert_true(tfc_ctx_run(run->ctx, 10) >= 0);
	}
}

/* "DIR/tfc-...", the only one there. */
static void find_private_dir(const char *dir, char ret_path[LEAKS_PATH * 2])
{
	char command[LEAKS_PATH * 4];
	snprintf(command, sizeof(command), "echo -n %s/tfc-*", dir);
	FILE *out = popen(command, "re");
	assert_non_null(out);
	assert_non_null(fgets(ret_path, LEAKS_PATH * 2, out));
	assert_int_equal(pclose(out), 0);
	assert_int_equal(access(ret_path, F_OK), 0);
}

/* ---- the wait */

static void nothing_is_held_or_answered_beside_tasks_of_the_previous_incarnation(void **state)
{
	char dir[LEAKS_PATH], private[LEAKS_PATH * 2];
	struct run run;
	struct dead dead;
	leaks_make_dir(dir);
	die_beside_stopped_guard(&dead, dir);
	find_private_dir(dir, private);
	int lock = tfc__dir_lock_open(private, false);
	int place = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct tfc__task_locks locks;
	assert_true(lock >= 0);
	assert_false(tfc__dir_lock_take(lock));
	assert_int_equal(tfc__task_lock_query(place, &locks), 0);
	close(place);
	assert_true(locks.has_guard && locks.has_tasks);
	assert_int_equal(locks.grace_ms, GRACE_MS);
	assert_int_equal(begin(&run, dir), 0);
	tfc__agent_query(run.job, 1);
	run_for(&run, 200 * TFC__MS);
	assert_true(proc_is_alive(dead.task));
	assert_false(run.is_held);
	assert_false(run.is_answered);
	assert_false(tfc__agent_is_alone(run.agent));
	assert_int_equal(kill(dead.guard, SIGCONT), 0);
	run_until(&run, &run.is_answered, 30);
	assert_false(proc_is_alive(dead.task));
	assert_true(tfc__agent_is_alone(run.agent));
	run_until(&run, &run.is_held, 30);
	close(lock);
	end(&run);
	assert_int_equal(begin(&run, dir), 0); /* after an orderly end nothing is waited for */
	assert_true(tfc__agent_is_alone(run.agent));
	run_until(&run, &run.is_held, 30);
	end(&run);
	assert_true(proc_await_gone(dead.guard, 5000));
	assert_int_equal(tfc__remove_tree(dir), 0);
}

static void shims_whose_guard_was_killed_are_waited_for(void **state)
{
	char dir[LEAKS_PATH];
	struct run run;
	struct dead dead;
	leaks_make_dir(dir);
	die_with_guard(&dead, dir, false);
	assert_int_equal(begin(&run, dir), 0);
	tfc__agent_query(run.job, 1);
	assert_false(tfc__agent_is_alone(run.agent));
	run_until(&run, &run.is_answered, 30);
	assert_false(proc_is_alive(dead.task));
	assert_false(proc_is_alive(dead.shim));
	assert_true(tfc__agent_is_alone(run.agent));
	await_private_dirs(&run, dir, 1);
	end(&run);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

/* Numbers of processes say nothing there: only the lock does. */
static _Noreturn void be_next_in_pid_namespace(const char *dir)
{
	struct run run;
	if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		_exit(77);
	pid_t first = fork();
	if (first == 0) {
		if (mount("proc", "/proc", "proc", 0, NULL) < 0)
			_exit(77);
		if (begin(&run, dir) < 0)
			_exit(1);
		for (uint64_t until = tfc__now() + 300 * TFC__MS; tfc__now() < until;)
			if (tfc_ctx_run(run.ctx, 10) < 0)
				_exit(2);
		bool is_beside = run.is_held || tfc__agent_is_alone(run.agent);
		end(&run);
		_exit(is_beside ? 3 : 0);
	}
	int status = 0;
	_exit(first < 0 || waitpid(first, &status, 0) < 0 || !WIFEXITED(status)
		      ? 4
		      : WEXITSTATUS(status));
}

static void tasks_are_waited_for_from_another_pid_namespace(void **state)
{
	char dir[LEAKS_PATH];
	struct dead dead;
	int status;
	leaks_make_dir(dir);
	die_beside_stopped_guard(&dead, dir);
	pid_t next = fork();
	assert_true(next >= 0);
	if (next == 0)
		be_next_in_pid_namespace(dir);
	assert_int_equal(waitpid(next, &status, 0), next);
	assert_true(proc_is_alive(dead.task));
	assert_int_equal(kill(dead.guard, SIGCONT), 0);
	assert_true(proc_await_gone(dead.guard, 5000));
	assert_int_equal(tfc__remove_tree(dir), 0);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* Its shims end their tasks without it. */
static void a_stopped_guard_delays_by_no_more_than_grace_and_margin(void **state)
{
	char dir[LEAKS_PATH];
	struct run run;
	struct dead dead;
	leaks_make_dir(dir);
	die_beside_stopped_guard(&dead, dir);
	uint64_t begun = tfc__now();
	assert_int_equal(begin(&run, dir), 0);
	tfc__agent_query(run.job, 1);
	run_until(&run, &run.is_answered, 30);
	assert_true(tfc__now() < begun + (GRACE_MS + MARGIN_MS + 5000) * TFC__MS);
	assert_false(proc_is_alive(dead.task));
	assert_false(tfc__agent_is_alone(run.agent)); /* others wait for their leases */
	assert_int_equal(kill(dead.guard, SIGCONT), 0);
	assert_true(proc_await_gone(dead.guard, 5000));
	end(&run);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

static void tasks_that_may_be_alive_are_waited_for_however_long_it_takes(void **state)
{
	char dir[LEAKS_PATH];
	struct run run;
	struct dead dead;
	leaks_make_dir(dir);
	start_host(&dead, dir);
	proc_stop(dead.guard);
	proc_stop(dead.shim);
	kill_host(&dead);
	assert_int_equal(begin(&run, dir), 0);
	tfc__agent_query(run.job, 1);
	run_for(&run, (GRACE_MS + MARGIN_MS + 500) * TFC__MS);
	assert_true(proc_is_alive(dead.task));
	assert_false(run.is_held);
	assert_false(run.is_answered);
	assert_int_equal(kill(dead.shim, SIGCONT), 0);
	run_until(&run, &run.is_answered, 30);
	assert_false(proc_is_alive(dead.task));
	assert_int_equal(kill(dead.guard, SIGCONT), 0);
	assert_true(proc_await_gone(dead.guard, 5000));
	end(&run);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

/* The tasks are found by the state directory itself. */
static void nothing_that_is_removed_or_damaged_hides_tasks(void **state)
{
	static const char *const damages[] = {
		"rm run",
		": >run",
		"head -c 100 /dev/urandom >run",
		"rm tfc-*/lock",
		"rm -r tfc-*",
		"rm -r tfc-* run",
		"chmod 0 run tfc-*",
	};
	char dir[LEAKS_PATH], command[LEAKS_PATH * 2];
	struct run run;
	struct dead dead;
	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		leaks_make_dir(dir);
		die_beside_stopped_guard(&dead, dir);
		snprintf(command, sizeof(command), "cd %s && %s", dir, damages[i]);
		assert_int_equal(system(command), 0);
		assert_int_equal(begin(&run, dir), 0);
		tfc__agent_query(run.job, 1);
		run_for(&run, 100 * TFC__MS);
		assert_true(proc_is_alive(dead.task));
		if (run.is_held || run.is_answered)
			fail_msg("tasks are not waited for after \"%s\"", damages[i]);
		assert_int_equal(kill(dead.guard, SIGCONT), 0);
		run_until(&run, &run.is_answered, 30);
		assert_false(proc_is_alive(dead.task));
		assert_true(tfc__agent_is_alone(run.agent));
		end(&run);
		assert_true(proc_await_gone(dead.guard, 5000));
		assert_int_equal(tfc__remove_tree(dir), 0);
	}
}

static void what_cannot_be_queried_counts_as_held(void **state)
{
	char dir[LEAKS_PATH];
	struct run run;
	struct dead dead;
	leaks_make_dir(dir);
	is_query_broken = true;
	assert_int_equal(open_agent(&run, dir, dir), TFC_ESYS);
	assert_non_null(strstr(tfc_ctx_error(run.ctx)->text, "cannot query the locks of"));
	is_query_broken = false;
	end(&run);
	die_beside_stopped_guard(&dead, dir);
	assert_int_equal(begin(&run, dir), 0);
	is_query_broken = true;
	assert_int_equal(kill(dead.guard, SIGCONT), 0);
	assert_true(proc_await_gone(dead.guard, 5000));
	run_for(&run, 200 * TFC__MS);
	assert_false(run.is_held);
	is_query_broken = false;
	run_until(&run, &run.is_held, 30);
	end(&run);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

static void note_end(void *user, const tfc_process_event *event)
{
	*(bool *)user |= event->kind == TFC_PROCESS_EXITED;
}

/* The guard has begun its work, then. */
static int run_true(tfc_ctx *ctx)
{
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	const char *const argv[] = {"true", NULL};
	tfc_process *process;
	bool has_ended = false;
	options.argv = argv;
	int code = tfc_process_spawn(ctx, &options, note_end, &has_ended, &process);
	while (code == TFC_OK && !has_ended)
		tfc_ctx_run(ctx, 100);
	if (code == TFC_OK)
		tfc_process_close(process);
	return code;
}

/* The launch is in the guard's socket when the host is killed. */
static void be_host_of_stopped_guard(int tell, const char *dir)
{
	struct run run;
	tfc_spec *spec;
	if (begin(&run, dir) < 0 || run_true(run.ctx) < 0)
		_exit(1);
	while (!run.is_held)
		tfc_ctx_run(run.ctx, 100);
	if (tfc_spec_new(&spec) < 0 || tfc_spec_add(spec, "worker", 0, run.address, NULL) < 0)
		_exit(2);
	pid_t guard = tfc__guard_pid(run.ctx);
	if (kill(guard, SIGSTOP) < 0)
		_exit(3);
	tfc__agent_launch(run.job, 0, 1, 1, spec);
	for (int i = 0; i < 10; i++)
		tfc_ctx_run(run.ctx, 10);
	if (write(tell, &guard, sizeof(guard)) != sizeof(guard))
		_exit(4);
	for (;;)
		pause();
}

static void a_guard_that_was_stopped_starts_nothing_for_a_dead_host(void **state)
{
	char dir[LEAKS_PATH], command[LEAKS_PATH * 2];
	struct run run;
	struct dead dead;
	leaks_make_dir(dir);
	dead.guard = fork_host(&dead, be_host_of_stopped_guard, dir);
	kill_host(&dead);
	assert_int_equal(begin(&run, dir), 0);
	run_until(&run, &run.is_held, 30); /* there is no task */
	assert_int_equal(kill(dead.guard, SIGCONT), 0);
	assert_true(proc_await_gone(dead.guard, 5000));
	/* a shim would have made its log first */
	snprintf(command, sizeof(command), "test -z \"$(find %s/logs -name 'worker*')\"", dir);
	assert_int_equal(system(command), 0);
	end(&run);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

static void no_task_inherits_the_lock(void **state)
{
	char dir[LEAKS_PATH], fds[64];
	struct dead dead;
	leaks_make_dir(dir);
	start_host(&dead, dir);
	snprintf(fds, sizeof(fds), "/proc/%d/fd", (int)dead.task);
	assert_int_equal(folder_count(fds, ""), 4); /* the last is a file of its own */
	kill_host(&dead);
	assert_true(proc_await_gone(dead.guard, 5000));
	assert_int_equal(folder_count(dir, "tfc-"), 0);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

/* ---- what is not ours is neither waited for nor removed */

static void write_run_file(const char *dir, const char *line)
{
	char path[LEAKS_PATH * 2];
	snprintf(path, sizeof(path), "%s/run", dir);
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	fprintf(file, "%s\n", line);
	assert_int_equal(fclose(file), 0);
}

static void assert_left_alone(const char *dir, const char *line, const char *kept)
{
	struct run run;
	write_run_file(dir, line);
	assert_int_equal(begin(&run, dir), 0);
	assert_true(tfc__agent_is_alone(run.agent));
	run_until(&run, &run.is_held, 30);
	run_for(&run, 200 * TFC__MS); /* a removal would have begun with the agent */
	assert_int_equal(access(kept, F_OK), 0);
	end(&run);
}

static void links_and_directories_of_others_are_left_alone(void **state)
{
	char dir[LEAKS_PATH], other[LEAKS_PATH], kept[LEAKS_PATH * 2], link[LEAKS_PATH * 2];
	leaks_make_dir(dir);
	leaks_make_dir(other);
	int lock = tfc__dir_lock_make(other);
	assert_true(lock >= 0);
	snprintf(kept, sizeof(kept), "%s/kept", other);
	assert_int_equal(mkdir(kept, 0700), 0);
	snprintf(link, sizeof(link), "%s/tfc-0123456789abcdef", dir);
	assert_int_equal(symlink(other, link), 0);
	bool is_root = geteuid() == 0;
	for (int i = 0; i < 2; i++) { /* in use; then, it would be removed */
		assert_left_alone(dir, link, kept);
		assert_int_equal(is_root ? chown(other, 65534, 65534) : 0, 0);
		if (is_root)
			assert_left_alone(dir, other, kept);
		assert_int_equal(is_root ? chown(other, 0, 0) : 0, 0);
		if (i == 0)
			close(lock);
	}
	assert_int_equal(tfc__remove_tree(other), 0);
	assert_int_equal(unlink(link), 0);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

/* As versions before 0.3 leave it: it may be in use. */
static void a_directory_without_a_lock_is_left_alone(void **state)
{
	char dir[LEAKS_PATH], kept[LEAKS_PATH * 2];
	leaks_make_dir(dir);
	snprintf(kept, sizeof(kept), "%s/tfc-0123456789abcdef", dir);
	assert_int_equal(mkdir(kept, 0700), 0);
	assert_left_alone(dir, "", kept);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

/* It had no lock; its guard removed the directory last. */
static void an_incarnation_of_version_0_2_is_waited_for_until_its_directory_is_gone(void **state)
{
	char dir[LEAKS_PATH], old[LEAKS_PATH + 32], line[LEAKS_PATH + 96];
	struct run run;
	leaks_make_dir(dir);
	snprintf(old, sizeof(old), "%s/tfc-0123456789abcdef", dir);
	snprintf(line, sizeof(line), "2f6a7b1e-0000-0000-0000-000000000000 123 456 %s", old);
	assert_int_equal(mkdir(old, 0700), 0);
	write_run_file(dir, line);
	assert_int_equal(begin(&run, dir), 0);
	run_for(&run, 200 * TFC__MS);
	assert_false(run.is_held);
	assert_int_equal(rmdir(old), 0);
	run_until(&run, &run.is_held, 30);
	assert_true(tfc__agent_is_alone(run.agent));
	end(&run);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

/* ---- what nobody uses is removed */

/* Bundle copies and logs, and what a task has left there. */
static void fill(const char *dir)
{
	char private[LEAKS_PATH * 2], command[LEAKS_PATH * 8];
	find_private_dir(dir, private);
	snprintf(command, sizeof(command),
		 "mkdir -p %s/1/bundle/worker-0/a/b && echo x >%s/1/bundle/worker-0/a/b/c", private,
		 private);
	assert_int_equal(system(command), 0);
}

static void what_host_and_guard_left_is_removed_by_any_later_run(void **state)
{
	char dir[LEAKS_PATH], next[LEAKS_PATH];
	struct run run;
	struct dead dead;
	leaks_make_dir(dir);
	leaks_make_dir(next);
	die_with_guard(&dead, dir, true);
	assert_true(proc_await_gone(dead.task, 5000));
	fill(dir);
	assert_int_equal(open_agent(&run, NULL, dir), 0); /* another node of this user */
	await_private_dirs(&run, dir, 1);
	end(&run);
	assert_int_equal(folder_count(dir, "tfc-"), 0);

	die_with_guard(&dead, dir, true);
	assert_true(proc_await_gone(dead.task, 5000));
	fill(dir);
	assert_int_equal(open_agent(&run, dir, next), 0); /* that node, with another TMPDIR */
	await_private_dirs(&run, dir, 0);
	end(&run);
	assert_int_equal(tfc__remove_tree(dir), 0);
	assert_int_equal(tfc__remove_tree(next), 0);
}

/* In a child with mounts of its own: what is mounted on cannot be removed. 0, 77: no right to. */
static int remove_beside_mount(const char *dir, const char *mounted)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", mounted, "tmpfs", 0, NULL) < 0)
		return 77;
	return tfc__remove_tree_last(dir, TFC__DIR_LOCK) < 0 ? 0 : 1;
}

static void a_removal_that_was_cut_short_goes_on(void **state)
{
	char dir[LEAKS_PATH], private[LEAKS_PATH + 32], mounted[LEAKS_PATH + 64];
	struct run run;
	int status;
	leaks_make_dir(dir);
	snprintf(private, sizeof(private), "%s/tfc-0123456789abcdef", dir);
	snprintf(mounted, sizeof(mounted), "%s/1", private);
	assert_int_equal(mkdir(private, 0700), 0);
	assert_int_equal(mkdir(mounted, 0700), 0);
	int lock = tfc__dir_lock_make(private);
	assert_true(lock >= 0);
	close(lock);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(remove_beside_mount(private, mounted));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77);
	lock = tfc__dir_lock_open(private, false); /* which goes last */
	assert_true(lock >= 0);
	close(lock);
	assert_int_equal(open_agent(&run, NULL, dir), 0);
	await_private_dirs(&run, dir, 1);
	end(&run);
	assert_int_equal(folder_count(dir, "tfc-"), 0);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

static void a_directory_in_use_is_not_removed(void **state)
{
	char dir[LEAKS_PATH];
	struct run run;
	struct dead dead;
	leaks_make_dir(dir);
	start_host(&dead, dir);
	/* Its guard dies; before the next one has the lock, the host's keeps it. */
	proc_stop(dead.host);
	assert_int_equal(kill(dead.guard, SIGKILL), 0);
	assert_true(proc_await_gone(dead.task, 5000));
	assert_true(proc_await_gone(dead.shim, 5000));
	assert_int_equal(open_agent(&run, NULL, dir), 0);
	run_for(&run, 200 * TFC__MS);
	assert_int_equal(folder_count(dir, "tfc-"), 2);
	end(&run);
	assert_int_equal(folder_count(dir, "tfc-"), 1);
	kill_host(&dead);
	assert_int_equal(open_agent(&run, NULL, dir), 0);
	await_private_dirs(&run, dir, 1);
	end(&run);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

/* ---- a directory that is being made */

static void die(int dir)
{
	_exit(0);
}

static void a_directory_whose_maker_died_is_removed_by_any_later_run(void **state)
{
	char dir[LEAKS_PATH];
	struct run run;
	int status;
	leaks_make_dir(dir);
	pid_t maker = fork();
	assert_true(maker >= 0);
	if (maker == 0) {
		on_lock_made = die;
		open_agent(&run, NULL, dir);
		_exit(1);
	}
	assert_int_equal(waitpid(maker, &status, 0), maker);
	assert_int_equal(status, 0);
	assert_int_equal(folder_count(dir, "tfc-"), 1);
	assert_int_equal(open_agent(&run, NULL, dir), 0);
	await_private_dirs(&run, dir, 1);
	end(&run);
	assert_int_equal(folder_count(dir, "tfc-"), 0);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

static int taken_lock;

static void name_of(int dir, char ret_path[LEAKS_PATH * 2])
{
	char link[64];
	snprintf(link, sizeof(link), "/proc/self/fd/%d", dir);
	ssize_t len = readlink(link, ret_path, LEAKS_PATH * 2 - 1);
	assert_true(len > 0);
	ret_path[len] = 0;
}

/* As one that removes what nobody makes any more, up to where it has the lock. */
static void take_first(int dir)
{
	char path[LEAKS_PATH * 2];
	name_of(dir, path);
	taken_lock = tfc__dir_lock_open(path, true);
	assert_true(taken_lock >= 0);
	assert_true(tfc__dir_lock_take(taken_lock));
}

static void remove_first(int dir)
{
	char path[LEAKS_PATH * 2];
	name_of(dir, path);
	assert_int_equal(rmdir(path), 0);
}

static void a_maker_that_comes_too_late_begins_anew(void **state)
{
	char dir[LEAKS_PATH];
	struct run run;
	leaks_make_dir(dir);
	on_lock_made = remove_first;
	assert_int_equal(open_agent(&run, NULL, dir), 0);
	assert_int_equal(folder_count(dir, "tfc-"), 1);
	end(&run);
	on_lock_made = take_first;
	assert_int_equal(open_agent(&run, NULL, dir), 0);
	assert_int_equal(folder_count(dir, "tfc-"), 2);
	end(&run);
	assert_int_equal(folder_count(dir, "tfc-new-"), 1);
	close(taken_lock);
	assert_int_equal(open_agent(&run, NULL, dir), 0);
	await_private_dirs(&run, dir, 1);
	end(&run);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			nothing_is_held_or_answered_beside_tasks_of_the_previous_incarnation),
		cmocka_unit_test(shims_whose_guard_was_killed_are_waited_for),
		cmocka_unit_test(tasks_are_waited_for_from_another_pid_namespace),
		cmocka_unit_test(a_stopped_guard_delays_by_no_more_than_grace_and_margin),
		cmocka_unit_test(tasks_that_may_be_alive_are_waited_for_however_long_it_takes),
		cmocka_unit_test(nothing_that_is_removed_or_damaged_hides_tasks),
		cmocka_unit_test(what_cannot_be_queried_counts_as_held),
		cmocka_unit_test(a_guard_that_was_stopped_starts_nothing_for_a_dead_host),
		cmocka_unit_test(no_task_inherits_the_lock),
		cmocka_unit_test(links_and_directories_of_others_are_left_alone),
		cmocka_unit_test(a_directory_without_a_lock_is_left_alone),
		cmocka_unit_test(
			an_incarnation_of_version_0_2_is_waited_for_until_its_directory_is_gone),
		cmocka_unit_test(what_host_and_guard_left_is_removed_by_any_later_run),
		cmocka_unit_test(a_removal_that_was_cut_short_goes_on),
		cmocka_unit_test(a_directory_in_use_is_not_removed),
		cmocka_unit_test(a_directory_whose_maker_died_is_removed_by_any_later_run),
		cmocka_unit_test(a_maker_that_comes_too_late_begins_anew),
	};
	return cmocka_run_group_tests_name("node_incarnation", tests, NULL, NULL);
}
