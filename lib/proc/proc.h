/*
 * The inside of proc, for the agent: the context's guard, what it keeps for the host, and what it
 * removes when the host is gone.
 */
#ifndef TFC_PROC_PROC_H
#define TFC_PROC_PROC_H

#include "ctx/ctx.h"
#include <stdbool.h>
#include <stdint.h>
#include <tfcluster/port.h>
#include <tfcluster/process.h>

/*
 * tfc_process_options.grace_ms of a helper program: it blocks TERM (base/signals.h) and has nothing
 * to save.
 */
#define TFC__HELPER_GRACE_MS 1

/* Starts the context's guard unless it runs. Errors as tfc_process_spawn. */
int tfc__guard_start(tfc_ctx *ctx);

/* The pid of the context's guard; 0: there is none. */
pid_t tfc__guard_pid(const tfc_ctx *ctx);

/*
 * Whether launches queue here because the guard's socket is full. when_free parks a work, which no
 * one has scheduled, until the queue has gone or its guard has died; tfc__work_cancel ends that.
 */
bool tfc__guard_is_busy(tfc_ctx *ctx);
void tfc__guard_when_free(tfc_ctx *ctx, struct tfc__work *work);

/* Moves a hold's socket into the guard (SCM_RIGHTS); the host keeps no copy. */
int tfc__guard_keep(tfc_ctx *ctx, tfc_port_hold *hold);

/*
 * Whether the guard may not have obeyed all releases yet: then a work that is not scheduled is
 * parked until the guard has, or is dead; tfc__work_cancel ends that. A port whose task is not
 * reaped stays held all the same.
 */
bool tfc__guard_await_releases(tfc_ctx *ctx, struct tfc__work *work);

/*
 * A private directory: PARENT (absolute) with TFC__PRIVATE_DIR_PREFIX and random digits, mode 0700,
 * with a lock in it (dir_lock.h) that says who still uses it. The guard, which is started if need
 * be, removes it without following links once the host is dead and all tasks are reaped; where the
 * guard dies, too, somebody who finds the lock free does.
 *
 * state_dir, an open directory or -1: what is started from the private directory shares its task
 * lock (task_lock.h). Not kept.
 *
 * open: TFC_EINVAL, TFC_ENOMEM, those of mkdir(2) and of tfc_process_spawn. close removes it,
 * before the context is freed; what cannot be removed is left to the guard. NULL is a no-op.
 */
struct tfc__private_dir;
int tfc__private_dir_open(tfc_ctx *ctx, const char *parent, int state_dir, const char *component,
			  tfc_error *error, struct tfc__private_dir **ret_dir);
const char *tfc__private_dir_path(const struct tfc__private_dir *dir);
void tfc__private_dir_close(struct tfc__private_dir *dir);

/*
 * A lease: somebody far away has asked for these processes, and has to be heard for them to go on.
 * The guard keeps the deadline, so that it holds also when this process is stopped: once it has
 * passed, they are stopped, each with a grace of its own, each is told TFC_EXIT_LOST, and the lease
 * is over for good. Times are CLOCK_BOOTTIME (tfc__boot_time): a machine that sleeps is not heard.
 */
struct tfc__lease;
typedef void (*tfc__lease_fn)(void *user);

/* Begins one of a length, which is over at deadline_ns; 0: its length from now. fn: it is over,
 * told in dispatch, once; not after the end of the handle. Starts the guard. Errors as
 * tfc_process_spawn. */
int tfc__lease_begin(tfc_ctx *ctx, uint32_t ms, uint64_t deadline_ns, tfc__lease_fn fn, void *user,
		     struct tfc__lease **ret_lease);

/* Moves the deadline; an earlier one than it has is ignored. Allocates nothing. TFC_OK or TFC_ELOST
 * (it is over). */
int tfc__lease_renew(struct tfc__lease *lease, uint64_t deadline_ns);

/* Gives it up: what still runs under it has no deadline any more. NULL is a no-op. */
void tfc__lease_end(struct tfc__lease *lease);

/* Of a process: the lease that it is under, and the grace that it has when that is over; the
 * private directory whose locks its shim shares. */
struct tfc__tenure {
	const struct tfc__lease *lease; /* NULL: it is under none */
	uint32_t grace_ms;
	const struct tfc__private_dir *dir; /* NULL: none */
};

/* tfc_process_spawn under a lease; tenure NULL: under none. tfc_ctx_close does not count it. */
int tfc__process_spawn(tfc_ctx *ctx, const tfc_process_options *options,
		       const struct tfc__tenure *tenure, tfc_process_fn fn, void *user,
		       tfc_process **ret_process);

/* The pid of a process's shim, whose descendants are the process and all it started; 0: unknown. */
pid_t tfc__process_shim(const tfc_process *process);

/* "auto", "plain", "cgroup", "pidns"; "?" for an unknown one. Static. */
const char *tfc__isolation_name(uint32_t isolation);

#endif
