#include "spec/ranks.h"
#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

struct tfc__host_name tfc__host_name(const char *address)
{
	const char *colon = strrchr(address, ':');
	int len = (int)(colon - address);
	if (address[0] == '[')
		return (struct tfc__host_name){address + 1, len - 2};
	return (struct tfc__host_name){address, len};
}

/* The keys are in canonical form, so equal hosts have equal texts. */
static int compare_hosts(const struct tfc__rank *a, const struct tfc__rank *b)
{
	struct tfc__host_name x = tfc__host_name(a->task->key), y = tfc__host_name(b->task->key);
	int order = memcmp(x.text, y.text, (size_t)(x.len < y.len ? x.len : y.len));
	return order ? order : x.len - y.len;
}

/* A rank in `items`, sorted by host, then by rank. */
struct entry {
	const struct tfc__rank *items;
	uint32_t rank;
};

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int order = compare_hosts(&x->items[x->rank], &y->items[y->rank]);
	return order ? order : x->rank < y->rank ? -1 : 1;
}

static void add_ranks(struct tfc__ranks *ranks, const struct tfc__spec_list *list)
{
	for (uint32_t i = 0; i < list->count; i++)
		ranks->items[ranks->count++].task = &list->items[i];
}

/* Sets each item's `host` to the first rank on its host. */
static int find_first_ranks(struct tfc__ranks *ranks)
{
	struct entry *entries = calloc(ranks->count + 1, sizeof(*entries));
	if (!entries)
		return TFC_ENOMEM;
	for (uint32_t rank = 0; rank < ranks->count; rank++)
		entries[rank] = (struct entry){ranks->items, rank};
	qsort(entries, ranks->count, sizeof(*entries), compare_entries);
	uint32_t first = 0;
	for (uint32_t i = 0; i < ranks->count; i++) {
		struct tfc__rank *item = &ranks->items[entries[i].rank];
		if (i == 0 || compare_hosts(item, &ranks->items[first]) != 0)
			first = entries[i].rank;
		item->host = first;
	}
	free(entries);
	return 0;
}

/* Numbers the hosts by their first ranks, and the ranks of each host. */
static void number_hosts(struct tfc__ranks *ranks, struct tfc__buf *hosts)
{
	for (uint32_t rank = 0; rank < ranks->count; rank++) {
		struct tfc__rank *item = &ranks->items[rank];
		if (item->host == rank) {
			struct tfc__host_name name = tfc__host_name(item->task->address);
			tfc__buf_addf(hosts, "%s%.*s", ranks->host_count ? "," : "", name.len,
				      name.text);
			item->host = ranks->host_count++;
		} else {
			item->host = ranks->items[item->host].host;
		}
		item->local_rank = ranks->local_sizes[item->host]++;
	}
}

/* Counts the ranks with each local rank, host by host: local rank l exists on each host with more
 * than l ranks. */
static int number_across(struct tfc__ranks *ranks)
{
	uint32_t *by_host = calloc(ranks->count + 1, sizeof(*by_host));
	uint32_t *starts = calloc(ranks->host_count + 1, sizeof(*starts));
	if (by_host && starts) {
		for (uint32_t host = 0; host < ranks->host_count; host++)
			starts[host + 1] = starts[host] + ranks->local_sizes[host];
		for (uint32_t rank = 0; rank < ranks->count; rank++) {
			const struct tfc__rank *item = &ranks->items[rank];
			by_host[starts[item->host] + item->local_rank] = rank;
		}
		for (uint32_t i = 0; i < ranks->count; i++) {
			struct tfc__rank *item = &ranks->items[by_host[i]];
			item->cross_rank = ranks->cross_sizes[item->local_rank]++;
		}
	}
	bool is_done = by_host && starts;
	free(by_host);
	free(starts);
	return is_done ? 0 : TFC_ENOMEM;
}

const struct tfc__ranks *tfc__ranks_of(const tfc_spec *spec)
{
	uint32_t count = spec->lists[TFC__CHIEF].count + spec->lists[TFC__WORKER].count;
	struct tfc__buf hosts = {0};
	if (spec->common->ranks)
		return spec->common->ranks;
	struct tfc__ranks *ranks = calloc(1, sizeof(*ranks));
	if (!ranks)
		return NULL;
	ranks->items = calloc(count + 1, sizeof(*ranks->items));
	ranks->local_sizes = calloc(count + 1, sizeof(*ranks->local_sizes));
	ranks->cross_sizes = calloc(count + 1, sizeof(*ranks->cross_sizes));
	if (!ranks->items || !ranks->local_sizes || !ranks->cross_sizes)
		goto fail;
	add_ranks(ranks, &spec->lists[TFC__CHIEF]);
	add_ranks(ranks, &spec->lists[TFC__WORKER]);
	if (find_first_ranks(ranks) < 0)
		goto fail;
	number_hosts(ranks, &hosts);
	ranks->hosts = tfc__buf_steal(&hosts);
	if (!ranks->hosts || number_across(ranks) < 0)
		goto fail;
	spec->common->ranks = ranks;
	return ranks;
fail:
	tfc__ranks_free(ranks);
	return NULL;
}

void tfc__ranks_free(struct tfc__ranks *ranks)
{
	if (!ranks)
		return;
	free(ranks->items);
	free(ranks->local_sizes);
	free(ranks->cross_sizes);
	free(ranks->hosts);
	free(ranks);
}
