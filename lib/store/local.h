/* The helper process of a local store, as its host has it (local.c, local_start.c). */
#ifndef TFC_STORE_LOCAL_H
#define TFC_STORE_LOCAL_H

#include "base/buf.h"
#include "store/internal.h"
#include <stdbool.h>
#include <sys/types.h>

struct tfc__local {
	tfc_ctx *ctx;
	char *path;
	struct tfc__io socket; /* fd -1: no helper runs */
	int pidfd;
	int rest; /* memfd for what cannot be sent when it is closed */
	pid_t pid;
	bool is_open; /* it has said so */
	struct tfc__buf out;
	size_t sent;        /* of out */
	struct tfc__buf in; /* of the reply under way */
	uint32_t values;    /* in it */
	size_t scanned;     /* bytes of `in` that are whole replies */
	tfc_store_done done;
	void *request;
	uint8_t seal_key[TFC__STORE_SEAL_SIZE];
};

/* Starts a helper, which says on its socket what came of it. */
int tfc__local_start(struct tfc__local *local, tfc_error *error);

/* Closes its descriptors. Waits for its end, if it still runs, up to so many milliseconds. */
void tfc__local_leave(struct tfc__local *local, int wait_ms);

#endif
