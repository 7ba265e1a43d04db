/*
 * Reads the kernel's table of TCP sockets through sock_diag(7), or from /proc/net if a container or
 * a small kernel does not provide sock_diag.
 */
#ifndef TFC_PORT_SOCK_DIAG_H
#define TFC_PORT_SOCK_DIAG_H

#include <stdint.h>
#include <tfcluster/error.h>

/* Sockets that are bound but neither listening nor connected: TCP_BOUND_INACTIVE, reported since
 * Linux 6.8. */
#define TFC__TCP_BOUND 13

#define TFC__TCP_LISTENERS (UINT32_C(1) << 10)
#define TFC__TCP_ALL UINT32_C(0xffffffff)

struct tfc__tcp_socket {
	uint16_t port;  /* local */
	uint8_t state;  /* TCP_LISTEN ... or TFC__TCP_BOUND */
	uint32_t uid;   /* valid if inode is not 0 */
	uint32_t inode; /* 0: no process owns it (TIME_WAIT, an orphaned FIN_WAIT) */
};

typedef void (*tfc__tcp_fn)(void *user, const struct tfc__tcp_socket *socket);

/*
 * Calls fn for each socket of both families with a local port from first to last and a state in
 * `states` (a bit each). Uses one dump per family. Returns 0, TFC_EMFILE or TFC_ESYS.
 */
int tfc__tcp_each(uint16_t first, uint16_t last, uint32_t states, tfc__tcp_fn fn, void *user,
		  tfc_error *error);

/* The fallback on /proc/net: reads all sockets to find a few. Returns 0, or -1 and errno. */
int tfc__tcp_each_in_proc(uint16_t first, uint16_t last, uint32_t states, tfc__tcp_fn fn,
			  void *user);

#endif
