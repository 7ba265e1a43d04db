/*
 * Binding the socket of a hold, and what to say when the kernel refuses.
 */
#ifndef TFC_PORT_BIND_H
#define TFC_PORT_BIND_H

#include <stdint.h>
#include <tfcluster/error.h>

/*
 * Opens a TCP socket for a hold: dual stack, or IPv4 where IPv6 is off, and no SO_REUSEADDR.
 * Returns the descriptor, or -1 and errno.
 */
int tfc__hold_socket(void);

/*
 * Binds *fd to the wildcard address and `port`. Where IPv6 has no addresses the socket is replaced
 * by one of IPv4. Returns 0, or -1 and errno; after EADDRINUSE the socket is good for another try.
 */
int tfc__hold_bind(int *fd, uint16_t port);

/*
 * A socket bound to exactly this port, also when only connections that no process owns any more
 * (TIME_WAIT and its like) are left on it. Returns the descriptor, or an enum tfc_err: TFC_EBUSY
 * tells who has the port.
 */
int tfc__hold_bind_fixed(uint16_t port, tfc_error *error);

/* The sentence for a bind that failed for a reason other than EADDRINUSE. */
int tfc__hold_fail(tfc_error *error, uint16_t port, int sys_errno);

#endif
