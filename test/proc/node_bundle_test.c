/* node: a job's program comes as a bundle, unpacked for each task alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <tfcluster/bundle.h>
#include <unistd.h>

#include "base/file.h"
#include "leaks.h"
#include "node_run.h"
#include "proc_run.h"

struct source {
	char dir[LEAKS_PATH];
	char file[96];
	char zip[96];
	char outside[96]; /* where a link of the task points */
};

static void write_text(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static int set_up(void **state)
{
	struct source *source = calloc(1, sizeof(*source));
	tfc_error error = TFC_ERROR_INIT;
	*state = source;
	leaks_make_dir(source->dir);
	snprintf(source->file, sizeof(source->file), "%s/main.sh", source->dir);
	snprintf(source->zip, sizeof(source->zip), "%s.zip", source->dir);
	snprintf(source->outside, sizeof(source->outside), "%s-outside", source->dir);
	char *script;
	assert_true(asprintf(&script,
			     "pwd; echo $PYTHONPATH; ls; touch left-$TFC_ATTEMPT\n"
			     "ln -s %s outside 2>/dev/null\n"
			     "[ $TFC_ATTEMPT = 2 ] || kill -9 $$\n",
			     source->outside) > 0);
	write_text(source->file, script);
	free(script);
	return tfc_bundle_pack(source->dir, source->zip, &error);
}

static int tear_down(void **state)
{
	struct source *source = *state;
	unlink(source->zip);
	int code = tfc__remove_tree(source->dir);
	free(source);
	return code;
}

static void run_bundle(const char *path)
{
	struct node_run run;
	struct follower follower = {0};
	static const char *const env[] = {"PATH=/usr/bin:/bin", "PYTHONPATH=/old", NULL};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	options.env = env;
	node_run_begin(&run, &options);
	char *json = node_json("{'framework':'none','bundle':'%s','argv':['/bin/sh','main.sh'],"
			       "'restart':{'backoff_s':[0,0]},'roles':{'worker':{'count':2}}}",
			       path);
	const struct seen_event *end = node_run_job(&run, json, &follower);
	if (end->event.job_state != TFC_JOB_SUCCEEDED)
		fail_msg("%s", end->text);
	char *output = node_output(&follower, "worker/0", 0);
	char *other = node_output(&follower, "worker/1", 0);
	char *dir = strndup(output, strcspn(output, "\n")), *expected;
	assert_true(asprintf(&expected,
			     "%s\n%s:/old\nmain.sh\n%s\n%s:/old\nleft-1\nmain.sh\n"
			     "outside\n",
			     dir, dir, dir, dir) > 0);
	assert_string_equal(output, expected);
	assert_string_not_equal(output, other);
	assert_int_equal(strncmp(dir, run.dir, strlen(run.dir)), 0);
	for (int i = 0; i < 100 && access(dir, F_OK) == 0; i++)
		tfc_ctx_run(run.ctx, 100); /* it goes with the job, in a process of its own */
	assert_int_equal(access(dir, F_OK), -1);
	free(expected);
	free(dir);
	free(output);
	free(other);
	free(json);
	node_follow_end(&follower);
	node_run_end(&run);
}

static void a_directory_a_file_and_a_zip_are_bundles(void **state)
{
	struct source *source = *state;
	char precious[128];
	snprintf(precious, sizeof(precious), "%s/precious", source->outside);
	assert_int_equal(mkdir(source->outside, 0700), 0);
	write_text(precious, "x");
	run_bundle(source->dir);
	run_bundle(source->file);
	run_bundle(source->zip);
	assert_int_equal(access(precious, F_OK), 0);
	assert_int_equal(tfc__remove_tree(source->outside), 0);
}

static void a_bad_bundle_is_refused_with_its_sentence(void **state)
{
	struct source *source = *state;
	const char *const paths[] = {source->zip, "/no/such/bundle"};
	static const char *const texts[] = {"bundle: ", "/no/such/bundle"};
	assert_int_equal(truncate(source->zip, 40), 0);
	for (int i = 0; i < 2; i++) {
		struct node_run run;
		struct follower follower = {0};
		node_run_begin(&run, NULL);
		char *json = node_json("{'framework':'none','bundle':'%s','argv':['/bin/true'],"
				       "'roles':{'worker':{'count':3}}}",
				       paths[i]);
		const struct seen_event *end = node_run_job(&run, json, &follower);
		assert_int_equal(end->event.job_state, TFC_JOB_FAILED);
		assert_int_equal(end->event.reason, TFC_END_REFUSED);
		if (!strstr(end->text, texts[i]) || strstr(end->text, "without a result"))
			fail_msg("%s", end->text);
		free(json);
		node_follow_end(&follower);
		node_run_end(&run);
	}
}

static pid_t find_child(pid_t parent, const char *program)
{
	pid_t found = 0;
	DIR *dir = opendir("/proc");
	for (struct dirent *entry; !found && (entry = readdir(dir));) {
		char path[300], text[400];
		int pid = atoi(entry->d_name), its_parent;
		snprintf(path, sizeof(path), "/proc/%d/stat", pid);
		FILE *file = pid ? fopen(path, "r") : NULL;
		if (!file)
			continue;
		size_t len = fread(text, 1, sizeof(text) - 1, file);
		fclose(file);
		text[len] = 0;
		const char *end = strrchr(text, ')');
		if (end && sscanf(end + 4, "%d", &its_parent) == 1 && its_parent == parent &&
		    strstr(text, program))
			found = pid;
	}
	closedir(dir);
	return found;
}

/* The guard dies at any moment of packing and unpacking: the job comes up all the same. */
static void a_bundle_survives_the_guard(void **state)
{
	struct source *source = *state;
	write_text(source->file, "sleep 60\n");
	for (int turns = 0; turns < 12; turns++) {
		struct node_run run;
		struct follower follower = {0};
		node_run_begin(&run, NULL);
		char *json = node_json("{'framework':'none','bundle':'%s',"
				       "'argv':['/bin/sh','main.sh'],'grace_s':0.2,"
				       "'restart':{'scope':'task','backoff_s':[0,0]},"
				       "'roles':{'worker':{'count':2}}}",
				       source->dir);
		node_start(&run, json, &follower);
		for (int i = 0; i < turns; i++)
			tfc_ctx_run(run.ctx, 20);
		pid_t guard = find_child(getpid(), "tfc-guard");
		assert_true(guard > 0);
		kill(guard, SIGKILL);
		node_await_task(&run, &follower, "worker/0", TFC_TASK_READY, 0);
		node_await_task(&run, &follower, "worker/1", TFC_TASK_READY, 0);
		node_stop(&run, follower.job, false);
		node_await_end(&run, &follower);
		free(json);
		node_follow_end(&follower);
		node_run_end(&run);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(a_directory_a_file_and_a_zip_are_bundles),
		TEST(a_bad_bundle_is_refused_with_its_sentence),
		TEST(a_bundle_survives_the_guard),
	};
	return cmocka_run_group_tests_name("node_bundle", tests, NULL, NULL);
}
