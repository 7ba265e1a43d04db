/* gateway: events as JSON. Whatever a task writes or a name holds, it is one line that any parser
 * of JSON reads. */
#include <jansson.h>
#include <string.h>

#include "base/utf8.h"
#include "fuzz.h"
#include <tfcluster/gateway.h>
#include <tfcluster/log.h>

static void check_json(const tfc_event *event)
{
	char *json = NULL;
	CHECK(tfc_event_json(event, &json) == TFC_OK);
	CHECK(tfc__is_plain_text(json));
	json_t *root = json_loads(json, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	CHECK(json_is_object(root));
	CHECK(json_string_value(json_object_get(root, "time")));
	CHECK(json_string_value(json_object_get(root, "event")));
	if (event->kind == TFC_EVENT_OUTPUT)
		CHECK(json_is_string(json_object_get(root, "text")));
	json_decref(root);
	tfc_free(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = {data, size};
	tfc_event event = {.size = sizeof(event)};
	event.kind = TFC_EVENT_JOB + (uint32_t)fuzz_number(&input, 1) % 7;
	event.job_state = (uint32_t)fuzz_number(&input, 1) % 7;
	event.task_state = (uint32_t)fuzz_number(&input, 1) % 8;
	event.reason = (uint32_t)fuzz_number(&input, 1);
	event.exit_reason = (uint32_t)fuzz_number(&input, 1) % 7;
	event.stream = (uint32_t)fuzz_number(&input, 1) % 4;
	event.exit_code = event.signal = (int32_t)fuzz_number(&input, 1);
	event.time_ns = fuzz_number(&input, 8);
	char *line = fuzz_line(&input, '\n'), *second = fuzz_line(&input, '\n');
	const char *text = line ? line : "", *name = second ? second : "";
	const char *tail[] = {text, name, NULL};
	event.job = event.address = event.cursor = text;
	event.name = event.node = event.text = name;
	event.task_type = *name ? "worker" : "";
	event.log_tail = tail;
	event.data = (const char *)input.at;
	event.data_len = input.len;
	check_json(&event);
	int status = tfc_event_exit_status(&event);
	CHECK(event.kind == TFC_EVENT_END || status == TFC_EINVAL);
	free(line);
	free(second);
	return 0;
}
