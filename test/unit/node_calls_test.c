/* node: the messages between nodes are written as the code before the tables wrote them, except
 * that zeros are left out and a job is binary data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "golden.h"
#include "node/calls.h"

#define INSTANCE 0x0123456789abcdef
#define ID "00000000deadbeef"
#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define JOB "{\"roles\":{\"worker\":{}}}"

static const struct tfc__bundle_offer offer = {.hash = HASH, .size = 70000};
static const char *const ids[] = {ID, "no id", NULL};

static void a_call_of_a_session(void **state)
{
	const struct tfc__agent_target message = {.instance = INSTANCE};
	golden_expect_message(&tfc__agent_target_fields, &message,
			      "81a8696e7374616e6365cf0123456789abcdef",
			      "81a8696e7374616e6365cf0123456789abcdef");
}

static void a_job_is_dropped(void **state)
{
	const struct tfc__agent_target message = {.instance = INSTANCE, .handle = 3, .id = ID};
	golden_expect_message(
		&tfc__agent_target_fields, &message,
		"83a8696e7374616e6365cf0123456789abcdefa668616e646c6503a26964b03030303030"
		"3030306465616462656566",
		"83a8696e7374616e6365cf0123456789abcdefa668616e646c6503a26964b03030303030"
		"3030306465616462656566");
}

static void a_stamp(void **state)
{
	const struct tfc__agent_stamp message = {.boot = INSTANCE, .stamp = 5000000000};
	golden_expect_message(
		&tfc__agent_stamp_fields, &message,
		"82a4626f6f74cf0123456789abcdefa57374616d70cf000000012a05f200",
		"83a5616c6f6e65c2a4626f6f74cf0123456789abcdefa57374616d70cf000000012a05f2"
		"00");
}

static void a_stamp_of_a_node_without_earlier_tasks(void **state)
{
	const struct tfc__agent_stamp message = {.is_alone = true,
						 .boot = INSTANCE,
						 .stamp = 5000000000};
	golden_expect_message(
		&tfc__agent_stamp_fields, &message,
		"83a5616c6f6e65c3a4626f6f74cf0123456789abcdefa57374616d70cf000000012a05f2"
		"00",
		"83a5616c6f6e65c3a4626f6f74cf0123456789abcdefa57374616d70cf000000012a05f2"
		"00");
}

static void a_renewal(void **state)
{
	const struct tfc__agent_renewal message = {.instance = INSTANCE,
						   .name = "a",
						   .stamp = 5000000000,
						   .lease_ms = 3000};
	golden_expect_message(
		&tfc__agent_renewal_fields, &message,
		"84a8696e7374616e6365cf0123456789abcdefa46e616d65a161a57374616d70cf000000"
		"012a05f200a86c656173655f6d73cd0bb8",
		"84a8696e7374616e6365cf0123456789abcdefa46e616d65a161a57374616d70cf000000"
		"012a05f200a86c656173655f6d73cd0bb8");
}

static void a_job_is_opened(void **state)
{
	const struct tfc__call_open message = {.target = {INSTANCE, 1, ID},
					       .epoch = 2,
					       .job_json = JOB,
					       .job_json_len = strlen(JOB),
					       .host_tag = "t\0g",
					       .host_tag_len = 3,
					       .bundle = &offer};
	golden_expect_message(
		&tfc__agent_open_fields, &message,
		"88a8696e7374616e6365cf0123456789abcdefa668616e646c6501a26964b03030303030"
		"3030306465616462656566a565706f636802a36a6f62c4177b22726f6c6573223a7b2277"
		"6f726b6572223a7b7d7d7dab6d696e696d616c5f656e76c2a3746167c403740067a66275"
		"6e646c6582a468617368d940303132333435363738396162636465663031323334353637"
		"383961626364656630313233343536373839616263646566303132333435363738396162"
		"63646566a473697a65ce00011170",
		"89a8696e7374616e6365cf0123456789abcdefa668616e646c6501a26964b03030303030"
		"3030306465616462656566a565706f636802a8726563656976656400a36a6f62b77b2272"
		"6f6c6573223a7b22776f726b6572223a7b7d7d7dab6d696e696d616c5f656e76c2a37461"
		"67c403740067a662756e646c6582a468617368d940303132333435363738396162636465"
		"663031323334353637383961626364656630313233343536373839616263646566303132"
		"33343536373839616263646566a473697a65ce00011170");
}

static void a_job_is_resumed(void **state)
{
	const struct tfc__call_open message = {.target = {INSTANCE, 1, ID},
					       .epoch = 2,
					       .received = 300,
					       .has_minimal_env = true};
	golden_expect_message(
		&tfc__agent_open_fields, &message,
		"85a8696e7374616e6365cf0123456789abcdefa668616e646c6501a26964b03030303030"
		"3030306465616462656566a565706f636802a87265636569766564cd012c",
		"85a8696e7374616e6365cf0123456789abcdefa668616e646c6501a26964b03030303030"
		"3030306465616462656566a565706f636802a87265636569766564cd012c");
}

static void a_job_is_opened_whose_tasks_cannot_run(void **state)
{
	const struct tfc__call_open message = {.target = {INSTANCE, 1, ID},
					       .epoch = 2,
					       .job_json = JOB,
					       .job_json_len = strlen(JOB),
					       .has_minimal_env = true,
					       .bundle_error = "it is gone",
					       .refused = "secret_env"};
	golden_expect_message(
		&tfc__agent_open_fields, &message,
		"87a8696e7374616e6365cf0123456789abcdefa668616e646c6501a26964b03030303030"
		"3030306465616462656566a565706f636802a36a6f62c4177b22726f6c6573223a7b2277"
		"6f726b6572223a7b7d7d7dac62756e646c655f6572726f72aa697420697320676f6e65a7"
		"72656675736564aa7365637265745f656e76",
		"8aa8696e7374616e6365cf0123456789abcdefa668616e646c6501a26964b03030303030"
		"3030306465616462656566a565706f636802a8726563656976656400a36a6f62b77b2272"
		"6f6c6573223a7b22776f726b6572223a7b7d7d7dab6d696e696d616c5f656e76c3a37461"
		"67c400ac62756e646c655f6572726f72aa697420697320676f6e65a772656675736564aa"
		"7365637265745f656e76");
}

static void a_job_was_opened(void **state)
{
	const struct tfc__call_opened message = {.state = "open"};
	golden_expect_message(&tfc__agent_opened_fields, &message, "81a57374617465a46f70656e",
			      "82a57374617465a46f70656ea8726563656976656400");
}

static void a_job_was_resumed(void **state)
{
	const struct tfc__call_opened message = {.state = "open", .received = 70000};
	golden_expect_message(&tfc__agent_opened_fields, &message,
			      "82a57374617465a46f70656ea87265636569766564ce00011170",
			      "82a57374617465a46f70656ea87265636569766564ce00011170");
}

static void a_log_from_its_beginning(void **state)
{
	const struct tfc__agent_log_call message = {.id = ID, .name = "worker-0"};
	golden_expect_message(
		&tfc__agent_log_fields, &message,
		"82a26964b030303030303030306465616462656566a46e616d65a8776f726b65722d30",
		"84a26964b030303030303030306465616462656566a47461736b00a46e616d65a8776f72"
		"6b65722d30a8706f736974696f6e00");
}

static void a_log_from_a_position(void **state)
{
	const struct tfc__agent_log_call message = {.id = ID,
						    .task = 7,
						    .name = "ps-0",
						    .position = 5000000000};
	golden_expect_message(
		&tfc__agent_log_fields, &message,
		"84a26964b030303030303030306465616462656566a47461736b07a46e616d65a470732d"
		"30a8706f736974696f6ecf000000012a05f200",
		"84a26964b030303030303030306465616462656566a47461736b07a46e616d65a470732d"
		"30a8706f736974696f6ecf000000012a05f200");
}

static void a_drain(void **state)
{
	const struct tfc__drain_params message = {.is_off = false};
	golden_expect_message(&tfc__drain_fields, &message, "80", "81a36f6666c2");
}

static void an_undrain(void **state)
{
	const struct tfc__drain_params message = {.is_off = true};
	golden_expect_message(&tfc__drain_fields, &message, "81a36f6666c3", "81a36f6666c3");
}

static void no_jobs_are_removed(void **state)
{
	const struct tfc__ids message = {.ids = NULL};
	golden_expect_message(&tfc__ids_fields, &message, "80", "81a369647390");
}

static void jobs_are_removed(void **state)
{
	const struct tfc__ids message = {.ids = ids};
	golden_expect_message(&tfc__ids_fields, &message,
			      "81a369647392b030303030303030306465616462656566a56e6f206964",
			      "81a369647392b030303030303030306465616462656566a56e6f206964");
}

/* ---- messages of a link */

static void expect_message(const char *hex, uint64_t ack, uint64_t number, const char *gone,
			   bool has_body)
{
	struct tfc__agent_message message;
	struct tfc__msg msg;
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__buf bytes = golden_parse(hex, &msg);
	assert_int_equal(tfc__agent_message_read(&msg.root, &error, &message), TFC_OK);
	assert_int_equal(message.handle, 3);
	assert_int_equal(message.ack, ack);
	assert_int_equal(message.number, number);
	assert_string_equal(message.gone, gone);
	assert_int_equal(!message.body, !has_body);
	assert_true(!has_body || message.body->type == MSGPACK_OBJECT_MAP);
	tfc__msg_fini(&msg);
	tfc__buf_fini(&bytes);
}

static void a_message_of_a_link(void **state)
{
	static const char golden[] =
		"84a8696e7374616e6365cf0123456789abcdefa668616e646c6503a16e01a4626f647981"
		"a56f7264657201";
	static const char earlier[] =
		"85a8696e7374616e6365cf0123456789abcdefa668616e646c6503a361636b00a16e01a4"
		"626f647981a56f7264657201";
	struct tfc__agent_link link;
	struct tfc__buf body = golden_bytes("81a56f7264657201"), written = {0};
	tfc__agent_link_init(&link, 0);
	assert_int_equal(tfc__agent_link_post(&link, &body), TFC_OK);
	tfc__link_write(&written, INSTANCE, 3, &link, tfc__agent_link_next(&link));
	golden_expect(&written, golden);
	expect_message(golden, 0, 1, "", true);
	expect_message(earlier, 0, 1, "", true);
	tfc__agent_link_fini(&link);
	tfc__buf_fini(&body);
}

static void an_acknowledgement(void **state)
{
	static const char golden[] =
		"83a8696e7374616e6365cf0123456789abcdefa668616e646c6503a361636b09";
	struct tfc__agent_link link;
	struct tfc__buf written = {0};
	tfc__agent_link_init(&link, 0);
	link.received = 9;
	tfc__link_write(&written, INSTANCE, 3, &link, NULL);
	golden_expect(&written, golden);
	expect_message(golden, 9, 0, "", false);
	tfc__agent_link_fini(&link);
}

static void a_job_that_is_gone(void **state)
{
	static const char golden[] = "82a668616e646c6503a4676f6e65a666656e636564";
	const struct tfc__agent_message message = {.handle = 3, .gone = "fenced"};
	struct tfc__buf written = {0};
	tfc__agent_message_write(&written, &message);
	golden_expect(&written, golden);
	expect_message(golden, 0, 0, "fenced", false);
}

/* ---- records of a log */

static void expect_record(const tfc_log_record *record, const char *hex)
{
	tfc_log_record read;
	struct tfc__buf written = {0};
	struct tfc__msg msg;
	tfc__log_record_write(&written, record);
	golden_expect(&written, hex);
	struct tfc__buf bytes = golden_parse(hex, &msg);
	assert_true(tfc__log_record_read(&msg.root, &read));
	assert_int_equal(!read.data, !record->data);
	if (read.data)
		assert_memory_equal(read.data, record->data, (size_t)record->len);
	read.data = record->data;
	assert_memory_equal(&read, record, sizeof(read));
	tfc__msg_fini(&msg);
	tfc__buf_fini(&bytes);
}

static void records_of_a_log(void **state)
{
	const tfc_log_record line = {.size = sizeof(line),
				     .stream = 1,
				     .attempt = 2,
				     .time_ns = 1769860800000001000u,
				     .position = 100,
				     .next = 130,
				     .data = "line\n",
				     .len = 5};
	const tfc_log_record gap = {.size = sizeof(gap),
				    .stream = 2,
				    .attempt = 2,
				    .time_ns = 1769860800000001000u,
				    .position = 130,
				    .next = 180,
				    .len = 50};
	expect_record(&line, "970102cf188fcf053de383e864cc8205c4056c696e650a");
	expect_record(&gap, "970202cf188fcf053de383e8cc82ccb432c0");
}

static void what_is_no_record_is_refused(void **state)
{
	static const char *const wrong[] = {
		"80",
		"96010203040506",
		"970102030405ffc0",
		"97010203040506c4056c696e650a",
		"97010203040504a46c696e65",
	};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		tfc_log_record read;
		struct tfc__msg msg;
		struct tfc__buf bytes = golden_parse(wrong[i], &msg);
		assert_false(tfc__log_record_read(&msg.root, &read));
		tfc__msg_fini(&msg);
		tfc__buf_fini(&bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_call_of_a_session),
		cmocka_unit_test(a_job_is_dropped),
		cmocka_unit_test(a_stamp),
		cmocka_unit_test(a_stamp_of_a_node_without_earlier_tasks),
		cmocka_unit_test(a_renewal),
		cmocka_unit_test(a_job_is_opened),
		cmocka_unit_test(a_job_is_resumed),
		cmocka_unit_test(a_job_is_opened_whose_tasks_cannot_run),
		cmocka_unit_test(a_job_was_opened),
		cmocka_unit_test(a_job_was_resumed),
		cmocka_unit_test(a_log_from_its_beginning),
		cmocka_unit_test(a_log_from_a_position),
		cmocka_unit_test(a_drain),
		cmocka_unit_test(an_undrain),
		cmocka_unit_test(no_jobs_are_removed),
		cmocka_unit_test(jobs_are_removed),
		cmocka_unit_test(a_message_of_a_link),
		cmocka_unit_test(an_acknowledgement),
		cmocka_unit_test(a_job_that_is_gone),
		cmocka_unit_test(records_of_a_log),
		cmocka_unit_test(what_is_no_record_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
