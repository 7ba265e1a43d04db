/*
 * tfc-guard: one per context. Parent of the shims; keeps the held ports and every deadline that
 * must fire even when the host is stopped; ends everything when the host is gone, and whatever it
 * adopts that is not a shim. One thread, one epoll loop, no timer while nothing is due.
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

/* A report, or the hello, that the host's full socket has not taken yet. */
struct unsent {
	struct unsent *next;
	struct tfc__report report;
};

/* A shim that has no task yet. */
struct spare {
	pid_t pid; /* 0: there is none */
	int socket;
};

/* A port. One that the host has given back stays until the tasks that were given it are reaped. */
struct keep {
	uint32_t id; /* 0: free */
	int fd;
	uint32_t tasks;
	bool is_released;
	uint32_t next_free; /* of a free one: the next one + 1; 0: it is the last */
};

/* A private directory of the host. */
struct dir {
	uint32_t id; /* the host's */
	char *path;
	int lock;       /* dir_lock.h; -1: it could not be had, nothing is started from there */
	int state;      /* the node's state directory; -1: there is none, */
	int guard_lock; /* and its lock (task_lock.h), once something was started; or -1 */
};

struct guard {
	int epoll;
	int signals;        /* signalfd: SIGCHLD */
	int shim;           /* the program, opened once: all shims are of the same version */
	int shim_end;       /* where the shim's end of its socket lies while it is started */
	int lifeline;       /* write end */
	int oom_events;     /* memory.events of our cgroup, or what v1 has, or -1 */
	uint64_t oom_kills; /* seen and accounted for */
	int group;          /* our cgroup directory, or -1 */
	int group_end;      /* where it lies once there is one */
	char *group_path;
	bool group_is_tried;
	struct rlimit nofile; /* the host's, for the tasks */
	struct spare spare;
	bool is_spare_wanted; /* once there is nothing else to do */
	bool is_host_gone;
	bool is_host_full; /* its socket: reports wait in `unsent` */
	struct unsent *unsent, **unsent_end;
	/* by slot, as many as there is room for in the core: */
	pid_t *pids;  /* the shim; 0: the slot is free, -1: the shim is dead, its rest may not be */
	int *sockets; /* to the shim, or -1: it has ended, or will soon */
	uint32_t *ending; /* slots whose shims' sockets were closed and that are not reaped yet */
	uint32_t ending_count;
	struct tfc__map slots_by_pid;
	uint32_t reaped; /* children, one by one, since the last walk over all */
	struct keep *keeps;
	uint32_t keep_count;
	uint32_t free_keep; /* + 1; 0: none */
	struct tfc__map keeps_by_id;
	struct dir *dirs;
	uint32_t dir_count;
	uint32_t lease_room; /* entries in: */
	int lease_memory;    /* the memfd of the core's leases, shared with the shims */
	int timer;         /* timerfd of CLOCK_BOOTTIME, which goes on while the machine sleeps, */
	uint64_t timer_at; /* and what it is set to; 0: it is not */
	struct guard_core core;
};

/* host.c */
void host_hear(struct guard *guard, uint32_t events);
void host_tell(struct guard *guard, const struct tfc__report *report);
int host_hello(struct guard *guard);
void host_gone(struct guard *guard);

/* decide.c: what the core makes of an event of now, once its actions were carried out. */
uint32_t decide(struct guard *guard, struct guard_event event);

/* task.c: events, and the actions of the core. */
void task_spawn(struct guard *guard, const struct tfc__command *command, int launch);
void task_signal(struct guard *guard, const struct tfc__command *command);
void task_hear(struct guard *guard, uint32_t slot);
void task_reap(struct guard *guard, pid_t pid); /* it may have died, others may, too; 0: any */
void task_send_stop(struct guard *guard, uint32_t slot, uint64_t kill_at);
void task_kill(struct guard *guard, uint32_t slot, pid_t pid);
void task_kill_shim(struct guard *guard, uint32_t slot);
void task_kill_rest(struct guard *guard, uint32_t slot);
void task_free(struct guard *guard, uint32_t slot);

/*
 * shim.c: starts shims. get: one that has the command, the memfd and the locks of its task, the
 * spare if there is one; 0 or an errno. prepare: makes a spare, so that the next start, which may
 * be a restart that is waited for, costs one exec instead of two.
 */
int shim_get(struct guard *guard, const struct tfc__command *command, int launch,
	     const int locks[TFC__LOCKS], pid_t *ret_pid, int *ret_socket);
bool shim_is_spare_due(const struct guard *guard);
void shim_prepare(struct guard *guard);
void shim_drop_spare(struct guard *guard);
void shim_end_spare(struct guard *guard); /* and waits for it */

/* keep.c; port: the host is told when there is no memory for it. */
void keep_port(struct guard *guard, uint32_t id, int fd);
void keep_admit(struct guard *guard, uint32_t id, bool is_open);
void keep_release(struct guard *guard, uint32_t id);
void keep_join(struct guard *guard, uint32_t id);  /* a task that was given it lives */
void keep_leave(struct guard *guard, uint32_t id); /* it was reaped */

/*
 * dir.c. own: takes over `state`. prepare: the locks of a task that is to be started; release them
 * once the shim has them. 0 or an errno: they cannot be had, or the host is gone, and nothing may
 * be started.
 */
void dir_own(struct guard *guard, const struct tfc__command *command, const char *path, int state);
int dir_prepare(struct guard *guard, const struct tfc__command *command, int ret_locks[TFC__LOCKS]);
void dir_release(const int locks[TFC__LOCKS]);
void dir_remove_all(struct guard *guard);

/* deadline.c: the timer; 0: none. */
int deadline_open(struct guard *guard);
void deadline_set(struct guard *guard, uint64_t at);
void deadline_due(struct guard *guard);

/* lease.c. open: 0, or -1 and errno. */
int lease_open(struct guard *guard);
void lease_hear(struct guard *guard, const struct tfc__command *command);

/* oom.c */
void oom_open(struct guard *guard);
void oom_forget(struct guard *guard); /* what was killed so far has nothing to do with us */
bool oom_take(struct guard *guard);   /* whether one more was killed; it is accounted for */

/*
 * cgroup.c: directories of cgroup v2, where we may make any, below which shims make one per task.
 * kill: all in that of a shim. clear: ends and removes those whose shims are dead; clear_dead:
 * those of dead guards.
 */
bool cgroup_want(struct guard *guard); /* whether it is ours now and was not before */
void cgroup_kill(const struct guard *guard, pid_t shim);
void cgroup_clear(const struct guard *guard);
void cgroup_clear_dead(void);
void cgroup_end(struct guard *guard);

/* Ours as /proc names it: of cgroup v2 (controller ""), or of a v1 hierarchy. False: none. */
bool cgroup_name(const char *controller, char ret_name[PATH_MAX]);

/* The directory of ours of cgroup v2, with a slash at its end. False: none. */
bool cgroup_dir(char ret_path[PATH_MAX]);

/* What epoll hands back: one of these, or FIRST_TASK + slot. */
enum watched { WATCH_HOST, WATCH_PIDFD, WATCH_SIGNALS, WATCH_DEADLINES, FIRST_TASK };
int watch(struct guard *guard, int fd, uint32_t events, uint64_t what);

#endif
