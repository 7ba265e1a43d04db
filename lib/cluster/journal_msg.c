#include "cluster/journal_msg.h"

#include <stdlib.h>
#include <string.h>

#include <tfcluster/spec.h>

#include "base/strv.h"
#include "wire/fields.h"

#define ENTRY(...) TFC__FIELD(struct tfc__journal_entry, __VA_ARGS__)
static const struct tfc__field entry_rows[] = {
	ENTRY("k", TFC__UINT, kind, TFC__V0_2),
	ENTRY("js", TFC__UINT, job_state, TFC__V0_2),
	ENTRY("g", TFC__UINT, generation, TFC__V0_2),
	ENTRY("a", TFC__UINT, attempt, TFC__V0_2),
	ENTRY("ts", TFC__UINT, task_state, TFC__V0_2),
	ENTRY("pid", TFC__INT, pid, TFC__V0_2),
	ENTRY("r", TFC__UINT, reason, TFC__V0_2),
	ENTRY("s", TFC__INT, end.status, TFC__V0_2),
	ENTRY("x", TFC__UINT, end.reason, TFC__V0_2),
	ENTRY("i", TFC__UINT, isolation, TFC__V0_2),
	ENTRY("ml", TFC__UINT, memory_limit, TFC__V0_3),
	ENTRY("at", TFC__UINT, time_ns, TFC__V0_2),
	ENTRY("le", TFC__UINT, end.log_end, TFC__V0_2),
	ENTRY("lg", TFC__UINT, end.log_gap, TFC__V0_2),
	ENTRY("cu", TFC__UINT, end.user_us, TFC__V0_2),
	ENTRY("cs", TFC__UINT, end.system_us, TFC__V0_2),
	ENTRY("m", TFC__UINT, end.max_rss_kib, TFC__V0_2),
	ENTRY("e", TFC__UINT, epoch, TFC__V0_3),
	ENTRY("wi", TFC__UINT, will.incarnation, TFC__V0_3),
	ENTRY("wc", TFC__DIGEST, will.commitment, TFC__V0_3),
	ENTRY("t", TFC__UINT, task, TFC__V0_2),
	ENTRY("n", TFC__STRING, node, TFC__V0_2),
	ENTRY("ad", TFC__STRING, address, TFC__V0_2),
	ENTRY("tx", TFC__STRING, text, TFC__V0_2),
	ENTRY("tail", TFC__LINES, log_tail, TFC__V0_2),
	ENTRY("el", TFC__STRING, error_line, TFC__V0_3),
	ENTRY("if", TFC__LINES, ignored_failures, TFC__V0_3),
};
static const struct tfc__journal_entry no_entry = {.task = UINT32_MAX};
static const struct tfc__fields entry_fields = TFC__FIELDS(entry_rows, struct tfc__journal_entry,
							   &no_entry);

void tfc__journal_write(const struct tfc__journal *journal, uint32_t from, uint32_t until,
			struct tfc__buf *buf)
{
	tfc__msg_array(buf, until - from);
	for (uint32_t i = from; i < until; i++)
		tfc__fields_write(buf, &entry_fields, &journal->entries[i]);
}

bool tfc__journal_is_empty(const void *data, size_t len)
{
	static const uint8_t no_entries = 0x90; /* msgpack: an empty array */
	return len == 1 && *(const uint8_t *)data == no_entries;
}

/* An unknown state would index the tables of names out of bounds. */
static bool journal_entry_is_known(const struct tfc__journal_entry *entry, uint32_t task_count)
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

static int journal_copy_lines(char ***lines)
{
	struct tfc__strv copy = {0};
	if (!*lines)
		return TFC_OK;
	tfc__strv_add_all(&copy, (const char *const *)*lines);
	*lines = tfc__strv_steal(&copy);
	return *lines ? TFC_OK : TFC_ENOMEM;
}

static int journal_entry_read(struct tfc__reader *reader, struct tfc__journal *journal,
			      const msgpack_object *map, uint32_t task_count, tfc_error *error)
{
	struct tfc__journal_entry entry = no_entry;
	int code = tfc__fields_read(reader, &entry_fields, map, error, &entry);
	if (code < 0)
		return tfc__fail_prefix(error, code, "an entry of the journal: ");
	if (!journal_entry_is_known(&entry, task_count))
		return tfc__fail(error, TFC_EPARSE, "cluster", 0, "unknown kind of journal entry");
	code = journal_copy_lines(&entry.log_tail);
	if (code == TFC_OK)
		code = journal_copy_lines(&entry.ignored_failures);
	if (code == TFC_OK)
		code = tfc__journal_add(journal, &entry); /* acquires the lines */
	else
		tfc_strv_free(entry.log_tail);
	return code == TFC_OK ? code : tfc__fail_nomem(error, "cluster");
}

int tfc__journal_read(struct tfc__journal *journal, const void *data, size_t len,
		      uint32_t task_count, tfc_error *error)
{
	struct tfc__reader reader = {.ahead_ns = 0};
	struct tfc__msg msg;
	int code = tfc__msg_parse(&msg, data, len, NULL, error);
	if (code < 0)
		return code;
	if (msg.root.type != MSGPACK_OBJECT_ARRAY)
		code = tfc__fail(error, TFC_EPARSE, "cluster", 0, "the journal is not a list");
	for (uint32_t i = 0; code == TFC_OK && i < msg.root.via.array.size; i++) {
		code = journal_entry_read(&reader, journal, &msg.root.via.array.ptr[i], task_count,
					  error);
		tfc__reader_clear(&reader);
	}
	tfc__reader_fini(&reader);
	tfc__msg_fini(&msg);
	return code;
}
