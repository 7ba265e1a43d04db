/* A job as JSON, for people and scripts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "gateway/gateway.h"
#include "proc/proc.h"

/* Inspecting a task's processes takes time that dispatch does not have: only the first tasks of a
 * large job are inspected. */
#define DOING_MAX 128

#define NODES_MAX 64 /* that a job's summary names */

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

static void add_end(const struct tfc__journal_entry *end, struct tfc__buf *json)
{
	tfc__buf_addf(json, ",\"last_end\":{\"attempt\":%u,\"status\":%d", end->attempt,
		      end->end.status);
	add_string(json, "node", end->node);
	add_string(json, "state", tfc_task_state_name(end->task_state));
	add_string(json, "reason", tfc_end_reason_name(end->reason));
	add_string(json, "text", end->text);
	tfc__buf_add_char(json, '}');
}

/* Most of it is from the journal; the maintainer, if there is one, adds what only it knows. */
static void add_task(const struct tfc__record *record, uint32_t number, struct tfc__buf *json)
{
	const struct tfc__maintainer *maintainer = record->maintainer;
	const struct tfc__journal_task *task = tfc__journal_task(&record->journal, number);
	const struct tfc__journal_entry *end = tfc__journal_last_end(&record->journal, number);
	uint32_t index;
	const struct tfc__role *role = tfc__job_task_role(record->job, number, &index);
	bool is_running = task->state == TFC_TASK_RUNNING || task->state == TFC_TASK_READY;
	tfc__buf_addf(json, "{\"task\":\"%s/%u\"", role->name, index);
	add_string(json, "node", task->node ? task->node : "");
	add_string(json, "address", task->address ? task->address : "");
	tfc__buf_addf(json, ",\"pid\":%d,\"attempt\":%u", is_running ? task->pid : 0,
		      task->attempt);
	if (task->isolation)
		add_string(json, "isolation", tfc__isolation_name(task->isolation));
	else
		tfc__buf_add_str(json, ",\"isolation\":null");
	add_string(json, "state", tfc_task_state_name(task->state));
	if (maintainer && !record->is_ended)
		tfc__buf_addf(json, ",\"restarts_left\":%u",
			      tfc__core_budget_left(tfc__maintainer_core(maintainer), number,
						    tfc__now()));
	if (maintainer && number < DOING_MAX)
		add_doing(tfc__maintainer_local_job(maintainer), number, json);
	if (end)
		add_end(end, json);
	tfc__buf_add_char(json, '}');
}

/* The latest text about the whole job: what it waits for, why it restarts, how it ended. */
static void add_sentence(const struct tfc__record *record, struct tfc__buf *json)
{
	const struct tfc__journal *journal = &record->journal;
	char text[256];
	if (record->keeper.why[0]) {
		snprintf(text, sizeof(text),
			 "cannot store its events, which are not reported before: %s",
			 record->keeper.why);
		add_string(json, "text", text);
		return;
	}
	if (!journal->said)
		return;
	const struct tfc__journal_entry *entry = &journal->entries[journal->said - 1];
	add_string(json, "text", entry->text);
	if (entry->kind == TFC_EVENT_END)
		add_string(json, "reason", tfc_end_reason_name(entry->reason));
}

/* Writes the keys about the job as a whole; the object is left open. */
static void add_job(const struct tfc__record *record, struct tfc__buf *json)
{
	uint64_t now = tfc__wall();
	uint64_t age_ms = now > record->submitted_ns ? (now - record->submitted_ns) / TFC__MS : 0;
	tfc__buf_addf(json, "{\"job\":\"%s\"", record->id);
	add_string(json, "name", record->job->name);
	add_string(json, "state", tfc_job_state_name(tfc__record_state(record)));
	add_string(json, "maintainer", tfc__agent_name(tfc__directory_agent(record->directory)));
	add_sentence(record, json);
	tfc__buf_addf(json, ",\"generation\":%u,\"epoch\":%llu,\"age_s\":%llu.%03u",
		      tfc__record_generation(record), (unsigned long long)record->epoch,
		      (unsigned long long)age_ms / 1000, (unsigned)(age_ms % 1000));
}

void tfc__describe(const struct tfc__record *record, struct tfc__buf *json)
{
	uint32_t count = tfc__job_task_count(record->job);
	add_job(record, json);
	tfc__buf_add_str(json, ",\"tasks\":[");
	for (uint32_t i = 0; i < count; i++) {
		if (i)
			tfc__buf_add_char(json, ',');
		add_task(record, i, json);
	}
	tfc__buf_add_str(json, "]}");
}

void tfc__describe_damaged(const struct tfc__directory *directory,
			   const struct tfc__damaged *damaged, struct tfc__buf *json)
{
	tfc__buf_addf(json, "{\"job\":\"%s\",\"name\":\"\",\"state\":\"damaged\"", damaged->id);
	add_string(json, "maintainer", tfc__agent_name(tfc__directory_agent(directory)));
	add_string(json, "text", damaged->why);
	tfc__buf_add_str(json, ",\"tasks\":[]}");
}

/* ---- summary */

struct names {
	const char *all[NODES_MAX];
	uint32_t count;
};

static void note_name(struct names *names, const char *name)
{
	for (uint32_t i = names->count; i-- > 0;)
		if (strcmp(names->all[i], name) == 0)
			return;
	if (*name && names->count < NODES_MAX)
		names->all[names->count++] = name;
}

/* The nodes of its tasks, in the order of the tasks. */
static void add_nodes(const struct tfc__record *record, uint32_t count, struct tfc__buf *json)
{
	struct names names = {.count = 0};
	const char *last = "";
	for (uint32_t i = 0; i < count; i++) {
		const char *node = tfc__journal_task(&record->journal, i)->node;
		if (strcmp(node, last) != 0)
			note_name(&names, node);
		last = node;
	}
	tfc__buf_add_str(json, ",\"nodes\":[");
	for (uint32_t i = 0; i < names.count; i++) {
		tfc__buf_add_str(json, i ? "," : "");
		tfc__buf_add_json(json, names.all[i], strlen(names.all[i]));
	}
	tfc__buf_add_char(json, ']');
}

void tfc__describe_briefly(const struct tfc__record *record, struct tfc__buf *json)
{
	uint32_t count = tfc__job_task_count(record->job);
	const struct tfc__journal *journal = &record->journal;
	add_job(record, json);
	tfc__buf_addf(json, ",\"task_count\":%u,\"ready\":%u,\"restarts\":%llu", count,
		      journal->ready, (unsigned long long)journal->restarts);
	add_nodes(record, count, json);
	tfc__buf_add_char(json, '}');
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
