/* gateway: questions and events of the other end. What is read is written as it was; an event that
 * is taken is whole: its strings end, and it is one line of JSON. */
#include <string.h>

#include "bundle/cache.h"
#include "fuzz.h"
#include "gateway/event_wire.h"
#include "gateway/question.h"
#include "job/job.h"

#define OBJECTS_MAX 4096
#define TASKS_MAX 65536
#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void write_home(struct tfc__buf *text, const struct tfc__question *question)
{
	if (question->verb == TFC_VERB_SUBMIT)
		tfc__question_write_home(text, question->home);
}

static void check_same(const struct tfc__buf *text, const struct tfc__question *question)
{
	struct tfc__buf again = {0};
	tfc__question_write(&again, question);
	write_home(&again, question);
	CHECK(text->len == again.len && memcmp(text->data, again.data, text->len) == 0);
	tfc__buf_fini(&again);
}

/* A path is called by what it holds, once that is known. */
static void check_named(const struct tfc__question *question)
{
	CHECK(strcmp(question->definition->bundle, TFC__BUNDLE_NAME HASH) == 0);
}

static int read_all(struct tfc__heard *heard, enum tfc_verb verb, const msgpack_object *params,
		    tfc_error *error)
{
	int code = tfc__question_read(heard, verb, params, error);
	return code < 0 ? code : tfc__question_read_definition(heard, params, error);
}

static void check_question(enum tfc_verb verb, const msgpack_object *params)
{
	struct tfc__heard heard, again;
	struct tfc__buf text = {0};
	struct tfc__msg msg;
	tfc_error error = TFC_ERROR_INIT;
	int code = read_all(&heard, verb, params, &error);
	if (code < 0) {
		fuzz_check_error(code, &error);
		tfc__heard_fini(&heard);
		return;
	}
	CHECK(heard.question.job && heard.question.task && heard.question.node);
	tfc__question_write(&text, &heard.question);
	bool brings_bundle = tfc__question_brings_bundle(&heard.question);
	if (brings_bundle)
		tfc__question_write_bundle(&text, HASH);
	write_home(&text, &heard.question);
	CHECK(!text.is_failed);
	CHECK(tfc__msg_parse(&msg, text.data, text.len, NULL, &error) == TFC_OK);
	CHECK(read_all(&again, verb, &msg.root, &error) == TFC_OK);
	if (brings_bundle)
		check_named(&again.question);
	else
		check_same(&text, &again.question);
	tfc__heard_fini(&again);
	tfc__msg_fini(&msg);
	tfc__heard_fini(&heard);
	tfc__buf_fini(&text);
}

/* Whether it is written as it was read. */
static void check_again(const struct tfc__told_in *in, struct tfc__buf *ret_text)
{
	struct tfc__buf scratch = {0};
	tfc__buf_clear(ret_text);
	tfc__told_write(ret_text, &scratch, &in->event, &in->mark);
	CHECK(!ret_text->is_failed && scratch.len == 0);
	tfc__buf_fini(&scratch);
}

static void check_event(struct tfc__told_in *in, const msgpack_object *head,
			const msgpack_object *object, struct tfc__place *place)
{
	struct tfc__buf text = {0}, twice = {0};
	struct tfc__told_in again = {.tail = NULL};
	struct tfc__msg msg;
	char *json;
	int code = tfc__told_read(in, head, object);
	CHECK(code == TFC_OK || code == TFC_EPARSE);
	if (code < 0)
		return;
	CHECK(tfc_event_json(&in->event, &json) == TFC_OK);
	CHECK(!strpbrk(json, "\n\r"));
	tfc_free(json);
	if (in->mark.task == UINT32_MAX || in->mark.task < TASKS_MAX) {
		CHECK(tfc__place_go(place, &in->mark) == TFC_OK);
		CHECK(tfc__place_text(place)[0]);
	}
	check_again(in, &text);
	CHECK(tfc__msg_parse(&msg, text.data, text.len, NULL, NULL) == TFC_OK);
	CHECK(tfc__told_read(&again, head, &msg.root) == TFC_OK);
	check_again(&again, &twice);
	CHECK(text.len == twice.len && memcmp(text.data, twice.data, text.len) == 0);
	tfc__told_in_fini(&again);
	tfc__msg_fini(&msg);
	tfc__buf_fini(&text);
	tfc__buf_fini(&twice);
}

static void check_item(const msgpack_object *item)
{
	struct tfc__told_in in = {.tail = NULL};
	struct tfc__place place = {0};
	if (item->type != MSGPACK_OBJECT_ARRAY)
		return;
	for (uint32_t i = 1; i < item->via.array.size; i++)
		check_event(&in, &item->via.array.ptr[0], &item->via.array.ptr[i], &place);
	tfc__place_fini(&place);
	tfc__told_in_fini(&in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct tfc__msg_limits limits = {.objects = OBJECTS_MAX};
	struct tfc__msg msg;
	if (size < 1 || tfc__msg_parse(&msg, data + 1, size - 1, &limits, NULL) < 0)
		return 0;
	check_question((enum tfc_verb)(TFC_VERB_SUBMIT + data[0] % TFC_VERB_FIND), &msg.root);
	check_item(&msg.root);
	tfc__msg_fini(&msg);
	return 0;
}
