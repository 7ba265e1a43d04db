/*
 * The tasks of a job, as far as events of them were received.
 */
#ifndef TFC_RUN_TASKS_H
#define TFC_RUN_TASKS_H

#include <stddef.h>
#include <tfcluster/gateway.h>

struct task {
	char type[64]; /* printable */
	uint32_t index;
	uint32_t state; /* enum tfc_task_state */
};

/* Zeroed initially. */
struct tasks {
	struct task *items;
	size_t count;
	uint32_t *slots; /* a hash table of numbers in `items`, + 1; 0: free */
	size_t slot_count;
};

void tasks_free(struct tasks *tasks);

/* The number of the event's task in `items`; a new task is appended. */
size_t tasks_find(struct tasks *tasks, const tfc_event *event);

/* Lists, as many as fit in `text`, the tasks that have a process ("worker/0, worker/1 and 7 more")
 * or those that are not ready yet, with their states. Return the number of these tasks. */
size_t tasks_list_alive(const struct tasks *tasks, char *text, size_t size);
size_t tasks_list_unready(const struct tasks *tasks, char *text, size_t size);

/* Says of each role how many tasks are ready: "worker 2 of 3 ready (1 ended), ps 1 of 1 ready". */
void tasks_count(const struct tasks *tasks, char *text, size_t size);

#endif
