#include "cluster/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- needs of tasks and capacity of nodes */

bool tfc__place_is_pooled(const tfc_job *job, const struct tfc__role *role)
{
	return tfc__role_has_port(job, role) && !role->port;
}

/* Ports are considered only if a node has reported that it lacks some. Otherwise there are fewer
 * kinds of tasks. */
static struct tfc__place_need need_of(const struct tfc__placing *place, uint32_t task)
{
	uint32_t index;
	const tfc_job *job = place->request->job;
	const struct tfc__role *role = tfc__job_task_role(job, task, &index);
	struct tfc__place_need need = {.memory = role->memory, .gpus = role->gpus};
	for (uint32_t i = 0; i < place->report_count; i++) {
		const struct tfc__place_ports *ports = place->reports[i];
		need.is_pooled |= ports->pool != UINT32_MAX && tfc__place_is_pooled(job, role);
		if (ports->barred[task])
			need.fixed = task + 1;
	}
	return need;
}

void tfc__place_task_name(const tfc_job *job, uint32_t task, char *ret_name, size_t size)
{
	uint32_t index;
	const struct tfc__role *role = tfc__job_task_role(job, task, &index);
	snprintf(ret_name, size, "%s/%u", role->name, index);
}

bool tfc__place_takes_tasks(const struct tfc__member *member)
{
	return member->state == TFC_MEMBER_ALIVE && !member->is_draining && !member->is_out;
}

bool tfc__place_has_label(const struct tfc__member *member, const char *label)
{
	for (char **own = member->labels; own && *own; own++)
		if (strcmp(*own, label) == 0)
			return true;
	return false;
}

static bool has_labels(const struct tfc__member *member, const tfc_job *job)
{
	for (size_t i = 0; i < job->labels.count; i++)
		if (!tfc__place_has_label(member, job->labels.items[i]))
			return false;
	return true;
}

static uint64_t left_of(uint64_t all, uint64_t taken)
{
	return all > taken ? all - taken : 0;
}

static struct tfc__place_room room_of(const tfc_job *job, const struct tfc__place_node *node)
{
	const struct tfc__member *member = node->member;
	uint32_t pool = node->ports ? node->ports->pool : UINT32_MAX;
	return (struct tfc__place_room){
		.is_usable = tfc__place_takes_tasks(member) && has_labels(member, job),
		.is_cooling_down = node->is_cooling_down,
		.slots = member->slots ? left_of(member->slots, node->tasks) : UINT64_MAX,
		.memory = member->memory_bytes ? left_of(member->memory_bytes, node->memory)
					       : UINT64_MAX,
		.gpus = (uint32_t)left_of(member->gpus, node->gpus),
		.ports = pool == UINT32_MAX ? pool : (uint32_t)left_of(pool, node->own_pooled),
		.barred = node->ports ? node->ports->barred : NULL,
		.own = node->own,
		.load = node->tasks,
	};
}

/* How many tasks with this need fit into the room. */
uint64_t tfc__place_fit(const struct tfc__place_room *room, const struct tfc__place_need *need)
{
	uint64_t count = room->is_usable ? room->slots : 0;
	if (need->memory && room->memory / need->memory < count)
		count = room->memory / need->memory;
	if (need->gpus && room->gpus / need->gpus < count)
		count = room->gpus / need->gpus;
	if (need->is_pooled && room->ports < count)
		count = room->ports;
	if (need->fixed && room->barred && room->barred[need->fixed - 1])
		count = 0;
	return count;
}

/* Uses room for `count` tasks with this need; a negative count releases it. */
void tfc__place_acquire(struct tfc__place_room *room, const struct tfc__place_need *need,
			int64_t count)
{
	if (room->slots != UINT64_MAX)
		room->slots -= (uint64_t)count;
	if (room->memory != UINT64_MAX)
		room->memory -= need->memory * (uint64_t)count;
	room->gpus -= need->gpus * (uint32_t)count;
	if (need->is_pooled && room->ports != UINT32_MAX)
		room->ports -= (uint32_t)count;
	room->own += (uint32_t)count;
	room->load += (uint32_t)count;
}

/* ---- one task after the other, on the node that the policy prefers */

static bool is_better(const struct tfc__placing *place, const struct tfc__place_room *a,
		      const struct tfc__place_room *b)
{
	bool is_pack = place->request->job->placement == TFC__PLACE_PACK;
	if (a->is_cooling_down != b->is_cooling_down)
		return b->is_cooling_down;
	if (a->own != b->own)
		return is_pack ? a->own > b->own : a->own < b->own;
	return is_pack ? a->load > b->load : a->load < b->load;
}

static uint32_t choose(const struct tfc__placing *place, const struct tfc__place_need *need)
{
	uint32_t count = place->request->node_count, best = UINT32_MAX;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = (uint32_t)((place->request->seed + i) % count);
		const struct tfc__place_room *room = &place->rooms[at];
		if (tfc__place_fit(room, need) &&
		    (best == UINT32_MAX || is_better(place, room, &place->rooms[best])))
			best = at;
	}
	return best;
}

static bool settle(struct tfc__placing *place, struct tfc__place_item *item, uint32_t node)
{
	if (node >= place->request->node_count || !tfc__place_fit(&place->rooms[node], &item->need))
		return false;
	tfc__place_acquire(&place->rooms[node], &item->need, 1);
	item->node = node;
	return true;
}

/* Places the tasks that may run on one node only; clears the node of all others. Returns NULL, or
 * the task that does not fit. */
static struct tfc__place_item *settle_wanted(struct tfc__placing *place)
{
	const uint32_t *wanted = place->request->wanted;
	for (uint32_t i = 0; i < place->request->task_count; i++) {
		struct tfc__place_item *item = &place->items[i];
		uint32_t node = wanted ? wanted[item->position] : UINT32_MAX;
		item->node = UINT32_MAX;
		if (node != UINT32_MAX && !settle(place, item, node))
			return item;
	}
	return NULL;
}

/* Returns NULL, or the first task that does not fit. */
static struct tfc__place_item *settle_others(struct tfc__placing *place)
{
	for (uint32_t i = 0; i < place->request->task_count; i++) {
		struct tfc__place_item *item = &place->items[i];
		if (item->node == UINT32_MAX && !settle(place, item, choose(place, &item->need)))
			return item;
	}
	return NULL;
}

static void begin_again(struct tfc__placing *place, bool uses_cooling_down)
{
	for (uint32_t i = 0; i < place->request->node_count; i++) {
		place->rooms[i] = place->empty_rooms[i];
		if (place->rooms[i].is_cooling_down && !uses_cooling_down)
			place->rooms[i].is_usable = false;
	}
}

/* Returns NULL, or the task that does not fit. */
static struct tfc__place_item *try(struct tfc__placing *place, bool uses_cooling_down)
{
	struct tfc__place_item *failed;
	begin_again(place, uses_cooling_down);
	failed = settle_wanted(place);
	if (failed)
		return failed;
	failed = settle_others(place);
	if (!failed)
		return NULL;
	begin_again(place, uses_cooling_down);
	settle_wanted(place);
	return tfc__place_search(place) ? NULL : failed;
}

/* ---- the request */

static int by_need(const void *a, const void *b)
{
	const struct tfc__place_item *x = a, *y = b;
	if (x->need.gpus != y->need.gpus)
		return x->need.gpus > y->need.gpus ? -1 : 1;
	if (x->need.memory != y->need.memory)
		return x->need.memory > y->need.memory ? -1 : 1;
	if (x->need.is_pooled != y->need.is_pooled)
		return x->need.is_pooled ? -1 : 1;
	if (x->need.fixed != y->need.fixed)
		return x->need.fixed > y->need.fixed ? -1 : 1;
	return x->task < y->task ? -1 : 1;
}

static void list_items(struct tfc__placing *place)
{
	for (uint32_t i = 0; i < place->request->task_count; i++) {
		uint32_t task = place->request->tasks[i];
		place->items[i] = (struct tfc__place_item){
			.task = task,
			.position = i,
			.need = need_of(place, task),
		};
	}
	qsort(place->items, place->request->task_count, sizeof(place->items[0]), by_need);
}

static void list_nodes(struct tfc__placing *place)
{
	for (uint32_t i = 0; i < place->request->node_count; i++) {
		const struct tfc__place_node *node = &place->request->nodes[i];
		place->empty_rooms[i] = room_of(place->request->job, node);
		if (node->ports)
			place->reports[place->report_count++] = node->ports;
	}
}

static void take_over(const struct tfc__placing *place, uint32_t *ret_nodes)
{
	for (uint32_t i = 0; i < place->request->task_count; i++) {
		const struct tfc__place_item *item = &place->items[i];
		struct tfc__place_node *node = &place->request->nodes[item->node];
		node->tasks++;
		node->memory += item->need.memory;
		node->gpus += item->need.gpus;
		ret_nodes[item->position] = item->node;
	}
}

int tfc__place_tasks(const struct tfc__place_request *request, tfc_error *error,
		     uint32_t *ret_nodes)
{
	struct tfc__placing place = {
		.request = request,
		.reports = calloc(request->node_count + 1, sizeof(struct tfc__place_ports *)),
		.empty_rooms = calloc(request->node_count + 1, sizeof(place.rooms[0])),
		.rooms = calloc(request->node_count + 1, sizeof(place.rooms[0])),
		.items = calloc(request->task_count + 1, sizeof(place.items[0])),
	};
	int code = TFC_OK;
	if (!place.reports || !place.empty_rooms || !place.rooms || !place.items) {
		code = tfc__fail_nomem(error, "cluster");
	} else {
		list_nodes(&place);
		list_items(&place);
		const struct tfc__place_item *failed = try(&place, false);
		if (failed)
			failed = try(&place, true);
		if (failed)
			code = tfc__place_explain(&place, failed, error);
		else
			take_over(&place, ret_nodes);
	}
	free(place.reports);
	free(place.empty_rooms);
	free(place.rooms);
	free(place.items);
	return code;
}
