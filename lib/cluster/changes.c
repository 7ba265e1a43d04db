#include "cluster/changes.h"

#include <stdlib.h>
#include <string.h>

#include "cluster/record.h"

struct tombstone {
	struct tfc__change change; /* in `changed` */
	struct tfc__link link;     /* in `tombstones` */
};

void tfc__changes_init(struct tfc__changes *changes, uint64_t incarnation)
{
	*changes = (struct tfc__changes){.incarnation = incarnation};
	tfc__list_init(&changes->appeared);
	tfc__list_init(&changes->changed);
	tfc__list_init(&changes->tombstones);
	tfc__observers_init(&changes->watchers);
}

static void drop_tombstone(struct tfc__changes *changes)
{
	struct tombstone *oldest = tfc__container_of(changes->tombstones.next, struct tombstone,
						     link);
	changes->dropped = oldest->change.sequence;
	changes->tombstone_count--;
	tfc__list_remove(&oldest->change.link);
	tfc__list_remove(&oldest->link);
	free(oldest);
}

void tfc__changes_fini(struct tfc__changes *changes)
{
	while (changes->tombstone_count)
		drop_tombstone(changes);
	tfc__observers_close(&changes->watchers);
}

static void changes_append(struct tfc__changes *changes, struct tfc__link *list,
			   struct tfc__change *change)
{
	change->sequence = ++changes->sequence;
	tfc__list_remove(&change->link);
	tfc__list_append(list, &change->link);
}

void tfc__changes_add(struct tfc__changes *changes, struct tfc__record *record,
		      struct tfc__change *appeared, struct tfc__change *changed)
{
	*appeared = *changed = (struct tfc__change){.record = record};
	tfc__list_init(&appeared->link);
	tfc__list_init(&changed->link);
	changes_append(changes, &changes->appeared, appeared);
	if (tfc__journal_has_ended(&record->journal))
		changes_append(changes, &changes->changed, changed);
	tfc__observers_notify(&changes->watchers, NULL);
}

void tfc__changes_note(struct tfc__changes *changes, struct tfc__change *changed)
{
	changes_append(changes, &changes->changed, changed);
	tfc__observers_notify(&changes->watchers, NULL);
}

void tfc__changes_forget(struct tfc__changes *changes, struct tfc__change *appeared,
			 struct tfc__change *changed, const char *id)
{
	if (!appeared->record)
		return; /* it never appeared: its record was damaged */
	struct tombstone *tombstone = calloc(1, sizeof(*tombstone));
	tfc__list_remove(&appeared->link);
	tfc__list_remove(&changed->link);
	appeared->record = changed->record = NULL;
	if (tombstone) {
		memcpy(tombstone->change.id, id, sizeof(tombstone->change.id));
		tfc__list_init(&tombstone->change.link);
		changes_append(changes, &changes->changed, &tombstone->change);
		tfc__list_append(&changes->tombstones, &tombstone->link);
		if (++changes->tombstone_count > TFC__TOMBSTONES_MAX)
			drop_tombstone(changes);
	} else {
		changes->incarnation++;
	}
	tfc__observers_notify(&changes->watchers, NULL);
}

void tfc__changes_complete(struct tfc__changes *changes)
{
	changes->is_complete = true;
	tfc__observers_notify(&changes->watchers, NULL);
}

/* ---- reading */

void tfc__changes_reader_init(struct tfc__changes_reader *reader)
{
	*reader = (struct tfc__changes_reader){.replay_until = 0};
	tfc__list_init(&reader->appeared.link);
	tfc__list_init(&reader->changed.link);
}

static struct tfc__change *change_of(struct tfc__link *link)
{
	return tfc__container_of(link, struct tfc__change, link);
}

/* Puts the marker behind everything up to `sequence`: from the end, where the reader was. */
static void marker_place(struct tfc__link *list, struct tfc__change *marker, uint64_t sequence)
{
	tfc__list_remove(&marker->link);
	struct tfc__link *before = list->prev;
	while (before != list &&
	       (change_of(before)->sequence == 0 || change_of(before)->sequence > sequence))
		before = before->prev;
	tfc__list_append(before->next, &marker->link);
}

bool tfc__changes_begin(struct tfc__changes *changes, struct tfc__changes_reader *reader,
			const struct tfc__changes_position *from)
{
	bool is_valid = from->incarnation == changes->incarnation &&
			from->changed >= changes->dropped && from->changed <= changes->sequence &&
			from->appeared <= changes->sequence;
	reader->at = *from;
	reader->replay_until = 0;
	if (!is_valid) {
		reader->at = (struct tfc__changes_position){.incarnation = changes->incarnation};
		reader->replay_until = changes->sequence;
	}
	marker_place(&changes->appeared, &reader->appeared, reader->at.appeared);
	marker_place(&changes->changed, &reader->changed, reader->at.changed);
	return is_valid;
}

bool tfc__changes_is_valid(const struct tfc__changes *changes,
			   const struct tfc__changes_reader *reader)
{
	uint64_t changed = reader->at.changed > reader->replay_until ? reader->at.changed
								     : reader->replay_until;
	return reader->at.incarnation == changes->incarnation && changed >= changes->dropped;
}

/* Moves the marker behind the next element; NULL: it is at the end. */
static const struct tfc__change *marker_advance(struct tfc__link *list, struct tfc__change *marker)
{
	struct tfc__link *next = marker->link.next;
	while (next != list && change_of(next)->sequence == 0)
		next = next->next;
	if (next == list)
		return NULL;
	tfc__list_remove(&marker->link);
	tfc__list_append(next->next, &marker->link);
	return change_of(next);
}

static bool is_in_replay(const struct tfc__changes_reader *reader, const struct tfc__change *change)
{
	return change->sequence <= reader->replay_until &&
	       !(change->record && tfc__journal_has_ended(&change->record->journal));
}

const struct tfc__change *tfc__changes_next(struct tfc__changes *changes,
					    struct tfc__changes_reader *reader,
					    bool *ret_has_appeared)
{
	const struct tfc__change *next = marker_advance(&changes->appeared, &reader->appeared);
	*ret_has_appeared = next != NULL;
	if (next) {
		reader->at.appeared = next->sequence;
		return next;
	}
	do {
		next = marker_advance(&changes->changed, &reader->changed);
		if (next)
			reader->at.changed = next->sequence;
	} while (next && is_in_replay(reader, next));
	if (!next) /* everything was read */
		reader->at.appeared = reader->at.changed = changes->sequence;
	return next;
}

void tfc__changes_end(struct tfc__changes_reader *reader)
{
	tfc__list_remove(&reader->appeared.link);
	tfc__list_remove(&reader->changed.link);
}
