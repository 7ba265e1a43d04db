#include "tasks.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tfc_run.h"

void tasks_free(struct tasks *tasks)
{
	free(tasks->items);
}

size_t tasks_find(struct tasks *tasks, const tfc_event *event)
{
	char type[sizeof(tasks->items->type)], *shown = printable(event->task_type, "");
	snprintf(type, sizeof(type), "%s", shown);
	free(shown);
	for (size_t i = 0; i < tasks->count; i++)
		if (tasks->items[i].index == event->task_index &&
		    strcmp(tasks->items[i].type, type) == 0)
			return i;
	tasks->items = reallocarray(tasks->items, tasks->count + 1, sizeof(*tasks->items));
	if (!tasks->items)
		die_without_memory();
	struct task *task = &tasks->items[tasks->count];
	*task = (struct task){.index = event->task_index};
	memcpy(task->type, type, sizeof(type));
	return tasks->count++;
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
