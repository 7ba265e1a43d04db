#include <stdlib.h>

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

static void close_node(struct tfc__handle *handle)
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
	code = tfc__options_copy(&known, sizeof(known), options, "node", "tfc_node_options", error);
	if (code < 0)
		return code;
	tfc_node *node = calloc(1, sizeof(*node));
	if (!node)
		return tfc__fail_nomem(error, "node");
	node->ctx = ctx;
	tfc__list_init(&node->watches);
	tfc__list_init(&node->drains);
	if ((code = tfc__node_open_parts(node, &known, error)) < 0) {
		tfc_error why = *error; /* closing may fail, too */
		tfc__node_close_parts(node);
		free(node);
		*error = why;
		return code;
	}
	tfc__handle_open(ctx, &node->handle, TFC__HANDLE_NODE, close_node);
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

/* ---- the gateway on this node */

int tfc_gateway_options_init(tfc_gateway_options *options, uint32_t size)
{
	return tfc__options_init(options, size, sizeof(*options));
}

static int open_gateway(tfc_ctx *ctx, const tfc_gateway_options *options, tfc_gateway **ret_gateway)
{
	tfc_gateway_options known;
	int code = tfc__ctx_enter(ctx);
	if (code < 0)
		return code;
	tfc_error *error = tfc__ctx_error(ctx);
	code = tfc__options_copy(&known, sizeof(known), options, "gateway", "tfc_gateway_options",
				 error);
	if (code < 0)
		return code;
	if (known.address && !known.node && ret_gateway)
		return tfc__remote_gateway_new(ctx, &known, error, ret_gateway);
	if (known.address && known.node)
		return tfc__fail(error, TFC_EINVAL, "gateway", 0,
				 "tfc_gateway_options: node and address exclude each other");
	if (!known.node || !ret_gateway)
		return tfc__fail(error, TFC_EINVAL, "gateway", 0, "%s is NULL",
				 known.node ? "ret_gateway" : "tfc_gateway_options.node");
	if (known.node->ctx != ctx)
		return tfc__fail(error, TFC_EINVAL, "gateway", 0,
				 "tfc_gateway_options.node belongs to another context");
	return tfc__node_gateway_new(known.node, ret_gateway);
}

static void close_gateway(struct tfc__handle *handle)
{
	tfc_gateway_close(tfc__container_of(handle, tfc_gateway, handle));
}

int tfc_gateway_open(tfc_ctx *ctx, const tfc_gateway_options *options, tfc_gateway **ret_gateway)
{
	int code = open_gateway(ctx, options, ret_gateway);
	if (code == TFC_OK)
		tfc__handle_open(ctx, &(*ret_gateway)->handle, TFC__HANDLE_GATEWAY, close_gateway);
	return code;
}
