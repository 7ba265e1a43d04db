/*
 * Starting the library's own small programs (tfc-guard, tfc-store, tfc-resolve): by posix_spawn, so
 * that the cost does not depend on the host's size; in a session of its own, with default signals,
 * an empty environment and /dev/null as standard streams.
 */
#ifndef TFC_CTX_HELPER_H
#define TFC_CTX_HELPER_H

#include "ctx/ctx.h"
#include <sys/types.h>

#define TFC__HELPER_FDS_MAX 4
#define TFC__HELPER_FD_END 8

/* A descriptor and the number, below TFC__HELPER_FD_END, that the program has it under. */
struct tfc__helper_fd {
	int fd;
	int number;
};

/* The path of a helper program that can be run, which the caller frees; or a sentence that says
 * what to do: TFC_ENOENT, TFC_EACCES, TFC_ENOMEM. */
int tfc__helper_find(const tfc_ctx *ctx, const char *name, const char *component, tfc_error *error,
		     char **ret_path);

/*
 * Runs the program at `path`. The descriptors stay the caller's; all others of the library are
 * closed in it. The process is the caller's to reap. Errors: TFC_EMFILE, TFC_EAGAIN, TFC_ENOMEM,
 * TFC_ESYS.
 */
int tfc__helper_run(const char *path, char *const argv[], const struct tfc__helper_fd *fds,
		    size_t count, const char *component, tfc_error *error, pid_t *ret_pid);

#endif
