/* transport: whichever allocation fails, a connection is whole or is reported as failed, and
 * nothing is left. */
#include "transports.h"

#include <stdio.h>
#include <string.h>

#include "failing_malloc.h"
#include "transport/peer.h"

static const struct transport_kind *kind;
static struct world *world;

struct side {
	struct tfc__peer *peer;
	bool is_up;
	bool is_down;
	bool is_answered;
	int code;
};

static void on_up(struct tfc__peer *peer, void *user)
{
	((struct side *)user)->is_up = true;
}

static void on_serve(struct tfc__peer *peer, void *user, struct tfc__rpc_request *request,
		     const char *method, const msgpack_object *params)
{
	if (request)
		tfc__rpc_reply(request, NULL);
}

static void on_down(struct tfc__peer *peer, void *user, const tfc_error *why)
{
	struct side *end = user;
	assert_false(end->is_down);
	end->is_down = true;
	end->code = why->code;
}

static const struct tfc__peer_ops ops = {on_up, on_serve, on_down};

static void on_accept(void *user, struct tfc__peer *peer)
{
	struct side *end = user;
	end->peer = peer;
	tfc__peer_accept(peer, &ops, end);
}

static void on_response(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	struct side *end = user;
	end->is_answered = true;
	end->code = code;
}

/* Until there is an answer, or the end of the connection. */
static void call(struct side *near)
{
	struct tfc__rpc_call *made;
	const struct tfc__rpc_options options = {.method = "m", .end = on_response, .user = near};
	int code = tfc__rpc_call(tfc__peer_rpc(near->peer), &options, NULL, &made);
	if (code < 0)
		near->code = code;
	else
		AWAIT(world, near->is_answered);
}

static int connect_and_call(void)
{
	struct side near = {.code = TFC_ENOMEM}, far = {0};
	struct tfc__peer_listener *listener = NULL;
	const struct tfc__listen_options listen = {.address = world->address,
						   .keyring = world->keyring,
						   .identity = world->theirs};
	SWEPT(tfc_listener_accept);
	int code = tfc__peer_listen(world->ctx, &listen, on_accept, &far, NULL, &listener);
	if (code < 0)
		return code;
	const struct tfc__dial_options dial = {.address = tfc__peer_listener_address(listener),
					       .keyring = world->keyring,
					       .identity = world->ours};
	code = tfc__peer_dial(world->ctx, &dial, &ops, &near, NULL, &near.peer);
	if (code == TFC_OK) {
		AWAIT(world, near.is_up || near.is_down);
		if (near.is_up && !near.is_down)
			call(&near);
		code = near.is_answered && near.code == TFC_OK ? TFC_OK : TFC_ENOMEM;
	}
	tfc__peer_close(near.peer);
	tfc__peer_close(far.peer);
	tfc__peer_listener_close(listener);
	if (code < 0)
		assert_true(failing_has_struck());
	return code;
}

static void a_connection_is_whole_or_not_there(void **state)
{
	struct world one;
	kind = *state;
	world = &one;
	world_begin(world, kind);
	assert_int_equal(connect_and_call(), TFC_OK); /* what is made at the first use */
	failing_sweep(connect_and_call, 8);
	world_end(world);
}

static const tfc_transport_ops *table;

static int register_and_free(void)
{
	tfc_ctx *ctx;
	SWEPT(tfc_transport_register);
	int code = tfc_ctx_new(NULL, NULL, &ctx);
	if (code < 0)
		return code;
	code = tfc_transport_register(ctx, table, NULL);
	if (code < 0)
		failing_said(code, tfc_ctx_error(ctx));
	tfc_ctx_free(ctx);
	return code;
}

static int no_dial(void *user, const char *address, uint32_t flags, tfc_pipe *pipe,
		   void **ret_state, tfc_error *error)
{
	return TFC_EUNREACH;
}

static int no_listen(void *user, const char *address, uint32_t flags, tfc_listener *listener,
		     void **ret_state, tfc_error *error)
{
	return TFC_EINVAL;
}

static const char *no_address(void *state)
{
	return "";
}

static int no_describe(void *state, tfc_pipe_info *info, tfc_error *error)
{
	return TFC_ESTATE;
}

static int64_t no_read(void *state, void *data, size_t len, tfc_error *error)
{
	return 0;
}

static int64_t no_write(void *state, const void *data, size_t len, tfc_error *error)
{
	return 0;
}

static void no_want(void *state, uint32_t events)
{
}

static void no_close(void *state)
{
}

static const tfc_transport_ops silent_ops = {
	.size = sizeof(tfc_transport_ops),
	.scheme = "silent",
	.dial = no_dial,
	.listen = no_listen,
	.listener_address = no_address,
	.listener_close = no_close,
	.describe = no_describe,
	.read = no_read,
	.write = no_write,
	.want = no_want,
	.close = no_close,
};

static void a_transport_is_registered_or_not(void **state)
{
	table = &silent_ops;
	failing_sweep(register_and_free, 4);
}

static bool is_first(const struct transport_kind *one)
{
	return one == &transport_kinds[0];
}

int main(void)
{
	const struct transport_test tests[] = {
		{"a connection is whole or not there", a_connection_is_whole_or_not_there, NULL},
		{"a transport is registered or not", a_transport_is_registered_or_not, is_first},
	};
	return transport_run("transport_nomem", tests, sizeof(tests) / sizeof(*tests));
}
