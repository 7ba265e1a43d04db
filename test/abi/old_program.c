/*
 * A program of somebody who built it with the headers kept in test/abi/MAJOR.MINOR/include and
 * never again. It runs against the library of today, whose structs may be longer: what it owns lies
 * before marked bytes that nobody may write to.
 *
 *   old_program HELPER_DIR
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tfcluster/tfcluster.h>
#include <unistd.h>

#undef NDEBUG
#define GUARDED(type, name, initializer)   \
	struct {                           \
		type value;                \
		unsigned char behind[128]; \
	} name = {.value = initializer};   \
	memset(name.behind, MARK, sizeof(name.behind))
#define MARK 0x5a

static void check(int code, const char *text)
{
	if (code >= 0)
		return;
	fprintf(stderr, "%s: %s\n", tfc_err_name(code), text);
	exit(1);
}

static void check_behind(const unsigned char *behind, const char *what)
{
	for (size_t i = 0; i < 128; i++)
		if (behind[i] != MARK) {
			fprintf(stderr, "the library wrote behind %s\n", what);
			exit(1);
		}
}

/* ---- a process with a port and a log */

struct watch {
	int ends;
	uint32_t reason;
	int32_t status;
	uint64_t log_end;
};

static void on_process(void *user, const tfc_process_event *event)
{
	struct watch *watch = user;
	if (event->kind != TFC_PROCESS_EXITED)
		return;
	watch->ends++;
	watch->reason = event->reason;
	watch->status = event->status;
	watch->log_end = event->log_end;
}

static void read_log(const char *dir, uint64_t end)
{
	GUARDED(tfc_log_record, record, TFC_LOG_RECORD_INIT);
	GUARDED(tfc_error, error, TFC_ERROR_INIT);
	tfc_log *log;
	check(tfc_log_open(dir, "old", 0, &error.value, &log), error.value.text);
	assert(tfc_log_next(log, &record.value, &error.value) == 1);
	assert(record.value.len == 3 && memcmp(record.value.data, "old", 3) == 0);
	assert(record.value.size == sizeof(tfc_log_record));
	assert(tfc_log_next(log, &record.value, &error.value) == 0);
	assert(tfc_log_position(log) == end);
	tfc_log_close(log);
	check(tfc_log_open("/no such directory", "x", 0, &error.value, &log) == TFC_ENOENT ? 0 : -1,
	      "a missing directory was opened");
	check_behind(record.behind, "a tfc_log_record");
	check_behind(error.behind, "a tfc_error");
}

static void look_at_port(tfc_port_hold *hold)
{
	GUARDED(tfc_port_listener, listener, TFC_PORT_LISTENER_INIT);
	check(tfc_port_hold_listener(hold, 0, &listener.value), "tfc_port_hold_listener");
	assert(listener.value.count == 0 && listener.value.size == sizeof(tfc_port_listener));
	check_behind(listener.behind, "a tfc_port_listener");
}

static void run_process(tfc_ctx *ctx, const char *dir)
{
	const char *argv[] = {"/bin/sh", "-c", "printf old; exit 3", NULL};
	GUARDED(tfc_process_options, options, TFC_PROCESS_OPTIONS_INIT);
	GUARDED(tfc_port_pool_options, range, TFC_PORT_POOL_OPTIONS_INIT);
	struct watch watch = {0};
	tfc_port_pool *pool;
	tfc_process *process;
	check(tfc_port_pool_open(ctx, &range.value, &pool), tfc_ctx_error(ctx)->text);
	options.value.argv = argv;
	options.value.log_dir = dir;
	options.value.log_name = "old";
	check(tfc_port_acquire(pool, 0, &options.value.hold), tfc_ctx_error(ctx)->text);
	look_at_port(options.value.hold);
	check(tfc_process_spawn(ctx, &options.value, on_process, &watch, &process),
	      tfc_ctx_error(ctx)->text);
	while (!watch.ends)
		check(tfc_ctx_run(ctx, -1), tfc_ctx_error(ctx)->text);
	assert(watch.reason == TFC_EXIT_CODE && watch.status == 3);
	read_log(dir, watch.log_end);
	tfc_process_close(process);
	tfc_port_hold_release(options.value.hold);
	tfc_port_pool_close(pool);
	check_behind(options.behind, "a tfc_process_options");
	check_behind(range.behind, "a tfc_port_pool_options");
}

/* ---- a job */

struct follow {
	tfc_gateway *gateway;
	tfc_sub *sub;
	int lines;
	int status; /* -1: not over */
};

static void on_event(void *user, const tfc_event *event)
{
	struct follow *follow = user;
	assert(event->size >= sizeof(tfc_event));
	assert(event->host_tag_len == 4 && memcmp(event->host_tag, "tag", 4) == 0);
	if (event->kind == TFC_EVENT_OUTPUT)
		follow->lines += event->data_len == 5 && memcmp(event->data, "hello", 5) == 0;
	if (event->kind != TFC_EVENT_END)
		return;
	tfc_event copy = *event; /* as long as it was then */
	char *json;
	copy.size = sizeof(copy);
	follow->status = tfc_event_exit_status(&copy);
	check(tfc_event_json(&copy, &json), "tfc_event_json");
	assert(strstr(json, "\"event\":\"end\"") && strstr(json, "\"state\":\"succeeded\""));
	tfc_free(json);
}

static void on_submitted(void *user, const tfc_reply *reply)
{
	struct follow *follow = user;
	GUARDED(tfc_subscribe_options, options, TFC_SUBSCRIBE_OPTIONS_INIT);
	check(reply->code, reply->code < 0 ? reply->error->text : "");
	check(tfc_gateway_subscribe(follow->gateway, reply->text, &options.value, on_event, follow,
				    &follow->sub),
	      "tfc_gateway_subscribe");
}

static int set_variable(void *user, const tfc_task_info *task, tfc_env *env)
{
	assert(task->size >= sizeof(tfc_task_info) && strcmp(task->task_type, "worker") == 0);
	return tfc_env_set(env, "WORD", "hello");
}

static void run_job(tfc_ctx *ctx)
{
	static const char text[] = "{\"argv\": [\"/bin/sh\", \"-c\", \"echo $WORD\"],"
				   " \"roles\": {\"worker\": {\"count\": 2}}}";
	GUARDED(tfc_node_options, node, TFC_NODE_OPTIONS_INIT);
	GUARDED(tfc_node_hooks, hooks, TFC_NODE_HOOKS_INIT);
	GUARDED(tfc_gateway_options, gateway, TFC_GATEWAY_OPTIONS_INIT);
	GUARDED(tfc_submit_options, submit, TFC_SUBMIT_OPTIONS_INIT);
	GUARDED(tfc_error, error, TFC_ERROR_INIT);
	struct follow follow = {.status = -1};
	tfc_job *job;
	hooks.value.before_launch = set_variable;
	node.value.hooks = &hooks.value;
	submit.value.host_tag = "tag";
	submit.value.host_tag_len = 4;
	check(tfc_job_parse(text, strlen(text), "old.json", &error.value, &job), error.value.text);
	check(tfc_node_open(ctx, &node.value, &gateway.value.node), tfc_ctx_error(ctx)->text);
	check(tfc_gateway_open(ctx, &gateway.value, &follow.gateway), tfc_ctx_error(ctx)->text);
	check(tfc_gateway_submit(follow.gateway, job, &submit.value, on_submitted, &follow, NULL),
	      tfc_ctx_error(ctx)->text);
	while (follow.status < 0)
		check(tfc_ctx_run(ctx, -1), tfc_ctx_error(ctx)->text);
	assert(follow.status == 0 && follow.lines == 2);
	tfc_job_free(job);
	tfc_sub_close(follow.sub);
	tfc_gateway_close(follow.gateway);
	tfc_node_close(gateway.value.node);
	check_behind(node.behind, "a tfc_node_options");
	check_behind(hooks.behind, "a tfc_node_hooks");
	check_behind(gateway.behind, "a tfc_gateway_options");
	check_behind(submit.behind, "a tfc_submit_options");
	check_behind(error.behind, "a tfc_error");
}

int main(int argc, char **argv)
{
	char dir[] = "/tmp/old-program-XXXXXX", path[64];
	GUARDED(tfc_ctx_options, options, TFC_CTX_OPTIONS_INIT);
	GUARDED(tfc_error, error, TFC_ERROR_INIT);
	tfc_ctx *ctx;
	assert(argc == 2 && mkdtemp(dir));
	assert(tfc_version() >= TFC_VERSION_NUMBER);
	options.value.helper_dir = argv[1];
	check(tfc_ctx_new(&options.value, &error.value, &ctx), error.value.text);
	run_process(ctx, dir);
	run_job(ctx);
	tfc_ctx_free(ctx);
	check_behind(options.behind, "a tfc_ctx_options");
	check_behind(error.behind, "a tfc_error");
	snprintf(path, sizeof(path), "%s/old.%016x.log", dir, 0);
	assert(unlink(path) == 0 && rmdir(dir) == 0);
	printf("built with %d.%d, ran with %#x\n", TFC_VERSION_MAJOR, TFC_VERSION_MINOR,
	       tfc_version());
	return 0;
}
