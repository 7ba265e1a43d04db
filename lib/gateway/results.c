#include "gateway/results.h"

#include <stdio.h>
#include <string.h>

#include "proc/proc.h"
#include <tfcluster/spec.h>

/* Values in a result, a message of 16 MiB: enough for 65,536 tasks. */
#define OBJECTS_MAX (4u << 20)

#define ITEMS_MAX 100000 /* in one list: as many tasks as a job may have */

/* Variants of a job in JSON. */
enum {
	LISTED = 1,
	DESCRIBED = 2,
	INTACT = 4, /* not damaged */
	DAMAGED = 8,
	ENDED = 16,
};
/* Variants of the end of an attempt. */
enum {
	EXITED = 32,
	KILLED = 64,
};
#define ANY UINT32_MAX

/* ---- values that JSON shows in another form */

static const void *value_at(const struct tfc__field *field, const void *message)
{
	return (const char *)message + field->offset;
}

static void show_time(struct tfc__json_writer *json, const struct tfc__field *field,
		      const void *message)
{
	tfc__json_time(json, *(const uint64_t *)value_at(field, message));
}

/* Milliseconds as seconds. */
static void show_seconds(struct tfc__json_writer *json, const struct tfc__field *field,
			 const void *message)
{
	const void *value = value_at(field, message);
	uint64_t ms = field->size == sizeof(uint32_t) ? *(const uint32_t *)value
						      : *(const uint64_t *)value;
	char text[32];
	int len = snprintf(text, sizeof(text), "%llu.%03u", (unsigned long long)ms / 1000,
			   (unsigned)(ms % 1000));
	tfc__json_raw(json, text, (size_t)len);
}

static void show_task(struct tfc__json_writer *json, const struct tfc__field *field,
		      const void *message)
{
	const tfc_job_task *task = message;
	tfc__json_textf(json, "%s/%u", task->task_type, task->task_index);
}

/* At most one of the three numbers is set. */
static void show_status(struct tfc__json_writer *json, const struct tfc__field *field,
			const void *message)
{
	const tfc_attempt_end *end = message;
	tfc__json_int(json, end->error_code ? end->error_code
			    : end->signal   ? end->signal
					    : end->exit_code);
}

static const char *name_isolation(uint32_t isolation)
{
	return isolation ? tfc__isolation_name(isolation) : NULL;
}

static uint32_t variant_of_end(const void *message)
{
	const tfc_attempt_end *end = message;
	return end->exit_reason == TFC_EXIT_CODE     ? EXITED
	       : end->exit_reason == TFC_EXIT_SIGNAL ? KILLED
						     : 0;
}

/* ---- tables */

#define END(...) TFC__FIELD(tfc_attempt_end, __VA_ARGS__)
static const struct tfc__field end_rows[] = {
	END("a", TFC__UINT, attempt, TFC__V0_3, .json = "attempt", .shown = ANY),
	END(NULL, TFC__INT, exit_code, TFC__V0_3, .json = "status", .shown = ANY,
	    .show = show_status),
	END("n", TFC__STRING, node, TFC__V0_3, .json = "node", .shown = ANY),
	END("s", TFC__UINT, task_state, TFC__V0_3, .json = "state", .shown = ANY,
	    .word = tfc_task_state_name),
	END("r", TFC__UINT, reason, TFC__V0_3, .json = "reason", .shown = ANY,
	    .word = tfc_end_reason_name),
	END("x", TFC__STRING, text, TFC__V0_3, .json = "text", .shown = ANY),
	END("at", TFC__UINT, ended_ns, TFC__V0_3, .json = "ended", .shown_if_set = ANY,
	    .show = show_time),
	END("u", TFC__UINT, user_us, TFC__V0_3, .json = "user_us", .shown = ANY),
	END("sy", TFC__UINT, system_us, TFC__V0_3, .json = "system_us", .shown = ANY),
	END("rss", TFC__UINT, max_rss_kib, TFC__V0_3, .json = "max_rss_kib", .shown = ANY),
	END("xr", TFC__UINT, exit_reason, TFC__V0_3),
	END("st", TFC__INT, exit_code, TFC__V0_3, .json = "exit", .shown = EXITED),
	END("sg", TFC__INT, signal, TFC__V0_3, .json = "signal", .shown = KILLED),
	END("er", TFC__INT, error_code, TFC__V0_3),
};
static const tfc_attempt_end no_end = {.size = sizeof(no_end), .node = "", .text = ""};
static const struct tfc__fields end_fields = {.fields = end_rows,
					      .count = sizeof(end_rows) / sizeof(end_rows[0]),
					      .size = sizeof(tfc_attempt_end),
					      .initial = &no_end,
					      .variant_of = variant_of_end};

#define TASK(...) TFC__FIELD(tfc_job_task, __VA_ARGS__)
static const struct tfc__field task_rows[] = {
	TASK(NULL, TFC__STRING, task_type, TFC__V0_3, .json = "task", .shown = ANY,
	     .show = show_task),
	TASK("tt", TFC__STRING, task_type, TFC__V0_3),
	TASK("ti", TFC__UINT, task_index, TFC__V0_3),
	TASK("n", TFC__STRING, node, TFC__V0_3, .json = "node", .shown = ANY),
	TASK("ad", TFC__STRING, address, TFC__V0_3, .json = "address", .shown = ANY),
	TASK("p", TFC__INT, pid, TFC__V0_3, .json = "pid", .shown = ANY),
	TASK("a", TFC__UINT, attempt, TFC__V0_3, .json = "attempt", .shown = ANY),
	TASK("g", TFC__UINT, generation, TFC__V0_3, .json = "generation", .shown = ANY),
	TASK("at", TFC__UINT, started_ns, TFC__V0_3, .json = "started", .shown_if_set = ANY,
	     .show = show_time),
	TASK("iso", TFC__UINT, isolation, TFC__V0_3, .json = "isolation", .shown = ANY,
	     .word = name_isolation),
	TASK("s", TFC__UINT, state, TFC__V0_3, .json = "state", .shown = ANY,
	     .word = tfc_task_state_name),
	TASK("rl", TFC__UINT, restarts_left, TFC__V0_3, .json = "restarts_left",
	     .shown_if_set = ANY),
	TASK("ac", TFC__STRING, activity, TFC__V0_3, .json = "doing", .shown_if_set = ANY),
	TASK("stall", TFC__UINT, stall_ms, TFC__V0_3, .json = "stall_s", .shown = ANY,
	     .show = show_seconds),
	TASK("ml", TFC__UINT, memory_limit, TFC__V0_3, .json = "memory_limit", .shown_if_set = ANY),
	TASK("im", TFC__BOOL, is_memory_limited, TFC__V0_3, .json = "memory_is_limited",
	     .shown = ANY),
	TASK("un", TFC__UINT, unreachable_ns, TFC__V0_3, .json = "unreachable_since",
	     .shown_if_set = ANY, .show = show_time),
	TASK("end", TFC__MESSAGE, last_end, TFC__V0_3, .json = "last_end", .shown_if_set = ANY,
	     .nested = &end_fields),
};
static const tfc_job_task no_task = {.size = sizeof(no_task),
				     .task_type = "",
				     .node = "",
				     .address = "",
				     .restarts_left = UINT32_MAX,
				     .activity = ""};
static const struct tfc__fields task_fields = TFC__FIELDS(task_rows, tfc_job_task, &no_task);

#define ZYGOTE(...) TFC__FIELD(tfc_zygote, __VA_ARGS__)
static const struct tfc__field zygote_rows[] = {
	ZYGOTE("n", TFC__STRING, node, TFC__V0_3, .json = "node", .shown = ANY),
	ZYGOTE("i", TFC__STRING, interpreter, TFC__V0_3, .json = "interpreter", .shown = ANY),
	ZYGOTE("m", TFC__LINES, modules, TFC__V0_3, .json = "modules", .shown = ANY),
	ZYGOTE("s", TFC__UINT, state, TFC__V0_3, .json = "state", .shown = ANY,
	       .word = tfc_zygote_state_name),
	ZYGOTE("x", TFC__STRING, text, TFC__V0_3, .json = "text", .shown_if_set = ANY),
	ZYGOTE("p", TFC__INT, pid, TFC__V0_3, .json = "pid", .shown = ANY),
	ZYGOTE("a", TFC__UINT, attempts, TFC__V0_3, .json = "attempts", .shown = ANY),
	ZYGOTE("at", TFC__UINT, started_ns, TFC__V0_3, .json = "started", .shown = ANY,
	       .show = show_time),
	ZYGOTE("rss", TFC__UINT, rss_bytes, TFC__V0_3, .json = "rss_bytes", .shown = ANY),
	ZYGOTE("an", TFC__UINT, anonymous_bytes, TFC__V0_3, .json = "anonymous_bytes",
	       .shown = ANY),
};
static const char *const no_names[] = {NULL};
static const tfc_zygote no_zygote = {
	.size = sizeof(no_zygote), .node = "", .interpreter = "", .modules = no_names, .text = ""};
static const struct tfc__fields zygote_fields = TFC__FIELDS(zygote_rows, tfc_zygote, &no_zygote);

static uint32_t variant_of_job(const void *message)
{
	const tfc_job_info *job = message;
	if (job->state == TFC_JOB_DAMAGED)
		return DAMAGED;
	return INTACT | (job->state >= TFC_JOB_SUCCEEDED ? ENDED : 0);
}

#define JOB(...) TFC__FIELD(tfc_job_info, __VA_ARGS__)
static const struct tfc__field job_rows[] = {
	JOB("job", TFC__STRING, job, TFC__V0_3, .json = "job", .shown = ANY),
	JOB("name", TFC__STRING, name, TFC__V0_3, .json = "name", .shown = ANY),
	JOB("state", TFC__UINT, state, TFC__V0_3, .json = "state", .shown = ANY,
	    .word = tfc_job_state_name),
	JOB("maintainer", TFC__STRING, maintainer, TFC__V0_3, .json = "maintainer", .shown = ANY),
	JOB("text", TFC__STRING, text, TFC__V0_3, .json = "text", .shown_if_set = ANY),
	JOB("reason", TFC__UINT, reason, TFC__V0_3, .json = "reason", .shown = ENDED,
	    .word = tfc_end_reason_name),
	JOB("exit_status", TFC__INT, exit_status, TFC__V0_3, .json = "exit", .shown = ENDED),
	JOB("decided_by", TFC__STRING, decided_by, TFC__V0_3, .json = "decided_by",
	    .shown_if_set = ENDED),
	JOB("generation", TFC__UINT, generation, TFC__V0_3, .json = "generation", .shown = INTACT),
	JOB("epoch", TFC__UINT, epoch, TFC__V0_3, .json = "epoch", .shown = INTACT),
	JOB("submitted", TFC__UINT, submitted_ns, TFC__V0_3, .json = "submitted", .shown = INTACT,
	    .show = show_time),
	JOB("started", TFC__UINT, started_ns, TFC__V0_3, .json = "started", .shown_if_set = INTACT,
	    .show = show_time),
	JOB("ended", TFC__UINT, ended_ns, TFC__V0_3, .json = "ended", .shown_if_set = INTACT,
	    .show = show_time),
	JOB("age_ms", TFC__UINT, age_ms, TFC__V0_3, .json = "age_s", .shown = INTACT,
	    .show = show_seconds),
	JOB("task_count", TFC__UINT, task_count, TFC__V0_3, .json = "task_count", .shown = INTACT),
	JOB("ready", TFC__UINT, ready_count, TFC__V0_3, .json = "ready", .shown = INTACT),
	JOB("restarts", TFC__UINT, restarts, TFC__V0_3, .json = "restarts", .shown = INTACT),
	JOB("incidents", TFC__UINT, incidents, TFC__V0_3, .json = "incidents", .shown = INTACT),
	JOB("nodes", TFC__LINES, nodes, TFC__V0_3, .json = "nodes", .shown = INTACT),
	JOB("tag", TFC__BYTES, host_tag, TFC__V0_3, .count = offsetof(tfc_job_info, host_tag_len)),
	JOB("exit_code", TFC__INT, exit_code, TFC__V0_3),
	JOB("signal", TFC__INT, signal, TFC__V0_3),
	JOB("error", TFC__INT, error_code, TFC__V0_3),
	JOB("zygotes", TFC__MESSAGES, zygotes, TFC__V0_3,
	    .count = offsetof(tfc_job_info, zygote_count), .max = ITEMS_MAX, .json = "zygotes",
	    .shown_if_set = DESCRIBED, .nested = &zygote_fields),
	JOB("tasks", TFC__MESSAGES, tasks, TFC__V0_3,
	    .count = offsetof(tfc_job_info, described_tasks), .max = ITEMS_MAX, .json = "tasks",
	    .shown = DESCRIBED | DAMAGED, .nested = &task_fields),
};
static const tfc_job_info no_job = {.size = sizeof(no_job),
				    .job = "",
				    .name = "",
				    .maintainer = "",
				    .text = "",
				    .decided_by = "",
				    .exit_status = -1,
				    .nodes = no_names,
				    .task_size = sizeof(tfc_job_task),
				    .zygote_size = sizeof(tfc_zygote)};
static const struct tfc__fields job_fields = {.fields = job_rows,
					      .count = sizeof(job_rows) / sizeof(job_rows[0]),
					      .size = sizeof(tfc_job_info),
					      .initial = &no_job,
					      .variant_of = variant_of_job};

#define MISSING(...) TFC__FIELD(tfc_missing_node, __VA_ARGS__)
static const struct tfc__field missing_rows[] = {
	MISSING("node", TFC__STRING, node, TFC__V0_3, .json = "node", .shown = ANY),
	MISSING("reason", TFC__STRING, reason, TFC__V0_3, .json = "reason", .shown = ANY),
};
static const tfc_missing_node no_missing = {.size = sizeof(no_missing), .node = "", .reason = ""};
static const struct tfc__fields missing_fields = TFC__FIELDS(missing_rows, tfc_missing_node,
							     &no_missing);

#define JOBS(...) TFC__FIELD(tfc_jobs, __VA_ARGS__)
static const struct tfc__field jobs_rows[] = {
	JOBS("jobs", TFC__MESSAGES, jobs, TFC__V0_3, .count = offsetof(tfc_jobs, job_count),
	     .max = ITEMS_MAX, .json = "jobs", .shown = ANY, .nested = &job_fields),
	JOBS("not_asked", TFC__MESSAGES, missing, TFC__V0_3,
	     .count = offsetof(tfc_jobs, missing_count), .max = ITEMS_MAX, .json = "not_asked",
	     .shown = ANY, .nested = &missing_fields),
};
static const tfc_jobs no_jobs = {.size = sizeof(no_jobs),
				 .job_size = sizeof(tfc_job_info),
				 .missing_size = sizeof(tfc_missing_node)};
static const struct tfc__fields jobs_fields = TFC__FIELDS(jobs_rows, tfc_jobs, &no_jobs);

/* "NAME=value" lines as an object; a line without a value is null. */
static void show_pairs(struct tfc__json_writer *json, const struct tfc__field *field,
		       const void *message)
{
	const char *const *pair = *(const char *const *const *)value_at(field, message);
	tfc__json_begin(json, '{');
	for (; pair && *pair; pair++) {
		size_t len = strcspn(*pair, "=");
		tfc__json_name_bytes(json, *pair, len);
		tfc__json_text(json, (*pair)[len] ? *pair + len + 1 : NULL);
	}
	tfc__json_end(json, '}');
}

#define MEMBER(...) TFC__FIELD(tfc_member_info, __VA_ARGS__)
static const struct tfc__field member_rows[] = {
	MEMBER("name", TFC__STRING, name, TFC__V0_3, .json = "name", .shown = ANY),
	MEMBER("state", TFC__UINT, state, TFC__V0_3, .json = "state", .shown = ANY,
	       .word = tfc_member_state_name),
	MEMBER("address", TFC__STRING, address, TFC__V0_3, .json = "address", .shown_if_set = ANY),
	MEMBER("node_id", TFC__STRING, node_id, TFC__V0_3, .json = "node_id", .shown_if_set = ANY),
	MEMBER("self", TFC__BOOL, is_self, TFC__V0_3, .json = "self", .shown = ANY),
	MEMBER("draining", TFC__BOOL, is_draining, TFC__V0_3, .json = "draining", .shown = ANY),
	MEMBER("slots", TFC__UINT, slots, TFC__V0_3, .json = "slots", .shown = ANY),
	MEMBER("memory", TFC__UINT, memory_bytes, TFC__V0_3, .json = "memory", .shown = ANY),
	MEMBER("gpus", TFC__UINT, gpus, TFC__V0_3, .json = "gpus", .shown = ANY),
	MEMBER("labels", TFC__LINES, labels, TFC__V0_3, .json = "labels", .shown = ANY,
	       .show = show_pairs),
	MEMBER("silent_ms", TFC__UINT, silent_ms, TFC__V0_3, .json = "silent_s",
	       .shown_if_set = ANY, .show = show_seconds),
	MEMBER("rtt_us", TFC__UINT, rtt_us, TFC__V0_3, .json = "rtt_us", .shown_if_set = ANY),
	MEMBER("was_reached", TFC__BOOL, was_reached, TFC__V0_3),
};
static const tfc_member_info no_member = {.size = sizeof(no_member), .name = ""};
static const struct tfc__fields member_fields = TFC__FIELDS(member_rows, tfc_member_info,
							    &no_member);

static const struct tfc__field members_rows[] = {
	TFC__FIELD(tfc_members, "members", TFC__MESSAGES, members, TFC__V0_3,
		   .count = offsetof(tfc_members, member_count), .max = ITEMS_MAX,
		   .json = "members", .shown = ANY, .nested = &member_fields),
};
static const tfc_members no_members = {.size = sizeof(no_members),
				       .member_size = sizeof(tfc_member_info)};
static const struct tfc__fields members_fields = TFC__FIELDS(members_rows, tfc_members,
							     &no_members);

static void show_planned_task(struct tfc__json_writer *json, const struct tfc__field *field,
			      const void *message)
{
	const tfc_task_plan *plan = message;
	tfc__json_textf(json, "%s/%u", plan->task_type, plan->task_index);
}

#define PLAN(...) TFC__FIELD(tfc_task_plan, __VA_ARGS__)
static const struct tfc__field plan_rows[] = {
	PLAN(NULL, TFC__STRING, task_type, TFC__V0_3, .json = "task", .shown = ANY,
	     .show = show_planned_task),
	PLAN("tt", TFC__STRING, task_type, TFC__V0_3),
	PLAN("ti", TFC__UINT, task_index, TFC__V0_3),
	PLAN("n", TFC__STRING, node, TFC__V0_3, .json = "node", .shown = ANY),
	PLAN("ad", TFC__STRING, address, TFC__V0_3, .json = "address", .shown = ANY),
	PLAN("port", TFC__UINT, port, TFC__V0_3, .json = "port", .shown = ANY),
	PLAN("cwd", TFC__STRING, cwd, TFC__V0_3, .json = "cwd", .shown = ANY),
	PLAN("argv", TFC__LINES, argv, TFC__V0_3, .json = "argv", .shown = ANY),
	PLAN("env", TFC__LINES, env, TFC__V0_3, .json = "env", .shown = ANY, .show = show_pairs),
	PLAN("inherited", TFC__UINT, inherited_count, TFC__V0_3, .json = "inherited", .shown = ANY),
	PLAN("stall", TFC__UINT, stall_ms, TFC__V0_3, .json = "stall_s", .shown = ANY,
	     .show = show_seconds),
	PLAN("ml", TFC__UINT, memory_limit, TFC__V0_3, .json = "memory_limit", .shown_if_set = ANY),
	PLAN("mr", TFC__BOOL, is_memory_limit_required, TFC__V0_3, .json = "memory_limit_required",
	     .shown_if_set = ANY),
};
static const tfc_task_plan no_plan = {.size = sizeof(no_plan),
				      .task_type = "",
				      .node = "",
				      .address = "",
				      .cwd = "",
				      .argv = no_names,
				      .env = no_names};
static const struct tfc__fields plan_fields = TFC__FIELDS(plan_rows, tfc_task_plan, &no_plan);

#define EXPLANATION(...) TFC__FIELD(tfc_explanation, __VA_ARGS__)
static const struct tfc__field explanation_rows[] = {
	EXPLANATION("strategy", TFC__UINT, strategy, TFC__V0_3, .json = "strategy", .shown = ANY,
		    .word = tfc_strategy_name),
	EXPLANATION("name", TFC__STRING, name, TFC__V0_3, .json = "name", .shown = ANY),
	EXPLANATION("tasks", TFC__MESSAGES, tasks, TFC__V0_3,
		    .count = offsetof(tfc_explanation, task_count), .max = ITEMS_MAX,
		    .json = "tasks", .shown = ANY, .nested = &plan_fields),
};
static const tfc_explanation no_explanation = {.size = sizeof(no_explanation),
					       .name = "",
					       .task_size = sizeof(tfc_task_plan)};
static const struct tfc__fields explanation_fields = TFC__FIELDS(explanation_rows, tfc_explanation,
								 &no_explanation);

/* ---- writing */

void tfc__job_write(struct tfc__buf *buf, const tfc_job_info *job)
{
	tfc__fields_write(buf, &job_fields, job);
}

void tfc__job_write_head(struct tfc__buf *buf, const tfc_job_info *job)
{
	tfc__msg_map(buf, tfc__fields_pairs(&job_fields, job) + 1);
	tfc__fields_put(buf, &job_fields, job);
	tfc__msg_str(buf, "tasks");
	tfc__msg_array(buf, job->task_count);
}

void tfc__job_task_write(struct tfc__buf *buf, const tfc_job_task *task)
{
	tfc__fields_write(buf, &task_fields, task);
}

void tfc__member_write(struct tfc__buf *buf, const tfc_member_info *member)
{
	tfc__fields_write(buf, &member_fields, member);
}

void tfc__task_plan_write(struct tfc__buf *buf, const tfc_task_plan *plan)
{
	tfc__fields_write(buf, &plan_fields, plan);
}

void tfc__explanation_write_head(struct tfc__buf *buf, const tfc_explanation *explanation)
{
	tfc__msg_map(buf, tfc__fields_pairs(&explanation_fields, explanation) + 1);
	tfc__fields_put(buf, &explanation_fields, explanation);
	tfc__msg_str(buf, "tasks");
	tfc__msg_array(buf, explanation->task_count);
}

void tfc__missing_node_write(struct tfc__buf *buf, const char *node, const char *reason)
{
	const tfc_missing_node missing = {.node = node, .reason = reason};
	tfc__fields_write(buf, &missing_fields, &missing);
}

static void add_items(struct tfc__buf *buf, const char *key, const struct tfc__result_items *items)
{
	tfc__msg_str(buf, key);
	tfc__msg_array(buf, items->count);
	tfc__buf_add(buf, items->items.data, items->items.len);
	buf->is_failed = buf->is_failed || items->items.is_failed;
}

void tfc__jobs_write(struct tfc__buf *buf, const struct tfc__result_items *jobs,
		     const struct tfc__result_items *missing)
{
	tfc__msg_map(buf, 2);
	add_items(buf, "jobs", jobs);
	add_items(buf, "not_asked", missing);
}

void tfc__members_write(struct tfc__buf *buf, const struct tfc__result_items *members)
{
	tfc__msg_map(buf, 1);
	add_items(buf, "members", members);
}

int tfc__jobs_append(struct tfc__result_items *jobs, const void *data, size_t len, tfc_error *error)
{
	const struct tfc__msg_limits limits = {.objects = OBJECTS_MAX};
	const msgpack_object *items;
	struct tfc__msg msg;
	int code = tfc__msg_parse(&msg, data, len, &limits, error);
	if (code < 0)
		return code;
	uint32_t count = tfc__msg_get_array(&msg.root, "jobs", &items);
	for (uint32_t i = 0; i < count; i++)
		tfc__msg_object(&jobs->items, &items[i]);
	jobs->count += count;
	tfc__msg_fini(&msg);
	return TFC_OK;
}

/* ---- reading */

bool tfc__is_typed(enum tfc_verb verb)
{
	return verb == TFC_VERB_JOBS || verb == TFC_VERB_DESCRIBE || verb == TFC_VERB_MEMBERS ||
	       verb == TFC_VERB_EXPLAIN;
}

/* The struct of a verb, and its table. */
static void *result_of(struct tfc__result *result, enum tfc_verb verb,
		       const struct tfc__fields **ret_table)
{
	switch (verb) {
	case TFC_VERB_JOBS:
		*ret_table = &jobs_fields;
		return &result->jobs;
	case TFC_VERB_MEMBERS:
		*ret_table = &members_fields;
		return &result->members;
	case TFC_VERB_EXPLAIN:
		*ret_table = &explanation_fields;
		return &result->explanation;
	default:
		*ret_table = &job_fields;
		return &result->job;
	}
}

int tfc__result_read(struct tfc__result *result, enum tfc_verb verb, const void *data, size_t len,
		     tfc_error *error)
{
	const struct tfc__msg_limits limits = {.objects = OBJECTS_MAX};
	struct tfc__json_writer *json = &result->json;
	const struct tfc__fields *table;
	void *message = result_of(result, verb, &table);
	struct tfc__msg msg;
	int code = tfc__msg_parse(&msg, data, len, &limits, error);
	if (code < 0)
		return code;
	memcpy(message, table->initial, table->size);
	code = tfc__fields_read(&result->reader, table, &msg.root, error, message);
	tfc__msg_fini(&msg);
	if (code < 0)
		return code;
	if (verb == TFC_VERB_MEMBERS) /* a list, not an object with a list */
		tfc__fields_json_value(json, &members_rows[0], message, LISTED);
	else
		tfc__fields_json_object(json, table, message,
					verb == TFC_VERB_JOBS ? LISTED : DESCRIBED);
	return json->buf.is_failed ? tfc__fail_nomem(error, "gateway") : TFC_OK;
}

void tfc__result_set(const struct tfc__result *result, enum tfc_verb verb, tfc_reply *reply)
{
	reply->jobs = verb == TFC_VERB_JOBS ? &result->jobs : NULL;
	reply->job = verb == TFC_VERB_DESCRIBE ? &result->job : NULL;
	reply->members = verb == TFC_VERB_MEMBERS ? &result->members : NULL;
	reply->explanation = verb == TFC_VERB_EXPLAIN ? &result->explanation : NULL;
}

void tfc__result_fini(struct tfc__result *result)
{
	tfc__reader_fini(&result->reader);
	tfc__buf_fini(&result->json.buf);
}

/* ---- lists of the host */

static const void *result_item_at(const void *items, uint32_t size, uint32_t count, uint32_t index)
{
	return items && index < count ? (const char *)items + (size_t)index * size : NULL;
}

const tfc_job_task *tfc_job_info_task(const tfc_job_info *job, uint32_t index)
{
	return job ? result_item_at(job->tasks, job->task_size, job->described_tasks, index) : NULL;
}

const tfc_zygote *tfc_job_info_zygote(const tfc_job_info *job, uint32_t index)
{
	return job ? result_item_at(job->zygotes, job->zygote_size, job->zygote_count, index)
		   : NULL;
}

const tfc_job_info *tfc_jobs_at(const tfc_jobs *jobs, uint32_t index)
{
	return jobs ? result_item_at(jobs->jobs, jobs->job_size, jobs->job_count, index) : NULL;
}

const tfc_missing_node *tfc_jobs_missing_at(const tfc_jobs *jobs, uint32_t index)
{
	return jobs ? result_item_at(jobs->missing, jobs->missing_size, jobs->missing_count, index)
		    : NULL;
}

const tfc_member_info *tfc_members_at(const tfc_members *members, uint32_t index)
{
	return members ? result_item_at(members->members, members->member_size,
					members->member_count, index)
		       : NULL;
}

const tfc_task_plan *tfc_explanation_task(const tfc_explanation *explanation, uint32_t index)
{
	return explanation ? result_item_at(explanation->tasks, explanation->task_size,
					    explanation->task_count, index)
			   : NULL;
}
