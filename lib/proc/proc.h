/*
 * The internal interface of proc, for the agent: the context's guard, what the guard keeps for the
 * host, and what it removes after the host's end.
 */
#ifndef TFC_PROC_PROC_H
#define TFC_PROC_PROC_H

#include "ctx/ctx.h"
#include <stdbool.h>
#include <stdint.h>
#include <tfcluster/port.h>
#include <tfcluster/process.h>

/*
 * tfc_process_options.grace_ms of a helper program. It blocks TERM (base/signals.h) and has nothing
 * to save, so it is killed almost at once.
 */
#define TFC__HELPER_GRACE_MS 1

/* Starts the context's guard unless it is running. Errors as tfc_process_spawn. */
int tfc__guard_start(tfc_ctx *ctx);

/* The pid of the context's guard; 0: there is none. */
pid_t tfc__guard_pid(const tfc_ctx *ctx);

/*
 * Whether launches are queued in the host because the guard's socket is full. when_free parks a
 * work, which must not be scheduled, until the queue is empty or the guard has died;
 * tfc__work_cancel unparks it.
 */
bool tfc__guard_is_busy(tfc_ctx *ctx);
void tfc__guard_when_free(tfc_ctx *ctx, struct tfc__work *work);

/* Moves a hold's socket to the guard (SCM_RIGHTS); the host keeps no copy. */
int tfc__guard_keep(tfc_ctx *ctx, tfc_port_hold *hold);

/*
 * Whether the guard may not have handled all releases yet. If so, `work`, which must not be
 * scheduled, is parked until the guard has handled them or has exited; tfc__work_cancel unparks it.
 * A port whose task is not reaped is still held then.
 */
bool tfc__guard_await_releases(tfc_ctx *ctx, struct tfc__work *work);

/*
 * A private directory: PARENT (absolute) with TFC__PRIVATE_DIR_PREFIX and random digits, mode 0700.
 * A lock in it (dir_lock.h) shows which processes still use it. The guard, which is started if need
 * be, removes the directory without following links once the host is dead and all tasks are reaped.
 * If the guard dies as well, any process that finds the lock free removes it.
 *
 * state_dir, an open directory or -1: each task started from the private directory shares the task
 * lock of state_dir (task_lock.h). Borrowed; open makes a duplicate.
 *
 * open: TFC_EINVAL, TFC_ENOMEM, the errors of mkdir(2) and of tfc_process_spawn. close removes the
 * directory and must come before the context is freed; what it cannot remove is left to the guard.
 * NULL is a no-op.
 */
struct tfc__private_dir;
int tfc__private_dir_open(tfc_ctx *ctx, const char *parent, int state_dir, const char *component,
			  tfc_error *error, struct tfc__private_dir **ret_dir);
const char *tfc__private_dir_path(const struct tfc__private_dir *dir);
void tfc__private_dir_close(struct tfc__private_dir *dir);

/*
 * A lease: processes that another node asked for run only as long as that node renews it. The guard
 * keeps the deadline, so that it also holds while this process is stopped. When the deadline has
 * passed, the processes are stopped, each with a grace of its own, each ends with TFC_EXIT_LOST,
 * and the lease is over for good. Times are CLOCK_BOOTTIME (tfc__boot_time): the time of a suspend
 * counts.
 */
struct tfc__lease;
typedef void (*tfc__lease_fn)(void *user);

/*
 * Begins a lease of `ms`, which is over at deadline_ns (0: `ms` from now). fn is called in
 * dispatch, once, when the lease is over, and not after tfc__lease_end. Starts the guard. Errors as
 * tfc_process_spawn.
 */
int tfc__lease_begin(tfc_ctx *ctx, uint32_t ms, uint64_t deadline_ns, tfc__lease_fn fn, void *user,
		     struct tfc__lease **ret_lease);

/*
 * Moves the deadline; one earlier than the present one is ignored. Allocates nothing. TFC_OK, or
 * TFC_ELOST: the lease is over.
 */
int tfc__lease_renew(struct tfc__lease *lease, uint64_t deadline_ns);

/* The lease is over now, as when its deadline has passed: fn is called. Allocates nothing. */
void tfc__lease_expire(struct tfc__lease *lease);

/*
 * Ends the handle: processes that still run under the lease have no deadline any more. NULL is a
 * no-op.
 */
void tfc__lease_end(struct tfc__lease *lease);

/*
 * The conditions under which a process runs: its lease, its grace when the lease is over, and the
 * private directory whose locks its shim shares.
 */
struct tfc__run_terms {
	const struct tfc__lease *lease; /* NULL: none */
	uint32_t grace_ms;
	const struct tfc__private_dir *dir; /* NULL: none */
	/* The process that it is to be forked from if that is possible, else it is executed
	 * (doc/internals/warm.md); NULL: none. */
	const tfc_process *zygote;
	bool is_zygote;
	/* of a zygote: how long tasks wait until it is ready, in ms; then it is killed */
	uint32_t import_ms;
};

/*
 * tfc_process_spawn under a lease; run_terms NULL: under none. tfc_ctx_close does not count the
 * handle.
 */
int tfc__process_spawn(tfc_ctx *ctx, const tfc_process_options *options,
		       const struct tfc__run_terms *run_terms, tfc_process_fn fn, void *user,
		       tfc_process **ret_process);

/*
 * The pid of a process's shim, whose descendants are the process and all that it started; 0:
 * unknown.
 */
pid_t tfc__process_shim(const tfc_process *process);

/*
 * The kind of an event of a zygote, beside enum tfc_process_event_kind: it has imported its
 * modules. It may come before STARTED.
 */
#define TFC__PROCESS_READY 1000

/* "auto", "plain", "cgroup", "pidns"; "?" for an unknown value. Static. */
const char *tfc__isolation_name(uint32_t isolation);

#endif
