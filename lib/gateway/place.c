#include "gateway/place.h"

#include <stdlib.h>
#include <string.h>

const struct tfc__mark tfc__no_mark = {.task = UINT32_MAX,
				       .ended_task = UINT32_MAX,
				       .missing = UINT32_MAX,
				       .missing_over = UINT32_MAX};

/* ---- cursors of lines */

/* As printf with "%llx", for a cursor is written with every line. Returns the end of the text. */
static char *write_number(char *text, uint64_t number)
{
	int digits = number ? (67 - __builtin_clzll(number)) / 4 : 1;
	for (int i = digits; i-- > 0; number >>= 4)
		text[i] = "0123456789abcdef"[number & 15];
	return text + digits;
}

static char *write_reported(char *text, const struct tfc__reported *reported)
{
	text = write_number(text, reported->position);
	if (!reported->skip)
		return text;
	*text++ = '+';
	return write_number(text, reported->skip);
}

/* Returns the end of the text, at which there is no NUL. */
static char *write_cursor(char *text, const struct tfc__lines_cursor *cursor)
{
	const struct tfc__reported *out = &cursor->reported[0], *err = &cursor->reported[1];
	text = write_reported(text, out);
	if (out->position == err->position && out->skip == err->skip)
		return text;
	*text++ = ',';
	return write_reported(text, err);
}

void tfc__cursor_write(struct tfc__cursor_text *text, const struct tfc__lines_cursor *cursor)
{
	*write_cursor(text->text, cursor) = '\0';
}

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads a hexadecimal number as printf writes it, without leading zeros; advances *at. */
static bool read_number(const char **at, uint64_t max, uint64_t *ret_number)
{
	uint64_t number = 0;
	const char *digit = *at;
	for (int value; (value = digit_of(*digit)) >= 0; digit++) {
		if (number > (max - (uint64_t)value) / 16)
			return false;
		number = number * 16 + (uint64_t)value;
	}
	if (digit == *at || (**at == '0' && digit - *at > 1))
		return false;
	*at = digit;
	*ret_number = number;
	return true;
}

static bool read_reported(const char **at, struct tfc__reported *ret_reported)
{
	ret_reported->skip = 0;
	if (!read_number(at, UINT64_MAX, &ret_reported->position))
		return false;
	if (**at != '+')
		return true;
	(*at)++;
	return read_number(at, UINT64_MAX, &ret_reported->skip) && ret_reported->skip;
}

static bool read_cursor(const char **at, struct tfc__lines_cursor *ret_cursor)
{
	struct tfc__reported reported[2];
	if (!read_reported(at, &reported[0]))
		return false;
	reported[1] = reported[0];
	if (**at == ',') {
		(*at)++;
		if (!read_reported(at, &reported[1]) ||
		    (reported[1].position == reported[0].position &&
		     reported[1].skip == reported[0].skip))
			return false;
	}
	memcpy(ret_cursor->reported, reported, sizeof(reported));
	return true;
}

bool tfc__cursor_read(const char *text, struct tfc__lines_cursor *ret_cursor)
{
	return read_cursor(&text, ret_cursor) && !*text;
}

/* ---- places */

static size_t words(uint32_t task_count)
{
	return ((size_t)task_count + 63) / 64;
}

int tfc__place_reserve(struct tfc__place *place, uint32_t task_count)
{
	if (task_count <= place->task_count)
		return TFC_OK;
	size_t had = words(place->task_count), words_now = words(task_count);
	struct tfc__lines_cursor *cursors = realloc(place->cursors, task_count * sizeof(*cursors));
	if (!cursors)
		return TFC_ENOMEM;
	place->cursors = cursors;
	uint64_t *has_cursor = realloc(place->has_cursor, words_now * sizeof(*has_cursor));
	if (!has_cursor)
		return TFC_ENOMEM;
	place->has_cursor = has_cursor;
	memset(cursors + place->task_count, 0, (task_count - place->task_count) * sizeof(*cursors));
	memset(has_cursor + had, 0, (words_now - had) * sizeof(*has_cursor));
	place->task_count = task_count;
	return TFC_OK;
}

void tfc__place_set(struct tfc__place *place, uint32_t task, const struct tfc__lines_cursor *cursor)
{
	uint64_t bit = UINT64_C(1) << task % 64;
	place->has_cursor[task / 64] &= ~bit;
	if (!cursor)
		return;
	place->has_cursor[task / 64] |= bit;
	place->cursors[task] = *cursor;
}

#define MISSING_MAX 65536 /* limit on the attempts with missing output */

/* The index of the first element whose entry is not before `entry`. */
static uint32_t find_missing(const struct tfc__place *place, uint32_t entry)
{
	uint32_t at = 0, end = place->missing_count;
	while (at < end) {
		uint32_t middle = at + (end - at) / 2;
		if (place->missing[middle].entry < entry)
			at = middle + 1;
		else
			end = middle;
	}
	return at;
}

/* Capacity doubles whenever the count is a power of two. */
static int reserve_missing(struct tfc__place *place)
{
	uint32_t count = place->missing_count;
	if (count == MISSING_MAX)
		return TFC_ENOMEM;
	if (count & (count - 1))
		return TFC_OK;
	struct tfc__place_missing *missing = realloc(place->missing,
						     (count ? 2 * count : 1) * sizeof(*missing));
	if (!missing)
		return TFC_ENOMEM;
	place->missing = missing;
	return TFC_OK;
}

int tfc__place_set_missing(struct tfc__place *place, uint32_t entry,
			   const struct tfc__lines_cursor *cursor)
{
	uint32_t at = find_missing(place, entry), count = place->missing_count;
	if (at == count || place->missing[at].entry != entry) {
		if (reserve_missing(place) < 0)
			return TFC_ENOMEM;
		memmove(&place->missing[at + 1], &place->missing[at],
			(count - at) * sizeof(*place->missing));
		place->missing_count++;
	}
	place->missing[at] = (struct tfc__place_missing){entry, *cursor};
	return TFC_OK;
}

int tfc__place_apply(struct tfc__place *place, const struct tfc__mark *mark)
{
	if (mark->missing != UINT32_MAX &&
	    tfc__place_set_missing(place, mark->missing, &mark->cursor) < 0)
		return TFC_ENOMEM;
	if (mark->task != UINT32_MAX && tfc__place_reserve(place, mark->task + 1) < 0)
		return TFC_ENOMEM;
	place->next = mark->next;
	place->is_gap_reported = mark->is_gap_reported;
	if (mark->task != UINT32_MAX)
		tfc__place_set(place, mark->task, &mark->cursor);
	if (mark->ended_task < place->task_count)
		tfc__place_set(place, mark->ended_task, NULL);
	uint32_t at = find_missing(place, mark->missing_over);
	if (at < place->missing_count && place->missing[at].entry == mark->missing_over) {
		place->missing_count--;
		memmove(&place->missing[at], &place->missing[at + 1],
			(place->missing_count - at) * sizeof(*place->missing));
	}
	return TFC_OK;
}

void tfc__place_fini(struct tfc__place *place)
{
	free(place->cursors);
	free(place->has_cursor);
	free(place->missing);
	tfc__buf_fini(&place->text);
	*place = (struct tfc__place){0};
}

size_t tfc__place_bytes(const struct tfc__place *place)
{
	return place->task_count * sizeof(*place->cursors) +
	       words(place->task_count) * sizeof(*place->has_cursor) +
	       2 * place->missing_count * sizeof(*place->missing) + place->text.capacity;
}

static void add_cursor(struct tfc__buf *text, char mark, uint32_t number,
		       const struct tfc__lines_cursor *cursor)
{
	char *begin = tfc__buf_reserve(text, TFC__CURSOR_TEXT_SIZE + sizeof("_ffffffff."));
	if (!begin)
		return;
	char *at = begin;
	*at++ = mark;
	at = write_number(at, number);
	*at++ = '.';
	tfc__buf_grow(text, (size_t)(write_cursor(at, cursor) - begin));
}

const char *tfc__place_text(struct tfc__place *place)
{
	struct tfc__buf *text = &place->text;
	char next[17];
	tfc__buf_clear(text);
	text->is_failed = false;
	tfc__buf_add(text, next, (size_t)(write_number(next, place->next) - next));
	if (place->is_gap_reported)
		tfc__buf_add_char(text, 'g');
	for (size_t word = 0; word < words(place->task_count); word++)
		for (uint64_t left = place->has_cursor[word]; left; left &= left - 1) {
			uint32_t task = (uint32_t)(word * 64) + (uint32_t)__builtin_ctzll(left);
			add_cursor(text, '_', task, &place->cursors[task]);
		}
	for (uint32_t i = 0; i < place->missing_count; i++)
		add_cursor(text, '~', place->missing[i].entry, &place->missing[i].cursor);
	return text->is_failed ? "" : text->data;
}

/* "_TASK.PIECE"; tasks in ascending order, all below `end`. */
static int read_task(struct tfc__place *place, const char **at, uint64_t *first, uint32_t end)
{
	uint64_t task;
	struct tfc__lines_cursor cursor;
	(*at)++;
	if (!read_number(at, UINT32_MAX, &task) || task < *first || task >= end ||
	    *(*at)++ != '.' || !read_cursor(at, &cursor))
		return TFC_EINVAL;
	if (tfc__place_reserve(place, (uint32_t)task + 1) < 0)
		return TFC_ENOMEM;
	tfc__place_set(place, (uint32_t)task, &cursor);
	*first = task + 1;
	return TFC_OK;
}

/* "~ENTRY.PIECE"; entries in ascending order, all of them reported. */
static int read_missing(struct tfc__place *place, const char **at, uint64_t *first)
{
	uint64_t entry;
	struct tfc__lines_cursor cursor;
	(*at)++;
	if (!read_number(at, UINT32_MAX, &entry) || entry < *first || entry >= place->next ||
	    *(*at)++ != '.' || !read_cursor(at, &cursor))
		return TFC_EINVAL;
	*first = entry + 1;
	return tfc__place_set_missing(place, (uint32_t)entry, &cursor);
}

int tfc__place_read(struct tfc__place *place, uint32_t task_count, const char *text)
{
	uint64_t next, first = 0;
	if (!read_number(&text, UINT32_MAX, &next))
		return TFC_EINVAL;
	place->next = (uint32_t)next;
	if (*text == 'g') {
		place->is_gap_reported = true;
		text++;
	}
	int code = TFC_OK;
	while (code == TFC_OK && *text == '_')
		code = read_task(place, &text, &first, task_count);
	first = 0;
	while (code == TFC_OK && *text == '~')
		code = read_missing(place, &text, &first);
	return code == TFC_OK && *text ? TFC_EINVAL : code;
}
