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

#include "proc/protocol.h"

#define NO_TASK UINT32_MAX

/* How far a stop that the shim does not carry out has been taken. */
enum force { FORCE_NONE, FORCE_TASK, FORCE_SHIM };

struct task {
	uint64_t id; /* the host's */
	pid_t pid;   /* of the task; 0: not started */
	int socket;  /* to the shim */
	uint32_t grace_ms;
	enum force force;  /* what is done at force_at */
	uint64_t force_at; /* CLOCK_BOOTTIME; 0: no stop under way */
	bool is_reported;
	bool is_lost; /* the shim died without a report */
	uint32_t lease_grace_ms;
	uint64_t lease;     /* 0: none */
	uint32_t silent_ms; /* length of the lease that was over, or 0 */
};

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

struct keep {
	uint32_t id; /* 0: free */
	int fd;
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
	int lifeline;       /* write end */
	int oom_events;     /* memory.events of our cgroup, or what v1 has, or -1 */
	uint64_t oom_kills; /* seen and accounted for */
	int group;          /* our cgroup directory, or -1 */
	char *group_path;
	bool group_is_tried;
	struct rlimit nofile; /* the host's, for the tasks */
	struct spare spare;
	bool is_spare_wanted; /* once there is nothing else to do */
	bool is_host_gone;
	bool is_host_full; /* its socket: reports wait in `unsent` */
	struct unsent *unsent, **unsent_end;
	/* tasks by slot; pids[slot] is the shim's, 0 where the slot is free */
	struct task *tasks;
	pid_t *pids;
	uint32_t task_capacity;
	uint32_t task_count;
	uint32_t lost_count;
	uint32_t free_hint;
	uint32_t *slots; /* by the index in the low half of the host's ids */
	uint32_t slot_capacity;
	struct keep *keeps;
	uint32_t keep_count;
	struct dir *dirs;
	uint32_t dir_count;
	struct tfc__lease_entry *leases; /* by index; shared with the shims */
	uint32_t lease_count;            /* indexes in use, and the size of: */
	int lease_memory;                /* the memfd */
	int timer;                       /* timerfd of CLOCK_BOOTTIME */
	uint64_t timer_at; /* what it is set to: the earliest deadline, or before it; 0: none */
};

/* host.c */
void host_hear(struct guard *guard, uint32_t events);
void host_tell(struct guard *guard, const struct tfc__report *report);
int host_hello(struct guard *guard);
void host_gone(struct guard *guard);

/* task.c */
void task_spawn(struct guard *guard, const struct tfc__command *command, int launch);
void task_stop(struct guard *guard, uint64_t id, uint64_t kill_at);
void task_signal(struct guard *guard, const struct tfc__command *command);
void task_hear(struct guard *guard, uint32_t slot);
void task_reap(struct guard *guard);
void task_force_due(struct guard *guard, uint64_t now);
void task_stop_all(struct guard *guard, bool is_at_once);
void task_stop_lease(struct guard *guard, const struct tfc__lease_entry *lease);

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

/* keep.c */
void keep_port(struct guard *guard, uint32_t id, int fd);
void keep_admit(struct guard *guard, uint32_t id, bool is_open);
void keep_release(struct guard *guard, uint32_t id);

/*
 * dir.c. own: takes over `state`. prepare: the locks of a task that is to be started; release them
 * once the shim has them. 0 or an errno: they cannot be had, or the host is gone, and nothing may
 * be started.
 */
void dir_own(struct guard *guard, const struct tfc__command *command, const char *path, int state);
int dir_prepare(struct guard *guard, const struct tfc__command *command, int ret_locks[TFC__LOCKS]);
void dir_release(const int locks[TFC__LOCKS]);
void dir_remove_all(struct guard *guard);

/* deadline.c: at is of CLOCK_BOOTTIME, and may have passed */
int deadline_open(struct guard *guard);
void deadline_add(struct guard *guard, uint64_t at);
void deadline_due(struct guard *guard);

/* lease.c. open: 0, or -1 and errno. */
int lease_open(struct guard *guard);
void lease_hear(struct guard *guard, const struct tfc__command *command);
void lease_due(struct guard *guard, uint64_t now);
/* NULL: it is in force, or 0, none. Else one that is over. */
const struct tfc__lease_entry *lease_is_over(const struct guard *guard, uint64_t id);

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
