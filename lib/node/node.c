#include <stdlib.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/options.h"
#include "ctx/ctx.h"
#include "gateway/local.h"
#include "gateway/remote.h"
#include "node/internal.h"

int tfc_node_hooks_init(tfc_node_hooks *hooks, uint32_t size)
{
	return tfc__options_init(hooks, size, sizeof(*hooks));
}

int tfc_node_options_init(tfc_node_options *options, uint32_t size)
{
	return tfc__options_init(options, size, sizeof(*options));
}

static void node_on_close(struct tfc__handle *handle)
{
	tfc_node_close(tfc__container_of(handle, tfc_node, handle));
}

int tfc_node_open(tfc_ctx *ctx, const tfc_node_options *options, tfc_node **ret_node)
{
	tfc_node_options known;
	int code = tfc__ctx_enter(ctx);
	if (code < 0)
		return code;
	tfc_error *error = tfc__ctx_error(ctx);
	if (!ret_node)
		return tfc__fail(error, TFC_EINVAL, "node", 0, "ret_node is NULL");
	code = tfc__options_copy(&known, sizeof(known), options, "node", "tfc_node_options",
				 offsetof(tfc_node_options, reserved), error);
	if (code < 0)
		return code;
	tfc_node *node = calloc(1, sizeof(*node));
	if (!node)
		return tfc__fail_nomem(error, "node");
	node->ctx = ctx;
	tfc__list_init(&node->watches);
	tfc__observer_init(&node->stalls, tfc__node_on_stall);
	tfc__list_init(&node->drains);
	if ((code = tfc__node_open_parts(node, &known, error)) < 0) {
		tfc_error why = *error; /* closing may set the error, too */
		tfc__node_close_parts(node);
		free(node);
		*error = why;
		return code;
	}
	tfc__handle_open(ctx, &node->handle, TFC__HANDLE_NODE, node_on_close);
	*ret_node = node;
	return TFC_OK;
}

int tfc_node_shutdown(tfc_node *node, tfc_node_ended_fn fn, void *user)
{
	int code = tfc__ctx_enter(node ? node->ctx : NULL);
	if (code < 0)
		return code;
	tfc_error *error = tfc__ctx_error(node->ctx);
	if (!fn)
		return tfc__fail(error, TFC_EINVAL, "node", 0, "fn is NULL");
	code = tfc__directory_drain(node->directory, fn, user, error);
	if (code == TFC_OK)
		tfc__node_set_draining(node, true);
	return code;
}

/* ---- leaving
 *
 * The node takes no new task, and its maintainers stop their tasks without ending the jobs;
 * maintainers on other nodes move theirs; then it says goodbye. After a limit of time,
 * tfc_node_close ends what is left. */

#define QUIET_MS 1000 /* then it logs what it waits for */
#define PATIENCE_S 30 /* for jobs whose tasks are on other nodes */
#define MARGIN_S 5    /* beyond a grace, until every node has learned of the end of the last task */

static void leave_on_goodbye(void *user)
{
	tfc_node *node = user;
	node->left(node->left_user);
}

static void leave_say_goodbye(void *user)
{
	tfc_node *node = user;
	tfc__peers_leave(node->peers, leave_on_goodbye, node);
}

static void leave_send_goodbye(tfc_node *node)
{
	tfc__node_stop_leaving(node);
	if (node->gossip)
		tfc__gossip_membership_leave(node->gossip, leave_say_goodbye, node);
	else
		leave_say_goodbye(node);
}

static void leave_when_empty(struct tfc__work *work)
{
	tfc_node *node = tfc__container_of(work, tfc_node, emptied);
	if (node->is_suspended && tfc__agent_slots_used(node->agent) == 0)
		leave_send_goodbye(node);
}

static void leave_on_suspended(void *user)
{
	tfc_node *node = user;
	node->is_suspended = true;
	tfc__work_schedule(&node->emptied);
}

static void leave_on_timer(struct tfc__timer *timer)
{
	tfc_node *node = tfc__container_of(timer, tfc_node, leaving);
	char tasks[200];
	if (tfc__now() >= node->leave_by) {
		leave_send_goodbye(node);
		return;
	}
	tfc__agent_slots_text(node->agent, tasks, sizeof(tasks));
	if (!*tasks && tfc__directory_is_storing(node->directory))
		tfc__log(node->ctx, TFC_LOG_WARNING, "node", "",
			 "leaving; waiting for the store to write its jobs: the disk does not "
			 "respond or is full");
	else
		tfc__log(node->ctx, TFC_LOG_WARNING, "node", "", "leaving; waiting for %s to end",
			 *tasks ? tasks : "tasks of its jobs on other nodes");
	tfc__timer_set(timer, node->leave_by);
}

int tfc_node_leave(tfc_node *node, tfc_node_ended_fn fn, void *user)
{
	int code = tfc__ctx_enter(node ? node->ctx : NULL);
	if (code < 0)
		return code;
	tfc_error *error = tfc__ctx_error(node->ctx);
	if (!fn)
		return tfc__fail(error, TFC_EINVAL, "node", 0, "fn is NULL");
	if (node->left)
		return tfc__fail(error, TFC_ESTATE, "node", 0, "the node is leaving already");
	node->left = fn;
	node->left_user = user;
	double graces_s = tfc__agent_longest_grace_s(node->agent) + MARGIN_S;
	double patience_s = graces_s > PATIENCE_S ? graces_s : PATIENCE_S;
	node->leave_by = tfc__now() + (uint64_t)(patience_s * TFC__SECOND);
	tfc__node_set_draining(node, true);
	tfc__timer_init(&node->leaving, node->ctx, leave_on_timer);
	tfc__timer_set(&node->leaving, tfc__now() + QUIET_MS * TFC__MS);
	tfc__work_init(&node->emptied, node->ctx, leave_when_empty);
	tfc__agent_on_empty(node->agent, &node->emptied);
	/* A drained node has already begun to stop its jobs. */
	if (tfc__directory_suspend(node->directory, leave_on_suspended, node, error) < 0)
		leave_on_suspended(node);
	return TFC_OK;
}

void tfc__node_stop_leaving(tfc_node *node)
{
	if (!node->left)
		return;
	tfc__agent_on_empty(node->agent, NULL);
	tfc__work_cancel(&node->emptied);
	tfc__timer_cancel(&node->leaving);
}

void tfc_node_close(tfc_node *node)
{
	if (!node || tfc__ctx_enter(node->ctx) < 0)
		return;
	tfc__handle_closed(&node->handle);
	tfc__node_close_parts(node);
	free(node);
}

const char *tfc_node_address(const tfc_node *node, uint32_t number)
{
	if (!node || number >= node->listener_count)
		return NULL;
	return tfc__peer_listener_address(node->listeners[number]);
}

int tfc_node_upstream_changed(tfc_node *node, const char *upstream, uint64_t version)
{
	int code = tfc__ctx_enter(node ? node->ctx : NULL);
	if (code < 0)
		return code;
	if (!upstream || !*upstream)
		return tfc__ctx_fail(node->ctx, TFC_EINVAL, "node", 0, "upstream is NULL");
	tfc__upstreams_changed(node->upstreams, upstream, version);
	return TFC_OK;
}

/* ---- the gateway on this node */

int tfc_gateway_options_init(tfc_gateway_options *options, uint32_t size)
{
	return tfc__options_init(options, size, sizeof(*options));
}

static int gateway_open_checked(tfc_ctx *ctx, const tfc_gateway_options *options,
				tfc_gateway **ret_gateway)
{
	tfc_gateway_options known;
	int code = tfc__ctx_enter(ctx);
	if (code < 0)
		return code;
	tfc_error *error = tfc__ctx_error(ctx);
	code = tfc__options_copy(&known, sizeof(known), options, "gateway", "tfc_gateway_options",
				 offsetof(tfc_gateway_options, reserved), error);
	if (code < 0)
		return code;
	if (known.address && !known.node && ret_gateway)
		return tfc__remote_gateway_new(ctx, &known, error, ret_gateway);
	if (known.address && known.node)
		return tfc__fail(error, TFC_EINVAL, "gateway", 0,
				 "tfc_gateway_options has both node and address; set one of them");
	if (!known.node || !ret_gateway)
		return tfc__fail(error, TFC_EINVAL, "gateway", 0, "%s is NULL",
				 known.node ? "ret_gateway" : "tfc_gateway_options.node");
	if (known.node->ctx != ctx)
		return tfc__fail(error, TFC_EINVAL, "gateway", 0,
				 "tfc_gateway_options.node belongs to another context");
	return tfc__node_gateway_new(known.node, ret_gateway);
}

static void gateway_on_close(struct tfc__handle *handle)
{
	tfc_gateway_close(tfc__container_of(handle, tfc_gateway, handle));
}

int tfc_gateway_open(tfc_ctx *ctx, const tfc_gateway_options *options, tfc_gateway **ret_gateway)
{
	int code = gateway_open_checked(ctx, options, ret_gateway);
	if (code == TFC_OK)
		tfc__handle_open(ctx, &(*ret_gateway)->handle, TFC__HANDLE_GATEWAY,
				 gateway_on_close);
	return code;
}
