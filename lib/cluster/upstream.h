/*
 * What the host's resolver says of its data, kept for all jobs of this node: one question at a
 * time for each upstream, an answer that several jobs use, and news when it has changed.
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
	char *node; /* NULL: all */
	char *text; /* "NAME=value" */
};

/* One answer. */
struct tfc__upstream {
	char *name;
	uint64_t version;
	struct tfc__upstream_partition *partitions; /* as they were added */
	uint32_t count;
	struct tfc__upstream_env *envs;
	uint32_t env_count;
};

struct tfc__upstreams;

/* What observers get, in dispatch: there is an answer, or a reason to ask again. */
struct tfc__upstream_event {
	const char *name;
	bool is_changed; /* the host has said that it is another one, some time ago */
};

/* ops NULL: no host knows any. Errors: TFC_EINVAL, TFC_ENOTSUP, TFC_ENOMEM. */
int tfc__upstreams_open(tfc_ctx *ctx, const tfc_upstream_ops *ops, void *user, tfc_error *error,
			struct tfc__upstreams **ret_upstreams);
/* Open questions are canceled; nobody is told. NULL is a no-op. */
void tfc__upstreams_close(struct tfc__upstreams *upstreams);
void tfc__upstreams_watch(struct tfc__upstreams *upstreams, struct tfc__observer *observer);

/* An answer of this very moment. TFC_OK: *ret_upstream is borrowed during this dispatch turn.
 * TFC_EAGAIN with the sentence of what is waited for: the watches are told when to ask again.
 * TFC_ENOENT: nobody can be asked.
 * TFC_ENOMEM. */
int tfc__upstreams_get(struct tfc__upstreams *upstreams, const char *name, tfc_error *error,
		       const struct tfc__upstream **ret_upstream);

/* The host says that it has changed; older versions than the one that is known are ignored. */
#define TFC__UPSTREAM_SETTLE_MS 2000   /* without another change, before jobs follow it */
#define TFC__UPSTREAM_SETTLE_MAX 10000 /* that long it may go on changing */
void tfc__upstreams_changed(struct tfc__upstreams *upstreams, const char *name, uint64_t version);

/* ---- sharing it out (upstream_share.c), pure */

/* What one worker is given. */
struct tfc__upstream_share {
	const char *node; /* where it belongs; borrowed from the answer; NULL: anywhere */
	char *partitions; /* "0,3,7"; "" for none */
};

/*
 * Shares all partitions out to `workers` workers, the same for the same answer. Each node that owns
 * some gets one worker, those with the most partitions per worker get more, up to one a partition;
 * who is left has none and may run anywhere. With fewer workers than owners, the owners of the most
 * get one each, and the partitions of the others go to whoever has fewest.
 * ret_shares: so many; the caller frees them with tfc__upstream_shares_free. TFC_ENOMEM.
 */
int tfc__upstream_share(const struct tfc__upstream *upstream, uint32_t workers,
			struct tfc__upstream_share **ret_shares);
void tfc__upstream_shares_free(struct tfc__upstream_share *shares, uint32_t workers);

/* The variables of a worker with that share that was placed on `node`: TFC_UPSTREAM,
 * TFC_UPSTREAM_VERSION, TFC_PARTITIONS, and the host's. */
void tfc__upstream_environ(const struct tfc__upstream *upstream,
			   const struct tfc__upstream_share *share, const char *node,
			   struct tfc__strv *env);

#endif
