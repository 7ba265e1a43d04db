/* The helper process of a local store, from the host's side (local.c, local_start.c). */
#ifndef TFC_STORE_LOCAL_H
#define TFC_STORE_LOCAL_H

#include "base/buf.h"
#include "store/internal.h"
#include <stdbool.h>
#include <sys/types.h>

struct tfc__local {
	tfc_ctx *ctx;
	char *path;
	struct tfc__io socket; /* fd -1: no helper is running */
	int pidfd;
	int rest; /* memfd for the requests that are unsent on close */
	pid_t pid;
	bool is_open; /* the helper has reported success */
	struct tfc__buf out;
	size_t sent;        /* bytes of `out` that are sent */
	struct tfc__buf in; /* replies to the current request */
	uint32_t values;    /* number of values in `in` */
	size_t scanned;     /* bytes of `in` that are complete replies */
	tfc_store_done done;
	void *request;
	uint8_t seal_key[TFC__STORE_SEAL_SIZE];
};

/* Starts a helper, which reports the result of opening on its socket. */
int tfc__local_start(struct tfc__local *local, tfc_error *error);

/* Closes the helper's descriptors and waits up to wait_ms milliseconds for its end. */
void tfc__local_leave(struct tfc__local *local, int wait_ms);

#endif
