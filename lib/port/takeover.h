/*
 * Acquires a port on which the connections of a dead server are still closing.
 *
 * The kernel allows that only to a socket with SO_REUSEADDR. With that flag, however, the socket
 * could also be bound beside another hold whose bind window is open at that moment. The acquirer
 * therefore first binds a second socket, the blocker (TFC__BLOCKER_ADDRESS), to a fixed address in
 * 127/8 without the flag. The blocker conflicts with every socket on a wildcard address, hence with
 * every hold, whether its window is open or closed, and with the blocker of another acquirer. It
 * does not conflict with dead connections, whose addresses are different. While the blocker is
 * bound, no other process can become a holder; the bind with the flag is therefore exclusive.
 */
#ifndef TFC_PORT_TAKEOVER_H
#define TFC_PORT_TAKEOVER_H

#include <stdint.h>
#include <sys/socket.h>
#include <tfcluster/error.h>

#define TFC__BLOCKER_ADDRESS 0x7f544643 /* 127.84.70.67; the same for all processes */

/* 0, or -1 and errno. */
static inline int tfc__set_reuseaddr(int fd, int is_on)
{
	return setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &is_on, sizeof(is_on));
}

/*
 * Binds *fd, a new socket whose plain bind failed with EADDRINUSE, to `port` and leaves
 * SO_REUSEADDR off. The text of TFC_EBUSY names the process that uses the port, if the kernel
 * reports it.
 */
int tfc__hold_take_over(int *fd, uint16_t port, tfc_error *error);

#endif
