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
static struct tfc__place_need need_of_task(const struct tfc__placing *place, uint32_t task)
{
	uint32_t index;
	const tfc_job *job = place->request->job;
	const struct tfc__role *role = tfc__job_task_role(job, task, &index);
	struct tfc__place_need need = {
		.memory = role->memory,
		.gpus = role->gpus,
		.is_pooled = place->is_pool_limited && tfc__place_is_pooled(job, role),
	};
	for (uint32_t i = 0; role->port && i < place->report_count; i++)
		if (place->reports[i]->barred[task])
			need.fixed = task + 1;
	if (role->labels.count)
		need.labeled = (uint32_t)(role - job->roles) + 1;
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

static bool has_labels(const struct tfc__member *member, const struct tfc__strv *labels)
{
	for (size_t i = 0; i < labels->count; i++)
		if (!tfc__place_has_label(member, labels->items[i]))
			return false;
	return true;
}

static uint64_t capacity_left(uint64_t all, uint64_t used)
{
	return all > used ? all - used : 0;
}

static struct tfc__place_room room_of_node(const tfc_job *job, const struct tfc__place_node *node)
{
	const struct tfc__member *member = node->member;
	uint32_t pool = node->ports ? node->ports->pool : UINT32_MAX;
	return (struct tfc__place_room){
		.is_usable = tfc__place_takes_tasks(member) && has_labels(member, &job->labels),
		.is_cooling_down = node->is_cooling_down,
		.slots = member->slots ? capacity_left(member->slots, node->tasks) : UINT64_MAX,
		.memory = member->memory_bytes ? capacity_left(member->memory_bytes, node->memory)
					       : UINT64_MAX,
		.gpus = (uint32_t)capacity_left(member->gpus, node->gpus),
		.ports = pool == UINT32_MAX ? pool
					    : (uint32_t)capacity_left(pool, node->own_pooled),
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
	if (need->labeled && room->lacking[need->labeled - 1])
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

/* Whether the next task goes to node a rather than to b. Of equal nodes it goes to the one that the
 * round, which begins at the seed, reaches first. */
static bool is_node_preferred(const struct tfc__placing *place, uint32_t a, uint32_t b)
{
	bool is_pack = place->request->job->placement == TFC__PLACE_PACK;
	const struct tfc__place_room *x = &place->rooms[a], *y = &place->rooms[b];
	uint32_t first = (uint32_t)(place->request->seed % place->request->node_count);
	if (x->is_cooling_down != y->is_cooling_down)
		return y->is_cooling_down;
	if (x->own != y->own)
		return is_pack ? x->own > y->own : x->own < y->own;
	if (x->load != y->load)
		return is_pack ? x->load > y->load : x->load < y->load;
	return (a >= first) != (b >= first) ? a >= first : a < b;
}

/* Moves the node at `slot` of the heap down to its place. */
static void node_heap_sift(struct tfc__placing *place, uint32_t slot)
{
	uint32_t *heap = place->heap, node = heap[slot];
	for (uint32_t child; (child = 2 * slot + 1) < place->heap_len; slot = child) {
		if (child + 1 < place->heap_len &&
		    is_node_preferred(place, heap[child + 1], heap[child]))
			child++;
		if (!is_node_preferred(place, heap[child], node))
			break;
		heap[slot] = heap[child];
	}
	heap[slot] = node;
}

/* Makes the heap of the nodes that have room for a task with this need. */
static void node_heap_make(struct tfc__placing *place, const struct tfc__place_need *need)
{
	place->heap_len = 0;
	for (uint32_t i = 0; i < place->request->node_count; i++)
		if (tfc__place_fit(&place->rooms[i], need))
			place->heap[place->heap_len++] = i;
	for (uint32_t slot = place->heap_len / 2; slot-- > 0;)
		node_heap_sift(place, slot);
}

/* Places the tasks that may run on one node only; clears the node of all others. Returns NULL, or
 * the task that does not fit. */
static struct tfc__place_item *place_wanted(struct tfc__placing *place)
{
	const uint32_t *wanted = place->request->wanted;
	for (uint32_t i = 0; i < place->request->task_count; i++) {
		struct tfc__place_item *item = &place->items[i];
		uint32_t node = wanted ? wanted[item->position] : UINT32_MAX;
		item->node = UINT32_MAX;
		if (node == UINT32_MAX)
			continue;
		if (node >= place->request->node_count ||
		    !tfc__place_fit(&place->rooms[node], &item->need))
			return item;
		tfc__place_acquire(&place->rooms[node], &item->need, 1);
		item->node = node;
	}
	return NULL;
}

/* Places all other tasks. Tasks of one kind follow each other, so a node that has no room for one
 * of them is not considered for the next. Returns NULL, or the first task that does not fit. */
static struct tfc__place_item *place_others(struct tfc__placing *place)
{
	const struct tfc__place_need *need = NULL; /* that the heap was made for */
	for (uint32_t i = 0; i < place->request->task_count; i++) {
		struct tfc__place_item *item = &place->items[i];
		if (item->node != UINT32_MAX)
			continue;
		if (!need || tfc__place_compare_needs(need, &item->need) != 0)
			node_heap_make(place, &item->need);
		need = &item->need;
		if (!place->heap_len)
			return item;
		item->node = place->heap[0];
		tfc__place_acquire(&place->rooms[item->node], need, 1);
		if (!tfc__place_fit(&place->rooms[item->node], need))
			place->heap[0] = place->heap[--place->heap_len];
		node_heap_sift(place, 0);
	}
	return NULL;
}

static void reset_rooms(struct tfc__placing *place, bool uses_cooling_down)
{
	for (uint32_t i = 0; i < place->request->node_count; i++) {
		place->rooms[i] = place->empty_rooms[i];
		if (place->rooms[i].is_cooling_down && !uses_cooling_down)
			place->rooms[i].is_usable = false;
	}
}

/* Returns NULL, or the task that does not fit. */
static struct tfc__place_item *place_try(struct tfc__placing *place, bool uses_cooling_down)
{
	struct tfc__place_item *failed;
	reset_rooms(place, uses_cooling_down);
	failed = place_wanted(place);
	if (failed)
		return failed;
	failed = place_others(place);
	if (!failed)
		return NULL;
	reset_rooms(place, uses_cooling_down);
	place_wanted(place);
	return tfc__place_search(place) ? NULL : failed;
}

/* ---- the request */

int tfc__place_compare_needs(const struct tfc__place_need *a, const struct tfc__place_need *b)
{
	if (a->gpus != b->gpus)
		return a->gpus > b->gpus ? -1 : 1;
	if (a->memory != b->memory)
		return a->memory > b->memory ? -1 : 1;
	if (a->is_pooled != b->is_pooled)
		return a->is_pooled ? -1 : 1;
	if (a->fixed != b->fixed)
		return a->fixed > b->fixed ? -1 : 1;
	return a->labeled != b->labeled ? (a->labeled > b->labeled ? -1 : 1) : 0;
}

static int compare_place_items(const void *a, const void *b)
{
	const struct tfc__place_item *x = a, *y = b;
	int order = tfc__place_compare_needs(&x->need, &y->need);
	return order ? order : (x->task < y->task ? -1 : 1);
}

static void place_list_items(struct tfc__placing *place)
{
	for (uint32_t i = 0; i < place->request->task_count; i++) {
		uint32_t task = place->request->tasks[i];
		place->items[i] = (struct tfc__place_item){
			.task = task,
			.position = i,
			.need = need_of_task(place, task),
		};
	}
	qsort(place->items, place->request->task_count, sizeof(place->items[0]),
	      compare_place_items);
}

static bool has_labeled_role(const tfc_job *job)
{
	for (uint32_t i = 0; i < job->role_count; i++)
		if (job->roles[i].labels.count)
			return true;
	return false;
}

static void place_match_labels(struct tfc__placing *place)
{
	const struct tfc__place_request *request = place->request;
	const tfc_job *job = request->job;
	bool *lacking = place->lacking;
	for (uint32_t i = 0; lacking && i < request->node_count; i++) {
		place->empty_rooms[i].lacking = lacking;
		for (uint32_t r = 0; r < job->role_count; r++)
			*lacking++ = !has_labels(request->nodes[i].member, &job->roles[r].labels);
	}
}

static void place_list_nodes(struct tfc__placing *place)
{
	for (uint32_t i = 0; i < place->request->node_count; i++) {
		const struct tfc__place_node *node = &place->request->nodes[i];
		place->empty_rooms[i] = room_of_node(place->request->job, node);
		if (!node->ports)
			continue;
		place->reports[place->report_count++] = node->ports;
		place->is_pool_limited |= node->ports->pool != UINT32_MAX;
	}
}

static void place_apply(const struct tfc__placing *place, uint32_t *ret_nodes)
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
		.heap = calloc(request->node_count + 1, sizeof(place.heap[0])),
		.items = calloc(request->task_count + 1, sizeof(place.items[0])),
	};
	bool is_labeled = has_labeled_role(request->job);
	int code = TFC_OK;
	if (is_labeled)
		place.lacking = calloc((size_t)request->node_count * request->job->role_count + 1,
				       sizeof(*place.lacking));
	if (!place.reports || !place.empty_rooms || !place.rooms || !place.heap || !place.items ||
	    (is_labeled && !place.lacking)) {
		code = tfc__fail_nomem(error, "cluster");
	} else {
		place_list_nodes(&place);
		place_match_labels(&place);
		place_list_items(&place);
		const struct tfc__place_item *failed = place_try(&place, false);
		if (failed)
			failed = place_try(&place, true);
		if (failed)
			code = tfc__place_explain(&place, failed, error);
		else
			place_apply(&place, ret_nodes);
	}
	free(place.reports);
	free(place.empty_rooms);
	free(place.rooms);
	free(place.heap);
	free(place.items);
	free(place.lacking);
	return code;
}
