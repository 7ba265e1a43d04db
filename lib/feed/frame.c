#include "feed/frame.h"

#define FRAME_BYTES 64 /* of a frame without a message and rows */

#define CONNECT(...) TFC__FIELD(struct tfc__feed_connect, __VA_ARGS__)
static const struct tfc__field connect_rows[] = {
	CONNECT("job", TFC__TEXT, job, TFC__V0_3),
	CONNECT("task", TFC__TEXT, task, TFC__V0_3),
	CONNECT("queue", TFC__TEXT, queue, TFC__V0_3),
	CONNECT("node", TFC__TEXT, node, TFC__V0_3),
	CONNECT("forwarded", TFC__BOOL, is_forwarded, TFC__V0_3),
	CONNECT("producer", TFC__TEXT, producer, TFC__V0_3),
	CONNECT("over", TFC__BOOL, is_over, TFC__V0_3),
	CONNECT("producers", TFC__UINT, producers, TFC__V0_3),
	CONNECT("attempt", TFC__UINT, attempt, TFC__V0_3),
};
const struct tfc__fields tfc__feed_connect_fields = TFC__FIELDS(connect_rows,
								struct tfc__feed_connect, NULL);

#define FRAME(...) TFC__FIELD(struct tfc__feed_frame, __VA_ARGS__)
static const struct tfc__field frame_rows[] = {
	FRAME("stream", TFC__UINT, stream, TFC__V0_3),
	FRAME("credit", TFC__UINT, credit, TFC__V0_3),
	FRAME("message", TFC__BYTES, message, TFC__V0_3,
	      .count = offsetof(struct tfc__feed_frame, message_len)),
	FRAME("rows", TFC__BYTES, data, TFC__V0_3,
	      .count = offsetof(struct tfc__feed_frame, data_len)),
};
static const struct tfc__fields frame_fields = TFC__FIELDS(frame_rows, struct tfc__feed_frame,
							   NULL);

void tfc__feed_frame_write(struct tfc__buf *buf, const struct tfc__feed_frame *frame)
{
	tfc__buf_reserve(buf, FRAME_BYTES + frame->message_len + frame->data_len);
	tfc__fields_write(buf, &frame_fields, frame);
}

int tfc__feed_frame_read(const msgpack_object *object, tfc_error *error,
			 struct tfc__feed_frame *ret_frame)
{
	return tfc__fields_read(NULL, &frame_fields, object, error, ret_frame);
}

uint64_t tfc__feed_frame_cost(const struct tfc__feed_frame *frame)
{
	return FRAME_BYTES + frame->message_len + frame->data_len;
}
