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
static int journal_reserve(struct tfc__journal *journal, uint32_t more)
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
	return journal_reserve(journal, 2); /* one entry, and the END */
}

static char *journal_copy_text(const char *text)
{
	return text && *text ? strdup(text) : no_text;
}

static void journal_free_text(char *text)
{
	if (text != no_text && text != lost_text)
		free(text);
}

static void journal_entry_free(struct tfc__journal_entry *entry)
{
	journal_free_text(entry->node);
	journal_free_text(entry->address);
	journal_free_text(entry->text);
	journal_free_text(entry->error_line);
	tfc_strv_free(entry->log_tail);
	tfc_strv_free(entry->ignored_failures);
}

void tfc__journal_fini(struct tfc__journal *journal)
{
	for (uint32_t i = 0; i < journal->added; i++)
		journal_entry_free(&journal->entries[i]);
	free(journal->entries);
	free(journal->tasks);
}

static bool entry_ends_attempt(const struct tfc__journal_entry *entry)
{
	return entry->kind == TFC_EVENT_TASK && tfc__task_state_is_terminal(entry->task_state);
}

static int journal_reserve_tasks(struct tfc__journal *journal, uint32_t count)
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
	if (journal_reserve_tasks(journal, task_count) < 0 ||
	    journal_reserve(journal, promised + 1) < 0)
		return TFC_ENOMEM;
	journal->promised = promised;
	return TFC_OK;
}

/* Reserves space for an entry, the END and the promised entries. */
static int journal_reserve_entry(struct tfc__journal *journal,
				 const struct tfc__journal_entry *entry)
{
	if (entry->kind == TFC_EVENT_END)
		return journal_reserve(journal, 1);
	if (entry->kind == TFC_EVENT_TASK && journal_reserve_tasks(journal, entry->task + 1) < 0)
		return TFC_ENOMEM;
	if (!entry_ends_attempt(entry))
		return journal_reserve(journal, journal->promised + 2);
	if (journal->promised == 0)
		return journal_reserve(journal, 2);
	journal->promised--;
	return TFC_OK;
}

/* Completes an entry whose strings could not be copied. A promised entry is added without them. */
static int journal_entry_complete(struct tfc__journal_entry *copy)
{
	if (!copy->error_line)
		copy->error_line = no_text;
	if (copy->text && copy->address && copy->node)
		return TFC_OK;
	if (copy->kind != TFC_EVENT_END && !entry_ends_attempt(copy))
		return TFC_ENOMEM;
	copy->text = copy->text ? copy->text : lost_text;
	copy->address = copy->address ? copy->address : no_text;
	copy->node = copy->node ? copy->node : no_text;
	return TFC_OK;
}

/* ---- the digest */

static uint32_t attempt_restarts(uint32_t attempt)
{
	return attempt > 1 ? attempt - 1 : 0;
}

/*
 * Counts the restart of a task, if it is an incident of its own. The start of a group's next
 * generation is one incident, however many tasks restart with it. Within a generation each task
 * that restarts is one, unless its end was the consequence of another task's end.
 */
static void journal_count_incident(struct tfc__journal *journal,
				   const struct tfc__journal_task *task)
{
	if (task->last_end <= journal->generation_begin) {
		journal->incidents += journal->counted_generation != journal->generation;
		journal->counted_generation = journal->generation;
	} else {
		journal->incidents += journal->entries[task->last_end - 1].reason !=
				      TFC_END_CONSEQUENCE;
	}
}

static void journal_update_task(struct tfc__journal *journal,
				const struct tfc__journal_entry *entry)
{
	struct tfc__journal_task *task = &journal->tasks[entry->task];
	bool is_end = entry_ends_attempt(entry);
	bool is_running = entry->task_state == TFC_TASK_RUNNING ||
			  entry->task_state == TFC_TASK_READY;
	if (task->attempt && entry->attempt > task->attempt)
		journal_count_incident(journal, task);
	journal->ready += entry->task_state == TFC_TASK_READY;
	journal->ready -= task->state == TFC_TASK_READY;
	journal->restarts += attempt_restarts(entry->attempt);
	journal->restarts -= attempt_restarts(task->attempt);
	if (entry->attempt != task->attempt)
		task->started_ns = 0;
	if (entry->task_state == TFC_TASK_STARTING)
		task->will = entry->will;
	if (is_running && !task->started_ns)
		task->started_ns = entry->time_ns;
	task->state = entry->task_state;
	task->attempt = entry->attempt;
	task->generation = entry->generation;
	task->pid = is_end ? 0 : entry->pid;
	if (entry->isolation) { /* it has started */
		task->isolation = entry->isolation;
		task->memory_limit = entry->memory_limit;
	}
	task->is_done = entry->task_state == TFC_TASK_EXITED && entry->end.status == 0 &&
			entry->end.reason == TFC_EXIT_CODE;
	task->last_end = is_end ? journal->count + 1 : task->last_end;
	task->node = entry->node;
	task->address = entry->address;
}

/* All tasks have ended with the job. A task that was not launched has no entry about its end, and
 * in a damaged journal the entry may be missing. */
static void journal_end_tasks(struct tfc__journal *journal)
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
		if (journal->generation != entry->generation)
			journal->generation_begin = journal->count;
		journal->generation = entry->generation;
		if (entry->kind == TFC_EVENT_TASK) {
			journal_update_task(journal, entry);
		} else {
			journal->job_state = entry->job_state;
			if (entry->job_state == TFC_JOB_RUNNING && !journal->started_ns)
				journal->started_ns = entry->time_ns;
			journal->last_of_job = journal->count + 1;
		}
		if (entry->kind == TFC_EVENT_END)
			journal_end_tasks(journal);
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

const struct tfc__journal_entry *tfc__journal_last_of_job(const struct tfc__journal *journal)
{
	return journal->last_of_job ? &journal->entries[journal->last_of_job - 1] : NULL;
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
	copy.node = journal_copy_text(entry->node);
	copy.address = journal_copy_text(entry->address);
	copy.text = journal_copy_text(entry->text);
	copy.error_line = journal_copy_text(entry->error_line);
	if (journal_entry_complete(&copy) < 0 || journal_reserve_entry(journal, entry) < 0) {
		journal_entry_free(&copy);
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
