/* What the simulator takes for granted of the kernel (doc/internals/simulation.md), and no other
 * test shows. */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/pass.h"

static int lock(int fd)
{
	struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	return fcntl(fd, F_OFD_SETLK, &all);
}

static void a_lock_goes_with_the_last_descriptor_of_its_file(void **state)
{
	int first = memfd_create("lock", MFD_CLOEXEC);
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", first);
	int other = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(lock(first), 0);
	int copy = dup(first);
	close(first);
	assert_int_equal(lock(other), -1);
	close(copy);
	assert_int_equal(lock(other), 0);
	close(other);
}

static void a_lock_outlives_the_process_that_took_it_while_a_copy_is_open(void **state)
{
	int ends[2], copy = -1;
	char path[64], byte;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	int file = memfd_create("lock", MFD_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	pid_t pid = fork();
	if (pid == 0) {
		int own = open(path, O_RDWR | O_CLOEXEC);
		char text[] = "x";
		struct iovec part = {text, 1};
		_exit(lock(own) < 0 || tfc__pass_send(ends[1], &part, 1, &own, 1, 0) < 0);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(tfc__pass_recv(ends[0], &byte, 1, 0, &copy, 1), 1);
	assert_int_equal(lock(file), -1);
	close(copy);
	assert_int_equal(lock(file), 0);
	close(file);
	close(ends[0]);
	close(ends[1]);
}

static void a_packet_socket_keeps_messages_whole_and_ends_behind_the_last(void **state)
{
	int ends[2];
	char bytes[8];
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	assert_int_equal(send(ends[0], "one", 3, 0), 3);
	assert_int_equal(send(ends[0], "three", 5, 0), 5);
	close(ends[0]);
	assert_int_equal(recv(ends[1], bytes, sizeof(bytes), 0), 3);
	assert_memory_equal(bytes, "one", 3);
	assert_int_equal(recv(ends[1], bytes, sizeof(bytes), 0), 5);
	assert_memory_equal(bytes, "three", 5);
	assert_int_equal(recv(ends[1], bytes, sizeof(bytes), 0), 0);
	close(ends[1]);
}

static bool has_hung_up(int fd)
{
	struct pollfd end = {.fd = fd};
	return poll(&end, 1, 0) > 0 && end.revents & POLLHUP;
}

static void a_pipe_hangs_up_with_the_last_copy_of_its_write_end(void **state)
{
	int pipe_ends[2], ends[2], copy = -1;
	char byte;
	char text[] = "x";
	struct iovec part = {text, 1};
	assert_int_equal(pipe2(pipe_ends, O_CLOEXEC), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	assert_true(tfc__pass_send(ends[0], &part, 1, &pipe_ends[1], 1, 0) >= 0);
	close(pipe_ends[1]);
	assert_false(has_hung_up(pipe_ends[0])); /* one copy is on its way */
	assert_int_equal(tfc__pass_recv(ends[1], &byte, 1, 0, &copy, 1), 1);
	assert_false(has_hung_up(pipe_ends[0]));
	close(copy);
	assert_true(has_hung_up(pipe_ends[0]));
	close(pipe_ends[0]);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lock_goes_with_the_last_descriptor_of_its_file),
		cmocka_unit_test(a_lock_outlives_the_process_that_took_it_while_a_copy_is_open),
		cmocka_unit_test(a_packet_socket_keeps_messages_whole_and_ends_behind_the_last),
		cmocka_unit_test(a_pipe_hangs_up_with_the_last_copy_of_its_write_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
