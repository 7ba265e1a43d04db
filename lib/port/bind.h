/*
 * Binds the socket of a port hold and reports why the kernel refuses it.
 */
#ifndef TFC_PORT_BIND_H
#define TFC_PORT_BIND_H

#include <stdint.h>
#include <tfcluster/error.h>

/*
 * Opens a TCP socket for a port hold: dual stack, or IPv4 where IPv6 is off, without SO_REUSEADDR.
 * Returns the descriptor, or -1 and errno.
 */
int tfc__hold_socket(void);

/*
 * Binds *fd to the wildcard address and `port`. If IPv6 has no addresses, replaces the socket by an
 * IPv4 socket. Returns 0, or -1 and errno; after EADDRINUSE the socket can be bound again.
 */
int tfc__hold_bind(int *fd, uint16_t port);

/*
 * Opens a socket bound to exactly this port. Also succeeds when the port has only connections that
 * no process owns any more (TIME_WAIT and similar states). Returns the descriptor, or an enum
 * tfc_err; the text of TFC_EBUSY names the process that uses the port.
 */
int tfc__hold_bind_fixed(uint16_t port, tfc_error *error);

/* Reports a bind that failed for a reason other than EADDRINUSE. */
int tfc__hold_fail(tfc_error *error, uint16_t port, int sys_errno);

#endif
