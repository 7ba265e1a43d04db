#include "port/tcp_user.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

struct request {
	struct nlmsghdr header;
	struct inet_diag_req_v2 body;
};

/* Converts address and port to the form of inet_diag: an IPv4-mapped IPv6 address becomes an IPv4
 * address. */
static int diag_address(const struct sockaddr_storage *address, __be32 ret_ip[4], __be16 *ret_port)
{
	const struct sockaddr_in *v4 = (const void *)address;
	const struct sockaddr_in6 *v6 = (const void *)address;
	if (address->ss_family == AF_INET) {
		ret_ip[0] = v4->sin_addr.s_addr;
		*ret_port = v4->sin_port;
		return AF_INET;
	}
	*ret_port = v6->sin6_port;
	if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
		memcpy(ret_ip, &v6->sin6_addr.s6_addr[12], 4);
		return AF_INET;
	}
	memcpy(ret_ip, &v6->sin6_addr, 16);
	return AF_INET6;
}

/* Requests one socket from the kernel. */
static int request_user(struct request *request, uint32_t *ret_uid)
{
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (fd < 0)
		return -1;
	_Alignas(struct nlmsghdr) char data[4096];
	const struct nlmsghdr *header = (const void *)data;
	const struct inet_diag_msg *message = NLMSG_DATA(header);
	ssize_t len = sendto(fd, request, sizeof(*request), 0, (struct sockaddr *)&kernel,
			     sizeof(kernel));
	if (len >= 0)
		len = recv(fd, data, sizeof(data), 0);
	close(fd);
	if (len < 0 || !NLMSG_OK(header, (size_t)len) ||
	    header->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
	    header->nlmsg_len < NLMSG_LENGTH(sizeof(*message)) || !message->idiag_inode)
		return -1;
	*ret_uid = message->idiag_uid;
	return 0;
}

static struct request user_request(uint8_t protocol, uint32_t states)
{
	return (struct request){
		.header = {.nlmsg_len = sizeof(struct request),
			   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			   .nlmsg_flags = NLM_F_REQUEST},
		.body = {.sdiag_protocol = protocol,
			 .idiag_states = states,
			 .id.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}},
	};
}

int tfc__tcp_user(const struct sockaddr_storage *from, const struct sockaddr_storage *to,
		  uint32_t *ret_uid)
{
	struct request request = user_request(IPPROTO_TCP, UINT32_C(1) << TCP_ESTABLISHED);
	struct inet_diag_sockid *id = &request.body.id;
	request.body.sdiag_family = (unsigned char)diag_address(from, id->idiag_src,
								&id->idiag_sport);
	if (diag_address(to, id->idiag_dst, &id->idiag_dport) != request.body.sdiag_family)
		return -1;
	return request_user(&request, ret_uid);
}

/* For UDP, source and destination are exchanged (net/ipv4/udp_diag.c, udp_dump_one). */
int tfc__udp_user(const struct sockaddr_storage *from, const struct sockaddr_storage *to,
		  uint32_t *ret_uid)
{
	struct request request = user_request(IPPROTO_UDP, UINT32_MAX);
	struct inet_diag_sockid *id = &request.body.id;
	request.body.sdiag_family = (unsigned char)diag_address(from, id->idiag_dst,
								&id->idiag_dport);
	if (diag_address(to, id->idiag_src, &id->idiag_sport) != request.body.sdiag_family)
		return -1;
	return request_user(&request, ret_uid);
}
