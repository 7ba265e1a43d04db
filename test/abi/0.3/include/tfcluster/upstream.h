/*
 * Where a host's data is: what the placement policy "upstream" follows.
 *
 * A job names an upstream ("placement": {"policy": "upstream", "upstream": "grid"}). Before its
 * tasks are placed, the node that maintains the job queries the host for the node of each
 * partition. Each worker gets some of the partitions and is placed on the node that owns them;
 * their names are in its environment (doc/guide/data.md).
 */
#ifndef TFCLUSTER_UPSTREAM_H
#define TFCLUSTER_UPSTREAM_H

#include <stdint.h>
#include <tfcluster/ctx.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A request for the partitions of one upstream. The library owns it; it is invalid after it has
 * been completed, failed or canceled. */
typedef struct tfc_upstream_request tfc_upstream_request;

/* A host's upstreams. The functions run in dispatch, and `cancel` also inside tfc_node_close.
 * `impl` is tfc_node_options.upstream_impl. */
typedef struct tfc_upstream_ops {
	uint32_t size;
	uint32_t reserved; /* 0 */
	/* Locates the partitions of the upstream with the name `upstream`, which is borrowed: valid
	 * during the call. The host ends the request with tfc_upstream_complete or
	 * tfc_upstream_fail, inside this call or later, exactly once. */
	void (*resolve)(void *impl, const char *upstream, tfc_upstream_request *request);
	/* Cancels a request: it is invalid once this function has returned. */
	void (*cancel)(void *impl, tfc_upstream_request *request);
} tfc_upstream_ops;

#define TFC_UPSTREAM_OPS_INIT                     \
	{                                         \
		sizeof(tfc_upstream_ops), 0, 0, 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_upstream_ops_init(tfc_upstream_ops *ops, uint32_t size);

/**
 * Adds a partition: its name, 1 to 63 bytes without commas, blanks and control characters, and
 * `node`, the name of the member that owns it (NULL: no member is preferred). Both are copied.
 * Thread: the context's. Errors: TFC_EINVAL, TFC_ENOMEM, TFC_EFORK.
 */
TFC_API int tfc_upstream_add_partition(tfc_upstream_request *request, const char *partition,
				       const char *node);

/**
 * Adds an environment variable for workers on `node` (NULL: on every node), such as the address at
 * which they reach the data. All is copied. Thread: the context's. Errors: TFC_EINVAL, TFC_ENOMEM,
 * TFC_EFORK.
 */
TFC_API int tfc_upstream_add_env(tfc_upstream_request *request, const char *node, const char *name,
				 const char *value);

/**
 * Completes a request: the map is what was added, and `version` is its version. A later
 * tfc_node_upstream_changed with a higher version makes the map obsolete. If an earlier
 * tfc_node_upstream_changed has reported a higher version than this one, the call acts as
 * tfc_upstream_fail and returns 0. Thread: the context's. Errors: TFC_EINVAL (no partition was
 * added, or one twice) and TFC_ENOMEM, which fail the request; TFC_EFORK.
 */
TFC_API int tfc_upstream_complete(tfc_upstream_request *request, uint64_t version);

/**
 * Fails a request: there is no map now, and `text`, which is copied, says why. The jobs wait; the
 * library makes a new request after 5 s, and after tfc_node_upstream_changed. Thread: the
 * context's. Errors: TFC_EINVAL, TFC_EFORK.
 */
TFC_API int tfc_upstream_fail(tfc_upstream_request *request, const char *text);

#ifdef __cplusplus
}
#endif
#endif
