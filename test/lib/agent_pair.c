#include "agent_pair.h"
#include "agent_order.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "leaks.h"
#include "proc_run.h"

#define PATIENCE (30 * TFC__SECOND)

/* ---- the two ends */

static void serve_agent(struct rpc_end *end, struct tfc__rpc_request *request, const char *method,
			const msgpack_object *params)
{
	struct agent_pair *pair = end->user;
	tfc__agent_service_serve(pair->service, request, method, params);
}

void agent_pair_connect(struct agent_pair *pair)
{
	assert_false(pair->is_connected);
	assert_int_equal(rpc_pair_open(&pair->rpc, pair->ctx), TFC_OK);
	pair->rpc.ends[1].serve = serve_agent;
	pair->rpc.ends[0].user = pair->rpc.ends[1].user = pair;
	pair->is_connected = true;
	tfc__remote_agent_up(pair->remote, pair->rpc.ends[0].rpc);
}

void agent_pair_cut(struct agent_pair *pair)
{
	if (!pair->is_connected)
		return;
	pair->is_connected = false;
	tfc__remote_agent_down(pair->remote);
	rpc_pair_close(&pair->rpc);
}

void agent_pair_hold(struct agent_pair *pair)
{
	rpc_end_hold(&pair->rpc.ends[0]);
	rpc_end_hold(&pair->rpc.ends[1]);
}

void agent_pair_release(struct agent_pair *pair)
{
	rpc_end_release(&pair->rpc.ends[0]);
	rpc_end_release(&pair->rpc.ends[1]);
}

static uint64_t instance = 1000;

static void open_remote(struct agent_pair *pair, uint32_t lease_ms)
{
	const struct tfc__remote_agent_options options = {.self = "here",
							  .node = "there",
							  .instance = instance,
							  .lease_ms = lease_ms,
							  .bundles = pair->bundles};
	assert_int_equal(tfc__remote_agent_open(pair->ctx, &options, &pair->remote), TFC_OK);
}

static bool has_no_address(void *user, const char *name, struct tfc__will_address *ret_address)
{
	return false;
}

static void open_service(struct agent_pair *pair)
{
	char *cache = tfc__path_join(pair->dir, "cached");
	const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
	struct tfc__agent_options options = {.name = "there",
					     .temp_dir = pair->dir,
					     .bundle_dir = cache,
					     .log_dir = pair->log_dir,
					     .env = env};
	assert_int_equal(tfc__agent_open(pair->ctx, &options, &pair->agent), TFC_OK);
	free(cache);
	const struct tfc__agent_service_options service = {.agent = pair->agent,
							   .identity = pair->identity,
							   .address_of = has_no_address};
	assert_int_equal(tfc__agent_service_open(pair->ctx, &service, &pair->service), TFC_OK);
}

void agent_pair_begin(struct agent_pair *pair, uint32_t lease_ms)
{
	instance++;
	tfc_error error = TFC_ERROR_INIT;
	*pair = (struct agent_pair){0};
	assert_int_equal(proc_ctx_new(&pair->ctx), 0);
	assert_int_equal(tfc__make_private_dir(leaks_temp_dir(), "tfc-pair-", "test", &error,
					       &pair->dir),
			 0);
	assert_non_null(pair->log_dir = tfc__path_join(pair->dir, "logs"));
	assert_int_equal(tfc__identity_open(NULL, &error, &pair->identity), 0);
	open_service(pair);
	char *bundles = tfc__path_join(pair->dir, "packed");
	assert_int_equal(tfc__bundles_open(pair->ctx, bundles, 1 << 30, &error, &pair->bundles), 0);
	free(bundles);
	open_remote(pair, lease_ms);
}

void agent_pair_forget_jobs(struct agent_pair *pair, uint32_t lease_ms)
{
	tfc__remote_agent_close(pair->remote);
	rpc_pair_close(&pair->rpc);
	pair->is_connected = false;
	open_remote(pair, lease_ms);
}

void agent_pair_forget(struct agent_pair *pair, uint32_t lease_ms)
{
	instance++;
	agent_pair_forget_jobs(pair, lease_ms);
}

void agent_pair_reboot(struct agent_pair *pair)
{
	agent_pair_cut(pair);
	tfc__agent_service_close(pair->service);
	tfc__agent_close(pair->agent);
	open_service(pair);
}

void agent_pair_up(struct agent_pair *pair, uint32_t lease_ms)
{
	agent_pair_begin(pair, lease_ms);
	agent_pair_connect(pair);
}

void agent_pair_end(struct agent_pair *pair)
{
	agent_pair_cut(pair);
	tfc__remote_agent_close(pair->remote);
	tfc__agent_service_close(pair->service);
	tfc__agent_close(pair->agent);
	tfc__bundles_close(pair->bundles);
	tfc__identity_free(pair->identity);
	tfc_ctx_free(pair->ctx);
	assert_int_equal(tfc__remove_tree(pair->dir), 0);
	free(pair->log_dir);
	free(pair->dir);
}

/* ---- a job */

static void receive(void *user, const struct tfc__task_event *event)
{
	struct paired_job *job = user;
	if (job->count == RECEIVED_MAX)
		fail_msg("%d events, the last of kind %d, task %u, attempt %u: %s", RECEIVED_MAX,
			 (int)event->kind, event->task, event->attempt,
			 event->text ? event->text : "");
	struct received_event *received = &job->received[job->count++];
	*received = (struct received_event){.kind = event->kind,
					    .task = event->task,
					    .attempt = event->attempt,
					    .number = event->number,
					    .log_end = event->end.log_end};
	snprintf(received->text, sizeof(received->text), "%s", event->text ? event->text : "");
	snprintf(received->address, sizeof(received->address), "%s",
		 event->address ? event->address : "");
	received->pid = event->pid;
	received->reason = event->end.reason;
	received->status = event->end.status;
	received->time_ns = event->end.time_ns;
	if (event->states)
		memcpy(received->states, event->states, tfc__job_task_count(job->job));
}

static void paired_open_info(struct agent_pair *pair, struct paired_job *job, const char *json,
			     struct tfc__agent_job_info info)
{
	tfc_error error = TFC_ERROR_INIT;
	char *text = strdup(json);
	for (char *at = text; (at = strchr(at, '\'')); at++)
		*at = '"';
	memset(job, 0, sizeof(*job));
	job->pair = pair;
	job->ops = &tfc__remote_agent_ops;
	if (tfc_job_parse(text, strlen(text), "job", &error, &job->job) < 0)
		fail_msg("%s", error.text);
	free(text);
	info.job = job->job;
	assert_int_equal(job->ops->job_open(pair->remote, &info, receive, job, &job->handle,
					    &error),
			 0);
}

void paired_open(struct agent_pair *pair, struct paired_job *job, const char *id, uint64_t epoch,
		 const char *json)
{
	paired_open_info(pair, job, json, (struct tfc__agent_job_info){.id = id, .epoch = epoch});
}

void paired_resume(struct agent_pair *pair, struct paired_job *job, const char *id, uint64_t epoch,
		   const char *json, const struct tfc__will_key *will)
{
	paired_open_info(pair, job, json,
			 (struct tfc__agent_job_info){
				 .id = id, .epoch = epoch, .has_inherited = true, .will = *will});
}

void paired_close(struct paired_job *job)
{
	job->ops->job_close(job->handle);
	tfc_job_free(job->job);
}

const struct received_event *paired_find(const struct paired_job *job,
					 enum tfc__task_event_kind kind, uint32_t task, uint32_t n)
{
	for (uint32_t i = 0; i < job->count; i++)
		if (job->received[i].kind == kind && job->received[i].task == task && --n == 0)
			return &job->received[i];
	return NULL;
}

uint32_t paired_count(const struct paired_job *job, enum tfc__task_event_kind kind, uint32_t task)
{
	uint32_t count = 0;
	while (paired_find(job, kind, task, count + 1))
		count++;
	return count;
}

const struct received_event *paired_await(struct paired_job *job, enum tfc__task_event_kind kind,
					  uint32_t task, uint32_t n)
{
	const struct received_event *received;
	for (uint64_t end = tfc__now() + PATIENCE; !(received = paired_find(job, kind, task, n));) {
		if (tfc__now() >= end)
			fail_msg("no event %d of task %u", (int)kind, task);
		assert_true(tfc_ctx_run(job->pair->ctx, 100) >= 0);
	}
	return received;
}

void paired_start(struct paired_job *job, uint32_t count)
{
	tfc_spec *spec;
	assert_int_equal(tfc_spec_new(&spec), 0);
	for (uint32_t i = 0; i < count; i++)
		agent_hold(job->ops, job->handle, i, i + 1);
	for (uint32_t i = 0; i < count; i++) {
		const struct received_event *held = paired_await(job, TFC__AGENT_HELD, i, 1);
		assert_int_equal(held->number, i + 1);
		tfc_error error = TFC_ERROR_INIT;
		if (tfc_spec_add(spec, "worker", i, held->address, &error) < 0)
			fail_msg("%s", error.text);
	}
	for (uint32_t i = 0; i < count; i++)
		agent_launch(job->ops, job->handle, i, spec);
	tfc_spec_free(spec);
}

/* ---- in tests */

static char *job_json(const char *verbs)
{
	char *json;
	assert_true(asprintf(&json,
			     "{'abort_grace_s': 0.1, 'argv': ['%s', %s], 'roles': {'worker': "
			     "{'count': 2, 'ready': "
			     "'started'}}}",
			     proc_task_program(), verbs) > 0);
	return json;
}

void paired_open_task(struct agent_pair *pair, struct paired_job *job, uint64_t epoch,
		      const char *verbs)
{
	char *json = job_json(verbs);
	paired_open(pair, job, "0123456789abcdef", epoch, json);
	free(json);
}

void agent_pair_await_no_jobs(struct agent_pair *pair)
{
	for (uint64_t end = tfc__now() + PATIENCE; tfc__agent_service_jobs(pair->service);) {
		assert_true(tfc__now() < end);
		assert_true(tfc_ctx_run(pair->ctx, 100) >= 0);
	}
}

void agent_pair_run_for(struct agent_pair *pair, uint32_t ms)
{
	for (uint64_t end = tfc__now() + ms * TFC__MS; tfc__now() < end;)
		assert_true(tfc_ctx_run(pair->ctx, 5) >= 0);
}
