/*
 * Ports. A hold keeps a TCP port bound from the moment it is chosen until it is released. If the
 * port was given to a process (tfc_process_options.hold), the context's guard keeps it at least
 * until the process is reaped. Meanwhile no other program on the machine can bind the port, and a
 * restarted task gets the same port back at once.
 *
 * The hold is a socket bound to [::]:port (0.0.0.0 where IPv6 is off) that never listens. While the
 * bind window is closed, the socket has no SO_REUSEADDR, and the kernel refuses every other bind.
 * While the window is open, the socket has SO_REUSEADDR, and a program that sets SO_REUSEADDR, too,
 * as TensorFlow and TensorBoard do, can bind the port and listen on it. Rules of the kernel: ip(7),
 * inet_csk_get_port in net/ipv4/inet_connection_sock.c.
 */
#ifndef TFCLUSTER_PORT_H
#define TFCLUSTER_PORT_H

#include <stdint.h>
#include <sys/types.h>
#include <tfcluster/ctx.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfc_port_pool tfc_port_pool;
typedef struct tfc_port_hold tfc_port_hold;

/* Options of a pool. Both ends 0: 20000-29999. */
typedef struct tfc_port_pool_options {
	uint32_t size;
	uint16_t first; /* lowest port of the pool */
	uint16_t last;  /* highest port of the pool, inclusive */
} tfc_port_pool_options;

#define TFC_PORT_POOL_OPTIONS_INIT                  \
	{                                           \
		sizeof(tfc_port_pool_options), 0, 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_port_pool_options_init(tfc_port_pool_options *options, uint32_t size);

/**
 * Opens a pool, which has no descriptor of its own. `options` may be NULL. The context's log warns
 * of ports that the kernel also uses for outgoing connections (ip_local_port_range). The caller
 * owns *ret_pool. Thread: the context's. Errors: TFC_EINVAL (only one end is 0, or first is above
 * last; the text names the field), TFC_EACCES (privileged ports without the permission),
 * TFC_ENOTSUP, TFC_ENOMEM, TFC_EFORK.
 */
TFC_API int tfc_port_pool_open(tfc_ctx *ctx, const tfc_port_pool_options *options,
			       tfc_port_pool **ret_pool);

/** Closes a pool; its holds stay valid. NULL is a no-op. Thread: the context's. */
TFC_API void tfc_port_pool_close(tfc_port_pool *pool);

/**
 * Acquires a port: any free one of the pool (`port` 0), or exactly `port`, which need not lie in
 * the pool. A fixed port is also acquired when only connections without a process are left on it
 * (TIME_WAIT, and those of a server that was killed). The bind window is closed. The caller owns
 * *ret_hold. Thread: the context's. Errors: TFC_EEXHAUSTED (the text says how many ports this pool
 * and other programs use), TFC_EBUSY (a fixed port in use; names uid, and pid and program where
 * visible), TFC_EACCES (privileged), TFC_EMFILE, TFC_ESYS, TFC_ENOMEM, TFC_EFORK.
 */
TFC_API int tfc_port_acquire(tfc_port_pool *pool, uint16_t port, tfc_port_hold **ret_hold);

/** The port's number. Thread: the context's. Errors: none (0 for NULL). */
TFC_API uint16_t tfc_port_hold_number(const tfc_port_hold *hold);

/**
 * Opens (`is_open` 1) or closes (0) the bind window for programs that set SO_REUSEADDR. Open it
 * just before the launch, and close it as soon as tfc_port_hold_listener reports that the task
 * listens. Thread: the context's. Errors: TFC_ELOST (the port is not held any more: the guard that
 * kept it has ended), TFC_ESYS, TFC_EFORK.
 */
TFC_API int tfc_port_hold_set_open(tfc_port_hold *hold, int is_open);

/* Who listens on a port. */
typedef struct tfc_port_listener {
	uint32_t size;
	uint32_t count; /* listening sockets on the port, over all addresses; 0: nobody */
	uint32_t uid;   /* owner of one of them: of a foreign listener if there is one */
	/* A process that has this listener open. 0: not visible to this user, or not found yet: a
	 * call searches a few thousand descriptors, and the next call continues the search */
	int32_t pid;
	uint32_t is_ours; /* 1: every listener belongs to the process tree below `root` */
	char program[64]; /* name of the process `pid`, or "" */
} tfc_port_listener;

#define TFC_PORT_LISTENER_INIT                         \
	{                                              \
		sizeof(tfc_port_listener), 0, 0, 0, 0, \
		{                                      \
			0                              \
		}                                      \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_port_listener_init(tfc_port_listener *listener, uint32_t size);

/**
 * Queries the kernel (sock_diag(7)) for the listeners on the port. The host sets ret_listener->size
 * (TFC_PORT_LISTENER_INIT). `root` is a pid: is_ours is 1 if that process or its descendants have
 * all listeners open. With `root` 0, or if nobody listens, is_ours is 0. The call also works after
 * the guard that kept the port has ended. Thread: the context's. Errors: TFC_EINVAL, TFC_EMFILE,
 * TFC_ENOMEM, TFC_ESYS, TFC_EFORK.
 */
TFC_API int tfc_port_hold_listener(tfc_port_hold *hold, pid_t root,
				   tfc_port_listener *ret_listener);

/**
 * Releases the port. Do so only after the task that used it is reaped; the port of a process of
 * tfc_process_spawn stays held until then in any case. NULL is a no-op.
 * Thread: the context's.
 */
TFC_API void tfc_port_hold_release(tfc_port_hold *hold);

#ifdef __cplusplus
}
#endif
#endif
