#include "gateway/place.h"

#include <stdlib.h>
#include <string.h>

const struct tfc__mark tfc__no_mark = {.task = UINT32_MAX,
				       .ended_task = UINT32_MAX,
				       .missing = UINT32_MAX,
				       .missing_over = UINT32_MAX};

/* ---- cursors of lines */

/* As printf with "%llx", for a cursor is written with every line. Returns the end of the text. */
static char *hex_write(char *text, uint64_t number)
{
	int digits = number ? (67 - __builtin_clzll(number)) / 4 : 1;
	for (int i = digits; i-- > 0; number >>= 4)
		text[i] = "0123456789abcdef"[number & 15];
	return text + digits;
}

static char *reported_write(char *text, const struct tfc__reported *reported)
{
	text = hex_write(text, reported->position);
	if (!reported->skip)
		return text;
	*text++ = '+';
	return hex_write(text, reported->skip);
}

static char *cursor_write_output(char *text, const struct tfc__lines_cursor *cursor)
{
	const struct tfc__reported *out = &cursor->reported[0], *err = &cursor->reported[1];
	text = reported_write(text, out);
	if (tfc__reported_equal(out, err))
		return text;
	*text++ = ',';
	return reported_write(text, err);
}

/* Returns the end of the text, at which there is no NUL. */
static char *cursor_write(char *text, const struct tfc__lines_cursor *cursor)
{
	text = cursor_write_output(text, cursor);
	if (tfc__lines_cursor_is_plain(cursor))
		return text;
	*text++ = ';';
	return reported_write(text, &cursor->reported[2]);
}

void tfc__cursor_write(struct tfc__cursor_text *text, const struct tfc__lines_cursor *cursor)
{
	*cursor_write(text->text, cursor) = '\0';
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads a hexadecimal number as printf writes it, without leading zeros; advances *at. */
static bool hex_read(const char **at, uint64_t max, uint64_t *ret_number)
{
	uint64_t number = 0;
	const char *digit = *at;
	for (int value; (value = hex_digit(*digit)) >= 0; digit++) {
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

static bool reported_read(const char **at, struct tfc__reported *ret_reported)
{
	ret_reported->skip = 0;
	if (!hex_read(at, UINT64_MAX, &ret_reported->position))
		return false;
	if (**at != '+')
		return true;
	(*at)++;
	return hex_read(at, UINT64_MAX, &ret_reported->skip) && ret_reported->skip;
}

static bool cursor_read(const char **at, struct tfc__lines_cursor *ret_cursor)
{
	struct tfc__lines_cursor cursor;
	struct tfc__reported *out = &cursor.reported[0], *err = &cursor.reported[1];
	if (!reported_read(at, out))
		return false;
	*err = *out;
	if (**at == ',') {
		(*at)++;
		if (!reported_read(at, err) || tfc__reported_equal(out, err))
			return false;
	}
	tfc__lines_cursor_make_plain(&cursor);
	if (**at == ';') {
		(*at)++;
		if (!reported_read(at, &cursor.reported[2]) || tfc__lines_cursor_is_plain(&cursor))
			return false;
	}
	*ret_cursor = cursor;
	return true;
}

bool tfc__cursor_read(const char *text, struct tfc__lines_cursor *ret_cursor)
{
	return cursor_read(&text, ret_cursor) && !*text;
}

/* ---- places */

/* The number of words with a bit for each of `count` things. */
static size_t bitmap_words(size_t count)
{
	return (count + 63) / 64;
}

static bool bitmap_grow(uint64_t **bits, size_t old_words, size_t new_words)
{
	uint64_t *grown = realloc(*bits, new_words * sizeof(*grown));
	if (!grown)
		return false;
	memset(grown + old_words, 0, (new_words - old_words) * sizeof(*grown));
	*bits = grown;
	return true;
}

int tfc__place_reserve(struct tfc__place *place, uint32_t task_count)
{
	if (task_count <= place->task_count)
		return TFC_OK;
	size_t had = bitmap_words(place->task_count), words_now = bitmap_words(task_count);
	struct tfc__place_task *tasks = realloc(place->tasks, task_count * sizeof(*tasks));
	if (!tasks)
		return TFC_ENOMEM;
	place->tasks = tasks;
	if (!bitmap_grow(&place->has_cursor, had, words_now) ||
	    !bitmap_grow(&place->has_any, bitmap_words(had), bitmap_words(words_now)))
		return TFC_ENOMEM;
	memset(tasks + place->task_count, 0, (task_count - place->task_count) * sizeof(*tasks));
	place->task_count = task_count;
	return TFC_OK;
}

/* ---- the text
 *
 * A cursor is reported with every line, and has a part for each task of a running job. */

#define NEXT_SIZE (sizeof("ffffffffg") - 1)
#define PART_SIZE (sizeof("_ffffffff.") + TFC__CURSOR_TEXT_SIZE)

/* Returns the end of the text. */
static char *part_write(char *text, char mark, uint32_t number,
			const struct tfc__lines_cursor *cursor)
{
	*text++ = mark;
	text = hex_write(text, number);
	*text++ = '.';
	return cursor_write(text, cursor);
}

/* Where the parts of the tasks before `task` end in the text. */
static size_t parts_end_before(const struct tfc__place *place, uint32_t task)
{
	size_t word = task / 64;
	uint64_t before = place->has_cursor[word] & ((UINT64_C(1) << task % 64) - 1);
	while (!before && word)
		before = place->has_cursor[--word];
	if (!before)
		return NEXT_SIZE;
	const struct tfc__place_task *last =
		&place->tasks[word * 64 + 63 - (size_t)__builtin_clzll(before)];
	return last->text_at + last->text_len;
}

static void parts_shift_after(struct tfc__place *place, uint32_t task, uint32_t by)
{
	uint64_t left = place->has_cursor[task / 64] & ~UINT64_C(1) << task % 64;
	for (size_t word = task / 64;; left = place->has_cursor[word]) {
		for (; left; left &= left - 1)
			place->tasks[word * 64 + (size_t)__builtin_ctzll(left)].text_at += by;
		if (++word == bitmap_words(place->task_count))
			return;
	}
}

/* Replaces the part of a task; cursor NULL: removes it. */
static void place_update_text(struct tfc__place *place, uint32_t task,
			      const struct tfc__lines_cursor *cursor)
{
	struct tfc__buf *text = &place->text;
	struct tfc__place_task *of = &place->tasks[task];
	char part[PART_SIZE];
	bool had_part = tfc__place_cursor(place, task);
	size_t len = cursor ? (size_t)(part_write(part, '_', task, cursor) - part) : 0;
	size_t old_len = had_part ? of->text_len : 0;
	size_t at = had_part ? of->text_at : parts_end_before(place, task);
	bool is_last = at + old_len == text->len;
	if (!tfc__buf_reserve(text, len)) {
		place->is_text_current = false;
		return;
	}
	if (len != old_len)
		memmove(text->data + at + len, text->data + at + old_len,
			text->len - at - old_len + 1);
	memcpy(text->data + at, part, len);
	text->len += len - old_len;
	if (len != old_len && !is_last)
		parts_shift_after(place, task, (uint32_t)(len - old_len));
	of->text_at = (uint32_t)at;
	of->text_len = (uint32_t)len;
}

static void part_add(struct tfc__buf *text, char mark, uint32_t number,
		     const struct tfc__lines_cursor *cursor)
{
	char *begin = tfc__buf_reserve(text, PART_SIZE);
	if (begin)
		tfc__buf_grow(text, (size_t)(part_write(begin, mark, number, cursor) - begin));
}

static void place_write_parts(struct tfc__place *place)
{
	static const char room[NEXT_SIZE];
	struct tfc__buf *text = &place->text;
	tfc__buf_clear(text);
	text->is_failed = false;
	tfc__buf_add(text, room, sizeof(room));
	for (size_t i = 0; i < bitmap_words(bitmap_words(place->task_count)); i++)
		for (uint64_t any = place->has_any[i]; any; any &= any - 1) {
			size_t word = i * 64 + (size_t)__builtin_ctzll(any);
			for (uint64_t left = place->has_cursor[word]; left; left &= left - 1) {
				uint32_t task = (uint32_t)(word * 64 +
							   (size_t)__builtin_ctzll(left));
				struct tfc__place_task *of = &place->tasks[task];
				of->text_at = (uint32_t)text->len;
				part_add(text, '_', task, &of->cursor);
				of->text_len = (uint32_t)(text->len - of->text_at);
			}
		}
	for (uint32_t i = 0; i < place->missing_count; i++)
		part_add(text, '~', place->missing[i].entry, &place->missing[i].cursor);
	place->is_text_current = !text->is_failed;
}

const char *tfc__place_text(struct tfc__place *place)
{
	char next[NEXT_SIZE + 8], *end;
	if (!place->is_text_current)
		place_write_parts(place);
	if (!place->is_text_current)
		return "";
	end = hex_write(next, place->next);
	if (place->is_gap_reported)
		*end++ = 'g';
	size_t len = (size_t)(end - next);
	return memcpy(place->text.data + NEXT_SIZE - len, next, len);
}

void tfc__place_set(struct tfc__place *place, uint32_t task, const struct tfc__lines_cursor *cursor)
{
	uint32_t word = task / 64;
	uint64_t bit = UINT64_C(1) << task % 64, any = UINT64_C(1) << word % 64;
	if (!cursor && !(place->has_cursor[word] & bit))
		return;
	if (place->is_text_current)
		place_update_text(place, task, cursor);
	if (cursor) {
		place->has_cursor[word] |= bit;
		place->has_any[word / 64] |= any;
		place->tasks[task].cursor = *cursor;
	} else if (!(place->has_cursor[word] &= ~bit)) {
		place->has_any[word / 64] &= ~any;
	}
}

/* ---- missing output */

#define MISSING_MAX 65536 /* limit on the attempts with missing output */

/* The index of the first element whose entry is not before `entry`. */
static uint32_t place_find_missing(const struct tfc__place *place, uint32_t entry)
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
static int place_reserve_missing(struct tfc__place *place)
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
	uint32_t at = place_find_missing(place, entry), count = place->missing_count;
	if (at == count || place->missing[at].entry != entry) {
		if (place_reserve_missing(place) < 0)
			return TFC_ENOMEM;
		memmove(&place->missing[at + 1], &place->missing[at],
			(count - at) * sizeof(*place->missing));
		place->missing_count++;
	}
	place->missing[at] = (struct tfc__place_missing){entry, *cursor};
	place->is_text_current = false;
	return TFC_OK;
}

int tfc__place_apply(struct tfc__place *place, const struct tfc__mark *mark)
{
	if (mark->task != UINT32_MAX && tfc__place_reserve(place, mark->task + 1) < 0)
		return TFC_ENOMEM;
	if (mark->missing != UINT32_MAX &&
	    tfc__place_set_missing(place, mark->missing, &mark->cursor) < 0)
		return TFC_ENOMEM;
	place->next = mark->next;
	place->is_gap_reported = mark->is_gap_reported;
	if (mark->task != UINT32_MAX)
		tfc__place_set(place, mark->task, &mark->cursor);
	if (mark->ended_task < place->task_count)
		tfc__place_set(place, mark->ended_task, NULL);
	uint32_t at = place_find_missing(place, mark->missing_over);
	if (at < place->missing_count && place->missing[at].entry == mark->missing_over) {
		place->is_text_current = false;
		place->missing_count--;
		memmove(&place->missing[at], &place->missing[at + 1],
			(place->missing_count - at) * sizeof(*place->missing));
	}
	return TFC_OK;
}

void tfc__place_fini(struct tfc__place *place)
{
	free(place->tasks);
	free(place->has_cursor);
	free(place->has_any);
	free(place->missing);
	tfc__buf_fini(&place->text);
	*place = (struct tfc__place){0};
}

size_t tfc__place_bytes(const struct tfc__place *place)
{
	return place->task_count * sizeof(*place->tasks) +
	       bitmap_words(place->task_count) * sizeof(*place->has_cursor) +
	       bitmap_words(bitmap_words(place->task_count)) * sizeof(*place->has_any) +
	       2 * place->missing_count * sizeof(*place->missing) + place->text.capacity;
}

/* ---- parsing */

/* "_TASK.CURSOR"; tasks in ascending order, all below `end`. */
static int place_read_task(struct tfc__place *place, const char **at, uint64_t *first, uint32_t end)
{
	uint64_t task;
	struct tfc__lines_cursor cursor;
	(*at)++;
	if (!hex_read(at, UINT32_MAX, &task) || task < *first || task >= end || *(*at)++ != '.' ||
	    !cursor_read(at, &cursor))
		return TFC_EINVAL;
	if (tfc__place_reserve(place, (uint32_t)task + 1) < 0)
		return TFC_ENOMEM;
	tfc__place_set(place, (uint32_t)task, &cursor);
	*first = task + 1;
	return TFC_OK;
}

/* "~ENTRY.CURSOR"; entries in ascending order, all of them reported. */
static int place_read_missing(struct tfc__place *place, const char **at, uint64_t *first)
{
	uint64_t entry;
	struct tfc__lines_cursor cursor;
	(*at)++;
	if (!hex_read(at, UINT32_MAX, &entry) || entry < *first || entry >= place->next ||
	    *(*at)++ != '.' || !cursor_read(at, &cursor))
		return TFC_EINVAL;
	*first = entry + 1;
	return tfc__place_set_missing(place, (uint32_t)entry, &cursor);
}

int tfc__place_read(struct tfc__place *place, uint32_t task_count, const char *text)
{
	uint64_t next, first = 0;
	if (!hex_read(&text, UINT32_MAX, &next))
		return TFC_EINVAL;
	place->next = (uint32_t)next;
	if (*text == 'g') {
		place->is_gap_reported = true;
		text++;
	}
	int code = TFC_OK;
	while (code == TFC_OK && *text == '_')
		code = place_read_task(place, &text, &first, task_count);
	first = 0;
	while (code == TFC_OK && *text == '~')
		code = place_read_missing(place, &text, &first);
	return code == TFC_OK && *text ? TFC_EINVAL : code;
}
