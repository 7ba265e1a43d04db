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

static void add_doing(const struct tfc__agent_job *agent_job, uint32_t number,
		      struct tfc__buf *json)
{
	char text[128] = "";
	if (agent_job)
		tfc__agent_doing((struct tfc__agent_job *)agent_job, number, text, sizeof(text));
	if (text[0])
		add_string(json, "doing", text);
}

static void add_task(const struct tfc__record *record, uint32_t number, bool with_doing,
		     struct tfc__buf *json)
{
	const struct tfc__core *core = tfc__maintainer_core(record->maintainer);
	const struct tfc__agent_job *agent_job = tfc__maintainer_local_job(record->maintainer);
	const struct tfc__journal_entry *end = tfc__journal_last_end(&record->journal, number);
	uint32_t index;
	const struct tfc__role *role = tfc__job_task_role(record->job, number, &index);
	uint32_t state = tfc__core_task_state(core, number);
	tfc__buf_addf(json, "{\"task\":\"%s/%u\"", role->name, index);
	add_string(json, "node", tfc__maintainer_node(record->maintainer, number));
	add_string(json, "address", tfc__maintainer_address(record->maintainer, number));
	bool is_running = state == TFC_TASK_RUNNING || state == TFC_TASK_READY;
	tfc__buf_addf(json, ",\"pid\":%d,\"attempt\":%u",
		      is_running ? tfc__maintainer_pid(record->maintainer, number) : 0,
		      tfc__core_attempt(core, number));
	uint32_t isolation = tfc__maintainer_isolation(record->maintainer, number);
	if (isolation)
		add_string(json, "isolation", tfc__isolation_name(isolation));
	else
		tfc__buf_add_str(json, ",\"isolation\":null");
	add_string(json, "state", tfc_task_state_name(state));
	tfc__buf_addf(json, ",\"restarts_left\":%u",
		      tfc__core_budget_left(core, number, tfc__now()));
	if (with_doing && number < DOING_MAX)
		add_doing(agent_job, number, json);
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
	const struct tfc__core *core = tfc__maintainer_core(record->maintainer);
	uint32_t count = tfc__core_task_count(core);
	tfc__buf_addf(json, "{\"job\":\"%s\"", record->id);
	add_string(json, "name", record->job->name);
	add_string(json, "state", tfc_job_state_name(tfc__core_job_state(core)));
	unsigned long long age_ms = (tfc__wall() - record->submitted_ns) / TFC__MS;
	tfc__buf_addf(json, ",\"generation\":%u,\"epoch\":%llu,\"age_s\":%llu.%03llu,\"tasks\":[",
		      tfc__core_generation(core), (unsigned long long)record->epoch, age_ms / 1000,
		      age_ms % 1000);
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
