/*
 * Events of a subscription: the table of their fields, for the wire and for JSON.
 *
 * In the stream of "gateway.subscribe" an item is a list of a head, {job, name, tag}, and events.
 * Each event carries the change of the subscription's position, so that the subscription can be
 * continued over another connection. Consecutive lines of a task are one event, a batch.
 */
#ifndef TFC_GATEWAY_EVENT_WIRE_H
#define TFC_GATEWAY_EVENT_WIRE_H

#include "gateway/place.h"
#include "log/line_batch.h"
#include "wire/fields.h"
#include <tfcluster/gateway.h>

struct tfc__sub_event {
	tfc_event event;
	struct tfc__mark mark; /* of a batch: behind its last line */
	/* OUTPUT: a batch, see log/line_batch.h; lines is NULL in the process that reads the log.
	 * On the wire, a report is a line of a batch. */
	const void *lines;
	uint64_t lines_len;
	bool has_reports; /* of a subscription with reports: its batches have positions of them */
	/* Alternative representations of what is in the event and the mark: on the wire */
	const void *output; /* OUTPUT: the texts of the lines */
	uint64_t output_len;
	uint64_t gap_bytes; /* GAP: bytes lost */
	struct tfc__cursor_text cursor_text;
	/* a watch, in which each event is of another job */
	const char *job;
	const char *name;
	const void *host_tag;
	uint64_t host_tag_len;
	/* and in JSON: */
	const char *task; /* "worker/0", or NULL */
	int32_t exit_status;
};

/* The kind of the event that reports a line of this stream. */
static inline uint32_t tfc__line_event_kind(uint32_t stream)
{
	return stream == TFC_STREAM_GAP      ? TFC_EVENT_GAP
	       : stream == TFC_STREAM_REPORT ? TFC_EVENT_REPORT
					     : TFC_EVENT_OUTPUT;
}

static inline bool tfc__event_is_line(const tfc_event *event)
{
	return event->kind == TFC_EVENT_OUTPUT || event->kind == TFC_EVENT_REPORT;
}

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
	TFC__SHOWN_LOST = 512,     /* LOST, RECONNECTING */
	TFC__SHOWN_LIVE = 1024,    /* LIVE, RECONNECTED */
	TFC__SHOWN_WATCHED = 2048, /* SUBMITTED, CHANGED */
	TFC__SHOWN_ENDED = 4096,
	TFC__SHOWN_FORGOTTEN = 8192,
	TFC__SHOWN_NODE = 16384, /* NODE_RESET, NODE_SEEN */
	TFC__SHOWN_UNSEEN = 32768,
	TFC__SHOWN_REPORT = 65536,
};
extern const struct tfc__fields tfc__sub_event_fields;

/* An item that is being made for a stream. Zeroed initially. Out of memory is found in
 * tfc__sub_item_write. */
struct tfc__sub_item {
	struct tfc__buf head;
	struct tfc__buf events;
	uint32_t count;
	bool confirms;                /* it is sent even without events */
	struct tfc__line_batch batch; /* lines that were not added to `events` yet */
	struct tfc__sub_event output; /* the event of their first line, which the others continue */
};

/* Adds an event, which follows the one before it. */
void tfc__sub_item_add(struct tfc__sub_item *item, const struct tfc__sub_event *event);
/* Confirms that the subscription is established. `head` has the head of its events. */
void tfc__sub_item_confirm(struct tfc__sub_item *item, const tfc_event *head);
/* Ends the batch. Lines that are not ended refer to strings of their events. */
void tfc__sub_item_end_batch(struct tfc__sub_item *item);
bool tfc__sub_item_is_empty(const struct tfc__sub_item *item);
size_t tfc__sub_item_bytes(const struct tfc__sub_item *item); /* approximate length */
/* Writes the item: TFC_OK or TFC_ENOMEM. */
int tfc__sub_item_write(struct tfc__sub_item *item, struct tfc__buf *buf);
void tfc__sub_item_clear(struct tfc__sub_item *item);
void tfc__sub_item_fini(struct tfc__sub_item *item);

/* Writes an event: a batch, or another kind than OUTPUT and REPORT. Out of memory is in
 * buf->is_failed. */
void tfc__sub_event_write(struct tfc__buf *buf, const struct tfc__sub_event *event);

/* Reads the head into job, name and host_tag of an event. TFC_OK, TFC_EPARSE, TFC_ENOMEM. */
int tfc__sub_event_read_head(struct tfc__reader *reader, const msgpack_object *object,
			     tfc_error *error, tfc_event *ret_head);
/* Reads an event that follows such a head; of OUTPUT the batch, whose lines are not checked.
 * TFC_OK, TFC_EPARSE, TFC_ENOMEM, and TFC_ENOTSUP: of a kind that this version does not know. Its
 * pointers are valid as long as the readers and the message. */
int tfc__sub_event_read(struct tfc__reader *reader, const tfc_event *head,
			const msgpack_object *object, tfc_error *error,
			struct tfc__sub_event *ret_event);

#endif
