#include "base/pass.h"

#include <string.h>
#include <sys/socket.h>

union control {
	char bytes[CMSG_SPACE(TFC__PASS_MAX * sizeof(int))];
	struct cmsghdr align;
};

ssize_t tfc__pass_send(int socket, const struct iovec *parts, size_t part_count, const int *fds,
		       size_t count, int flags)
{
	union control control = {{0}};
	struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = part_count};
	if (count) {
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		struct cmsghdr *head = CMSG_FIRSTHDR(&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(head), fds, count * sizeof(int));
	}
	return sendmsg(socket, &message, flags);
}

ssize_t tfc__pass_recv(int socket, void *data, size_t size, int flags, int *ret_fds, size_t count)
{
	union control control;
	struct iovec part = {data, size};
	/* Not CMSG_SPACE: the kernel would put one more descriptor into the padding. */
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = CMSG_LEN(count * sizeof(int))};
	for (size_t i = 0; i < count; i++)
		ret_fds[i] = -1;
	ssize_t len = recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
	const struct cmsghdr *head = len < 0 ? NULL : CMSG_FIRSTHDR(&message);
	if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS)
		memcpy(ret_fds, CMSG_DATA(head), head->cmsg_len - CMSG_LEN(0));
	return len;
}
