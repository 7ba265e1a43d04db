/* cluster: what is in a state directory is read for ever: bytes as 0.2 and this version wrote them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/strv.h"
#include "cluster/journal_msg.h"
#include "cluster/record.h"
#include "golden.h"

#define TASKS 2

static char *const tail[] = {(char *)"one", (char *)"t\xe9o", NULL};
static char *const ignored[] = {(char *)"worker/1 exited with 1", NULL};

/* One entry of each kind, with each field set in one of them. */
static const struct tfc__journal_entry entries[] = {
	{
		.kind = TFC_EVENT_JOB,
		.job_state = TFC_JOB_RUNNING,
		.generation = 1,
		.epoch = 2,
		.task = UINT32_MAX,
		.time_ns = 1769860800000001000u,
		.node = (char *)"",
		.address = (char *)"",
		.text = (char *)"",
	},
	{
		.kind = TFC_EVENT_TASK,
		.generation = 3,
		.epoch = 4,
		.task = 0,
		.attempt = 5,
		.task_state = TFC_TASK_FAILED,
		.pid = 70000,
		.reason = TFC_END_SIGNAL,
		.end.status = 9,
		.end.reason = TFC_EXIT_SIGNAL,
		.isolation = TFC_ISOLATION_PIDNS,
		.time_ns = 1769860800000001001u,
		.end.log_end = UINT64_MAX,
		.end.log_gap = 6,
		.end.user_us = 300,
		.end.system_us = 70000,
		.end.max_rss_kib = 5000000000u,
		.node = (char *)"a",
		.address = (char *)"127.0.0.1:20000",
		.text = (char *)"it was killed",
	},
	{
		.kind = TFC_EVENT_END,
		.job_state = TFC_JOB_FAILED,
		.generation = 3,
		.epoch = 4,
		.task = 1,
		.attempt = 1,
		.reason = TFC_END_EXIT,
		.end.status = -1,
		.time_ns = 1,
		.node = (char *)"b",
		.address = (char *)"",
		.text = (char *)"worker/1 exited with 1",
		.log_tail = (char **)tail,
		.ignored_failures = (char **)ignored,
	},
};
#define ENTRIES (sizeof(entries) / sizeof(entries[0]))

static char **copy_lines(char *const *lines)
{
	struct tfc__strv copy = {0};
	if (!lines)
		return NULL;
	tfc__strv_add_all(&copy, (const char *const *)lines);
	return tfc__strv_steal(&copy);
}

static void expect_lines(char *const *lines, char *const *expected)
{
	assert_int_equal(!lines, !expected);
	for (size_t i = 0; lines && (lines[i] || expected[i]); i++)
		assert_string_equal(lines[i], expected[i]);
}

static void expect_entry(const struct tfc__journal_entry *entry,
			 const struct tfc__journal_entry *expected)
{
	assert_int_equal(entry->kind, expected->kind);
	assert_int_equal(entry->job_state, expected->job_state);
	assert_int_equal(entry->generation, expected->generation);
	assert_int_equal(entry->epoch, expected->epoch);
	assert_int_equal(entry->task, expected->task);
	assert_int_equal(entry->attempt, expected->attempt);
	assert_int_equal(entry->task_state, expected->task_state);
	assert_int_equal(entry->pid, expected->pid);
	assert_int_equal(entry->reason, expected->reason);
	assert_int_equal(entry->end.status, expected->end.status);
	assert_int_equal(entry->end.reason, expected->end.reason);
	assert_int_equal(entry->isolation, expected->isolation);
	assert_true(entry->time_ns == expected->time_ns);
	assert_true(entry->end.log_end == expected->end.log_end);
	assert_true(entry->end.log_gap == expected->end.log_gap);
	assert_true(entry->end.user_us == expected->end.user_us);
	assert_true(entry->end.system_us == expected->end.system_us);
	assert_true(entry->end.max_rss_kib == expected->end.max_rss_kib);
	assert_string_equal(entry->node, expected->node);
	assert_string_equal(entry->address, expected->address);
	assert_string_equal(entry->text, expected->text);
	expect_lines(entry->log_tail, expected->log_tail);
	expect_lines(entry->ignored_failures, expected->ignored_failures);
}

static const char journal_of_0_3[] =
	"9385a16b01a26a7303a16701a26174cf188fcf053de383e8a16502de0014a16b02a16703a16105a2"
	"747307a3706964ce00011170a17202a17309a17802a16903a26174cf188fcf053de383e9a26c65cf"
	"ffffffffffffffffa26c6706a26375cd012ca26373ce00011170a16dcf000000012a05f200a16504"
	"a17400a16ea161a26164af3132372e302e302e313a3230303030a27478ad697420776173206b696c"
	"6c65648da16b05a26a7307a16703a16101a17201a173ffa2617401a16504a17401a16ea162a27478"
	"b6776f726b65722f312065786974656420776974682031a47461696c92a36f6e65c40374e96fa269"
	"6691b6776f726b65722f312065786974656420776974682031";
/* It had no epochs, and no failures that were ignored. */
static const char journal_of_0_2[] =
	"9384a16b01a26a7303a16701a26174cf188fcf053de383e8de0013a16b02a16703a16105a2747307"
	"a3706964ce00011170a17202a17309a17802a16903a26174cf188fcf053de383e9a26c65cfffffff"
	"ffffffffffa26c6706a26375cd012ca26373ce00011170a16dcf000000012a05f200a17400a16ea1"
	"61a26164af3132372e302e302e313a3230303030a27478ad697420776173206b696c6c65648ba16b"
	"05a26a7307a16703a16101a17201a173ffa2617401a17401a16ea162a27478b6776f726b65722f31"
	"2065786974656420776974682031a47461696c92a36f6e65c40374e96f";

static void a_journal_is_written_as_it_ever_was(void **state)
{
	struct tfc__journal journal;
	struct tfc__buf buf = {0};
	assert_int_equal(tfc__journal_init(&journal), TFC_OK);
	for (size_t i = 0; i < ENTRIES; i++) {
		struct tfc__journal_entry entry = entries[i];
		entry.log_tail = copy_lines(entry.log_tail);
		entry.ignored_failures = copy_lines(entry.ignored_failures);
		assert_int_equal(tfc__journal_add(&journal, &entry), TFC_OK);
	}
	tfc__journal_write(&journal, 0, ENTRIES, &buf);
	golden_expect(&buf, journal_of_0_3);
	tfc__journal_fini(&journal);
}

static void read_journal(const char *hex, bool is_of_0_2)
{
	struct tfc__journal journal;
	struct tfc__buf buf = golden_bytes(hex);
	tfc_error error = TFC_ERROR_INIT;
	assert_int_equal(tfc__journal_init(&journal), TFC_OK);
	if (tfc__journal_read(&journal, buf.data, buf.len, TASKS, &error) < 0)
		fail_msg("%s", error.text);
	assert_int_equal(journal.count, ENTRIES);
	for (size_t i = 0; i < ENTRIES; i++) {
		struct tfc__journal_entry expected = entries[i];
		if (is_of_0_2) {
			expected.epoch = 0;
			expected.ignored_failures = NULL;
		}
		expect_entry(&journal.entries[i], &expected);
	}
	tfc__journal_fini(&journal);
	tfc__buf_fini(&buf);
}

static void a_journal_of_any_version_is_read(void **state)
{
	read_journal(journal_of_0_3, false);
	read_journal(journal_of_0_2, true);
}

/* ---- records */

static const char record_of_0_3[] =
	"8ca6666f726d617401a8686f73745f746167c403746167a26964b030313233343536373839616263"
	"646566a565706f636807a76a6f75726e616c03ac7375626d69747465645f6e73cf188fcf053de383"
	"e8aa636c69656e745f6b6579a76e696768746c79a56f776e6572cd03e9a6646967657374c420a5a5"
	"a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a97375626d6974746572"
	"a87569642031303032ab6d696e696d616c5f656e76c3";
/* It had no journal, owner, digest and minimal_env. */
static const char record_of_0_2[] =
	"89a6666f726d617401a26964b030313233343536373839616263646566a565706f636807ac737562"
	"6d69747465645f6e73cf188fcf053de383e8aa636c69656e745f6b6579a76e696768746c79a97375"
	"626d6974746572a87569642031303032a8686f73745f746167c403746167";

static const char job_json[] = "{\"name\":\"digits\",\"framework\":\"none\",\"argv\":[\"true\"],"
			       "\"roles\":{\"worker\":{}}}";

static struct tfc__record *make_record(void)
{
	struct tfc__record *record = tfc__record_new();
	assert_non_null(record);
	assert_int_equal(tfc_job_parse(job_json, sizeof(job_json) - 1, NULL, NULL, &record->job),
			 TFC_OK);
	strcpy(record->id, "0123456789abcdef");
	record->epoch = 7;
	record->segment = 3;
	record->submitted_ns = 1769860800000001000u;
	strcpy(record->client_key.text, "nightly");
	record->client_key.owner = 1001;
	memset(record->client_key.digest, 0xa5, sizeof(record->client_key.digest));
	strcpy(record->submitter, "uid 1002");
	record->has_minimal_env = true;
	record->host_tag = strdup("tag");
	record->host_tag_len = 3;
	return record;
}

/* The definition in it is its JSON, which has tests of its own: here it is any. */
static void a_record_is_written_as_it_ever_was(void **state)
{
	struct tfc__record *record = make_record();
	struct tfc__buf buf = {0}, rest = {0};
	char *json;
	assert_int_equal(tfc_job_json(record->job, 0, &json), TFC_OK);
	assert_int_equal(tfc__record_write(record, NULL, &buf, NULL), TFC_OK);
	tfc__msg_put_str(&rest, "job", json);
	char *job = memmem(buf.data, buf.len, rest.data, rest.len);
	assert_non_null(job);
	memmove(job, job + rest.len, buf.len - (size_t)(job - buf.data) - rest.len);
	buf.len -= rest.len;
	golden_expect(&buf, record_of_0_3);
	tfc__buf_fini(&rest);
	tfc__record_free(record);
	tfc_free(json);
}

static void read_record(const char *hex, bool is_of_0_2)
{
	static const uint8_t nothing[TFC__SUBMIT_DIGEST_SIZE];
	struct tfc__record *record = tfc__record_new(), *expected = make_record();
	struct tfc__buf buf = golden_bytes(hex);
	tfc_error error = TFC_ERROR_INIT;
	tfc__msg_put_str(&buf, "job", job_json);
	if (is_of_0_2)
		tfc__msg_put_bin(&buf, "sealed", "", 0);
	if (tfc__record_read(record, buf.data, buf.len, NULL, &error) < 0)
		fail_msg("%s", error.text);
	assert_string_equal(record->id, expected->id);
	assert_true(record->epoch == 7);
	assert_int_equal(record->is_of_0_2, is_of_0_2);
	assert_int_equal(record->segment, is_of_0_2 ? 0 : 3);
	assert_true(record->submitted_ns == expected->submitted_ns);
	assert_string_equal(record->client_key.text, "nightly");
	assert_int_equal(record->client_key.owner, is_of_0_2 ? 1002 : 1001);
	assert_memory_equal(record->client_key.digest,
			    is_of_0_2 ? nothing : expected->client_key.digest, sizeof(nothing));
	assert_string_equal(record->submitter, "uid 1002");
	assert_int_equal(record->has_minimal_env, !is_of_0_2);
	assert_int_equal(record->host_tag_len, 3);
	assert_memory_equal(record->host_tag, "tag", 3);
	assert_false(record->has_lost_secrets);
	assert_int_equal(tfc__job_task_count(record->job), 1);
	tfc__record_free(record);
	tfc__record_free(expected);
	tfc__buf_fini(&buf);
}

static void a_record_of_any_version_is_read(void **state)
{
	read_record(record_of_0_3, false);
	read_record(record_of_0_2, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_journal_is_written_as_it_ever_was),
		cmocka_unit_test(a_journal_of_any_version_is_read),
		cmocka_unit_test(a_record_is_written_as_it_ever_was),
		cmocka_unit_test(a_record_of_any_version_is_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
