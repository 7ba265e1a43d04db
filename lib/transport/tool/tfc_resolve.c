/*
 * tfc-resolve NAME: resolves a host name and writes its addresses, one per line, or "!" and the
 * reason of the failure; then a line with a dot. It is a separate program because the system's
 * resolver may wait for a server.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

#define ADDRESSES_MAX 16

static void write_address(const struct sockaddr *address)
{
	char text[INET6_ADDRSTRLEN];
	const void *ip =
		address->sa_family == AF_INET
			? (const void *)&((const struct sockaddr_in *)(const void *)address)
				  ->sin_addr
			: (const void *)&((const struct sockaddr_in6 *)(const void *)address)
				  ->sin6_addr;
	if (inet_ntop(address->sa_family, ip, text, sizeof(text)))
		puts(text);
}

int main(int argc, char **argv)
{
	const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	if (argc != 2) {
		fputs("usage: tfc-resolve NAME\n", stderr);
		return 1;
	}
	int code = getaddrinfo(argv[1], NULL, &hints, &found);
	if (code != 0)
		printf("!%s\n", gai_strerror(code));
	int count = 0;
	for (struct addrinfo *one = found; one && count < ADDRESSES_MAX; one = one->ai_next)
		if (one->ai_family == AF_INET || one->ai_family == AF_INET6) {
			write_address(one->ai_addr);
			count++;
		}
	if (found)
		freeaddrinfo(found);
	puts(".");
	return 0;
}
