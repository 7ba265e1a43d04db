/*
 * Descriptors that go with a message (SCM_RIGHTS). Also part of guard and shim: needs nothing but
 * system calls.
 */
#ifndef TFC_BASE_PASS_H
#define TFC_BASE_PASS_H

#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#define TFC__PASS_MAX 4 /* descriptors of one message */

/* As sendmsg of these parts, with `count` descriptors: none to TFC__PASS_MAX. */
ssize_t tfc__pass_send(int socket, const struct iovec *parts, size_t part_count, const int *fds,
		       size_t count, int flags);

/*
 * As recvmsg into `data`. What came along is the caller's and close-on-exec: `count` descriptors at
 * most, -1 for each that did not come.
 */
ssize_t tfc__pass_recv(int socket, void *data, size_t size, int *ret_fds, size_t count, int flags);

#endif
