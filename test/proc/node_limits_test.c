/* node: a role's limits and user are its tasks'; what cannot be is refused with a sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "leaks.h"
#include "node_run.h"
#include "proc_run.h"
#include <tfcluster/log.h>

/* All that worker/0 prints in a job that succeeds; the caller frees it. */
static char *output_of(const char *json)
{
	struct node_run run;
	struct follower follower = {0};
	static const char *const env[] = {"PATH=/usr/bin:/bin", "HOME=/host", "USER=host", NULL};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	options.env = env;
	node_run_begin(&run, &options);
	assert_int_equal(chmod(leaks_temp_dir(), 01777), 0);
	assert_int_equal(chmod(run.dir, 0711), 0); /* as /tmp is: others may pass */
	const struct seen_event *end = node_run_job(&run, json, &follower);
	if (end->event.job_state != TFC_JOB_SUCCEEDED)
		fail_msg("%s", end->text);
	char *output = node_output(&follower, "worker/0", TFC_STREAM_STDOUT);
	node_follow_end(&follower);
	node_run_end(&run);
	return output;
}

static void a_roles_limits_are_its_tasks(void **state)
{
	char wanted[64];
	int nice = getpriority(PRIO_PROCESS, 0);
	char *json = node_json("{'framework':'none','argv':['%s','rlimit','%d','priority'],'roles':"
			       "{'worker':{'rlimits':{'nofile':[50,60],'core':0},'nice':2,"
			       "'oom_score_adj':900},'plain':{}}}",
			       node_task_program(), RLIMIT_NOFILE);
	char *output = output_of(json);
	snprintf(wanted, sizeof(wanted), "50:60\n%d 900\n", nice + 2 > 19 ? 19 : nice + 2);
	assert_string_equal(output, wanted);
	free(output);
	free(json);
}

static void a_limit_that_is_refused_ends_the_job_with_its_sentence(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	node_run_begin(&run, NULL);
	char *json = node_json("{'framework':'none','argv':['/bin/true'],'roles':"
			       "{'worker':{'rlimits':{'nofile':'unlimited'}}}}");
	const struct seen_event *end = node_run_job(&run, json, &follower);
	assert_int_equal(end->event.job_state, TFC_JOB_FAILED);
	assert_int_equal(end->event.reason, TFC_END_REFUSED);
	if (!strstr(end->text, "cannot raise rlimit nofile to unlimited: hard limit is "))
		fail_msg("%s", end->text);
	free(json);
	node_follow_end(&follower);
	node_run_end(&run);
}

static void assert_refused(const char *user, int code, const char *sentence)
{
	struct node_run run;
	struct answer answer = {0};
	node_run_begin(&run, NULL);
	char *json = node_json("{'framework':'none','argv':['/bin/true'],'roles':{'worker':"
			       "{'user':'%s'}}}",
			       user);
	node_submit_for(&run, json, NULL, &answer);
	assert_int_equal(answer.code, code);
	if (!strstr(answer.error, sentence))
		fail_msg("no \"%s\" in: %s", sentence, answer.error);
	node_answer_clear(&answer);
	free(json);
	node_run_end(&run);
}

static void check_root_is_refused(void)
{
	assert_refused(
		"root", TFC_EACCES,
		"roles.worker.user: only a host that runs as root can run tasks as user \"root\"");
}

static void a_user_that_cannot_be_is_refused_at_once(void **state)
{
	assert_refused("no-such-user", TFC_ENOENT,
		       "roles.worker.user: user \"no-such-user\" not found in \"/etc/passwd\"");
	proc_as_outsider(check_root_is_refused);
}

static void a_task_of_another_user_has_its_environment_bundle_and_port(void **state)
{
	char dir[LEAKS_PATH], path[LEAKS_PATH + 16];
	if (geteuid() != 0) {
		print_message("skipped: only root can run tasks as another user\n");
		skip();
	}
	leaks_make_dir(dir);
	snprintf(path, sizeof(path), "%s/main.sh", dir);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs("id -u; id -g; id -G; echo $HOME $USER $LOGNAME\n"
	      "touch made && mkdir deep && cat main.sh > deep/copy && stat -c '%u:%g' . main.sh\n"
	      "ls $TFC_LOG_DIR/.. >/dev/null 2>&1 || echo closed\n"
	      "exec \"$0\" listen\n",
	      file);
	fclose(file);
	char *json = node_json("{'bundle':'%s','argv':['/bin/sh','-c','. ./main.sh','%s'],"
			       "'roles':{'worker':{'user':'%d:%d','env':{'LOGNAME':'job'}}}}",
			       dir, node_task_program(), PROC_OUTSIDER, PROC_OUTSIDER + 1);
	char *output = output_of(json);
	assert_string_equal(output, "54321\n54322\n54322\n/ 54321 job\n54321:54322\n54321:54322\n"
				    "closed\n");
	free(output);
	free(json);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_roles_limits_are_its_tasks),
		cmocka_unit_test(a_limit_that_is_refused_ends_the_job_with_its_sentence),
		cmocka_unit_test(a_user_that_cannot_be_is_refused_at_once),
		cmocka_unit_test(a_task_of_another_user_has_its_environment_bundle_and_port),
	};
	return cmocka_run_group_tests_name("node_limits", tests, NULL, NULL);
}
