/* Shared by tcp_dial.c (dialed connections) and tcp.c (accepted connections and listeners). */
#ifndef TFC_TRANSPORT_TCP_H
#define TFC_TRANSPORT_TCP_H

#include "transport/address.h"
#include "transport/resolve.h"
#include "transport/socket.h"

struct tfc__tcp {
	struct tfc__socket socket; /* first */
	/* no key: the connection is local, and the kernel identifies its user */
	bool is_plain;

	/* while dialing */
	struct tfc__resolve *resolve;
	struct tfc__tcp_host *host; /* NULL: connected, failed, or accepted */
	uint32_t next;              /* index of the host's next address */
	struct tfc__io connecting;
	struct tfc__timer patience; /* for this address, when there is another one */
	struct tfc__work beginning; /* starts the first attempt outside of the call that dials */
	char dialed[128];
	tfc_error last; /* why the last address failed */
};

/* Sets the options of a connected descriptor: no delay, and detection of a dead connection. */
void tfc__tcp_tune(int fd);

struct tfc__tcp *tfc__tcp_new(tfc_ctx *ctx, tfc_pipe *pipe); /* NULL: out of memory */
int tfc__tcp_dial(void *impl, const char *address, uint32_t flags, tfc_pipe *pipe,
		  void **ret_pipe_impl, tfc_error *error);
void tfc__tcp_close(void *pipe_impl);

#endif
