/*
 * The task of the benchmarks, static: `task exit` ends at once; `task pause` sleeps; `task beat
 * FIFO` writes its pid and the time of its first instruction into FIFO and sleeps; `task flood
 * BYTES SIZE` writes that many bytes in lines of 100, SIZE at a time, as fast as it can.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static int flood(long long bytes, size_t size)
{
	static char block[1 << 20];
	memset(block, 'x', sizeof(block));
	for (size_t i = 99; i < sizeof(block); i += 100)
		block[i] = '\n';
	while (bytes > 0) {
		ssize_t done = write(1, block, (long long)size < bytes ? size : (size_t)bytes);
		if (done <= 0)
			return 1;
		bytes -= done;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (argc == 4 && strcmp(argv[1], "flood") == 0)
		return flood(atoll(argv[2]), (size_t)atoll(argv[3]));
	if (argc == 2 && strcmp(argv[1], "pause") == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* for a bare loop that was killed */
		for (;;)
			pause();
	}
	if (argc < 3 || strcmp(argv[1], "beat") != 0)
		return 0;
	char line[64];
	int len = snprintf(line, sizeof(line), "%d %lld\n", (int)getpid(),
			   (long long)now.tv_sec * 1000000000 + now.tv_nsec);
	int fd = open(argv[2], O_WRONLY);
	if (fd < 0 || write(fd, line, (size_t)len) != len)
		return 1;
	close(fd);
	for (;;)
		pause();
}
