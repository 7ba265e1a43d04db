#include "cluster/journal.h"

#include <stdlib.h>
#include <string.h>

#include <tfcluster/spec.h>

static char no_text[1];
static char lost_text[] = "out of memory: the sentence about it is lost";

/* Makes room for so many entries more than there are. */
static int reserve(struct tfc__journal *journal, uint32_t more)
{
	uint32_t capacity = journal->capacity ? journal->capacity : 32;
	if (journal->capacity - journal->count >= more)
		return TFC_OK;
	while (capacity - journal->count < more)
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
	*journal = (struct tfc__journal){0};
	tfc__list_init(&journal->readers);
	return reserve(journal, 2); /* one, and the END that comes some time */
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

static int reserve_tasks(struct tfc__journal *journal, uint32_t count)
{
	if (count <= journal->task_count)
		return TFC_OK;
	uint32_t *ends = realloc(journal->last_ends, count * sizeof(*ends));
	if (!ends)
		return TFC_ENOMEM;
	memset(ends + journal->task_count, 0, (count - journal->task_count) * sizeof(*ends));
	journal->last_ends = ends;
	journal->task_count = count;
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

/* Room for an entry, and behind it for the END and what else is promised. */
static int reserve_for(struct tfc__journal *journal, const struct tfc__journal_entry *entry)
{
	if (entry->kind == TFC_EVENT_END)
		return reserve(journal, 1);
	if (!ends_attempt(entry))
		return reserve(journal, journal->promised + 2);
	int code = reserve_tasks(journal, entry->task + 1);
	if (code < 0 || journal->promised == 0)
		return code < 0 ? code : reserve(journal, 2);
	journal->promised--;
	return TFC_OK;
}

/* What an entry lacks for want of memory; one that was promised comes without. */
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

const struct tfc__journal_entry *tfc__journal_last_end(const struct tfc__journal *journal,
						       uint32_t task)
{
	uint32_t end = task < journal->task_count ? journal->last_ends[task] : 0;
	return end ? &journal->entries[end - 1] : NULL;
}

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
