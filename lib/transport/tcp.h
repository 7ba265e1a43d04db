/*
 * What the two halves of tcp share: connections (tcp_dial.c makes them, too) and listeners (tcp.c).
 */
#ifndef TFC_TRANSPORT_TCP_H
#define TFC_TRANSPORT_TCP_H

#include "transport/address.h"
#include "transport/resolve.h"
#include "transport/socket.h"

struct tfc__tcp {
	struct tfc__socket socket; /* first */
	bool is_plain; /* no key: it is of this machine, and the kernel is asked whose it is */

	/* while it is being dialed */
	struct tfc__resolve *resolve;
	struct tfc__tcp_host *host; /* NULL: connected, failed, or accepted */
	uint32_t next;              /* of the host's addresses */
	struct tfc__io connecting;
	struct tfc__timer patience; /* with this address, when there is another one */
	struct tfc__work beginning; /* not inside the call that dials */
	char dialed[128];
	tfc_error last; /* why the last address failed */
};

/* Options of a connected descriptor: no delay, and an end that is gone is noticed. */
void tfc__tcp_tune(int fd);

struct tfc__tcp *tfc__tcp_new(tfc_ctx *ctx, tfc_pipe *pipe); /* NULL: out of memory */
int tfc__tcp_dial(void *impl, const char *address, uint32_t flags, tfc_pipe *pipe,
		  void **ret_pipe_impl, tfc_error *error);
void tfc__tcp_close(void *pipe_impl);

#endif
