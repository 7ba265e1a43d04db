/* A port as the bare loops hold it: bound, on both IP versions. */
#ifndef BENCH_BARE_PORT_H
#define BENCH_BARE_PORT_H

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

/* Binds a free port. Returns its socket, which is closed on exec. */
static inline int bare_port(void)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6};
	int off = 0;
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof(any)) < 0) {
		perror("bind");
		exit(1);
	}
	return fd;
}

#endif
