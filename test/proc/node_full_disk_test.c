/* node: what a full disk did not take: the loss of output is reported while it lasts and as a gap
 * before the attempt's end, and the end of a job is not reported before it is stored. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "leaks.h"
#include "mounts.h"
#include "node_run.h"

/* Takes every byte that is free; there is still room for names. */
static void fill(const char *dir)
{
	static char block[65536];
	char path[4200];
	size_t size = sizeof(block);
	snprintf(path, sizeof(path), "%s/filler", dir);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	while (size) {
		ssize_t len = write(fd, block, size);
		size = len > 0 ? size : size / 2;
	}
	close(fd);
}

static void make_full_disk(const char *dir)
{
	assert_int_equal(mount("tmpfs", dir, "tmpfs", 0, "size=64k"), 0);
	fill(dir);
}

/* In order: what was lost, then the end of the attempt, of both attempts. */
static void check_events(const struct follower *follower)
{
	uint32_t attempt = 1;
	bool is_gap_reported = false;
	for (size_t i = 0; i < follower->count; i++) {
		const tfc_event *event = &follower->events[i].event;
		assert_int_not_equal(event->kind, TFC_EVENT_OUTPUT);
		if (event->kind == TFC_EVENT_GAP) {
			assert_false(is_gap_reported);
			assert_int_equal(event->attempt, attempt);
			assert_int_equal(event->data_len, 5);
			is_gap_reported = true;
		}
		if (event->kind == TFC_EVENT_TASK && (event->task_state == TFC_TASK_FAILED ||
						      event->task_state == TFC_TASK_EXITED)) {
			assert_true(is_gap_reported);
			is_gap_reported = false;
			attempt++;
		}
	}
	assert_int_equal(attempt, 3);
}

static void what_was_lost_is_reported_before_the_end(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	char dir[LEAKS_PATH];
	leaks_make_dir(dir);
	make_full_disk(dir);
	options.log_dir = dir;
	node_run_begin(&run, &options);
	char *json = node_json("{'framework':'none','argv':['%s','print','five!','exit','1'],"
			       "'roles':{'worker':{}},'restart':{'max':1,'on':'failure',"
			       "'backoff_s':[0,0]}}",
			       node_task_program());
	node_run_job(&run, json, &follower);
	check_events(&follower);
	free(json);
	node_follow_end(&follower);
	node_run_end(&run);
	assert_int_equal(umount2(dir, MNT_DETACH), 0);
	assert_int_equal(rmdir(dir), 0);
}

/* ---- output that is lost while the task runs on */

struct notice {
	const struct follower *follower;
	const char *text;
};

static int count_notices(const struct notice *notice)
{
	int count = 0;
	for (size_t i = 0; i < notice->follower->count; i++) {
		const struct seen_event *seen = &notice->follower->events[i];
		count += seen->event.kind == TFC_EVENT_TASK &&
			 seen->event.task_state == TFC_TASK_READY &&
			 strstr(seen->text, notice->text);
	}
	return count;
}

static bool is_notified(void *user)
{
	return count_notices(user) > 0;
}

static int count_in_log(const struct node_run *run, const char *text)
{
	int count = 0;
	for (const char *at = run->log; (at = strstr(at, text)); at++)
		count++;
	return count;
}

static void check_described(struct node_run *run, const char *job, const char *loss, bool is_shown)
{
	char *text = node_describe(run, job);
	assert_int_equal(strstr(text, loss) != NULL, is_shown);
	free(text);
}

static void write_text(int fd, const char *text)
{
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void a_loss_is_reported_when_it_begins_and_when_it_ends(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	char dir[LEAKS_PATH], fifo[LEAKS_PATH + 8], path[LEAKS_PATH + 8], lost[512];
	struct notice loses = {&follower, lost};
	struct notice recovers = {
		&follower, "worker/0 no longer loses its output; bytes lost: 9, lines lost: 2"};
	leaks_make_dir(dir);
	make_full_disk(dir);
	options.log_dir = dir;
	options.name = "left";
	node_run_begin(&run, &options);
	snprintf(fifo, sizeof(fifo), "%s/lines", run.dir);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	int lines = open(fifo, O_RDWR | O_CLOEXEC);
	char *json = node_json(
		"{'framework':'none','roles':{'worker':{'ready':'started',"
		"'argv':['/bin/sh','-c','while read -r text; do printf $text; done <%s']}}}",
		fifo);
	node_start(&run, json, &follower);
	snprintf(lost, sizeof(lost),
		 "is losing its output: cannot write to \"%s/%s\" on node left: No space left on "
		 "device",
		 dir, follower.job);
	node_await_task(&run, &follower, "worker/0", TFC_TASK_READY, 1);
	check_described(&run, follower.job, "is losing its output", false);
	write_text(lines, "five\\nsix\\n\n"); /* one write of the task */
	node_await(&run, is_notified, &loses, "a loss that is reported");
	check_described(&run, follower.job, "is losing its output: cannot write to", true);
	snprintf(path, sizeof(path), "%s/filler", dir);
	assert_int_equal(unlink(path), 0);
	write_text(lines, "seven\\n\n");
	node_await(&run, is_notified, &recovers, "a loss that is over");
	assert_int_equal(count_notices(&loses), 1);
	assert_int_equal(count_notices(&recovers), 1);
	check_described(&run, follower.job, "is losing its output", false);
	assert_int_equal(count_in_log(&run, "output of worker/0 is being lost: cannot write to"),
			 1);
	assert_int_equal(
		count_in_log(&run,
			     "output is no longer being lost; bytes lost by tasks of the job: 9\n"),
		1);
	char *output = node_output(&follower, "worker/0", 0);
	assert_string_equal(output, "seven\n");
	node_stop(&run, follower.job, true);
	node_await_end(&run, &follower);
	close(lines);
	assert_int_equal(unlink(fifo), 0);
	free(output);
	free(json);
	node_follow_end(&follower);
	node_run_end(&run);
	assert_int_equal(umount2(dir, MNT_DETACH), 0);
	assert_int_equal(rmdir(dir), 0);
}

/* ---- the end of a job, whose node is killed */

struct place {
	char dir[LEAKS_PATH];
	char state[LEAKS_PATH + 8]; /* on a disk of its own */
	char temp[LEAKS_PATH + 8];
	char go[LEAKS_PATH + 8];   /* a FIFO: the task ends once it is written to */
	char runs[LEAKS_PATH + 8]; /* a byte for each attempt */
};

static void make_place(struct place *place)
{
	leaks_make_dir(place->dir);
	snprintf(place->state, sizeof(place->state), "%s/state", place->dir);
	snprintf(place->temp, sizeof(place->temp), "%s/temp", place->dir);
	snprintf(place->go, sizeof(place->go), "%s/go", place->dir);
	snprintf(place->runs, sizeof(place->runs), "%s/runs", place->dir);
	assert_int_equal(mkdir(place->temp, 0700), 0);
	assert_int_equal(mkdir(place->state, 0700), 0);
	assert_int_equal(mkfifo(place->go, 0600), 0);
	assert_int_equal(mount("tmpfs", place->state, "tmpfs", 0, "size=4m,mode=700"), 0);
}

/* The guard of a killed host may still be removing what is its own. */
static void remove_place(struct place *place)
{
	uint64_t until = tfc__now() + 20 * TFC__SECOND;
	assert_int_equal(umount2(place->state, MNT_DETACH), 0);
	while (tfc__remove_tree(place->dir) < 0 && tfc__now() < until)
		usleep(2000);
	assert_int_not_equal(access(place->dir, F_OK), 0);
}

static void make_room(const struct place *place)
{
	char path[LEAKS_PATH + 32];
	snprintf(path, sizeof(path), "%s/filler", place->state);
	assert_int_equal(unlink(path), 0);
}

static long count_runs(const struct place *place)
{
	struct stat runs;
	assert_int_equal(stat(place->runs, &runs), 0);
	return runs.st_size;
}

/* The host, a process of its own, which writes a byte for each event that it receives. */
struct host_process {
	const struct place *place;
	tfc_gateway *gateway;
	tfc_sub *sub;
	int reported;
};

#define REPORTED_ENDED 'e'
#define REPORTED_END_WAITS 'w'

static void report_to_parent(const struct host_process *host, char what)
{
	if (write(host->reported, &what, 1) != 1)
		_exit(4);
}

static void end_task(const struct place *place)
{
	int fd = open(place->go, O_RDWR | O_CLOEXEC);
	if (fd < 0 || write(fd, "\n", 1) != 1)
		_exit(5); /* it stays open: the task reads what is in there */
}

static void on_event(void *user, const tfc_event *event)
{
	struct host_process *host = user;
	if (event->kind == TFC_EVENT_TASK && event->task_state == TFC_TASK_READY) {
		fill(host->place->state);
		end_task(host->place);
	}
	if (event->kind == TFC_EVENT_END)
		report_to_parent(host, REPORTED_ENDED);
}

/* Of what happens while the disk is full the log alone can say something. */
static void on_log(void *user, const tfc_log_entry *entry)
{
	if (strstr(entry->text, "cannot store the job's events"))
		report_to_parent(user,
				 strstr(entry->text, "No space left") ? REPORTED_END_WAITS : '?');
}

static void on_reply(void *user, const tfc_reply *reply)
{
	struct host_process *host = user;
	if (reply->code < 0 ||
	    tfc_gateway_subscribe(host->gateway, reply->text, NULL, on_event, host, &host->sub) < 0)
		_exit(3);
}

static _Noreturn void live(const struct place *place, int reported)
{
	struct host_process host = {.place = place, .reported = reported};
	tfc_ctx_options ctx_options = TFC_CTX_OPTIONS_INIT;
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	tfc_gateway_options gateway_options = TFC_GATEWAY_OPTIONS_INIT;
	tfc_ctx *ctx;
	tfc_job *job;
	char *json =
		node_json("{'name':'full','framework':'none','roles':{'worker':{'ready':'started',"
			  "'argv':['/bin/sh','-c','printf x >>%s; read line <%s']}}}",
			  place->runs, place->go);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	options.state_dir = place->state;
	options.temp_dir = place->temp;
	options.log_dir = place->temp;
	ctx_options.helper_dir = getenv("TFC_HELPER_DIR");
	ctx_options.log = on_log;
	ctx_options.log_user = &host;
	ctx_options.log_level = TFC_LOG_ERROR;
	if (tfc_ctx_new(&ctx_options, NULL, &ctx) < 0 ||
	    tfc_node_open(ctx, &options, &gateway_options.node) < 0 ||
	    tfc_gateway_open(ctx, &gateway_options, &host.gateway) < 0 ||
	    tfc_job_parse(json, strlen(json), NULL, NULL, &job) < 0 ||
	    tfc_gateway_submit(host.gateway, job, NULL, on_reply, &host, NULL) < 0)
		_exit(2);
	while (tfc_ctx_run(ctx, -1) >= 0)
		;
	_exit(1);
}

static pid_t start_host(const struct place *place, int *ret_reported)
{
	int pipe_fds[2];
	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		live(place, pipe_fds[1]);
	close(pipe_fds[1]);
	*ret_reported = pipe_fds[0];
	return child;
}

static void await_reported(int reported, char wanted)
{
	char what = 0;
	assert_int_equal(read(reported, &what, 1), 1);
	assert_int_equal(what, wanted);
}

static void kill_host(pid_t child, int reported)
{
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	close(reported);
}

/* The next node on that directory; the epoch in which the job ends there. */
static uint64_t run_next_node(const struct place *place)
{
	struct node_run run;
	struct follower follower = {0};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	options.state_dir = place->state;
	node_run_begin(&run, &options);
	int go = open(place->go, O_RDWR | O_CLOEXEC);
	assert_int_equal(write(go, "\n", 1), 1);
	node_follow(&run, "full", NULL, &follower);
	const struct seen_event *over = node_await_end(&run, &follower);
	assert_int_equal(over->event.job_state, TFC_JOB_SUCCEEDED);
	uint64_t epoch = over->event.epoch;
	close(go);
	node_follow_end(&follower);
	node_run_end(&run);
	return epoch;
}

static void an_end_that_was_reported_stays(void **state)
{
	struct place place;
	int reported;
	make_place(&place);
	pid_t child = start_host(&place, &reported);
	await_reported(reported, REPORTED_END_WAITS);
	make_room(&place);
	await_reported(reported, REPORTED_ENDED);
	kill_host(child, reported);
	assert_int_equal(run_next_node(&place), 1);
	assert_int_equal(count_runs(&place), 1);
	remove_place(&place);
}

/* What ran is not known to have ended. */
static void an_end_that_was_not_reported_may_come_again(void **state)
{
	struct place place;
	int reported;
	make_place(&place);
	pid_t child = start_host(&place, &reported);
	await_reported(reported, REPORTED_END_WAITS);
	kill_host(child, reported);
	make_room(&place);
	assert_int_equal(run_next_node(&place), 2);
	assert_int_equal(count_runs(&place), 2);
	remove_place(&place);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_lost_is_reported_before_the_end),
		cmocka_unit_test(a_loss_is_reported_when_it_begins_and_when_it_ends),
		cmocka_unit_test(an_end_that_was_reported_stays),
		cmocka_unit_test(an_end_that_was_not_reported_may_come_again),
	};
	if (!mounts_are_own())
		return MOUNTS_SKIPPED;
	return cmocka_run_group_tests_name("node_full_disk", tests, NULL, NULL);
}
