/*
 * The user of the other end of a TCP connection, or of the sender of a UDP datagram, within this
 * machine.
 */
#ifndef TFC_PORT_TCP_USER_H
#define TFC_PORT_TCP_USER_H

#include <stdint.h>
#include <sys/socket.h>

/*
 * Finds the user of the socket that is connected from `from` to `to`, both on this machine and of
 * one family. Returns 0, or -1 when the kernel does not report it or no process owns the socket any
 * more.
 */
int tfc__tcp_user(const struct sockaddr_storage *from, const struct sockaddr_storage *to,
		  uint32_t *ret_uid);

/* Finds the user of the UDP socket at `from`, from which a datagram came to `to`. Returns 0, or -1
 * as tfc__tcp_user. */
int tfc__udp_user(const struct sockaddr_storage *from, const struct sockaddr_storage *to,
		  uint32_t *ret_uid);

#endif
