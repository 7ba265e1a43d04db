/* A job and its tasks, from the job's record. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "gateway/gateway.h"
#include "gateway/results.h"

/* Inspecting a task's processes takes time that dispatch does not have: only the first tasks of a
 * large job are inspected. */
#define ACTIVITIES_MAX 128

/* ---- the job */

/* The nodes of its tasks, in the order of the tasks. */
static void list_task_nodes(const struct tfc__record *record, uint32_t task_count,
			    const char *nodes[TFC__JOB_NODES_MAX + 1])
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < task_count && count < TFC__JOB_NODES_MAX; i++) {
		const char *node = tfc__journal_task(&record->journal, i)->node;
		uint32_t known = count;
		while (known > 0 && strcmp(nodes[known - 1], node) != 0)
			known--;
		if (*node && !known)
			nodes[count++] = node;
	}
	nodes[count] = NULL;
}

static void summary_set_end(const struct tfc__record *record,
			    const struct tfc__journal_entry *entry,
			    struct tfc__job_summary *summary)
{
	const struct tfc__journal_exit end = tfc__journal_exit(entry);
	tfc_job_info *info = &summary->info;
	const tfc_event event = {
		.kind = TFC_EVENT_END,
		.job_state = entry->job_state,
		.reason = entry->reason,
		.exit_code = end.code,
		.signal = end.signal,
	};
	uint32_t index;
	info->ended_ns = entry->time_ns;
	info->reason = entry->reason;
	info->exit_status = tfc_event_exit_status(&event);
	info->exit_code = end.code;
	info->signal = end.signal;
	info->error_code = end.error;
	if (entry->task == UINT32_MAX)
		return;
	const struct tfc__role *role = tfc__job_task_role(record->job, entry->task, &index);
	snprintf(summary->decided_by, sizeof(summary->decided_by), "%s/%u", role->name, index);
}

/* False, and "": the job's events are being stored. */
static bool describe_store(const struct tfc__record *record, char *text, size_t size)
{
	text[0] = '\0';
	if (!record->keeper.why[0])
		return false;
	snprintf(text, size, "cannot store the job's events: %s; they are reported once stored",
		 record->keeper.why);
	return true;
}

void tfc__describe_blocked(const struct tfc__record *record, char *text, size_t size)
{
	if (!describe_store(record, text, size) || !record->maintainer)
		return;
	size_t len = strlen(text);
	for (uint32_t i = 0; i < tfc__job_task_count(record->job); i++) {
		const char *loss = tfc__maintainer_output_loss(record->maintainer, i);
		uint32_t index;
		if (!*loss)
			continue;
		const char *role = tfc__job_task_role(record->job, i, &index)->name;
		snprintf(text + len, size - len, "; %s/%u %s", role, index, loss);
		return;
	}
}

void tfc__summarize(const struct tfc__record *record, struct tfc__job_summary *ret_summary)
{
	const struct tfc__journal *journal = &record->journal;
	/* The latest entry about the whole job: what it waits for, why it restarts, how it ended.
	 */
	const struct tfc__journal_entry *last = tfc__journal_last_of_job(journal);
	uint64_t now = tfc__wall();
	*ret_summary = (struct tfc__job_summary){
		.info = {
			.size = sizeof(tfc_job_info),
			.state = tfc__record_state(record),
			.job = record->id,
			.name = record->job->name,
			.maintainer = tfc__agent_name(tfc__directory_agent(record->directory)),
			.text = last ? last->text : "",
			.host_tag = record->host_tag,
			.host_tag_len = record->host_tag_len,
			.epoch = record->epoch,
			.submitted_ns = record->submitted_ns,
			.started_ns = journal->started_ns,
			.restarts = journal->restarts,
			.incidents = journal->incidents,
			.generation = tfc__record_generation(record),
			.task_count = tfc__job_task_count(record->job),
			.ready_count = journal->ready,
			.exit_status = -1,
			.decided_by = ret_summary->decided_by,
			.nodes = ret_summary->nodes,
		}};
	tfc_job_info *info = &ret_summary->info;
	if (now > record->submitted_ns)
		info->age_ms = (now - record->submitted_ns) / TFC__MS;
	if (last && last->kind == TFC_EVENT_END)
		summary_set_end(record, last, ret_summary);
	if (describe_store(record, ret_summary->text, sizeof(ret_summary->text)))
		info->text = ret_summary->text;
	list_task_nodes(record, info->task_count, ret_summary->nodes);
}

void tfc__summarize_damaged(const struct tfc__directory *directory,
			    const struct tfc__damaged *damaged, tfc_job_info *ret_info)
{
	*ret_info = (tfc_job_info){
		.size = sizeof(*ret_info),
		.state = TFC_JOB_DAMAGED,
		.job = damaged->id,
		.maintainer = tfc__agent_name(tfc__directory_agent(directory)),
		.text = damaged->why,
		.exit_status = -1,
	};
}

/* ---- its tasks */

static void add_output_loss(const char *why, char *activity, size_t size)
{
	size_t len = strlen(activity);
	if (*why)
		snprintf(activity + len, size - len, "%s%s", len ? ", " : "", why);
}

/* Most of it is from the journal; the maintainer, if there is one, adds what only it knows. */
static void describe_task(const struct tfc__record *record, uint32_t number, struct tfc__buf *buf)
{
	const struct tfc__maintainer *maintainer = record->maintainer;
	const struct tfc__journal_task *task = tfc__journal_task(&record->journal, number);
	const struct tfc__journal_entry *end = tfc__journal_last_end(&record->journal, number);
	struct tfc__agent_job *agent_job = NULL;
	bool is_running = task->state == TFC_TASK_RUNNING || task->state == TFC_TASK_READY;
	char activity[512] = "";
	tfc_attempt_end last_end;
	tfc_job_task info = {
		.state = task->state,
		.attempt = task->attempt,
		.node = task->node,
		.address = task->address,
		.pid = is_running ? task->pid : 0,
		.isolation = task->isolation,
		.generation = task->generation,
		.started_ns = task->started_ns,
		.activity = activity,
		.restarts_left = UINT32_MAX,
	};
	const struct tfc__role *role = tfc__job_task_role(record->job, number, &info.task_index);
	info.task_type = role->name;
	info.stall_ms = tfc__role_stall_ms(record->job, role);
	info.memory_limit = tfc__role_memory_limit(role);
	info.is_memory_limited = task->memory_limit != 0;
	if (maintainer && !record->is_ended)
		info.restarts_left = tfc__core_budget_left(tfc__maintainer_core(maintainer), number,
							   tfc__now());
	if (maintainer)
		info.unreachable_ns = tfc__maintainer_unreachable_ns(maintainer, number);
	if (maintainer && number < ACTIVITIES_MAX)
		agent_job = (struct tfc__agent_job *)tfc__maintainer_local_job(maintainer);
	if (agent_job)
		tfc__agent_activity(agent_job, number, activity, sizeof(activity));
	if (maintainer)
		add_output_loss(tfc__maintainer_output_loss(maintainer, number), activity,
				sizeof(activity));
	if (end) {
		const struct tfc__journal_exit status = tfc__journal_exit(end);
		last_end = (tfc_attempt_end){
			.attempt = end->attempt,
			.task_state = end->task_state,
			.reason = end->reason,
			.exit_reason = end->end.reason,
			.exit_code = status.code,
			.signal = status.signal,
			.error_code = status.error,
			.ended_ns = end->time_ns,
			.user_us = end->end.user_us,
			.system_us = end->end.system_us,
			.max_rss_kib = end->end.max_rss_kib,
			.node = end->node,
			.text = end->text,
		};
		info.last_end = &last_end;
	}
	tfc__job_task_write(buf, &info);
}

/* The caller frees them. NULL: there are none, or no memory. */
static tfc_zygote *describe_zygotes(const struct tfc__maintainer *maintainer, tfc_job_info *info,
				    struct tfc__buf *buf)
{
	uint32_t count = maintainer ? tfc__maintainer_zygote_count(maintainer) : 0;
	tfc_zygote *zygotes = count ? malloc(count * sizeof(*zygotes)) : NULL;
	buf->is_failed = buf->is_failed || (count && !zygotes);
	if (!zygotes)
		return NULL;
	tfc__maintainer_zygotes(maintainer, zygotes);
	info->zygotes = zygotes;
	info->zygote_count = count;
	info->zygote_size = sizeof(*zygotes);
	return zygotes;
}

void tfc__describe(const struct tfc__record *record, struct tfc__buf *buf)
{
	struct tfc__job_summary summary;
	tfc__summarize(record, &summary);
	tfc_zygote *zygotes = describe_zygotes(record->is_ended ? NULL : record->maintainer,
					       &summary.info, buf);
	tfc__job_write_head(buf, &summary.info);
	free(zygotes);
	for (uint32_t i = 0; i < summary.info.task_count; i++)
		describe_task(record, i, buf);
}

uint32_t tfc__find_task(const struct tfc__record *record, const char *name)
{
	const char *slash = strrchr(name, '/');
	char *end = NULL;
	unsigned long wanted = slash && slash[1] ? strtoul(slash + 1, &end, 10) : 0;
	if (!end || *end)
		return UINT32_MAX;
	for (uint32_t i = 0; i < tfc__job_task_count(record->job); i++) {
		uint32_t index;
		const struct tfc__role *role = tfc__job_task_role(record->job, i, &index);
		if (index == wanted && strlen(role->name) == (size_t)(slash - name) &&
		    strncmp(role->name, name, (size_t)(slash - name)) == 0)
			return i;
	}
	return UINT32_MAX;
}
