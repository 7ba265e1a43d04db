#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocation/internal.h"
#include "base/fail.h"

static bool allocation_is_listed(const tfc_allocation *allocation, uint32_t rank, uint32_t states)
{
	return states & 1U << allocation->ranks[rank].state;
}

uint32_t tfc__allocation_list(const tfc_allocation *allocation, uint32_t states, char *text,
			      size_t size)
{
	uint32_t count = 0, shown = 0;
	size_t len;
	for (uint32_t i = 0; i < allocation->info.rank_count; i++)
		count += allocation_is_listed(allocation, i, states);
	len = (size_t)snprintf(text, size, "rank%s", count == 1 ? "" : "s");
	uint32_t most = count > 9 ? 8 : count;
	for (uint32_t i = 0; i < allocation->info.rank_count && shown < most; i++) {
		if (!allocation_is_listed(allocation, i, states))
			continue;
		const char *joint = !shown                               ? " "
				    : shown + 1 == most && most == count ? " and "
									 : ", ";
		len += (size_t)snprintf(text + len, size - len, "%s%u", joint, i);
		shown++;
	}
	if (most < count)
		snprintf(text + len, size - len, " and %u more", count - most);
	return count;
}

/* ---- the members, as ranks */

static bool allocation_read_rank(const tfc_allocation *allocation, const char *name,
				 uint32_t *ret_rank)
{
	char exact[sizeof(allocation->node_name)];
	if (strncmp(name, "rank-", 5) != 0)
		return false;
	unsigned long rank = strtoul(name + 5, NULL, 10);
	if (rank >= allocation->info.rank_count)
		return false;
	snprintf(exact, sizeof(exact), "rank-%lu", rank);
	if (strcmp(name, exact) != 0)
		return false;
	*ret_rank = (uint32_t)rank;
	return true;
}

static void allocation_read_labels(tfc_allocation *allocation, struct tfc__rank *rank,
				   const tfc_member_info *member)
{
	rank->disagrees = false;
	for (const char *const *at = member->labels; at && *at; at++) {
		if (strncmp(*at, LABEL_COMMAND, strlen(LABEL_COMMAND)) == 0)
			rank->disagrees = strcmp(*at + strlen(LABEL_COMMAND),
						 allocation->command) != 0;
		else if (rank == allocation->ranks &&
			 strncmp(*at, LABEL_END, strlen(LABEL_END)) == 0)
			snprintf(allocation->end, sizeof(allocation->end), "%s",
				 *at + strlen(LABEL_END));
	}
}

void tfc__allocation_set_member(tfc_allocation *allocation, const struct tfc__member *entry)
{
	tfc_member_info info, *member = &info;
	uint32_t number;
	tfc__member_info(entry, member);
	if (!allocation_read_rank(allocation, member->name, &number))
		return;
	struct tfc__rank *rank = &allocation->ranks[number];
	bool is_gone = entry->is_out || member->state == TFC_MEMBER_LEFT ||
		       member->state == TFC_MEMBER_DOWN;
	bool was_alive = rank->state == RANK_ALIVE;
	allocation_read_labels(allocation, rank, member);
	rank->slots = member->slots;
	rank->gpus = member->gpus;
	if (is_gone && was_alive) {
		rank->state = RANK_GONE;
		rank->has_left = member->state == TFC_MEMBER_LEFT;
	} else if (member->state == TFC_MEMBER_ALIVE) {
		rank->state = RANK_ALIVE;
	}
	bool is_alive = rank->state == RANK_ALIVE;
	if (was_alive != is_alive) {
		rank->is_unreported = true;
		allocation->alive += is_alive ? 1 : -1U;
	}
	tfc__work_schedule(&allocation->work);
}

void tfc__allocation_on_member(struct tfc__observer *watch, const void *event)
{
	const struct tfc__member_event *change = event;
	tfc__allocation_set_member(tfc__container_of(watch, tfc_allocation, watch), change->member);
}

/* ---- whether they suffice */

struct sums {
	uint64_t slots, gpus;
};

static struct sums allocation_sum(const tfc_allocation *allocation)
{
	struct sums sums = {0};
	for (uint32_t i = 0; i < allocation->info.rank_count; i++) {
		const struct tfc__rank *rank = &allocation->ranks[i];
		sums.slots += rank->state == RANK_ALIVE ? rank->slots : 0;
		sums.gpus += rank->state == RANK_ALIVE ? rank->gpus : 0;
	}
	return sums;
}

/* Why tasks do not fit although all ranks are there. */
static void allocation_was_never_enough(const tfc_allocation *allocation, const struct sums *sums,
					tfc_error *error)
{
	if (sums->slots < allocation->needed_slots)
		tfc__fail(error, TFC_EEXHAUSTED, "allocation", 0,
			  "the job has %u tasks, and the ranks have %u slot%s, one for each CPU "
			  "that they were granted; request more CPUs for each rank, or set slots",
			  allocation->needed_slots, (uint32_t)sums->slots,
			  sums->slots == 1 ? "" : "s");
	else
		tfc__fail(error, TFC_EEXHAUSTED, "allocation", 0,
			  "the tasks need %u GPU%s, and the ranks have %u; request more GPUs for "
			  "each rank (those in its CUDA_VISIBLE_DEVICES count)",
			  allocation->needed_gpus, allocation->needed_gpus == 1 ? "" : "s",
			  (uint32_t)sums->gpus);
}

/* Which ranks are lost; if none is, which have not joined. False: all ranks are there. */
static bool allocation_list_absent(const tfc_allocation *allocation,
				   char text[TFC__RANK_LIST_SIZE + 20])
{
	char ranks[TFC__RANK_LIST_SIZE];
	uint32_t count = tfc__allocation_list(allocation, 1U << RANK_GONE, ranks, sizeof(ranks));
	const char *what = count == 1 ? "is lost" : "are lost";
	if (!count) {
		count = tfc__allocation_list(allocation, 1U << RANK_UNSEEN, ranks, sizeof(ranks));
		what = count == 1 ? "has not joined" : "have not joined";
	}
	snprintf(text, TFC__RANK_LIST_SIZE + 20, "%s %s", ranks, what);
	return count;
}

bool tfc__allocation_suffices(const tfc_allocation *allocation, tfc_error *error)
{
	char absent[TFC__RANK_LIST_SIZE + 20];
	struct sums sums = allocation_sum(allocation);
	bool is_any_absent = allocation_list_absent(allocation, absent);
	uint32_t least = allocation->min_ranks ? allocation->min_ranks : 1;
	if (allocation->alive < least)
		tfc__fail(error, TFC_ELOST, "allocation", 0,
			  "%s, and %u of at least %u ranks are left", absent, allocation->alive,
			  least);
	else if (sums.slots >= allocation->needed_slots && sums.gpus >= allocation->needed_gpus)
		return true;
	else if (!is_any_absent)
		allocation_was_never_enough(allocation, &sums, error);
	else if (sums.slots < allocation->needed_slots)
		tfc__fail(error, TFC_ELOST, "allocation", 0,
			  "%s, and the other ranks have %u slot%s for %u tasks", absent,
			  (uint32_t)sums.slots, sums.slots == 1 ? "" : "s",
			  allocation->needed_slots);
	else
		tfc__fail(error, TFC_ELOST, "allocation", 0,
			  "%s, and the other ranks have %u of the %u GPUs that the tasks need",
			  absent, (uint32_t)sums.gpus, allocation->needed_gpus);
	return false;
}
