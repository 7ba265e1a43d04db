/*
 * tfc-guard: one per context. It is the parent of the shims. It keeps the held ports and every
 * deadline that must be met even while the host is stopped. When the host has ended, it ends all
 * tasks. It kills every process it adopts that is not a shim. One thread, one epoll loop, no timer
 * while nothing is due.
 */
#ifndef TFC_GUARD_GUARD_H
#define TFC_GUARD_GUARD_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/map.h"
#include "core.h"
#include "proc/protocol.h"

/* A report, or the hello, that waits because the host's socket is full. */
struct unsent {
	struct unsent *next;
	struct tfc__report report;
};

/* A shim that has no task yet. */
struct spare {
	pid_t pid; /* 0: none */
	int socket;
};

/*
 * A held port. After the host has released it, it stays open until the tasks that use it are
 * reaped.
 */
struct keep {
	uint32_t id; /* 0: the entry is free */
	int fd;
	uint32_t tasks;
	bool is_released;
	uint32_t next_free; /* of a free entry: the next free one + 1; 0: it is the last */
};

/* A private directory of the host. */
struct dir {
	uint32_t id; /* assigned by the host */
	char *path;
	int lock;       /* dir_lock.h; -1: not acquired, and nothing is started from there */
	int state;      /* the node's state directory, or -1 */
	int guard_lock; /* its lock (task_lock.h) once a task was started; or -1 */
};

/* One address of the will, and the connection to it. */
struct will_target {
	struct tfc__will_address address;
	int fd;            /* -1: none */
	uint32_t pause_ms; /* before the next connection */
	uint64_t at; /* CLOCK_BOOTTIME: of that connection; or when the present one is given up */
	uint32_t received;
	uint8_t ack[TFC__WILL_ACK];
	bool is_sent, is_acknowledged;
	uint32_t datagram_pause_ms;
	uint64_t datagram_at; /* CLOCK_BOOTTIME: of the next datagram */
};

struct will {
	bool is_set;
	struct tfc__will_text text;
	uint32_t count;
	struct will_target targets[TFC__WILL_ADDRESSES];
	int datagrams[2]; /* the sockets for IPv4 and IPv6; -1: none yet */
};

/* A zygote: a task that other tasks are forked from (doc/internals/warm.md). */
struct zygote {
	struct zygote *next;
	uint32_t slot;
	int socket; /* to it; -1: it has failed */
	bool is_ready;
	uint32_t spares_wanted;
	uint64_t ready_until; /* CLOCK_MONOTONIC: when it must be ready */
	uint64_t progress;    /* of the same clock: when it was ready or has forked last */
};

/* A process that a zygote was requested to fork, with its shim, until it is a task. */
struct birth {
	struct birth *next;
	uint64_t number;
	struct zygote *zygote; /* NULL: it has ended */
	uint32_t slot;         /* NO_SLOT: a spare; no task needs it yet */
	bool is_requested;     /* the zygote has few requests at a time */
	int socket;            /* to the shim; -1: none yet, or the shim has ended */
	pid_t pid;             /* the shim; 0: it has not reported it yet */
	int launch;            /* the memfd of the task; -1: none */
	struct tfc__command command;
	uint64_t since;   /* CLOCK_MONOTONIC: when it was requested, or taken by a task */
	bool is_over;     /* the task must be started without the zygote */
	bool is_unwanted; /* a spare that is dropped once its shim has reported */
	bool is_stopped;  /* a stop was requested, */
	uint64_t kill_at; /* with this deadline */
};

struct guard {
	int epoll;
	int signals;        /* signalfd: SIGCHLD */
	int shim;           /* the program, opened once: all shims are of the same version */
	int shim_end;       /* the descriptor number of the shim's socket end during a start */
	int lifeline;       /* write end */
	int oom_events;     /* memory.events of the guard's cgroup, or v1's equivalent, or -1 */
	uint64_t oom_kills; /* OOM kills that are accounted for */
	int group;          /* the guard's cgroup directory, or -1 */
	int group_end;      /* the descriptor number that `group` will have */
	char *group_path;
	bool group_is_tried;
	struct rlimit nofile; /* the host's limit, restored for the tasks */
	struct spare spare;
	bool is_spare_wanted; /* make a spare when there is nothing else to do */
	bool is_sweep_wanted; /* a zygote may have left processes to the guard */
	bool is_host_gone;
	bool is_host_full; /* the host's socket is full: reports wait in `unsent` */
	struct unsent *unsent, **unsent_end;
	/* indexed by slot; as long as core.task_capacity: */
	pid_t *pids;  /* the shim; 0: the slot is free; negative: the shim is dead, but perhaps not
			 all it left behind */
	int *sockets; /* to the shim, or -1: the shim has ended or is about to */
	uint32_t *ending; /* slots whose sockets are closed and whose shims are not reaped */
	uint32_t ending_count;
	struct tfc__map slots_by_pid;
	uint32_t reaped; /* children reaped one by one since the last wait for any child */
	struct keep *keeps;
	uint32_t keep_count;
	uint32_t free_keep; /* the first free entry + 1; 0: none */
	struct tfc__map keeps_by_id;
	struct dir *dirs;
	uint32_t dir_count;
	uint32_t lease_room; /* number of entries that fit in: */
	int lease_memory;    /* the memfd of the core's leases, shared with the shims */
	int timer;           /* timerfd of CLOCK_BOOTTIME, which counts the time of a suspend */
	uint64_t timer_at;   /* the time it is set to; 0: not set */
	struct guard_core core;
	struct will will;
	struct zygote *zygotes;
	struct birth *births;
	uint64_t last_birth;
};

/* host.c */
void host_receive(struct guard *guard, uint32_t events);
void host_report(struct guard *guard, const struct tfc__report *report);
int host_hello(struct guard *guard);
void host_gone(struct guard *guard);

/*
 * decide.c: drives the core. decide: passes an event, with the current time, to the core, carries
 * out the actions and sets the timer. open: 0, or -1 and errno. due: the timer has fired.
 */
uint32_t decide(struct guard *guard, struct guard_event event);
int deadline_open(struct guard *guard);
void deadline_due(struct guard *guard);
int lease_open(struct guard *guard);
void lease_receive(struct guard *guard, const struct tfc__command *command);

/* task.c: the events and the core's actions that concern a task. */
void task_spawn(struct guard *guard, const struct tfc__command *command, int launch);
void task_signal(struct guard *guard, const struct tfc__command *command);
void task_receive(struct guard *guard, uint32_t slot);
void task_reap(struct guard *guard, pid_t pid); /* it may have died; 0: any child */
void task_send_stop(struct guard *guard, uint32_t slot, uint64_t kill_at);
void task_kill(struct guard *guard, uint32_t slot, pid_t pid);
void task_kill_shim(struct guard *guard, uint32_t slot);
void task_kill_rest(struct guard *guard, uint32_t slot);
void task_free(struct guard *guard, uint32_t slot);
/*
 * task.c: kills what zygotes have left to the guard: processes of their modules, and those that
 * they were about to fork. sweep_due: whether it can be done now, when every shim is known.
 * sweep_all: at the end of the guard, all of its children.
 */
bool task_is_sweep_due(const struct guard *guard);
void task_sweep(struct guard *guard);
void task_sweep_all(struct guard *guard);

/* task.c: starts the task of a slot in a new shim, or in the spare. 0 or an errno. */
int task_start_shim(struct guard *guard, uint32_t slot, const struct tfc__command *command,
		    int launch);
/* task.c: the slot's shim is this process, and this is its socket. */
void task_set_shim(struct guard *guard, uint32_t slot, pid_t pid, int socket);

/*
 * warm.c: tasks that a zygote forks instead of a shim executing them. The zygote makes the shim as
 * well, as the parent of the forked process, so from then on the task is like every other. Until
 * that shim has reported its pid, the slot's pid is UNBORN. A task that cannot be forked is started
 * by a shim as usual.
 */
#define UNBORN INT_MAX /* no pid is that large */
/* The socket for the zygote, or -1. */
int warm_open_zygote(struct guard *guard, uint32_t slot, uint32_t import_ms);
/* The slot is free again; false: it was no zygote's. */
bool warm_close_zygote(struct guard *guard, uint32_t slot);
/* Requests the spares that are wanted. */
void warm_prepare(struct guard *guard);
void warm_drop_spares(struct guard *guard);
bool warm_is_spare(const struct guard *guard, pid_t pid);
void warm_forget(struct guard *guard, pid_t pid); /* it was reaped */
/* False: the task must be started without a zygote. The launch is duplicated. */
bool warm_request(struct guard *guard, uint32_t slot, const struct tfc__command *command,
		  int launch);
void warm_receive(struct guard *guard, uint64_t number); /* from the shim of that birth */
bool warm_is_pending(const struct guard *guard);         /* a shim has not reported its pid */
void warm_receive_all(struct guard *guard);              /* from these shims */
void warm_receive_zygote(struct guard *guard, uint32_t slot);
void warm_stop(struct guard *guard, uint32_t slot, uint64_t kill_at);
void warm_continue(struct guard *guard); /* what is over or overdue, births and imports */
int warm_wait_ms(const struct guard *guard, int wait_ms);

/*
 * shim.c: starts shims. get: returns a shim that has the command, the memfd and the locks of its
 * task; uses the spare if there is one; 0 or an errno. prepare: makes a spare, so that the next
 * start, often a restart of a failed task, costs one exec instead of two.
 */
int shim_get(struct guard *guard, const struct tfc__command *command, int launch,
	     const int locks[TFC__LOCKS], int zygote, pid_t *ret_pid, int *ret_socket);
int shim_send_launch(int socket, const struct tfc__command *command, int launch,
		     const int locks[TFC__LOCKS], int zygote);
bool shim_is_spare_due(const struct guard *guard);
void shim_prepare(struct guard *guard);
void shim_drop_spare(struct guard *guard);
void shim_end_spare(struct guard *guard); /* kills it and waits for its end */

/* keep.c; port: without memory for it the port is closed and the host is notified. */
void keep_port(struct guard *guard, uint32_t id, int fd);
void keep_set_bind_window(struct guard *guard, uint32_t id, bool is_open);
void keep_release(struct guard *guard, uint32_t id);
void keep_join(struct guard *guard, uint32_t id);  /* a task that uses the port was started */
void keep_leave(struct guard *guard, uint32_t id); /* that task was reaped */
void keep_close_all(struct guard *guard);

/*
 * dir.c. own: takes ownership of `state`. prepare: acquires the locks of a task that is about to be
 * started; release them once the shim has them. 0 or an errno: the locks cannot be acquired, or the
 * host is dead, and the task must not be started.
 */
void dir_own(struct guard *guard, const struct tfc__command *command, const char *path, int state);
int dir_prepare(struct guard *guard, const struct tfc__command *command, int ret_locks[TFC__LOCKS]);
void dir_release(const int locks[TFC__LOCKS]);
void dir_unlock_all(struct guard *guard); /* the locks of the guard: the last task is reaped */
void dir_remove_all(struct guard *guard);

/*
 * will.c: the node's last will. open: call when the last task is reaped; sends the will if it is
 * true that nothing is left, and awaits the responses for a moment. finish: awaits those that are
 * missing, and sends it again, for one lease.
 */
void will_set(struct guard *guard, const void *text, size_t len);
void will_set_addresses(struct guard *guard, uint32_t count, const void *addresses, size_t len);
void will_open(struct guard *guard);
void will_finish(struct guard *guard);

/* oom.c. account: whether there was one more kill; it is then accounted for. */
void oom_open(struct guard *guard);
void oom_reset(struct guard *guard); /* ignore the kills so far */
bool oom_account(struct guard *guard);

/*
 * cgroup.c: directories of cgroup v2. The guard makes one where it is allowed to, and shims make
 * one per task below it. kill: all processes in a shim's group. remove_lost: the groups of
 * the core's lost tasks, which were killed. clear_dead: kills and removes the groups of dead
 * guards.
 */
bool cgroup_create(struct guard *guard); /* true if this call has made the guard's group */
void cgroup_kill(const struct guard *guard, pid_t shim);
void cgroup_remove_lost(const struct guard *guard);
void cgroup_clear_dead(void);
void cgroup_end(struct guard *guard);

/*
 * The guard's own cgroup as /proc names it: of cgroup v2 (controller ""), or of a v1 hierarchy.
 * False: none.
 */
bool cgroup_name(const char *controller, char ret_name[PATH_MAX]);

/* The directory of the guard's own cgroup v2, with a slash at its end. False: none. */
bool cgroup_dir(char ret_path[PATH_MAX]);

/*
 * The data of epoll events: one of these, FIRST_TASK + slot, FIRST_ZYGOTE + slot, or FIRST_BIRTH +
 * number.
 */
enum watched { WATCH_HOST, WATCH_PIDFD, WATCH_SIGNALS, WATCH_DEADLINES, FIRST_TASK };
#define FIRST_ZYGOTE (UINT64_C(1) << 33)
#define FIRST_BIRTH (UINT64_C(1) << 34)
int watch(struct guard *guard, int fd, uint32_t events, uint64_t what);

#endif
