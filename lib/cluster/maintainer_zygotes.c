/* The zygotes of a job's nodes, as the agents last reported them: for queries only. */
#include <stdlib.h>
#include <string.h>

#include "base/strv.h"
#include "cluster/maintainer_state.h"

/* An agent has few. Of one that reports more, the ones that were reported longest ago are
 * forgotten. */
#define ZYGOTES_MAX 16

struct seen_zygote {
	struct tfc__link link; /* in the maintainer's zygotes, in the order of the reports */
	struct agent_link *node;
	uint32_t number;
	tfc_zygote info; /* its strings are its own; without the name of its node */
};

static void seen_zygote_free(struct seen_zygote *zygote)
{
	tfc__list_remove(&zygote->link);
	free((char *)zygote->info.interpreter);
	free((char *)zygote->info.text);
	tfc_strv_free((char **)zygote->info.modules);
	free(zygote);
}

/* NULL: out of memory. */
static struct seen_zygote *seen_zygote_new(const struct tfc__task_event *event)
{
	struct seen_zygote *zygote = calloc(1, sizeof(*zygote));
	struct tfc__strv modules = {0};
	if (!zygote)
		return NULL;
	tfc__list_init(&zygote->link);
	zygote->number = event->number;
	zygote->info = *event->zygote;
	zygote->info.size = sizeof(zygote->info);
	tfc__strv_add_all(&modules, event->zygote->modules);
	zygote->info.interpreter = strdup(event->zygote->interpreter);
	zygote->info.text = strdup(event->zygote->text);
	zygote->info.modules = (const char *const *)tfc__strv_steal(&modules);
	tfc__strv_fini(&modules);
	if (zygote->info.interpreter && zygote->info.text && zygote->info.modules)
		return zygote;
	seen_zygote_free(zygote);
	return NULL;
}

void tfc__maintainer_note_zygote(struct agent_link *link, const struct tfc__task_event *event)
{
	struct tfc__maintainer *maintainer = link->maintainer;
	struct seen_zygote *oldest = NULL, *zygote;
	uint32_t count = 0;
	TFC__LIST_EACH (at, &maintainer->zygotes) {
		struct seen_zygote *seen = tfc__container_of(at, struct seen_zygote, link);
		if (seen->node != link)
			continue;
		if (seen->number == event->number) {
			seen_zygote_free(seen);
			continue;
		}
		count++;
		if (!oldest)
			oldest = seen;
	}
	if (!event->zygote)
		return;
	if (count >= ZYGOTES_MAX)
		seen_zygote_free(oldest);
	if (!(zygote = seen_zygote_new(event))) {
		tfc__log(maintainer->ctx, TFC_LOG_ERROR, "cluster", maintainer->info.id,
			 "cannot describe a process that tasks are forked from: out of memory");
		return;
	}
	zygote->node = link;
	tfc__list_append(&maintainer->zygotes, &zygote->link);
}

void tfc__maintainer_drop_zygotes(struct agent_link *link)
{
	TFC__LIST_EACH (at, &link->maintainer->zygotes) {
		struct seen_zygote *zygote = tfc__container_of(at, struct seen_zygote, link);
		if (zygote->node == link)
			seen_zygote_free(zygote);
	}
}

void tfc__maintainer_free_zygotes(struct tfc__maintainer *maintainer)
{
	TFC__LIST_EACH (at, &maintainer->zygotes)
		seen_zygote_free(tfc__container_of(at, struct seen_zygote, link));
}

uint32_t tfc__maintainer_zygote_count(const struct tfc__maintainer *maintainer)
{
	uint32_t count = 0;
	TFC__LIST_EACH (at, &maintainer->zygotes)
		count++;
	return count;
}

void tfc__maintainer_zygotes(const struct tfc__maintainer *maintainer, tfc_zygote *ret_zygotes)
{
	uint32_t count = 0;
	TFC__LIST_EACH (at, &maintainer->zygotes) {
		const struct seen_zygote *zygote = tfc__container_of(at, struct seen_zygote, link);
		ret_zygotes[count] = zygote->info;
		ret_zygotes[count++].node = zygote->node->node->name;
	}
}
