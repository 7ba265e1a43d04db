/*
 * Where a host's data is: what the placement policy "upstream" follows.
 *
 * A job names an upstream ("placement": {"policy": "upstream", "upstream": "grid"}). Before its
 * tasks are placed the node that maintains the job asks the host's resolver which node owns which
 * partition. Each worker is then given some of the partitions and is placed on the node that owns
 * them; it finds their names in its environment (doc/guide/data.md).
 */
#ifndef TFCLUSTER_UPSTREAM_H
#define TFCLUSTER_UPSTREAM_H

#include <stdint.h>
#include <tfcluster/ctx.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One question to a resolver. It is the library's, and gone once it was answered, refused or
 * canceled. */
typedef struct tfc_upstream_request tfc_upstream_request;

/* A host's resolver. Its functions run in dispatch. */
typedef struct tfc_upstream_ops {
	uint32_t size;
	uint32_t reserved; /* 0 */
	/* Where are the partitions of this upstream? Answered by tfc_upstream_complete or
	 * tfc_upstream_fail, inside this call or later, exactly once. */
	void (*resolve)(void *user, const char *upstream, tfc_upstream_request *question);
	/* Nobody wants to know any more: the question is gone when this returns. */
	void (*cancel)(void *user, tfc_upstream_request *question);
} tfc_upstream_ops;

#define TFC_UPSTREAM_OPS_INIT                     \
	{                                         \
		sizeof(tfc_upstream_ops), 0, 0, 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_upstream_ops_init(tfc_upstream_ops *ops, uint32_t size);

/**
 * Adds a partition to an answer: its name, 1 to 63 bytes without commas, blanks and control
 * characters, and the member that owns it, NULL when any node is as good as another. Both are
 * copied. Thread: the context's. Errors: TFC_EINVAL, TFC_ENOMEM, TFC_EFORK.
 */
TFC_API int tfc_upstream_add_partition(tfc_upstream_request *question, const char *partition,
				       const char *node);

/**
 * Adds a variable that workers on `node` are to have, NULL: on every node: where the data is
 * reached there. All is copied. Thread: the context's. Errors: TFC_EINVAL, TFC_ENOMEM, TFC_EFORK.
 */
TFC_API int tfc_upstream_add_env(tfc_upstream_request *question, const char *node, const char *name,
				 const char *value);

/**
 * Answers with what was added. `version` is that of the map; tfc_node_upstream_changed with a
 * higher one makes the answer void. Thread: the context's. Errors: TFC_EINVAL (no partition was
 * added, or one of them twice: the question is then refused with that), TFC_ENOMEM (as well),
 * TFC_EFORK.
 */
TFC_API int tfc_upstream_complete(tfc_upstream_request *question, uint64_t version);

/**
 * Answers that there is none now, with a sentence. Jobs wait and ask again after a while, and after
 * tfc_node_upstream_changed. Thread: the context's. Errors: TFC_EINVAL, TFC_EFORK.
 */
TFC_API int tfc_upstream_fail(tfc_upstream_request *question, const char *text);

#ifdef __cplusplus
}
#endif
#endif
