/* gateway: requests and events of the other end. What is read is written as it was; an event that
 * is taken is whole: its strings end, and it is one line of JSON. */
#include <string.h>

#include "bundle/cache.h"
#include "fuzz.h"
#include "gateway/event_wire.h"
#include "gateway/request_params.h"
#include "job/job.h"

#define OBJECTS_MAX 4096
#define TASKS_MAX 65536
#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void write_home(struct tfc__buf *text, const struct tfc__request_params *params)
{
	if (params->verb == TFC_VERB_SUBMIT)
		tfc__request_params_add_home(text, params->home);
}

static void check_same(const struct tfc__buf *text, const struct tfc__request_params *params)
{
	struct tfc__buf again = {0};
	tfc__request_params_write(&again, params);
	write_home(&again, params);
	CHECK(text->len == again.len && memcmp(text->data, again.data, text->len) == 0);
	tfc__buf_fini(&again);
}

/* A path is called by what it holds, once that is known. */
static void check_named(const struct tfc__request_params *params)
{
	CHECK(strcmp(params->definition->bundle, TFC__BUNDLE_NAME HASH) == 0);
}

static int read_all(struct tfc__received *received, enum tfc_verb verb,
		    const msgpack_object *params, tfc_error *error)
{
	int code = tfc__request_params_read(received, verb, params, error);
	return code < 0 ? code : tfc__request_params_read_definition(received, error);
}

static void check_params(enum tfc_verb verb, const msgpack_object *map)
{
	struct tfc__received received, again;
	struct tfc__buf text = {0};
	struct tfc__msg msg;
	tfc_error error = TFC_ERROR_INIT;
	int code = read_all(&received, verb, map, &error);
	if (code < 0) {
		fuzz_check_error(code, &error);
		tfc__received_fini(&received);
		return;
	}
	CHECK(received.params.job && received.params.task && received.params.node);
	tfc__request_params_write(&text, &received.params);
	bool brings_bundle = tfc__request_params_brings_bundle(&received.params);
	if (brings_bundle)
		tfc__request_params_add_bundle(&text, HASH);
	write_home(&text, &received.params);
	CHECK(!text.is_failed);
	CHECK(tfc__msg_parse(&msg, text.data, text.len, NULL, &error) == TFC_OK);
	CHECK(read_all(&again, verb, &msg.root, &error) == TFC_OK);
	if (brings_bundle)
		check_named(&again.params);
	else
		check_same(&text, &again.params);
	tfc__received_fini(&again);
	tfc__msg_fini(&msg);
	tfc__received_fini(&received);
	tfc__buf_fini(&text);
}

/* Each line is within the text, all of them are the text, and what is read is written so that it is
 * read again. */
static void check_lines(const struct tfc__sub_event *event)
{
	struct tfc__line_batch_reader reader, again;
	struct tfc__line_batch batch = {.has_reports = event->has_reports};
	struct tfc__line line, copy;
	const char *text = event->output;
	int code;
	tfc__line_batch_read(&reader, event->output, event->output_len, event->lines,
			     event->lines_len, event->has_reports);
	while ((code = tfc__line_batch_next(&reader, &line)) > 0) {
		CHECK(line.data == text && line.len <= TFC__LINE_MAX);
		text += line.len + 1;
		CHECK(text[-1] == '\n');
		tfc__line_batch_add(&batch, &line);
	}
	CHECK(code == TFC_EPARSE ||
	      (code == 0 && text == (const char *)event->output + event->output_len));
	CHECK(text <= (const char *)event->output + event->output_len);
	tfc__line_batch_read(&reader, event->output, event->output_len, event->lines,
			     event->lines_len, event->has_reports);
	tfc__line_batch_read(&again, batch.text.data, batch.text.len, batch.table.data,
			     batch.table.len, event->has_reports);
	while (tfc__line_batch_next(&again, &copy) > 0) {
		CHECK(tfc__line_batch_next(&reader, &line) == 1);
		CHECK(line.stream == copy.stream && line.time_ns == copy.time_ns &&
		      line.is_partial == copy.is_partial && line.len == copy.len &&
		      memcmp(&line.cursor, &copy.cursor, sizeof(line.cursor)) == 0);
		batch.count--;
	}
	CHECK(!batch.count);
	tfc__line_batch_fini(&batch);
}

static void check_event(struct tfc__reader *reader, const tfc_event *head,
			const msgpack_object *object, struct tfc__place *place)
{
	struct tfc__buf text = {0}, twice = {0};
	struct tfc__reader other = {.ahead_ns = 0};
	struct tfc__sub_event event, again;
	struct tfc__msg msg;
	tfc_error error = TFC_ERROR_INIT;
	char *json;
	int code = tfc__sub_event_read(reader, head, object, &error, &event);
	if (code < 0) {
		CHECK(code == TFC_EPARSE || code == TFC_ENOTSUP);
		return;
	}
	CHECK(tfc_event_json(&event.event, &json) == TFC_OK);
	CHECK(!strpbrk(json, "\n\r"));
	tfc_free(json);
	if (event.mark.task == UINT32_MAX || event.mark.task < TASKS_MAX) {
		CHECK(tfc__place_apply(place, &event.mark) == TFC_OK);
		CHECK(tfc__place_text(place)[0]);
	}
	if (event.event.kind == TFC_EVENT_OUTPUT)
		check_lines(&event);
	tfc__sub_event_write(&text, &event);
	CHECK(tfc__msg_parse(&msg, text.data, text.len, NULL, NULL) == TFC_OK);
	CHECK(tfc__sub_event_read(&other, head, &msg.root, &error, &again) == TFC_OK);
	tfc__sub_event_write(&twice, &again);
	CHECK(text.len == twice.len && memcmp(text.data, twice.data, text.len) == 0);
	tfc__reader_fini(&other);
	tfc__msg_fini(&msg);
	tfc__buf_fini(&text);
	tfc__buf_fini(&twice);
}

static void check_item(const msgpack_object *item)
{
	struct tfc__reader head_reader = {.ahead_ns = 0}, reader = {.ahead_ns = 0};
	struct tfc__place place = {0};
	tfc_event head;
	uint32_t count = item->type == MSGPACK_OBJECT_ARRAY ? item->via.array.size : 0;
	if (!count ||
	    tfc__sub_event_read_head(&head_reader, &item->via.array.ptr[0], NULL, &head) < 0)
		count = 0;
	for (uint32_t i = 1; i < count; i++)
		check_event(&reader, &head, &item->via.array.ptr[i], &place);
	tfc__place_fini(&place);
	tfc__reader_fini(&head_reader);
	tfc__reader_fini(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct tfc__msg_limits limits = {.objects = OBJECTS_MAX};
	struct tfc__msg msg;
	if (size < 1 || tfc__msg_parse(&msg, data + 1, size - 1, &limits, NULL) < 0)
		return 0;
	check_params((enum tfc_verb)(TFC_VERB_SUBMIT + data[0] % TFC_VERB_WATCH), &msg.root);
	check_item(&msg.root);
	tfc__msg_fini(&msg);
	return 0;
}
