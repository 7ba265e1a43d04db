/* ctx: a forked child that abandons a host's context keeps no socket, no held port and nothing else
 * that others wait for; and one that does not even do that does not delay the host's close. */
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
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "leaks.h"
#include "node_run.h"
#include <tfcluster/port.h>

#define FDS_MAX 256

/* The descriptors that are open, with what each refers to. */
struct fds {
	bool is_open[FDS_MAX];
	char target[FDS_MAX][128];
};

static void list_fds(struct fds *fds)
{
	DIR *dir = opendir("/proc/self/fd");
	*fds = (struct fds){.is_open = {false}};
	for (struct dirent *entry; (entry = readdir(dir));) {
		int fd = atoi(entry->d_name);
		if (entry->d_name[0] == '.' || fd == dirfd(dir) || fd >= FDS_MAX)
			continue;
		ssize_t len = readlinkat(dirfd(dir), entry->d_name, fds->target[fd],
					 sizeof(fds->target[fd]) - 1);
		fds->is_open[fd] = len > 0;
	}
	closedir(dir);
}

/* In the child: prints each descriptor that the library opened and that is still open. Directories
 * and logs are open for reading only. */
static int count_left(const struct fds *before)
{
	static struct fds after;
	int left = 0;
	list_fds(&after);
	for (int fd = 0; fd < FDS_MAX; fd++)
		if (after.is_open[fd] && !before->is_open[fd] &&
		    strncmp(after.target[fd], leaks_temp_dir(), strlen(leaks_temp_dir())) != 0) {
			fprintf(stderr, "descriptor %d is left: %s\n", fd, after.target[fd]);
			left++;
		}
	return left;
}

static void expect_none_left(tfc_ctx *ctx, const struct fds *before)
{
	int status;
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		tfc_ctx_abandon(ctx);
		_exit(count_left(before));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void a_held_port_is_released_in_the_child(void **state)
{
	struct fds before;
	tfc_ctx *ctx;
	tfc_port_pool *pool;
	tfc_port_hold *hold;
	list_fds(&before);
	assert_int_equal(tfc_ctx_new(NULL, NULL, &ctx), TFC_OK);
	assert_int_equal(tfc_port_pool_open(ctx, NULL, &pool), TFC_OK);
	assert_int_equal(tfc_port_acquire(pool, 0, &hold), TFC_OK);
	expect_none_left(ctx, &before);
	assert_int_equal(tfc_port_hold_set_open(hold, 0), TFC_OK);
	tfc_port_hold_release(hold);
	tfc_port_pool_close(pool);
	tfc_ctx_free(ctx);
}

static void begin_node(struct node_run *run, const char *dir)
{
	char state_dir[LEAKS_PATH + 8];
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	snprintf(state_dir, sizeof(state_dir), "%s/state", dir);
	options.state_dir = state_dir;
	node_run_begin(run, &options);
}

static void a_node_with_all_its_parts_is_closed_in_the_child(void **state)
{
	struct fds before;
	struct node_run run;
	struct follower follower = {0};
	char dir[LEAKS_PATH];
	leaks_make_dir(dir);
	list_fds(&before);
	begin_node(&run, dir);
	char *json = node_script(2, "echo x; exec sleep 1000");
	node_start(&run, json, &follower);
	node_await_task(&run, &follower, "worker/1", TFC_TASK_READY, 1);
	expect_none_left(run.ctx, &before);
	node_stop(&run, follower.job, true);
	node_await_end(&run, &follower);
	node_follow_end(&follower);
	node_run_end(&run);
	free(json);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

static int count_children(void)
{
	char text[4096] = "";
	FILE *file = fopen("/proc/thread-self/children", "r");
	int count = 0;
	assert_non_null(file);
	if (fgets(text, sizeof(text), file))
		for (const char *at = text; (at = strchr(at, ' ')); at++)
			count++;
	fclose(file);
	return count;
}

/* The node's helpers end when the node is closed, not when the last copy of a socket is. */
static void a_child_with_copies_does_not_delay_the_close(void **state)
{
	struct node_run run;
	char dir[LEAKS_PATH];
	leaks_make_dir(dir);
	begin_node(&run, dir);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	assert_true(count_children() > 1);
	node_run_close(&run);
	tfc_ctx_free(run.ctx);
	run.ctx = NULL;
	int children = count_children();
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(children, 1);
	node_run_end(&run);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_held_port_is_released_in_the_child),
		cmocka_unit_test(a_node_with_all_its_parts_is_closed_in_the_child),
		cmocka_unit_test(a_child_with_copies_does_not_delay_the_close),
	};
	return cmocka_run_group_tests_name("ctx_forked", tests, NULL, NULL);
}
