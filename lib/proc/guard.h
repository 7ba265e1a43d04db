/*
 * The host's end of a guard: starting it, talking to it without ever blocking, noticing its death.
 *
 * A guard that dies leaves shims behind that are still stopping their tasks; each holds the write
 * end of one pipe, the lifeline. Its end of file is the proof that none is left, and only then the
 * processes are told lost.
 */
#ifndef TFC_PROC_GUARD_H
#define TFC_PROC_GUARD_H

#include "base/list.h"
#include "ctx/ctx.h"
#include "proc/proc.h"
#include "proc/protocol.h"

/*
 * A message that the full socket has not taken. A launch stays in memory until it can go, so that
 * many waiting spawns use no descriptors. What ends something needs no memory when it is asked for:
 * its message is a part of the thing.
 */
struct tfc__outgoing {
	struct tfc__link link; /* in the guard's queue */
	struct tfc__command command;
	int fd;     /* goes along, closed when sent; -1: none */
	void *data; /* freed when sent */
	size_t len;
	void *memory; /* freed with it: what it is a part of; NULL: something that lives on */
};

struct tfc_process {
	struct tfc__handle handle;
	tfc_ctx *ctx;
	struct tfc__guard *guard; /* NULL once it has ended, or its context has */
	uint64_t id;
	tfc_process_fn fn; /* NULL once closed */
	void *user;
	char *program; /* argv[0] and cwd, for sentences */
	char *cwd;
	pid_t pid;
	pid_t shim;
	uint32_t isolation; /* enum tfc_isolation, once it has started */
	bool is_calling;    /* in fn: whoever closes it there leaves the memory to the caller */
	bool is_closed;
	bool is_stopping; /* a stop was asked for: it counts among the guard's */
	struct tfc__outgoing stop;
};

struct tfc__kept {
	struct tfc__link link;
	struct tfc__guard *guard;
	tfc_port_hold *hold;
	uint32_t id;
	struct tfc__outgoing admit;
	struct tfc__outgoing release; /* the last of it: the rest goes with this */
};

struct tfc__guard {
	struct tfc__link link; /* among the context's dead ones */
	tfc_ctx *ctx;
	pid_t pid;
	bool is_known; /* has said hello, in this version's words */
	bool is_dead;
	bool is_deserted; /* dead, and no shim of it is left */
	struct tfc__io socket;
	struct tfc__io pidfd;       /* opened by the guard for us: nobody reaped it before; or when
				       it is killed without having said hello */
	struct tfc__io lifeline;    /* read end; watched once the guard is dead */
	uint64_t longest_grace_ms;  /* of the processes that it was to start */
	struct tfc__timer patience; /* with its shims, once it is dead */
	uint64_t patience_beats;    /* left */
	struct tfc__timer pulse;    /* set while something is expected of it */
	uint32_t strikes;           /* beats without a word from it */
	uint32_t stops;             /* processes that are being stopped */
	struct tfc__work end;
	struct tfc__link queue;
	struct tfc__link parked; /* works that wait for an empty queue, by their own links */
	struct tfc__link keeps;
	uint32_t last_keep;
	/* It obeys in order: when it has answered a ping that was sent behind a release, it has
	   closed that port, unless the port's task is not reaped yet. */
	uint32_t releases, confirmed; /* sent, and known to be obeyed */
	uint32_t pings, pongs;
	uint32_t asked, asked_ping; /* the answer to that ping confirms so many releases */
	struct tfc__link releasing; /* works that wait for it, by their own links */
	uint32_t serial;
	uint32_t count; /* processes in the table */
	uint32_t capacity;
	uint32_t free_hint;
	tfc_process **table;
};

/* The context's slot: the guard in use and those that died with shims still at work. */
struct tfc__guards {
	struct tfc__guard *current;
	struct tfc__link dirs; /* private directories; each guard is sent all of them */
	uint32_t last_dir;
	struct tfc__link leases;
	uint32_t lease_serial;
	bool is_foreign;     /* the program there is no guard of this version */
	uint32_t early_ends; /* guards in a row that ended before they said hello */
	struct tfc__link dead;
};
int tfc__guards_get(tfc_ctx *ctx, struct tfc__guards **ret_guards);

/* One may have been killed; a program that never gets to its hello does not run here. */
#define TFC__EARLY_ENDS_MAX 3

/* Starts one, or returns the context's. */
int tfc__guard_get(tfc_ctx *ctx, struct tfc__guard **ret_guard);

/* Not before it is in no list any more. */
void tfc__guard_free(struct tfc__guard *guard);
void tfc__guard_reap(struct tfc__guard *guard); /* never waits */

/* guard_leave.c: the context ends, which waits for its guards; a forked child only lets go. */
void tfc__guards_leave(void *guards, bool is_forked);

/* guard_table.c: enters a process into the table and gives it an id. TFC_OK or TFC_ENOMEM. */
int tfc__guard_add(struct tfc__guard *guard, tfc_process *process);
tfc_process *tfc__guard_find(const struct tfc__guard *guard, uint64_t id); /* NULL: gone */
void tfc__guard_remove(tfc_process *process);
void tfc__guard_tell_all_lost(struct tfc__guard *guard);
bool tfc__guard_has_groups(const struct tfc__guard *guard); /* a process in a cgroup of its own */
void tfc__guard_detach_all(struct tfc__guard *guard, bool is_forked);

/* Takes over fd and data. TFC_OK (sent or queued), TFC_ELOST (the guard is gone), or an error. */
int tfc__guard_send(struct tfc__guard *guard, const struct tfc__command *command, int fd,
		    void *data, size_t len);

/*
 * Sends a message that is part of something, or moves it to the end of the queue; allocates
 * nothing. TFC_OK or TFC_ELOST: the guard is gone.
 */
void tfc__outgoing_init(struct tfc__outgoing *outgoing, const struct tfc__command *command);
int tfc__guard_post(struct tfc__guard *guard, struct tfc__outgoing *outgoing);
void tfc__guard_flush(struct tfc__guard *guard);
void tfc__guard_drop_queue(struct tfc__guard *guard);
void tfc__guard_unpark(struct tfc__link *parked); /* schedules works */

/* The guard does not live any more: processes and ports are told so, in dispatch. */
void tfc__guard_died(struct tfc__guard *guard);

/* Takes over a pidfd of it, so that it is reaped when it is dead. */
void tfc__guard_watch(struct tfc__guard *guard, int pidfd);

/* guard_start.c: starts the program, which says hello later. Sets pid and socket.fd alone. */
int tfc__guard_run(struct tfc__guard *guard);

/* guard.c: takes in what lies in the socket. */
void tfc__guard_hear(struct tfc__guard *guard);

/*
 * guard_pulse.c: a guard that does not answer, or that is none. While its hello or the end of a
 * stop is awaited, it is asked for a sign of life; one that gives none is killed and counts as
 * dead, so that a stop always ends. Nothing is asked while nothing is expected.
 */
void tfc__guard_expect(struct tfc__guard *guard);
int tfc__guard_ping(struct tfc__guard *guard); /* TFC_OK: sent or queued */
void tfc__guard_ponged(struct tfc__guard *guard);
bool tfc__guard_can_say(const struct tfc__guard *guard, const struct tfc__report *report);
void tfc__guard_kill(struct tfc__guard *guard); /* its death is watched from then on */
void tfc__guard_condemn(struct tfc__guard *guard, const char *why);
void tfc__guard_beat(struct tfc__timer *pulse);

/* guard_keep.c */
uint32_t tfc__guard_keep_id(const struct tfc__guard *guard, const tfc_port_hold *hold);
int tfc__guard_keep_in(struct tfc__guard *guard, tfc_port_hold *hold);
void tfc__guard_lose_ports(struct tfc__guard *guard);
void tfc__guard_not_kept(struct tfc__guard *guard, uint32_t id); /* the guard has closed it */
void tfc__guard_forget_ports(struct tfc__guard *guard);

/* private_dir.c. forget: the context ends. */
struct tfc__private_dir {
	struct tfc__link link; /* in the context's */
	tfc_ctx *ctx;
	char *path;
	uint32_t id; /* to guards */
	int lock;    /* dir_lock.h: shared as long as this process lives */
	int folder;  /* the directory itself, or -1; its flock(2) keeps systemd-tmpfiles out */
	int state;   /* the node's state directory, or -1 */
};
int tfc__private_dir_send(struct tfc__guard *guard, const struct tfc__private_dir *dir,
			  bool is_wanted);
void tfc__private_dirs_forget(struct tfc__guards *guards);

/* guard_lease.c */
uint64_t tfc__lease_id(const struct tfc__lease *lease);
void tfc__lease_hear(tfc_ctx *ctx, uint64_t id);        /* the guard says that it is over */
void tfc__lease_tell_all(struct tfc__guard *guard);     /* to a fresh one */
void tfc__lease_forget_all(struct tfc__guards *guards); /* the context ends */

/* process.c */
void tfc__process_free(tfc_process *process);
void tfc__process_hear(tfc_process *process, const struct tfc__report *report);

/* limits.c: what may be asked for, and the sentence for what was refused. */
int tfc__limits_check(const tfc_process_limits *limits, tfc_error *error);
bool tfc__limits_is_step(uint32_t step);
void tfc__limits_describe(const char *program, const struct tfc__report *report, char *text,
			  size_t size);

/* launch.c: the memfd's contents; borrowed options. */
int tfc__launch_build(const tfc_process_options *options, tfc_error *error, void **ret_data,
		      size_t *ret_len);

#endif
