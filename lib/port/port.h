/*
 * The internal interface of a port hold, for the module proc. A hold's socket can move into the
 * guard, which then keeps the port as long as the host, the guard or the task's shim needs it.
 */
#ifndef TFC_PORT_PORT_H
#define TFC_PORT_PORT_H

#include <stdbool.h>
#include <tfcluster/port.h>

/* Like the public functions, for the library's own pools and holds: tfc_ctx_close does not count
 * them. */
int tfc__port_pool_open(tfc_ctx *ctx, const tfc_port_pool_options *options,
			tfc_port_pool **ret_pool);
int tfc__port_acquire(tfc_port_pool *pool, uint16_t port, tfc_port_hold **ret_hold);

/* A port such as the pool has, but perhaps beyond its last: a different one for each number. */
uint16_t tfc__port_pool_example(const tfc_port_pool *pool, uint32_t number);

/* The functions of a keeper, which has the socket of a hold; `kept` is the keeper's name for the
 * socket. */
struct tfc__port_keeper {
	int (*set_bind_window)(void *kept, bool is_open);
	void (*release)(void *kept);
};

/* The hold's socket if the hold itself has it, or -1. Borrowed. */
int tfc__port_fd(const tfc_port_hold *hold);

/* Closes the hold's own socket; from then on the hold calls the keeper's functions. */
void tfc__port_move(tfc_port_hold *hold, const struct tfc__port_keeper *ops, void *kept);

/* The keeper's name for the socket; NULL if the hold has no keeper. */
void *tfc__port_kept(const tfc_port_hold *hold);

/* Reports that the keeper has ended and the port is free: tfc_port_hold_set_open returns TFC_ELOST
 * until the port is acquired again. */
void tfc__port_lose(tfc_port_hold *hold);

/* Releases the port for a program that must have it alone; the hold then counts as lost. */
void tfc__port_hand_over(tfc_port_hold *hold);

/* Acquires a lost hold's port again, by the rules of a fixed port. TFC_EBUSY as in
 * tfc_port_acquire. */
int tfc__port_reacquire(tfc_port_hold *hold);
bool tfc__port_is_lost(const tfc_port_hold *hold);

/* Whether tfc_port_hold_listener has reported a foreign listener before all processes were
 * searched; the next call continues the search for its pid. */
bool tfc__port_is_searching(const tfc_port_hold *hold);

/*
 * Reads the kernel's table of listening TCP sockets once (one sock_diag dump) and calls fn for each
 * listener on a port from first to last. Returns 0 or an enum tfc_err.
 */
typedef void (*tfc__listener_fn)(void *user, uint16_t port, uint32_t uid, uint32_t inode);
int tfc__port_each_listener(tfc_ctx *ctx, uint16_t first, uint16_t last, tfc__listener_fn fn,
			    void *user);

#endif
