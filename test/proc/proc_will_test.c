/* proc: a guard publishes its host's last will when everything is gone, and in no other case. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "proc/guard.h"
#include "proc/will.h"
#include "proc_run.h"

#define GRACE_MS 500
#define PATIENCE_MS 5000
#define NEVER_MS 2000 /* longer than the guard looks for evidence */

/* What a host reports to the test before it dies. */
struct family {
	pid_t guard, shim, task, daemon;
	struct tfc__will_key key;
	uint64_t died_at; /* CLOCK_MONOTONIC, just before its death */
};

struct heirs {
	struct proc_run run;
	int listener, datagrams; /* at the same port; -1: none */
	struct tfc__will_address address;
	pid_t host;
	struct family family;
};

/* ---- the host */

static const struct tfc__will_options will_options = {.incarnation = 7};

static struct tfc__will *make_will(tfc_ctx *ctx, const struct tfc__will_address *address,
				   struct tfc__will_key *ret_key)
{
	struct tfc__will *will;
	assert_int_equal(tfc__will_open(ctx, &will_options, &will), 0);
	assert_true(tfc__will_commit(will, ret_key));
	tfc__will_send_to(will, address, 1);
	return will;
}

static void start_task(struct proc_run *run, struct proc_task *task, const char *first,
		       const char *second, const char *third)
{
	char *argv[] = {(char *)proc_task_program(), (char *)first, (char *)second, (char *)third,
			NULL};
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	options.argv = (const char *const *)argv;
	options.grace_ms = GRACE_MS;
	proc_start_with(run, task, &options);
}

typedef void (*death_fn)(struct proc_run *run, const struct family *family);

static _Noreturn void be_host(int report, const struct heirs *heirs, death_fn die)
{
	static struct proc_task tasks[2];
	struct proc_run run = {.dir = strdup(heirs->run.dir)};
	struct family family = {0};
	const char *mark = proc_path(&run, "pid");
	if (proc_ctx_new(&run.ctx) < 0 || tfc__guard_start(run.ctx) < 0)
		_exit(1);
	make_will(run.ctx, &heirs->address, &family.key);
	start_task(&run, &tasks[0], "deaf", "wait", NULL);
	start_task(&run, &tasks[1], "daemon", mark, "wait");
	proc_await_start(&run, &tasks[0]);
	proc_await_start(&run, &tasks[1]);
	proc_await_deaf(tasks[0].pid);
	family.task = tasks[0].pid;
	family.daemon = (pid_t)proc_await_number(mark);
	family.shim = proc_parent(tasks[1].pid);
	family.guard = proc_parent(family.shim);
	family.died_at = tfc__now();
	if (write(report, &family, sizeof(family)) != sizeof(family))
		_exit(2);
	die(&run, &family);
	_exit(3);
}

static void heirs_begin_with(struct heirs *heirs, bool has_listener, bool has_datagrams)
{
	struct sockaddr_in here = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(here);
	proc_run_begin(&heirs->run);
	heirs->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(heirs->listener, (struct sockaddr *)&here, sizeof(here)), 0);
	assert_int_equal(getsockname(heirs->listener, (struct sockaddr *)&here, &len), 0);
	if (has_listener) /* else connections are refused */
		assert_int_equal(listen(heirs->listener, 8), 0);
	heirs->datagrams = has_datagrams ? socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
	if (has_datagrams)
		assert_int_equal(bind(heirs->datagrams, (struct sockaddr *)&here, sizeof(here)), 0);
	heirs->address = (struct tfc__will_address){.port = ntohs(here.sin_port),
						    .has_datagrams = true};
	memcpy(heirs->address.ip, &here.sin_addr, sizeof(here.sin_addr));
}

static void heirs_begin(struct heirs *heirs)
{
	heirs_begin_with(heirs, true, false);
}

static void heirs_end(struct heirs *heirs)
{
	close(heirs->listener);
	if (heirs->datagrams >= 0)
		close(heirs->datagrams);
	proc_run_end(&heirs->run);
}

/* Starts a host, which dies so. It is reaped unless it only executes another program. */
static void start_host(struct heirs *heirs, death_fn die, bool is_exec)
{
	int ends[2], status;
	assert_int_equal(pipe(ends), 0);
	heirs->host = fork();
	assert_true(heirs->host >= 0);
	if (heirs->host == 0)
		be_host(ends[1], heirs, die);
	close(ends[1]);
	assert_int_equal(read(ends[0], &heirs->family, sizeof(heirs->family)),
			 sizeof(heirs->family));
	close(ends[0]);
	if (!is_exec)
		assert_int_equal(waitpid(heirs->host, &status, 0), heirs->host);
}

/* ---- the receiver */

static int accept_within(const struct heirs *heirs, int ms)
{
	struct pollfd fd = {.fd = heirs->listener, .events = POLLIN};
	return poll(&fd, 1, ms) > 0 ? accept4(heirs->listener, NULL, NULL, SOCK_CLOEXEC) : -1;
}

static void assert_will(const struct heirs *heirs, const uint8_t message[TFC__WILL_MESSAGE])
{
	struct tfc__will_key key;
	assert_true(tfc__will_is_message(message, TFC__WILL_MESSAGE));
	tfc__will_key_of(message, &key);
	assert_int_equal(key.incarnation, will_options.incarnation);
	assert_memory_equal(key.commitment, heirs->family.key.commitment, sizeof(key.commitment));
}

/* The next connection, whose will must be the right one. */
static int receive_will(const struct heirs *heirs, uint8_t message[TFC__WILL_MESSAGE])
{
	int fd = accept_within(heirs, PATIENCE_MS);
	assert_true(fd >= 0);
	assert_int_equal(recv(fd, message, TFC__WILL_MESSAGE, MSG_WAITALL), TFC__WILL_MESSAGE);
	assert_will(heirs, message);
	return fd;
}

/* The next datagram, which must be the will. */
static void receive_datagram(const struct heirs *heirs, uint8_t message[TFC__WILL_MESSAGE],
			     struct sockaddr_in *ret_from)
{
	uint8_t bytes[TFC__WILL_MESSAGE + 1];
	struct pollfd fd = {.fd = heirs->datagrams, .events = POLLIN};
	socklen_t len = sizeof(*ret_from);
	assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
	assert_int_equal(recvfrom(fd.fd, bytes, sizeof(bytes), 0, (struct sockaddr *)ret_from,
				  &len),
			 TFC__WILL_MESSAGE);
	memcpy(message, bytes, TFC__WILL_MESSAGE);
	assert_will(heirs, message);
}

static void send_ack(int fd, const struct sockaddr_in *to, const uint8_t *ack, size_t len)
{
	assert_int_equal(sendto(fd, ack, len, 0, (const struct sockaddr *)to, sizeof(*to)), len);
}

static void acknowledge(int fd, const uint8_t message[TFC__WILL_MESSAGE])
{
	uint8_t ack[TFC__WILL_ACK];
	tfc__will_ack(message, ack);
	assert_int_equal(send(fd, ack, sizeof(ack), MSG_NOSIGNAL), sizeof(ack));
	close(fd);
}

static bool is_anything_alive(const struct heirs *heirs)
{
	const struct family *family = &heirs->family;
	return proc_is_alive(family->task) || proc_is_alive(family->daemon) ||
	       proc_is_alive(family->shim);
}

static void assert_published(struct heirs *heirs)
{
	uint8_t message[TFC__WILL_MESSAGE];
	int fd = receive_will(heirs, message);
	assert_false(is_anything_alive(heirs));
	acknowledge(fd, message);
	assert_true(
		proc_await_gone(heirs->family.guard, PATIENCE_MS)); /* before its lease is over */
}

static void assert_not_published(struct heirs *heirs)
{
	assert_int_equal(accept_within(heirs, NEVER_MS), -1);
	assert_true(proc_await_gone(heirs->family.task, PATIENCE_MS));
	assert_true(proc_await_gone(heirs->family.guard, PATIENCE_MS));
	assert_int_equal(accept_within(heirs, 0), -1);
}

/* ---- published */

static void die_of_kill(struct proc_run *run, const struct family *family)
{
	raise(SIGKILL);
}

static void a_will_is_published_when_the_last_task_is_gone(void **state)
{
	struct heirs heirs;
	heirs_begin(&heirs);
	start_host(&heirs, die_of_kill, false);
	assert_published(&heirs);
	/* one of them ignores TERM */
	assert_true(tfc__now() - heirs.family.died_at > GRACE_MS * TFC__MS);
	heirs_end(&heirs);
}

static void a_will_is_sent_until_it_is_acknowledged(void **state)
{
	struct heirs heirs;
	uint8_t message[TFC__WILL_MESSAGE], again[TFC__WILL_MESSAGE], wrong[TFC__WILL_ACK] = {0};
	heirs_begin(&heirs);
	start_host(&heirs, die_of_kill, false);
	close(receive_will(&heirs, message)); /* no response */
	int fd = receive_will(&heirs, again);
	assert_memory_equal(message, again, sizeof(message));
	assert_int_equal(send(fd, wrong, sizeof(wrong), MSG_NOSIGNAL), sizeof(wrong));
	assert_true(proc_is_alive(heirs.family.guard));
	int silent = receive_will(&heirs,
				  again); /* this connection stays open without a response */
	close(fd);
	assert_published(&heirs);
	close(silent);
	heirs_end(&heirs);
}

static void a_will_is_sent_in_datagrams_until_it_is_acknowledged(void **state)
{
	struct heirs heirs;
	struct sockaddr_in from;
	uint8_t message[TFC__WILL_MESSAGE], ack[TFC__WILL_ACK + 1] = {0};
	heirs_begin_with(&heirs, false, true); /* connections are refused */
	start_host(&heirs, die_of_kill, false);
	receive_datagram(&heirs, message, &from); /* no response */
	assert_false(is_anything_alive(&heirs));
	receive_datagram(&heirs, message, &from);
	send_ack(heirs.datagrams, &from, ack, TFC__WILL_ACK); /* a wrong one */
	tfc__will_ack(message, ack);
	send_ack(heirs.datagrams, &from, ack, TFC__WILL_ACK - 1);
	send_ack(heirs.datagrams, &from, ack, TFC__WILL_ACK + 1);
	int other = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	send_ack(other, &from, ack, TFC__WILL_ACK); /* from another address */
	close(other);
	receive_datagram(&heirs, message, &from);
	assert_true(proc_is_alive(heirs.family.guard));
	send_ack(heirs.datagrams, &from, ack, TFC__WILL_ACK);
	assert_true(
		proc_await_gone(heirs.family.guard, PATIENCE_MS)); /* before its lease is over */
	heirs_end(&heirs);
}

/* The kernel refuses each datagram by an ICMP message. */
static void refused_datagrams_do_not_delay_the_connection(void **state)
{
	struct heirs heirs;
	uint8_t message[TFC__WILL_MESSAGE];
	heirs_begin_with(&heirs, true, false);
	start_host(&heirs, die_of_kill, false);
	close(receive_will(&heirs, message));
	close(receive_will(&heirs, message));
	assert_published(&heirs);
	heirs_end(&heirs);
}

static void nodes_without_datagrams_get_none(void **state)
{
	struct heirs heirs;
	heirs_begin_with(&heirs, true, true);
	heirs.address.has_datagrams = false;
	start_host(&heirs, die_of_kill, false);
	assert_published(&heirs);
	struct pollfd fd = {.fd = heirs.datagrams, .events = POLLIN};
	assert_int_equal(poll(&fd, 1, 0), 0);
	heirs_end(&heirs);
}

static void die_and_leave_a_fork(struct proc_run *run, const struct family *family)
{
	if (fork() == 0) {
		alarm(8);
		for (;;)
			pause();
	}
	raise(SIGKILL);
}

static void a_forked_child_that_holds_the_socket_delays_no_will(void **state)
{
	struct heirs heirs;
	heirs_begin(&heirs);
	start_host(&heirs, die_and_leave_a_fork, false);
	assert_published(&heirs);
	heirs_end(&heirs);
}

/* The daemon is adopted by the guard. */
static void die_with_a_shim(struct proc_run *run, const struct family *family)
{
	kill(family->guard, SIGSTOP);
	kill(family->shim, SIGKILL);
	raise(SIGKILL);
}

static void an_adopted_process_is_gone_before(void **state)
{
	struct heirs heirs;
	heirs_begin(&heirs);
	start_host(&heirs, die_with_a_shim, false);
	assert_true(proc_is_alive(heirs.family.daemon));
	assert_int_equal(kill(heirs.family.guard, SIGCONT), 0);
	assert_published(&heirs);
	heirs_end(&heirs);
}

static void die_after_a_launch(struct proc_run *run, const struct family *family)
{
	static struct proc_task late;
	kill(family->guard, SIGSTOP);
	start_task(run, &late, "daemon", proc_path(run, "late"), "wait");
	raise(SIGKILL);
}

static void a_launch_that_the_guard_has_not_read_starts_nothing_behind_the_will(void **state)
{
	struct heirs heirs;
	heirs_begin(&heirs);
	start_host(&heirs, die_after_a_launch, false);
	const char *late = proc_path(&heirs.run, "late");
	assert_int_not_equal(access(late, F_OK), 0);
	assert_int_equal(kill(heirs.family.guard, SIGCONT), 0);
	assert_published(&heirs);
	if (access(late, F_OK) == 0)
		assert_false(proc_is_alive((pid_t)proc_await_number(late)));
	heirs_end(&heirs);
}

/* ---- not published */

static void become_another_program(struct proc_run *run, const struct family *family)
{
	execl(proc_task_program(), "test_task", "wait", NULL);
}

static void a_host_that_executes_another_program_is_not_dead(void **state)
{
	struct heirs heirs;
	int status;
	heirs_begin(&heirs);
	start_host(&heirs, become_another_program, true);
	assert_not_published(&heirs);
	assert_true(proc_is_alive(heirs.host));
	kill(heirs.host, SIGKILL);
	assert_int_equal(waitpid(heirs.host, &status, 0), heirs.host);
	heirs_end(&heirs);
}

static void die_with_the_guard(struct proc_run *run, const struct family *family)
{
	kill(family->guard, SIGKILL);
	raise(SIGKILL);
}

static void host_and_guard_that_die_together_leave_no_will(void **state)
{
	struct heirs heirs;
	heirs_begin(&heirs);
	start_host(&heirs, die_with_the_guard, false);
	assert_not_published(&heirs);
	heirs_end(&heirs);
}

static void free_the_context(struct proc_run *run, const struct family *family)
{
	tfc_ctx_free(run->ctx);
	raise(SIGKILL);
}

static void a_context_that_is_freed_leaves_no_will(void **state)
{
	struct heirs heirs;
	heirs_begin(&heirs);
	start_host(&heirs, free_the_context, false);
	assert_not_published(&heirs);
	heirs_end(&heirs);
}

/* ---- another guard */

static void die_under_a_later_guard(struct proc_run *run, const struct family *family)
{
	kill(family->shim, SIGSTOP);
	kill(family->guard, SIGKILL);
	while (tfc__guard_pid(run->ctx) == family->guard)
		tfc_ctx_run(run->ctx, 100);
	tfc__guard_start(run->ctx);
	raise(SIGKILL);
}

/* Its predecessor's shims may be alive, so the guard has no will. */
static void a_later_guard_knows_nothing_of_earlier_tasks(void **state)
{
	struct heirs heirs;
	heirs_begin(&heirs);
	start_host(&heirs, die_under_a_later_guard, false);
	assert_int_equal(accept_within(&heirs, NEVER_MS), -1);
	assert_true(proc_is_alive(heirs.family.shim));
	assert_int_equal(kill(heirs.family.shim, SIGCONT), 0);
	assert_not_published(&heirs);
	assert_true(proc_await_gone(heirs.family.shim, PATIENCE_MS));
	assert_true(proc_await_gone(heirs.family.daemon, PATIENCE_MS));
	heirs_end(&heirs);
}

#define LATE_GRACE_MS (NEVER_MS + 1500)

/* Reading from the guard's socket fails, as it does without memory; the host takes the guard for
 * dead. The next one starts a task, and the host dies while the tasks of the first would end. */
static void die_under_a_guard_that_took_the_place_of_a_living_one(struct proc_run *run,
								  const struct family *family)
{
	static struct proc_task late;
	char *argv[] = {(char *)proc_task_program(),    (char *)"deaf", (char *)"daemon",
			(char *)proc_path(run, "late"), (char *)"wait", NULL};
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	const struct tfc__guards *guards = tfc__ctx_slot(run->ctx, TFC__SLOT_GUARDS);
	struct tfc__guard *first = guards->current;
	int zero = open("/dev/null", O_RDWR);
	dup2(zero, first->socket.fd);
	close(zero);
	tfc__guard_receive(first);
	options.argv = (const char *const *)argv;
	options.grace_ms = LATE_GRACE_MS;
	proc_start_with(run, &late, &options);
	proc_await_start(run, &late);
	proc_await_number(proc_path(run, "late"));
	raise(SIGKILL);
}

static void a_guard_that_was_taken_for_dead_publishes_nothing(void **state)
{
	struct heirs heirs;
	heirs_begin(&heirs);
	start_host(&heirs, die_under_a_guard_that_took_the_place_of_a_living_one, false);
	pid_t late = (pid_t)proc_await_number(proc_path(&heirs.run, "late"));
	assert_int_equal(accept_within(&heirs, NEVER_MS), -1);
	assert_true(proc_is_alive(late));
	assert_not_published(&heirs);
	assert_true(proc_await_gone(late, PATIENCE_MS));
	heirs_end(&heirs);
}

static void a_will_is_withdrawn_until_the_shims_of_a_dead_guard_are_gone(void **state)
{
	const struct tfc__will_address nowhere = {.port = 0};
	struct proc_run run;
	struct proc_task task, next;
	struct tfc__will_key first, second;
	proc_run_begin(&run);
	assert_int_equal(tfc__guard_start(run.ctx), 0);
	struct tfc__will *will = make_will(run.ctx, &nowhere, &first);
	assert_true(tfc__will_commit(will, &second));
	assert_true(tfc__will_key_is_equal(&first, &second));
	start_task(&run, &task, "wait", NULL, NULL);
	proc_await_start(&run, &task);
	pid_t shim = proc_parent(task.pid), guard = proc_parent(shim);
	proc_stop(shim);
	kill(guard, SIGKILL);
	while (tfc__guard_pid(run.ctx) == guard)
		tfc_ctx_run(run.ctx, 100);
	assert_false(tfc__will_commit(will, &second)); /* there is no guard */
	start_task(&run, &next, "wait", NULL, NULL);
	proc_await_start(&run, &next);
	assert_false(tfc__will_commit(will, &second)); /* there is one, and a shim of the other */
	kill(shim, SIGCONT);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.reason, TFC_EXIT_LOST);
	assert_true(tfc__will_commit(will, &second));
	assert_false(tfc__will_key_is_equal(&first, &second));
	assert_int_equal(second.incarnation, first.incarnation);
	assert_int_equal(tfc_process_stop(next.process, 1000), 0);
	proc_await_end(&run, &next);
	proc_close(&task);
	proc_close(&next);
	tfc__will_close(will);
	proc_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_will_is_published_when_the_last_task_is_gone),
		cmocka_unit_test(a_will_is_sent_until_it_is_acknowledged),
		cmocka_unit_test(a_will_is_sent_in_datagrams_until_it_is_acknowledged),
		cmocka_unit_test(refused_datagrams_do_not_delay_the_connection),
		cmocka_unit_test(nodes_without_datagrams_get_none),
		cmocka_unit_test(a_forked_child_that_holds_the_socket_delays_no_will),
		cmocka_unit_test(an_adopted_process_is_gone_before),
		cmocka_unit_test(
			a_launch_that_the_guard_has_not_read_starts_nothing_behind_the_will),
		cmocka_unit_test(a_host_that_executes_another_program_is_not_dead),
		cmocka_unit_test(host_and_guard_that_die_together_leave_no_will),
		cmocka_unit_test(a_context_that_is_freed_leaves_no_will),
		cmocka_unit_test(a_later_guard_knows_nothing_of_earlier_tasks),
		cmocka_unit_test(a_guard_that_was_taken_for_dead_publishes_nothing),
		cmocka_unit_test(a_will_is_withdrawn_until_the_shims_of_a_dead_guard_are_gone),
	};
	return cmocka_run_group_tests_name("proc_will", tests, NULL, NULL);
}
