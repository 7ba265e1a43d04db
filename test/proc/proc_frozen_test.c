/* proc: a log directory on a file system that is frozen holds up its own task's shim, nobody else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "leaks.h"
#include "log/tail.h"
#include "proc/proc.h"
#include "proc_run.h"
#include <tfcluster/log.h>

#define SKIPPED 77
#define IMAGE_BYTES (24 << 20)
#define FROZEN_AT_MOST_MS 40000

/* A small ext4 on a loop device, mounted on `dir` in a mount namespace of our own. */
static bool mount_image(const char *dir)
{
	char image[LEAKS_PATH + 8], command[1024];
	snprintf(image, sizeof(image), "%s.img", dir);
	int fd = open(image, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	bool is_made = fd >= 0 && ftruncate(fd, IMAGE_BYTES) == 0;
	close(fd);
	snprintf(command, sizeof(command),
		 "PATH=$PATH:/usr/sbin:/sbin; mkfs.ext4 -q -F %s && mount -o loop %s %s", image,
		 image, dir);
	is_made = is_made && unshare(CLONE_NEWNS) == 0 &&
		  mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && system(command) == 0;
	unlink(image); /* the loop device keeps it */
	return is_made;
}

struct frost {
	pid_t thawer;
	int end; /* closed: it thaws */
};

/* Freezes the file system; a process of its own thaws it, also when this one fails or hangs. */
static bool freeze(const char *dir, struct frost *frost)
{
	int ends[2];
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return false;
	bool is_frozen = ioctl(fd, FIFREEZE, 0) == 0;
	frost->end = ends[1];
	frost->thawer = is_frozen ? fork() : -1;
	if (frost->thawer == 0) {
		struct pollfd end = {.fd = ends[0]};
		close(ends[1]);
		poll(&end, 1, FROZEN_AT_MOST_MS);
		_exit(ioctl(fd, FITHAW, 0) < 0);
	}
	if (is_frozen && frost->thawer < 0)
		ioctl(fd, FITHAW, 0);
	close(fd);
	close(ends[0]);
	return frost->thawer > 0;
}

static int thaw(const struct frost *frost)
{
	int status;
	close(frost->end);
	return waitpid(frost->thawer, &status, 0) == frost->thawer ? status : -1;
}

static void start_flood(struct proc_run *run, struct proc_task *task, const char *dir)
{
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	const char *argv[] = {proc_task_program(), "deaf", "flood", "1000000000000", NULL};
	options.argv = argv;
	options.log_dir = dir;
	options.log_name = "t";
	options.log_segment_bytes = 1 << 20;
	options.log_segments = 2;
	proc_start_with(run, task, &options);
	proc_await_start(run, task);
}

/* A shim in an uninterruptible wait has no event: it is looked at. */
static void await_stuck(pid_t shim)
{
	uint64_t deadline = tfc__now() + 20 * TFC__SECOND;
	for (int looks = 0; looks < 20; looks = proc_state(shim) == 'D' ? looks + 1 : 0) {
		assert_true(tfc__now() < deadline);
		poll(NULL, 0, 2);
	}
}

static int freeze_a_log(void)
{
	struct proc_run run;
	struct proc_task stuck, other;
	struct frost frost;
	char dir[LEAKS_PATH];
	leaks_make_dir(dir);
	if (!mount_image(dir))
		return rmdir(dir) == 0 ? SKIPPED : 1;
	proc_run_begin(&run);
	start_flood(&run, &stuck, dir);
	while (tfc__log_end(dir, "t") < 1 << 20)
		assert_true(tfc_ctx_run(run.ctx, 1) >= 0);
	if (!freeze(dir, &frost))
		return SKIPPED;
	await_stuck(tfc__process_shim(stuck.process));

	/* others start, print and end as ever */
	proc_start(&run, &other, "o", "print", "warm", NULL);
	proc_await_end(&run, &other);
	assert_int_equal(other.end.status, 0);
	char *output = proc_output(&run, "o", NULL);
	assert_string_equal(output, "warm");
	free(output);
	proc_close(&other);

	/* the task is killed in time, by the guard; its end is not reported before it is reaped */
	uint64_t begin = tfc__now();
	assert_int_equal(tfc_process_stop(stuck.process, 200), 0);
	assert_true(tfc__now() - begin < 5 * TFC__SECOND); /* the disk stays frozen */
	while (proc_is_alive(stuck.pid)) {
		assert_true(tfc__now() - begin < 10 * TFC__SECOND);
		assert_true(tfc_ctx_run(run.ctx, 10) >= 0);
	}
	print_message("killed %d ms after the stop with 200 ms of grace\n",
		      (int)((tfc__now() - begin) / TFC__MS));
	assert_int_equal(proc_state(tfc__process_shim(stuck.process)), 'D');
	assert_int_equal(stuck.ends, 0);

	assert_int_equal(thaw(&frost), 0);
	proc_await_end(&run, &stuck);
	assert_int_equal(stuck.end.reason, TFC_EXIT_SIGNAL);
	assert_int_equal(stuck.end.status, SIGKILL);
	assert_int_equal(stuck.end.is_oom, 0);
	assert_int_equal(tfc__log_end(dir, "t"), stuck.end.log_end);
	proc_close(&stuck);
	proc_run_end(&run);
	assert_int_equal(umount(dir), 0); /* nobody has anything open there */
	return rmdir(dir);
}

static void a_task_whose_log_is_frozen_can_be_stopped(void **state)
{
	int status;
	if (geteuid() != 0) {
		print_message("skipped: needs root to freeze a file system\n");
		skip();
	}
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(freeze_a_log());
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
		print_message("skipped: no file system to freeze here (mkfs.ext4, a loop device, "
			      "FIFREEZE)\n");
		skip();
	}
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_task_whose_log_is_frozen_can_be_stopped),
	};
	return cmocka_run_group_tests_name("proc_frozen", tests, NULL, NULL);
}
