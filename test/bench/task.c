/*
 * The task of the launch and restart benchmarks, static: `task exit` ends at once; `task beat FIFO`
 * writes its pid and the time of its first instruction into FIFO and sleeps.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
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
