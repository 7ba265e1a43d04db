/* A job as JSON, for people and scripts. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "gateway/gateway.h"
#include "proc/proc.h"

/* Looking costs time, and dispatch must go on: of large jobs not all tasks are looked at. */
#define DOING_MAX 128

static void add_string(struct tfc__buf *json, const char *key, const char *value)
{
	tfc__buf_addf(json, ",\"%s\":", key);
	tfc__buf_add_json(json, value, strlen(value));
}

/* What only the maintainer knows; an ended job may have none. */
static void add_life(const struct tfc__maintainer *maintainer, uint32_t number, bool with_doing,
		     struct tfc__buf *json)
{
	char text[128] = "";
	const struct tfc__core *core = tfc__maintainer_core(maintainer);
	tfc__buf_addf(json, ",\"restarts_left\":%u",
		      tfc__core_budget_left(core, number, tfc__now()));
	if (!with_doing || number >= DOING_MAX)
		return;
	struct tfc__agent_job *agent_job = tfc__maintainer_local_job(maintainer);
	if (agent_job)
		tfc__agent_doing(agent_job, number, text, sizeof(text));
	if (text[0])
		add_string(json, "doing", text);
}

static void add_task(const struct tfc__record *record, uint32_t number, bool with_doing,
		     struct tfc__buf *json)
{
	const struct tfc__journal_task *task = tfc__journal_task(&record->journal, number);
	const struct tfc__journal_entry *end = tfc__journal_last_end(&record->journal, number);
	uint32_t index;
	const struct tfc__role *role = tfc__job_task_role(record->job, number, &index);
	tfc__buf_addf(json, "{\"task\":\"%s/%u\"", role->name, index);
	add_string(json, "node", task->node);
	add_string(json, "address", task->address);
	tfc__buf_addf(json, ",\"pid\":%d,\"attempt\":%u", task->pid, task->attempt);
	if (task->isolation)
		add_string(json, "isolation", tfc__isolation_name(task->isolation));
	else
		tfc__buf_add_str(json, ",\"isolation\":null");
	add_string(json, "state", tfc_task_state_name(task->state));
	if (record->maintainer)
		add_life(record->maintainer, number, with_doing, json);
	else
		tfc__buf_add_str(json, ",\"restarts_left\":0");
	if (end) {
		tfc__buf_addf(json, ",\"last_end\":{\"attempt\":%u,\"status\":%d", end->attempt,
			      end->status);
		add_string(json, "reason", tfc_end_reason_name(end->reason));
		add_string(json, "text", end->text);
		tfc__buf_add_char(json, '}');
	}
	tfc__buf_add_char(json, '}');
}

void tfc__describe(const struct tfc__record *record, bool with_doing, struct tfc__buf *json)
{
	uint32_t count = tfc__job_task_count(record->job);
	tfc__buf_addf(json, "{\"job\":\"%s\"", record->id);
	add_string(json, "name", record->job->name);
	add_string(json, "state", tfc_job_state_name(tfc__record_state(record)));
	unsigned long long age_ms = (tfc__wall() - record->submitted_ns) / TFC__MS;
	tfc__buf_addf(json, ",\"generation\":%u,\"epoch\":%llu,\"age_s\":%llu.%03llu,\"tasks\":[",
		      tfc__record_generation(record), (unsigned long long)record->epoch,
		      age_ms / 1000, age_ms % 1000);
	for (uint32_t i = 0; i < count; i++) {
		if (i)
			tfc__buf_add_char(json, ',');
		add_task(record, i, with_doing, json);
	}
	tfc__buf_add_str(json, "]}");
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
