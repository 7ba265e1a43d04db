#include "node/agent_wire.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/strv.h"

bool tfc__text_read(const msgpack_object *value, char *text, size_t size)
{
	size_t len;
	const void *bytes = tfc__msg_bytes(value, &len);
	if (!bytes || len >= size)
		return false;
	memcpy(text, bytes, len);
	text[len] = 0;
	return true;
}

bool tfc__job_id_read(const msgpack_object *value, char id[TFC__JOB_ID_SIZE])
{
	return tfc__text_read(value, id, TFC__JOB_ID_SIZE) && tfc__is_job_id(id);
}

static void put_texts(struct tfc__buf *buf, const char *key, const char *const *texts)
{
	uint32_t count = 0;
	while (texts[count])
		count++;
	tfc__msg_str(buf, key);
	tfc__msg_array(buf, count);
	for (uint32_t i = 0; i < count; i++)
		tfc__msg_str(buf, texts[i]);
}

void tfc__ids_write(struct tfc__buf *buf, const struct tfc__strv *ids)
{
	static const char *const none[] = {NULL};
	tfc__msg_map(buf, 1);
	put_texts(buf, "ids", ids->count ? (const char *const *)ids->items : none);
}

/* ---- orders */

static int add_task(void *user, const char *task_type, uint32_t task_index, const char *address)
{
	struct tfc__buf *buf = user;
	tfc__msg_array(buf, 3);
	tfc__msg_str(buf, task_type);
	tfc__msg_u64(buf, task_index);
	tfc__msg_str(buf, address);
	return 0;
}

void tfc__order_write(struct tfc__buf *buf, const struct tfc__order *order)
{
	tfc__msg_map(buf, 5 + !!order->spec + !!order->env);
	tfc__msg_put_u64(buf, "order", order->kind);
	tfc__msg_put_u64(buf, "task", order->task);
	tfc__msg_put_u64(buf, "number", order->number);
	tfc__msg_put_u64(buf, "attempt", order->attempt);
	tfc__msg_put_u64(buf, "generation", order->generation);
	if (order->env)
		put_texts(buf, "env", order->env);
	if (!order->spec)
		return;
	tfc__msg_str(buf, "spec");
	tfc__msg_array(buf, tfc_spec_count(order->spec, NULL));
	tfc_spec_each(order->spec, add_task, buf);
}

static uint32_t get_u32(const msgpack_object *map, const char *key)
{
	return (uint32_t)tfc__msg_get_u64(map, key, 0);
}

void tfc__order_read(const msgpack_object *object, struct tfc__order *ret_order)
{
	uint32_t kind = get_u32(object, "order");
	*ret_order = (struct tfc__order){
		.kind = kind <= TFC__ORDER_ENV ? (enum tfc__order_kind)kind : 0,
		.task = get_u32(object, "task"),
		.number = get_u32(object, "number"),
		.attempt = get_u32(object, "attempt"),
		.generation = get_u32(object, "generation"),
	};
}

void tfc__order_read_env(const msgpack_object *object, struct tfc__strv *ret_env)
{
	const msgpack_object *items;
	uint32_t count = tfc__msg_get_array(object, "env", &items);
	*ret_env = (struct tfc__strv){0};
	for (uint32_t i = 0; i < count; i++) {
		size_t len;
		const char *text = tfc__msg_bytes(&items[i], &len);
		if (text && !memchr(text, '\0', len) && memchr(text, '=', len))
			tfc__strv_take(ret_env, strndup(text, len));
	}
}

static int read_task(const msgpack_object *item, tfc_spec *spec, tfc_error *error)
{
	char type[64], address[300];
	const msgpack_object *parts = item->via.array.ptr;
	if (item->type != MSGPACK_OBJECT_ARRAY || item->via.array.size < 3 ||
	    parts[1].type != MSGPACK_OBJECT_POSITIVE_INTEGER || parts[1].via.u64 > UINT32_MAX ||
	    !tfc__text_read(&parts[0], type, sizeof(type)) ||
	    !tfc__text_read(&parts[2], address, sizeof(address)))
		return tfc__fail(error, TFC_EPARSE, "node", 0, "a cluster spec is not well-formed");
	return tfc_spec_add(spec, type, (uint32_t)parts[1].via.u64, address, error);
}

int tfc__order_read_spec(const msgpack_object *object, tfc_error *error, tfc_spec **ret_spec)
{
	const msgpack_object *items;
	uint32_t count = tfc__msg_get_array(object, "spec", &items);
	tfc_spec *spec;
	if (tfc_spec_new(&spec) < 0)
		return tfc__fail_nomem(error, "node");
	int code = TFC_OK;
	for (uint32_t i = 0; i < count && code == TFC_OK; i++)
		code = read_task(&items[i], spec, error);
	if (code < 0)
		tfc_spec_free(spec);
	else
		*ret_spec = spec;
	return code;
}

/* ---- the link */

void tfc__link_write(struct tfc__buf *buf, uint64_t instance, uint64_t handle,
		     struct tfc__agent_link *link, const struct tfc__agent_link_message *message)
{
	tfc__msg_map(buf, message ? 5 : 3);
	tfc__msg_put_u64(buf, "instance", instance);
	tfc__msg_put_u64(buf, "handle", handle);
	tfc__msg_put_u64(buf, "ack", tfc__agent_link_ack(link));
	if (!message)
		return;
	tfc__msg_put_u64(buf, "n", message->number);
	tfc__msg_str(buf, "body");
	tfc__buf_add(buf, message->data, message->len);
}

int tfc__link_read(struct tfc__agent_link *link, const msgpack_object *params)
{
	int code = tfc__agent_link_clear(link, tfc__msg_get_u64(params, "ack", 0));
	if (code < 0 || !tfc__msg_get(params, "body"))
		return code;
	return tfc__agent_link_take(link, tfc__msg_get_u64(params, "n", 0));
}

/* ---- events, written */

static uint64_t boot_time_of(uint64_t wall_ns)
{
	uint64_t ago = tfc__wall() - wall_ns, now = tfc__boot_time();
	return ago < now ? now - ago : now; /* a clock that was set back */
}

static void put_process(struct tfc__buf *buf, const tfc_process_event *process)
{
	tfc__msg_str(buf, "process");
	tfc__msg_map(buf, 14);
	tfc__msg_put_u64(buf, "kind", process->kind);
	tfc__msg_put_i64(buf, "pid", process->pid);
	tfc__msg_put_u64(buf, "reason", process->reason);
	tfc__msg_put_i64(buf, "status", process->status);
	tfc__msg_put_bool(buf, "oom", process->is_oom);
	tfc__msg_put_u64(buf, "time", boot_time_of(process->time_ns));
	tfc__msg_put_u64(buf, "user_us", process->user_us);
	tfc__msg_put_u64(buf, "system_us", process->system_us);
	tfc__msg_put_u64(buf, "rss_kib", process->max_rss_kib);
	tfc__msg_put_u64(buf, "log_end", process->log_end);
	tfc__msg_put_u64(buf, "log_dropped", process->log_dropped);
	tfc__msg_put_u64(buf, "log_gap", process->log_gap);
	tfc__msg_put_u64(buf, "isolation", process->isolation);
	tfc__msg_put_str(buf, "text", process->text);
}

static void put_looked(struct tfc__buf *buf, const struct tfc__agent_event *event)
{
	tfc__msg_str(buf, "looked");
	tfc__msg_array(buf, event->looked_count);
	for (uint32_t i = 0; i < event->looked_count; i++) {
		tfc__msg_map(buf, 2);
		tfc__msg_put_u64(buf, "task", event->looked[i].task);
		tfc__msg_put_str(buf, "text", event->looked[i].text);
	}
}

void tfc__event_write(struct tfc__buf *buf, const struct tfc__agent_event *event,
		      uint32_t task_count, char *const *log_tail)
{
	uint32_t pairs = 16 + !!event->states + !!event->looked_count + !!event->process +
			 !!log_tail;
	tfc__msg_map(buf, pairs);
	tfc__msg_put_u64(buf, "event", event->kind);
	tfc__msg_put_u64(buf, "task", event->task);
	tfc__msg_put_u64(buf, "attempt", event->attempt);
	tfc__msg_put_u64(buf, "missing", event->missing);
	tfc__msg_put_u64(buf, "number", event->query);
	tfc__msg_put_u64(buf, "ports", event->ports);
	tfc__msg_put_bool(buf, "full", event->is_full);
	tfc__msg_put_bool(buf, "lasting", event->is_lasting);
	tfc__msg_put_bool(buf, "stranger", event->is_stranger);
	tfc__msg_put_bool(buf, "crowded", event->is_crowded_out);
	tfc__msg_put_bool(buf, "notice", event->had_notice);
	tfc__msg_put_u64(buf, "silent_ms", event->silent_ms);
	tfc__msg_put_u64(buf, "activity", event->activity);
	tfc__msg_put_u64(buf, "log_end", event->log_end);
	tfc__msg_put_str(buf, "address", event->address);
	tfc__msg_put_str(buf, "text", event->text);
	if (event->states)
		tfc__msg_put_bin(buf, "states", event->states, task_count);
	if (event->looked_count)
		put_looked(buf, event);
	if (event->process)
		put_process(buf, event->process);
	if (log_tail)
		put_texts(buf, "log_tail", (const char *const *)log_tail);
}

/* ---- events, read */

static uint64_t wall_time_of(uint64_t boot_ns, int64_t ahead_ns)
{
	int64_t ago = (int64_t)(tfc__boot_time() - boot_ns) - ahead_ns;
	uint64_t now = tfc__wall();
	return ago > 0 && (uint64_t)ago < now ? now - (uint64_t)ago : now;
}

static void read_process(const msgpack_object *map, int64_t ahead_ns, struct tfc__event *event)
{
	tfc__msg_get_text(map, "text", event->process_text, sizeof(event->process_text));
	event->process = (tfc_process_event){
		.size = sizeof(tfc_process_event),
		.kind = get_u32(map, "kind"),
		.pid = (int32_t)tfc__msg_get_i64(map, "pid", 0),
		.reason = get_u32(map, "reason"),
		.status = (int32_t)tfc__msg_get_i64(map, "status", 0),
		.is_oom = tfc__msg_get_bool(map, "oom", false),
		.time_ns = wall_time_of(tfc__msg_get_u64(map, "time", 0), ahead_ns),
		.user_us = tfc__msg_get_u64(map, "user_us", 0),
		.system_us = tfc__msg_get_u64(map, "system_us", 0),
		.max_rss_kib = tfc__msg_get_u64(map, "rss_kib", 0),
		.log_end = tfc__msg_get_u64(map, "log_end", 0),
		.log_dropped = tfc__msg_get_u64(map, "log_dropped", 0),
		.log_gap = tfc__msg_get_u64(map, "log_gap", 0),
		.isolation = get_u32(map, "isolation"),
		.text = event->process_text,
	};
	event->event.process = &event->process;
}

static void read_looked(const msgpack_object *object, uint32_t task_count, struct tfc__event *event)
{
	const msgpack_object *items;
	uint32_t count = tfc__msg_get_array(object, "looked", &items);
	for (uint32_t i = 0; i < count && i < TFC__AGENT_LOOKED_MAX; i++) {
		struct tfc__agent_looked *looked = &event->looked[event->event.looked_count];
		looked->task = get_u32(&items[i], "task");
		tfc__msg_get_text(&items[i], "text", looked->text, sizeof(looked->text));
		event->event.looked_count += looked->task < task_count;
	}
	event->event.looked = event->looked;
}

static int read_lines(const msgpack_object *object, struct tfc__event *event)
{
	const msgpack_object *items;
	struct tfc__strv lines = {0};
	uint32_t count = tfc__msg_get_array(object, "log_tail", &items);
	for (uint32_t i = 0; i < count && i < TFC__LOG_TAIL_LINES; i++) {
		char line[4096];
		if (tfc__text_read(&items[i], line, sizeof(line)))
			tfc__strv_add(&lines, line);
	}
	if (lines.is_failed) {
		tfc__strv_fini(&lines);
		return TFC_ENOMEM;
	}
	event->log_tail = lines.items;
	return TFC_OK;
}

int tfc__event_read(const msgpack_object *object, uint32_t task_count, int64_t ahead_ns,
		    struct tfc__event *ret_event)
{
	memset(ret_event, 0, sizeof(*ret_event));
	struct tfc__agent_event *event = &ret_event->event;
	size_t states = 0;
	uint32_t kind = get_u32(object, "event");
	event->kind = kind <= TFC__AGENT_ANSWER ? (enum tfc__agent_event_kind)kind : 0;
	event->task = get_u32(object, "task");
	event->attempt = get_u32(object, "attempt");
	event->missing = get_u32(object, "missing");
	event->query = get_u32(object, "number");
	event->ports = get_u32(object, "ports");
	event->is_full = tfc__msg_get_bool(object, "full", false);
	event->is_lasting = tfc__msg_get_bool(object, "lasting", false);
	event->is_stranger = tfc__msg_get_bool(object, "stranger", false);
	event->is_crowded_out = tfc__msg_get_bool(object, "crowded", false);
	event->had_notice = tfc__msg_get_bool(object, "notice", false);
	event->silent_ms = get_u32(object, "silent_ms");
	uint32_t activity = get_u32(object, "activity");
	event->activity = activity <= TFC__ACTIVITY_OWN_WORK ? (enum tfc__activity)activity
							     : TFC__ACTIVITY_UNKNOWN;
	event->log_end = tfc__msg_get_u64(object, "log_end", 0);
	event->states = tfc__msg_get_bin(object, "states", &states);
	if (tfc__msg_get_text(object, "address", ret_event->address, sizeof(ret_event->address)))
		event->address = ret_event->address;
	if (tfc__msg_get_text(object, "text", ret_event->text, sizeof(ret_event->text)))
		event->text = ret_event->text;
	const msgpack_object *process = tfc__msg_get(object, "process");
	if (process)
		read_process(process, ahead_ns, ret_event);
	read_looked(object, task_count, ret_event);
	if (event->task >= task_count || (event->states && states != task_count) ||
	    (kind == TFC__AGENT_ANSWER && !event->states) ||
	    ((kind == TFC__AGENT_STARTED || kind == TFC__AGENT_EXITED) && !process))
		return TFC_EPARSE;
	return read_lines(object, ret_event);
}
