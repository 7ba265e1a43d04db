#include "unfinished.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tfc_run.h"

struct unfinished_line {
	size_t task;
	uint32_t stream;
	char *text; /* with its prefix; terminated, and may contain NULs */
	size_t len;
};

/* The line of a task and stream; a new one is inserted in the order of the tasks. */
static struct unfinished_line *unfinished_line_of(struct unfinished *unfinished, size_t task,
						  uint32_t stream)
{
	size_t at = 0;
	for (; at < unfinished->count && unfinished->lines[at].task <= task; at++)
		if (unfinished->lines[at].task == task && unfinished->lines[at].stream == stream)
			return &unfinished->lines[at];
	unfinished->lines = reallocarray(unfinished->lines, unfinished->count + 1,
					 sizeof(*unfinished->lines));
	if (!unfinished->lines)
		die_without_memory();
	struct unfinished_line *line = &unfinished->lines[at];
	memmove(line + 1, line, (unfinished->count++ - at) * sizeof(*line));
	*line = (struct unfinished_line){.task = task, .stream = stream};
	return line;
}

void unfinished_set(struct unfinished *unfinished, size_t task, const char *prefix,
		    const tfc_event *event)
{
	struct unfinished_line *line = unfinished_line_of(unfinished, task, event->stream);
	size_t prefix_len = strlen(prefix);
	line->len = prefix_len + event->data_len;
	line->text = realloc(line->text, line->len + 1);
	if (!line->text)
		die_without_memory();
	memcpy(line->text, prefix, prefix_len);
	memcpy(line->text + prefix_len, event->data, event->data_len);
	line->text[line->len] = '\0';
	unfinished->is_changed = true;
}

void unfinished_remove(struct unfinished *unfinished, size_t task, uint32_t stream)
{
	size_t kept = 0;
	for (size_t i = 0; i < unfinished->count; i++) {
		struct unfinished_line line = unfinished->lines[i];
		if (line.task == task && (!stream || line.stream == stream))
			free(line.text);
		else
			unfinished->lines[kept++] = line;
	}
	unfinished->is_changed |= kept < unfinished->count;
	unfinished->count = kept;
}

void unfinished_remove_all(struct unfinished *unfinished)
{
	for (size_t i = 0; i < unfinished->count; i++)
		free(unfinished->lines[i].text);
	free(unfinished->lines);
	*unfinished = (struct unfinished){.is_changed = true};
}

/* The length of an escape sequence that sets colors ("\033[1;32m") at the start of the text, or 0.
 */
static size_t color_len(const char *text, size_t len)
{
	size_t at = 2;
	if (len < 3 || text[0] != '\033' || text[1] != '[')
		return 0;
	while (at < len && text[at] && strchr("0123456789;", text[at]))
		at++;
	return at < len && text[at] == 'm' ? at + 1 : 0;
}

enum part { COLOR, CHARACTER, OMITTED };

/* Returns the length of what is at the start of the text. Bytes that are not UTF-8 and characters
 * that would move the cursor are omitted. */
static size_t part_read(const char *text, size_t len, enum part *ret_part)
{
	uint32_t code;
	size_t color = color_len(text, len), character = color ? 0 : read_utf8(text, &code);
	*ret_part = color ? COLOR : character && !is_control(code) ? CHARACTER : OMITTED;
	return color ? color : character ? character : 1;
}

/* The bytes of characters that fit. */
static size_t line_room(const struct unfinished_line *line, size_t columns)
{
	enum part part;
	char *plain = malloc(line->len + 1), *end = plain;
	if (!plain)
		die_without_memory();
	for (size_t at = 0, len; at < line->len; at += len) {
		len = part_read(line->text + at, line->len - at, &part);
		if (part == CHARACTER)
			end = mempcpy(end, line->text + at, len);
	}
	*end = '\0';
	size_t room = fitting_len(plain, columns);
	free(plain);
	return room;
}

static void unfinished_draw_line(const struct unfinished_line *line, struct stream *to,
				 size_t columns)
{
	enum part part;
	size_t room = line_room(line, columns);
	for (size_t at = 0, len; at < line->len; at += len) {
		len = part_read(line->text + at, line->len - at, &part);
		if (part == CHARACTER && len > room)
			break;
		if (part == CHARACTER)
			room -= len;
		if (part != OMITTED)
			stream_add(to, line->text + at, len);
	}
	stream_print(to, "\033[0m\n");
}

size_t unfinished_draw(struct unfinished *unfinished, struct stream *to, size_t rows,
		       size_t columns)
{
	size_t count = unfinished->count < rows ? unfinished->count : rows;
	unfinished->is_changed = false;
	if (!count)
		return 0;
	stream_print(to, WRAP_OFF);
	for (size_t i = 0; i < count; i++)
		unfinished_draw_line(&unfinished->lines[i], to, columns);
	stream_print(to, WRAP_ON);
	return count;
}
