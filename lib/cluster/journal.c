#include "cluster/journal.h"

#include <stdlib.h>
#include <string.h>

#include <tfcluster/spec.h>

static char no_text[1];

/* Room for one entry and, unless it is the END itself, for the END that comes some time. */
static int reserve(struct tfc__journal *journal, uint32_t kind)
{
	if (journal->count + (kind == TFC_EVENT_END ? 0 : 1) < journal->capacity)
		return TFC_OK;
	uint32_t capacity = journal->capacity ? journal->capacity * 2 : 32;
	struct tfc__journal_entry *entries = realloc(journal->entries, capacity * sizeof(*entries));
	if (!entries)
		return TFC_ENOMEM;
	journal->entries = entries;
	journal->capacity = capacity;
	return TFC_OK;
}

int tfc__journal_init(struct tfc__journal *journal)
{
	*journal = (struct tfc__journal){0};
	tfc__list_init(&journal->readers);
	return reserve(journal, TFC_EVENT_JOB);
}

static char *copy_text(const char *text)
{
	return text && *text ? strdup(text) : no_text;
}

static void free_text(char *text)
{
	if (text != no_text)
		free(text);
}

static void free_entry(struct tfc__journal_entry *entry)
{
	free_text(entry->address);
	free_text(entry->text);
	tfc_env_free(entry->log_tail);
}

void tfc__journal_fini(struct tfc__journal *journal)
{
	for (uint32_t i = 0; i < journal->count; i++)
		free_entry(&journal->entries[i]);
	free(journal->entries);
	free(journal->last_ends);
}

static bool ends_attempt(const struct tfc__journal_entry *entry)
{
	return entry->kind == TFC_EVENT_TASK && tfc__task_state_is_terminal(entry->task_state);
}

/* Makes room for the task of an entry that ends an attempt. */
static int reserve_end(struct tfc__journal *journal, const struct tfc__journal_entry *entry)
{
	if (!ends_attempt(entry) || entry->task < journal->task_count)
		return TFC_OK;
	uint32_t count = entry->task < journal->task_count * 2 ? journal->task_count * 2
							       : entry->task + 8;
	uint32_t *ends = realloc(journal->last_ends, count * sizeof(*ends));
	if (!ends)
		return TFC_ENOMEM;
	memset(ends + journal->task_count, 0, (count - journal->task_count) * sizeof(*ends));
	journal->last_ends = ends;
	journal->task_count = count;
	return TFC_OK;
}

const struct tfc__journal_entry *tfc__journal_last_end(const struct tfc__journal *journal,
						       uint32_t task)
{
	uint32_t end = task < journal->task_count ? journal->last_ends[task] : 0;
	return end ? &journal->entries[end - 1] : NULL;
}

int tfc__journal_add(struct tfc__journal *journal, const struct tfc__journal_entry *entry)
{
	struct tfc__journal_entry copy = *entry;
	copy.address = copy_text(entry->address);
	copy.text = copy_text(entry->text);
	if (!copy.text && entry->kind == TFC_EVENT_END)
		copy.text = no_text;
	if (!copy.address || !copy.text || reserve(journal, entry->kind) < 0 ||
	    reserve_end(journal, entry) < 0) {
		free_entry(&copy);
		return TFC_ENOMEM;
	}
	journal->entries[journal->count++] = copy;
	if (ends_attempt(&copy))
		journal->last_ends[copy.task] = journal->count;
	TFC__LIST_EACH (link, &journal->readers) {
		struct tfc__journal_reader *reader =
			tfc__container_of(link, struct tfc__journal_reader, link);
		reader->fn(reader);
	}
	return TFC_OK;
}

bool tfc__task_state_is_terminal(uint32_t state)
{
	return state >= TFC_TASK_EXITED;
}
