#include "tail.h"

#include <stdlib.h>
#include <string.h>

struct line {
	uint64_t number;
	tfc_event event; /* owns its strings, in `bytes` */
	char *bytes;     /* data, then cursor and text with their NULs */
};

struct tail_task {
	char type[64];
	uint32_t index;
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
	for (size_t i = 0; i < tail->count; i++) {
		for (uint64_t k = 0; k < tail_kept(tail, &tail->tasks[i]); k++)
			free(tail->tasks[i].ring[k].bytes);
		free(tail->tasks[i].ring);
	}
	free(tail->tasks);
	tail->tasks = NULL;
	tail->count = 0;
}

static struct tail_task *tail_find_task(struct tail *tail, const tfc_event *event)
{
	for (size_t i = 0; i < tail->count; i++)
		if (tail->tasks[i].index == event->task_index &&
		    strcmp(tail->tasks[i].type, event->task_type) == 0)
			return &tail->tasks[i];
	struct tail_task *tasks = reallocarray(tail->tasks, tail->count + 1, sizeof(*tasks));
	if (!tasks)
		die_without_memory();
	tail->tasks = tasks;
	struct tail_task *task = &tasks[tail->count++];
	*task = (struct tail_task){.index = event->task_index};
	strncpy(task->type, event->task_type, sizeof(task->type) - 1);
	task->ring = calloc(tail->limit, sizeof(*task->ring));
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
		.task_type = NULL, /* tail_each sets it: the array of tasks may move */
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

/* The task whose next line is the oldest. */
static struct tail_task *tail_first(struct tail *tail, const uint64_t *shown)
{
	struct tail_task *first = NULL;
	uint64_t least = UINT64_MAX;
	for (size_t i = 0; i < tail->count; i++) {
		struct tail_task *task = &tail->tasks[i];
		uint64_t at = task->added - tail_kept(tail, task) + shown[i];
		if (at < task->added && task->ring[at % tail->limit].number < least) {
			least = task->ring[at % tail->limit].number;
			first = task;
		}
	}
	return first;
}

void tail_each(struct tail *tail, struct output *output)
{
	uint64_t *shown = calloc(tail->count ? tail->count : 1, sizeof(*shown));
	if (!shown)
		die_without_memory();
	for (struct tail_task *task; (task = tail_first(tail, shown));) {
		uint64_t *of_task = &shown[task - tail->tasks];
		uint64_t at = task->added - tail_kept(tail, task) + (*of_task)++;
		struct line *line = &task->ring[at % tail->limit];
		line->event.task_type = task->type;
		output_event(output, &line->event);
	}
	free(shown);
}
