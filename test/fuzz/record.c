/* cluster: what a damaged or hostile store hands over as the record and the journal of a job. */
#include <string.h>

#include "cluster/journal_msg.h"
#include "cluster/record.h"
#include "fuzz.h"

/* The first byte says what the rest is. */
enum { RECORD, JOURNAL, KINDS };

static const uint8_t seal_key[TFC__STORE_SEAL_SIZE] = "a key that no fuzzer will guess";
static const uint8_t *const seal_keys[] = {seal_key, NULL};

/* What was read can be written, and read again. */
static void write_record(const struct tfc__record *record)
{
	struct tfc__buf buf = {0};
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__record *again = tfc__record_new();
	CHECK(again);
	CHECK(tfc__record_write(record, seal_key, &buf, &error) == TFC_OK);
	CHECK(tfc__record_read(again, buf.data, buf.len, seal_keys, &error) == TFC_OK);
	CHECK(!again->has_lost_secrets);
	CHECK(strcmp(again->id, record->id) == 0 && again->epoch == record->epoch);
	CHECK(again->host_tag_len == record->host_tag_len);
	tfc__record_free(again);
	tfc__buf_fini(&buf);
}

static void read_record(const uint8_t *data, size_t len)
{
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__record *record = tfc__record_new();
	CHECK(record);
	int code = tfc__record_read(record, data, len, seal_keys, &error);
	if (code < 0)
		fuzz_check_error(code, &error);
	if (code == TFC_OK) {
		CHECK(record->job && strlen(record->id) == 16);
		write_record(record);
	}
	tfc__record_free(record);
}

static void read_journal(const uint8_t *data, size_t len)
{
	const uint32_t task_count = 3;
	struct tfc__journal journal, again;
	struct tfc__buf buf = {0};
	tfc_error error = TFC_ERROR_INIT;
	CHECK(tfc__journal_init(&journal) == TFC_OK && tfc__journal_init(&again) == TFC_OK);
	int code = tfc__journal_read(&journal, data, len, task_count, &error);
	if (code < 0)
		fuzz_check_error(code, &error);
	CHECK(journal.task_count <= task_count);
	for (uint32_t i = 0; i < journal.count; i++)
		CHECK(journal.entries[i].task == UINT32_MAX ||
		      journal.entries[i].task < task_count);
	if (code == TFC_OK && journal.count <= TFC__JOURNAL_SEGMENT_ENTRIES) {
		tfc__journal_write(&journal, 0, journal.count, &buf);
		CHECK(tfc__journal_read(&again, buf.data, buf.len, task_count, &error) == TFC_OK);
		CHECK(again.count == journal.count && again.job_state == journal.job_state);
	}
	tfc__buf_fini(&buf);
	tfc__journal_fini(&journal);
	tfc__journal_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] % KINDS == RECORD)
		read_record(data + 1, size - 1);
	else
		read_journal(data + 1, size - 1);
	return 0;
}
