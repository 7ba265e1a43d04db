/*
 * The limits of a feed on this machine, without its features: from one process to another, 1 MiB at
 * a time, out of 64 MiB that are read over and over.
 *   feed_limits stream BYTES   write and read of a unix stream socket
 *   feed_limits ring BYTES     one memcpy into a ring of 8 blocks in shared memory
 * Prints the seconds from the first byte sent to the last one received.
 */
#include <err.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	BLOCK_BYTES = 1 << 20,
	RING_BLOCKS = 8,
	SOURCE_BLOCKS = 64,
};

struct ring {
	sem_t empty;
	sem_t full;
	_Alignas(64) uint8_t blocks[RING_BLOCKS][BLOCK_BYTES];
};

static uint8_t (*source)[BLOCK_BYTES];
static struct ring *ring;
static uint64_t block_count;

static void read_exactly(int fd, uint8_t *buf, size_t len)
{
	while (len > 0) {
		ssize_t count = read(fd, buf, len);
		if (count <= 0)
			err(1, "cannot read");
		buf += count;
		len -= (size_t)count;
	}
}

static void write_exactly(int fd, const uint8_t *buf, size_t len)
{
	while (len > 0) {
		ssize_t count = write(fd, buf, len);
		if (count <= 0)
			err(1, "cannot write");
		buf += count;
		len -= (size_t)count;
	}
}

static void stream_receive(int fd)
{
	uint8_t *buf = malloc(BLOCK_BYTES);
	if (!buf)
		errx(1, "out of memory");
	for (uint64_t i = 0; i < block_count; i++)
		read_exactly(fd, buf, BLOCK_BYTES);
	free(buf);
}

static void stream_send(int fd)
{
	for (uint64_t i = 0; i < block_count; i++)
		write_exactly(fd, source[i % SOURCE_BLOCKS], BLOCK_BYTES);
}

/* As a consumer that gets a view of the rows: it copies nothing. */
static void ring_receive(int fd)
{
	(void)fd;
	volatile uint8_t last;
	for (uint64_t i = 0; i < block_count; i++) {
		sem_wait(&ring->full);
		last = ring->blocks[i % RING_BLOCKS][BLOCK_BYTES - 1];
		sem_post(&ring->empty);
	}
	(void)last;
}

static void ring_send(int fd)
{
	(void)fd;
	for (uint64_t i = 0; i < block_count; i++) {
		sem_wait(&ring->empty);
		memcpy(ring->blocks[i % RING_BLOCKS], source[i % SOURCE_BLOCKS], BLOCK_BYTES);
		sem_post(&ring->full);
	}
}

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		errx(2, "usage: feed_limits stream|ring BYTES");
	bool is_ring = strcmp(argv[1], "ring") == 0;
	block_count = strtoull(argv[2], NULL, 10) / BLOCK_BYTES;
	source = malloc((size_t)SOURCE_BLOCKS * BLOCK_BYTES);
	ring = mmap(NULL, sizeof *ring, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!source || ring == MAP_FAILED)
		errx(1, "out of memory");
	for (int i = 0; i < SOURCE_BLOCKS; i++)
		memset(source[i], i + 1, BLOCK_BYTES);
	memset(ring->blocks, 0, sizeof ring->blocks);
	sem_init(&ring->empty, 1, RING_BLOCKS);
	sem_init(&ring->full, 1, 0);

	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
		err(1, "cannot make a pair of sockets");
	pid_t child = fork();
	if (child < 0)
		err(1, "cannot fork");
	uint8_t done = 1;
	if (child == 0) {
		close(pair[0]);
		write_exactly(pair[1], &done, 1); /* it runs */
		(is_ring ? ring_receive : stream_receive)(pair[1]);
		write_exactly(pair[1], &done, 1);
		_exit(0);
	}
	close(pair[1]);
	read_exactly(pair[0], &done, 1);
	double begin = now();
	(is_ring ? ring_send : stream_send)(pair[0]);
	read_exactly(pair[0], &done, 1);
	printf("%.6f\n", now() - begin);
	waitpid(child, NULL, 0);
	return 0;
}
