/*
 * Addresses in the form that TensorFlow's gRPC server accepts: host:port, split at the last colon,
 * without scheme or slash (core/distributed_runtime/rpc/grpc_server_lib.cc, grpc_channel.cc).
 */
#include "base/fail.h"
#include "base/text.h"
#include "spec/spec.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

struct subject {
	const char *task_type;
	uint32_t task_index;
	const char *address;
	tfc_error *error;
};

static int address_refuse(const struct subject *subject, const char *remedy)
{
	return tfc__fail(subject->error, TFC_ESPEC, "spec", 0, "%s/%u: address \"%.100s\": %s",
			 subject->task_type, subject->task_index, subject->address, remedy);
}

/* Checks the text between the brackets and writes it in canonical form. */
static int address_check_ipv6(const struct subject *subject, const char *host, size_t len,
			      char *ret_host)
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr address;
	if (memchr(host, '%', len))
		return address_refuse(subject,
				      "a zone (%...) is valid on one machine only; use an address "
				      "that all tasks can reach");
	if (len == 0 || len >= sizeof(text))
		return address_refuse(subject, "the brackets do not hold an IPv6 address");
	memcpy(text, host, len);
	text[len] = '\0';
	if (inet_pton(AF_INET6, text, &address) != 1)
		return address_refuse(subject, "the brackets do not hold an IPv6 address");
	inet_ntop(AF_INET6, &address, text, sizeof(text));
	sprintf(ret_host, "[%s]", text);
	return 0;
}

/* Checks a DNS name or an IPv4 address and writes it in lower case. */
static int address_check_name(const struct subject *subject, const char *host, size_t len,
			      char *ret_host)
{
	bool is_numeric = true;
	struct in_addr address;
	if (len == 0)
		return address_refuse(subject, "the host is missing; write host:port");
	if (memchr(host, ':', len))
		return address_refuse(subject,
				      "an IPv6 address must be in brackets; write [address]:port");
	if (len > 253)
		return address_refuse(subject, "a host name has at most 253 characters");
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)host[i];
		if (c > 127 || !(isalnum(c) || c == '.' || c == '-' || c == '_'))
			return address_refuse(subject,
					      "a host name may have only letters, digits, '.', "
					      "'-' and '_'; write host:port");
		is_numeric = is_numeric && (isdigit(c) || c == '.');
		ret_host[i] = (char)tolower(c);
	}
	ret_host[len] = '\0';
	if (is_numeric && inet_pton(AF_INET, ret_host, &address) != 1)
		return address_refuse(subject, "not an IPv4 address; write it as 192.0.2.1:2222");
	return 0;
}

int tfc__address_check(const char *task_type, uint32_t task_index, const char *address,
		       tfc_error *error, char ret_key[TFC__ADDRESS_SIZE])
{
	const struct subject subject = {task_type, task_index, address, error};
	if (strstr(address, "://"))
		return address_refuse(&subject,
				      "TensorFlow does not accept a scheme here; write host:port");
	if (strchr(address, '/'))
		return address_refuse(&subject,
				      "TensorFlow does not accept a path here; write host:port");
	const char *colon = strrchr(address, ':');
	const char *bracket = strrchr(address, ']');
	if (!colon || (address[0] == '[' && bracket && colon < bracket))
		return address_refuse(&subject, "the port is missing; write host:port");
	int port = colon[1] == '0' ? -1 : tfc__port_read(colon + 1); /* no leading zeros */
	size_t len = (size_t)(colon - address);
	bool is_ipv6 = address[0] == '[' && address[len - 1] == ']';
	char host[TFC__ADDRESS_SIZE - sizeof(":65535") + 1];
	int code = is_ipv6 ? address_check_ipv6(&subject, address + 1, len - 2, host)
			   : address_check_name(&subject, address, len, host);
	if (code < 0)
		return code;
	if (port < 0)
		return address_refuse(&subject, "the port must be a number from 1 to 65535");
	snprintf(ret_key, TFC__ADDRESS_SIZE, "%s:%u", host, (uint16_t)port);
	return 0;
}
