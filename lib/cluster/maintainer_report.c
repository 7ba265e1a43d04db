#include <stdio.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/strv.h"
#include "cluster/maintainer_state.h"

static void entry_add_task(const struct tfc__maintainer *maintainer,
			   const struct tfc__core_action *action, struct tfc__journal_entry *entry)
{
	const struct seen *seen = &maintainer->seen[action->task];
	bool has_run = action->state >= TFC_TASK_RUNNING;
	entry->task_state = action->state;
	if (action->state == TFC_TASK_STARTING && seen->link && seen->link->job &&
	    seen->link->ops->will)
		entry->will = seen->link->ops->will(seen->link->job);
	/* The journal has the task's node in an earlier epoch. */
	entry->node = seen->link
			      ? seen->link->node->name
			      : (char *)tfc__journal_task(maintainer->journal, action->task)->node;
	entry->address = seen->address;
	entry->pid = has_run ? seen->pid : 0;
	entry->isolation = has_run ? seen->isolation : 0;
	entry->memory_limit = has_run ? seen->memory_limit : 0;
	if (!tfc__task_state_is_terminal(action->state))
		return;
	bool is_end_known = seen->link && !seen->link->is_lost;
	entry->end.log_end = is_end_known ? seen->log_end : UINT64_MAX;
}

/* Maximum number of failures listed; of the others only the number is given. */
#define IGNORED_MAX 32

static void entry_add_ignored(const struct tfc__maintainer *maintainer,
			      struct tfc__journal_entry *entry)
{
	struct tfc__strv lines = {0};
	uint32_t more = 0;
	char rest[32];
	for (uint32_t i = 0; i < maintainer->task_count; i++) {
		const char *text = tfc__core_ignored_failure(maintainer->core, i);
		if (text && lines.count < IGNORED_MAX)
			tfc__strv_add(&lines, text);
		else if (text)
			more++;
	}
	snprintf(rest, sizeof(rest), "%u more", more);
	if (more)
		tfc__strv_add(&lines, rest);
	entry->ignored_failures = lines.count ? tfc__strv_steal(&lines) : NULL;
	tfc__strv_fini(&lines);
}

static void entry_add_end(const struct tfc__maintainer *maintainer,
			  const struct tfc__core_action *action, struct tfc__journal_entry *entry)
{
	entry_add_ignored(maintainer, entry);
	if (action->task == UINT32_MAX)
		return;
	const struct agent_link *link = maintainer->seen[action->task].link;
	if (!link)
		return;
	entry->node = link->node->name;
	if (link->job && link->ops->log_tail(link->job, action->task, &entry->log_tail) < 0)
		entry->log_tail = NULL;
	if (action->state == TFC_JOB_FAILED)
		entry->error_line = maintainer->seen[action->task].error_line;
}

void tfc__maintainer_notify(struct tfc__maintainer *maintainer, uint32_t kind,
			    const struct tfc__core_action *action)
{
	struct tfc__journal_entry entry = {
		.kind = kind,
		.job_state = tfc__core_job_state(maintainer->core),
		.generation = action->generation,
		.epoch = maintainer->info.epoch,
		.task = action->task,
		.attempt = action->attempt,
		.reason = action->reason,
		.end = action->end,
		.time_ns = tfc__wall(),
		.text = (char *)action->text,
	};
	if (kind == TFC_EVENT_TASK)
		entry_add_task(maintainer, action, &entry);
	else
		entry.job_state = action->state;
	if (kind == TFC_EVENT_END)
		entry_add_end(maintainer, action, &entry);
	if (tfc__journal_add(maintainer->journal, &entry) < 0)
		tfc__log(maintainer->ctx, TFC_LOG_ERROR, "cluster", maintainer->info.id,
			 "cannot report an event to its subscribers: out of memory");
}
