/*
 * Remote job logs: the logs kept here of jobs that other nodes maintain. This node queries a
 * maintainer whether the job still exists when the maintainer becomes reachable, and periodically;
 * the logs of a removed job are removed here, too. So either node may be down when the job is
 * removed. Logs of a maintainer that stays unreachable are removed by age.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/strv.h"
#include "node/internal.h"

#define METHOD "node.known"
#define ANSWER_MS 10000
#define IDS_MAX 10000
#define FIRST_CHECK (60 * TFC__SECOND)
#define CHECK_INTERVAL (3600 * TFC__SECOND)

struct stay_request {
	struct tfc__link link;
	tfc_node *node;
	struct tfc__rpc_call *call;
	char maintainer[256];
};

/* ---- querying maintainers */

static struct tfc__remote_job_logs *remote_job_logs_of(struct tfc__link *link)
{
	return tfc__container_of(link, struct tfc__remote_job_logs, link);
}

static void receive_response(tfc_node *node, const char *maintainer, const msgpack_object *result)
{
	tfc__node_agents_forget(node->agents, result);
	TFC__LIST_EACH (link, tfc__agent_remote_job_logs(node->agent))
		if (strcmp(remote_job_logs_of(link)->maintainer, maintainer) == 0)
			tfc__agent_remote_job_logs_received(node->agent,
							    remote_job_logs_of(link)->id,
							    maintainer);
}

static void free_stay_request(struct stay_request *stay_request)
{
	tfc__list_remove(&stay_request->link);
	free(stay_request);
}

static void on_response(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	struct stay_request *stay_request = user;
	if (code == TFC_OK)
		receive_response(stay_request->node, stay_request->maintainer, result);
	free_stay_request(stay_request);
}

static void schedule_check(tfc_node *node, uint64_t pause)
{
	uint64_t most = node->retain_s * TFC__SECOND;
	tfc__timer_set(&node->remote_job_logs_timer, tfc__now() + (pause < most ? pause : most));
}

static void request_stay(tfc_node *node, const char *maintainer, struct tfc__rpc *rpc,
			 const struct tfc__strv *ids)
{
	struct tfc__buf params = {0};
	struct stay_request *stay_request = calloc(1, sizeof(*stay_request));
	const struct tfc__rpc_options call = {.method = METHOD,
					      .params = &params,
					      .timeout_ms = ANSWER_MS,
					      .end = on_response,
					      .user = stay_request};
	if (!stay_request)
		return;
	tfc__fields_write(&params, &tfc__ids_fields,
			  &(struct tfc__ids){(const char *const *)ids->items});
	stay_request->node = node;
	snprintf(stay_request->maintainer, sizeof(stay_request->maintainer), "%s", maintainer);
	tfc__list_append(&node->stay_requests, &stay_request->link);
	if (tfc__rpc_call(rpc, &call, NULL, &stay_request->call) < 0)
		free_stay_request(stay_request);
	tfc__buf_fini(&params);
}

void tfc__node_query_remote_job_logs(tfc_node *node, struct tfc__node_peer *peer)
{
	const char *maintainer = tfc__node_peer_name(peer);
	struct tfc__rpc *rpc = tfc__node_peer_rpc(peer);
	struct tfc__strv ids = {0};
	if (!node->remote_job_logs_timer.at)
		schedule_check(node, FIRST_CHECK);
	TFC__LIST_EACH (link, tfc__agent_remote_job_logs(node->agent))
		if (strcmp(remote_job_logs_of(link)->maintainer, maintainer) == 0 &&
		    ids.count < IDS_MAX)
			tfc__strv_add(&ids, remote_job_logs_of(link)->id);
	if (rpc && ids.count && !ids.is_failed)
		request_stay(node, maintainer, rpc, &ids);
	tfc__strv_fini(&ids);
}

/* ---- answering other nodes */

static bool is_known(tfc_node *node, const char *id)
{
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__record *record;
	return tfc__directory_find(node->directory, id, &error, &record) != TFC_ENOENT;
}

void tfc__node_serve_known(tfc_node *node, struct tfc__rpc_request *request,
			   const msgpack_object *params)
{
	struct tfc__reader reader = {.ahead_ns = 0};
	struct tfc__ids received;
	struct tfc__strv gone = {0}; /* out of memory: a later response has the missing ids */
	tfc_error error = TFC_ERROR_INIT;
	if (tfc__params_read(&reader, &tfc__ids_fields, params, &error, &received) < 0) {
		tfc__rpc_fail(request, &error);
	} else {
		for (const char *const *id = received.ids; id && *id; id++)
			if (tfc__is_job_id(*id) && !is_known(node, *id))
				tfc__strv_add(&gone, *id);
		tfc__rpc_reply_message(request, &tfc__ids_fields,
				       &(struct tfc__ids){(const char *const *)gone.items});
	}
	tfc__strv_fini(&gone);
	tfc__reader_fini(&reader);
}

/* ---- by age */

/* Logs of a maintainer that can be queried are not removed by age. */
static bool is_too_old(const tfc_node *node, const struct tfc__remote_job_logs *remote_job_logs,
		       uint64_t now)
{
	const struct tfc__node_peer *peer = tfc__peers_find(node->peers,
							    remote_job_logs->maintainer);
	if (peer && tfc__node_peer_rpc(peer))
		return false;
	return now > remote_job_logs->received_ns &&
	       now - remote_job_logs->received_ns > node->retain_s * TFC__SECOND;
}

static void forget_old(tfc_node *node)
{
	struct tfc__strv old = {0};
	uint64_t now = tfc__wall();
	TFC__LIST_EACH (link, tfc__agent_remote_job_logs(node->agent))
		if (is_too_old(node, remote_job_logs_of(link), now))
			tfc__strv_add(&old, remote_job_logs_of(link)->id);
	for (size_t i = 0; i < old.count; i++) {
		tfc__log(node->ctx, TFC_LOG_INFO, "node", old.items[i],
			 "removing the job's logs: the job's node has been unreachable for too "
			 "long");
		tfc__agent_forget_logs(node->agent, old.items[i]);
	}
	tfc__strv_fini(&old);
}

static void on_check(struct tfc__timer *timer)
{
	tfc_node *node = tfc__container_of(timer, tfc_node, remote_job_logs_timer);
	forget_old(node);
	TFC__LIST_EACH (link, &node->peers->all)
		tfc__node_query_remote_job_logs(node, tfc__container_of(link, struct tfc__node_peer,
									link));
	schedule_check(node, CHECK_INTERVAL);
}

void tfc__node_begin_remote_job_logs(tfc_node *node)
{
	tfc__list_init(&node->stay_requests);
	tfc__timer_init(&node->remote_job_logs_timer, node->ctx, on_check);
}

void tfc__node_find_remote_job_logs(tfc_node *node)
{
	if (!tfc__list_is_empty(tfc__agent_remote_job_logs(node->agent)))
		schedule_check(node, FIRST_CHECK);
}

void tfc__node_end_remote_job_logs(tfc_node *node)
{
	tfc__timer_cancel(&node->remote_job_logs_timer);
	TFC__LIST_EACH (link, &node->stay_requests) {
		struct stay_request *stay_request = tfc__container_of(link, struct stay_request,
								      link);
		tfc__rpc_drop(stay_request->call);
		free_stay_request(stay_request);
	}
}
