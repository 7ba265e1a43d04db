#include "node/agent_wire.h"

#include <string.h>

static bool read_spec_text(const msgpack_object *value, char *text, size_t size)
{
	size_t len;
	const void *bytes = tfc__msg_bytes(value, &len);
	if (!bytes || len >= size)
		return false;
	memcpy(text, bytes, len);
	text[len] = 0;
	return true;
}

/* ---- orders */

static int write_spec_task(void *user, const char *task_type, uint32_t task_index,
			   const char *address)
{
	struct tfc__buf *buf = user;
	tfc__msg_array(buf, 3);
	tfc__msg_str(buf, task_type);
	tfc__msg_u64(buf, task_index);
	tfc__msg_str(buf, address);
	return 0;
}

static void write_spec(struct tfc__buf *buf, const void *value)
{
	const tfc_spec *spec = value;
	tfc__msg_array(buf, tfc_spec_count(spec, NULL));
	tfc_spec_each(spec, write_spec_task, buf);
}

static int read_spec_task(const msgpack_object *item, tfc_spec *spec, tfc_error *error)
{
	char type[64], address[300];
	const msgpack_object *parts = item->via.array.ptr;
	if (item->type != MSGPACK_OBJECT_ARRAY || item->via.array.size < 3 ||
	    parts[1].type != MSGPACK_OBJECT_POSITIVE_INTEGER || parts[1].via.u64 > UINT32_MAX ||
	    !read_spec_text(&parts[0], type, sizeof(type)) ||
	    !read_spec_text(&parts[2], address, sizeof(address)))
		return tfc__fail(error, TFC_EPARSE, "node", 0,
				 "one of its tasks is not well-formed");
	return tfc_spec_add(spec, type, (uint32_t)parts[1].via.u64, address, error);
}

static int read_spec(const msgpack_object *object, tfc_error *error, void **ret_value)
{
	tfc_spec *spec;
	tfc_spec_free(*ret_value);
	*ret_value = NULL;
	if (object->type != MSGPACK_OBJECT_ARRAY)
		return tfc__fail(error, TFC_EPARSE, "node", 0, "must be a list");
	if (tfc_spec_new(&spec) < 0)
		return tfc__fail_nomem(error, "node");
	*ret_value = spec;
	for (uint32_t i = 0; i < object->via.array.size; i++) {
		int code = read_spec_task(&object->via.array.ptr[i], spec, error);
		if (code < 0)
			return code;
	}
	return TFC_OK;
}

static const struct tfc__field_custom spec_value = {write_spec, read_spec};

#define ORDER(...) TFC__FIELD(struct tfc__task_order, __VA_ARGS__)
static const struct tfc__field order_rows[] = {
	ORDER("order", TFC__UINT, kind, TFC__V0_2),
	ORDER("task", TFC__UINT, task, TFC__V0_2),
	ORDER("number", TFC__UINT, number, TFC__V0_2),
	ORDER("attempt", TFC__UINT, attempt, TFC__V0_2),
	ORDER("generation", TFC__UINT, generation, TFC__V0_2),
	ORDER("env", TFC__LINES, env, TFC__V0_2),
	ORDER("spec", TFC__CUSTOM, spec, TFC__V0_2, .custom = &spec_value),
	ORDER("hosts", TFC__LINES, hosts, TFC__V0_3),
};
static const struct tfc__fields order_fields = TFC__FIELDS(order_rows, struct tfc__task_order,
							   NULL);

void tfc__order_write(struct tfc__buf *buf, const struct tfc__task_order *order)
{
	tfc__fields_write(buf, &order_fields, order);
}

int tfc__order_read(struct tfc__reader *reader, const msgpack_object *object, tfc_error *error,
		    struct tfc__task_order *ret_order)
{
	int code = tfc__fields_read(reader, &order_fields, object, error, ret_order);
	for (const char *const *item = ret_order->env; code == TFC_OK && item && *item; item++)
		if (!strchr(*item, '='))
			code = tfc__fail(error, TFC_EPARSE, "node", 0,
					 "env: must have a '=' in each line");
	if (code == TFC_OK && ret_order->kind == TFC__ORDER_SPEC && !ret_order->spec)
		code = tfc__fail(error, TFC_EPARSE, "node", 0, "spec: is missing");
	return code;
}

/* ---- events */

#define INSPECTED(...) TFC__FIELD(struct tfc__inspected, __VA_ARGS__)
static const struct tfc__field inspected_rows[] = {
	INSPECTED("task", TFC__UINT, task, TFC__V0_2),
	INSPECTED("text", TFC__TEXT, text, TFC__V0_2),
};
static const struct tfc__fields inspected_fields = TFC__FIELDS(inspected_rows,
							       struct tfc__inspected, NULL);

#define ZYGOTE(...) TFC__FIELD(tfc_zygote, __VA_ARGS__)
static const struct tfc__field zygote_rows[] = {
	ZYGOTE("state", TFC__UINT, state, TFC__V0_3),
	ZYGOTE("interpreter", TFC__STRING, interpreter, TFC__V0_3),
	ZYGOTE("modules", TFC__LINES, modules, TFC__V0_3),
	ZYGOTE("text", TFC__STRING, text, TFC__V0_3),
	ZYGOTE("pid", TFC__INT, pid, TFC__V0_3),
	ZYGOTE("attempts", TFC__UINT, attempts, TFC__V0_3),
	ZYGOTE("time", TFC__TIME, started_ns, TFC__V0_3),
	ZYGOTE("rss", TFC__UINT, rss_bytes, TFC__V0_3),
	ZYGOTE("anonymous", TFC__UINT, anonymous_bytes, TFC__V0_3),
};
static const char *const no_modules[] = {NULL};
static const tfc_zygote no_zygote = {.size = sizeof(no_zygote),
				     .node = "",
				     .interpreter = "",
				     .modules = no_modules,
				     .text = ""};
static const struct tfc__fields zygote_fields = TFC__FIELDS(zygote_rows, tfc_zygote, &no_zygote);

#define EVENT(...) TFC__FIELD(struct tfc__task_event, __VA_ARGS__)
static const struct tfc__field process_rows[] = {
	EVENT("kind", TFC__UINT, process, TFC__V0_2),
	EVENT("pid", TFC__INT, pid, TFC__V0_2),
	EVENT("reason", TFC__UINT, end.reason, TFC__V0_2),
	EVENT("status", TFC__INT, end.status, TFC__V0_2),
	EVENT("oom", TFC__BOOL, end.is_oom, TFC__V0_2),
	EVENT("time", TFC__TIME, end.time_ns, TFC__V0_2),
	EVENT("user_us", TFC__UINT, end.user_us, TFC__V0_2),
	EVENT("system_us", TFC__UINT, end.system_us, TFC__V0_2),
	EVENT("rss_kib", TFC__UINT, end.max_rss_kib, TFC__V0_2),
	EVENT("log_gap", TFC__UINT, end.log_gap, TFC__V0_2),
	EVENT("isolation", TFC__UINT, isolation, TFC__V0_2),
	EVENT("memory_limit", TFC__UINT, memory_limit, TFC__V0_3),
	EVENT("memory_limit_reached", TFC__UINT, end.memory_limit, TFC__V0_3),
};
static const struct tfc__fields process_fields = TFC__FIELDS(process_rows, struct tfc__task_event,
							     NULL);

static const struct tfc__field event_rows[] = {
	EVENT("event", TFC__UINT, kind, TFC__V0_2),
	EVENT("task", TFC__UINT, task, TFC__V0_2),
	EVENT("attempt", TFC__UINT, attempt, TFC__V0_2),
	EVENT("missing", TFC__UINT, missing, TFC__V0_2),
	EVENT("number", TFC__UINT, number, TFC__V0_2),
	EVENT("ports", TFC__UINT, ports, TFC__V0_3),
	EVENT("full", TFC__BOOL, is_full, TFC__V0_2),
	EVENT("lasting", TFC__BOOL, is_lasting, TFC__V0_3),
	EVENT("stranger", TFC__BOOL, end.is_port_occupied, TFC__V0_2),
	EVENT("crowded", TFC__BOOL, end.is_bind_failed, TFC__V0_2),
	EVENT("notice", TFC__BOOL, end.had_notice, TFC__V0_3),
	EVENT("silent_ms", TFC__UINT, silent_ms, TFC__V0_2),
	EVENT("activity", TFC__UINT, activity, TFC__V0_3),
	EVENT("log_end", TFC__UINT, end.log_end, TFC__V0_2),
	EVENT("address", TFC__STRING, address, TFC__V0_2),
	EVENT("text", TFC__STRING, text, TFC__V0_2),
	EVENT("states", TFC__BYTES, states, TFC__V0_2,
	      .count = offsetof(struct tfc__task_event, state_count)),
	EVENT("looked", TFC__MESSAGES, inspected, TFC__V0_2, .nested = &inspected_fields,
	      .max = TFC__INSPECTED_MAX,
	      .count = offsetof(struct tfc__task_event, inspected_count)),
	{.name = "process", .type = TFC__GROUP, .since = TFC__V0_2, .nested = &process_fields},
	EVENT("log_tail", TFC__LINES, log_tail, TFC__V0_2, .max = TFC__LOG_TAIL_LINES),
	EVENT("error_line", TFC__STRING, error_line, TFC__V0_3),
	EVENT("zygote", TFC__MESSAGE, zygote, TFC__V0_3, .nested = &zygote_fields),
};
static const struct tfc__task_event no_event = {.address = ""};
static const struct tfc__fields event_fields = TFC__FIELDS(event_rows, struct tfc__task_event,
							   &no_event);

void tfc__event_write(struct tfc__buf *buf, const struct tfc__task_event *event)
{
	tfc__fields_write(buf, &event_fields, event);
}

int tfc__event_read(struct tfc__reader *reader, const msgpack_object *object, uint32_t task_count,
		    tfc_error *error, struct tfc__task_event *ret_event)
{
	struct tfc__task_event *event = ret_event;
	*event = no_event; /* also what is not on the wire */
	int code = tfc__fields_read(reader, &event_fields, object, error, event);
	if (code < 0)
		return code;
	bool is_of_agent = event->kind <= TFC__AGENT_STATES || event->kind == TFC__AGENT_NOTICE ||
			   event->kind == TFC__AGENT_ZYGOTE;
	if (!is_of_agent) /* a remote agent does not report the other kinds */
		event->kind = 0;
	if (event->activity > TFC__ACTIVITY_OWN_WORK)
		event->activity = TFC__ACTIVITY_UNKNOWN;
	bool has_tasks = event->task < task_count;
	for (uint32_t i = 0; i < event->inspected_count; i++)
		has_tasks = has_tasks && event->inspected[i].task < task_count;
	if (!has_tasks)
		return tfc__fail(error, TFC_EPARSE, "node", 0,
				 "task: must be below %u, the number of the job's tasks",
				 task_count);
	if (event->states ? event->state_count != task_count : event->kind == TFC__AGENT_STATES)
		return tfc__fail(error, TFC_EPARSE, "node", 0, "states: must have %u bytes",
				 task_count);
	bool is_of_process = event->kind == TFC__AGENT_STARTED || event->kind == TFC__AGENT_EXITED;
	if (is_of_process && !event->process)
		return tfc__fail(error, TFC_EPARSE, "node", 0, "process: is missing");
	return TFC_OK;
}
