/*
 * Taking a port on which a dead server's connections are still dying.
 *
 * The kernel allows that only to a socket with SO_REUSEADDR, and then it would also let us in
 * beside any other hold whose door is open at that moment. So the taker first binds a second
 * socket, the latch, to one fixed address of 127/8, without the flag. The latch collides with every
 * socket on a wildcard address, hence with every hold, open or not, and with the latch of another
 * taker; it does not collide with dead connections, whose addresses are others. While it is bound
 * nobody can become a holder; behind it the bind with the flag is exclusive.
 */
#ifndef TFC_PORT_TAKEOVER_H
#define TFC_PORT_TAKEOVER_H

#include <stdint.h>
#include <tfcluster/error.h>

#define TFC__LATCH_ADDRESS 0x7f544643 /* 127.84.70.67; any, but the same for all takers */

/*
 * Binds *fd, a fresh socket whose plain bind failed with EADDRINUSE, to `port`; leaves SO_REUSEADDR
 * off. TFC_EBUSY names who has the port as far as the kernel tells.
 */
int tfc__hold_take_over(int *fd, uint16_t port, tfc_error *error);

#endif
