/*
 * Passes descriptors with a message (SCM_RIGHTS). Also part of guard and shim: depends on system
 * calls only.
 */
#ifndef TFC_BASE_PASS_H
#define TFC_BASE_PASS_H

#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#define TFC__PASS_MAX 8 /* descriptors per message */

/* Like sendmsg of these parts, with 0 to TFC__PASS_MAX descriptors. */
ssize_t tfc__pass_send(int socket, const struct iovec *parts, size_t part_count, const int *fds,
		       size_t count, int flags);

/*
 * Like recvmsg into `data`, with at most `count` descriptors. The caller owns the received
 * descriptors, which are close-on-exec; the remaining entries of ret_fds are -1.
 */
ssize_t tfc__pass_recv(int socket, void *data, size_t size, int flags, int *ret_fds, size_t count);

#endif
