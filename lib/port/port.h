/*
 * The inside of a hold, for proc: its socket can move into the guard, which then keeps the port for
 * as long as any of the host, the guard or the task's shim needs it.
 */
#ifndef TFC_PORT_PORT_H
#define TFC_PORT_PORT_H

#include <stdbool.h>
#include <tfcluster/port.h>

/* As the public ones, for the library's own: tfc_ctx_close does not count them. */
int tfc__port_pool_open(tfc_ctx *ctx, const tfc_port_pool_options *options,
			tfc_port_pool **ret_pool);
int tfc__port_acquire(tfc_port_pool *pool, uint16_t port, tfc_port_hold **ret_hold);

/* What a keeper does for a hold whose socket it has; `kept` is its own word for that. */
struct tfc__port_keeper {
	int (*admit)(void *kept, bool is_open);
	void (*release)(void *kept);
};

/* The hold's socket while the hold has it itself, or -1. Borrowed. */
int tfc__port_fd(const tfc_port_hold *hold);

/* Closes the hold's own socket: from now on the keeper is asked. */
void tfc__port_move(tfc_port_hold *hold, const struct tfc__port_keeper *ops, void *kept);

/* What its keeper calls it; NULL: nobody keeps it. */
void *tfc__port_kept(const tfc_port_hold *hold);

/* The keeper is gone and the port free: admitting is TFC_ELOST until it is taken again. */
void tfc__port_lose(tfc_port_hold *hold);

/* Gives the port up for a while, to a program that must have it alone; then it counts as lost. */
void tfc__port_vacate(tfc_port_hold *hold);

/* Takes a lost hold's port again, by the rules of a fixed port. TFC_EBUSY as in tfc_port_acquire.
 */
int tfc__port_retake(tfc_port_hold *hold);
bool tfc__port_is_lost(const tfc_port_hold *hold);

/* Whether tfc_port_hold_listener has told of a foreign listener before it was through with all
 * processes: the next call goes on with the search for its pid. */
bool tfc__port_is_searching(const tfc_port_hold *hold);

/*
 * One look at the kernel's table of listening TCP sockets, for many ports at once: calls fn for
 * each listener on a port between first and last (one sock_diag dump). Returns 0 or an enum
 * tfc_err.
 */
typedef void (*tfc__listener_fn)(void *user, uint16_t port, uint32_t uid, uint32_t inode);
int tfc__port_each_listener(tfc_ctx *ctx, uint16_t first, uint16_t last, tfc__listener_fn fn,
			    void *user);

#endif
