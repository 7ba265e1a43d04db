/*
 * The text that says what a job that does not fit waits for.
 */
#include "cluster/internal.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define WAIT(error, ...) tfc__fail(error, TFC_EAGAIN, "cluster", 0, __VA_ARGS__)

struct explain {
	const struct tfc__placing *place;
	const struct tfc__place_item *item; /* the task without a place */
	const struct tfc__strv *labels[2];  /* that it needs: the job's, and those of its role */
	char task[80];
	tfc_error *error;
};

static const struct tfc__member *explain_member(const struct explain *explain, uint32_t i)
{
	return explain->place->request->nodes[i].member;
}

static bool is_node_usable(const struct explain *explain, uint32_t i)
{
	const struct tfc__place_room *room = &explain->place->empty_rooms[i];
	uint32_t labeled = explain->item->need.labeled;
	return room->is_usable && !(labeled && room->lacking[labeled - 1]);
}

static uint32_t explain_node_count(const struct explain *explain)
{
	return explain->place->request->node_count;
}

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

/* ---- no node has the capacity, even if it is empty */

static int explain_nobody(const struct explain *explain)
{
	uint32_t alive = 0;
	for (uint32_t i = 0; i < explain_node_count(explain); i++)
		alive += explain_member(explain, i)->state == TFC_MEMBER_ALIVE;
	if (alive)
		return WAIT(explain->error, "no node accepts tasks: %s drained",
			    alive == 1 ? "the only alive node is" : "all alive nodes are");
	return WAIT(explain->error, "no node is alive");
}

static size_t explain_label_count(const struct explain *explain)
{
	return explain->labels[0]->count + explain->labels[1]->count;
}

static const char *explain_label(const struct explain *explain, size_t i)
{
	size_t of_job = explain->labels[0]->count;
	return i < of_job ? explain->labels[0]->items[i] : explain->labels[1]->items[i - of_job];
}

static int explain_labels(const struct explain *explain)
{
	size_t count = explain_label_count(explain);
	for (size_t i = 0; i < count; i++) {
		const char *label = explain_label(explain, i);
		bool is_there = false;
		for (uint32_t j = 0; j < explain_node_count(explain); j++)
			is_there |= tfc__place_takes_tasks(explain_member(explain, j)) &&
				    tfc__place_has_label(explain_member(explain, j), label);
		if (!is_there)
			return WAIT(explain->error,
				    "%s needs a node with label \"%.100s\"; no node has it",
				    explain->task, label);
	}
	return WAIT(explain->error,
		    "%s needs a node with all of its %zu labels (%.60s, ...); no node has them all",
		    explain->task, count, explain_label(explain, 0));
}

static uint32_t most_gpus(const struct explain *explain, bool is_free)
{
	uint32_t most = 0;
	for (uint32_t i = 0; i < explain_node_count(explain); i++) {
		uint32_t gpus = is_free ? explain->place->empty_rooms[i].gpus
					: explain_member(explain, i)->gpus;
		if (is_node_usable(explain, i) && gpus > most)
			most = gpus;
	}
	return most;
}

/* UINT64_MAX: a node has no limit. */
static uint64_t most_memory(const struct explain *explain, bool is_free)
{
	uint64_t most = 0;
	for (uint32_t i = 0; i < explain_node_count(explain); i++) {
		const struct tfc__member *member = explain_member(explain, i);
		uint64_t memory = is_free ? explain->place->empty_rooms[i].memory
					  : member->memory_bytes;
		if (!is_free && !memory)
			memory = UINT64_MAX;
		if (is_node_usable(explain, i) && memory > most)
			most = memory;
	}
	return most;
}

static int explain_gpus(const struct explain *explain, bool is_free)
{
	uint32_t need = explain->item->need.gpus, most = most_gpus(explain, is_free);
	const char *what = is_free ? "the most that are free on one is"
				   : "the most that one has is";
	if (!most && !is_free)
		return WAIT(explain->error, "%s needs %u GPU%s; no node has any", explain->task,
			    need, plural(need));
	return WAIT(explain->error, "%s needs %u GPU%s on one node: %s %u", explain->task, need,
		    plural(need), what, most);
}

static int explain_memory(const struct explain *explain, bool is_free)
{
	char need[TFC__MEMORY_TEXT_SIZE], most[TFC__MEMORY_TEXT_SIZE];
	tfc__memory_text(explain->item->need.memory, need);
	tfc__memory_text(most_memory(explain, is_free), most);
	return WAIT(explain->error, "%s needs %s of memory on one node: the most that %s is %s",
		    explain->task, need, is_free ? "is free on one" : "one offers", most);
}

static bool could_run(const struct explain *explain, uint32_t i)
{
	const struct tfc__place_need *need = &explain->item->need;
	const struct tfc__member *member = explain_member(explain, i);
	return is_node_usable(explain, i) && member->gpus >= need->gpus &&
	       (!member->memory_bytes || member->memory_bytes >= need->memory);
}

/* ---- the capacity is in use */

/* Whether the node lacks only ports. */
static bool lacks_only_ports(const struct explain *explain, uint32_t i)
{
	const struct tfc__place_need *need = &explain->item->need;
	const struct tfc__place_room *room = &explain->place->empty_rooms[i];
	bool is_short = need->is_pooled && room->ports != UINT32_MAX;
	bool is_barred = need->fixed && room->barred && room->barred[need->fixed - 1];
	return could_run(explain, i) && room->slots && (is_short || is_barred);
}

static int explain_portless(const struct explain *explain, uint32_t i)
{
	return WAIT(explain->error, "cannot acquire a port for %s on node %.40s: %s", explain->task,
		    explain_member(explain, i)->name,
		    explain->place->request->nodes[i].ports->text);
}

struct sums {
	uint64_t slots, free_slots; /* UINT64_MAX: no limit */
	uint64_t gpus, free_gpus;
	uint64_t needed_gpus, needed_memory;
};

static struct sums sum_capacity(const struct explain *explain)
{
	struct sums sums = {0};
	for (uint32_t i = 0; i < explain_node_count(explain); i++) {
		const struct tfc__place_room *room = &explain->place->empty_rooms[i];
		if (!room->is_usable)
			continue;
		bool is_endless = room->slots == UINT64_MAX || sums.free_slots == UINT64_MAX;
		sums.free_slots = is_endless ? UINT64_MAX : sums.free_slots + room->slots;
		sums.slots += explain_member(explain, i)->slots;
		sums.free_gpus += room->gpus;
		sums.gpus += explain_member(explain, i)->gpus;
	}
	for (uint32_t i = 0; i < explain->place->request->task_count; i++) {
		sums.needed_gpus += explain->place->items[i].need.gpus;
		sums.needed_memory += explain->place->items[i].need.memory;
	}
	return sums;
}

/* "all 8 slots are in use" */
static int explain_slots(const struct explain *explain, const struct sums *sums)
{
	uint32_t needed = explain->place->request->task_count;
	if (!sums->free_slots)
		return WAIT(explain->error, "%s %llu slot%s in use",
			    sums->slots == 1 ? "the" : "all", (unsigned long long)sums->slots,
			    sums->slots == 1 ? " is" : "s are");
	return WAIT(explain->error, "%u slots are needed; %llu of %llu %s free", needed,
		    (unsigned long long)sums->free_slots, (unsigned long long)sums->slots,
		    sums->free_slots == 1 ? "is" : "are");
}

static int explain_taken(const struct explain *explain)
{
	const struct tfc__place_need *need = &explain->item->need;
	const struct sums sums = sum_capacity(explain);
	for (uint32_t i = 0; i < explain_node_count(explain); i++)
		if (lacks_only_ports(explain, i))
			return explain_portless(explain, i);
	if (sums.free_slots < explain->place->request->task_count)
		return explain_slots(explain, &sums);
	if (sums.free_gpus < sums.needed_gpus)
		return WAIT(explain->error, "%llu GPU%s needed; %llu of %llu %s free",
			    (unsigned long long)sums.needed_gpus,
			    sums.needed_gpus == 1 ? " is" : "s are",
			    (unsigned long long)sums.free_gpus, (unsigned long long)sums.gpus,
			    sums.free_gpus == 1 ? "is" : "are");
	if (need->gpus && most_gpus(explain, true) < need->gpus)
		return explain_gpus(explain, true);
	if (need->memory && most_memory(explain, true) < need->memory)
		return explain_memory(explain, true);
	return WAIT(explain->error,
		    "no node has enough free capacity for %s in addition to the job's other tasks",
		    explain->task);
}

/* ---- the task may run on one node only */

static int explain_wanted(const struct explain *explain, uint32_t node)
{
	const struct tfc__member *member = node < explain_node_count(explain)
						   ? explain_member(explain, node)
						   : NULL;
	const char *name = member ? member->name : "?";
	if (member && member->state == TFC_MEMBER_DOWN && !member->was_reached)
		return WAIT(explain->error,
			    "%s must run on node %s, which has not been reached yet", explain->task,
			    name);
	if (!member || member->state != TFC_MEMBER_ALIVE)
		return WAIT(explain->error, "%s must run on node %s, which is %s", explain->task,
			    name, member ? tfc_member_state_name(member->state) : "not a member");
	if (!tfc__place_takes_tasks(member))
		return WAIT(explain->error, "%s must run on node %s, which is drained",
			    explain->task, name);
	if (!is_node_usable(explain, node))
		return WAIT(explain->error,
			    "%s must run on node %s, which does not have the labels that the task "
			    "needs",
			    explain->task, name);
	if (!could_run(explain, node))
		return WAIT(explain->error,
			    "%s must run on node %s, which has less memory or fewer GPUs than the "
			    "task needs",
			    explain->task, name);
	if (lacks_only_ports(explain, node))
		return explain_portless(explain, node);
	return WAIT(explain->error,
		    "%s must run on node %s, whose slots, memory or GPUs are in use", explain->task,
		    name);
}

/* ---- this node is the only one for ever */

static int explain_alone_labels(const struct explain *explain, const struct tfc__member *member)
{
	const char *missing = "";
	char has[128] = "";
	for (size_t i = explain_label_count(explain); i-- > 0;)
		if (!tfc__place_has_label(member, explain_label(explain, i)))
			missing = explain_label(explain, i);
	for (char **label = member->labels; label && *label && strlen(has) + 1 < sizeof(has);
	     label++)
		snprintf(has + strlen(has), sizeof(has) - strlen(has), "%s%s",
			 label == member->labels ? " " : ", ", *label);
	return WAIT(explain->error, "%s needs a node with label \"%.100s\"; this node has %s%s",
		    explain->task, missing, has[0] ? "only" : "no labels", has);
}

static int explain_alone(const struct explain *explain)
{
	const struct tfc__member *member = explain_member(explain, 0);
	const struct tfc__place_need *need = &explain->item->need;
	const struct sums sums = sum_capacity(explain);
	char needed[TFC__MEMORY_TEXT_SIZE], has[TFC__MEMORY_TEXT_SIZE], gpus[16] = "none";
	if (!is_node_usable(explain, 0))
		return explain_alone_labels(explain, member);
	if (member->gpus)
		snprintf(gpus, sizeof(gpus), "%u", member->gpus);
	if (need->gpus > member->gpus)
		return WAIT(explain->error, "%s needs %u GPU%s; this node has %s", explain->task,
			    need->gpus, plural(need->gpus), gpus);
	tfc__memory_text(member->memory_bytes, has);
	tfc__memory_text(need->memory, needed);
	if (member->memory_bytes && need->memory > member->memory_bytes)
		return WAIT(explain->error, "%s needs %s of memory; this node has %s",
			    explain->task, needed, has);
	if (sums.free_slots < explain->place->request->task_count)
		return WAIT(explain->error, "%u slots are needed; this node has %u",
			    explain->place->request->task_count, member->slots);
	if (sums.needed_gpus > member->gpus)
		return WAIT(explain->error, "%llu GPUs are needed; this node has %s",
			    (unsigned long long)sums.needed_gpus, gpus);
	tfc__memory_text(sums.needed_memory, needed);
	return WAIT(explain->error, "%s of memory are needed; this node has %s", needed, has);
}

int tfc__place_explain(const struct tfc__placing *place, const struct tfc__place_item *failed,
		       tfc_error *error)
{
	const struct tfc__place_request *request = place->request;
	uint32_t takes_tasks = 0, usable = 0, able = 0, index;
	const struct tfc__role *role = tfc__job_task_role(request->job, failed->task, &index);
	struct explain explain = {.place = place,
				  .item = failed,
				  .labels = {&request->job->labels, &role->labels},
				  .error = error};
	tfc__place_task_name(request->job, failed->task, explain.task, sizeof(explain.task));
	if (request->is_alone)
		return explain_alone(&explain);
	if (request->wanted && request->wanted[failed->position] != UINT32_MAX)
		return explain_wanted(&explain, request->wanted[failed->position]);
	for (uint32_t i = 0; i < request->node_count; i++) {
		takes_tasks += tfc__place_takes_tasks(explain_member(&explain, i));
		usable += is_node_usable(&explain, i);
		able += could_run(&explain, i);
	}
	if (!takes_tasks)
		return explain_nobody(&explain);
	if (!usable)
		return explain_labels(&explain);
	if (most_gpus(&explain, false) < failed->need.gpus)
		return explain_gpus(&explain, false);
	if (most_memory(&explain, false) < failed->need.memory)
		return explain_memory(&explain, false);
	if (!able)
		return WAIT(error, "no node has both the GPUs and the memory that %s needs",
			    explain.task);
	return explain_taken(&explain);
}
