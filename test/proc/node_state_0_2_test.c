/* node: a state directory of version 0.2 opens: ended jobs are as they ended, running ones resume.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/stat.h>
#include <tfcluster/log.h>

#include "base/buf.h"
#include "base/file.h"
#include "leaks.h"
#include "node_run.h"

#define NEVER UINT32_MAX /* seconds until ended jobs are removed: the file is old */

/* ---- the directory */

static void add_line(struct tfc__buf *bytes, const char *line)
{
	for (const char *at = line; *at && *at != '\n'; at++) {
		char digits[3] = "";
		if (*at != '\\') {
			tfc__buf_add_char(bytes, *at);
		} else if (*++at == 'x') {
			memcpy(digits, at + 1, 2);
			at += 2;
			tfc__buf_add_char(bytes, (char)strtoul(digits, NULL, 16));
		} else {
			tfc__buf_add_char(bytes, *at == 'n' ? '\n' : '\\');
		}
	}
}

static void write_file(char *path, struct tfc__buf *bytes)
{
	if (!*path)
		return;
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
		*slash = '/';
	}
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	assert_false(bytes->is_failed);
	assert_int_equal(bytes->len ? fwrite(bytes->data, 1, bytes->len, file) : 0, bytes->len);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(path, 0600), 0);
	tfc__buf_fini(bytes);
}

static void make_state(const char *dir)
{
	char source[1024], line[256], path[1024] = "";
	struct tfc__buf bytes = {0};
	snprintf(source, sizeof(source), "%s/test/proc/state_0_2.txt", getenv("TFC_SOURCE_ROOT"));
	FILE *text = fopen(source, "re");
	assert_non_null(text);
	while (fgets(line, sizeof(line), text)) {
		if (strncmp(line, "= ", 2) == 0) {
			write_file(path, &bytes);
			snprintf(path, sizeof(path), "%s/%.*s", dir, (int)strcspn(line + 2, "\n"),
				 line + 2);
		} else if (*path) {
			add_line(&bytes, line);
		}
	}
	write_file(path, &bytes);
	fclose(text);
}

/* ---- its jobs */

static void follow(struct node_run *run, const char *job, struct follower *follower)
{
	*follower = (struct follower){0};
	node_follow(run, job, NULL, follower);
	node_await_end(run, follower);
}

static void expect_end(struct node_run *run, const char *job, uint32_t state, uint32_t reason,
		       const char *text, const char *output)
{
	struct follower follower;
	follow(run, job, &follower);
	const struct seen_event *end = node_find(&follower, TFC_EVENT_END, NULL, 0, 0);
	assert_int_equal(end->event.job_state, state);
	assert_int_equal(end->event.reason, reason);
	assert_string_equal(end->text, text);
	char *written = node_output(&follower, "worker/0", 0);
	assert_string_equal(written, output);
	free(written);
	node_follow_end(&follower);
}

static void expect_attempt(const struct follower *follower, const char *task, uint32_t state,
			   uint32_t reason, int exit_code, int signal_number)
{
	const struct seen_event *end = node_find(follower, TFC_EVENT_TASK, task, state, 1);
	assert_non_null(end);
	assert_int_equal(end->event.reason, reason);
	assert_int_equal(end->event.exit_code, exit_code);
	assert_int_equal(end->event.signal, signal_number);
}

static void expect_ended_jobs(struct node_run *run)
{
	struct follower follower;
	expect_end(run, "done", TFC_JOB_SUCCEEDED, TFC_END_EXIT, "worker/0 exited with 0",
		   "fine\n");
	expect_end(run, "failed", TFC_JOB_FAILED, TFC_END_EXIT, "worker/0 exited with 3", "no\n");
	expect_end(run, "killed", TFC_JOB_FAILED, TFC_END_SIGNAL,
		   "worker/0 died of SIGKILL; its restarts are used up (0 in 600 s)", "");
	expect_end(run, "stopped", TFC_JOB_STOPPED, TFC_END_STOPPED, "stopped", "");
	follow(run, "failed", &follower);
	expect_attempt(&follower, "worker/0", TFC_TASK_FAILED, TFC_END_EXIT, 3, 0);
	node_follow_end(&follower);
	follow(run, "killed", &follower);
	expect_attempt(&follower, "worker/0", TFC_TASK_FAILED, TFC_END_SIGNAL, 0, 9);
	node_follow_end(&follower);
}

static bool have_second_attempts_written(void *user)
{
	bool have_written = true;
	for (int i = 0; i < 2; i++) {
		char *written = node_output(user, i ? "worker/1" : "worker/0", 0);
		have_written = have_written && strstr(written, "attempt 2\n");
		free(written);
	}
	return have_written;
}

/* Its tasks have ended with their guard: both are lost, and a second attempt runs. */
static void expect_resumed_job(struct node_run *run)
{
	struct follower follower = {0};
	node_follow(run, "runs", NULL, &follower);
	node_await_task(run, &follower, "worker/0", TFC_TASK_READY, 2);
	node_await_task(run, &follower, "worker/1", TFC_TASK_READY, 2);
	for (int i = 0; i < 2; i++) {
		const char *const tasks[] = {"worker/0", "worker/1"};
		const struct seen_event *lost = node_find(&follower, TFC_EVENT_TASK, tasks[i],
							  TFC_TASK_LOST, 1);
		assert_non_null(lost);
		assert_int_equal(lost->event.reason, TFC_END_LOST);
	}
	node_await(run, have_second_attempts_written, &follower, "output of the second attempts");
	node_stop(run, "runs", false);
	assert_int_equal(node_await_end(run, &follower)->event.job_state, TFC_JOB_STOPPED);
	char *written = node_output(&follower, "worker/1", TFC_STREAM_STDOUT);
	assert_string_equal(written, "attempt 1\nattempt 2\n");
	free(written);
	node_follow_end(&follower);
}

static void a_state_directory_of_0_2_opens(void **state)
{
	struct node_run run;
	char dir[LEAKS_PATH], path[LEAKS_PATH + 8];
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	leaks_make_dir(dir);
	snprintf(path, sizeof(path), "%s/state", dir);
	make_state(path);
	options.name = "old";
	options.state_dir = path;
	options.retain_s = NEVER;
	node_run_begin(&run, &options);
	expect_ended_jobs(&run);
	expect_resumed_job(&run);
	node_run_end(&run);
	node_run_begin(&run, &options); /* and again as this version has left it */
	expect_ended_jobs(&run);
	expect_end(&run, "runs", TFC_JOB_STOPPED, TFC_END_STOPPED, "stopped",
		   "attempt 1\nattempt 2\n");
	node_run_end(&run);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_state_directory_of_0_2_opens),
	};
	return cmocka_run_group_tests_name("node_state_0_2", tests, NULL, NULL);
}
