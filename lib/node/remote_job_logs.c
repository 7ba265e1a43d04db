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
#define RESPONSE_MS 10000
#define IDS_MAX 10000
#define FIRST_CHECK (60 * TFC__SECOND)
#define CHECK_INTERVAL (3600 * TFC__SECOND)

struct logs_query {
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

static void free_logs_query(struct logs_query *query)
{
	tfc__list_remove(&query->link);
	free(query);
}

static void on_logs_query_end(void *user, int code, const msgpack_object *result,
			      const tfc_error *error)
{
	struct logs_query *query = user;
	struct tfc__agent *agent = query->node->agent;
	if (code == TFC_OK) {
		tfc__node_agents_forget(query->node->agents, result);
		TFC__LIST_EACH (link, tfc__agent_remote_job_logs(agent)) {
			const struct tfc__remote_job_logs *logs = remote_job_logs_of(link);
			if (strcmp(logs->maintainer, query->maintainer) == 0)
				tfc__agent_remote_job_logs_received(agent, logs->id,
								    query->maintainer);
		}
	}
	free_logs_query(query);
}

static void schedule_logs_check(tfc_node *node, uint64_t pause)
{
	uint64_t most = node->retain_s * TFC__SECOND;
	tfc__timer_set(&node->remote_job_logs_timer, tfc__now() + (pause < most ? pause : most));
}

static void send_logs_query(tfc_node *node, const char *maintainer, struct tfc__rpc *rpc,
			    const struct tfc__strv *ids)
{
	struct tfc__buf params = {0};
	struct logs_query *query = calloc(1, sizeof(*query));
	const struct tfc__rpc_options call = {.method = METHOD,
					      .params = &params,
					      .timeout_ms = RESPONSE_MS,
					      .end = on_logs_query_end,
					      .user = query};
	if (!query)
		return;
	tfc__fields_write(&params, &tfc__ids_fields,
			  &(struct tfc__ids){(const char *const *)ids->items});
	query->node = node;
	snprintf(query->maintainer, sizeof(query->maintainer), "%s", maintainer);
	tfc__list_append(&node->logs_queries, &query->link);
	if (tfc__rpc_call(rpc, &call, NULL, &query->call) < 0)
		free_logs_query(query);
	tfc__buf_fini(&params);
}

void tfc__node_query_remote_job_logs(tfc_node *node, struct tfc__node_peer *peer)
{
	const char *maintainer = tfc__node_peer_name(peer);
	struct tfc__rpc *rpc = tfc__node_peer_rpc(peer);
	struct tfc__strv ids = {0};
	if (!node->remote_job_logs_timer.at)
		schedule_logs_check(node, FIRST_CHECK);
	TFC__LIST_EACH (link, tfc__agent_remote_job_logs(node->agent))
		if (strcmp(remote_job_logs_of(link)->maintainer, maintainer) == 0 &&
		    ids.count < IDS_MAX)
			tfc__strv_add(&ids, remote_job_logs_of(link)->id);
	if (rpc && ids.count && !ids.is_failed)
		send_logs_query(node, maintainer, rpc, &ids);
	else if (ids.count && tfc__node_peer_is_reachable(peer))
		tfc__node_peer_dial(peer); /* it is queried when it is connected */
	tfc__strv_fini(&ids);
}

/* ---- queries of other nodes */

void tfc__node_serve_known(tfc_node *node, struct tfc__rpc_request *request,
			   const msgpack_object *params)
{
	struct tfc__reader reader = {.ahead_ns = 0};
	struct tfc__ids received;
	struct tfc__record *record;
	struct tfc__strv removed = {0}; /* out of memory: a later response has the missing ids */
	tfc_error error = TFC_ERROR_INIT;
	if (tfc__params_read(&reader, &tfc__ids_fields, params, &error, &received) < 0) {
		tfc__rpc_fail(request, &error);
	} else {
		for (const char *const *id = received.ids; id && *id; id++)
			if (tfc__is_job_id(*id) && tfc__directory_find(node->directory, *id, &error,
								       &record) == TFC_ENOENT)
				tfc__strv_add(&removed, *id);
		tfc__rpc_reply_message(request, &tfc__ids_fields,
				       &(struct tfc__ids){(const char *const *)removed.items});
	}
	tfc__strv_fini(&removed);
	tfc__reader_fini(&reader);
}

/* ---- by age */

/* Logs of a maintainer that can be queried are not removed by age. */
static bool remote_job_logs_expired(const tfc_node *node,
				    const struct tfc__remote_job_logs *remote_job_logs,
				    uint64_t now)
{
	const struct tfc__node_peer *peer = tfc__peers_find(node->peers,
							    remote_job_logs->maintainer);
	if (peer && tfc__node_peer_is_reachable(peer))
		return false;
	return now > remote_job_logs->received_ns &&
	       now - remote_job_logs->received_ns > node->retain_s * TFC__SECOND;
}

static void forget_expired_logs(tfc_node *node)
{
	struct tfc__strv old = {0};
	uint64_t now = tfc__wall();
	TFC__LIST_EACH (link, tfc__agent_remote_job_logs(node->agent))
		if (remote_job_logs_expired(node, remote_job_logs_of(link), now))
			tfc__strv_add(&old, remote_job_logs_of(link)->id);
	for (size_t i = 0; i < old.count; i++) {
		tfc__log(node->ctx, TFC_LOG_INFO, "node", old.items[i],
			 "removing the job's logs: the job's node has been unreachable for too "
			 "long");
		tfc__agent_forget_logs(node->agent, old.items[i]);
	}
	tfc__strv_fini(&old);
}

static void on_logs_check(struct tfc__timer *timer)
{
	tfc_node *node = tfc__container_of(timer, tfc_node, remote_job_logs_timer);
	forget_expired_logs(node);
	TFC__LIST_EACH (link, &node->peers->all)
		tfc__node_query_remote_job_logs(node, tfc__container_of(link, struct tfc__node_peer,
									link));
	schedule_logs_check(node, CHECK_INTERVAL);
}

void tfc__node_begin_remote_job_logs(tfc_node *node)
{
	tfc__list_init(&node->logs_queries);
	tfc__timer_init(&node->remote_job_logs_timer, node->ctx, on_logs_check);
}

void tfc__node_find_remote_job_logs(tfc_node *node)
{
	if (!tfc__list_is_empty(tfc__agent_remote_job_logs(node->agent)))
		schedule_logs_check(node, FIRST_CHECK);
}

void tfc__node_end_remote_job_logs(tfc_node *node)
{
	tfc__timer_cancel(&node->remote_job_logs_timer);
	TFC__LIST_EACH (link, &node->logs_queries) {
		struct logs_query *query = tfc__container_of(link, struct logs_query, link);
		tfc__rpc_drop(query->call);
		free_logs_query(query);
	}
}
