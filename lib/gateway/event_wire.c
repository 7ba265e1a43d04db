#include "gateway/event_wire.h"

#include <string.h>

#include "base/strv.h"
#include <tfcluster/spec.h>

/* The numbers of an event and the keys they have on the wire. */
#define NUMBERS(X)            \
	X("k", kind)          \
	X("ts", time_ns)      \
	X("js", job_state)    \
	X("g", generation)    \
	X("e", epoch)         \
	X("ti", task_index)   \
	X("a", attempt)       \
	X("s", task_state)    \
	X("r", reason)        \
	X("f", stream)        \
	X("pt", is_partial)   \
	X("u", user_us)       \
	X("sy", system_us)    \
	X("rss", max_rss_kib) \
	X("xr", exit_reason)  \
	X("iso", isolation)

#define TEXTS(X)           \
	X("tt", task_type) \
	X("n", node)       \
	X("ad", address)   \
	X("x", text)

/* ---- writing */

static uint32_t put_number(struct tfc__buf *buf, const char *key, uint64_t value)
{
	if (value)
		tfc__msg_put_u64(buf, key, value);
	return value != 0;
}

static uint32_t put_signed(struct tfc__buf *buf, const char *key, int64_t value)
{
	if (value)
		tfc__msg_put_i64(buf, key, value);
	return value != 0;
}

static uint32_t put_text(struct tfc__buf *buf, const char *key, const char *text)
{
	if (text && *text)
		tfc__msg_put_str(buf, key, text);
	return text && *text;
}

static uint32_t put_lines(struct tfc__buf *buf, const char *key, const char *const *lines)
{
	uint32_t count = 0;
	while (lines && lines[count])
		count++;
	if (!count)
		return 0;
	tfc__msg_str(buf, key);
	tfc__msg_array(buf, count);
	for (uint32_t i = 0; i < count; i++)
		tfc__msg_bin(buf, lines[i], strlen(lines[i]));
	return 1;
}

static uint32_t put_one_of_many(struct tfc__buf *buf, const char *key, uint32_t number)
{
	if (number != UINT32_MAX)
		tfc__msg_put_u64(buf, key, number);
	return number != UINT32_MAX;
}

static uint32_t put_mark(struct tfc__buf *buf, const struct tfc__mark *mark)
{
	uint32_t count = put_number(buf, "mn", mark->next) +
			 put_number(buf, "mg", mark->is_gap_told);
	if (mark->task != UINT32_MAX || mark->rest != UINT32_MAX)
		count += put_text(buf, "mc", mark->piece.text);
	return count + put_one_of_many(buf, "mt", mark->task) +
	       put_one_of_many(buf, "me", mark->ended_task) +
	       put_one_of_many(buf, "mr", mark->rest) + put_one_of_many(buf, "mo", mark->rest_over);
}

void tfc__told_write(struct tfc__buf *buf, struct tfc__buf *scratch, const tfc_event *event,
		     const struct tfc__mark *mark)
{
	uint32_t count = 0;
#define PUT_NUMBER(key, field) count += put_number(scratch, key, event->field);
#define PUT_TEXT(key, field) count += put_text(scratch, key, event->field);
	NUMBERS(PUT_NUMBER)
	TEXTS(PUT_TEXT)
	count += put_signed(scratch, "p", event->pid);
	count += put_signed(scratch, "st", event->status);
	count += put_lines(scratch, "lt", event->log_tail);
	count += put_lines(scratch, "if", event->ignored_failures);
	if (event->kind == TFC_EVENT_OUTPUT) {
		tfc__msg_put_bin(scratch, "d", event->data, event->data_len);
		count++;
	} else {
		count += put_number(scratch, "dl", event->data_len);
	}
	count += put_mark(scratch, mark);
	tfc__msg_map(buf, count);
	tfc__buf_add(buf, scratch->data, scratch->len);
	buf->is_failed |= scratch->is_failed;
	scratch->is_failed = false;
	tfc__buf_clear(scratch);
}

void tfc__told_write_head(struct tfc__buf *buf, const tfc_event *event)
{
	tfc__msg_map(buf, 3);
	tfc__msg_put_str(buf, "job", event->job);
	tfc__msg_put_str(buf, "name", event->name);
	tfc__msg_put_bin(buf, "tag", event->host_tag, event->host_tag_len);
}

/* ---- reading */

/* Strings are gathered in one buffer, which moves as it grows: they are found at the end. */
static size_t gather(struct tfc__buf *text, const msgpack_object *map, const char *key)
{
	size_t len = 0, at = text->len;
	const char *bytes = tfc__msg_get_bin(map, key, &len);
	if (bytes)
		tfc__buf_add(text, bytes, strnlen(bytes, len));
	tfc__buf_add_char(text, '\0');
	return at;
}

static int read_lines(const msgpack_object *object, const char *key, char ***ret_lines)
{
	const msgpack_object *items;
	struct tfc__strv lines = {0};
	struct tfc__buf line = {0};
	uint32_t count = tfc__msg_get_array(object, key, &items);
	for (uint32_t i = 0; i < count; i++) {
		size_t len;
		const char *bytes = tfc__msg_bytes(&items[i], &len);
		tfc__buf_clear(&line);
		tfc__buf_add(&line, bytes ? bytes : "", bytes ? strnlen(bytes, len) : 0);
		tfc__strv_add(&lines, line.data ? line.data : "");
	}
	bool is_failed = line.is_failed;
	tfc__buf_fini(&line);
	*ret_lines = tfc__strv_steal(&lines);
	if (*ret_lines && !is_failed)
		return TFC_OK;
	tfc__strv_fini(&lines);
	return TFC_ENOMEM;
}

static void read_mark(struct tfc__mark *mark, const msgpack_object *object)
{
	mark->next = (uint32_t)tfc__msg_get_u64(object, "mn", 0);
	mark->is_gap_told = tfc__msg_get_u64(object, "mg", 0);
	mark->task = (uint32_t)tfc__msg_get_u64(object, "mt", UINT32_MAX);
	mark->ended_task = (uint32_t)tfc__msg_get_u64(object, "me", UINT32_MAX);
	mark->rest = (uint32_t)tfc__msg_get_u64(object, "mr", UINT32_MAX);
	mark->rest_over = (uint32_t)tfc__msg_get_u64(object, "mo", UINT32_MAX);
	if (!tfc__msg_get_text(object, "mc", mark->piece.text, sizeof(mark->piece.text)))
		mark->task = mark->rest = UINT32_MAX;
}

static void read_numbers(tfc_event *event, const msgpack_object *object)
{
	size_t len = 0;
#define GET_NUMBER(key, field) \
	event->field = (__typeof__(event->field))tfc__msg_get_u64(object, key, 0);
	NUMBERS(GET_NUMBER)
	event->pid = (int32_t)tfc__msg_get_i64(object, "p", 0);
	event->status = (int32_t)tfc__msg_get_i64(object, "st", 0);
	event->data = tfc__msg_get_bin(object, "d", &len);
	event->data_len = event->data ? len : tfc__msg_get_u64(object, "dl", 0);
	event->data = event->data ? event->data : "";
}

static int read_texts(struct tfc__told_in *in, const msgpack_object *head,
		      const msgpack_object *object)
{
	tfc_event *event = &in->event;
	size_t at[6], next = 2, len = 0;
	tfc__buf_clear(&in->text);
	at[0] = gather(&in->text, head, "job");
	at[1] = gather(&in->text, head, "name");
#define GATHER(key, field) at[next++] = gather(&in->text, object, key);
	TEXTS(GATHER)
	if (in->text.is_failed) {
		in->text.is_failed = false;
		return TFC_ENOMEM;
	}
	event->job = in->text.data + at[0];
	event->name = in->text.data + at[1];
	next = 2;
#define POINT(key, field) event->field = in->text.data + at[next++];
	TEXTS(POINT)
	event->host_tag = tfc__msg_get_bin(head, "tag", &len);
	event->host_tag_len = event->host_tag ? len : 0;
	event->host_tag = event->host_tag ? event->host_tag : "";
	event->cursor = "";
	return TFC_OK;
}

static void free_lines(struct tfc__told_in *in)
{
	tfc_strv_free(in->tail);
	tfc_strv_free(in->ignored);
	in->tail = in->ignored = NULL;
}

int tfc__told_read(struct tfc__told_in *in, const msgpack_object *head,
		   const msgpack_object *object)
{
	free_lines(in);
	in->event = (tfc_event){.size = sizeof(in->event)};
	read_numbers(&in->event, object);
	read_mark(&in->mark, object);
	if (in->event.kind < TFC_EVENT_JOB || in->event.kind > TFC_EVENT_LIVE ||
	    in->event.kind == TFC_EVENT_LOST)
		return TFC_EPARSE;
	if (read_texts(in, head, object) < 0)
		return TFC_ENOMEM;
	if (in->event.kind != TFC_EVENT_END)
		return TFC_OK;
	int code = read_lines(object, "lt", &in->tail);
	if (code == TFC_OK)
		code = read_lines(object, "if", &in->ignored);
	in->event.log_tail = (const char *const *)in->tail;
	in->event.ignored_failures = (const char *const *)in->ignored;
	return code;
}

void tfc__told_in_fini(struct tfc__told_in *in)
{
	tfc__buf_fini(&in->text);
	free_lines(in);
}
