#include "feed/message.h"

#include <string.h>

#define ROW(...) TFC__FIELD(struct tfc__feed_message, __VA_ARGS__)
static const struct tfc__field message_rows[] = {
	ROW("k", TFC__UINT, kind, TFC__V0_3),
	ROW("code", TFC__INT, code, TFC__V0_3),
	ROW("text", TFC__STRING, text, TFC__V0_3, .max = 1023),
	ROW("task", TFC__STRING, task, TFC__V0_3, .max = 127),
	ROW("queue", TFC__STRING, queue, TFC__V0_3, .max = 63),
	ROW("attempt", TFC__UINT, attempt, TFC__V0_3),
	ROW("version", TFC__UINT, version, TFC__V0_3),
	ROW("producer", TFC__STRING, producer, TFC__V0_3, .max = 63),
	ROW("producers", TFC__UINT, producers, TFC__V0_3),
	ROW("results", TFC__BOOL, wants_results, TFC__V0_3),
	ROW("in_step", TFC__BOOL, is_in_step, TFC__V0_3),
	ROW("end", TFC__BOOL, is_end, TFC__V0_3),
	ROW("window", TFC__UINT, window, TFC__V0_3),
	ROW("multiple", TFC__UINT, multiple, TFC__V0_3),
	ROW("b", TFC__UINT, block, TFC__V0_3),
	ROW("at", TFC__UINT, at, TFC__V0_3),
	ROW("len", TFC__UINT, bytes, TFC__V0_3),
	ROW("p", TFC__UINT, partition, TFC__V0_3),
	ROW("ps", TFC__UINT, partitions, TFC__V0_3),
	ROW("o", TFC__UINT, offset, TFC__V0_3),
	ROW("rows", TFC__UINT, rows, TFC__V0_3),
	ROW("steps", TFC__UINT, steps, TFC__V0_3),
	ROW("padded", TFC__UINT, padded_steps, TFC__V0_3),
	ROW("schema", TFC__BYTES, schema, TFC__V0_3,
	    .count = offsetof(struct tfc__feed_message, schema_len)),
	ROW("layout", TFC__BYTES, layout, TFC__V0_3,
	    .count = offsetof(struct tfc__feed_message, layout_len)),
};
static const struct tfc__fields message_fields = TFC__FIELDS(message_rows, struct tfc__feed_message,
							     NULL);

void tfc__feed_message_write(struct tfc__buf *buf, const struct tfc__feed_message *message)
{
	tfc__fields_write(buf, &message_fields, message);
}

int tfc__feed_message_parse(struct tfc__feed_parsed *parsed, const void *data, size_t len,
			    tfc_error *error)
{
	memset(parsed, 0, sizeof(*parsed));
	int code = tfc__msg_parse(&parsed->msg, data, len, NULL, error);
	if (code < 0)
		return code;
	code = tfc__fields_read(&parsed->reader, &message_fields, &parsed->msg.root, error,
				&parsed->message);
	if (code < 0)
		tfc__feed_parsed_fini(parsed);
	return code;
}

void tfc__feed_parsed_fini(struct tfc__feed_parsed *parsed)
{
	tfc__reader_fini(&parsed->reader);
	tfc__msg_fini(&parsed->msg);
}
