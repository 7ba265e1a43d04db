#include "node_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "folder.h"
#include "leaks.h"
#include "proc_run.h"
#include "served.h"

#define PATIENCE (30 * TFC__SECOND)

void node_keep_log(void *user, const tfc_log_entry *entry)
{
	struct node_run *run = user;
	size_t len = strlen(run->log);
	snprintf(run->log + len, sizeof(run->log) - len, "%s\n", entry->text);
	if (entry->level > TFC_LOG_WARNING)
		return;
	print_message("%s: %s: %s\n", entry->component, entry->subject, entry->text);
}

bool node_run_is_remote(void)
{
	const char *kind = getenv("TFC_TEST_GATEWAY");
	return kind && strcmp(kind, "remote") == 0;
}

static void open_node(struct node_run *run, const tfc_node_options *options)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_ctx_options ctx = TFC_CTX_OPTIONS_INIT;
	tfc_node_options node = TFC_NODE_OPTIONS_INIT;
	*run = (struct node_run){.fds = folder_count_fds()};
	ctx.helper_dir = getenv("TFC_HELPER_DIR");
	ctx.log = node_keep_log;
	ctx.log_user = run;
	ctx.log_level = TFC_LOG_INFO;
	assert_int_equal(tfc_ctx_new(&ctx, &error, &run->ctx), 0);
	assert_int_equal(tfc__make_private_dir(leaks_temp_dir(), "tfc-node-", "test", &error,
					       &run->dir),
			 0);
	if (options)
		node = *options;
	node.temp_dir = run->dir;
	if (tfc_node_open(run->ctx, &node, &run->node) < 0)
		fail_msg("%s", tfc_ctx_error(run->ctx)->text);
}

static void open_served(struct node_run *run, const struct tfc__gateway_service_options *options)
{
	tfc_gateway_options gateway = TFC_GATEWAY_OPTIONS_INIT;
	char address[256];
	snprintf(address, sizeof(address), "unix:%s/s", run->dir);
	run->served = served_begin(run->ctx, run->node, address, NULL, options);
	gateway.address = address;
	gateway.temp_dir = run->dir;
	assert_int_equal(tfc_gateway_open(run->ctx, &gateway, &run->gateway), 0);
}

void node_run_begin(struct node_run *run, const tfc_node_options *options)
{
	tfc_gateway_options gateway = TFC_GATEWAY_OPTIONS_INIT;
	open_node(run, options);
	gateway.node = run->node;
	if (node_run_is_remote())
		open_served(run, NULL);
	else
		assert_int_equal(tfc_gateway_open(run->ctx, &gateway, &run->gateway), 0);
}

void node_run_begin_served(struct node_run *run, const struct tfc__gateway_service_options *options)
{
	open_node(run, NULL);
	open_served(run, options);
}

void node_run_close(struct node_run *run)
{
	tfc_gateway_close(run->gateway);
	served_end(run->served);
	tfc_node_close(run->node);
	run->served = NULL;
	run->gateway = NULL;
	run->node = NULL;
}

void node_run_end(struct node_run *run)
{
	node_run_close(run);
	tfc_ctx_free(run->ctx);
	assert_int_equal(folder_count(run->dir, "tfc-"), 0);
	assert_int_equal(tfc__remove_tree(run->dir), 0);
	free(run->dir);
	assert_int_equal(folder_count_fds(), run->fds);
	assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
	assert_int_equal(errno, ECHILD);
}

char *node_json(const char *format, ...)
{
	char *text;
	va_list args;
	va_start(args, format);
	int len = vasprintf(&text, format, args);
	va_end(args);
	assert_true(len >= 0);
	for (char *at = text; *at; at++)
		if (*at == '\'')
			*at = '"';
	return text;
}

char *node_script(uint32_t count, const char *script)
{
	return node_json("{'framework':'none','argv':['/bin/sh','-c','%s'],"
			 "'restart':{'backoff_s':[0,0]},'roles':{'worker':{'count':%u}}}",
			 script, count);
}

const char *node_task_program(void)
{
	return proc_task_program();
}

/* ---- waiting */

void node_await(struct node_run *run, node_condition is_met, void *user, const char *what)
{
	uint64_t deadline = tfc__now() + PATIENCE;
	while (!is_met(user)) {
		uint64_t now = tfc__now();
		if (now >= deadline)
			fail_msg("waited in vain for %s", what);
		int code = tfc_ctx_run(run->ctx, (int)((deadline - now) / TFC__MS) + 1);
		if (code < 0)
			fail_msg("%s", tfc_ctx_error(run->ctx)->text);
	}
}

/* ---- requests */

void node_answer(void *user, const tfc_reply *reply)
{
	struct answer *answer = user;
	answer->count++;
	answer->code = reply->code;
	free(answer->text);
	answer->text = strndup(reply->text, reply->len);
	assert_int_equal(strlen(reply->text), reply->len);
	snprintf(answer->error, sizeof(answer->error), "%s",
		 reply->code < 0 ? reply->error->text : "");
}

void node_answer_clear(struct answer *answer)
{
	free(answer->text);
	*answer = (struct answer){0};
}

static bool is_answered(void *user)
{
	return ((struct answer *)user)->count > 0;
}

void node_await_answer(struct node_run *run, struct answer *answer)
{
	node_await(run, is_answered, answer, "an answer");
	assert_int_equal(answer->count, 1);
}

void node_submit_for(struct node_run *run, const char *json, const tfc_submit_options *options,
		     struct answer *answer)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_job *job;
	if (tfc_job_parse(json, strlen(json), NULL, &error, &job) < 0)
		fail_msg("%s: %s", json, error.text);
	int code = tfc_gateway_submit(run->gateway, job, options, node_answer, answer, NULL);
	tfc_job_free(job);
	assert_int_equal(code, 0);
	assert_int_equal(answer->count, 0);
	node_await_answer(run, answer);
}

char *node_submit(struct node_run *run, const char *json)
{
	struct answer answer = {0};
	node_submit_for(run, json, NULL, &answer);
	if (answer.code < 0)
		fail_msg("%s", answer.error);
	assert_int_equal(strspn(answer.text, "0123456789abcdef"), 16);
	return answer.text;
}

void node_stop(struct node_run *run, const char *job, bool is_kill)
{
	struct answer answer = {0};
	tfc_stop_options options = TFC_STOP_OPTIONS_INIT;
	options.is_kill = is_kill;
	assert_int_equal(tfc_gateway_stop(run->gateway, job, &options, node_answer, &answer, NULL),
			 0);
	node_await_answer(run, &answer);
	if (answer.code < 0 && answer.code != TFC_ESTATE)
		fail_msg("%s", answer.error);
	node_answer_clear(&answer);
}

int node_forget(struct node_run *run, const char *job)
{
	int code = TFC_EAGAIN;
	while (code == TFC_EAGAIN) {
		struct answer answer = {0};
		assert_int_equal(tfc_gateway_forget(run->gateway, job, NULL, node_answer, &answer,
						    NULL),
				 0);
		node_await_answer(run, &answer);
		code = answer.code;
		node_answer_clear(&answer);
	}
	return code;
}

char *node_describe(struct node_run *run, const char *job)
{
	struct answer answer = {0};
	assert_int_equal(tfc_gateway_describe(run->gateway, job, NULL, node_answer, &answer, NULL),
			 0);
	node_await_answer(run, &answer);
	if (answer.code < 0)
		fail_msg("%s", answer.error);
	return answer.text;
}

/* ---- events */

static char *join(const char *const *lines)
{
	struct tfc__buf text = {0};
	for (; lines && *lines; lines++) {
		tfc__buf_add_str(&text, *lines);
		tfc__buf_add_char(&text, '\n');
	}
	return tfc__buf_steal(&text);
}

static void collect(void *user, const tfc_event *event)
{
	struct follower *follower = user;
	assert_false(follower->is_ended);
	assert_int_equal(event->size, sizeof(*event));
	if (*follower->job)
		assert_string_equal(event->job, follower->job);
	snprintf(follower->job, sizeof(follower->job), "%s", event->job);
	follower->is_ended = event->kind == TFC_EVENT_END;
	follower->output += event->kind == TFC_EVENT_OUTPUT ? event->data_len : 0;
	if (follower->is_output_dropped && event->kind == TFC_EVENT_OUTPUT)
		goto call;
	if ((follower->count & (follower->count - 1)) == 0)
		follower->events = realloc(follower->events,
					   (follower->count ? 2 * follower->count : 1) *
						   sizeof(*follower->events));
	struct seen_event *seen = &follower->events[follower->count++];
	*seen = (struct seen_event){.event = *event};
	if (*event->task_type)
		snprintf(seen->task, sizeof(seen->task), "%s/%u", event->task_type,
			 event->task_index);
	seen->text = strdup(event->text);
	if (event->kind == TFC_EVENT_OUTPUT || event->kind == TFC_EVENT_REPORT) {
		seen->data = malloc(event->data_len + 1);
		memcpy(seen->data, event->data, event->data_len);
		seen->data[event->data_len] = 0;
	}
	seen->tail = join(event->log_tail);
	snprintf(seen->cursor, sizeof(seen->cursor), "%s", event->cursor);
	snprintf(seen->address, sizeof(seen->address), "%s", event->address);
	snprintf(seen->node, sizeof(seen->node), "%s", event->node);
	snprintf(seen->name, sizeof(seen->name), "%s", event->name);
	snprintf(seen->host_tag, sizeof(seen->host_tag), "%.*s", (int)event->host_tag_len,
		 (const char *)event->host_tag);
call:
	if (follower->on_event)
		follower->on_event(follower, event);
}

void node_follow(struct node_run *run, const char *job, const tfc_subscribe_options *options,
		 struct follower *follower)
{
	size_t before = follower->count;
	if (tfc_gateway_subscribe(run->gateway, job, options, collect, follower, &follower->sub) <
	    0)
		fail_msg("%s", tfc_ctx_error(run->ctx)->text);
	assert_int_equal(follower->count, before);
}

void node_start(struct node_run *run, const char *json, struct follower *follower)
{
	char *id = node_submit(run, json);
	snprintf(follower->job, sizeof(follower->job), "%s", id);
	node_follow(run, id, NULL, follower);
	free(id);
}

void node_follow_end(struct follower *follower)
{
	tfc_sub_close(follower->sub);
	for (size_t i = 0; i < follower->count; i++) {
		free(follower->events[i].text);
		free(follower->events[i].data);
		free(follower->events[i].tail);
	}
	free(follower->events);
	*follower = (struct follower){0};
}

static bool matches(const struct seen_event *seen, uint32_t kind, const char *task, uint32_t state,
		    uint32_t attempt)
{
	return seen->event.kind == kind && (!task || strcmp(seen->task, task) == 0) &&
	       (!state || seen->event.task_state == state) &&
	       (!attempt || seen->event.attempt == attempt);
}

const struct seen_event *node_find(const struct follower *follower, uint32_t kind, const char *task,
				   uint32_t state, uint32_t attempt)
{
	for (size_t i = 0; i < follower->count; i++)
		if (matches(&follower->events[i], kind, task, state, attempt))
			return &follower->events[i];
	return NULL;
}

struct sought {
	const struct follower *follower;
	const char *task;
	uint32_t kind;
	uint32_t state;
	uint32_t attempt;
};

static bool is_found(void *user)
{
	const struct sought *sought = user;
	return sought->follower->is_ended || node_find(sought->follower, sought->kind, sought->task,
						       sought->state, sought->attempt);
}

const struct seen_event *node_await_task(struct node_run *run, struct follower *follower,
					 const char *task, uint32_t state, uint32_t attempt)
{
	struct sought sought = {follower, task, TFC_EVENT_TASK, state, attempt};
	node_await(run, is_found, &sought, tfc_task_state_name(state));
	const struct seen_event *seen = node_find(follower, TFC_EVENT_TASK, task, state, attempt);
	if (!seen)
		fail_msg("the job ended before %s was %s: %s", task, tfc_task_state_name(state),
			 follower->events[follower->count - 1].text);
	return seen;
}

static bool is_ended(void *user)
{
	return ((struct follower *)user)->is_ended;
}

const struct seen_event *node_await_end(struct node_run *run, struct follower *follower)
{
	node_await(run, is_ended, follower, "the job's end");
	return node_find(follower, TFC_EVENT_END, NULL, 0, 0);
}

const struct seen_event *node_run_job(struct node_run *run, const char *json,
				      struct follower *follower)
{
	node_start(run, json, follower);
	return node_await_end(run, follower);
}

static char *collected_lines(const struct follower *follower, uint32_t kind, const char *task,
			     uint32_t stream)
{
	struct tfc__buf text = {0};
	for (size_t i = 0; i < follower->count; i++) {
		const struct seen_event *seen = &follower->events[i];
		if (!matches(seen, kind, task, 0, 0) || (stream && seen->event.stream != stream))
			continue;
		tfc__buf_add(&text, seen->data, seen->event.data_len);
		if (!seen->event.is_partial)
			tfc__buf_add_char(&text, '\n');
	}
	return tfc__buf_steal(&text);
}

char *node_output(const struct follower *follower, const char *task, uint32_t stream)
{
	return collected_lines(follower, TFC_EVENT_OUTPUT, task, stream);
}

char *node_reports(const struct follower *follower, const char *task)
{
	return collected_lines(follower, TFC_EVENT_REPORT, task, 0);
}

/* Not inside the callback: the connection is the server's. */
static void cut_now(void *user)
{
	struct node_cutter *cutter = user;
	cutter->cuts += served_cut(cutter->run->served) > 0;
}

void node_cutter_on_event(struct node_cutter *cutter, const struct follower *follower)
{
	if (follower->count < cutter->next)
		return;
	cutter->next = follower->count + 1 + (unsigned)rand_r(&cutter->seed) % cutter->most;
	assert_int_equal(tfc_ctx_post(cutter->run->ctx, cut_now, cutter), 0);
}

void node_cut(struct follower *follower, const tfc_event *event)
{
	node_cutter_on_event(follower->user, follower);
}
