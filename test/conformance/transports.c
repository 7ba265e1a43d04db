#include "transports.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "hosted_transport.h"

#define PATIENCE (20 * TFC__SECOND)

const struct transport_kind transport_kinds[TRANSPORT_KINDS] = {
	{"tcp", "tcp", false},
	{"tcp with Noise", "tcp", true},
	{"unix", "unix", false},
	{"memory", "memory", false},
	{"memory with Noise", "memory", true},
	{"a host's", "hosted", false},
	{"a host's with Noise", "hosted", true},
};

bool transport_has_noise(const struct transport_kind *kind)
{
	return kind->is_noise;
}

bool transport_is_socket(const struct transport_kind *kind)
{
	return strcmp(kind->scheme, "memory") != 0;
}

/* ---- running */

static void add_test(struct CMUnitTest *all, char (*names)[128], size_t at,
		     const struct transport_test *test, const struct transport_kind *kind)
{
	snprintf(names[at], sizeof(names[at]), "%s: %s", kind->name, test->name);
	all[at] = (struct CMUnitTest){.name = names[at],
				      .test_func = test->run,
				      .initial_state = (void *)(uintptr_t)kind};
}

int transport_run(const char *group, const struct transport_test *tests, size_t count)
{
	size_t most = count * TRANSPORT_KINDS, len = 0;
	struct CMUnitTest *all = calloc(most, sizeof(*all));
	char(*names)[128] = calloc(most, sizeof(*names));
	if (!all || !names)
		return 1;
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < TRANSPORT_KINDS; j++)
			if (!tests[i].is_for || tests[i].is_for(&transport_kinds[j]))
				add_test(all, names, len++, &tests[i], &transport_kinds[j]);
	int failed = _cmocka_run_group_tests(group, all, len, NULL, NULL);
	free(all);
	free(names);
	return failed;
}

/* ---- the world */

static void note_log(void *user, const tfc_log_entry *entry)
{
	struct world *world = user;
	snprintf(world->log, sizeof(world->log), "%s", entry->text);
	world->logs++;
}

static void choose_address(struct world *world)
{
	const char *scheme = world->kind->scheme;
	if (strcmp(scheme, "tcp") == 0)
		strcpy(world->address, "tcp://127.0.0.1:0");
	else if (strcmp(scheme, "memory") == 0)
		strcpy(world->address, "memory:there");
	else
		snprintf(world->address, sizeof(world->address), "%s:%s/socket", scheme,
			 world->dir);
}

struct tfc__keyring *world_keyring(struct world *world, const char *name, enum tfc__key_role role)
{
	char path[LEAKS_PATH + 32];
	struct tfc__keyring *ring = NULL;
	tfc_error error = TFC_ERROR_INIT;
	snprintf(path, sizeof(path), "%s/%s", world->dir, name);
	if (tfc__keyring_generate(path, role, &error) < 0 ||
	    tfc__keyring_load(path, &error, &ring) < 0)
		fail_msg("%s", error.text);
	return ring;
}

static void make_keys(struct world *world)
{
	world->keyring = world_keyring(world, "keys", TFC__KEY_NODE);
	assert_int_equal(tfc__identity_open(NULL, NULL, &world->ours), TFC_OK);
	assert_int_equal(tfc__identity_open(NULL, NULL, &world->theirs), TFC_OK);
}

void world_begin(struct world *world, const struct transport_kind *kind)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	*world = (struct world){.kind = kind};
	options.helper_dir = getenv("TFC_HELPER_DIR");
	options.log = note_log;
	options.log_user = world;
	options.log_level = TFC_LOG_WARNING;
	leaks_make_dir(world->dir);
	if (tfc_ctx_new(&options, &error, &world->ctx) < 0)
		fail_msg("%s", error.text);
	choose_address(world);
	if (kind->is_noise)
		make_keys(world);
	if (strcmp(kind->scheme, "hosted") == 0) {
		world->hosted = hosted_register(world->ctx);
		assert_non_null(world->hosted);
	}
}

void world_end(struct world *world)
{
	tfc_ctx_free(world->ctx);
	tfc__keyring_free(world->keyring);
	tfc__identity_free(world->ours);
	tfc__identity_free(world->theirs);
	tfc__remove_tree(world->dir);
}

void world_turn(struct world *world)
{
	if (world->hosted)
		assert_true(hosted_turn(world->hosted, 50) >= 0);
	else
		assert_true(tfc_ctx_run(world->ctx, 50) >= 0);
}

uint64_t world_deadline(void)
{
	return tfc__now() + PATIENCE;
}

void world_check_deadline(uint64_t deadline, const char *claim, const char *file, int line)
{
	if (tfc__now() > deadline)
		fail_msg("%s:%d: still not true: %s", file, line, claim);
}

void world_settle(struct world *world)
{
	struct pollfd ready = {.fd = tfc_ctx_fd(world->ctx), .events = POLLIN};
	while (poll(&ready, 1, 0) > 0)
		assert_true(tfc_ctx_dispatch(world->ctx, 0) >= 0);
}

/* ---- raw pipes */

static void on_raw(void *user, uint32_t events)
{
	((struct raw *)user)->reported |= events;
}

static int on_raw_pipe(void *user, tfc_pipe *pipe)
{
	struct raw_listener *listener = user;
	tfc__pipe_close(listener->raw->pipe);
	listener->raw->pipe = pipe;
	tfc__pipe_set_owner(pipe, on_raw, listener->raw);
	return TFC_OK;
}

static uint32_t flags_of(const struct world *world)
{
	return world->keyring ? 0 : TFC_TRANSPORT_FLAG_PLAIN;
}

void raw_listen(struct world *world, const char *address, struct raw_listener *ret_listener,
		struct raw *ret_accepted)
{
	tfc_error error = TFC_ERROR_INIT;
	*ret_accepted = (struct raw){0};
	*ret_listener = (struct raw_listener){.raw = ret_accepted};
	if (tfc__listener_open(world->ctx, address, flags_of(world), on_raw_pipe, ret_listener,
			       &error, &ret_listener->listener) < 0)
		fail_msg("%s", error.text);
}

void raw_dial(struct world *world, const char *address, struct raw *ret_raw)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_pipe_info info;
	*ret_raw = (struct raw){0};
	if (tfc__pipe_dial(world->ctx, address, flags_of(world), on_raw, ret_raw, &error,
			   &ret_raw->pipe) < 0)
		fail_msg("%s", error.text);
	AWAIT(world, tfc__pipe_describe(ret_raw->pipe, &error, &info) == TFC_OK);
}

int64_t raw_read(struct raw *raw, void *data, size_t size)
{
	tfc_error error = TFC_ERROR_INIT;
	size_t len = 0;
	for (int64_t count = 1; count && len < size; len += (size_t)count) {
		count = tfc__pipe_read(raw->pipe, (char *)data + len, size - len, &error);
		if (count < 0)
			return len ? (int64_t)len : -1;
	}
	return (int64_t)len;
}

void raw_write(struct raw *raw, const void *data, size_t len)
{
	tfc_error error = TFC_ERROR_INIT;
	if (len)
		assert_int_equal(tfc__pipe_write(raw->pipe, data, len, &error), len);
}

void raw_close(struct raw *raw)
{
	tfc__pipe_close(raw->pipe);
	raw->pipe = NULL;
}

/* ---- ends */

static void on_up(void *user)
{
	struct end *end = user;
	assert_false(end->is_up);
	end->is_up = true;
}

static void on_message(void *user, const void *data, size_t len)
{
	struct end *end = user;
	assert_true(end->is_up);
	assert_false(end->is_down);
	end->messages++;
	end->bytes += len;
	if (end->on_message) {
		end->on_message(end, data, len);
		return;
	}
	tfc__buf_clear(&end->last);
	tfc__buf_add(&end->last, data, len);
}

static void on_down(void *user, const tfc_error *why)
{
	struct end *end = user;
	assert_false(end->is_down);
	assert_true(why->code < 0);
	assert_true(why->text[0]);
	end->is_down = true;
	end->why = *why;
}

static const struct tfc__channel_ops end_ops = {on_up, on_message, NULL, NULL, on_down};

static int on_end_pipe(void *user, tfc_pipe *pipe)
{
	struct end_listener *listener = user;
	const struct world *world = listener->world;
	const struct tfc__channel_options options = {.is_noise = world->kind->is_noise,
						     .keyring = world->keyring,
						     .identity = world->theirs};
	if (listener->next == listener->count)
		return TFC_EBUSY;
	struct end *end = &listener->ends[listener->next++];
	return tfc__channel_accept(world->ctx, pipe, &options, &end_ops, end, &end->channel);
}

void end_listen(struct world *world, const char *address, struct end *ends, size_t count,
		struct end_listener *ret_listener)
{
	tfc_error error = TFC_ERROR_INIT;
	*ret_listener = (struct end_listener){.world = world, .ends = ends, .count = count};
	if (tfc__listener_open(world->ctx, address, flags_of(world), on_end_pipe, ret_listener,
			       &error, &ret_listener->listener) < 0)
		fail_msg("%s", error.text);
}

void end_dial(struct world *world, const char *address, struct end *end)
{
	tfc_error error = TFC_ERROR_INIT;
	const struct tfc__channel_options options = {
		.is_dialer = true,
		.is_noise = world->kind->is_noise,
		.keyring = world->keyring,
		.identity = world->ours,
	};
	if (tfc__channel_dial(world->ctx, address, flags_of(world), &options, &end_ops, end, &error,
			      &end->channel) < 0)
		fail_msg("%s", error.text);
}

void end_send(struct end *end, const void *data, size_t len)
{
	struct tfc__buf message = {0};
	tfc__buf_add(&message, data, len);
	tfc__channel_send(end->channel, &message);
}

void end_close(struct end *end)
{
	tfc__channel_close(end->channel);
	end->channel = NULL;
	tfc__buf_fini(&end->last);
}

void end_pair_begin(struct end_pair *pair, const struct transport_kind *kind)
{
	*pair = (struct end_pair){0};
	world_begin(&pair->world, kind);
	end_listen(&pair->world, pair->world.address, &pair->far, 1, &pair->listener);
	end_dial(&pair->world, tfc__listener_address(pair->listener.listener), &pair->near);
	AWAIT(&pair->world, pair->near.is_up && pair->far.is_up);
}

void end_pair_end(struct end_pair *pair)
{
	end_close(&pair->near);
	end_close(&pair->far);
	tfc__listener_close(pair->listener.listener);
	world_end(&pair->world);
}

/* ---- peers */

static void on_peer_up(struct tfc__peer *peer, void *user)
{
	struct peer_side *side = user;
	side->is_up = true;
	side->id = *tfc__peer_id(peer);
}

static void on_peer_down(struct tfc__peer *peer, void *user, const tfc_error *why)
{
	struct peer_side *side = user;
	side->is_down = true;
	side->why = *why;
}

const struct tfc__peer_ops peer_side_ops = {.up = on_peer_up, .down = on_peer_down};

void peer_side_accept(void *user, struct tfc__peer *peer)
{
	struct peer_side *side = user;
	tfc__peer_close(side->peer);
	side->peer = peer;
	on_peer_up(peer, side);
	tfc__peer_accept(peer, &peer_side_ops, side);
}
