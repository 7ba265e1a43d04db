/*
 * Guards, in place of lib/proc/guard_start.c and lib/proc/guard. A guard here keeps the deadlines
 * of its shims: `is_dead` says that only the shims are left. It obeys the messages of
 * lib/proc/protocol.h as lib/proc/guard and lib/proc/shim do, on its machine's clocks.
 */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/pass.h"
#include "ctx/helper.h"
#include "proc/dir_lock.h"
#include "proc/guard.h"
#include "proc/task_lock.h"

#define TASKS_MAX 64
#define SLOTS_MAX 16

struct lease {
	uint64_t id;
	uint64_t deadline;
	uint32_t length_ms;
	bool is_over;
};

struct dir {
	uint32_t id;
	char path[SIM_PATH];
	int lock;
	int state; /* the node's state directory, or -1 */
	int guard_lock;
};

struct sim_guard {
	struct sim_guard *next;
	struct sim_machine *machine;
	uint32_t owner;
	int32_t pid;
	int socket, lifeline, life; /* its ends; life: of what the host has as its pidfd */
	ino_t life_inode;
	bool is_host_gone;
	bool is_dead;
	bool is_over; /* and no shim is left */
	struct sim_shim shims[TASKS_MAX];
	struct lease leases[SLOTS_MAX];
	struct dir dirs[SLOTS_MAX];
	struct {
		uint32_t id;
		int fd;
	} keeps[SLOTS_MAX];
};

static struct sim_guard *guards;
static int32_t last_pid = 1000;

static uint64_t boot(const struct sim_guard *guard)
{
	return sim_clock(guard->machine, CLOCK_BOOTTIME);
}

static bool can_step(const struct sim_guard *guard)
{
	return !guard->is_over && guard->machine->power == SIM_RUNS;
}

int32_t sim_next_pid(void)
{
	return last_pid += 2;
}

static void send_report(struct sim_guard *guard, struct tfc__report *report)
{
	if (guard->is_host_gone || guard->is_dead)
		return;
	report->time_ns = sim_clock(guard->machine, CLOCK_REALTIME);
	if (send(guard->socket, report, sizeof(*report), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 &&
	    errno == EAGAIN)
		abort(); /* a socket holds far more than one machine's tasks say */
}

/* ---- the end of a guard, and of its last shim */

static bool has_tasks(const struct sim_guard *guard)
{
	for (int i = 0; i < TASKS_MAX; i++)
		if (guard->shims[i].is_alive)
			return true;
	return false;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void end_if_idle(struct sim_guard *guard)
{
	if (guard->is_over || has_tasks(guard) || !(guard->is_dead || guard->is_host_gone))
		return;
	if (!guard->is_dead) {
		for (int i = 0; i < SLOTS_MAX; i++)
			if (guard->dirs[i].id)
				close_fd(guard->dirs[i].guard_lock);
		for (int i = 0; i < SLOTS_MAX; i++)
			if (guard->dirs[i].id)
				tfc__remove_tree_last(guard->dirs[i].path, TFC__DIR_LOCK);
	}
	guard->is_over = true;
	sim_close_all(guard->owner);
	sim_note("guard %d is over", guard->pid);
}

void sim_guard_report(struct sim_guard *guard, struct tfc__report *report)
{
	send_report(guard, report);
	if (report->kind == TFC__MSG_EXITED)
		end_if_idle(guard);
}

/* ---- stopping */

static void stop_all(struct sim_guard *guard, bool is_at_once)
{
	uint64_t now = boot(guard);
	for (int i = 0; i < TASKS_MAX; i++) {
		struct sim_shim *shim = &guard->shims[i];
		sim_shim_stop(shim, is_at_once ? now : now + shim->grace_ms * SIM_MS);
	}
}

static void host_gone(struct sim_guard *guard)
{
	if (guard->is_host_gone)
		return;
	guard->is_host_gone = true;
	sim_note("guard %d: its host is gone", guard->pid);
	stop_all(guard, false);
	end_if_idle(guard);
}

/* A guard that is killed leaves the grace to its shims: under a lease, no more than the lease's. */
static void guard_die(struct sim_guard *guard)
{
	if (guard->is_dead || guard->is_over)
		return;
	guard->is_dead = true;
	sim_note("guard %d is killed", guard->pid);
	close(guard->socket);
	close(guard->life);
	for (int i = 0; i < TASKS_MAX; i++) {
		struct sim_shim *shim = &guard->shims[i];
		uint32_t grace_ms = shim->lease && shim->lease_grace_ms < shim->grace_ms
					    ? shim->lease_grace_ms
					    : shim->grace_ms;
		sim_shim_stop(shim, boot(guard) + grace_ms * SIM_MS);
	}
	for (int i = 0; i < SLOTS_MAX; i++)
		if (guard->dirs[i].id)
			close_fd(guard->dirs[i].guard_lock);
	for (int i = 0; i < SLOTS_MAX; i++)
		if (guard->keeps[i].id)
			close(guard->keeps[i].fd);
	end_if_idle(guard);
}

/* ---- leases */

static struct lease *find_lease(struct sim_guard *guard, uint64_t id)
{
	for (int i = 0; i < SLOTS_MAX; i++)
		if (id && guard->leases[i].id == id)
			return &guard->leases[i];
	return NULL;
}

static void on_lease(void *user, uint64_t number);

static void lease_check(struct sim_guard *guard, struct lease *lease)
{
	if (!lease->id || lease->is_over || guard->is_dead || guard->is_over)
		return;
	if (lease->deadline > boot(guard)) {
		sim_at(sim_true_time(guard->machine, CLOCK_BOOTTIME, lease->deadline), on_lease,
		       guard, (uint64_t)(lease - guard->leases));
		return;
	}
	lease->is_over = true;
	sim_note("a lease of guard %d is over", guard->pid);
	send_report(guard, &(struct tfc__report){.kind = TFC__MSG_OVER,
						 .id = lease->id,
						 .silent_ms = lease->length_ms});
	for (int i = 0; i < TASKS_MAX; i++) {
		struct sim_shim *shim = &guard->shims[i];
		if (!shim->is_alive || shim->lease != lease->id)
			continue;
		shim->silent_ms = lease->length_ms;
		sim_shim_stop(shim, lease->deadline + shim->lease_grace_ms * SIM_MS);
	}
}

static void on_lease(void *user, uint64_t number)
{
	struct sim_guard *guard = user;
	if (!can_step(guard))
		return;
	sim.kernel = guard->machine;
	lease_check(guard, &guard->leases[number]);
	sim.kernel = NULL;
}

static void lease_receive(struct sim_guard *guard, const struct tfc__command *command)
{
	struct lease *lease = find_lease(guard, command->lease);
	if (lease)
		lease_check(guard, lease);
	if (lease && !command->deadline_ns)
		lease->id = 0;
	if (!command->deadline_ns || (lease && lease->is_over))
		return;
	for (int i = 0; i < SLOTS_MAX && !lease; i++)
		if (!guard->leases[i].id)
			lease = &guard->leases[i];
	if (!lease)
		abort();
	bool is_new = lease->id != command->lease;
	*lease = (struct lease){command->lease, command->deadline_ns, command->value, false};
	if (is_new || lease->deadline <= boot(guard))
		lease_check(guard, lease);
}

/* ---- starting */

/* The locks that say that the task may be alive. */
static int lock_task(struct sim_guard *guard, const struct tfc__command *command, int *ret_lock)
{
	for (int i = 0; i < SLOTS_MAX; i++) {
		struct dir *dir = &guard->dirs[i];
		if (!command->dir || dir->id != command->dir)
			continue;
		if (dir->lock < 0)
			return ENOLCK;
		if (dir->state < 0)
			return 0;
		if (dir->guard_lock < 0)
			dir->guard_lock = tfc__task_lock_guard(dir->state);
		*ret_lock = tfc__task_lock_task(dir->state, command->grace_ms);
		return dir->guard_lock < 0 || *ret_lock < 0 ? errno : 0;
	}
	return command->dir ? ENOLCK : 0;
}

static void start(struct sim_guard *guard, const struct tfc__command *command, const char *launch)
{
	const struct lease *lease = find_lease(guard, command->lease);
	struct sim_shim *shim = NULL;
	for (int i = 0; i < TASKS_MAX && !shim; i++)
		if (!guard->shims[i].is_alive)
			shim = &guard->shims[i];
	if (!shim)
		abort();
	uint64_t serial = shim->serial;
	*shim = (struct sim_shim){.guard = guard,
				  .machine = guard->machine,
				  .serial = serial,
				  .id = command->id,
				  .pid = sim_next_pid(),
				  .grace_ms = command->grace_ms,
				  .lease = command->lease,
				  .lease_grace_ms = (uint32_t)command->lease_grace_ms};
	bool is_late = command->lease &&
		       (!lease || lease->is_over || lease->deadline <= boot(guard));
	shim->lock = -1;
	int error = is_late ? 0 : lock_task(guard, command, &shim->lock);
	if (is_late || error) {
		send_report(guard, &(struct tfc__report){.kind = TFC__MSG_EXITED,
							 .reason = is_late ? TFC__END_LOST
									   : TFC__END_NOT_STARTED,
							 .step = is_late ? TFC__STEP_NONE
									 : TFC__STEP_GUARD,
							 .status = error,
							 .silent_ms = is_late ? 1 : 0,
							 .id = command->id});
		return;
	}
	sim_shim_start(shim, launch);
}

static void spawn(struct sim_guard *guard, const struct tfc__command *command, int memfd)
{
	struct stat status;
	if (memfd < 0 || fstat(memfd, &status) < 0)
		abort();
	char *launch = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, memfd, 0);
	if (launch == MAP_FAILED)
		abort();
	start(guard, command, launch);
	munmap(launch, (size_t)status.st_size);
}

/* ---- what the host asks */

static void own_dir(struct sim_guard *guard, const struct tfc__command *command, const char *path,
		    int state)
{
	struct dir *dir = NULL;
	for (int i = 0; i < SLOTS_MAX; i++)
		if (guard->dirs[i].id == command->dir)
			dir = &guard->dirs[i];
	if (!command->value) {
		if (!dir)
			return;
		close_fd(dir->lock);
		close_fd(dir->state);
		close_fd(dir->guard_lock);
		dir->id = 0;
		return;
	}
	for (int i = 0; i < SLOTS_MAX && !dir; i++)
		if (!guard->dirs[i].id)
			dir = &guard->dirs[i];
	if (!dir)
		abort();
	*dir = (struct dir){.id = command->dir,
			    .lock = tfc__dir_lock_open(path, false),
			    .state = state,
			    .guard_lock = -1};
	snprintf(dir->path, sizeof(dir->path), "%.150s", path);
	if (dir->lock >= 0)
		tfc__dir_lock_share(dir->lock);
}

static struct sim_shim *find_task(struct sim_guard *guard, uint64_t id)
{
	for (int i = 0; i < TASKS_MAX; i++)
		if (guard->shims[i].is_alive && guard->shims[i].id == id)
			return &guard->shims[i];
	return NULL;
}

static void keep(struct sim_guard *guard, uint32_t id, int fd)
{
	for (int i = 0; i < SLOTS_MAX; i++) {
		bool is_wanted = fd >= 0 ? !guard->keeps[i].id : guard->keeps[i].id == id;
		if (!is_wanted)
			continue;
		if (fd < 0)
			close(guard->keeps[i].fd);
		guard->keeps[i].id = fd < 0 ? 0 : id;
		guard->keeps[i].fd = fd;
		return;
	}
}

static void obey(struct sim_guard *guard, const struct tfc__command *command, const char *path,
		 int fd)
{
	struct sim_shim *shim = find_task(guard, command->id);
	switch (command->kind) {
	case TFC__MSG_SPAWN:
		spawn(guard, command, fd);
		break;
	case TFC__MSG_STOP:
		if (shim)
			sim_shim_stop(shim, command->deadline_ns);
		break;
	case TFC__MSG_SIGNAL:
		if (shim && command->value == SIGKILL)
			sim_shim_kill(shim);
		break;
	case TFC__MSG_KEEP:
		keep(guard, command->keep_id, fd);
		return;
	case TFC__MSG_RELEASE:
		keep(guard, command->keep_id, -1);
		break;
	case TFC__MSG_OWN_DIR:
		own_dir(guard, command, path, fd);
		return;
	case TFC__MSG_KILL_ALL:
		stop_all(guard, true);
		host_gone(guard);
		break;
	case TFC__MSG_LEASE:
		lease_receive(guard, command);
		break;
	case TFC__MSG_PING:
		send_report(guard, &(struct tfc__report){.kind = TFC__MSG_PONG});
		break;
	}
	if (fd >= 0)
		close(fd);
}

static void step(struct sim_guard *guard)
{
	struct {
		struct tfc__command command;
		char path[4096];
	} message;
	uint32_t before = sim_set_owner(guard->owner);
	sim.kernel = guard->machine;
	while (!guard->is_host_gone && !guard->is_dead) {
		int fd = -1;
		ssize_t len = tfc__pass_recv(guard->socket, &message, sizeof(message) - 1, &fd, 1,
					     MSG_DONTWAIT);
		if (len < 0 && errno == EAGAIN)
			break;
		if (len <= 0) {
			host_gone(guard);
			break;
		}
		((char *)&message)[len] = '\0';
		obey(guard, &message.command, message.path, fd);
	}
	sim.kernel = NULL;
	sim_set_owner(before);
}

int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);

static bool is_ready(const struct sim_guard *guard)
{
	struct pollfd socket = {.fd = guard->socket, .events = POLLIN};
	return can_step(guard) && !guard->is_dead && !guard->is_host_gone &&
	       __real_poll(&socket, 1, 0) > 0;
}

bool sim_guards_are_ready(void)
{
	for (const struct sim_guard *guard = guards; guard; guard = guard->next)
		if (is_ready(guard))
			return true;
	return false;
}

void sim_guards_step(void)
{
	struct sim_host *running = sim.current;
	struct sim_machine *kernel = sim.kernel;
	for (struct sim_guard *guard = guards; guard; guard = guard->next)
		if (is_ready(guard))
			step(guard);
	sim.current = running;
	sim.kernel = kernel;
}

/* ---- machines */

void sim_guards_wake(const struct sim_machine *machine)
{
	for (struct sim_guard *guard = guards; guard; guard = guard->next) {
		if (guard->machine != machine || guard->is_over)
			continue;
		sim.kernel = guard->machine;
		for (int i = 0; i < SLOTS_MAX; i++)
			lease_check(guard, &guard->leases[i]);
		for (int i = 0; i < TASKS_MAX; i++)
			sim_shim_wake(&guard->shims[i]);
		sim.kernel = NULL;
	}
}

void sim_guards_lose_power(const struct sim_machine *machine)
{
	for (struct sim_guard *guard = guards; guard; guard = guard->next) {
		if (guard->machine != machine || guard->is_over)
			continue;
		for (int i = 0; i < TASKS_MAX; i++) {
			sim_shim_lose_power(&guard->shims[i]);
		}
		guard->is_dead = guard->is_over = true;
		sim_close_all(guard->owner);
	}
}

void sim_guards_kill(const struct sim_machine *machine)
{
	for (struct sim_guard *guard = guards; guard; guard = guard->next) {
		if (guard->machine != machine)
			continue;
		sim.kernel = guard->machine;
		guard_die(guard);
		sim.kernel = NULL;
	}
}

void sim_guard_kill_by_fd(int pidfd);
void sim_guard_kill_by_fd(int pidfd)
{
	struct stat status;
	if (fstat(pidfd, &status) < 0)
		abort();
	struct sim_machine *kernel = sim.kernel;
	for (struct sim_guard *guard = guards; guard; guard = guard->next)
		if (guard->life_inode == status.st_ino && !guard->is_over)
			guard_die(guard);
	sim.kernel = kernel;
}

uint32_t sim_guards_alive(const struct sim_machine *machine)
{
	uint32_t count = 0;
	for (const struct sim_guard *guard = guards; guard; guard = guard->next)
		count += guard->machine == machine && !guard->is_over;
	return count;
}

uint32_t sim_tasks_alive(void)
{
	uint32_t count = 0;
	for (const struct sim_guard *guard = guards; guard; guard = guard->next)
		for (int i = 0; i < TASKS_MAX; i++)
			count += guard->shims[i].is_alive;
	return count;
}

/* ---- in place of guard_start.c and helper.c */

int tfc__guard_run(struct tfc__guard *guard)
{
	int ends[2], life[2], lifeline[2];
	struct sim_guard *new = calloc(1, sizeof(*new));
	if (!new || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		abort();
	guard->socket.fd = ends[0];
	guard->pid = last_pid += 2;
	new->machine = sim.kernel;
	new->owner = sim_new_owner();
	new->pid = guard->pid;
	uint32_t before = sim_set_owner(new->owner);
	struct stat status;
	/* its own number for the socket's end, so that it is not the host's */
	new->socket = fcntl(ends[1], F_DUPFD_CLOEXEC, 0);
	close(ends[1]);
	if (pipe2(life, O_CLOEXEC) < 0 || pipe2(lifeline, O_CLOEXEC) < 0 ||
	    fstat(life[0], &status) < 0)
		abort();
	new->life = life[1];
	new->life_inode = status.st_ino;
	new->lifeline = lifeline[1];
	new->next = guards;
	guards = new;
	struct tfc__report report = {.kind = TFC__MSG_HELLO,
				     .pid = new->pid,
				     .status = TFC__PROTOCOL_VERSION};
	struct iovec part = {&report, sizeof(report)};
	const int fds[2] = {lifeline[0], life[0]};
	if (tfc__pass_send(new->socket, &part, 1, fds, 2, MSG_NOSIGNAL) < 0)
		abort();
	close(lifeline[0]);
	close(life[0]);
	sim_set_owner(before);
	sim_note("guard %d starts", new->pid);
	return TFC_OK;
}

int tfc__helper_find(const tfc_ctx *ctx, const char *name, const char *component, tfc_error *error,
		     char **ret_path)
{
	*ret_path = strdup(name);
	return *ret_path ? TFC_OK : TFC_ENOMEM;
}

int tfc__helper_run(const char *path, char *const argv[], const struct tfc__helper_fd *fds,
		    size_t count, const char *component, tfc_error *error, pid_t *ret_pid)
{
	fprintf(stderr, "the library starts %s\n", path);
	abort();
}
