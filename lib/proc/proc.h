/*
 * The inside of proc, for the agent: the context's guard, what it keeps for the host, and what it
 * removes when the host is gone.
 */
#ifndef TFC_PROC_PROC_H
#define TFC_PROC_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <tfcluster/port.h>
#include <tfcluster/process.h>

/* Starts the context's guard unless it runs. Errors as tfc_process_spawn. */
int tfc__guard_start(tfc_ctx *ctx);

/* Moves a hold's socket into the guard (SCM_RIGHTS); the host keeps no copy. */
int tfc__guard_keep(tfc_ctx *ctx, tfc_port_hold *hold);

/*
 * A directory that the guard removes, without following links, once the host is dead and all tasks
 * are gone. It is forgotten with is_wanted = false, after the host removed it itself.
 */
int tfc__guard_own_dir(tfc_ctx *ctx, const char *path, bool is_wanted);

/* The pid of a process's shim, whose descendants are the process and all it started; 0: unknown. */
pid_t tfc__process_shim(const tfc_process *process);

/* Position up to which the log is complete now, from its files; for a reader that begins at the
 * end. */
uint64_t tfc__log_end(const char *dir, const char *name);

/* The last `lines` lines of a log (all streams), each without newline; may be fewer. */
int tfc__log_tail(const char *dir, const char *name, uint32_t lines, char ***ret_lines);

#endif
