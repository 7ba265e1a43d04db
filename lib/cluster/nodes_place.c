/* Placement on the nodes known here, by the pure function of placement.h. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "cluster/internal.h"
#include "cluster/nodes.h"
#include "cluster/refusals.h"

/* A node that counts as full has no free slots, whatever is in use. */
static void init_place_node(const struct tfc__node_entry *node, uint64_t now,
			    struct tfc__place_node *place)
{
	*place = (struct tfc__place_node){
		.member = node->member,
		.tasks = node->tasks,
		.memory = node->memory,
		.gpus = node->gpus,
		.is_cooling_down = tfc__cooldown_is_on(&node->cooldown, now, NULL),
	};
	if (node->full_until > now && place->tasks < node->member->slots)
		place->tasks = node->member->slots;
}

/* A node cannot be used if it is not a member, or if it counts as full and has no limit of slots.
 */
static bool is_node_hidden(const struct tfc__node_entry *node, uint64_t now)
{
	return !node->member || (node->full_until > now && node->member->slots == 0) ||
	       !tfc__nodes_agent(node).ops;
}

static uint64_t seed_of_id(const char *id)
{
	uint64_t seed = 14695981039346656037ull; /* FNV-1a */
	for (; *id; id++)
		seed = (seed ^ (unsigned char)*id) * 1099511628211ull;
	return seed;
}

/* The arrays for one placement, each in one block of memory. */
struct tables {
	struct tfc__place_node *nodes;
	struct tfc__node_entry **entries; /* per entry of `nodes` */
	uint32_t *wanted;                 /* per task to place */
	uint32_t *chosen;                 /* likewise */
	uint32_t node_count;
};

static void place_tables_free(struct tables *tables)
{
	free(tables->nodes);
	free(tables->entries);
	free(tables->wanted);
	free(tables->chosen);
}

static bool place_tables_make(struct tfc__nodes *nodes, const struct tfc__nodes_request *request,
			      struct tables *tables)
{
	size_t count = tfc__nodes_count(nodes);
	*tables = (struct tables){
		.nodes = calloc(count + 1, sizeof(*tables->nodes)),
		.entries = calloc(count + 1, sizeof(struct tfc__node_entry *)),
		.wanted = malloc((request->count + 1) * sizeof(*tables->wanted)),
		.chosen = malloc((request->count + 1) * sizeof(*tables->chosen)),
	};
	if (!tables->nodes || !tables->entries || !tables->wanted || !tables->chosen)
		return false;
	uint64_t now = tfc__now();
	TFC__LIST_EACH (link, tfc__nodes_all(nodes)) {
		struct tfc__node_entry *node = tfc__container_of(link, struct tfc__node_entry,
								 link);
		node->position = UINT32_MAX;
		if (is_node_hidden(node, now) || tables->node_count == count)
			continue;
		init_place_node(node, now, &tables->nodes[tables->node_count]);
		tables->nodes[tables->node_count].ports = tfc__refusals_find(request->refusals,
									     node);
		node->position = tables->node_count;
		tables->entries[tables->node_count++] = node;
	}
	for (uint32_t i = 0; i < request->own_count; i++) {
		const struct tfc__nodes_own *own = &request->own[i];
		if (own->node->position == UINT32_MAX)
			continue;
		tables->nodes[own->node->position].own += own->tasks;
		tables->nodes[own->node->position].own_pooled += own->pooled;
	}
	return true;
}

/* Fails at once if the only possible node of a task cannot be used. */
static int find_wanted_nodes(struct tfc__nodes *nodes, const struct tfc__nodes_request *request,
			     struct tables *tables, tfc_error *error)
{
	char task[80];
	for (uint32_t i = 0; i < request->count; i++) {
		const char *name = request->wanted ? request->wanted[request->tasks[i]] : NULL;
		const struct tfc__node_entry *entry = name ? tfc__nodes_find(nodes, name) : NULL;
		uint32_t node = entry ? entry->position : UINT32_MAX;
		tables->wanted[i] = node;
		if (!name || node != UINT32_MAX)
			continue;
		tfc__place_task_name(request->job, request->tasks[i], task, sizeof(task));
		return tfc__fail(error, TFC_EAGAIN, "cluster", 0,
				 "%s must run on node %s, which %s", task, name,
				 entry ? "is unreachable or full" : "is not a member");
	}
	return TFC_OK;
}

/* Whether a node may accept tasks later, or have room again. */
static bool may_room_come(struct tfc__nodes *nodes, uint64_t now)
{
	TFC__LIST_EACH (link, tfc__nodes_all(nodes)) {
		const struct tfc__node_entry *node = tfc__container_of(link, struct tfc__node_entry,
								       link);
		const struct tfc__member *member = node->member;
		if (member && !member->is_out && member->state != TFC_MEMBER_LEFT &&
		    (is_node_hidden(node, now) || !tfc__place_takes_tasks(member)))
			return true;
	}
	return false;
}

static int place_on_empty_nodes(const struct tfc__place_request *request, struct tables *tables,
				tfc_error *error)
{
	for (uint32_t i = 0; i < tables->node_count; i++) {
		struct tfc__place_node *node = &tables->nodes[i];
		node->tasks = node->gpus = 0;
		node->memory = 0;
	}
	return tfc__place_tasks(request, error, tables->chosen);
}

/* Whether only ports are missing, and these will not be released. Overwrites the counts and ports
 * in the tables. */
static bool lacks_ports_for_ever(struct tfc__nodes *nodes, const struct tfc__place_request *request,
				 struct tables *tables)
{
	tfc_error error = TFC_ERROR_INIT;
	uint32_t lasting = 0;
	for (uint32_t i = 0; i < tables->node_count; i++) {
		struct tfc__place_node *node = &tables->nodes[i];
		if (node->ports && !node->ports->is_lasting)
			node->ports = NULL;
		lasting += node->ports != NULL;
	}
	if (!lasting || may_room_come(nodes, tfc__now()) ||
	    place_on_empty_nodes(request, tables, &error) != TFC_EAGAIN)
		return false;
	for (uint32_t i = 0; i < tables->node_count; i++)
		tables->nodes[i].ports = NULL;
	return place_on_empty_nodes(request, tables, &error) == TFC_OK;
}

/* Whether the tasks do not fit even if the only node were empty and had all ports. Overwrites the
 * counts and ports in the tables. */
static bool is_unschedulable(struct tfc__nodes *nodes, const struct tfc__place_request *request,
			     struct tables *tables, tfc_error *error)
{
	struct tfc__place_request alone = *request;
	alone.is_alone = true;
	if (!tfc__nodes_are_fixed(nodes) || may_room_come(nodes, tfc__now()))
		return false;
	for (uint32_t i = 0; i < tables->node_count; i++)
		tables->nodes[i].ports = NULL;
	return place_on_empty_nodes(&alone, tables, error) == TFC_EAGAIN;
}

int tfc__nodes_place(struct tfc__nodes *nodes, const struct tfc__nodes_request *request,
		     tfc_error *error, struct tfc__node_entry **ret_nodes)
{
	struct tables tables;
	if (!tfc__nodes_are_known(nodes, error))
		return TFC_EAGAIN;
	if (!place_tables_make(nodes, request, &tables)) {
		place_tables_free(&tables);
		return tfc__fail_nomem(error, "cluster");
	}
	int code = find_wanted_nodes(nodes, request, &tables, error);
	const struct tfc__place_request place = {
		.job = request->job,
		.tasks = request->tasks,
		.task_count = request->count,
		.wanted = tables.wanted,
		.nodes = tables.nodes,
		.node_count = tables.node_count,
		.seed = seed_of_id(request->id),
	};
	if (code == TFC_OK)
		code = tfc__place_tasks(&place, error, tables.chosen);
	if (code == TFC_EAGAIN && lacks_ports_for_ever(nodes, &place, &tables))
		code = TFC_EEXHAUSTED;
	else if (code == TFC_EAGAIN && is_unschedulable(nodes, &place, &tables, error))
		code = TFC_ENOENT;
	for (uint32_t i = 0; code == TFC_OK && i < request->count; i++)
		ret_nodes[i] = tables.entries[tables.chosen[i]];
	place_tables_free(&tables);
	return code;
}
