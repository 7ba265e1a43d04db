/*
 * Starts the library's helper programs (tfc-guard, tfc-store, tfc-resolve) by posix_spawn, so that
 * the cost does not depend on the size of the host process. A helper runs in its own session, with
 * default signal dispositions, the node's signals blocked (base/signals.h), an empty environment
 * and /dev/null as standard streams.
 */
#ifndef TFC_CTX_HELPER_H
#define TFC_CTX_HELPER_H

#include "ctx/ctx.h"
#include <sys/types.h>

#define TFC__HELPER_FDS_MAX 4
#define TFC__HELPER_FD_END 8

/* A descriptor and its number in the program, below TFC__HELPER_FD_END. */
struct tfc__helper_fd {
	int fd;
	int number;
};

/* Finds the path of an executable helper program, which the caller frees. Errors: TFC_ENOENT,
 * TFC_EACCES, TFC_ENOMEM, with a hint in the text. */
int tfc__helper_find(const tfc_ctx *ctx, const char *name, const char *component, tfc_error *error,
		     char **ret_path);

/*
 * Starts the program at `path`. The caller keeps its descriptors; all other descriptors of the
 * library are closed in the program. The caller reaps the process. Errors: TFC_EMFILE, TFC_EAGAIN,
 * TFC_ENOMEM, TFC_ESYS.
 */
int tfc__helper_run(const char *path, char *const argv[], const struct tfc__helper_fd *fds,
		    size_t count, const char *component, tfc_error *error, pid_t *ret_pid);

/*
 * Opens a descriptor that becomes readable when the process ends. `program` is what cannot be
 * started without it. Errors: TFC_EMFILE, TFC_ENOMEM, TFC_ESYS.
 */
int tfc__helper_open_pidfd(pid_t pid, const char *program, const char *component, tfc_error *error,
			   int *ret_fd);

#endif
