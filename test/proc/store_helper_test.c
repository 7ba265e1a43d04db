/* store: the helper process - killed, stopped, left alone - stops nobody and loses nothing. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "leaks.h"
#include "proc_run.h"
#include "store/store.h"

#define ANY UINT64_MAX

struct bench {
	tfc_ctx *ctx;
	struct tfc__store *store;
	char dir[LEAKS_PATH];
	char path[LEAKS_PATH + 8];
};

static int open_store(struct bench *bench, tfc_error *error)
{
	return tfc__store_open_local(bench->ctx, bench->path, error, &bench->store);
}

static void begin(struct bench *bench)
{
	tfc_error error = TFC_ERROR_INIT;
	*bench = (struct bench){0};
	leaks_make_dir(bench->dir);
	snprintf(bench->path, sizeof(bench->path), "%s/state", bench->dir);
	assert_int_equal(proc_ctx_new(&bench->ctx), TFC_OK);
	if (open_store(bench, &error) < 0)
		fail_msg("%s", error.text);
}

static void end(struct bench *bench)
{
	tfc__store_close(bench->store);
	tfc_ctx_free(bench->ctx);
	assert_int_equal(tfc__remove_tree(bench->dir), 0);
}

/* The first child of a process. */
static pid_t helper_of(pid_t parent)
{
	char path[64], text[64];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent, (int)parent);
	assert_true(tfc__read_text(path, text, sizeof(text)) > 0);
	return (pid_t)strtol(text, NULL, 10);
}

struct answer {
	bool has_come;
	int code;
	char value[64];
};

static void take(void *user, int code, const tfc_store_value *values, uint32_t count,
		 const tfc_error *error)
{
	struct answer *answer = user;
	*answer = (struct answer){.has_come = true, .code = code};
	if (count && values[0].len)
		snprintf(answer->value, sizeof(answer->value), "%.*s", (int)values[0].len,
			 (const char *)values[0].data);
}

static void await(struct bench *bench, struct answer *answer)
{
	uint64_t until = tfc__now() + 30 * TFC__SECOND;
	while (!answer->has_come && tfc__now() < until)
		assert_true(tfc_ctx_run(bench->ctx, 1000) >= 0);
	assert_true(answer->has_come);
}

static int put(struct bench *bench, const char *key, const char *value)
{
	struct answer answer = {0};
	tfc__store_put(bench->store, key, value, strlen(value), ANY, take, &answer);
	await(bench, &answer);
	return answer.code;
}

static void assert_value(struct bench *bench, const char *key, const char *value)
{
	struct answer answer = {0};
	tfc__store_get(bench->store, key, take, &answer);
	await(bench, &answer);
	assert_int_equal(answer.code, TFC_OK);
	assert_string_equal(answer.value, value);
}

/* ---- signals that are meant for its host */

static void signals_that_end_a_node_do_not_end_the_helper(void **state)
{
	struct bench bench;
	begin(&bench);
	assert_int_equal(put(&bench, "job/a", "one"), TFC_OK);
	pid_t helper = helper_of(getpid());
	assert_int_equal(proc_blocked(helper) & proc_node_signals(), proc_node_signals());
	assert_int_equal(proc_ignored(helper) & proc_node_signals(), 0);
	proc_send_node_signals(helper);
	assert_int_equal(put(&bench, "job/a", "two"), TFC_OK);
	assert_value(&bench, "job/a", "two");
	assert_int_equal(helper_of(getpid()), helper);
	end(&bench);
}

/* ---- killed */

static void a_killed_helper_is_replaced(void **state)
{
	struct bench bench;
	begin(&bench);
	assert_int_equal(put(&bench, "k", "kept"), TFC_OK);
	for (int i = 0; i < 3; i++) {
		pid_t helper = helper_of(getpid());
		struct answer answer = {0};
		kill(helper, SIGSTOP);
		tfc__store_put(bench.store, "k", "kept", 4, ANY, take, &answer);
		assert_true(tfc_ctx_dispatch(bench.ctx, 0) >= 0);
		kill(helper, SIGKILL);
		await(&bench, &answer);
		assert_int_equal(answer.code, TFC_ELOST);
		assert_value(&bench, "k", "kept");
		assert_int_not_equal(helper_of(getpid()), helper);
	}
	end(&bench);
}

/* ---- hung, as by a disk */

static void a_hung_disk_stops_only_the_responses(void **state)
{
	struct bench bench;
	struct answer answer = {0};
	char *large = calloc(1, TFC__STORE_VALUE_MAX);
	begin(&bench);
	pid_t helper = helper_of(getpid());
	kill(helper, SIGSTOP);
	tfc__store_put(bench.store, "k", large, TFC__STORE_VALUE_MAX, ANY, take, &answer);
	uint64_t longest = 0;
	for (int i = 0; i < 50; i++) {
		uint64_t before = tfc__now();
		assert_true(tfc_ctx_run(bench.ctx, 0) >= 0);
		uint64_t took = tfc__now() - before;
		longest = took > longest ? took : longest;
	}
	assert_false(answer.has_come);
	assert_true(longest < TFC__SECOND);
	kill(helper, SIGCONT);
	await(&bench, &answer);
	assert_int_equal(answer.code, TFC_OK);
	end(&bench);
	free(large);
}

static void a_store_on_a_hung_disk_can_be_closed(void **state)
{
	struct bench bench;
	int status;
	begin(&bench);
	pid_t helper = helper_of(getpid());
	kill(helper, SIGSTOP);
	for (int i = 0; i < 100; i++) {
		char key[16];
		snprintf(key, sizeof(key), "k%d", i);
		tfc__store_put(bench.store, key, "late", 4, ANY, NULL, NULL);
	}
	uint64_t before = tfc__now();
	tfc__store_close(bench.store);
	assert_in_range((tfc__now() - before) / TFC__SECOND, 1, 8);
	kill(helper, SIGCONT); /* and what it had been given is done */
	assert_int_equal(waitpid(helper, &status, 0), helper);
	assert_int_equal(open_store(&bench, NULL), TFC_OK);
	assert_value(&bench, "k0", "late");
	assert_value(&bench, "k99", "late");
	end(&bench);
}

/* ---- the host's end */

/* A host that has a child without exec, which keeps the socket to the helper open. */
static void live(const struct bench *of, int fd)
{
	struct bench bench = *of;
	pid_t child;
	if (proc_ctx_new(&bench.ctx) < 0 || open_store(&bench, NULL) < 0 ||
	    put(&bench, "k", "of the dead") < 0 || (child = fork()) < 0)
		_exit(1);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, 0);
		pause();
	}
	if (write(fd, &child, sizeof(child)) != (ssize_t)sizeof(child))
		_exit(1);
	pause();
}

static void assert_free_after_death(bool is_helper_stopped)
{
	struct bench bench;
	int ends[2];
	pid_t forked = 0;
	tfc_error error = TFC_ERROR_INIT;
	begin(&bench);
	tfc__store_close(bench.store);
	bench.store = NULL;
	assert_int_equal(pipe(ends), 0);
	pid_t host = fork();
	if (host == 0)
		live(&bench, ends[1]);
	assert_int_equal(read(ends[0], &forked, sizeof(forked)), sizeof(forked));
	struct tfc__store *second;
	assert_int_equal(tfc__store_open_local(bench.ctx, bench.path, &error, &second), TFC_EBUSY);
	char words[32];
	snprintf(words, sizeof(words), "process %d", (int)host);
	assert_non_null(strstr(error.text, words));
	if (is_helper_stopped)
		assert_int_equal(kill(helper_of(host), SIGSTOP), 0);
	kill(host, SIGKILL);
	assert_int_equal(waitpid(host, NULL, 0), host);
	if (open_store(&bench, &error) < 0)
		fail_msg("%s", error.text);
	assert_value(&bench, "k", "of the dead");
	kill(forked, SIGKILL);
	close(ends[0]);
	close(ends[1]);
	end(&bench);
}

static void a_dead_hosts_store_is_free_at_once(void **state)
{
	assert_free_after_death(false);
}

static void a_dead_hosts_store_is_free_although_its_helper_was_stopped(void **state)
{
	assert_free_after_death(true);
}

static void a_helper_that_is_missing_is_named(void **state)
{
	struct bench bench;
	tfc_error error = TFC_ERROR_INIT;
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	tfc_ctx *ctx;
	begin(&bench);
	options.helper_dir = bench.dir;
	assert_int_equal(tfc_ctx_new(&options, NULL, &ctx), TFC_OK);
	struct tfc__store *store;
	assert_int_equal(tfc__store_open_local(ctx, bench.path, &error, &store), TFC_ENOENT);
	assert_non_null(strstr(error.text, "tfc-store"));
	tfc_ctx_free(ctx);
	end(&bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signals_that_end_a_node_do_not_end_the_helper),
		cmocka_unit_test(a_killed_helper_is_replaced),
		cmocka_unit_test(a_hung_disk_stops_only_the_responses),
		cmocka_unit_test(a_store_on_a_hung_disk_can_be_closed),
		cmocka_unit_test(a_dead_hosts_store_is_free_at_once),
		cmocka_unit_test(a_dead_hosts_store_is_free_although_its_helper_was_stopped),
		cmocka_unit_test(a_helper_that_is_missing_is_named),
	};
	return cmocka_run_group_tests_name("store_helper", tests, NULL, NULL);
}
