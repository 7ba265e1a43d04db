/* port: without rights, IPv6, sock_diag or a loopback interface. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "port/port.h"
#include "sockets.h"

#define NOBODY 65534

/*
 * Each test runs its steps in a child, which changes its own surroundings and answers 'K', or with
 * the letter of the first step that went wrong; 'S' says that the machine does not allow the test.
 */
static void run_in_child(test_child_fn fn)
{
	struct test_child child = test_child_start(fn, NULL);
	int answer = test_child_read(&child);
	assert_int_equal(test_child_end(&child), 0);
	if (answer == 'S')
		skip();
	assert_int_equal(answer, 'K');
}

static void answer(int fd, char what)
{
	if (write(fd, &what, 1) != 1)
		_exit(1);
	_exit(0);
}

#define STEP(letter, claim)                 \
	do {                                \
		if (!(claim))               \
			answer(fd, letter); \
	} while (0)

static int read_number(const char *path)
{
	char text[32] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	if (fd >= 0)
		close(fd);
	return atoi(text);
}

/* ---- rights */

static void ask_for_privileged_ports(int fd, const void *arg)
{
	tfc_port_pool_options options = TFC_PORT_POOL_OPTIONS_INIT;
	tfc_ctx *ctx = NULL;
	tfc_port_pool *pool = NULL;
	tfc_port_hold *hold = NULL;
	if (read_number("/proc/sys/net/ipv4/ip_unprivileged_port_start") < 1024)
		answer(fd, 'S');
	if (!getuid() && (setgid(NOBODY) || setuid(NOBODY)))
		answer(fd, 'S');
	STEP('a', tfc_ctx_new(NULL, NULL, &ctx) == TFC_OK);
	options.first = 1000;
	options.last = 1010;
	STEP('b', tfc_port_pool_open(ctx, &options, &pool) == TFC_EACCES && !pool);
	STEP('c', strstr(tfc_ctx_error(ctx)->text, "first (1000) is privileged"));
	STEP('d', tfc_port_pool_open(ctx, NULL, &pool) == TFC_OK);
	STEP('e', tfc_port_acquire(pool, 1001, &hold) == TFC_EACCES && !hold);
	STEP('f', strstr(tfc_ctx_error(ctx)->text, "port 1001 is privileged"));
	answer(fd, 'K');
}

static void privileged_ports_need_the_right(void **state)
{
	run_in_child(ask_for_privileged_ports);
}

/* ---- IPv6 */

/* From now on the kernel refuses sockets of a family with this errno. */
static int refuse_sockets(uint32_t family, uint32_t refusal)
{
	struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, family, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | refusal),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {sizeof(program) / sizeof(program[0]), program};
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

static int family_of(int fd)
{
	int family = -1;
	socklen_t len = sizeof(family);
	getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len);
	return family;
}

/* Takes a port, lets a task in and out, and takes it again from TIME_WAIT. */
static void walk_through(int fd, int family)
{
	tfc_ctx *ctx = NULL;
	tfc_port_pool *pool = NULL;
	tfc_port_hold *hold = NULL;
	STEP('a', tfc_ctx_new(NULL, NULL, &ctx) == TFC_OK);
	STEP('b', tfc_port_pool_open(ctx, NULL, &pool) == TFC_OK);
	STEP('c', tfc_port_acquire(pool, 0, &hold) == TFC_OK);
	uint16_t port = tfc_port_hold_number(hold);
	STEP('d', family_of(tfc__port_fd(hold)) == family);
	STEP('e', test_count_intruders(port) == 0);
	STEP('f', tfc_port_hold_set_open(hold, 1) == TFC_OK);
	int task = test_listen("0.0.0.0", port, TEST_REUSEADDR);
	STEP('g', task >= 0);
	STEP('h', tfc_port_hold_set_open(hold, 0) == TFC_OK);
	STEP('i', test_count_intruders(port) == 0);
	tfc_port_listener listener = TFC_PORT_LISTENER_INIT;
	STEP('j', tfc_port_hold_listener(hold, getpid(), &listener) == TFC_OK);
	STEP('k', listener.count == 1 && listener.is_ours);
	int client = test_connect(port);
	STEP('l', client >= 0);
	close(accept(task, NULL, NULL));
	close(client);
	close(task);
	tfc_port_hold_release(hold);
	STEP('m', test_bind("0.0.0.0", port, TEST_PLAIN) == -EADDRINUSE);
	STEP('n', tfc_port_acquire(pool, port, &hold) == TFC_OK);
	STEP('o', test_count_intruders(port) == 0);
	answer(fd, 'K');
}

static void hold_on_a_kernel_without_ipv6(int fd, const void *arg)
{
	if (refuse_sockets(AF_INET6, EAFNOSUPPORT)) /* as after a boot with ipv6.disable=1 */
		answer(fd, 'S');
	walk_through(fd, AF_INET);
}

static void kernel_without_ipv6_gets_a_hold_of_ipv4(void **state)
{
	run_in_child(hold_on_a_kernel_without_ipv6);
}

/* ---- sock_diag */

static void hold_in_a_container_without_netlink(int fd, const void *arg)
{
	if (refuse_sockets(AF_NETLINK, EPROTONOSUPPORT))
		answer(fd, 'S');
	walk_through(fd, AF_INET6);
}

static void listeners_are_found_without_sock_diag(void **state)
{
	run_in_child(hold_in_a_container_without_netlink);
}

/* ---- network namespaces */

static int set_loopback(short flags)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = flags};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int result = ioctl(fd, SIOCSIFFLAGS, &request);
	close(fd);
	return result;
}

static int write_sysctl(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t n = write(fd, value, strlen(value));
	close(fd);
	return n > 0 ? 0 : -1;
}

static void hold_where_ipv6_has_no_addresses(int fd, const void *arg)
{
	if (unshare(CLONE_NEWNET) || set_loopback(IFF_UP) ||
	    write_sysctl("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1"))
		answer(fd, 'S');
	STEP('A', test_bind("::1", 20000, TEST_PLAIN) == -EADDRNOTAVAIL);
	walk_through(fd, AF_INET6); /* the kernel still binds [::], and that covers IPv4 */
}

static void interfaces_without_ipv6_are_held_too(void **state)
{
	run_in_child(hold_where_ipv6_has_no_addresses);
}

static void hold_where_sockets_are_ipv6_only(int fd, const void *arg)
{
	if (unshare(CLONE_NEWNET) || set_loopback(IFF_UP) ||
	    write_sysctl("/proc/sys/net/ipv6/bindv6only", "1"))
		answer(fd, 'S');
	tfc_ctx *ctx = NULL;
	tfc_port_pool *pool = NULL;
	tfc_port_hold *hold = NULL;
	STEP('a', tfc_ctx_new(NULL, NULL, &ctx) == TFC_OK);
	STEP('b', tfc_port_pool_open(ctx, NULL, &pool) == TFC_OK);
	STEP('c', tfc_port_acquire(pool, 0, &hold) == TFC_OK);
	STEP('d', test_count_intruders(tfc_port_hold_number(hold)) == 0);
	answer(fd, 'K');
}

static void bindv6only_does_not_leave_ipv4_open(void **state)
{
	run_in_child(hold_where_sockets_are_ipv6_only);
}

static void hold_where_no_interface_is_up(int fd, const void *arg)
{
	tfc_ctx *ctx = NULL;
	tfc_port_pool *pools[2] = {NULL, NULL};
	tfc_port_hold *holds[2] = {NULL, NULL};
	if (unshare(CLONE_NEWNET) || set_loopback(IFF_UP) || set_loopback(0))
		answer(fd, 'S');
	STEP('a', tfc_ctx_new(NULL, NULL, &ctx) == TFC_OK);
	STEP('b', tfc_port_pool_open(ctx, NULL, &pools[0]) == TFC_OK);
	STEP('c', tfc_port_pool_open(ctx, NULL, &pools[1]) == TFC_OK);
	STEP('d', tfc_port_acquire(pools[0], 20000, &holds[0]) == TFC_OK);
	STEP('e', tfc_port_hold_set_open(holds[0], 1) == TFC_OK);
	STEP('f', tfc_port_acquire(pools[1], 20000, &holds[1]) == TFC_EBUSY);
	answer(fd, 'K');
}

static void open_hold_is_not_taken_twice_without_a_loopback_interface(void **state)
{
	run_in_child(hold_where_no_interface_is_up);
}

/* ---- ports that the kernel gives away */

struct warnings {
	int count;
	char text[1024];
};

static void note_warning(void *user, const tfc_log_entry *entry)
{
	struct warnings *warnings = user;
	warnings->count++;
	snprintf(warnings->text, sizeof(warnings->text), "%s", entry->text);
}

static bool is_warned(const char *range, const char *reserved, uint16_t first, const char *what)
{
	struct warnings warnings = {0};
	tfc_ctx_options ctx_options = TFC_CTX_OPTIONS_INIT;
	tfc_port_pool_options options = TFC_PORT_POOL_OPTIONS_INIT;
	tfc_ctx *ctx = NULL;
	tfc_port_pool *pool = NULL;
	ctx_options.log = note_warning;
	ctx_options.log_user = &warnings;
	ctx_options.log_level = TFC_LOG_WARNING;
	options.first = first;
	options.last = (uint16_t)(first + 999);
	bool is_open = !write_sysctl("/proc/sys/net/ipv4/ip_local_port_range", range) &&
		       !write_sysctl("/proc/sys/net/ipv4/ip_local_reserved_ports", reserved) &&
		       !tfc_ctx_new(&ctx_options, NULL, &ctx) &&
		       !tfc_port_pool_open(ctx, &options, &pool);
	tfc_port_pool_close(pool);
	tfc_ctx_free(ctx);
	if (!what)
		return is_open && warnings.count == 0;
	return is_open && warnings.count == 1 && strstr(warnings.text, what);
}

static void open_pools_beside_the_ephemeral_range(int fd, const void *arg)
{
	if (unshare(CLONE_NEWNET) ||
	    write_sysctl("/proc/sys/net/ipv4/ip_local_port_range", "20500 60999"))
		answer(fd, 'S');
	STEP('a', is_warned("20500 60999", "\n", 20000, "ports 20500 to 20999 of the pool"));
	STEP('b', is_warned("20500 60999", "\n", 30000, "ports 30000 to 30999 of the pool"));
	STEP('c', is_warned("20500 60999", "8080,20000-20998", 20000, "20500-20999"));
	STEP('d', is_warned("20500 60999", "8080,20500-20999", 20000, NULL));
	STEP('e', is_warned("21000 60999", "\n", 20000, NULL));
	STEP('f', is_warned("20999 60999", "20999", 20000, NULL));
	STEP('g', is_warned("1024 19999", "\n", 20000, NULL));
	answer(fd, 'K');
}

static void pools_that_overlap_the_ephemeral_range_are_warned_of(void **state)
{
	run_in_child(open_pools_beside_the_ephemeral_range);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(privileged_ports_need_the_right),
		cmocka_unit_test(kernel_without_ipv6_gets_a_hold_of_ipv4),
		cmocka_unit_test(listeners_are_found_without_sock_diag),
		cmocka_unit_test(interfaces_without_ipv6_are_held_too),
		cmocka_unit_test(bindv6only_does_not_leave_ipv4_open),
		cmocka_unit_test(open_hold_is_not_taken_twice_without_a_loopback_interface),
		cmocka_unit_test(pools_that_overlap_the_ephemeral_range_are_warned_of),
	};
	return cmocka_run_group_tests_name("port_surroundings", tests, NULL, NULL);
}
