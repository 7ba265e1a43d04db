/* transport: calls between two ends, over every transport. */
#include "transports.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "transport/peer.h"

struct side {
	struct world *world;
	struct tfc__peer *peer;
	bool is_up;
	bool is_down;
	bool is_closing; /* closes itself inside its next callback */
	tfc_error why;
	uint32_t served;
	struct tfc__peer_id id;
};

static void on_up(struct tfc__peer *peer, void *user)
{
	struct side *end = user;
	end->is_up = true;
	end->id = *tfc__peer_id(peer);
}

static void close_end(struct side *end)
{
	tfc__peer_close(end->peer);
	end->peer = NULL;
}

/* Answers with what it was asked, twice. */
static void on_serve(struct tfc__peer *peer, void *user, struct tfc__rpc_request *request,
		     const char *method, const msgpack_object *params)
{
	struct side *end = user;
	struct tfc__buf result = {0};
	end->served++;
	if (!request)
		return;
	tfc__msg_array(&result, 2);
	tfc__msg_u64(&result, params->via.u64);
	tfc__msg_str(&result, method);
	tfc__rpc_reply(request, &result);
	tfc__buf_fini(&result);
	if (end->is_closing)
		close_end(end);
}

static void on_down(struct tfc__peer *peer, void *user, const tfc_error *why)
{
	struct side *end = user;
	assert_false(end->is_down);
	end->is_down = true;
	end->why = *why;
	if (end->is_closing)
		close_end(end);
}

static const struct tfc__peer_ops ops = {on_up, on_serve, on_down};

static void on_accept(void *user, struct tfc__peer *peer)
{
	struct side *end = user;
	if (end->peer)
		return; /* not taken: it is closed */
	end->peer = peer;
	end->id = *tfc__peer_id(peer);
	end->is_up = true;
	tfc__peer_accept(peer, &ops, end);
}

struct answer {
	int count;
	int code;
	uint64_t number;
	char method[32];
};

static void on_response(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	struct answer *answer = user;
	answer->count++;
	answer->code = code;
	if (code < 0)
		return;
	answer->number = result->via.array.ptr[0].via.u64;
	snprintf(answer->method, sizeof(answer->method), "%.*s",
		 (int)result->via.array.ptr[1].via.str.size, result->via.array.ptr[1].via.str.ptr);
}

static void call(struct tfc__peer *peer, uint64_t number, struct answer *answer)
{
	struct tfc__buf params = {0};
	struct tfc__rpc_call *made;
	tfc__msg_u64(&params, number);
	const struct tfc__rpc_options options = {.method = "twice",
						 .params = &params,
						 .end = on_response,
						 .user = answer};
	*answer = (struct answer){0};
	assert_int_equal(tfc__rpc_call(tfc__peer_rpc(peer), &options, NULL, &made), TFC_OK);
	tfc__buf_fini(&params);
}

struct pair {
	struct world world;
	struct tfc__peer_listener *listener;
	struct side near; /* dialed */
	struct side far;  /* accepted */
};

static void begin(struct pair *pair, const struct transport_kind *kind)
{
	tfc_error error = TFC_ERROR_INIT;
	*pair = (struct pair){0};
	world_begin(&pair->world, kind);
	const struct tfc__listen_options listen = {
		.address = pair->world.address,
		.keyring = pair->world.keyring,
		.identity = pair->world.theirs,
		.handshake_ms = 15000,
	};
	if (tfc__peer_listen(pair->world.ctx, &listen, on_accept, &pair->far, &error,
			     &pair->listener) < 0)
		fail_msg("%s", error.text);
}

static void dial(struct pair *pair, struct side *end)
{
	tfc_error error = TFC_ERROR_INIT;
	const struct tfc__dial_options options = {
		.address = tfc__peer_listener_address(pair->listener),
		.keyring = pair->world.keyring,
		.identity = pair->world.ours,
		.timeout_ms = 15000,
	};
	if (tfc__peer_dial(pair->world.ctx, &options, &ops, end, &error, &end->peer) < 0)
		fail_msg("%s", error.text);
}

static void connect_pair(struct pair *pair, const struct transport_kind *kind)
{
	begin(pair, kind);
	dial(pair, &pair->near);
	AWAIT(&pair->world, pair->near.is_up && pair->far.is_up);
}

static void end(struct pair *pair)
{
	close_end(&pair->near);
	close_end(&pair->far);
	tfc__peer_listener_close(pair->listener);
	world_end(&pair->world);
}

static void both_ends_call_each_other(void **state)
{
	struct pair pair;
	struct answer there, back;
	connect_pair(&pair, *state);
	call(pair.near.peer, 4711, &there);
	call(pair.far.peer, 17, &back);
	AWAIT(&pair.world, there.count && back.count);
	assert_int_equal(there.number, 4711);
	assert_int_equal(back.number, 17);
	assert_string_equal(there.method, "twice");
	assert_int_equal(pair.near.served, 1);
	assert_int_equal(pair.far.served, 1);
	end(&pair);
}

static void each_end_knows_the_other(void **state)
{
	const struct transport_kind *kind = *state;
	struct pair pair;
	connect_pair(&pair, kind);
	assert_int_equal(pair.near.id.role, TFC__KEY_NODE);
	assert_int_equal(pair.far.id.role, TFC__KEY_NODE);
	assert_true(pair.near.id.address[0]);
	assert_true(pair.far.id.address[0]);
	if (kind->is_noise) {
		assert_string_equal(pair.near.id.node_id, tfc__identity_id(pair.world.theirs));
		assert_string_equal(pair.far.id.node_id, tfc__identity_id(pair.world.ours));
		assert_int_equal(strlen(pair.far.id.key_id), 16);
	} else {
		assert_string_equal(pair.far.id.node_id, "");
	}
	if (!kind->is_noise && strcmp(kind->scheme, "memory") != 0 &&
	    strcmp(kind->scheme, "hosted") != 0) {
		assert_int_equal(pair.far.id.uid, getuid());
		assert_int_equal(pair.near.id.uid, getuid());
	}
	end(&pair);
}

static void a_close_is_reported_once_at_the_other_end(void **state)
{
	struct pair pair;
	struct answer answer;
	connect_pair(&pair, *state);
	call(pair.far.peer, 1, &answer);
	tfc__peer_close(pair.near.peer);
	pair.near.peer = NULL;
	AWAIT(&pair.world, pair.far.is_down && answer.count);
	assert_int_equal(answer.code, TFC_ELOST);
	assert_int_equal(pair.far.why.code, TFC_ELOST);
	assert_null(tfc__peer_rpc(pair.far.peer));
	assert_false(pair.near.is_down);
	end(&pair);
}

static void an_end_may_be_closed_inside_its_callbacks(void **state)
{
	struct pair pair;
	struct answer answer;
	connect_pair(&pair, *state);
	pair.far.is_closing = pair.near.is_closing = true;
	call(pair.near.peer, 1, &answer);
	AWAIT(&pair.world, answer.count && pair.near.is_down);
	assert_null(pair.far.peer);
	assert_null(pair.near.peer);
	end(&pair);
}

static void what_the_owner_does_not_take_is_closed(void **state)
{
	struct pair pair;
	struct side other = {0};
	connect_pair(&pair, *state);
	dial(&pair, &other);
	AWAIT(&pair.world, other.is_down);
	close_end(&other);
	end(&pair);
}

static void a_dial_ends_with_a_sentence_when_nobody_listens(void **state)
{
	struct pair pair;
	char address[128];
	begin(&pair, *state);
	strcpy(address, tfc__peer_listener_address(pair.listener));
	dial(&pair, &pair.near);
	close_end(&pair.near); /* on its way */
	tfc__peer_listener_close(pair.listener);
	pair.listener = NULL;
	const struct tfc__dial_options options = {.address = address,
						  .keyring = pair.world.keyring};
	assert_int_equal(tfc__peer_dial(pair.world.ctx, &options, &ops, &pair.near, NULL,
					&pair.near.peer),
			 TFC_OK);
	assert_false(pair.near.is_down);
	AWAIT(&pair.world, pair.near.is_down);
	assert_false(pair.near.is_up);
	assert_non_null(strstr(pair.near.why.text, address));
	end(&pair);
}

static void an_address_is_listened_on_once(void **state)
{
	struct pair pair;
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__peer_listener *second = NULL;
	begin(&pair, *state);
	const struct tfc__listen_options listen = {.address = tfc__peer_listener_address(
							   pair.listener),
						   .keyring = pair.world.keyring};
	assert_int_equal(tfc__peer_listen(pair.world.ctx, &listen, on_accept, NULL, &error,
					  &second),
			 TFC_EBUSY);
	assert_null(second);
	assert_non_null(strstr(error.text, listen.address));
	end(&pair);
}

int main(void)
{
	const struct transport_test tests[] = {
		{"both ends call each other", both_ends_call_each_other, NULL},
		{"each end knows the other", each_end_knows_the_other, NULL},
		{"a close is reported once", a_close_is_reported_once_at_the_other_end, NULL},
		{"an end may be closed inside its callbacks",
		 an_end_may_be_closed_inside_its_callbacks, NULL},
		{"what the owner does not take is closed", what_the_owner_does_not_take_is_closed,
		 NULL},
		{"a dial ends with a sentence", a_dial_ends_with_a_sentence_when_nobody_listens,
		 NULL},
		{"an address is listened on once", an_address_is_listened_on_once, NULL},
	};
	return transport_run("transport_peer", tests, sizeof(tests) / sizeof(*tests));
}
