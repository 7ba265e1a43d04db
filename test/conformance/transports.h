/*
 * What the suites of transports share: every transport, plain and with Noise, as a parameter; a
 * world with a context and keys; ends of channels that note what comes.
 */
#ifndef TEST_TRANSPORTS_H
#define TEST_TRANSPORTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "leaks.h"
#include "transport/channel.h"
#include "transport/peer.h"
#include "wire/keyring.h"

struct transport_kind {
	const char *name;
	const char *scheme; /* "tcp", "unix", "memory", "hosted" */
	bool is_noise;
};

#define TRANSPORT_KINDS 7
extern const struct transport_kind transport_kinds[TRANSPORT_KINDS];

/* Runs each test once a kind; *state is the kind. */
struct transport_test {
	const char *name;
	CMUnitTestFunction run;
	bool (*is_for)(const struct transport_kind *kind); /* NULL: for all */
};
int transport_run(const char *group, const struct transport_test *tests, size_t count);

bool transport_has_noise(const struct transport_kind *kind);
bool transport_is_socket(const struct transport_kind *kind); /* reaches other processes */

struct world {
	const struct transport_kind *kind;
	tfc_ctx *ctx;
	struct hosted *hosted; /* or NULL */
	char dir[LEAKS_PATH];
	char address[128];            /* to listen on */
	struct tfc__keyring *keyring; /* NULL: plain */
	struct tfc__identity *ours, *theirs;
	char log[512]; /* the last entry */
	uint32_t logs; /* entries at all */
};

void world_begin(struct world *world, const struct transport_kind *kind);
void world_end(struct world *world);
/* A key file of one key in the world's directory, loaded; the caller frees it. */
struct tfc__keyring *world_keyring(struct world *world, const char *name, enum tfc__key_role role);

/* One turn of the loop; waits up to 50 ms. */
void world_turn(struct world *world);

/* Turns until the claim is true; fails the test after 20 s. */
#define AWAIT(world, claim)                                                                \
	do {                                                                               \
		uint64_t await_deadline_ = world_deadline();                               \
		while (!(claim)) {                                                         \
			world_turn(world);                                                 \
			world_check_deadline(await_deadline_, #claim, __FILE__, __LINE__); \
		}                                                                          \
	} while (0)
uint64_t world_deadline(void);
void world_check_deadline(uint64_t deadline, const char *claim, const char *file, int line);
/* Turns until nothing is left to do at once. */
void world_settle(struct world *world);

/* ---- raw pipes */

struct raw {
	tfc_pipe *pipe;    /* NULL: none (yet) */
	uint32_t reported; /* events so far; clear it to wait for more */
};

/* Listens and keeps the last pipe that came. */
struct raw_listener {
	tfc_listener *listener;
	struct raw *raw;
};

void raw_listen(struct world *world, const char *address, struct raw_listener *ret_listener,
		struct raw *ret_accepted);
void raw_dial(struct world *world, const char *address, struct raw *ret_raw);
/* Reads all there is, up to `size`; -1: the other end has closed. */
int64_t raw_read(struct raw *raw, void *data, size_t size);
void raw_write(struct raw *raw, const void *data, size_t len); /* all of it fits */
void raw_close(struct raw *raw);

/* ---- ends of a channel */

struct end {
	struct tfc__channel *channel;
	bool is_up;
	bool is_down;
	tfc_error why;
	uint32_t messages;
	uint64_t bytes;
	struct tfc__buf last;                                              /* the last message */
	void (*on_message)(struct end *end, const void *data, size_t len); /* or NULL */
	void *user;
};

/* Accepts one connection after the other into ends[0], ends[1], ... */
struct end_listener {
	struct world *world;
	tfc_listener *listener;
	struct end *ends;
	size_t next;
	size_t count;
};

void end_listen(struct world *world, const char *address, struct end *ends, size_t count,
		struct end_listener *ret_listener);
void end_dial(struct world *world, const char *address, struct end *end);
void end_send(struct end *end, const void *data, size_t len);
void end_close(struct end *end);

/* Two ends that are up. */
struct end_pair {
	struct world world;
	struct end_listener listener;
	struct end near; /* dialed */
	struct end far;  /* accepted */
};

void end_pair_begin(struct end_pair *pair, const struct transport_kind *kind);
void end_pair_end(struct end_pair *pair);

/* ---- a peer that notes who came, and how it ended */

struct peer_side {
	struct tfc__peer *peer; /* the test's to close */
	bool is_up;
	bool is_down;
	tfc_error why;
	struct tfc__peer_id id;
};

extern const struct tfc__peer_ops peer_side_ops; /* user: the side */
/* A tfc__accept_fn; user: the side, which keeps the last that came. */
void peer_side_accept(void *user, struct tfc__peer *peer);

#endif
