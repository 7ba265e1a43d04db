#include "cluster/journal.h"

#include <stdlib.h>
#include <string.h>

#include <tfcluster/spec.h>

void tfc__journal_init(struct tfc__journal *journal)
{
	*journal = (struct tfc__journal){0};
	tfc__list_init(&journal->readers);
}

static void free_entry(struct tfc__journal_entry *entry)
{
	free(entry->address);
	free(entry->text);
	tfc_env_free(entry->log_tail);
}

void tfc__journal_fini(struct tfc__journal *journal)
{
	for (uint32_t i = 0; i < journal->count; i++)
		free_entry(&journal->entries[i]);
	free(journal->entries);
}

static int reserve(struct tfc__journal *journal)
{
	if (journal->count < journal->capacity)
		return TFC_OK;
	uint32_t capacity = journal->capacity ? journal->capacity * 2 : 32;
	struct tfc__journal_entry *entries = realloc(journal->entries, capacity * sizeof(*entries));
	if (!entries)
		return TFC_ENOMEM;
	journal->entries = entries;
	journal->capacity = capacity;
	return TFC_OK;
}

int tfc__journal_add(struct tfc__journal *journal, const struct tfc__journal_entry *entry)
{
	struct tfc__journal_entry copy = *entry;
	copy.address = strdup(entry->address ? entry->address : "");
	copy.text = strdup(entry->text ? entry->text : "");
	if (!copy.address || !copy.text || reserve(journal) < 0) {
		free_entry(&copy);
		return TFC_ENOMEM;
	}
	journal->entries[journal->count++] = copy;
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
