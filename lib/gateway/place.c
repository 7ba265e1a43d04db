#include "gateway/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- pieces */

static int write_told(char *text, size_t size, const struct tfc__told *told)
{
	int len = snprintf(text, size, "%llx", (unsigned long long)told->position);
	if (told->skip)
		len += snprintf(text + len, size - (size_t)len, "+%llx",
				(unsigned long long)told->skip);
	return len;
}

void tfc__piece_write(struct tfc__piece *piece, const struct tfc__lines_cursor *cursor)
{
	const struct tfc__told *out = &cursor->told[0], *err = &cursor->told[1];
	int len = write_told(piece->text, sizeof(piece->text), out);
	if (out->position == err->position && out->skip == err->skip)
		return;
	piece->text[len++] = ',';
	write_told(piece->text + len, sizeof(piece->text) - (size_t)len, err);
}

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A number as printf writes it; moves *at behind it. */
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

static bool read_told(const char **at, struct tfc__told *ret_told)
{
	ret_told->skip = 0;
	if (!read_number(at, UINT64_MAX, &ret_told->position))
		return false;
	if (**at != '+')
		return true;
	(*at)++;
	return read_number(at, UINT64_MAX, &ret_told->skip) && ret_told->skip;
}

static bool read_piece(const char **at, struct tfc__lines_cursor *ret_cursor)
{
	struct tfc__told told[2];
	if (!read_told(at, &told[0]))
		return false;
	told[1] = told[0];
	if (**at == ',') {
		(*at)++;
		if (!read_told(at, &told[1]) ||
		    (told[1].position == told[0].position && told[1].skip == told[0].skip))
			return false;
	}
	memcpy(ret_cursor->told, told, sizeof(told));
	return true;
}

bool tfc__piece_read(const char *text, struct tfc__lines_cursor *ret_cursor)
{
	return read_piece(&text, ret_cursor) && !*text;
}

/* ---- places */

int tfc__place_reserve(struct tfc__place *place, uint32_t task_count)
{
	if (task_count <= place->task_count)
		return TFC_OK;
	struct tfc__piece *pieces = realloc(place->pieces, task_count * sizeof(*pieces));
	if (!pieces)
		return TFC_ENOMEM;
	memset(pieces + place->task_count, 0, (task_count - place->task_count) * sizeof(*pieces));
	place->pieces = pieces;
	place->task_count = task_count;
	return TFC_OK;
}

int tfc__place_go(struct tfc__place *place, const struct tfc__mark *mark)
{
	if (mark->task != UINT32_MAX && tfc__place_reserve(place, mark->task + 1) < 0)
		return TFC_ENOMEM;
	place->next = mark->next;
	place->is_gap_told = mark->is_gap_told;
	if (mark->task != UINT32_MAX)
		place->pieces[mark->task] = mark->piece;
	if (mark->ended_task < place->task_count)
		place->pieces[mark->ended_task].text[0] = '\0';
	return TFC_OK;
}

void tfc__place_fini(struct tfc__place *place)
{
	free(place->pieces);
	tfc__buf_fini(&place->text);
	*place = (struct tfc__place){0};
}

const char *tfc__place_text(struct tfc__place *place)
{
	struct tfc__buf *text = &place->text;
	tfc__buf_clear(text);
	text->is_failed = false;
	tfc__buf_addf(text, "%x%s", place->next, place->is_gap_told ? "g" : "");
	for (uint32_t i = 0; i < place->task_count; i++) {
		if (!place->pieces[i].text[0])
			continue;
		tfc__buf_addf(text, "_%x.", i);
		tfc__buf_add_str(text, place->pieces[i].text);
	}
	return text->is_failed ? "" : text->data;
}

/* "_TASK.PIECE"; tasks in order. */
static bool read_task(struct tfc__place *place, const char **at, uint64_t *first)
{
	uint64_t task;
	struct tfc__lines_cursor cursor;
	(*at)++;
	if (!read_number(at, UINT32_MAX, &task) || task < *first || task >= place->task_count ||
	    *(*at)++ != '.' || !read_piece(at, &cursor))
		return false;
	tfc__piece_write(&place->pieces[task], &cursor);
	*first = task + 1;
	return true;
}

int tfc__place_read(struct tfc__place *place, uint32_t task_count, const char *text)
{
	uint64_t next, first = 0;
	if (!read_number(&text, UINT32_MAX, &next))
		return TFC_EINVAL;
	if (tfc__place_reserve(place, task_count) < 0)
		return TFC_ENOMEM;
	place->next = (uint32_t)next;
	if (*text == 'g') {
		place->is_gap_told = true;
		text++;
	}
	while (*text == '_')
		if (!read_task(place, &text, &first))
			return TFC_EINVAL;
	return *text ? TFC_EINVAL : TFC_OK;
}
