#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "cluster/maintainer_state.h"

/* If a node has several links, the latest. */
static struct agent_link *latest_link(const struct tfc__maintainer *maintainer,
				      const struct tfc__node_entry *node)
{
	uint32_t number = tfc__map_get(&maintainer->latest, (uintptr_t)node, UINT32_MAX);
	return number != UINT32_MAX ? maintainer->links[number] : NULL;
}

struct agent_link *tfc__maintainer_link(struct tfc__maintainer *maintainer,
					struct tfc__node_entry *node)
{
	struct agent_link *link = latest_link(maintainer, node);
	if (link && !link->is_lost)
		return link;
	size_t size = (maintainer->link_count + 1) * sizeof(struct agent_link *);
	struct agent_link **links = realloc(maintainer->links, size);
	if (!links)
		return NULL;
	maintainer->links = links;
	link = calloc(1, sizeof(*link));
	if (!link || !tfc__map_set(&maintainer->latest, (uintptr_t)node, maintainer->link_count)) {
		free(link);
		return NULL;
	}
	link->maintainer = maintainer;
	link->number = maintainer->link_count;
	link->node = node;
	tfc__nodes_use(node);
	links[maintainer->link_count++] = link;
	return link;
}

int tfc__maintainer_open_link(struct agent_link *link, tfc_error *error)
{
	struct tfc__maintainer *maintainer = link->maintainer;
	if (link->job)
		return TFC_OK;
	struct tfc__agent_handle agent = tfc__nodes_agent(link->node);
	if (!agent.ops)
		return tfc__fail(error, TFC_ELOST, "cluster", 0, "cannot reach node %s",
				 link->node->name);
	struct tfc__agent_job_info info = maintainer->info;
	info.has_inherited = link->has_inherited;
	info.will = link->will;
	link->ops = agent.ops;
	return agent.ops->job_open(agent.agent, &info, tfc__maintainer_on_agent, link, &link->job,
				   error);
}

void tfc__maintainer_end_links(struct tfc__maintainer *maintainer)
{
	for (uint32_t i = 0; i < maintainer->link_count; i++) {
		const struct agent_link *link = maintainer->links[i];
		if (link->job && !link->is_lost)
			link->ops->order(link->job,
					 &(struct tfc__task_order){.kind = TFC__ORDER_END});
	}
}

void tfc__maintainer_close_links(struct tfc__maintainer *maintainer)
{
	for (uint32_t i = 0; i < maintainer->task_count && maintainer->seen; i++) {
		tfc__maintainer_release(maintainer, i);
		maintainer->seen[i].link = NULL;
	}
	for (uint32_t i = 0; i < maintainer->link_count; i++) {
		struct agent_link *link = maintainer->links[i];
		if (link->job)
			link->ops->job_close(link->job);
		tfc__nodes_unuse(link->node);
		free(link->failure);
		free(link);
	}
	free(maintainer->links);
	maintainer->links = NULL;
	maintainer->link_count = 0;
	tfc__map_fini(&maintainer->latest);
}

/* ---- logs */

/* A node without a link may have logs of an earlier epoch. */
static struct agent_link *link_for_logs(struct tfc__maintainer *maintainer, const char *name,
					tfc_error *error)
{
	struct tfc__node_entry *node = tfc__nodes_find(maintainer->nodes, name);
	struct agent_link *link = node ? latest_link(maintainer, node) : NULL;
	if (link && link->job)
		return link;
	if (!node || !node->member) {
		tfc__fail(error, TFC_ELOST, "cluster", 0,
			  "cannot read the output on node %s: it is not a member", name);
		return NULL;
	}
	link = tfc__maintainer_link(maintainer, node);
	if (!link) {
		tfc__fail_nomem(error, "cluster");
		return NULL;
	}
	return tfc__maintainer_open_link(link, error) == TFC_OK ? link : NULL;
}

struct tfc__log_source *tfc__maintainer_log_open(struct tfc__maintainer *maintainer,
						 const char *node, uint32_t task, uint64_t position,
						 tfc_error *error)
{
	struct agent_link *link = link_for_logs(maintainer, node, error);
	return link ? link->ops->log_open(link->job, task, position, error) : NULL;
}

struct tfc__agent_job *tfc__maintainer_local_job(const struct tfc__maintainer *maintainer)
{
	for (uint32_t i = 0; i < maintainer->link_count; i++)
		if (maintainer->links[i]->ops == &tfc__local_agent_ops)
			return maintainer->links[i]->job;
	return NULL;
}
