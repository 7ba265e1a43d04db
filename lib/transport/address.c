#include "transport/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/text.h"

#define SCHEME "tcp://"

static int fail_address(const char *address, const char *why, tfc_error *error)
{
	return tfc__fail(error, TFC_EINVAL, "transport", 0,
			 "\"%.80s\": %s; write tcp://HOST:PORT or tcp://[ADDRESS]:PORT", address,
			 why);
}

bool tfc__tcp_add(struct tfc__tcp_host *host, const char *text)
{
	if (host->count == TFC__TCP_ADDRESSES)
		return false;
	struct sockaddr_storage *next = &host->addresses[host->count];
	struct sockaddr_in *v4 = (void *)next;
	struct sockaddr_in6 *v6 = (void *)next;
	memset(next, 0, sizeof(*next));
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(host->port);
	} else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(host->port);
	} else {
		return false;
	}
	host->count++;
	return true;
}

/* Resolves numeric addresses and "localhost" without a resolver (RFC 6761, section 6.3). */
static int resolve_numeric(const char *address, bool is_ipv6, tfc_error *error,
			   struct tfc__tcp_host *host)
{
	static const char name_bytes[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
	if (strcmp(host->name, "localhost") == 0)
		return tfc__tcp_add(host, "127.0.0.1") && tfc__tcp_add(host, "::1") ? TFC_OK
										    : TFC_EINVAL;
	bool is_number = tfc__tcp_add(host, host->name);
	if (is_ipv6 && !(is_number && strchr(host->name, ':')))
		return fail_address(address, "the brackets do not hold an IPv6 address", error);
	if (!is_ipv6 && strchr(host->name, ':'))
		return fail_address(address, "an IPv6 address must be in brackets", error);
	if (!is_number && host->name[strspn(host->name, "0123456789.")] == '\0')
		return fail_address(address, "not a valid IPv4 address", error);
	if (!is_number && (host->name[0] == '-' || host->name[strspn(host->name, name_bytes)]))
		return fail_address(address,
				    "a host name may have only letters, digits, '.', '-' and '_'",
				    error);
	return TFC_OK;
}

int tfc__tcp_parse(const char *address, tfc_error *error, struct tfc__tcp_host *ret_host)
{
	struct tfc__tcp_host host = {.count = 0};
	if (strncmp(address, SCHEME, strlen(SCHEME)) != 0)
		return fail_address(address, "// is missing", error);
	const char *name = address + strlen(SCHEME), *colon = strrchr(name, ':');
	const char *bracket = strrchr(name, ']');
	bool is_ipv6 = name[0] == '[' && bracket;
	if (!colon || (is_ipv6 && colon != bracket + 1))
		return fail_address(address, "the port is missing", error);
	size_t len = is_ipv6 ? (size_t)(bracket - name) - 1 : (size_t)(colon - name);
	int port = tfc__port_read(colon + 1);
	if (port < 0)
		return fail_address(address, "the port must be a number from 0 to 65535", error);
	if (len == 0 || len >= sizeof(host.name))
		return fail_address(address, "the host name must have 1 to 253 characters", error);
	memcpy(host.name, name + is_ipv6, len);
	host.port = (uint16_t)port;
	int code = resolve_numeric(address, is_ipv6, error, &host);
	if (code == TFC_OK)
		*ret_host = host;
	return code;
}

socklen_t tfc__tcp_len(const struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET ? sizeof(struct sockaddr_in)
					     : sizeof(struct sockaddr_in6);
}

/* RFC 5735, section 3; RFC 4291, section 2.5.3. */
bool tfc__tcp_is_loopback(const struct sockaddr_storage *address)
{
	const struct sockaddr_in *v4 = (const void *)address;
	const struct in6_addr *v6 =
		&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
	if (address->ss_family == AF_INET)
		return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
}

bool tfc__tcp_is_equal(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
	const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;
	if (a->ss_family != b->ss_family)
		return false;
	if (a->ss_family == AF_INET)
		return a4->sin_port == b4->sin_port && a4->sin_addr.s_addr == b4->sin_addr.s_addr;
	return a6->sin6_port == b6->sin6_port &&
	       memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr)) == 0;
}

void tfc__tcp_write(const struct sockaddr_storage *address, char *text, size_t size)
{
	char host[INET6_ADDRSTRLEN] = "?";
	const struct sockaddr_in *v4 = (const void *)address;
	const struct sockaddr_in6 *v6 = (const void *)address;
	if (address->ss_family == AF_INET) {
		inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
		snprintf(text, size, SCHEME "%s:%u", host, ntohs(v4->sin_port));
	} else if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
		inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], host, sizeof(host));
		snprintf(text, size, SCHEME "%s:%u", host, ntohs(v6->sin6_port));
	} else {
		inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
		snprintf(text, size, SCHEME "[%s]:%u", host, ntohs(v6->sin6_port));
	}
}
