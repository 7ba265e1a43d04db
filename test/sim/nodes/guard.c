/*
 * Guards, in place of lib/proc/guard_start.c and lib/proc/guard. A guard carries out what
 * lib/proc/guard/core.c decides, on its machine's clocks, with the real locks: it obeys the
 * messages of lib/proc/protocol.h and starts shims (shim.c), which outlive it.
 */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/pass.h"
#include "ctx/helper.h"
#include "port/bind_window.h"
#include "proc/dir_lock.h"
#include "proc/guard.h"
#include "proc/guard/core.h"
#include "proc/task_lock.h"

#define TASKS_MAX 64
#define INDEXES_MAX 1024 /* of the host's ids */
#define SLOTS_MAX 16
#define KEEPS_MAX 64

struct dir {
	uint32_t id;
	char path[SIM_PATH];
	int lock;
	int state; /* the node's state directory, or -1 */
	int guard_lock;
};

/* A port: once it is released it stays until the tasks that were given it are reaped. */
struct keep {
	uint32_t id; /* 0: free */
	int fd;
	uint32_t tasks;
	bool is_released;
};

struct sim_guard {
	struct sim_guard *next;
	struct sim_machine *machine;
	const struct sim_host *host;
	uint32_t owner;
	int32_t pid;
	int socket, lifeline, life; /* its ends; life: of what the host has as its pidfd */
	ino_t life_inode;
	bool is_host_gone;
	bool is_stopped; /* SIGSTOP */
	bool is_over;    /* it was killed, or has ended */
	struct guard_core core;
	struct guard_task tasks[TASKS_MAX];
	uint32_t slots[INDEXES_MAX];
	uint64_t timer_at;                 /* of the core, for which an event is set */
	struct sim_shim *shims[TASKS_MAX]; /* by slot */
	struct dir dirs[SLOTS_MAX];
	struct keep keeps[KEEPS_MAX];
	bool has_will;
	struct tfc__will_text will;
	struct tfc__will_address heirs[TFC__WILL_ADDRESSES];
	uint32_t heir_count;
};

static struct sim_guard *guards;
static int32_t last_pid = 1000;

int32_t sim_next_pid(void)
{
	return last_pid += 2;
}

bool sim_guard_is_dead(const struct sim_guard *guard)
{
	return guard->is_over;
}

bool sim_guard_is_stopped(const struct sim_guard *guard)
{
	return guard->is_stopped;
}

int32_t sim_guard_pid(const struct sim_guard *guard)
{
	return guard->pid;
}

static bool can_step(const struct sim_guard *guard)
{
	return !guard->is_over && !guard->is_stopped && guard->machine->power == SIM_RUNS;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* Time does not go beyond that without a look at all guards. */
static void on_time(void *user, uint64_t number)
{
}

static void wait_for_timer(struct sim_guard *guard)
{
	guard->timer_at = guard->core.timer_at;
	if (guard->timer_at)
		sim_at(sim_true_time(guard->machine, CLOCK_BOOTTIME, guard->timer_at), on_time,
		       NULL, 0);
}

/* ---- what the core decides */

static void send_report(struct sim_guard *guard, struct tfc__report report)
{
	if (guard->is_host_gone)
		return;
	if (report.kind == TFC__MSG_OVER)
		sim_note("a lease of guard %d is over", guard->pid);
	if (!report.time_ns)
		report.time_ns = sim_clock(guard->machine, CLOCK_REALTIME);
	if (send(guard->socket, &report, sizeof(report), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 &&
	    errno == EAGAIN)
		abort(); /* a socket holds far more than one machine's tasks say */
}

static struct keep *find_keep(struct sim_guard *guard, uint32_t id)
{
	for (int i = 0; i < KEEPS_MAX; i++)
		if (id && guard->keeps[i].id == id)
			return &guard->keeps[i];
	return NULL;
}

static void close_unused(struct keep *keep)
{
	if (!keep->is_released || keep->tasks)
		return;
	close(keep->fd);
	keep->id = 0;
}

static void leave_port(struct sim_guard *guard, uint32_t id)
{
	struct keep *keep = find_keep(guard, id);
	if (!keep)
		return;
	keep->tasks--;
	close_unused(keep);
}

static void carry_out(void *user, const struct guard_action *action)
{
	struct sim_guard *guard = user;
	struct sim_shim *shim = action->kind == GUARD_SEND_REPORT ? NULL
								  : guard->shims[action->slot];
	switch (action->kind) {
	case GUARD_SEND_REPORT:
		send_report(guard, *action->report);
		break;
	case GUARD_SEND_STOP:
		sim_shim_send(shim, &(struct tfc__command){.kind = TFC__MSG_STOP,
							   .deadline_ns = action->kill_at});
		break;
	case GUARD_KILL_TASK:
		sim_note("guard %d kills task %d", guard->pid, action->pid);
		sim_task_kill(shim);
		break;
	case GUARD_KILL_SHIM:
		sim_note("guard %d kills shim %d", guard->pid, shim->pid);
		sim_shim_kill(shim);
		break;
	case GUARD_KILL_REST: /* a program here starts no other */
		break;
	case GUARD_FREE_SLOT:
		leave_port(guard, guard->core.tasks[action->slot].keep_id);
		guard->shims[action->slot] = NULL;
		break;
	}
}

static uint32_t decide(struct sim_guard *guard, struct guard_event event)
{
	event.now = sim_clock(guard->machine, CLOCK_BOOTTIME);
	uint32_t slot = guard_core_step(&guard->core, &event, carry_out, guard);
	if (guard->timer_at != guard->core.timer_at)
		wait_for_timer(guard);
	return slot;
}

/* ---- the node's last will */

static void send_will(const struct sim_guard *guard, const uint8_t *message, uint64_t later)
{
	char to[SIM_PATH];
	for (uint32_t i = 0; i < guard->heir_count; i++) {
		const uint8_t *ip = guard->heirs[i].ip;
		snprintf(to, sizeof(to), "tcp://%u.%u.%u.%u:%u", ip[0], ip[1], ip[2], ip[3],
			 guard->heirs[i].port);
		sim_net_post(guard->machine, to, message, TFC__WILL_MESSAGE, later);
	}
}

/* It comes, and comes again when the node may have returned. */
static void publish_will(const struct sim_guard *guard)
{
	if (!guard->has_will || !guard->host->is_dead)
		return;
	sim_note("guard %d publishes the last will of its node", guard->pid);
	send_will(guard, guard->will.message, sim_draw(5 * SIM_MS));
	send_will(guard, guard->will.message, sim_draw(40 * SIM_SECOND));
}

/* Somebody who has seen wills, but not this one, says that the node is dead. */
static void forge_will(void *user, uint64_t number)
{
	const struct sim_guard *guard = user;
	uint8_t message[TFC__WILL_MESSAGE];
	if (guard->is_over || !guard->has_will)
		return;
	memcpy(message, guard->will.message, sizeof(message));
	message[sizeof(message) - 1 - sim_draw(32)] ^= (uint8_t)(1 + sim_draw(255));
	send_will(guard, message, sim_draw(SIM_SECOND));
}

/* ---- its end */

static void end(struct sim_guard *guard)
{
	for (int i = 0; i < SLOTS_MAX; i++)
		if (guard->dirs[i].id)
			close_fd(guard->dirs[i].guard_lock);
	for (int i = 0; i < SLOTS_MAX; i++)
		if (guard->dirs[i].id)
			tfc__remove_tree_last(guard->dirs[i].path, TFC__DIR_LOCK);
	guard->is_over = true;
	publish_will(guard);
	sim_close_all(guard->owner);
	sim_note("guard %d is over", guard->pid);
}

static void die(struct sim_guard *guard)
{
	if (guard->is_over)
		return;
	guard->is_over = true;
	sim_note("guard %d is killed", guard->pid);
	sim_close_all(guard->owner);
}

static void host_gone(struct sim_guard *guard)
{
	if (guard->is_host_gone)
		return;
	guard->is_host_gone = true;
	sim_note("guard %d: its host is gone", guard->pid);
	decide(guard, (struct guard_event){.kind = GUARD_HOST_GONE});
}

/* ---- starting */

static struct dir *find_dir(struct sim_guard *guard, uint32_t id)
{
	for (int i = 0; i < SLOTS_MAX; i++)
		if (id && guard->dirs[i].id == id)
			return &guard->dirs[i];
	return NULL;
}

/* The locks that say that the task may be alive. 0 or an errno. */
static int lock_task(struct sim_guard *guard, const struct tfc__command *command,
		     int ret_locks[TFC__LOCKS])
{
	struct dir *dir = find_dir(guard, command->dir);
	ret_locks[TFC__LOCK_DIR] = ret_locks[TFC__LOCK_TASK] = -1;
	if (!command->dir)
		return 0;
	if (!dir || dir->lock < 0)
		return ENOLCK;
	ret_locks[TFC__LOCK_DIR] = dir->lock;
	if (dir->state < 0)
		return 0;
	if (dir->guard_lock < 0)
		dir->guard_lock = tfc__task_lock_guard(dir->state);
	ret_locks[TFC__LOCK_TASK] = tfc__task_lock_task(dir->state, command->grace_ms);
	if (dir->guard_lock < 0 || ret_locks[TFC__LOCK_TASK] < 0)
		return errno;
	return guard->host->is_dead ? ESRCH : 0;
}

static void set_bind_window(struct sim_guard *guard, uint32_t id, bool is_open)
{
	const struct keep *keep = find_keep(guard, id);
	if (keep)
		tfc__bind_window_set(keep->fd, is_open);
}

static void spawn(struct sim_guard *guard, const struct tfc__command *command, int launch)
{
	struct sim_shim_options options = {.machine = guard->machine,
					   .guard = guard,
					   .host = guard->host,
					   .leases = guard->core.leases,
					   .spawn = command,
					   .launch = launch,
					   .lifeline = guard->lifeline};
	struct keep *keep = find_keep(guard, command->keep_id);
	if (keep)
		sim_port_of_fd(keep->fd, &options.port, &options.hold);
	if (launch < 0 || guard->core.task_count == TASKS_MAX ||
	    (uint32_t)command->id >= INDEXES_MAX)
		abort();
	uint32_t slot = decide(guard,
			       (struct guard_event){.kind = GUARD_SPAWN, .command = command});
	if (slot == NO_SLOT)
		return;
	int error = lock_task(guard, command, options.locks);
	if (!error)
		guard->shims[slot] = sim_shim_new(&options);
	if (!error && keep)
		keep->tasks++;
	close_fd(options.locks[TFC__LOCK_TASK]);
	if (error)
		decide(guard, (struct guard_event){.kind = GUARD_SPAWN_FAILED,
						   .slot = slot,
						   .error = error});
}

/* ---- what the host asks */

static void own_dir(struct sim_guard *guard, const struct tfc__command *command, const char *path,
		    int state)
{
	struct dir *dir = find_dir(guard, command->dir);
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

static void keep_port(struct sim_guard *guard, uint32_t id, int fd)
{
	for (int i = 0; i < KEEPS_MAX; i++) {
		if (guard->keeps[i].id)
			continue;
		guard->keeps[i] = (struct keep){.id = id, .fd = fd};
		return;
	}
	abort();
}

static void release_port(struct sim_guard *guard, uint32_t id)
{
	struct keep *keep = find_keep(guard, id);
	if (!keep)
		return;
	keep->is_released = true;
	close_unused(keep);
}

static void send_signal(const struct sim_guard *guard, const struct tfc__command *command)
{
	uint32_t slot = guard_core_find(&guard->core, command->id);
	if (slot != NO_SLOT)
		sim_shim_send(guard->shims[slot], command);
}

static void set_heirs(struct sim_guard *guard, uint32_t count, const void *addresses)
{
	bool is_first = !guard->heir_count;
	if (count > TFC__WILL_ADDRESSES)
		abort();
	memcpy(guard->heirs, addresses, count * sizeof(guard->heirs[0]));
	guard->heir_count = count;
	if (is_first && count)
		sim_at(sim.now + sim_draw(30 * SIM_SECOND), forge_will, guard, 0);
}

static void obey(struct sim_guard *guard, const struct tfc__command *command, const char *path,
		 size_t len, int fd)
{
	switch (command->kind) {
	case TFC__MSG_SPAWN:
		set_bind_window(guard, command->keep_id, true);
		spawn(guard, command, fd);
		break;
	case TFC__MSG_STOP:
		decide(guard, (struct guard_event){.kind = GUARD_STOP, .command = command});
		break;
	case TFC__MSG_SIGNAL:
		send_signal(guard, command);
		break;
	case TFC__MSG_KEEP:
		keep_port(guard, command->keep_id, fd);
		return;
	case TFC__MSG_BIND_WINDOW:
		set_bind_window(guard, command->keep_id, command->value);
		break;
	case TFC__MSG_RELEASE:
		release_port(guard, command->keep_id);
		break;
	case TFC__MSG_OWN_DIR:
		own_dir(guard, command, path, fd);
		return;
	case TFC__MSG_WILL:
		guard->has_will = len == sizeof(guard->will);
		if (guard->has_will)
			memcpy(&guard->will, path, len);
		break;
	case TFC__MSG_WILL_TO:
		set_heirs(guard, command->value, path);
		break;
	case TFC__MSG_KILL_ALL:
		guard->has_will = false;
		decide(guard, (struct guard_event){.kind = GUARD_KILL_ALL});
		host_gone(guard);
		break;
	case TFC__MSG_LEASE:
		decide(guard, (struct guard_event){.kind = GUARD_LEASE, .command = command});
		break;
	case TFC__MSG_PING:
		send_report(guard, (struct tfc__report){.kind = TFC__MSG_PONG});
		break;
	}
	close_fd(fd);
}

static void receive(struct sim_guard *guard)
{
	struct {
		struct tfc__command command;
		char path[4096];
	} message;
	while (!guard->is_host_gone) {
		int fd = -1;
		ssize_t len = tfc__pass_recv(guard->socket, &message, sizeof(message) - 1,
					     MSG_DONTWAIT, &fd, 1);
		if (len < 0 && errno == EAGAIN)
			return;
		if (len <= 0)
			host_gone(guard);
		if (len <= 0)
			return;
		((char *)&message)[len] = '\0';
		obey(guard, &message.command, message.path, (size_t)len - sizeof(message.command),
		     fd);
	}
}

/* ---- what the shims say */

static bool has_news(const struct sim_guard *guard)
{
	for (uint32_t slot = 0; slot < guard->core.slot_count; slot++)
		if (guard->shims[slot] &&
		    (guard->shims[slot]->report_count || guard->shims[slot]->is_over))
			return true;
	return false;
}

static void receive_from_shims(struct sim_guard *guard)
{
	struct tfc__report report;
	for (uint32_t slot = 0; slot < guard->core.slot_count; slot++) {
		struct sim_shim *shim = guard->shims[slot];
		while (shim && sim_shim_receive(shim, &report)) {
			report.shim = shim->pid;
			decide(guard, (struct guard_event){.kind = GUARD_SHIM_REPORT,
							   .slot = slot,
							   .report = &report});
		}
		if (!shim || !shim->is_over)
			continue;
		decide(guard, (struct guard_event){.kind = GUARD_SHIM_DIED, .slot = slot});
		if (guard->core.lost.first) /* its task has died with it */
			decide(guard, (struct guard_event){.kind = GUARD_NONE_LEFT});
	}
}

/* ---- a turn */

int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);

static bool is_timer_due(const struct sim_guard *guard)
{
	return guard->core.timer_at &&
	       guard->core.timer_at <= sim_clock(guard->machine, CLOCK_BOOTTIME);
}

static bool is_ready(const struct sim_guard *guard)
{
	struct pollfd socket = {.fd = guard->socket, .events = POLLIN};
	return can_step(guard) && (is_timer_due(guard) || has_news(guard) ||
				   (!guard->is_host_gone && __real_poll(&socket, 1, 0) > 0));
}

bool sim_guards_are_ready(void)
{
	for (const struct sim_guard *guard = guards; guard; guard = guard->next)
		if (is_ready(guard))
			return true;
	return sim_shims_are_ready();
}

static void step(struct sim_guard *guard)
{
	uint32_t before = sim_set_owner(guard->owner);
	sim.kernel = guard->machine;
	receive(guard);
	if (is_timer_due(guard))
		decide(guard, (struct guard_event){.kind = GUARD_TIMER});
	receive_from_shims(guard);
	if (guard->is_host_gone && !guard->core.task_count)
		end(guard);
	sim.kernel = NULL;
	sim_set_owner(before);
}

void sim_guards_step(void)
{
	struct sim_host *running = sim.current;
	struct sim_machine *kernel = sim.kernel;
	for (struct sim_guard *guard = guards; guard; guard = guard->next)
		if (is_ready(guard))
			step(guard);
	sim_shims_step();
	sim.current = running;
	sim.kernel = kernel;
}

/* ---- machines */

void sim_guards_wake(const struct sim_machine *machine)
{
	for (struct sim_guard *guard = guards; guard; guard = guard->next)
		if (guard->machine == machine && !guard->is_over)
			wait_for_timer(guard);
	sim_shims_wake(machine);
}

void sim_guards_lose_power(const struct sim_machine *machine)
{
	for (struct sim_guard *guard = guards; guard; guard = guard->next)
		if (guard->machine == machine)
			die(guard);
	sim_shims_lose_power(machine);
}

void sim_guards_kill(const struct sim_machine *machine)
{
	for (struct sim_guard *guard = guards; guard; guard = guard->next)
		if (guard->machine == machine)
			die(guard);
}

bool sim_guards_stop(const struct sim_machine *machine)
{
	bool has_stopped = false;
	for (struct sim_guard *guard = guards; guard; guard = guard->next) {
		if (guard->machine != machine || guard->is_over || guard->is_stopped)
			continue;
		guard->is_stopped = has_stopped = true;
		sim_note("guard %d is stopped", guard->pid);
	}
	return has_stopped;
}

void sim_guards_continue(const struct sim_machine *machine)
{
	for (struct sim_guard *guard = guards; guard; guard = guard->next)
		if (guard->machine == machine)
			guard->is_stopped = false;
}

void sim_guard_kill_by_fd(int pidfd);
void sim_guard_kill_by_fd(int pidfd)
{
	struct stat status;
	if (fstat(pidfd, &status) < 0)
		abort();
	for (struct sim_guard *guard = guards; guard; guard = guard->next)
		if (guard->life_inode == status.st_ino)
			die(guard);
}

uint32_t sim_guards_alive(const struct sim_machine *machine)
{
	uint32_t count = 0;
	for (const struct sim_guard *guard = guards; guard; guard = guard->next)
		count += guard->machine == machine && !guard->is_over;
	return count;
}

/* ---- in place of guard_start.c and helper.c */

int tfc__guard_run(struct tfc__guard *guard)
{
	int ends[2], life[2], lifeline[2];
	struct sim_guard *new = calloc(1, sizeof(*new));
	/* as large as it can become: what is not used takes no memory */
	struct tfc__lease_entry *leases = calloc(TFC__LEASES_MAX, sizeof(*leases));
	if (!new || !leases || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		abort();
	guard->socket.fd = ends[0];
	guard->pid = last_pid += 2;
	new->core = (struct guard_core){.tasks = new->tasks,
					.task_capacity = TASKS_MAX,
					.slots = new->slots,
					.index_capacity = INDEXES_MAX,
					.leases = leases};
	new->machine = sim.kernel;
	new->host = sim.current;
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
