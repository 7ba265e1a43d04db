/*
 * Whose the other end of a TCP connection on this machine is.
 */
#ifndef TFC_PORT_TCP_USER_H
#define TFC_PORT_TCP_USER_H

#include <stdint.h>
#include <sys/socket.h>

/*
 * The user of the socket that is connected from `from` to `to`, both of this machine (and of one
 * family). 0, or -1 when the kernel does not tell, or nobody has the socket any more.
 */
int tfc__tcp_user(const struct sockaddr_storage *from, const struct sockaddr_storage *to,
		  uint32_t *ret_uid);

#endif
