#include "gateway/received_items.h"

#include <stdlib.h>
#include <string.h>

struct tfc__received_item {
	struct tfc__link link;
	size_t len;
	char data[];
};

static struct tfc__received_item *received_item_of(struct tfc__link *link)
{
	return tfc__container_of(link, struct tfc__received_item, link);
}

void tfc__received_items_init(struct tfc__received_items *items)
{
	tfc__list_init(&items->waiting);
}

bool tfc__received_items_drop_current(struct tfc__received_items *items)
{
	if (!items->item)
		return false;
	tfc__msg_fini(&items->msg);
	items->bytes -= items->item->len;
	free(items->item);
	items->item = NULL;
	items->at = items->count = 0;
	items->has_event = items->has_lines = false;
	return true;
}

void tfc__received_items_clear(struct tfc__received_items *items)
{
	tfc__received_items_drop_current(items);
	TFC__LIST_EACH (link, &items->waiting) {
		tfc__list_remove(link);
		free(received_item_of(link));
	}
	items->bytes = 0;
}

void tfc__received_items_fini(struct tfc__received_items *items)
{
	tfc__received_items_clear(items);
	tfc__reader_fini(&items->head_reader);
	tfc__reader_fini(&items->reader);
}

int tfc__received_items_add(struct tfc__received_items *items, const void *data, size_t len)
{
	struct tfc__received_item *item = malloc(sizeof(*item) + len);
	if (!item)
		return TFC_ENOMEM;
	item->len = len;
	memcpy(item->data, data, len);
	tfc__list_append(&items->waiting, &item->link);
	items->bytes += len;
	return TFC_OK;
}

int tfc__received_items_next(struct tfc__received_items *items)
{
	const msgpack_object *root = &items->msg.root;
	tfc__received_items_drop_current(items);
	if (tfc__list_is_empty(&items->waiting))
		return 0;
	struct tfc__received_item *item = received_item_of(items->waiting.next);
	int code = tfc__msg_parse(&items->msg, item->data, item->len, NULL, NULL);
	if (code < 0)
		return code;
	tfc__list_remove(&item->link);
	items->item = item;
	items->at = 1; /* after the head */
	items->count = root->type == MSGPACK_OBJECT_ARRAY ? root->via.array.size : 0;
	if (!items->count)
		return TFC_EPARSE;
	tfc__reader_clear(&items->head_reader);
	code = tfc__sub_event_read_head(&items->head_reader, &root->via.array.ptr[0], NULL,
					&items->head);
	return code < 0 ? code : 1;
}

/* Makes an event of the next line of the batch. 0: all were reported. */
static int received_items_read_line(struct tfc__received_items *items)
{
	tfc_event *event = &items->event.event;
	struct tfc__line line;
	int code = tfc__line_batch_next(&items->lines, &line);
	items->has_lines = code > 0;
	if (code <= 0)
		return code;
	bool is_last = items->lines.table == items->lines.table_end;
	if (is_last && memcmp(&line.cursor, &items->lines_end, sizeof(line.cursor)) != 0)
		return TFC_EPARSE;
	event->kind = tfc__line_event_kind(line.stream);
	event->stream = line.stream;
	event->time_ns = line.time_ns;
	event->is_partial = line.is_partial;
	event->data = line.data;
	event->data_len = line.len;
	items->event.mark.cursor = line.cursor;
	items->has_event = true;
	return 1;
}

int tfc__received_items_read(struct tfc__received_items *items, bool keeps_batches)
{
	struct tfc__sub_event *event = &items->event;
	int code = items->has_lines ? received_items_read_line(items) : 0;
	if (code || items->at >= items->count)
		return code;
	tfc__reader_clear(&items->reader);
	code = tfc__sub_event_read(&items->reader, &items->head,
				   &items->msg.root.via.array.ptr[items->at], NULL, event);
	if (code < 0 && code != TFC_ENOTSUP)
		return code;
	items->at++;
	if (event->mark.task != UINT32_MAX && event->mark.task >= TFC__JOB_TASKS_MAX)
		return TFC_EPARSE;
	items->has_event = code == TFC_OK;
	if (!items->has_event || keeps_batches || event->event.kind != TFC_EVENT_OUTPUT)
		return 1;
	items->has_event = false;
	items->has_lines = true;
	items->lines_end = event->mark.cursor;
	tfc__line_batch_read(&items->lines, event->output, event->output_len, event->lines,
			     event->lines_len, event->has_reports);
	return 1;
}
