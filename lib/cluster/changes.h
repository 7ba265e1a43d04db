/*
 * What changes in the jobs of a node, in order, for watches: which jobs have appeared, and which
 * have changed, ended or were forgotten since.
 *
 * Each change gets the next sequence number. A job is in the list `appeared` once, and in the list
 * `changed` once, at its latest change: the lists are as long as there are jobs, however many
 * changes there are. Of a forgotten job a tombstone stays in `changed`, for the latest
 * TFC__TOMBSTONES_MAX of them. A reader has a marker in each list, so that its next change is found
 * without a search: it skips the markers of other readers at most. A slow reader costs nothing: it
 * finds each job at its latest state.
 *
 * A position is valid within one incarnation of the list, unless a tombstone behind it was dropped.
 */
#ifndef TFC_CLUSTER_CHANGES_H
#define TFC_CLUSTER_CHANGES_H

#include "base/observers.h"
#include <stdbool.h>
#include <stdint.h>

struct tfc__record;

#define TFC__TOMBSTONES_MAX 4096

/* An element of a list; embedded in a record and in a reader, allocated as a tombstone. */
struct tfc__change {
	struct tfc__link link;
	uint64_t sequence;          /* 0: a reader's marker */
	struct tfc__record *record; /* NULL: a marker or a tombstone */
	char id[17];                /* of a tombstone */
};

struct tfc__changes {
	struct tfc__link appeared;
	struct tfc__link changed;
	uint64_t incarnation;        /* differs from that of every other list */
	uint64_t sequence;           /* of the latest change */
	uint64_t dropped;            /* of the latest tombstone that was dropped; 0: none was */
	struct tfc__link tombstones; /* struct tombstone, the oldest first */
	uint32_t tombstone_count;
	bool is_complete; /* all stored jobs have been read */
	/* event NULL: there is something new to read, or the stored jobs cannot be read */
	struct tfc__observers watchers;
};

void tfc__changes_init(struct tfc__changes *changes, uint64_t incarnation);
void tfc__changes_fini(struct tfc__changes *changes);

/* The record has appeared, has changed, is removed. A tombstone that cannot be allocated begins a
 * new incarnation. */
void tfc__changes_add(struct tfc__changes *changes, struct tfc__record *record,
		      struct tfc__change *appeared, struct tfc__change *changed);
void tfc__changes_note(struct tfc__changes *changes, struct tfc__change *changed);
void tfc__changes_forget(struct tfc__changes *changes, struct tfc__change *appeared,
			 struct tfc__change *changed, const char *id);
/* All jobs that were stored are in the lists. */
void tfc__changes_complete(struct tfc__changes *changes);

/* ---- reading */

struct tfc__changes_position {
	uint64_t incarnation;
	uint64_t appeared; /* sequence numbers: everything up to them was read */
	uint64_t changed;
};

struct tfc__changes_reader {
	struct tfc__change appeared; /* markers */
	struct tfc__change changed;
	struct tfc__changes_position at;
	/* A replay: `at` counts from the beginning, and this was the latest change when it began */
	uint64_t replay_until;
};

/* Zeroes a reader that is in no list. */
void tfc__changes_reader_init(struct tfc__changes_reader *reader);
/* Begins to read behind `from`; false: that position is not valid any more, and the reader begins
 * a replay of everything. */
bool tfc__changes_begin(struct tfc__changes *changes, struct tfc__changes_reader *reader,
			const struct tfc__changes_position *from);
/* Whether the reader's position is still valid. */
bool tfc__changes_is_valid(const struct tfc__changes *changes,
			   const struct tfc__changes_reader *reader);
/* The next change, and moves behind it: first all jobs that have appeared, then the changes. NULL:
 * there is none now. In a replay, tombstones and changes that the jobs' appearance includes are
 * left out, except the end of a job. */
const struct tfc__change *tfc__changes_next(struct tfc__changes *changes,
					    struct tfc__changes_reader *reader,
					    bool *ret_has_appeared);
void tfc__changes_end(struct tfc__changes_reader *reader);

#endif
