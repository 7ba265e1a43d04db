#include "tail.h"

#include <stdlib.h>
#include <string.h>

struct line {
	uint64_t number;
	tfc_event event; /* owns its strings, in `bytes` */
	char *bytes;     /* data, then cursor and text with their NULs */
};

struct tail_task {
	struct line *ring;
	uint64_t added;
};

void tail_begin(struct tail *tail, uint32_t limit)
{
	*tail = (struct tail){.limit = limit};
}

static uint64_t tail_kept(const struct tail *tail, const struct tail_task *task)
{
	return task->added < tail->limit ? task->added : tail->limit;
}

void tail_end(struct tail *tail)
{
	for (size_t i = 0; i < tail->tasks.count; i++) {
		for (uint64_t k = 0; k < tail_kept(tail, &tail->kept[i]); k++)
			free(tail->kept[i].ring[k].bytes);
		free(tail->kept[i].ring);
	}
	free(tail->kept);
	tasks_free(&tail->tasks);
	*tail = (struct tail){.limit = tail->limit};
}

static struct tail_task *tail_find_task(struct tail *tail, const tfc_event *event)
{
	size_t count = tail->tasks.count, number = tasks_find(&tail->tasks, event);
	if (number < count)
		return &tail->kept[number];
	tail->kept = reallocarray(tail->kept, count + 1, sizeof(*tail->kept));
	if (!tail->kept)
		die_without_memory();
	struct tail_task *task = &tail->kept[count];
	*task = (struct tail_task){.ring = calloc(tail->limit, sizeof(*task->ring))};
	if (!task->ring)
		die_without_memory();
	return task;
}

void tail_add(struct tail *tail, const tfc_event *event)
{
	struct tail_task *task = tail_find_task(tail, event);
	struct line *line = &task->ring[task->added % tail->limit];
	size_t len = event->kind == TFC_EVENT_GAP ? 0 : event->data_len; /* of a gap: missing */
	size_t cursor_size = strlen(event->cursor) + 1, text_size = strlen(event->text) + 1;
	free(line->bytes);
	line->bytes = malloc(len + cursor_size + text_size);
	if (!line->bytes)
		die_without_memory();
	memcpy(line->bytes, event->data, len);
	memcpy(line->bytes + len, event->cursor, cursor_size);
	memcpy(line->bytes + len + cursor_size, event->text, text_size);
	line->number = tail->number++;
	line->event = (tfc_event){
		.size = sizeof(line->event),
		.kind = event->kind,
		.time_ns = event->time_ns,
		.epoch = event->epoch,
		.job = "",
		.name = "",
		.job_state = event->job_state,
		.generation = event->generation,
		.cursor = line->bytes + len,
		.task_type = NULL, /* tail_each sets it */
		.task_index = event->task_index,
		.attempt = event->attempt,
		.node = "",
		.address = "",
		.text = line->bytes + len + cursor_size,
		.data = line->bytes,
		.data_len = event->data_len,
		.stream = event->stream,
		.is_partial = event->is_partial,
		.error_line = "",
	};
	task->added++;
}

static int line_compare(const void *one, const void *other)
{
	uint64_t a = (*(struct line *const *)one)->number,
		 b = (*(struct line *const *)other)->number;
	return (a > b) - (a < b);
}

void tail_each(struct tail *tail, struct output *output)
{
	size_t count = 0;
	for (size_t i = 0; i < tail->tasks.count; i++)
		count += tail_kept(tail, &tail->kept[i]);
	struct line **lines = calloc(count + 1, sizeof(struct line *));
	if (!lines)
		die_without_memory();
	count = 0;
	for (size_t i = 0; i < tail->tasks.count; i++)
		for (uint64_t k = 0; k < tail_kept(tail, &tail->kept[i]); k++) {
			lines[count] = &tail->kept[i].ring[k];
			lines[count++]->event.task_type = tail->tasks.items[i].type;
		}
	qsort(lines, count, sizeof(struct line *), line_compare);
	for (size_t i = 0; i < count; i++)
		output_event(output, &lines[i]->event);
	free(lines);
}
