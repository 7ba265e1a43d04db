/*
 * node: what another node sends as the name of a job, log or bundle makes, reads and removes
 * nothing unless it is such a name. Each method that takes one is called with paths.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent_pair.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/names.h"
#include "wire/msg.h"

#define INSTANCE 77
#define ID "0123456789abcdef"
#define KNOWN "0123456789abcde0"

static const char *const paths[] = {
	"",
	".",
	"..",
	"../../x",
	"../victim",
	"/tmp",
	"x/y",
	"../0123456789abc", /* as long as an id */
	"0123456789abcde",
	"0123456789abcdef0",
	"0123456789ABCDEF",
	ID "/",
	ID "/..",
	".123456789abcdef",
	"0123456789abcde\n",
};
#define PATHS (sizeof(paths) / sizeof(*paths))

/* ---- another maintainer, over the same connection */

static void note_end(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	struct rpc_outcome *outcome = user;
	outcome->ends++;
	outcome->code = code;
	outcome->number = tfc__msg_get_u64(result, "stamp", 0);
	if (code < 0)
		outcome->error = *error;
}

static void note_item(void *user, const msgpack_object *item)
{
	((struct rpc_outcome *)user)->items++;
}

static void begin_call(struct agent_pair *pair, const char *method, struct tfc__buf *params,
		       struct rpc_outcome *outcome)
{
	const struct tfc__rpc_options options = {.method = method,
						 .params = params,
						 .credit = 4,
						 .item = note_item,
						 .end = note_end,
						 .user = outcome};
	tfc_error error = TFC_ERROR_INIT;
	*outcome = (struct rpc_outcome){0};
	assert_int_equal(tfc__rpc_call(pair->rpc.ends[0].rpc, &options, &error, &outcome->call),
			 TFC_OK);
	tfc__buf_fini(params);
}

static struct rpc_outcome call(struct agent_pair *pair, const char *method, struct tfc__buf *params)
{
	struct rpc_outcome outcome;
	begin_call(pair, method, params, &outcome);
	for (uint64_t end = tfc__now() + 30 * TFC__SECOND; !outcome.ends;) {
		assert_true(tfc__now() < end);
		assert_true(tfc_ctx_run(pair->ctx, 1000) >= 0);
	}
	return outcome;
}

static void begin_session(struct agent_pair *pair, struct rpc_outcome *stay)
{
	struct tfc__buf params = {0};
	tfc__msg_map(&params, 1);
	tfc__msg_put_u64(&params, "instance", INSTANCE);
	uint64_t stamp = call(pair, "agent.stamp", &params).number;
	tfc__msg_map(&params, 4);
	tfc__msg_put_u64(&params, "instance", INSTANCE);
	tfc__msg_put_str(&params, "name", "stranger");
	tfc__msg_put_u64(&params, "stamp", stamp);
	tfc__msg_put_u64(&params, "lease_ms", 60000);
	assert_int_equal(tfc__rpc_notify(pair->rpc.ends[0].rpc, "agent.renew", &params), TFC_OK);
	tfc__buf_fini(&params);
	tfc__msg_map(&params, 1);
	tfc__msg_put_u64(&params, "instance", INSTANCE);
	begin_call(pair, "agent.stay", &params, stay);
}

/* ---- what is on the disk */

static char *list_files(const struct agent_pair *pair)
{
	struct tfc__buf text = {0};
	char command[512], line[512];
	snprintf(command, sizeof(command), "find %s | sort", pair->dir);
	FILE *find = popen(command, "r");
	assert_non_null(find);
	while (fgets(line, sizeof(line), find))
		tfc__buf_add_str(&text, line);
	assert_int_equal(pclose(find), 0);
	return tfc__buf_steal(&text);
}

/* Beside the logs, and below them the log of a job. */
static void make_files(const struct agent_pair *pair)
{
	static const char *const dirs[] = {"victim", "logs", ("logs/" KNOWN)};
	for (size_t i = 0; i < 3; i++) {
		char path[512];
		snprintf(path, sizeof(path), "%s/%s", pair->dir, dirs[i]);
		assert_true(mkdir(path, 0700) == 0 || access(path, F_OK) == 0);
		snprintf(path, sizeof(path), "%s/%s/worker-0.0000000000000000.log", pair->dir,
			 dirs[i]);
		int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		assert_true(fd >= 0);
		assert_int_equal(tfc__write_all(fd, "#", 1), 0);
		close(fd);
	}
}

struct fixture {
	struct agent_pair pair;
	struct rpc_outcome stay;
	char *files;
};

static void begin(struct fixture *f)
{
	agent_pair_up(&f->pair, 60000);
	make_files(&f->pair);
	begin_session(&f->pair, &f->stay);
	f->files = list_files(&f->pair);
}

static void end(struct fixture *f)
{
	char *files = list_files(&f->pair);
	assert_string_equal(files, f->files);
	assert_int_equal(f->stay.ends, 0);
	free(files);
	free(f->files);
	agent_pair_end(&f->pair);
}

/* ---- the methods */

static struct rpc_outcome open_job(struct fixture *f, const char *id, const char *role,
				   const char *hash)
{
	struct tfc__buf params = {0};
	char json[256];
	snprintf(json, sizeof(json),
		 "{\"framework\":\"none\",\"argv\":[\"true\"],%s\"roles\":{\"%s\":{}}}",
		 hash ? "\"bundle\":\"x.zip\"," : "", role);
	tfc__msg_map(&params, hash ? 6 : 5);
	tfc__msg_put_u64(&params, "instance", INSTANCE);
	tfc__msg_put_u64(&params, "handle", 5);
	tfc__msg_put_str(&params, "id", id);
	tfc__msg_put_u64(&params, "epoch", 1);
	tfc__msg_put_str(&params, "job", json);
	if (hash) {
		tfc__msg_str(&params, "bundle");
		tfc__msg_map(&params, 2);
		tfc__msg_put_str(&params, "hash", hash);
		tfc__msg_put_u64(&params, "size", 5);
	}
	return call(&f->pair, "agent.open", &params);
}

/* Refused, and for that. */
static void assert_refused(struct rpc_outcome outcome, const char *words)
{
	assert_true(outcome.code == TFC_EINVAL || outcome.code == TFC_EPARSE);
	if (!strstr(outcome.error.text, words))
		fail_msg("\"%s\" does not say \"%s\"", outcome.error.text, words);
}

static void open_takes_no_path(void **state)
{
	struct fixture f;
	begin(&f);
	for (size_t i = 0; i < PATHS; i++) {
		bool has_newline = strchr(paths[i], '\n');
		assert_refused(open_job(&f, paths[i], "worker", NULL),
			       strlen(paths[i]) < TFC__JOB_ID_SIZE
				       ? "invalid job id"
				       : "id: must be text of at most 16 bytes");
		assert_refused(open_job(&f, ID, paths[i], NULL),
			       has_newline ? "unexpected newline" : "a role's name");
		assert_refused(open_job(&f, ID, "worker", paths[i]), "SHA-256");
	}
	assert_int_equal(tfc__agent_service_jobs(f.pair.service), 0);
	end(&f);
}

static void drop_takes_no_path(void **state)
{
	struct fixture f;
	begin(&f);
	for (size_t i = 0; i < PATHS; i++) {
		struct tfc__buf params = {0};
		tfc__msg_map(&params, 3);
		tfc__msg_put_u64(&params, "instance", INSTANCE);
		tfc__msg_put_u64(&params, "handle", 6);
		tfc__msg_put_str(&params, "id", paths[i]);
		assert_int_equal(call(&f.pair, "agent.drop", &params).code, TFC_EINVAL);
	}
	end(&f);
}

static struct rpc_outcome read_log(struct fixture *f, const char *id, const char *name)
{
	struct tfc__buf params = {0};
	tfc__msg_map(&params, 4);
	tfc__msg_put_str(&params, "id", id);
	tfc__msg_put_str(&params, "name", name);
	tfc__msg_put_u64(&params, "task", 0);
	tfc__msg_put_u64(&params, "position", 0);
	return call(&f->pair, "agent.log", &params);
}

static void log_takes_no_path(void **state)
{
	static const char *const names[] = {"",          ".",   "..", "../victim/worker-0",
					    "/worker-0", ".x-0"};
	struct fixture f;
	begin(&f);
	for (size_t i = 0; i < PATHS; i++)
		assert_int_equal(read_log(&f, paths[i], "worker-0").code, TFC_EINVAL);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		assert_int_equal(read_log(&f, KNOWN, names[i]).code, TFC_EINVAL);
	end(&f);
}

static void forget_takes_no_path(void **state)
{
	struct fixture f;
	struct tfc__buf params = {0};
	begin(&f);
	tfc__msg_map(&params, 1);
	tfc__msg_str(&params, "ids");
	tfc__msg_array(&params, PATHS + 1);
	for (size_t i = 0; i < PATHS; i++)
		tfc__msg_str(&params, paths[i]);
	tfc__msg_str(&params, KNOWN); /* behind the others, and that one is removed */
	assert_int_equal(tfc__rpc_notify(f.pair.rpc.ends[0].rpc, "agent.forget", &params), TFC_OK);
	tfc__buf_fini(&params);
	char dir[512];
	snprintf(dir, sizeof(dir), "%s/logs/" KNOWN, f.pair.dir);
	for (uint64_t end = tfc__now() + 30 * TFC__SECOND; access(dir, F_OK) == 0;) {
		assert_true(tfc__now() < end);
		assert_true(tfc_ctx_run(f.pair.ctx, 10) >= 0);
	}
	make_files(&f.pair); /* that one again */
	end(&f);
}

static void bundle_takes_no_path(void **state)
{
	struct fixture f;
	begin(&f);
	for (size_t i = 0; i < 2 * PATHS; i++) {
		struct tfc__buf params = {0};
		tfc__msg_map(&params, 4);
		tfc__msg_put_str(&params, "hash", paths[i / 2]);
		tfc__msg_put_u64(&params, "size", 5);
		tfc__msg_put_u64(&params, "at", 0);
		tfc__msg_put_bin(&params, "data", "12345", 5);
		assert_int_equal(
			call(&f.pair, i % 2 ? "bundle.offer" : "bundle.chunk", &params).code,
			TFC_EINVAL);
	}
	end(&f);
}

/* The referee can fail: what is a name is taken. */
static void names_are_taken(void **state)
{
	struct fixture f;
	begin(&f);
	assert_int_equal(open_job(&f, ID, "worker", NULL).code, TFC_OK);
	char *files = list_files(&f.pair);
	assert_string_not_equal(files, f.files);
	assert_int_equal(tfc__agent_service_jobs(f.pair.service), 1);
	free(files);
	free(f.files);
	agent_pair_end(&f.pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(open_takes_no_path),   cmocka_unit_test(drop_takes_no_path),
		cmocka_unit_test(log_takes_no_path),    cmocka_unit_test(forget_takes_no_path),
		cmocka_unit_test(bundle_takes_no_path), cmocka_unit_test(names_are_taken),
	};
	return cmocka_run_group_tests_name("node_agent_names", tests, NULL, NULL);
}
