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

/* Starts the context's guard unless it runs. Errors as tfc_process_spawn. */
int tfc__guard_start(tfc_ctx *ctx);

/*
 * Whether launches queue here because the guard's socket is full. when_free parks a work, which no
 * one has scheduled, until the queue has gone or its guard has died; tfc__work_cancel ends that.
 */
bool tfc__guard_is_busy(tfc_ctx *ctx);
void tfc__guard_when_free(tfc_ctx *ctx, struct tfc__work *work);

/* Moves a hold's socket into the guard (SCM_RIGHTS); the host keeps no copy. */
int tfc__guard_keep(tfc_ctx *ctx, tfc_port_hold *hold);

/*
 * A directory that the guard removes, without following links, once the host is dead and all tasks
 * are gone. It is forgotten with is_wanted = false, after the host removed it itself.
 */
int tfc__guard_own_dir(tfc_ctx *ctx, const char *path, bool is_wanted);

/* The pid of a process's shim, whose descendants are the process and all it started; 0: unknown. */
pid_t tfc__process_shim(const tfc_process *process);

/* "auto", "plain", "cgroup", "pidns"; "?" for an unknown one. Static. */
const char *tfc__isolation_name(uint32_t isolation);

/* Position up to which the log is complete now, from its files; for a reader that begins at the
 * end. */
uint64_t tfc__log_end(const char *dir, const char *name);

/* The last `lines` lines of a log (all streams; of one attempt, or 0: of all), each without
 * newline; may be fewer. */
int tfc__log_tail(const char *dir, const char *name, uint32_t attempt, uint32_t lines,
		  char ***ret_lines);

#endif
