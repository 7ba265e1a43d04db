/*
 * Upstreams: the locations of the host's data, kept for all jobs of this node. Each upstream has at
 * most one request to the host's resolver at a time. Jobs share its response, and are notified when
 * it has changed.
 */
#ifndef TFC_CLUSTER_UPSTREAM_H
#define TFC_CLUSTER_UPSTREAM_H

#include "base/observers.h"
#include "base/strv.h"
#include "ctx/ctx.h"
#include <tfcluster/upstream.h>

struct tfc__upstream_partition {
	char *name;
	char *node; /* NULL: any */
};

struct tfc__upstream_env {
	char *node; /* NULL: all nodes */
	char *text; /* "NAME=value" */
};

/* A response of the host. */
struct tfc__upstream {
	char *name;
	uint64_t version;
	struct tfc__upstream_partition *partitions; /* in the order in which they were added */
	uint32_t count;
	struct tfc__upstream_env *envs;
	uint32_t env_count;
};

struct tfc__upstreams;

/* Observers are notified in dispatch: there is a response, or a reason to request it again. */
struct tfc__upstream_event {
	const char *name;
	bool is_changed; /* the response follows a change that the host has reported */
};

/* ops NULL: there is no resolver. Errors: TFC_EINVAL, TFC_ENOTSUP, TFC_ENOMEM. */
int tfc__upstreams_open(tfc_ctx *ctx, const tfc_upstream_ops *ops, void *user, tfc_error *error,
			struct tfc__upstreams **ret_upstreams);
/* Cancels open requests; observers are not notified. NULL is a no-op. */
void tfc__upstreams_close(struct tfc__upstreams *upstreams);
void tfc__upstreams_watch(struct tfc__upstreams *upstreams, struct tfc__observer *observer);

/* Returns a response that is up to date. TFC_OK: *ret_upstream is borrowed during this turn of
 * dispatch. TFC_EAGAIN: the error text says what is missing, and observers are notified when to try
 * again. TFC_ENOENT: there is no resolver. TFC_ENOMEM. */
int tfc__upstreams_get(struct tfc__upstreams *upstreams, const char *name, tfc_error *error,
		       const struct tfc__upstream **ret_upstream);

/* The host reports a change. A version that is not newer than the known one is ignored. */
#define TFC__UPSTREAM_SETTLE_MS 2000   /* time without another change before jobs follow it */
#define TFC__UPSTREAM_SETTLE_MAX 10000 /* time after which jobs follow it in any case */
void tfc__upstreams_changed(struct tfc__upstreams *upstreams, const char *name, uint64_t version);

/* ---- assignment of partitions (upstream_share.c), pure */

/* The partitions of one worker. */
struct tfc__upstream_share {
	const char
		*node; /* the node that it should run on; borrowed from the response; NULL: any */
	char *partitions; /* "0,3,7"; "": none */
};

/*
 * Assigns all partitions to `workers` workers; the result depends only on the response. Each node
 * that owns partitions gets one worker. Nodes with the most partitions per worker get further ones,
 * up to one per partition. The remaining workers have no partitions and may run anywhere. With
 * fewer workers than owners, the owners of the most partitions get one each, and the partitions of
 * the others go to the workers with the fewest. ret_shares: one per worker; the caller frees them
 * with tfc__upstream_shares_free. TFC_ENOMEM.
 */
int tfc__upstream_share(const struct tfc__upstream *upstream, uint32_t workers,
			struct tfc__upstream_share **ret_shares);
void tfc__upstream_shares_free(struct tfc__upstream_share *shares, uint32_t workers);

/* Adds the environment variables of a worker with that share on `node`: TFC_UPSTREAM,
 * TFC_UPSTREAM_VERSION, TFC_PARTITIONS, and the host's. */
void tfc__upstream_environ(const struct tfc__upstream *upstream,
			   const struct tfc__upstream_share *share, const char *node,
			   struct tfc__strv *env);

#endif
