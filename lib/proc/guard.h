/*
 * The host's end of a guard: starts it, exchanges messages with it without ever blocking, and
 * notices its death.
 *
 * A guard that dies leaves shims that are still stopping their tasks. Each of them holds the write
 * end of one pipe, the lifeline. The end of file on the lifeline proves that no shim is left; only
 * then are the processes reported as lost.
 */
#ifndef TFC_PROC_GUARD_H
#define TFC_PROC_GUARD_H

#include "base/list.h"
#include "ctx/ctx.h"
#include "proc/proc.h"
#include "proc/protocol.h"

/*
 * A message that waits because the socket is full. A launch stays in memory until it can be sent,
 * so that many waiting spawns use no descriptors. A message that ends something is embedded in the
 * struct it ends, so that sending it allocates nothing.
 */
struct tfc__outgoing {
	struct tfc__link link; /* in the guard's queue */
	struct tfc__command command;
	int fd;     /* sent with the message, then closed; -1: none */
	void *data; /* freed when sent */
	size_t len;
	void *memory; /* the allocation that contains the message, freed with it; NULL: not owned */
};

struct tfc_process {
	struct tfc__handle handle;
	tfc_ctx *ctx;
	struct tfc__guard *guard; /* NULL once the process has ended */
	uint64_t id;
	tfc_process_fn fn; /* NULL once closed */
	void *user;
	char *program; /* argv[0] and cwd, for error texts */
	char *cwd;
	pid_t pid;
	pid_t shim;
	uint32_t isolation; /* enum tfc_isolation, once the process has started */
	bool is_calling;    /* in fn: a close from there leaves the free to the caller of fn */
	bool is_closed;
	bool is_stopping; /* a stop was requested; counted in guard->stops */
	struct tfc__outgoing stop;
};

struct tfc__kept {
	struct tfc__link link;
	struct tfc__guard *guard;
	tfc_port_hold *hold;
	uint32_t id;
	struct tfc__outgoing set_bind_window;
	struct tfc__outgoing release; /* sending it frees this struct */
};

struct tfc__guard {
	struct tfc__link link; /* in the context's list of dead guards */
	tfc_ctx *ctx;
	pid_t pid;
	uint64_t number; /* of the context's guards, from 1 */
	bool is_known;   /* it has sent a hello of this protocol version */
	bool is_dead;
	bool are_shims_ended; /* it is dead, and none of its shims is left */
	struct tfc__io socket;
	struct tfc__io pidfd;      /* opened by the guard itself, so it names the guard for certain;
				      opened by the host only to kill a guard that has sent none */
	struct tfc__io lifeline;   /* read end; watched once the guard is dead */
	uint64_t longest_grace_ms; /* of all processes that it was to start */
	struct tfc__timer patience;  /* waits for the shims of a dead guard */
	uint64_t patience_intervals; /* intervals of `patience` that are left */
	struct tfc__timer heartbeat; /* heartbeat; set while a response is awaited */
	uint32_t missed_heartbeats;  /* heartbeats without a message from the guard */
	uint32_t stops;              /* processes that are being stopped */
	struct tfc__work end;
	struct tfc__link queue;
	struct tfc__link parked; /* works that wait for an empty queue, by their own links */
	struct tfc__link keeps;
	uint32_t last_keep;
	/*
	 * The guard handles messages in order: its response to a ping that was sent behind a
	 * release means that it has closed that port, unless the port's task has not been reaped.
	 */
	uint32_t releases, confirmed; /* releases sent, and known to be done */
	uint32_t pings, pongs;
	uint32_t release_ping;      /* the ping whose response confirms `pinged_releases` */
	uint32_t pinged_releases;   /* the releases that were sent before it */
	struct tfc__link releasing; /* works that wait for that, or for the exit of a dead guard,
				       by their own links */
	uint32_t serial;
	uint32_t count; /* processes in the table */
	uint32_t capacity;
	uint32_t free_hint;
	tfc_process **table;
};

/* The context's guards: the current one, and dead ones whose shims are still running. */
struct tfc__guards {
	struct tfc__guard *current;
	struct tfc__link dirs; /* private directories; each new guard receives all of them */
	uint32_t last_dir;
	struct tfc__link leases;
	uint32_t lease_serial;
	bool is_foreign;     /* the installed guard is of another version */
	uint32_t early_ends; /* guards in a row that ended before their hello */
	struct tfc__link dead;
	uint64_t last_number;
	struct tfc__will *will; /* NULL: none */
	/* the end of a dead guard's shims was not observed; no further will is committed */
	bool has_unseen_end;
};
int tfc__guards_get(tfc_ctx *ctx, struct tfc__guards **ret_guards);

/* A guard may be killed once. After this many early ends the program evidently cannot run here. */
#define TFC__EARLY_ENDS_MAX 3

/* Returns the context's guard, after starting one if there is none. */
int tfc__guard_get(tfc_ctx *ctx, struct tfc__guard **ret_guard);

/* The guard must not be in any list any more. */
void tfc__guard_free(struct tfc__guard *guard);
void tfc__guard_reap(struct tfc__guard *guard); /* never waits */

/*
 * guard_leave.c: ends the guards of a context that is freed, and waits for them. In a forked child
 * (is_forked) only frees this process's copies.
 */
void tfc__guards_leave(void *guards, bool is_forked);

/* guard_table.c: adds a process to the table and assigns its id. TFC_OK or TFC_ENOMEM. */
int tfc__guard_add(struct tfc__guard *guard, tfc_process *process);
tfc_process *tfc__guard_find(const struct tfc__guard *guard, uint64_t id); /* NULL: has ended */
void tfc__guard_remove(tfc_process *process);
void tfc__guard_report_all_lost(struct tfc__guard *guard);
bool tfc__guard_has_groups(const struct tfc__guard *guard); /* of any of its processes */
void tfc__guard_free_processes(struct tfc__guard *guard);

/*
 * Takes ownership of fd and data. TFC_OK (sent or queued), TFC_ELOST (the guard is dead), or an
 * error.
 */
int tfc__guard_send(struct tfc__guard *guard, const struct tfc__command *command, int fd,
		    void *data, size_t len);

/*
 * Sends a message that is embedded in another struct, or moves it to the end of the queue;
 * allocates nothing. TFC_OK, or TFC_ELOST: the guard is dead.
 */
void tfc__outgoing_init(struct tfc__outgoing *outgoing, const struct tfc__command *command);
int tfc__guard_post(struct tfc__guard *guard, struct tfc__outgoing *outgoing);
void tfc__guard_flush(struct tfc__guard *guard);
void tfc__guard_drop_queue(struct tfc__guard *guard);
void tfc__guard_unpark(struct tfc__link *parked); /* schedules the works */

/*
 * The guard is dead, or is killed here, before another one can be started: its processes and ports
 * are notified, in dispatch.
 */
void tfc__guard_died(struct tfc__guard *guard);
/* The kernel closes an exiting guard's socket before the ports that the guard holds. */
bool tfc__guard_is_exiting(const struct tfc__guard *guard);

/* Takes ownership of the guard's pidfd and watches it, so that the dead guard is reaped. */
void tfc__guard_watch(struct tfc__guard *guard, int pidfd);

/* guard_start.c: starts the program, which sends a hello later. Sets only pid and socket.fd. */
int tfc__guard_run(struct tfc__guard *guard);

/* guard.c: reads and handles the messages in the socket. */
void tfc__guard_receive(struct tfc__guard *guard);

/*
 * guard_heartbeat.c: detects a guard that does not respond, and a program that is not a guard.
 * While a hello, the end of a stop or a release is awaited, heartbeats are sent to it. A guard that
 * does not respond is killed and counts as dead, so that every stop ends. While nothing is awaited,
 * none are sent.
 */
void tfc__guard_expect(struct tfc__guard *guard);
int tfc__guard_ping(struct tfc__guard *guard); /* TFC_OK: sent or queued */
void tfc__guard_ponged(struct tfc__guard *guard);
bool tfc__guard_report_is_valid(const struct tfc__guard *guard, const struct tfc__report *report);
void tfc__guard_kill(struct tfc__guard *guard); /* its death is watched from then on */
void tfc__guard_fail(struct tfc__guard *guard, const char *why);
void tfc__guard_on_heartbeat(struct tfc__timer *heartbeat);

/* guard_keep.c */
uint32_t tfc__guard_keep_id(const struct tfc__guard *guard, const tfc_port_hold *hold);
int tfc__guard_keep_in(struct tfc__guard *guard, tfc_port_hold *hold);
void tfc__guard_lose_ports(struct tfc__guard *guard);
void tfc__guard_not_kept(struct tfc__guard *guard, uint32_t id); /* the guard has closed it */
void tfc__guard_forget_ports(struct tfc__guard *guard);

/* private_dir.c. forget: the context is being freed. */
struct tfc__private_dir {
	struct tfc__link link; /* in the context's list */
	tfc_ctx *ctx;
	char *path;
	uint32_t id; /* identifies it in messages to the guard */
	int lock;    /* dir_lock.h: shared until this process ends */
	int folder;  /* the directory, or -1; its flock(2) keeps systemd-tmpfiles out */
	int state;   /* the node's state directory, or -1 */
};
int tfc__private_dir_send(struct tfc__guard *guard, const struct tfc__private_dir *dir,
			  bool is_wanted);
void tfc__private_dirs_forget(struct tfc__guards *guards);

/* guard_lease.c */
uint64_t tfc__lease_id(const struct tfc__lease *lease);
void tfc__lease_ended(tfc_ctx *ctx, uint64_t id); /* the guard reports that the lease is over */
void tfc__leases_send(struct tfc__guard *guard);  /* sends all leases to a new guard */
void tfc__lease_forget_all(struct tfc__guards *guards); /* the context is being freed */

/* process.c */
void tfc__process_free(tfc_process *process);
void tfc__process_receive(tfc_process *process, const struct tfc__report *report);

/* limits.c: checks limits, and describes a limit that the system refused. */
int tfc__limits_check(const tfc_process_limits *limits, tfc_error *error);
bool tfc__limits_is_step(uint32_t step);
void tfc__limits_describe_unlimited(const struct tfc__report *report, char *text, size_t size);
void tfc__limits_describe_oom(const char *program, const struct tfc__report *report, char *text,
			      size_t size);
void tfc__limits_describe(const char *program, const struct tfc__report *report, char *text,
			  size_t size);

/*
 * launch.c: builds the contents of the memfd; options are borrowed, *ret_data is owned by the
 * caller.
 */
int tfc__launch_build(const tfc_process_options *options, tfc_error *error, void **ret_data,
		      size_t *ret_len);

#endif
