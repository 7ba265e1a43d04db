/* node: output that a full disk did not take is told to subscribers before the attempt's end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "leaks.h"
#include "mounts.h"
#include "node_run.h"

/* A file system without one free byte, but with room for names. */
static void make_full_disk(const char *dir)
{
	static char block[65536];
	char path[4200];
	assert_int_equal(mount("tmpfs", dir, "tmpfs", 0, "size=64k"), 0);
	snprintf(path, sizeof(path), "%s/filler", dir);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, block, sizeof(block)), sizeof(block));
	close(fd);
}

/* In order: what was lost, then the end of the attempt, of both attempts. */
static void check_events(const struct follower *follower)
{
	uint32_t attempt = 1;
	bool is_gap_told = false;
	for (size_t i = 0; i < follower->count; i++) {
		const tfc_event *event = &follower->events[i].event;
		assert_int_not_equal(event->kind, TFC_EVENT_OUTPUT);
		if (event->kind == TFC_EVENT_GAP) {
			assert_false(is_gap_told);
			assert_int_equal(event->attempt, attempt);
			assert_int_equal(event->data_len, 5);
			is_gap_told = true;
		}
		if (event->kind == TFC_EVENT_TASK && (event->task_state == TFC_TASK_FAILED ||
						      event->task_state == TFC_TASK_EXITED)) {
			assert_true(is_gap_told);
			is_gap_told = false;
			attempt++;
		}
	}
	assert_int_equal(attempt, 3);
}

static void what_was_lost_is_told_before_the_end(void **state)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_lost_is_told_before_the_end),
	};
	if (!mounts_are_own())
		return MOUNTS_SKIPPED;
	return cmocka_run_group_tests_name("node_full_disk", tests, NULL, NULL);
}
