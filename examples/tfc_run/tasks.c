#include "tasks.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tfc_run.h"

void tasks_free(struct tasks *tasks)
{
	free(tasks->items);
	free(tasks->slots);
}

/* The slot of a task, or the free one where it belongs (FNV-1a; the next free slot after a
 * collision). */
static uint32_t *tasks_slot(const struct tasks *tasks, const char *type, uint32_t index)
{
	uint32_t hash = 2166136261u ^ index;
	for (const char *c = type; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 16777619u;
	for (size_t at = hash ^ hash >> 16;; at++) {
		uint32_t *slot = &tasks->slots[at & (tasks->slot_count - 1)];
		const struct task *task = *slot ? &tasks->items[*slot - 1] : NULL;
		if (!task || (task->index == index && strcmp(task->type, type) == 0))
			return slot;
	}
}

/* At least half of the slots stay free. */
static void tasks_reserve(struct tasks *tasks)
{
	if (2 * (tasks->count + 1) <= tasks->slot_count)
		return;
	tasks->slot_count = tasks->slot_count ? 2 * tasks->slot_count : 64;
	free(tasks->slots);
	tasks->slots = calloc(tasks->slot_count, sizeof(*tasks->slots));
	tasks->items = reallocarray(tasks->items, tasks->slot_count / 2, sizeof(*tasks->items));
	if (!tasks->slots || !tasks->items)
		die_without_memory();
	for (size_t i = 0; i < tasks->count; i++)
		*tasks_slot(tasks, tasks->items[i].type, tasks->items[i].index) = (uint32_t)i + 1;
}

size_t tasks_find(struct tasks *tasks, const tfc_event *event)
{
	char type[sizeof(tasks->items->type)], *shown = printable(event->task_type, "");
	snprintf(type, sizeof(type), "%s", shown);
	free(shown);
	tasks_reserve(tasks);
	uint32_t *slot = tasks_slot(tasks, type, event->task_index);
	if (*slot)
		return *slot - 1;
	struct task *task = &tasks->items[tasks->count++];
	*task = (struct task){.index = event->task_index};
	memcpy(task->type, type, sizeof(type));
	*slot = (uint32_t)tasks->count;
	return tasks->count - 1;
}

static size_t list_tasks(const struct tasks *tasks, bool is_unready, char *text, size_t size)
{
	size_t count = 0, listed = 0, len = 0;
	text[0] = '\0';
	for (size_t i = 0; i < tasks->count; i++) {
		const struct task *task = &tasks->items[i];
		bool is_alive = task->state >= TFC_TASK_STARTING && task->state <= TFC_TASK_READY;
		const char *state = task->state == TFC_TASK_RUNNING
					    ? "not listening"
					    : tfc_task_state_name(task->state);
		char name[128];
		if (is_unready ? task->state >= TFC_TASK_READY : !is_alive)
			continue;
		int n = snprintf(name, sizeof(name), "%s%s/%u%s%s%s", count ? ", " : "", task->type,
				 task->index, is_unready ? " (" : "", is_unready ? state : "",
				 is_unready ? ")" : "");
		if (listed == count++ && len + (size_t)n + 20 <= size) { /* 20: " and N more" */
			memcpy(text + len, name, (size_t)n + 1);
			len += (size_t)n;
			listed++;
		}
	}
	if (listed < count)
		snprintf(text + len, size - len, "%s%zu more", listed ? " and " : "",
			 count - listed);
	return count;
}

size_t tasks_list_alive(const struct tasks *tasks, char *text, size_t size)
{
	return list_tasks(tasks, false, text, size);
}

size_t tasks_list_unready(const struct tasks *tasks, char *text, size_t size)
{
	return list_tasks(tasks, true, text, size);
}

void tasks_count(const struct tasks *tasks, char *text, size_t size)
{
	size_t len = 0;
	text[0] = '\0';
	for (size_t i = 0; i < tasks->count && len < size; i++) {
		const char *type = tasks->items[i].type;
		size_t all = 0, ready = 0, ended = 0, first = 0;
		while (strcmp(tasks->items[first].type, type) != 0)
			first++;
		if (first < i) /* its role was counted */
			continue;
		for (size_t j = i; j < tasks->count; j++)
			if (strcmp(tasks->items[j].type, type) == 0) {
				all++;
				ready += tasks->items[j].state == TFC_TASK_READY;
				ended += tasks->items[j].state == TFC_TASK_EXITED;
			}
		len += (size_t)snprintf(text + len, size - len, "%s%s %zu of %zu ready",
					len ? ", " : "", type, ready, all);
		if (ended && len < size)
			len += (size_t)snprintf(text + len, size - len, " (%zu ended)", ended);
	}
}
