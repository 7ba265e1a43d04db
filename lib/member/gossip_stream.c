/*
 * Requests of the state machine over streams: each has a connection of its own, which the transport
 * protects as every connection between nodes.
 */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "member/gossip_internal.h"

#define DIAL_MS 4000
#define RESPONSE_MS 5000

struct gossip_exchange {
	struct tfc__link link;
	struct tfc__gossip_membership *gossip;
	uint64_t number;
	struct tfc__gossip_address to;
	bool is_seed;           /* no certain member is expected there */
	struct tfc__peer *peer; /* NULL: could not be dialed */
	struct tfc__rpc_call *call;
	struct tfc__buf params;
	struct tfc__work failing; /* reports `error` in a turn of its own */
	tfc_error error;
};

#define PARAM(...) TFC__FIELD(struct tfc__gossip_params, __VA_ARGS__)
static const struct tfc__field params_rows[] = {
	PARAM("name", TFC__TEXT, name, TFC__V0_3),
	PARAM("node_id", TFC__TEXT, node_id, TFC__V0_3),
	PARAM("address", TFC__TEXT, address, TFC__V0_3),
	PARAM("version", TFC__UINT, version, TFC__V0_3),
	PARAM("generation", TFC__UINT, generation, TFC__V0_3),
	PARAM("data", TFC__BYTES, data, TFC__V0_3,
	      .count = offsetof(struct tfc__gossip_params, len)),
};
static const struct tfc__fields params_fields = TFC__FIELDS(params_rows, struct tfc__gossip_params,
							    NULL);

static void params_write(const struct tfc__gossip_membership *gossip,
			 const struct tfc__gossip_action *action, struct tfc__buf *buf)
{
	struct tfc__gossip_member self;
	struct tfc__gossip_params params = {.version = TFC__GOSSIP_VERSION,
					    .data = action->bytes,
					    .len = action->len};
	tfc__gossip_at(gossip->core, 0, &self);
	params.generation = tfc__gossip_generation(self.incarnation);
	snprintf(params.name, sizeof(params.name), "%s", self.name);
	tfc__gossip_id_write(&self.id, params.node_id);
	tfc__gossip_address_write(&gossip->address, params.address);
	tfc__fields_write(buf, &params_fields, &params);
}

int tfc__gossip_params_read(const msgpack_object *map, const char *node_id, tfc_error *error,
			    struct tfc__gossip_params *ret_params,
			    struct tfc__gossip_event *ret_event)
{
	struct tfc__gossip_params params = {.data = NULL};
	struct tfc__gossip_id id;
	size_t id_len = 0;
	int code = tfc__params_read(NULL, &params_fields, map, error, &params);
	if (code < 0)
		return code;
	if (params.version != TFC__GOSSIP_VERSION || !params.data ||
	    sodium_hex2bin(id.bytes, sizeof(id.bytes), params.node_id, strlen(params.node_id), NULL,
			   &id_len, NULL) != 0 ||
	    id_len != sizeof(id.bytes))
		return tfc__fail(error, TFC_EINVAL, "member", 0,
				 "node.gossip: not a message of a node of this version");
	if (*node_id && strcmp(node_id, params.node_id) != 0)
		return tfc__fail(error, TFC_EACCES, "member", 0,
				 "node.gossip: the message is that of node id %s, but the "
				 "connection that of %s",
				 params.node_id, node_id);
	*ret_params = params;
	ret_event->id = id;
	ret_event->generation = params.generation;
	ret_event->bytes = params.data;
	ret_event->len = params.len;
	return TFC_OK;
}

static void stream_free(struct gossip_exchange *stream)
{
	tfc__list_remove(&stream->link);
	tfc__work_cancel(&stream->failing);
	if (stream->call)
		tfc__rpc_drop(stream->call);
	tfc__peer_close(stream->peer);
	tfc__buf_fini(&stream->params);
	free(stream);
}

static void stream_fail(struct gossip_exchange *stream, const tfc_error *error)
{
	struct tfc__gossip_membership *gossip = stream->gossip;
	struct tfc__gossip_event event = {.kind = TFC__GOSSIP_STREAM_FAILED,
					  .stream = stream->number};
	if (stream->is_seed)
		tfc__gossip_join_failed(gossip, &stream->to, error);
	stream_free(stream);
	tfc__gossip_membership_step(gossip, &event);
}

static void stream_on_failing(struct tfc__work *work)
{
	struct gossip_exchange *stream = tfc__container_of(work, struct gossip_exchange, failing);
	tfc_error error = stream->error;
	stream_fail(stream, &error);
}

static void stream_on_response(void *user, int code, const msgpack_object *result,
			       const tfc_error *why)
{
	struct gossip_exchange *stream = user;
	struct tfc__gossip_membership *gossip = stream->gossip;
	struct tfc__gossip_event event = {.kind = TFC__GOSSIP_RESPONSE, .stream = stream->number};
	struct tfc__gossip_params params;
	tfc_error error = TFC_ERROR_INIT;
	stream->call = NULL;
	if (code == TFC_OK)
		gossip->was_accepted = true;
	if (code == TFC_EEXIST)
		tfc__gossip_name_refused(gossip, why);
	if (code < 0) {
		stream_fail(stream, why);
		return;
	}
	if (tfc__gossip_params_read(result, tfc__peer_id(stream->peer)->node_id, &error, &params,
				    &event) < 0) {
		stream_fail(stream, &error);
		return;
	}
	/* The bytes belong to the connection, which is closed afterwards. */
	tfc__list_remove(&stream->link);
	tfc__gossip_membership_step(gossip, &event);
	stream_free(stream);
}

static void stream_on_up(struct tfc__peer *peer, void *user)
{
	struct gossip_exchange *stream = user;
	tfc_error error = TFC_ERROR_INIT;
	const struct tfc__rpc_options call = {
		.method = "node.gossip",
		.params = &stream->params,
		.timeout_ms = RESPONSE_MS,
		.end = stream_on_response,
		.user = stream,
	};
	if (tfc__rpc_call(tfc__peer_rpc(peer), &call, &error, &stream->call) < 0) {
		stream->call = NULL;
		stream_fail(stream, &error);
	}
}

static void stream_on_serve(struct tfc__peer *peer, void *user, struct tfc__rpc_request *request,
			    const char *method, const msgpack_object *params)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc__fail(&error, TFC_ENOTSUP, "member", 0,
		  "%s: requests of this connection are not served; open another connection",
		  method);
	if (request)
		tfc__rpc_fail(request, &error);
}

static void stream_on_down(struct tfc__peer *peer, void *user, const tfc_error *why)
{
	stream_fail(user, why);
}

static const struct tfc__peer_ops stream_ops = {stream_on_up, stream_on_serve, stream_on_down};

static int stream_dial(struct gossip_exchange *stream, const struct tfc__gossip_id *id)
{
	const struct tfc__gossip_membership *gossip = stream->gossip;
	char address[TFC__GOSSIP_ADDRESS_TEXT], hex[2 * TFC__GOSSIP_ID_SIZE + 1];
	/* without a key, no connection proves an id */
	bool is_pinned = !stream->is_seed && gossip->options.keyring;
	tfc__gossip_address_write(&stream->to, address);
	sodium_bin2hex(hex, sizeof(hex), id->bytes, sizeof(id->bytes));
	const struct tfc__dial_options options = {
		.address = address,
		.keyring = gossip->options.keyring,
		.role = TFC__KEY_NODE,
		.identity = gossip->options.identity,
		.pinned_node_id = is_pinned ? hex : NULL,
		.timeout_ms = DIAL_MS,
	};
	return tfc__peer_dial(gossip->ctx, &options, &stream_ops, stream, &stream->error,
			      &stream->peer);
}

void tfc__gossip_stream_open(struct tfc__gossip_membership *gossip,
			     const struct tfc__gossip_action *action)
{
	struct gossip_exchange *stream = calloc(1, sizeof(*stream));
	if (!stream) /* the state machine gives a request up after a time */
		return;
	stream->gossip = gossip;
	stream->number = action->stream;
	stream->to = action->to;
	stream->is_seed = sodium_is_zero(action->id.bytes, sizeof(action->id.bytes));
	stream->error = (tfc_error)TFC_ERROR_INIT;
	tfc__work_init(&stream->failing, gossip->ctx, stream_on_failing);
	tfc__list_append(&gossip->streams, &stream->link);
	params_write(gossip, action, &stream->params);
	int code = TFC_OK;
	if (stream->params.is_failed)
		code = tfc__fail_nomem(&stream->error, "member");
	else
		code = stream_dial(stream, &action->id);
	if (code < 0) {
		stream->peer = NULL;
		tfc__work_schedule(&stream->failing);
	}
}

void tfc__gossip_streams_close(struct tfc__gossip_membership *gossip)
{
	TFC__LIST_EACH (link, &gossip->streams)
		stream_free(tfc__container_of(link, struct gossip_exchange, link));
}

void tfc__gossip_stream_reply(struct tfc__gossip_membership *gossip,
			      struct tfc__rpc_request *request,
			      const struct tfc__gossip_action *action)
{
	struct tfc__buf result = {0};
	tfc_error error = TFC_ERROR_INIT;
	params_write(gossip, action, &result);
	if (result.is_failed) {
		tfc__fail_nomem(&error, "member");
		tfc__rpc_fail(request, &error);
	} else {
		tfc__rpc_reply(request, &result);
	}
	tfc__buf_fini(&result);
}
