/* transport: clients of a listener with a quota, over every transport with keys. */
#include "transports.h"

#include <stdlib.h>
#include <string.h>

#include "transport/peer.h"

#define LARGE 500000
#define HELD 60000

struct limited {
	struct world world;
	struct tfc__keyring *keyring; /* of one read key */
	struct tfc__quota quota;
	struct tfc__peer_listener *listener;
	struct tfc__peer *far[2];
	size_t accepted;
	struct tfc__rpc_request *held;
};

static void serve(struct tfc__peer *peer, void *user, struct tfc__rpc_request *request,
		  const char *method, const msgpack_object *params)
{
	struct limited *limited = user;
	tfc_error error = TFC_ERROR_INIT;
	if (!request)
		return;
	if (strcmp(method, "hold") != 0)
		tfc__rpc_reply(request, NULL);
	else if (tfc__rpc_reserve(request, HELD, &error) < 0)
		tfc__rpc_fail(request, &error);
	else
		limited->held = request;
}

static void on_far_down(struct tfc__peer *peer, void *user, const tfc_error *why)
{
	struct limited *limited = user;
	for (int i = 0; i < 2; i++)
		if (limited->far[i] == peer)
			limited->far[i] = NULL;
	tfc__peer_close(peer);
}

static void on_accept(void *user, struct tfc__peer *peer)
{
	static const struct tfc__peer_ops ops = {NULL, serve, on_far_down};
	struct limited *limited = user;
	limited->far[limited->accepted++] = peer;
	tfc__peer_accept(peer, &ops, limited);
}

static void begin(struct limited *limited, const struct transport_kind *kind)
{
	const struct tfc__quota_limits limits = {.key_connections = 1, .bytes = 100000};
	tfc_error error = TFC_ERROR_INIT;
	*limited = (struct limited){.accepted = 0};
	world_begin(&limited->world, kind);
	limited->keyring = world_keyring(&limited->world, "read", TFC__KEY_READ);
	tfc__quota_init(&limited->quota, limited->world.ctx, &limits);
	const struct tfc__listen_options listen = {
		.address = limited->world.address,
		.keyring = limited->keyring,
		.identity = limited->world.theirs,
		.quota = &limited->quota,
	};
	if (tfc__peer_listen(limited->world.ctx, &listen, on_accept, limited, &error,
			     &limited->listener) < 0)
		fail_msg("%s", error.text);
}

static void end(struct limited *limited)
{
	for (int i = 0; i < 2; i++)
		tfc__peer_close(limited->far[i]);
	tfc__peer_listener_close(limited->listener);
	assert_int_equal(limited->quota.connections + limited->quota.bytes, 0);
	tfc__quota_fini(&limited->quota);
	tfc__keyring_free(limited->keyring);
	world_end(&limited->world);
}

static void dial(struct limited *limited, struct peer_side *side)
{
	tfc_error error = TFC_ERROR_INIT;
	const struct tfc__dial_options options = {
		.address = tfc__peer_listener_address(limited->listener),
		.keyring = limited->keyring,
		.identity = limited->world.ours,
		.timeout_ms = 15000,
	};
	*side = (struct peer_side){.peer = NULL};
	if (tfc__peer_dial(limited->world.ctx, &options, &peer_side_ops, side, &error,
			   &side->peer) < 0)
		fail_msg("%s", error.text);
}

static void a_connection_too_many_learns_why(void **state)
{
	struct limited limited;
	struct peer_side first, second;
	begin(&limited, *state);
	dial(&limited, &first);
	AWAIT(&limited.world, first.is_up && limited.accepted == 1);
	dial(&limited, &second);
	AWAIT(&limited.world, second.is_down);
	assert_int_equal(second.why.code, TFC_EAGAIN);
	assert_non_null(strstr(second.why.text, "the limit for one key"));
	assert_false(first.is_down);
	assert_int_equal(limited.accepted, 1);
	tfc__peer_close(second.peer);
	tfc__peer_close(first.peer);
	AWAIT(&limited.world, !limited.far[0]);
	dial(&limited, &first);
	AWAIT(&limited.world, first.is_up && limited.accepted == 2);
	tfc__peer_close(first.peer);
	end(&limited);
}

static void note_end(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	*(int *)user = code;
}

static void begin_call(struct peer_side *side, const char *method, int *ret_code)
{
	const struct tfc__rpc_options options = {.method = method,
						 .end = note_end,
						 .user = ret_code};
	*ret_code = 1;
	assert_int_equal(tfc__rpc_call(tfc__peer_rpc(side->peer), &options, NULL, NULL), TFC_OK);
}

static int call(struct limited *limited, struct peer_side *side, size_t len)
{
	int code = 1;
	struct tfc__buf params = {0};
	const struct tfc__rpc_options options = {.method = "any",
						 .params = &params,
						 .end = note_end,
						 .user = &code};
	char *bytes = calloc(1, len);
	assert_non_null(bytes);
	tfc__msg_bin(&params, bytes, len);
	free(bytes);
	assert_int_equal(tfc__rpc_call(tfc__peer_rpc(side->peer), &options, NULL, NULL), TFC_OK);
	tfc__buf_fini(&params);
	AWAIT(&limited->world, code != 1);
	return code;
}

/* It is read to its end, into nowhere: the connection goes on. */
static void a_message_without_room_gets_that_response(void **state)
{
	struct limited limited;
	struct peer_side side;
	begin(&limited, *state);
	dial(&limited, &side);
	AWAIT(&limited.world, side.is_up && limited.accepted == 1);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(call(&limited, &side, LARGE), TFC_EAGAIN);
		assert_int_equal(call(&limited, &side, 100), TFC_OK);
	}
	assert_int_equal(limited.quota.requests, 0);
	tfc__peer_close(side.peer);
	end(&limited);
}

static void a_request_counts_as_what_it_reserves(void **state)
{
	struct limited limited;
	struct peer_side side;
	int first, second;
	begin(&limited, *state);
	dial(&limited, &side);
	AWAIT(&limited.world, side.is_up && limited.accepted == 1);
	begin_call(&side, "hold", &first);
	AWAIT(&limited.world, limited.held);
	begin_call(&side, "hold", &second);
	AWAIT(&limited.world, second != 1);
	assert_int_equal(second, TFC_EAGAIN);
	assert_int_equal(tfc__rpc_reserve(limited.held, HELD / 2, NULL), TFC_OK);
	assert_in_range(limited.quota.bytes, HELD / 2, HELD);
	tfc__rpc_reply(limited.held, NULL);
	AWAIT(&limited.world, first == TFC_OK && !limited.quota.bytes);
	begin_call(&side, "hold", &second);
	AWAIT(&limited.world, limited.quota.bytes > HELD);
	tfc__peer_close(side.peer);
	AWAIT(&limited.world, !limited.far[0]);
	assert_int_equal(limited.quota.bytes, 0);
	assert_int_equal(tfc__rpc_reserve(limited.held, HELD, NULL), TFC_OK);
	tfc__rpc_reply(limited.held, NULL);
	end(&limited);
}

/* What was written just before a close arrives: the one of the suite's host drops it. */
static bool delivers_before_a_close(const struct transport_kind *kind)
{
	return kind->is_noise && strcmp(kind->scheme, "hosted") != 0;
}

int main(void)
{
	const struct transport_test tests[] = {
		{"a connection too many learns why", a_connection_too_many_learns_why,
		 delivers_before_a_close},
		{"a message without room is answered so", a_message_without_room_gets_that_response,
		 transport_has_noise},
		{"a request counts as what it reserves", a_request_counts_as_what_it_reserves,
		 transport_has_noise},
	};
	return transport_run("transport_limits", tests, sizeof(tests) / sizeof(*tests));
}
