#include "cluster/journal_msg.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <tfcluster/spec.h>

#include "base/strv.h"
#include "wire/msg.h"

#define LINES_MAX 64

/* The numbers of an entry; 0 is not written. `task` is told from them, since there 0 means a task.
 */
enum field_size { U32, I32, U64 };

static const struct field {
	const char *key;
	size_t offset;
	enum field_size size;
} fields[] = {
#define FIELD(key, name, size)                                       \
	{                                                            \
		key, offsetof(struct tfc__journal_entry, name), size \
	}
	FIELD("js", job_state, U32),  FIELD("g", generation, U32),  FIELD("a", attempt, U32),
	FIELD("ts", task_state, U32), FIELD("pid", pid, I32),       FIELD("r", reason, U32),
	FIELD("s", status, I32),      FIELD("x", exit_reason, U32), FIELD("i", isolation, U32),
	FIELD("at", time_ns, U64),    FIELD("le", log_end, U64),    FIELD("lg", log_gap, U64),
	FIELD("cu", user_us, U64),    FIELD("cs", system_us, U64),  FIELD("m", max_rss_kib, U64),
	FIELD("e", epoch, U64),
#undef FIELD
};
#define FIELD_COUNT (sizeof(fields) / sizeof(*fields))

/* ---- writing */

static int64_t get_field(const struct tfc__journal_entry *entry, const struct field *field)
{
	const void *at = (const char *)entry + field->offset;
	switch (field->size) {
	case U32:
		return *(const uint32_t *)at;
	case I32:
		return *(const int32_t *)at;
	case U64:
		break;
	}
	return (int64_t) * (const uint64_t *)at;
}

static void put_field(struct tfc__buf *buf, const struct tfc__journal_entry *entry,
		      const struct field *field)
{
	int64_t value = get_field(entry, field);
	if (field->size == I32)
		tfc__msg_put_i64(buf, field->key, value);
	else
		tfc__msg_put_u64(buf, field->key, (uint64_t)value);
}

static uint32_t count_pairs(const struct tfc__journal_entry *entry)
{
	uint32_t pairs = 1;
	for (size_t i = 0; i < FIELD_COUNT; i++)
		pairs += get_field(entry, &fields[i]) != 0;
	return pairs + (entry->task != UINT32_MAX) + (entry->node[0] != 0) +
	       (entry->address[0] != 0) + (entry->text[0] != 0) + (entry->log_tail != NULL) +
	       (entry->ignored_failures != NULL);
}

static void put_lines(struct tfc__buf *buf, const char *key, char *const *lines)
{
	uint32_t count = 0;
	while (lines[count])
		count++;
	tfc__msg_str(buf, key);
	tfc__msg_array(buf, count);
	for (uint32_t i = 0; i < count; i++)
		tfc__msg_str(buf, lines[i]);
}

static void write_entry(const struct tfc__journal_entry *entry, struct tfc__buf *buf)
{
	tfc__msg_map(buf, count_pairs(entry));
	tfc__msg_put_u64(buf, "k", entry->kind);
	for (size_t i = 0; i < FIELD_COUNT; i++)
		if (get_field(entry, &fields[i]) != 0)
			put_field(buf, entry, &fields[i]);
	if (entry->task != UINT32_MAX)
		tfc__msg_put_u64(buf, "t", entry->task);
	if (entry->node[0])
		tfc__msg_put_str(buf, "n", entry->node);
	if (entry->address[0])
		tfc__msg_put_str(buf, "ad", entry->address);
	if (entry->text[0])
		tfc__msg_put_str(buf, "tx", entry->text);
	if (entry->log_tail)
		put_lines(buf, "tail", entry->log_tail);
	if (entry->ignored_failures)
		put_lines(buf, "if", entry->ignored_failures);
}

void tfc__journal_write(const struct tfc__journal *journal, uint32_t from, uint32_t until,
			struct tfc__buf *buf)
{
	tfc__msg_array(buf, until - from);
	for (uint32_t i = from; i < until; i++)
		write_entry(&journal->entries[i], buf);
}

/* ---- reading */

bool tfc__journal_is_empty(const void *data, size_t len)
{
	static const uint8_t no_entries = 0x90; /* msgpack: an array of none */
	return len == 1 && *(const uint8_t *)data == no_entries;
}

static bool set_field(struct tfc__journal_entry *entry, const struct field *field,
		      const msgpack_object *map)
{
	void *at = (char *)entry + field->offset;
	uint64_t value;
	switch (field->size) {
	case U32:
		value = tfc__msg_get_u64(map, field->key, 0);
		*(uint32_t *)at = (uint32_t)value;
		return value <= UINT32_MAX;
	case I32:
		*(int32_t *)at = (int32_t)tfc__msg_get_i64(map, field->key, 0);
		return *(int32_t *)at == tfc__msg_get_i64(map, field->key, 0);
	case U64:
		break;
	}
	*(uint64_t *)at = tfc__msg_get_u64(map, field->key, 0);
	return true;
}

/* A state that this version does not know would be read out of the tables of names. */
static bool is_known(const struct tfc__journal_entry *entry, uint32_t task_count)
{
	bool is_of_task = entry->kind == TFC_EVENT_TASK;
	if (!is_of_task && entry->kind != TFC_EVENT_JOB && entry->kind != TFC_EVENT_END)
		return false;
	if (entry->task != UINT32_MAX && entry->task >= task_count)
		return false;
	if (is_of_task)
		return entry->task != UINT32_MAX && entry->task_state >= TFC_TASK_PENDING &&
		       entry->task_state <= TFC_TASK_STOPPED;
	return entry->job_state >= TFC_JOB_PENDING && entry->job_state <= TFC_JOB_STOPPED;
}

static int read_lines(const msgpack_object *map, const char *key, char ***ret_lines)
{
	const msgpack_object *items;
	struct tfc__strv lines = {0};
	uint32_t count = tfc__msg_get_array(map, key, &items);
	if (!tfc__msg_get(map, key))
		return TFC_OK;
	for (uint32_t i = 0; i < count && i < LINES_MAX; i++) {
		size_t len = 0;
		const char *text = tfc__msg_bytes(&items[i], &len);
		tfc__strv_take(&lines, strndup(text ? text : "", text ? len : 0));
	}
	*ret_lines = tfc__strv_steal(&lines);
	return *ret_lines ? TFC_OK : TFC_ENOMEM;
}

/* What is no text is as good as missing. */
static int read_text(const msgpack_object *map, const char *key, char **ret_text)
{
	size_t len = 0;
	const char *from = tfc__msg_get_bin(map, key, &len);
	if (!from || memchr(from, '\0', len))
		return TFC_OK;
	*ret_text = strndup(from, len);
	return *ret_text ? TFC_OK : TFC_ENOMEM;
}

static int read_entry(struct tfc__journal *journal, const msgpack_object *map, uint32_t task_count,
		      tfc_error *error)
{
	struct tfc__journal_entry entry = {
		.kind = (uint32_t)tfc__msg_get_u64(map, "k", 0),
		.task = (uint32_t)tfc__msg_get_u64(map, "t", UINT32_MAX),
	};
	bool is_right = true;
	for (size_t i = 0; i < FIELD_COUNT; i++)
		is_right = set_field(&entry, &fields[i], map) && is_right;
	if (!is_right || !is_known(&entry, task_count))
		return tfc__fail(error, TFC_EPARSE, "cluster", 0,
				 "an entry of the journal is none that this version knows");
	int code = read_text(map, "n", &entry.node);
	if (code == TFC_OK)
		code = read_text(map, "ad", &entry.address);
	if (code == TFC_OK)
		code = read_text(map, "tx", &entry.text);
	if (code == TFC_OK)
		code = read_lines(map, "tail", &entry.log_tail);
	if (code == TFC_OK)
		code = read_lines(map, "if", &entry.ignored_failures);
	if (code == TFC_OK) {
		code = tfc__journal_add(journal, &entry); /* which takes the lines */
	} else {
		tfc_strv_free(entry.log_tail);
		tfc_strv_free(entry.ignored_failures);
	}
	free(entry.node);
	free(entry.address);
	free(entry.text);
	return code == TFC_OK ? code : tfc__fail_nomem(error, "cluster");
}

int tfc__journal_read(struct tfc__journal *journal, const void *data, size_t len,
		      uint32_t task_count, tfc_error *error)
{
	struct tfc__msg msg;
	int code = tfc__msg_parse(&msg, data, len, NULL, error);
	if (code < 0)
		return code;
	if (msg.root.type != MSGPACK_OBJECT_ARRAY)
		code = tfc__fail(error, TFC_EPARSE, "cluster", 0, "the journal is no list");
	for (uint32_t i = 0; code == TFC_OK && i < msg.root.via.array.size; i++)
		code = read_entry(journal, &msg.root.via.array.ptr[i], task_count, error);
	tfc__msg_fini(&msg);
	return code;
}
