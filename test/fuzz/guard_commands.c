/* proc: what the guard receives from its host. Whatever comes, it reads whole messages, closes
 * every descriptor it does not keep, and outlives nonsense. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/pass.h"
#include "fuzz.h"
#include "proc/guard/guard.h"
#include "proc/sweep.h"

#define MESSAGES_MAX 24
#define INDEXES 256

static unsigned kept; /* descriptors that were handed on */

/* The guard's end of the socket has a fixed number, which nothing else may get before. */
__attribute__((constructor)) static void take_numbers(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	for (int number = TFC__GUARD_HOST; number <= TFC__GUARD_PIDFD; number++)
		if (fd != number)
			dup2(fd, number);
}

/* ---- the rest of the guard, which starts nothing and notes its orders */

static void take(int fd)
{
	if (fd < 0)
		return;
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
	kept++;
}

void task_spawn(struct guard *guard, const struct tfc__command *command, int launch)
{
	CHECK(command->kind == TFC__MSG_SPAWN);
	CHECK(launch < 0 || fcntl(launch, F_GETFD) >= 0);
	bool has_room = (uint32_t)command->id < INDEXES;
	uint32_t slot = decide(guard, (struct guard_event){.kind = GUARD_SPAWN,
							   .command = command,
							   .error = has_room ? 0 : ENOMEM});
	CHECK(slot == NO_SLOT || guard_core_find(&guard->core, command->id) == slot);
}

static void check_slot(const struct guard *guard, uint32_t slot)
{
	CHECK(slot < MESSAGES_MAX && guard->core.tasks[slot].is_used);
}

void task_send_stop(struct guard *guard, uint32_t slot, uint64_t kill_at)
{
	check_slot(guard, slot);
}

void task_kill(struct guard *guard, uint32_t slot, pid_t pid)
{
	check_slot(guard, slot);
}

void task_kill_shim(struct guard *guard, uint32_t slot)
{
	check_slot(guard, slot);
}

void task_kill_rest(struct guard *guard, uint32_t slot)
{
	check_slot(guard, slot);
}

void task_free(struct guard *guard, uint32_t slot)
{
	check_slot(guard, slot);
}

void oom_reset(struct guard *guard)
{
}

bool oom_account(struct guard *guard)
{
	return false;
}

void task_signal(struct guard *guard, const struct tfc__command *command)
{
	CHECK(command->kind == TFC__MSG_SIGNAL);
}

void keep_port(struct guard *guard, uint32_t id, int fd)
{
	take(fd);
}

void keep_set_bind_window(struct guard *guard, uint32_t id, bool is_open)
{
}

void keep_release(struct guard *guard, uint32_t id)
{
}

void dir_own(struct guard *guard, const struct tfc__command *command, const char *path, int state)
{
	take(state);
	CHECK(command->kind == TFC__MSG_OWN_DIR);
	CHECK(strlen(path) < PATH_MAX);
}

void cgroup_clear_dead(void)
{
}

int tfc__sweep(pid_t parent, tfc__spare_fn spare, void *user)
{
	return 0;
}

int watch(struct guard *guard, int fd, uint32_t events, uint64_t what)
{
	return 0;
}

/* ---- messages */

static int count_fds(void)
{
	int count = 0;
	for (int fd = 0; fd < 64; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* A few that are used again with another serial number, and one that is beyond all. */
static uint64_t make_lease(uint8_t byte)
{
	return (uint64_t)(byte >> 4) << 32 | (byte & 8 ? TFC__LEASES_MAX : byte & 7u);
}

static const uint64_t deadlines[] = {0, 1, UINT64_C(1) << 62}; /* forget, over, in force */

/* The kind, the struct's bytes, and more behind them; or anything. */
static size_t make_message(struct fuzz_input *input, uint8_t how, char *message, size_t room)
{
	struct tfc__command command = {.kind = (uint32_t)fuzz_number(input, 1) % 24};
	size_t len, wanted = (size_t)fuzz_number(input, 1);
	if (how & 2)
		wanted *= 20; /* as long as a path can be */
	const uint8_t *bytes = fuzz_bytes(input, wanted, &len);
	size_t head = how & 4 ? 0 : sizeof(command);
	if (len > room - head)
		len = room - head;
	command.keep_id = len ? bytes[0] : 0;
	command.value = how >> 3 & 1;
	command.lease = len > 1 ? make_lease(bytes[1]) : 0;
	command.deadline_ns = len > 2 ? deadlines[bytes[2] % 3] : 0;
	memcpy(message, &command, head);
	if (len)
		memcpy(message + head, bytes, len);
	return head + len;
}

static void send_message(struct fuzz_input *input, int socket)
{
	char message[sizeof(struct tfc__command) + PATH_MAX + 64];
	uint8_t how = (uint8_t)fuzz_number(input, 1);
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct iovec part = {message, make_message(input, how, message, sizeof(message))};
	tfc__pass_send(socket, &part, 1, &null, how & 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	close(null);
}

static void drop_unsent(struct guard *guard)
{
	while (guard->unsent) {
		struct unsent *first = guard->unsent;
		guard->unsent = first->next;
		free(first);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = {data, size};
	struct guard_task tasks[MESSAGES_MAX] = {{0}};
	uint32_t slots[INDEXES] = {0};
	static struct guard guard;
	guard = (struct guard){.core = {.tasks = tasks,
					.task_capacity = MESSAGES_MAX,
					.slots = slots,
					.index_capacity = INDEXES}};
	int ends[2];
	guard.unsent_end = &guard.unsent;
	kept = 0;
	int before = count_fds();
	CHECK(deadline_open(&guard) == 0 && lease_open(&guard) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	dup2(ends[1], TFC__GUARD_HOST);
	close(ends[1]);
	for (int i = 0; i < MESSAGES_MAX && input.len && !guard.is_host_gone; i++) {
		send_message(&input, ends[0]);
		host_receive(&guard, EPOLLIN);
		CHECK(guard.core.lease_count <= TFC__LEASES_MAX);
		CHECK(guard.will.count <= TFC__WILL_ADDRESSES);
	}
	CHECK(kept <= MESSAGES_MAX);
	close(ends[0]);
	while (!guard.is_host_gone)
		host_receive(&guard, EPOLLIN | EPOLLHUP); /* the end comes through, whatever came */
	decide(&guard, (struct guard_event){.kind = GUARD_TIMER});
	for (uint32_t i = 0; i < guard.core.lease_count; i++)
		CHECK(!guard.core.leases[i].id || guard.core.leases[i].is_over ||
		      guard.core.leases[i].deadline_ns > 1);
	close(guard.timer);
	munmap(guard.core.leases, TFC__LEASES_MAX * sizeof(*guard.core.leases));
	close(guard.lease_memory);
	drop_unsent(&guard);
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	for (int number = TFC__GUARD_HOST; number <= TFC__GUARD_PIDFD; number++)
		if (null != number)
			dup2(null, number);
	if (null > TFC__GUARD_PIDFD)
		close(null);
	CHECK(count_fds() == before);
	return 0;
}
