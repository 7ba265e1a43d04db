#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "cluster/maintainer_state.h"
#include "cluster/placement.h"

void tfc__maintainer_note_place(struct tfc__maintainer *maintainer,
				const struct tfc__core_action *action)
{
	if (action->task == UINT32_MAX) {
		maintainer->gang_place = action->number;
		return;
	}
	struct seen *seen = &maintainer->seen[action->task];
	seen->place = action->number;
	tfc__list_remove(&seen->placing);
	tfc__list_append(&maintainer->placings, &seen->placing);
}

/* ---- answering a PLACE */

struct placing {
	uint32_t *tasks;
	struct tfc__node_entry **chosen; /* per entry of `tasks` */
	uint32_t count;
	struct tfc__nodes_own *own; /* per link */
};

/* A task that moves alone is placed without a look at the other tasks. */
static bool placing_init(const struct tfc__maintainer *maintainer, uint32_t requested,
			 struct placing *placing)
{
	uint32_t first = requested == UINT32_MAX ? 0 : requested;
	uint32_t count = requested == UINT32_MAX ? maintainer->task_count : 1;
	*placing = (struct placing){
		.tasks = malloc(count * sizeof(*placing->tasks)),
		.chosen = malloc(count * sizeof(struct tfc__node_entry *)),
		.own = calloc(maintainer->link_count + 1, sizeof(*placing->own)),
	};
	if (!placing->tasks || !placing->chosen || !placing->own)
		return false;
	for (uint32_t i = first; i < first + count; i++)
		if (tfc__core_wants_place(maintainer->core, i, requested))
			placing->tasks[placing->count++] = i;
	for (uint32_t i = 0; i < maintainer->link_count; i++) {
		const struct agent_link *link = maintainer->links[i];
		placing->own[i] = (struct tfc__nodes_own){link->node, link->tasks,
							  link->pooled_tasks};
	}
	return true;
}

/* Returns the refusals that still count. When the next one expires, waiting tasks are placed
 * again. */
static const struct tfc__link *current_refusals(struct tfc__maintainer *maintainer)
{
	uint64_t next = tfc__refusals_expire(&maintainer->refusals);
	if (next)
		tfc__nodes_try_at(maintainer->nodes, next);
	return &maintainer->refusals;
}

static int choose_nodes(struct tfc__maintainer *maintainer, struct placing *placing,
			tfc_error *error)
{
	int code = tfc__maintainer_follow(maintainer, placing->tasks, placing->count, error);
	if (code == TFC_ENOENT && !tfc__nodes_are_fixed(maintainer->nodes))
		code = TFC_EAGAIN;
	if (code < 0)
		return code;
	const struct tfc__nodes_request request = {
		.wanted = tfc__maintainer_wanted(maintainer),
		.job = maintainer->info.job,
		.id = maintainer->info.id,
		.tasks = placing->tasks,
		.count = placing->count,
		.own = placing->own,
		.own_count = maintainer->link_count,
		.refusals = current_refusals(maintainer),
	};
	code = tfc__nodes_place(maintainer->nodes, &request, error, placing->chosen);
	for (uint32_t i = 0; code == TFC_OK && i < placing->count; i++) {
		const struct agent_link *link = tfc__maintainer_link(maintainer,
								     placing->chosen[i]);
		if (!link || tfc__maintainer_followed(maintainer, placing->tasks[i],
						      placing->chosen[i]->name) < 0)
			return tfc__fail_nomem(error, "cluster");
		maintainer->placed[placing->tasks[i]] = link->number;
	}
	return code;
}

static void respond_to_place(struct tfc__maintainer *maintainer, struct tfc__core_event *event,
			     tfc_error *error)
{
	struct placing placing;
	int code = placing_init(maintainer, event->task, &placing)
			   ? choose_nodes(maintainer, &placing, error)
			   : tfc__fail_nomem(error, "cluster");
	free(placing.tasks);
	free(placing.chosen);
	free(placing.own);
	event->kind = code == TFC_OK ? TFC__CORE_PLACED : TFC__CORE_UNPLACED;
	maintainer->is_unplaced |= code != TFC_OK;
	event->hopeless = code == TFC_EEXHAUSTED ? TFC_END_REFUSED
			  : code == TFC_ENOENT   ? TFC_END_UNSCHEDULABLE
						 : TFC_END_NONE;
	event->nodes = maintainer->placed;
	event->text = error->text;
	if (code == TFC_ENOMEM)
		tfc__nodes_try_later(maintainer->nodes);
}

/* The capacity of the only node is not known while its GPUs are being searched for, which takes a
 * limited time. */
static bool is_finding_gpus(const struct tfc__maintainer *maintainer)
{
	const tfc_job *job = maintainer->info.job;
	if (!tfc__nodes_are_finding_gpus(maintainer->nodes))
		return false;
	for (uint32_t i = 0; i < job->role_count; i++)
		if (job->roles[i].count && job->roles[i].gpus)
			return true;
	return false;
}

bool tfc__maintainer_next_placed(struct tfc__maintainer *maintainer, tfc_error *error,
				 struct tfc__core_event *ret_event)
{
	uint32_t task = UINT32_MAX, number = maintainer->gang_place;
	if (is_finding_gpus(maintainer))
		return false;
	maintainer->gang_place = 0;
	if (number == 0 && tfc__list_is_empty(&maintainer->placings))
		return false;
	if (number == 0) {
		struct seen *seen = tfc__container_of(maintainer->placings.next, struct seen,
						      placing);
		tfc__list_remove(&seen->placing);
		task = (uint32_t)(seen - maintainer->seen);
		number = seen->place;
	}
	*ret_event = (struct tfc__core_event){.task = task, .number = number};
	respond_to_place(maintainer, ret_event, error);
	return true;
}

/* ---- nodes of an earlier epoch */

/* One will covers all of the link's tasks, or none does. */
static void inherit_will(struct agent_link *link, const struct tfc__will_key *will)
{
	if (!link->has_inherited)
		link->will = *will;
	else if (!tfc__will_key_is_equal(&link->will, will))
		link->will.incarnation = 0;
	link->has_inherited = true;
}

int tfc__maintainer_resume(struct tfc__maintainer *maintainer, const struct tfc__resume *resume,
			   tfc_error *error)
{
	for (uint32_t i = 0; i < maintainer->task_count; i++) {
		const struct tfc__resume_task *was = &resume->tasks[i];
		bool has_address = was->address && *was->address;
		if (has_address && !(maintainer->seen[i].address = strdup(was->address)))
			return tfc__fail_nomem(error, "cluster");
		bool is_somewhere = was->was_running && was->node && *was->node;
		/* It may be no member, or not be found yet. Its tasks may be alive until it has
		 * been unreachable for their lease. */
		struct tfc__node_entry *node =
			is_somewhere ? tfc__nodes_find_or_add(maintainer->nodes, was->node) : NULL;
		struct agent_link *link = node ? tfc__maintainer_link(maintainer, node) : NULL;
		if (is_somewhere && !link)
			return tfc__fail_nomem(error, "cluster");
		if (link)
			inherit_will(link, &tfc__journal_task(maintainer->journal, i)->will);
		maintainer->placed[i] = link ? link->number : TFC__NO_NODE;
	}
	tfc__core_resume(maintainer->core, resume, maintainer->placed);
	return TFC_OK;
}

/* ---- capacity */

static const struct tfc__role *task_role(const struct tfc__maintainer *maintainer, uint32_t task)
{
	uint32_t index;
	return tfc__job_task_role(maintainer->info.job, task, &index);
}

void tfc__maintainer_acquire(struct tfc__maintainer *maintainer, uint32_t task,
			     struct agent_link *link)
{
	const struct tfc__role *role = task_role(maintainer, task);
	tfc__maintainer_release(maintainer, task);
	maintainer->seen[task].capacity_link = link;
	link->tasks++;
	link->pooled_tasks += tfc__place_is_pooled(maintainer->info.job, role);
	tfc__nodes_acquire(link->node, role);
}

void tfc__maintainer_release(struct tfc__maintainer *maintainer, uint32_t task)
{
	const struct tfc__role *role = task_role(maintainer, task);
	struct agent_link *link = maintainer->seen[task].capacity_link;
	if (!link)
		return;
	maintainer->seen[task].capacity_link = NULL;
	link->tasks--;
	link->pooled_tasks -= tfc__place_is_pooled(maintainer->info.job, role);
	tfc__nodes_release(link->node, role);
}

/* ---- changes of nodes */

static void drain_link(struct tfc__maintainer *maintainer, struct agent_link *link)
{
	char text[128];
	link->is_drained = true;
	snprintf(text, sizeof(text), "node %s is drained or leaves", link->node->name);
	tfc__maintainer_step(maintainer, &(struct tfc__core_event){.kind = TFC__CORE_NODE_DRAIN,
								   .node = link->number,
								   .text = text});
}

void tfc__maintainer_on_nodes(struct tfc__observer *user, const void *event)
{
	struct tfc__maintainer *maintainer = tfc__container_of(user, struct tfc__maintainer,
							       nodes_user);
	maintainer->busy++;
	for (uint32_t i = 0; i < maintainer->link_count && !maintainer->end; i++) {
		struct agent_link *link = maintainer->links[i];
		bool is_draining = tfc__nodes_is_draining(link->node);
		if (!is_draining)
			link->is_drained = false;
		else if (!link->is_drained && !link->is_lost)
			drain_link(maintainer, link);
	}
	if (maintainer->is_unplaced || maintainer->gang_place ||
	    !tfc__list_is_empty(&maintainer->placings)) {
		maintainer->is_unplaced = false;
		tfc__maintainer_step(maintainer, &(struct tfc__core_event){.kind = TFC__CORE_ROOM});
	}
	maintainer->busy--;
	tfc__maintainer_settle(maintainer);
}
