#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cluster/upstream.h"

/* A node that owns partitions. */
struct owner {
	const char *node;
	uint32_t *partitions; /* their indices in the response */
	uint32_t count;
	uint32_t workers;
	uint32_t first_worker;
};

struct sharing {
	const struct tfc__upstream *upstream;
	uint32_t workers;
	uint32_t *order; /* partitions sorted by node; those without a node last */
	struct owner *owners;
	uint32_t owner_count;
	uint32_t owned;         /* partitions with an owner, at the beginning of `order` */
	uint32_t *counts;       /* per worker */
	struct tfc__buf *lists; /* per worker */
	const char **nodes;     /* per worker */
};

static int compare_by_node(const void *a, const void *b, void *user)
{
	const struct tfc__upstream *upstream = user;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	const char *m = upstream->partitions[x].node, *n = upstream->partitions[y].node;
	int order = m && n ? strcmp(m, n) : (m ? -1 : 0) + (n ? 1 : 0);
	return order ? order : (x > y) - (x < y);
}

static const char *node_at(const struct sharing *sharing, uint32_t i)
{
	return sharing->upstream->partitions[sharing->order[i]].node;
}

static void list_owners(struct sharing *sharing)
{
	uint32_t count = sharing->upstream->count;
	for (uint32_t i = 0; i < count; i++)
		sharing->order[i] = i;
	/* glibc's qsort_r; other systems have another order of arguments */
	qsort_r(sharing->order, count, sizeof(sharing->order[0]), compare_by_node,
		(void *)(uintptr_t)sharing->upstream);
	for (uint32_t i = 0; i < count && node_at(sharing, i); i++) {
		struct owner *owner = &sharing->owners[sharing->owner_count - 1];
		if (!sharing->owner_count || strcmp(owner->node, node_at(sharing, i)) != 0) {
			owner = &sharing->owners[sharing->owner_count++];
			*owner = (struct owner){.node = node_at(sharing, i),
						.partitions = &sharing->order[i]};
		}
		owner->count++;
		sharing->owned++;
	}
}

/* Whether a has more partitions per worker than b, once each gets another worker. Of equal ones the
 * first by name is kept. */
static bool is_needier(const struct owner *a, const struct owner *b)
{
	return (uint64_t)a->count * (b->workers + 1) > (uint64_t)b->count * (a->workers + 1);
}

/* An owner without a worker comes before all others. */
static struct owner *neediest_owner(struct sharing *sharing)
{
	struct owner *best = NULL;
	for (uint32_t i = 0; i < sharing->owner_count; i++) {
		struct owner *owner = &sharing->owners[i];
		if (owner->workers == owner->count)
			continue;
		if (!best || (!owner->workers && best->workers) ||
		    (!owner->workers == !best->workers && is_needier(owner, best)))
			best = owner;
	}
	return best;
}

/* Workers are numbered by owner, in the order of the owners' names. */
static void assign_workers(struct sharing *sharing)
{
	uint32_t next = 0;
	for (uint32_t i = 0; i < sharing->workers; i++) {
		struct owner *owner = neediest_owner(sharing);
		if (!owner)
			break;
		owner->workers++;
	}
	for (uint32_t i = 0; i < sharing->owner_count; i++) {
		struct owner *owner = &sharing->owners[i];
		owner->first_worker = next;
		for (uint32_t j = 0; j < owner->workers; j++)
			sharing->nodes[next++] = owner->node;
	}
}

static void assign_partition(struct sharing *sharing, uint32_t worker, uint32_t partition)
{
	struct tfc__buf *list = &sharing->lists[worker];
	tfc__buf_addf(list, "%s%s", list->len ? "," : "",
		      sharing->upstream->partitions[partition].name);
	sharing->counts[worker]++;
}

static void assign_to_least_loaded(struct sharing *sharing, uint32_t partition)
{
	uint32_t least = 0;
	for (uint32_t i = 1; i < sharing->workers; i++)
		if (sharing->counts[i] < sharing->counts[least])
			least = i;
	assign_partition(sharing, least, partition);
}

static void assign_partitions(struct sharing *sharing)
{
	for (uint32_t i = 0; i < sharing->owner_count; i++) {
		const struct owner *owner = &sharing->owners[i];
		for (uint32_t j = 0; owner->workers && j < owner->count; j++) {
			uint64_t share = (uint64_t)j * owner->workers / owner->count;
			assign_partition(sharing, owner->first_worker + (uint32_t)share,
					 owner->partitions[j]);
		}
	}
	for (uint32_t i = 0; i < sharing->owner_count; i++) {
		const struct owner *owner = &sharing->owners[i];
		for (uint32_t j = 0; !owner->workers && j < owner->count; j++)
			assign_to_least_loaded(sharing, owner->partitions[j]);
	}
	for (uint32_t i = sharing->owned; i < sharing->upstream->count; i++)
		assign_to_least_loaded(sharing, sharing->order[i]);
}

static bool sharing_to_shares(struct sharing *sharing, struct tfc__upstream_share *shares)
{
	bool is_whole = true;
	for (uint32_t i = 0; i < sharing->workers; i++) {
		tfc__buf_add_str(&sharing->lists[i], "");
		shares[i].node = sharing->nodes[i];
		shares[i].partitions = tfc__buf_steal(&sharing->lists[i]);
		is_whole &= shares[i].partitions != NULL;
	}
	return is_whole;
}

static bool sharing_init(struct sharing *sharing)
{
	size_t partitions = sharing->upstream->count, workers = sharing->workers;
	sharing->order = calloc(partitions + 1, sizeof(sharing->order[0]));
	sharing->owners = calloc(partitions + 1, sizeof(sharing->owners[0]));
	sharing->counts = calloc(workers, sizeof(sharing->counts[0]));
	sharing->lists = calloc(workers, sizeof(sharing->lists[0]));
	sharing->nodes = calloc(workers, sizeof(sharing->nodes[0]));
	return sharing->order && sharing->owners && sharing->counts && sharing->lists &&
	       sharing->nodes;
}

static void sharing_fini(struct sharing *sharing)
{
	for (uint32_t i = 0; sharing->lists && i < sharing->workers; i++)
		tfc__buf_fini(&sharing->lists[i]);
	free(sharing->order);
	free(sharing->owners);
	free(sharing->counts);
	free(sharing->lists);
	free(sharing->nodes);
}

int tfc__upstream_share(const struct tfc__upstream *upstream, uint32_t workers,
			struct tfc__upstream_share **ret_shares)
{
	struct sharing sharing = {.upstream = upstream, .workers = workers};
	struct tfc__upstream_share *shares = calloc(workers + 1, sizeof(*shares));
	bool is_whole = shares && workers && sharing_init(&sharing);
	if (is_whole) {
		list_owners(&sharing);
		assign_workers(&sharing);
		assign_partitions(&sharing);
		is_whole = sharing_to_shares(&sharing, shares);
	}
	sharing_fini(&sharing);
	if (!is_whole && workers) {
		tfc__upstream_shares_free(shares, workers);
		return TFC_ENOMEM;
	}
	*ret_shares = shares;
	return shares ? TFC_OK : TFC_ENOMEM;
}

void tfc__upstream_shares_free(struct tfc__upstream_share *shares, uint32_t workers)
{
	for (uint32_t i = 0; shares && i < workers; i++)
		free(shares[i].partitions);
	free(shares);
}

void tfc__upstream_environ(const struct tfc__upstream *upstream,
			   const struct tfc__upstream_share *share, const char *node,
			   struct tfc__strv *env)
{
	char version[24];
	snprintf(version, sizeof(version), "%llu", (unsigned long long)upstream->version);
	for (uint32_t i = 0; i < upstream->env_count; i++)
		if (!upstream->envs[i].node)
			tfc__strv_set_variable(env, strdup(upstream->envs[i].text));
	for (uint32_t i = 0; i < upstream->env_count; i++)
		if (upstream->envs[i].node && strcmp(upstream->envs[i].node, node) == 0)
			tfc__strv_set_variable(env, strdup(upstream->envs[i].text));
	tfc__strv_set_env(env, "TFC_UPSTREAM", upstream->name);
	tfc__strv_set_env(env, "TFC_UPSTREAM_VERSION", version);
	tfc__strv_set_env(env, "TFC_PARTITIONS", share->partitions);
}
