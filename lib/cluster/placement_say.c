/*
 * The text that says what a job that does not fit waits for.
 */
#include "cluster/internal.h"

#include <stdio.h>
#include <string.h>

#define WAIT(error, ...) tfc__fail(error, TFC_EAGAIN, "cluster", 0, __VA_ARGS__)

struct say {
	const struct tfc__placing *place;
	const struct tfc__place_item *item; /* the task without a place */
	char task[80];
	tfc_error *error;
};

/* "8 GiB", "1.5 GiB" */
static void write_size(uint64_t bytes, char ret_text[32])
{
	static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
	double size = (double)bytes;
	size_t unit = 0;
	for (; size >= 1024 && unit < 5; unit++)
		size /= 1024;
	uint64_t tenths = (uint64_t)(size * 10);
	if (tenths % 10)
		snprintf(ret_text, 32, "%llu.%llu %s", (unsigned long long)tenths / 10,
			 (unsigned long long)tenths % 10, units[unit]);
	else
		snprintf(ret_text, 32, "%llu %s", (unsigned long long)tenths / 10, units[unit]);
}

static const struct tfc__member *member_at(const struct say *say, uint32_t i)
{
	return say->place->request->nodes[i].member;
}

static bool is_usable(const struct say *say, uint32_t i)
{
	return say->place->empty_rooms[i].is_usable;
}

static uint32_t node_count_of(const struct say *say)
{
	return say->place->request->node_count;
}

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

/* ---- no node has the capacity, even if it is empty */

static int say_nobody(const struct say *say)
{
	uint32_t alive = 0;
	for (uint32_t i = 0; i < node_count_of(say); i++)
		alive += member_at(say, i)->state == TFC_MEMBER_ALIVE;
	if (alive)
		return WAIT(say->error, "no node accepts tasks: %s drained",
			    alive == 1 ? "the only alive node is" : "all alive nodes are");
	return WAIT(say->error, "no node is alive");
}

static int say_labels(const struct say *say)
{
	const tfc_job *job = say->place->request->job;
	for (size_t i = 0; i < job->labels.count; i++) {
		bool is_there = false;
		for (uint32_t j = 0; j < node_count_of(say); j++)
			is_there |= tfc__place_takes_tasks(member_at(say, j)) &&
				    tfc__place_has_label(member_at(say, j), job->labels.items[i]);
		if (!is_there)
			return WAIT(say->error,
				    "%s needs a node with label \"%.100s\"; no node has it",
				    say->task, job->labels.items[i]);
	}
	return WAIT(
		say->error,
		"%s needs a node with all %zu labels of the job (%.60s, ...); no node has them all",
		say->task, job->labels.count, job->labels.items[0]);
}

static uint32_t most_gpus(const struct say *say, bool is_free)
{
	uint32_t most = 0;
	for (uint32_t i = 0; i < node_count_of(say); i++) {
		uint32_t gpus = is_free ? say->place->empty_rooms[i].gpus : member_at(say, i)->gpus;
		if (is_usable(say, i) && gpus > most)
			most = gpus;
	}
	return most;
}

/* UINT64_MAX: a node has no limit. */
static uint64_t most_memory(const struct say *say, bool is_free)
{
	uint64_t most = 0;
	for (uint32_t i = 0; i < node_count_of(say); i++) {
		const struct tfc__member *member = member_at(say, i);
		uint64_t memory = is_free ? say->place->empty_rooms[i].memory
					  : member->memory_bytes;
		if (!is_free && !memory)
			memory = UINT64_MAX;
		if (is_usable(say, i) && memory > most)
			most = memory;
	}
	return most;
}

static int say_gpus(const struct say *say, bool is_free)
{
	uint32_t need = say->item->need.gpus, most = most_gpus(say, is_free);
	const char *what = is_free ? "the most that are free on one is"
				   : "the most that one has is";
	if (!most && !is_free)
		return WAIT(say->error, "%s needs %u GPU%s; no node has any", say->task, need,
			    plural(need));
	return WAIT(say->error, "%s needs %u GPU%s on one node: %s %u", say->task, need,
		    plural(need), what, most);
}

static int say_memory(const struct say *say, bool is_free)
{
	char need[32], most[32];
	write_size(say->item->need.memory, need);
	write_size(most_memory(say, is_free), most);
	return WAIT(say->error, "%s needs %s of memory on one node: the most that %s is %s",
		    say->task, need, is_free ? "is free on one" : "one offers", most);
}

static bool could_take(const struct say *say, uint32_t i)
{
	const struct tfc__place_need *need = &say->item->need;
	const struct tfc__member *member = member_at(say, i);
	return is_usable(say, i) && member->gpus >= need->gpus &&
	       (!member->memory_bytes || member->memory_bytes >= need->memory);
}

/* ---- the capacity is in use */

/* Whether the node lacks only ports. */
static bool is_portless(const struct say *say, uint32_t i)
{
	const struct tfc__place_need *need = &say->item->need;
	const struct tfc__place_room *room = &say->place->empty_rooms[i];
	bool is_short = need->is_pooled && room->ports != UINT32_MAX;
	bool is_barred = need->fixed && room->barred && room->barred[need->fixed - 1];
	return could_take(say, i) && room->slots && (is_short || is_barred);
}

static int say_portless(const struct say *say, uint32_t i)
{
	return WAIT(say->error, "cannot acquire a port for %s on node %.40s: %s", say->task,
		    member_at(say, i)->name, say->place->request->nodes[i].ports->text);
}

struct sums {
	uint64_t slots, free_slots; /* UINT64_MAX: no limit */
	uint64_t gpus, free_gpus;
	uint64_t needed_gpus;
};

static struct sums sum_up(const struct say *say)
{
	struct sums sums = {0};
	for (uint32_t i = 0; i < node_count_of(say); i++) {
		const struct tfc__place_room *room = &say->place->empty_rooms[i];
		if (!room->is_usable)
			continue;
		bool is_endless = room->slots == UINT64_MAX || sums.free_slots == UINT64_MAX;
		sums.free_slots = is_endless ? UINT64_MAX : sums.free_slots + room->slots;
		sums.slots += member_at(say, i)->slots;
		sums.free_gpus += room->gpus;
		sums.gpus += member_at(say, i)->gpus;
	}
	for (uint32_t i = 0; i < say->place->request->task_count; i++)
		sums.needed_gpus += say->place->items[i].need.gpus;
	return sums;
}

/* "all 8 slots are in use" */
static int say_slots(const struct say *say, const struct sums *sums)
{
	uint32_t needed = say->place->request->task_count;
	if (!sums->free_slots)
		return WAIT(say->error, "%s %llu slot%s in use", sums->slots == 1 ? "the" : "all",
			    (unsigned long long)sums->slots, sums->slots == 1 ? " is" : "s are");
	return WAIT(say->error, "%u slots are needed; %llu of %llu %s free", needed,
		    (unsigned long long)sums->free_slots, (unsigned long long)sums->slots,
		    sums->free_slots == 1 ? "is" : "are");
}

static int say_taken(const struct say *say)
{
	const struct tfc__place_need *need = &say->item->need;
	const struct sums sums = sum_up(say);
	for (uint32_t i = 0; i < node_count_of(say); i++)
		if (is_portless(say, i))
			return say_portless(say, i);
	if (sums.free_slots < say->place->request->task_count)
		return say_slots(say, &sums);
	if (sums.free_gpus < sums.needed_gpus)
		return WAIT(say->error, "%llu GPU%s needed; %llu of %llu %s free",
			    (unsigned long long)sums.needed_gpus,
			    sums.needed_gpus == 1 ? " is" : "s are",
			    (unsigned long long)sums.free_gpus, (unsigned long long)sums.gpus,
			    sums.free_gpus == 1 ? "is" : "are");
	if (need->gpus && most_gpus(say, true) < need->gpus)
		return say_gpus(say, true);
	if (need->memory && most_memory(say, true) < need->memory)
		return say_memory(say, true);
	return WAIT(say->error,
		    "%s needs a node with enough free capacity beside the job's other tasks",
		    say->task);
}

/* ---- the task may run on one node only */

static int say_wanted(const struct say *say, uint32_t node)
{
	const struct tfc__member *member = node < node_count_of(say) ? member_at(say, node) : NULL;
	const char *name = member ? member->name : "?";
	if (!member || member->state != TFC_MEMBER_ALIVE)
		return WAIT(say->error, "%s belongs to node %s, which is %s", say->task, name,
			    member ? tfc_member_state_name(member->state) : "gone");
	if (!tfc__place_takes_tasks(member))
		return WAIT(say->error, "%s belongs to node %s, which is drained", say->task, name);
	if (!is_usable(say, node))
		return WAIT(say->error,
			    "%s belongs to node %s, which does not have the job's labels",
			    say->task, name);
	if (!could_take(say, node))
		return WAIT(say->error,
			    "%s belongs to node %s, which has less memory or fewer GPUs than it "
			    "needs",
			    say->task, name);
	if (is_portless(say, node))
		return say_portless(say, node);
	return WAIT(say->error, "%s belongs to node %s, whose slots, memory or GPUs are in use",
		    say->task, name);
}

/* ---- this node is the only one for ever */

static int say_alone_labels(const struct say *say, const struct tfc__member *member)
{
	const tfc_job *job = say->place->request->job;
	const char *missing = "";
	char has[128] = "";
	for (size_t i = job->labels.count; i-- > 0;)
		if (!tfc__place_has_label(member, job->labels.items[i]))
			missing = job->labels.items[i];
	for (char **label = member->labels; label && *label && strlen(has) + 1 < sizeof(has);
	     label++)
		snprintf(has + strlen(has), sizeof(has) - strlen(has), "%s%s",
			 label == member->labels ? " " : ", ", *label);
	return WAIT(say->error, "%s needs a node with label \"%.100s\"; this node has %s%s",
		    say->task, missing, has[0] ? "only" : "no labels", has);
}

static uint64_t needed_memory(const struct say *say)
{
	uint64_t memory = 0;
	for (uint32_t i = 0; i < say->place->request->task_count; i++)
		memory += say->place->items[i].need.memory;
	return memory;
}

static int say_alone(const struct say *say)
{
	const struct tfc__member *member = member_at(say, 0);
	const struct tfc__place_need *need = &say->item->need;
	const struct sums sums = sum_up(say);
	char needed[32], has[32], gpus[16] = "none";
	if (!is_usable(say, 0))
		return say_alone_labels(say, member);
	if (member->gpus)
		snprintf(gpus, sizeof(gpus), "%u", member->gpus);
	if (need->gpus > member->gpus)
		return WAIT(say->error, "%s needs %u GPU%s; this node has %s", say->task,
			    need->gpus, plural(need->gpus), gpus);
	write_size(member->memory_bytes, has);
	write_size(need->memory, needed);
	if (member->memory_bytes && need->memory > member->memory_bytes)
		return WAIT(say->error, "%s needs %s of memory; this node has %s", say->task,
			    needed, has);
	if (sums.free_slots < say->place->request->task_count)
		return WAIT(say->error, "%u slots are needed; this node has %u",
			    say->place->request->task_count, member->slots);
	if (sums.needed_gpus > member->gpus)
		return WAIT(say->error, "%llu GPUs are needed; this node has %s",
			    (unsigned long long)sums.needed_gpus, gpus);
	write_size(needed_memory(say), needed);
	return WAIT(say->error, "%s of memory are needed; this node has %s", needed, has);
}

int tfc__place_say(const struct tfc__placing *place, const struct tfc__place_item *failed,
		   tfc_error *error)
{
	const struct tfc__place_request *request = place->request;
	struct say say = {.place = place, .item = failed, .error = error};
	uint32_t takes_tasks = 0, usable = 0, able = 0;
	tfc__place_task_name(request->job, failed->task, say.task, sizeof(say.task));
	if (request->is_alone)
		return say_alone(&say);
	if (request->wanted && request->wanted[failed->task] != UINT32_MAX)
		return say_wanted(&say, request->wanted[failed->task]);
	for (uint32_t i = 0; i < request->node_count; i++) {
		takes_tasks += tfc__place_takes_tasks(member_at(&say, i));
		usable += is_usable(&say, i);
		able += could_take(&say, i);
	}
	if (!takes_tasks)
		return say_nobody(&say);
	if (!usable)
		return say_labels(&say);
	if (most_gpus(&say, false) < failed->need.gpus)
		return say_gpus(&say, false);
	if (most_memory(&say, false) < failed->need.memory)
		return say_memory(&say, false);
	if (!able)
		return WAIT(error, "%s needs GPUs and memory together; no single node has both",
			    say.task);
	return say_taken(&say);
}
