/* agent: what another member says: its hello, the calls and orders of a maintainer, the events of
 * an agent. */
#include <string.h>

#include "fuzz.h"
#include "gateway/home.h"
#include "gateway/search.h"
#include "node/agent_wire.h"
#include "node/calls.h"
#include "node/hello.h"

#define OBJECTS_MAX 4096
#define TASKS 3

/* What was read is written as it was. */
static void check_hello(const msgpack_object *object)
{
	struct tfc__hello hello, again;
	struct tfc__buf text = {0}, twice = {0};
	struct tfc__msg msg;
	tfc_error error = TFC_ERROR_INIT;
	int code = tfc__hello_read(object, &error, &hello);
	if (code < 0) {
		fuzz_check_error(code, &error);
		tfc__hello_fini(&hello);
		return;
	}
	CHECK(*hello.name);
	tfc__hello_write(&hello, &text);
	CHECK(tfc__msg_parse(&msg, text.data, text.len, NULL, NULL) == TFC_OK);
	CHECK(tfc__hello_read(&msg.root, &error, &again) == TFC_OK);
	tfc__hello_write(&again, &twice);
	CHECK(text.len == twice.len && memcmp(text.data, twice.data, text.len) == 0);
	tfc__hello_fini(&again);
	tfc__hello_fini(&hello);
	tfc__msg_fini(&msg);
	tfc__buf_fini(&text);
	tfc__buf_fini(&twice);
}

static void check_order(const msgpack_object *object)
{
	struct tfc__reader reader = {.ahead_ns = 0};
	struct tfc__task_order order;
	tfc_error error = TFC_ERROR_INIT;
	int code = tfc__order_read(&reader, object, &error, &order);
	if (code < 0)
		fuzz_check_error(code, &error);
	for (size_t i = 0; code == TFC_OK && order.env && order.env[i]; i++)
		CHECK(strchr(order.env[i], '='));
	tfc_spec_free(order.spec);
	tfc__reader_fini(&reader);
}

static void check_event(const msgpack_object *object)
{
	struct tfc__reader reader = {.ahead_ns = 0};
	struct tfc__task_event event;
	tfc_error error = TFC_ERROR_INIT;
	int code = tfc__event_read(&reader, object, TASKS, &error, &event);
	if (code < 0) {
		fuzz_check_error(code, &error);
		tfc__reader_fini(&reader);
		return;
	}
	CHECK(event.task < TASKS && event.kind <= TFC__AGENT_STATES);
	CHECK(event.inspected_count <= TFC__INSPECTED_MAX);
	for (uint32_t i = 0; i < event.inspected_count; i++)
		CHECK(event.inspected[i].task < TASKS);
	CHECK(event.kind != TFC__AGENT_EXITED || event.process);
	CHECK(event.kind != TFC__AGENT_STATES || event.states);
	struct tfc__buf text = {0};
	tfc__event_write(&text, &event);
	CHECK(!text.is_failed);
	tfc__buf_fini(&text);
	tfc__reader_fini(&reader);
}

/* Any messages, numbered as they like. */
static void check_link(const msgpack_object *object)
{
	struct tfc__agent_link link;
	struct tfc__agent_message message;
	tfc_error error = TFC_ERROR_INIT;
	int code = tfc__agent_message_read(object, &error, &message);
	if (code < 0) {
		fuzz_check_error(code, &error);
		return;
	}
	tfc__agent_link_init(&link, 0);
	code = tfc__link_receive(&link, &message);
	CHECK(code == TFC_OK || code == 1 || code == TFC_EPARSE);
	CHECK(link.received == (uint64_t)(code == 1));
	tfc__agent_link_fini(&link);
}

static void check_record(const msgpack_object *object)
{
	tfc_log_record record;
	struct tfc__buf text = {0};
	if (!tfc__log_record_read(object, &record))
		return;
	tfc__log_record_write(&text, &record);
	CHECK(!text.is_failed);
	tfc__buf_fini(&text);
}

static bool read_message(const struct tfc__fields *table, struct tfc__reader *reader,
			 const msgpack_object *object, void *message, struct tfc__buf *text)
{
	tfc_error error = TFC_ERROR_INIT;
	int code = tfc__params_read(reader, table, object, &error, message);
	if (code < 0)
		fuzz_check_error(code, &error);
	else
		tfc__fields_write(text, table, message);
	CHECK(!text->is_failed);
	return code == TFC_OK;
}

/* What was read is written, read and written as it was. */
static void check_call(const struct tfc__fields *table, const msgpack_object *object)
{
	union {
		struct tfc__agent_target target;
		struct tfc__agent_stamp stamp;
		struct tfc__agent_renewal renewal;
		struct tfc__call_open open;
		struct tfc__call_opened opened;
		struct tfc__agent_log_call log;
		struct tfc__drain_params drain;
		struct tfc__ids ids;
		struct tfc__bundle_offer offer;
		struct tfc__bundle_offer_item item;
		struct tfc__bundle_chunk chunk;
		struct tfc__bundle_chunk_result result;
		struct tfc__matches matches;
		struct tfc__server server;
	} message;
	struct tfc__reader reader = {.ahead_ns = 0};
	struct tfc__buf text = {0}, twice = {0};
	struct tfc__msg msg;
	CHECK(table->size <= sizeof(message));
	if (read_message(table, &reader, object, &message, &text)) {
		CHECK(tfc__msg_parse(&msg, text.data, text.len, NULL, NULL) == TFC_OK);
		CHECK(read_message(table, &reader, &msg.root, &message, &twice));
		CHECK(text.len == twice.len && memcmp(text.data, twice.data, text.len) == 0);
		tfc__msg_fini(&msg);
	}
	tfc__reader_fini(&reader);
	tfc__buf_fini(&text);
	tfc__buf_fini(&twice);
}

static const struct tfc__fields *const calls[] = {
	&tfc__agent_target_fields,
	&tfc__agent_stamp_fields,
	&tfc__agent_renewal_fields,
	&tfc__agent_open_fields,
	&tfc__agent_opened_fields,
	&tfc__agent_log_fields,
	&tfc__drain_fields,
	&tfc__ids_fields,
	&tfc__bundle_offer_fields,
	&tfc__bundle_chunk_fields,
	&tfc__bundle_chunk_result_fields,
	&tfc__bundle_offer_item_fields,
	&tfc__matches_fields,
	&tfc__server_fields,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct tfc__msg_limits limits = {.objects = OBJECTS_MAX};
	struct tfc__msg msg;
	if (tfc__msg_parse(&msg, data, size, &limits, NULL) < 0)
		return 0;
	check_hello(&msg.root);
	check_order(&msg.root);
	check_event(&msg.root);
	check_link(&msg.root);
	check_record(&msg.root);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		check_call(calls[i], &msg.root);
	tfc__msg_fini(&msg);
	return 0;
}
