#include "cluster/journal.h"

#include <stdlib.h>
#include <string.h>

#include <tfcluster/process.h>
#include <tfcluster/spec.h>

static char no_text[1];
static char lost_text[] = "out of memory: the text of this event is lost";
static const struct tfc__journal_task unreported = {.state = TFC_TASK_PENDING,
						    .node = no_text,
						    .address = no_text};
static const struct tfc__journal_task never_begun = {.state = TFC_TASK_STOPPED,
						     .node = no_text,
						     .address = no_text};

/* Reserves space for `more` entries. */
static int reserve(struct tfc__journal *journal, uint32_t more)
{
	uint32_t capacity = journal->capacity ? journal->capacity : 32;
	if (journal->capacity - journal->added >= more)
		return TFC_OK;
	while (capacity - journal->added < more)
		capacity *= 2;
	struct tfc__journal_entry *entries = realloc(journal->entries, capacity * sizeof(*entries));
	if (!entries)
		return TFC_ENOMEM;
	journal->entries = entries;
	journal->capacity = capacity;
	return TFC_OK;
}

int tfc__journal_init(struct tfc__journal *journal)
{
	*journal = (struct tfc__journal){.job_state = TFC_JOB_PENDING};
	tfc__observers_init(&journal->readers);
	return reserve(journal, 2); /* one entry, and the END */
}

static char *copy_text(const char *text)
{
	return text && *text ? strdup(text) : no_text;
}

static void free_text(char *text)
{
	if (text != no_text && text != lost_text)
		free(text);
}

static void free_entry(struct tfc__journal_entry *entry)
{
	free_text(entry->node);
	free_text(entry->address);
	free_text(entry->text);
	tfc_strv_free(entry->log_tail);
	tfc_strv_free(entry->ignored_failures);
}

void tfc__journal_fini(struct tfc__journal *journal)
{
	for (uint32_t i = 0; i < journal->added; i++)
		free_entry(&journal->entries[i]);
	free(journal->entries);
	free(journal->tasks);
}

static bool ends_attempt(const struct tfc__journal_entry *entry)
{
	return entry->kind == TFC_EVENT_TASK && tfc__task_state_is_terminal(entry->task_state);
}

static int reserve_tasks(struct tfc__journal *journal, uint32_t count)
{
	if (count <= journal->task_count)
		return TFC_OK;
	struct tfc__journal_task *tasks = realloc(journal->tasks, count * sizeof(*tasks));
	if (!tasks)
		return TFC_ENOMEM;
	journal->tasks = tasks;
	while (journal->task_count < count)
		tasks[journal->task_count++] = unreported;
	return TFC_OK;
}

int tfc__journal_promise(struct tfc__journal *journal, uint32_t task_count)
{
	uint32_t promised = 2 * task_count;
	if (reserve_tasks(journal, task_count) < 0 || reserve(journal, promised + 1) < 0)
		return TFC_ENOMEM;
	journal->promised = promised;
	return TFC_OK;
}

/* Reserves space for an entry, the END and the promised entries. */
static int reserve_for(struct tfc__journal *journal, const struct tfc__journal_entry *entry)
{
	if (entry->kind == TFC_EVENT_END)
		return reserve(journal, 1);
	if (entry->kind == TFC_EVENT_TASK && reserve_tasks(journal, entry->task + 1) < 0)
		return TFC_ENOMEM;
	if (!ends_attempt(entry))
		return reserve(journal, journal->promised + 2);
	if (journal->promised == 0)
		return reserve(journal, 2);
	journal->promised--;
	return TFC_OK;
}

/* Completes an entry whose strings could not be copied. A promised entry is added without them. */
static int mend(struct tfc__journal_entry *copy)
{
	if (copy->text && copy->address && copy->node)
		return TFC_OK;
	if (copy->kind != TFC_EVENT_END && !ends_attempt(copy))
		return TFC_ENOMEM;
	copy->text = copy->text ? copy->text : lost_text;
	copy->address = copy->address ? copy->address : no_text;
	copy->node = copy->node ? copy->node : no_text;
	return TFC_OK;
}

/* ---- the digest */

static uint32_t restarts(uint32_t attempt)
{
	return attempt > 1 ? attempt - 1 : 0;
}

static void count_task(struct tfc__journal *journal, const struct tfc__journal_task *task,
		       const struct tfc__journal_entry *entry)
{
	journal->ready += entry->task_state == TFC_TASK_READY;
	journal->ready -= task->state == TFC_TASK_READY;
	journal->restarts += restarts(entry->attempt);
	journal->restarts -= restarts(task->attempt);
}

static void take_task(struct tfc__journal_task *task, const struct tfc__journal_entry *entry,
		      uint32_t number)
{
	bool is_end = ends_attempt(entry);
	bool is_running = entry->task_state == TFC_TASK_RUNNING ||
			  entry->task_state == TFC_TASK_READY;
	if (entry->attempt != task->attempt)
		task->started_ns = 0;
	if (is_running && !task->started_ns)
		task->started_ns = entry->time_ns;
	task->state = entry->task_state;
	task->attempt = entry->attempt;
	task->generation = entry->generation;
	task->pid = is_end ? 0 : entry->pid;
	task->isolation = entry->isolation ? entry->isolation : task->isolation;
	task->is_done = entry->task_state == TFC_TASK_EXITED && entry->end.status == 0 &&
			entry->end.reason == TFC_EXIT_CODE;
	task->last_end = is_end ? number + 1 : task->last_end;
	task->node = entry->node;
	task->address = entry->address;
}

/* All tasks have ended with the job. A task that was not launched has no entry about its end, and
 * in a damaged journal the entry may be missing. */
static void end_tasks(struct tfc__journal *journal)
{
	for (uint32_t i = 0; i < journal->task_count; i++) {
		struct tfc__journal_task *task = &journal->tasks[i];
		if (task->state == TFC_TASK_PENDING || task->state == TFC_TASK_HOLDING)
			task->state = TFC_TASK_STOPPED;
		else if (!tfc__task_state_is_terminal(task->state))
			task->state = TFC_TASK_LOST;
	}
	journal->ready = 0;
}

void tfc__journal_show(struct tfc__journal *journal, uint32_t count)
{
	for (; journal->count < count; journal->count++) {
		const struct tfc__journal_entry *entry = &journal->entries[journal->count];
		journal->generation = entry->generation;
		if (entry->kind == TFC_EVENT_TASK) {
			count_task(journal, &journal->tasks[entry->task], entry);
			take_task(&journal->tasks[entry->task], entry, journal->count);
		} else {
			journal->job_state = entry->job_state;
			if (entry->job_state == TFC_JOB_RUNNING && !journal->started_ns)
				journal->started_ns = entry->time_ns;
			journal->said = journal->count + 1;
		}
		if (entry->kind == TFC_EVENT_END)
			end_tasks(journal);
	}
	const enum tfc__journal_event event = TFC__JOURNAL_SHOWN;
	tfc__observers_notify(&journal->readers, &event);
}

const struct tfc__journal_task *tfc__journal_task(const struct tfc__journal *journal, uint32_t task)
{
	if (task < journal->task_count)
		return &journal->tasks[task];
	return tfc__journal_has_ended(journal) ? &never_begun : &unreported;
}

const struct tfc__journal_entry *tfc__journal_last_end(const struct tfc__journal *journal,
						       uint32_t task)
{
	uint32_t end = tfc__journal_task(journal, task)->last_end;
	return end ? &journal->entries[end - 1] : NULL;
}

/* The entry has one number for all that may be known of an end. */
struct tfc__journal_exit tfc__journal_exit(const struct tfc__journal_entry *entry)
{
	bool is_job = entry->kind == TFC_EVENT_END;
	struct tfc__journal_exit end = {0};
	if (is_job ? entry->reason == TFC_END_EXIT : entry->end.reason == TFC_EXIT_CODE)
		end.code = entry->end.status;
	else if (is_job ? entry->reason == TFC_END_SIGNAL : entry->end.reason == TFC_EXIT_SIGNAL)
		end.signal = entry->end.status;
	else if (entry->end.status < 0)
		end.error = entry->end.status;
	return end;
}

/* ---- adding */

int tfc__journal_add(struct tfc__journal *journal, const struct tfc__journal_entry *entry)
{
	struct tfc__journal_entry copy = *entry;
	copy.node = copy_text(entry->node);
	copy.address = copy_text(entry->address);
	copy.text = copy_text(entry->text);
	if (mend(&copy) < 0 || reserve_for(journal, entry) < 0) {
		free_entry(&copy);
		return TFC_ENOMEM;
	}
	journal->entries[journal->added++] = copy;
	if (journal->writer)
		journal->writer->fn(journal->writer);
	else
		tfc__journal_show(journal, journal->added);
	return TFC_OK;
}

bool tfc__task_state_is_terminal(uint32_t state)
{
	return state >= TFC_TASK_EXITED;
}
