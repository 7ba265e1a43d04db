/* transport: who is let in, what is said to those who are not, and how often it is logged. */
#include "transports.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"

struct door {
	struct world world;
	struct tfc__peer_listener *listener;
	struct peer_side in, out;
};

static void begin_with(struct door *door, const struct transport_kind *kind,
		       const struct tfc__listen_options *more)
{
	tfc_error error = TFC_ERROR_INIT;
	*door = (struct door){0};
	world_begin(&door->world, kind);
	struct tfc__listen_options options = *more;
	options.address = door->world.address;
	options.keyring = door->world.keyring;
	options.identity = door->world.theirs;
	if (tfc__peer_listen(door->world.ctx, &options, peer_side_accept, &door->in, &error,
			     &door->listener) < 0)
		fail_msg("%s", error.text);
}

static void begin(struct door *door, const struct transport_kind *kind)
{
	const struct tfc__listen_options none = {0};
	begin_with(door, kind, &none);
}

static void knock(struct door *door, struct tfc__keyring *keyring, const char *pinned)
{
	tfc_error error = TFC_ERROR_INIT;
	const struct tfc__dial_options options = {
		.address = tfc__peer_listener_address(door->listener),
		.keyring = keyring,
		.identity = door->world.ours,
		.pinned_node_id = pinned,
		.timeout_ms = 15000,
	};
	tfc__peer_close(door->out.peer);
	door->out = (struct peer_side){0};
	if (tfc__peer_dial(door->world.ctx, &options, &peer_side_ops, &door->out, &error,
			   &door->out.peer) < 0)
		fail_msg("%s", error.text);
	AWAIT(&door->world, door->out.is_up || door->out.is_down);
}

static void end(struct door *door)
{
	tfc__peer_close(door->in.peer);
	tfc__peer_close(door->out.peer);
	tfc__peer_listener_close(door->listener);
	world_end(&door->world);
}

static void another_clusters_key_is_refused(void **state)
{
	struct door door;
	begin(&door, *state);
	struct tfc__keyring *other = world_keyring(&door.world, "other", TFC__KEY_NODE);
	knock(&door, other, NULL);
	assert_true(door.out.is_down);
	assert_false(door.in.is_up);
	assert_int_equal(door.out.why.code, TFC_EACCES);
	assert_non_null(strstr(door.out.why.text, "key"));
	const char *address = tfc__peer_listener_address(door.listener);
	assert_memory_equal(door.out.why.text, address, strlen(address));
	assert_memory_equal(door.out.why.text + strlen(address), ": the peer", 10);
	AWAIT(&door.world, door.world.logs == 1);
	assert_non_null(strstr(door.world.log, "not in this side's key file"));
	tfc__keyring_free(other);
	end(&door);
}

static void no_key_is_refused(void **state)
{
	struct door door;
	begin(&door, *state);
	knock(&door, NULL, NULL);
	assert_true(door.out.is_down);
	assert_false(door.in.is_up);
	assert_int_equal(door.out.why.code, TFC_EACCES);
	assert_non_null(strstr(door.out.why.text, "key_file"));
	AWAIT(&door.world, door.world.logs == 1);
	end(&door);
}

static void a_key_where_none_is_set_is_refused(void **state)
{
	struct door door;
	begin(&door, *state);
	struct tfc__keyring *ring = world_keyring(&door.world, "ours", TFC__KEY_NODE);
	knock(&door, ring, NULL);
	assert_true(door.out.is_down);
	assert_false(door.in.is_up);
	assert_int_equal(door.out.why.code, TFC_EACCES);
	assert_non_null(strstr(door.out.why.text, "the peer has no key file"));
	tfc__keyring_free(ring);
	end(&door);
}

static const enum tfc__key_role roles[] = {TFC__KEY_READ, TFC__KEY_SUBMIT, TFC__KEY_NODE};

/* A key of each role in a file of its own, and all of them in one. */
static struct tfc__keyring *make_keys(struct world *world, struct tfc__keyring *ret_rings[3])
{
	char path[LEAKS_PATH + 32], line[256];
	struct tfc__keyring *all = NULL;
	snprintf(path, sizeof(path), "%s/all", world->dir);
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	assert_int_equal(fchmod(fileno(file), 0600), 0);
	for (int i = 0; i < 3; i++) {
		const char *name = tfc__key_role_name(roles[i]);
		ret_rings[i] = world_keyring(world, name, roles[i]);
		snprintf(path, sizeof(path), "%s/%s", world->dir, name);
		assert_true(tfc__read_text(path, line, sizeof(line)) > 0);
		assert_true(fputs(line, file) >= 0);
	}
	assert_int_equal(fclose(file), 0);
	snprintf(path, sizeof(path), "%s/all", world->dir);
	assert_int_equal(tfc__keyring_load(path, NULL, &all), TFC_OK);
	return all;
}

/* The listener's file has keys of all roles; the one that is shown decides. */
static void the_role_of_the_key_is_the_role_of_the_peer(void **state)
{
	struct door door;
	struct world *world = &door.world;
	struct tfc__keyring *rings[3];
	begin(&door, *state);
	struct tfc__keyring *all = make_keys(world, rings);
	tfc__peer_listener_close(door.listener);
	const struct tfc__listen_options options = {.address = world->address,
						    .keyring = all,
						    .identity = world->theirs};
	assert_int_equal(tfc__peer_listen(world->ctx, &options, peer_side_accept, &door.in, NULL,
					  &door.listener),
			 TFC_OK);
	for (int i = 0; i < 3; i++) {
		door.in.is_up = false;
		knock(&door, rings[i], NULL);
		assert_true(door.out.is_up);
		AWAIT(world, door.in.is_up);
		assert_int_equal(door.in.id.role, roles[i]);
		assert_int_equal(door.out.id.role, roles[i]);
	}
	end(&door);
	tfc__keyring_free(all);
	for (int i = 0; i < 3; i++)
		tfc__keyring_free(rings[i]);
}

/* Both ends have the key first; then the acceptor's file loses it. */
static void a_connection_ends_when_its_key_is_removed(void **state)
{
	struct door door;
	struct world *world = &door.world;
	char path[LEAKS_PATH + 32];
	struct tfc__keyring *old = NULL;
	begin(&door, *state);
	snprintf(path, sizeof(path), "%s/keys", world->dir);
	assert_int_equal(tfc__keyring_load(path, NULL, &old), TFC_OK);
	knock(&door, old, NULL);
	assert_true(door.out.is_up);
	AWAIT(world, door.in.is_up);
	assert_true(
		tfc__keyring_replace(world->keyring, world_keyring(world, "new", TFC__KEY_NODE)));
	AWAIT(world, door.in.is_down && door.out.is_down);
	assert_int_equal(door.in.why.code, TFC_ELOST);
	assert_non_null(strstr(door.in.why.text, "was removed from the key file"));
	knock(&door, old, NULL);
	assert_true(door.out.is_down);
	assert_int_equal(door.out.why.code, TFC_EACCES);
	tfc__keyring_free(old);
	end(&door);
}

static void a_pinned_node_is_that_node(void **state)
{
	struct door door;
	begin(&door, *state);
	knock(&door, door.world.keyring, tfc__identity_id(door.world.theirs));
	assert_true(door.out.is_up);
	knock(&door, door.world.keyring, tfc__identity_id(door.world.ours));
	assert_true(door.out.is_down);
	assert_false(door.out.is_up);
	assert_int_equal(door.out.why.code, TFC_EACCES);
	assert_non_null(strstr(door.out.why.text, tfc__identity_id(door.world.theirs)));
	assert_non_null(strstr(door.out.why.text, tfc__identity_id(door.world.ours)));
	end(&door);
}

static void a_key_of_that_role_must_be_there(void **state)
{
	struct door door;
	struct tfc__peer *peer = NULL;
	tfc_error error = TFC_ERROR_INIT;
	begin(&door, *state);
	const struct tfc__dial_options options = {
		.address = tfc__peer_listener_address(door.listener),
		.keyring = door.world.keyring,
		.role = TFC__KEY_READ,
	};
	assert_int_equal(tfc__peer_dial(door.world.ctx, &options, &peer_side_ops, NULL, &error,
					&peer),
			 TFC_EINVAL);
	assert_non_null(strstr(error.text, "read"));
	assert_null(peer);
	end(&door);
}

/* ---- those who knock and say nothing */

static void a_silent_connection_is_closed(void **state)
{
	struct door door;
	struct raw silent;
	char byte;
	const struct tfc__listen_options soon = {.handshake_ms = 30};
	begin_with(&door, *state, &soon);
	raw_dial(&door.world, tfc__peer_listener_address(door.listener), &silent);
	AWAIT(&door.world, raw_read(&silent, &byte, 1) < 0);
	assert_int_equal(door.world.logs, 1);
	assert_non_null(strstr(door.world.log, "in time"));
	raw_close(&silent);
	end(&door);
}

static void a_silent_connection_that_ends_is_not_refused(void **state)
{
	struct door door;
	struct raw silent;
	begin(&door, *state);
	struct tfc__keyring *other = world_keyring(&door.world, "other", TFC__KEY_NODE);
	raw_dial(&door.world, tfc__peer_listener_address(door.listener), &silent);
	knock(&door, door.world.keyring, NULL);
	assert_true(door.out.is_up);
	raw_close(&silent);
	knock(&door, other, NULL);
	AWAIT(&door.world, door.world.logs == 1);
	assert_non_null(strstr(door.world.log, "not in this side's key file"));
	tfc__keyring_free(other);
	end(&door);
}

static void a_dialer_gives_a_silent_listener_up(void **state)
{
	struct world world;
	struct raw_listener listener;
	struct raw accepted;
	struct peer_side out = {0};
	world_begin(&world, *state);
	raw_listen(&world, world.address, &listener, &accepted);
	const struct tfc__dial_options options = {
		.address = tfc__listener_address(listener.listener),
		.keyring = world.keyring,
		.timeout_ms = 50,
	};
	assert_int_equal(tfc__peer_dial(world.ctx, &options, &peer_side_ops, &out, NULL, &out.peer),
			 TFC_OK);
	AWAIT(&world, out.is_down);
	assert_int_equal(out.why.code, TFC_ETIMEDOUT);
	assert_non_null(strstr(out.why.text, options.address));
	tfc__peer_close(out.peer);
	raw_close(&accepted);
	tfc__listener_close(listener.listener);
	world_end(&world);
}

#define MANY 1000
#define MOST 100

/* The oldest make room for the newest, who may be somebody. */
static void many_half_open_ones_do_not_keep_others_out(void **state)
{
	static struct raw silent[MANY];
	struct door door;
	char byte;
	const struct tfc__listen_options some = {.half_open_max = MOST, .handshake_ms = 60000};
	uint64_t begun = tfc__now();
	begin_with(&door, *state, &some);
	for (int i = 0; i < MANY; i++)
		raw_dial(&door.world, tfc__peer_listener_address(door.listener), &silent[i]);
	AWAIT(&door.world, raw_read(&silent[MANY - MOST - 1], &byte, 1) < 0);
	for (int i = 0; i < MANY - MOST; i++)
		AWAIT(&door.world, raw_read(&silent[i], &byte, 1) < 0);
	for (int i = MANY - MOST; i < MANY; i++)
		assert_int_equal(raw_read(&silent[i], &byte, 1), 0);
	knock(&door, door.world.keyring, NULL);
	assert_true(door.out.is_up);
	assert_in_range(door.world.logs, 1, 2 + (tfc__now() - begun) / TFC__SECOND);
	for (int i = 0; i < MANY; i++)
		raw_close(&silent[i]);
	end(&door);
}

static bool takes_keys(const struct transport_kind *kind)
{
	return !kind->is_noise && strcmp(kind->scheme, "unix") != 0;
}

int main(void)
{
#define WITH_NOISE(name)                         \
	{                                        \
#name, name, transport_has_noise \
	}
	const struct transport_test tests[] = {
		WITH_NOISE(another_clusters_key_is_refused),
		WITH_NOISE(no_key_is_refused),
		WITH_NOISE(the_role_of_the_key_is_the_role_of_the_peer),
		WITH_NOISE(a_connection_ends_when_its_key_is_removed),
		WITH_NOISE(a_pinned_node_is_that_node),
		WITH_NOISE(a_key_of_that_role_must_be_there),
		{"a key where none is set is refused", a_key_where_none_is_set_is_refused,
		 takes_keys},
		{"a silent connection is closed", a_silent_connection_is_closed, NULL},
		WITH_NOISE(a_silent_connection_that_ends_is_not_refused),
		{"a dialer gives a silent listener up", a_dialer_gives_a_silent_listener_up, NULL},
		{"many half-open ones do not keep others out",
		 many_half_open_ones_do_not_keep_others_out, NULL},
	};
	return transport_run("transport_keys", tests, sizeof(tests) / sizeof(*tests));
}
