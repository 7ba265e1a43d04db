/*
 * How far a subscription has told: the journal entries before `next`, and of each task's output
 * what lies before its piece. Where a task has no piece, the journal says it: all of its attempts
 * that have ended was told, and nothing of a later one.
 *
 * What an attempt that has ended had said may not have been told: the node that has it is away.
 * Then the entry that ended it has a piece, too, until the rest was told.
 *
 * As text it is the cursor that events carry, the same on every node: "NEXT[g]", for each task with
 * a piece "_TASK." and the piece, "POSITION[+SKIP]" of both streams, or of stdout and ',' and of
 * stderr, and for each such entry "~ENTRY." and its piece. Numbers are hexadecimal.
 */
#ifndef TFC_GATEWAY_PLACE_H
#define TFC_GATEWAY_PLACE_H

#include "log/lines.h"

#define TFC__PIECE_SIZE 72 /* four numbers, three separators, a NUL */

struct tfc__piece {
	char text[TFC__PIECE_SIZE]; /* "": none */
};

/* How far a subscription is once the event that it tells is told. */
struct tfc__mark {
	uint32_t next;
	bool is_gap_told;
	uint32_t task;           /* OUTPUT and GAP have a new piece; else UINT32_MAX */
	uint32_t ended_task;     /* its attempt has ended: no piece any more; else UINT32_MAX */
	uint32_t rest;           /* an entry that has a new piece; else UINT32_MAX */
	uint32_t rest_over;      /* one that has none any more; else UINT32_MAX */
	struct tfc__piece piece; /* of task, or of rest */
};

/* What is left of the attempt that an entry ended. */
struct tfc__place_rest {
	uint32_t entry;
	struct tfc__piece piece;
};

struct tfc__place {
	uint32_t next;
	bool is_gap_told; /* also what the end of an attempt, entry `next`, says to be missing */
	uint32_t task_count;
	struct tfc__piece *pieces;
	uint64_t *has_piece;           /* a bit per task: few of many have one */
	struct tfc__place_rest *rests; /* in the order of the entries */
	uint32_t rest_count;
	struct tfc__buf text;
};

/* Zeroed is valid, and at the beginning. Makes room for the pieces: TFC_OK or TFC_ENOMEM. */
int tfc__place_reserve(struct tfc__place *place, uint32_t task_count);
/* Gives a task for which there is room another piece; NULL: none. */
void tfc__place_set(struct tfc__place *place, uint32_t task, const struct tfc__piece *piece);
/* Goes to a mark: TFC_OK, or TFC_ENOMEM and it is where it was. */
int tfc__place_go(struct tfc__place *place, const struct tfc__mark *mark);
/* Gives an entry its piece; a second time it takes no memory. TFC_OK or TFC_ENOMEM. */
int tfc__place_set_rest(struct tfc__place *place, uint32_t entry, const struct tfc__piece *piece);
void tfc__place_fini(struct tfc__place *place);

/* Of memory. */
size_t tfc__place_bytes(const struct tfc__place *place);

/* The cursor; "" when there is no memory for it. Valid until the place changes. */
const char *tfc__place_text(struct tfc__place *place);

/* Into a zeroed place, which gets room for the tasks that have a piece. TFC_OK, TFC_EINVAL (nothing
 * that tfc__place_text would write, or of a task that is not below task_count), TFC_ENOMEM; then
 * tfc__place_fini in any case. */
int tfc__place_read(struct tfc__place *place, uint32_t task_count, const char *text);

void tfc__piece_write(struct tfc__piece *piece, const struct tfc__lines_cursor *cursor);
bool tfc__piece_read(const char *text, struct tfc__lines_cursor *ret_cursor);

#endif
