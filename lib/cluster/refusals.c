#include "cluster/refusals.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

#define VALID_FOR (5000 * TFC__MS)

static struct tfc__refusal *refusal_of(struct tfc__link *link)
{
	return tfc__container_of(link, struct tfc__refusal, link);
}

static struct tfc__refusal *refusal_find(const struct tfc__link *refusals,
					 const struct tfc__node_entry *node)
{
	TFC__LIST_EACH (link, refusals)
		if (refusal_of(link)->node == node)
			return refusal_of(link);
	return NULL;
}

const struct tfc__place_ports *tfc__refusals_find(const struct tfc__link *refusals,
						  const struct tfc__node_entry *node)
{
	const struct tfc__refusal *refusal = refusal_find(refusals, node);
	return refusal ? &refusal->ports : NULL;
}

static void refusal_drop(struct tfc__refusal *refusal)
{
	tfc__list_remove(&refusal->link);
	tfc__nodes_unuse(refusal->node);
	free(refusal->barred);
	free(refusal);
}

static struct tfc__refusal *refusal_add(struct tfc__link *refusals, struct tfc__node_entry *node,
					uint32_t task_count)
{
	struct tfc__refusal *refusal = calloc(1, sizeof(*refusal));
	uint8_t *barred = calloc(task_count, 1);
	if (!refusal || !barred) {
		free(refusal);
		free(barred);
		return NULL;
	}
	refusal->node = node;
	refusal->barred = barred;
	refusal->ports = (struct tfc__place_ports){.pool = UINT32_MAX,
						   .barred = barred,
						   .is_lasting = true,
						   .text = refusal->text};
	tfc__nodes_use(node);
	tfc__list_append(refusals, &refusal->link);
	return refusal;
}

int tfc__refusals_note(struct tfc__link *refusals, struct tfc__node_entry *node, const tfc_job *job,
		       const struct tfc__task_event *event)
{
	uint32_t index;
	const struct tfc__role *role = tfc__job_task_role(job, event->task, &index);
	struct tfc__refusal *refusal = refusal_find(refusals, node);
	if (!tfc__role_has_port(job, role))
		return TFC_EINVAL;
	if (!refusal && !(refusal = refusal_add(refusals, node, tfc__job_task_count(job))))
		return TFC_ENOMEM;
	if (role->port)
		refusal->barred[event->task] = 1;
	else
		refusal->ports.pool = event->ports;
	refusal->ports.is_lasting &= event->is_lasting;
	refusal->until = tfc__now() + VALID_FOR;
	snprintf(refusal->text, sizeof(refusal->text), "%s", event->text ? event->text : "");
	return TFC_OK;
}

uint64_t tfc__refusals_expire(struct tfc__link *refusals)
{
	uint64_t now = tfc__now(), next = 0;
	TFC__LIST_EACH (link, refusals) {
		struct tfc__refusal *refusal = refusal_of(link);
		uint64_t until = refusal->until;
		if (until <= now)
			refusal_drop(refusal);
		else if (!next || until < next)
			next = until;
	}
	return next;
}

void tfc__refusals_free(struct tfc__link *refusals)
{
	TFC__LIST_EACH (link, refusals)
		refusal_drop(refusal_of(link));
}
