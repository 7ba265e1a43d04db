#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "node/internal.h"

#define OFFER_RETRY TFC__SECOND

static void receive_opened(struct remote_job *job, const struct tfc__call_opened *opened)
{
	if (strcmp(opened->state, "busy") == 0) {
		tfc__timer_set(&job->retry, tfc__now() + REMOTE_RETRY);
	} else if (strcmp(opened->state, "fenced") == 0) {
		tfc__remote_lose(job, TFC__AGENT_FENCED, "another maintainer has taken over");
	} else if (strcmp(opened->state, "open") != 0) {
		tfc__remote_lose(job, TFC__AGENT_LOST, "the node has ended its tasks of the job");
	} else if (tfc__agent_link_resume(&job->stream, opened->received) < 0) {
		tfc__remote_give_up(job, "the node has lost the job's orders");
	} else {
		job->boot = job->agent->boot;
		tfc__remote_update_will(job);
		job->is_up = true;
		tfc__remote_set_unreachable(job, false);
		tfc__remote_logs_retry(job, ALL_TASKS);
		tfc__remote_flush(job);
	}
}

static void on_open_end(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	struct remote_job *job = user;
	struct tfc__call_opened opened;
	tfc_error why = error ? *error : (tfc_error)TFC_ERROR_INIT;
	job->call = NULL;
	if (code == TFC_OK)
		code = tfc__fields_read(NULL, &tfc__agent_opened_fields, result, &why, &opened);
	if (code == TFC_OK) {
		receive_opened(job, &opened);
	} else if (code == TFC_ELOST) {
		return; /* the connection was lost: retried over the next one */
	} else if (code == TFC_ESTATE || code == TFC_ETIMEDOUT || code == TFC_ENOMEM) {
		tfc__timer_set(&job->retry, tfc__now() + REMOTE_RETRY);
	} else {
		tfc__remote_lose(job, TFC__AGENT_LOST, why.text);
	}
}

/* ---- its bundle */

static void on_send_failed(void *user, const tfc_error *error)
{
	struct remote_job *job = user;
	job->sender = NULL;
	if (error->code == TFC_ELOST)
		return; /* the connection was lost: offered over the next one */
	tfc__log(job->agent->ctx, TFC_LOG_ERROR, "node", job->agent->node,
		 "cannot send a bundle: %s", error->text);
	if (!job->retry.at)
		tfc__timer_set(&job->retry, tfc__now() + OFFER_RETRY);
}

void tfc__remote_offer_bundle(struct remote_job *job)
{
	static const struct tfc__bundle_sender_ops ops = {.failed = on_send_failed};
	const struct tfc__remote_agent *agent = job->agent;
	tfc_error error = TFC_ERROR_INIT;
	if (!job->bundle || job->bundle->state != TFC__BUNDLE_READY || job->sender ||
	    job->state != REMOTE_OPEN || !tfc__remote_is_ready(agent))
		return;
	TFC__LIST_EACH (link, &agent->jobs) {
		const struct remote_job *other = tfc__container_of(link, struct remote_job, link);
		if (other->sender && strcmp(other->bundle->hash, job->bundle->hash) == 0)
			return;
	}
	if (tfc__bundle_send(job->bundle, agent->rpc, &ops, job, &error, &job->sender) < 0)
		on_send_failed(job, &error);
}

static struct tfc__agent_target remote_job_target(const struct remote_job *job)
{
	struct tfc__agent_target target = {
		.instance = job->agent->instance,
		.handle = job->handle,
	};
	snprintf(target.id, sizeof(target.id), "%s", job->id);
	return target;
}

static int write_open(const struct remote_job *job, struct tfc__buf *params)
{
	char *json = NULL;
	bool is_first = !job->boot;
	bool is_refused = tfc__job_has_secrets(job->info.job) &&
			  tfc__rpc_is_exposed(job->agent->rpc);
	struct tfc__bundle_offer offer;
	struct tfc__call_open open = {
		.target = remote_job_target(job),
		.epoch = job->epoch,
		.received = job->stream.received,
		.has_minimal_env = true,
	};
	if (is_first && tfc_job_json(job->info.job, is_refused ? 0 : TFC_JSON_SECRETS, &json) < 0)
		return TFC_ENOMEM;
	if (is_first) {
		open.job_json = json;
		open.job_json_len = strlen(json);
		open.has_minimal_env = job->info.has_minimal_env;
		open.host_tag = job->info.host_tag;
		open.host_tag_len = job->info.host_tag_len;
	}
	if (is_first && is_refused)
		open.refused = "secret_env: the connection between the nodes is not encrypted, so "
			       "others could read the values; set key_file on both nodes";
	if (is_first && job->bundle && job->bundle->state == TFC__BUNDLE_FAILED) {
		open.bundle_error = job->bundle->error.text;
	} else if (is_first && job->bundle) {
		memcpy(offer.hash, job->bundle->hash, sizeof(offer.hash));
		offer.size = job->bundle->size;
		open.bundle = &offer;
	}
	tfc__fields_write(params, &tfc__agent_open_fields, &open);
	tfc_free(json);
	return TFC_OK;
}

static void on_drop_end(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	struct remote_job *job = user;
	struct tfc__call_opened opened;
	job->call = NULL;
	if (code == TFC_OK)
		code = tfc__fields_read(NULL, &tfc__agent_opened_fields, result, NULL, &opened);
	if (code == TFC_OK && strcmp(opened.state, "unknown") == 0)
		tfc__remote_lose(job, TFC__AGENT_LOST, "the job's tasks there were given up");
	else if (code != TFC_ELOST)
		tfc__timer_set(&job->retry, tfc__now() + REMOTE_RETRY);
}

static void request_open_or_drop(struct remote_job *job)
{
	bool is_open = job->state == REMOTE_OPEN;
	const struct tfc__agent_target target = remote_job_target(job);
	struct tfc__buf params = {0};
	const struct tfc__rpc_options options = {.method = is_open ? "agent.open" : "agent.drop",
						 .params = &params,
						 .timeout_ms = job->agent->lease_ms,
						 .end = is_open ? on_open_end : on_drop_end,
						 .user = job};
	tfc_error error = TFC_ERROR_INIT;
	int code = is_open ? write_open(job, &params) : TFC_OK;
	if (!is_open)
		tfc__fields_write(&params, &tfc__agent_target_fields, &target);
	if (code == TFC_OK)
		code = tfc__rpc_call(job->agent->rpc, &options, &error, &job->call);
	tfc__buf_fini(&params);
	if (code == TFC_OK) {
		job->was_requested = true;
		return;
	}
	job->call = NULL;
	if (code == TFC_ETOOBIG)
		tfc__remote_lose(job, TFC__AGENT_LOST, error.text);
	else if (code != TFC_ELOST)
		tfc__timer_set(&job->retry, tfc__now() + REMOTE_RETRY);
}

void tfc__remote_connect(struct remote_job *job)
{
	bool is_elsewhere = job->boot && job->boot != job->agent->boot;
	/* The open request contains the bundle's hash, so the bundle must be packed first. */
	bool is_packed = !job->bundle || job->bundle->state == TFC__BUNDLE_READY ||
			 job->bundle->state == TFC__BUNDLE_FAILED;
	if (!is_elsewhere)
		tfc__remote_offer_bundle(job);
	if (job->state == REMOTE_DROPPING && !job->was_requested)
		tfc__remote_lose(job, TFC__AGENT_LOST, "the job's tasks there were given up");
	else if (job->is_up)
		tfc__remote_set_unreachable(job, false);
	else if (job->state != REMOTE_GONE && !job->call && !is_elsewhere &&
		 tfc__remote_is_ready(job->agent) && (is_packed || job->state == REMOTE_DROPPING))
		request_open_or_drop(job);
}

void tfc__remote_retry(struct remote_job *job)
{
	job->is_up = false;
	tfc__remote_connect(job);
}
