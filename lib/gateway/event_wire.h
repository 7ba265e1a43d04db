/*
 * Events of a subscription: the table of their fields, for the wire and for JSON.
 *
 * In the stream of "gateway.subscribe" an item is a list of a head, {job, name, tag}, and events.
 * Each event carries the change of the subscription's position, so that the subscription can be
 * continued over another connection.
 */
#ifndef TFC_GATEWAY_EVENT_WIRE_H
#define TFC_GATEWAY_EVENT_WIRE_H

#include "gateway/internal.h"
#include "wire/fields.h"

struct tfc__sub_event {
	tfc_event event;
	struct tfc__mark mark;
	/* Alternative representations of the event's data: on the wire */
	const void *output; /* OUTPUT: its bytes */
	uint64_t output_len;
	uint64_t gap_bytes;      /* GAP: bytes lost */
	struct tfc__piece piece; /* of the mark */
	/* and in JSON: */
	const char *task; /* "worker/0", or NULL */
	int32_t exit_status;
};

/* The variants of the JSON object; a TASK can have several. */
enum tfc__event_variant {
	TFC__SHOWN_JOB = 1,
	TFC__SHOWN_TASK = 2,
	TFC__SHOWN_TASK_STALLED = 4,
	TFC__SHOWN_TASK_ENDED = 8,
	TFC__SHOWN_TASK_EXITED = 16,
	TFC__SHOWN_TASK_KILLED = 32,
	TFC__SHOWN_OUTPUT = 64,
	TFC__SHOWN_GAP = 128,
	TFC__SHOWN_END = 256,
	TFC__SHOWN_LOST = 512,
	TFC__SHOWN_LIVE = 1024,
};
extern const struct tfc__fields tfc__sub_event_fields;

/* Write the head of an item, and an event. Out of memory is in buf->is_failed. */
void tfc__sub_event_write_head(struct tfc__buf *buf, const tfc_event *event);
void tfc__sub_event_write(struct tfc__buf *buf, const tfc_event *event,
			  const struct tfc__mark *mark);

/* Reads the head into job, name and host_tag of an event. TFC_OK, TFC_EPARSE, TFC_ENOMEM. */
int tfc__sub_event_read_head(struct tfc__reader *reader, const msgpack_object *object,
			     tfc_error *error, tfc_event *ret_head);
/* Reads an event that follows such a head. TFC_OK, TFC_EPARSE, TFC_ENOMEM, and TFC_ENOTSUP: of a
 * kind that this version does not know. Its pointers are valid as long as the readers and the
 * message. */
int tfc__sub_event_read(struct tfc__reader *reader, const tfc_event *head,
			const msgpack_object *object, tfc_error *error,
			struct tfc__sub_event *ret_event);

#endif
