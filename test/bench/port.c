/*
 * What a hold costs: acquire and release of a pool port against socket, bind and close of the same
 * kind of port. Both run in turns, so that what else the machine does weighs on both.
 */
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <tfcluster/port.h>
#include <time.h>
#include <unistd.h>

#include "median.h"

enum { ROUNDS = 401, BATCH = 64, FIRST = 21000 };

static uint64_t now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void acquire_and_release(tfc_port_pool *pool)
{
	tfc_port_hold *hold = NULL;
	if (tfc_port_acquire(pool, 0, &hold)) {
		fprintf(stderr, "no port is free\n");
		exit(1);
	}
	tfc_port_hold_release(hold);
}

static void bind_and_close(uint16_t port)
{
	struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address))) {
		perror("bind");
		exit(1);
	}
	close(fd);
}

static uint16_t free_port(void)
{
	for (uint16_t port = FIRST; port < FIRST + 1000; port++) {
		struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
		int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
		int is_free = fd >= 0 && !bind(fd, (struct sockaddr *)&address, sizeof(address));
		close(fd);
		if (is_free)
			return port;
	}
	return FIRST;
}

int main(void)
{
	static double ours[ROUNDS], bare[ROUNDS];
	tfc_ctx *ctx = NULL;
	tfc_port_pool *pool = NULL;
	uint16_t port = free_port();
	if (tfc_ctx_new(NULL, NULL, &ctx) || tfc_port_pool_open(ctx, NULL, &pool))
		return 1;
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t start = now();
		for (int i = 0; i < BATCH; i++)
			acquire_and_release(pool);
		uint64_t middle = now();
		for (int i = 0; i < BATCH; i++)
			bind_and_close(port);
		ours[round] = (double)(middle - start) / BATCH;
		bare[round] = (double)(now() - middle) / BATCH;
	}
	double acquire_ns = median(ours, ROUNDS), bare_ns = median(bare, ROUNDS);
	printf("port_acquire_ns %.0f bare_ns %.0f ratio %.2f\n", acquire_ns, bare_ns,
	       acquire_ns / bare_ns);
	tfc_port_pool_close(pool);
	tfc_ctx_free(ctx);
	return 0;
}
