/*
 * The task's output, from its pipes into the log. Of a line with carriage returns, as a progress
 * bar writes it, only the latest state counts: it is written at a bounded pace and waits here in
 * between, so that a bar that runs for days neither fills the log nor keeps its readers busy.
 * Reports go into the log as they are.
 */
#include "shim.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "log/overwrite.h"

#define STATE_PAUSE (500 * TFC__MS)          /* between two states of a line in the log */
#define STATE_MAX (TFC__LOG_PAYLOAD_MAX / 2) /* longer states are written at once */
#define CURSOR_UP "\033[A"
#define CURSOR_UP_LEN (sizeof(CURSOR_UP) - 1)

static char record[TFC__LOG_RECORD_MAX];

static struct unfinished_line {
	bool is_bar;         /* the line has a carriage return */
	uint64_t written_at; /* when a state of it was last written */
	size_t len;          /* of the state that waits */
	char state[STATE_MAX];
} unfinished_lines[2]; /* stdout, stderr */

static bool ends_with_cursor_up(const char *text, size_t len)
{
	return len >= CURSOR_UP_LEN &&
	       memcmp(text + len - CURSOR_UP_LEN, CURSOR_UP, CURSOR_UP_LEN) == 0;
}

/* The length of a state without the cursor movements at its end: what follows decides whether they
 * have an effect. */
static size_t output_state_len(const struct unfinished_line *line)
{
	size_t len = line->len;
	while (ends_with_cursor_up(line->state, len))
		len -= CURSOR_UP_LEN;
	return len;
}

static void output_write_state(struct shim *shim, size_t slot)
{
	struct unfinished_line *line = &unfinished_lines[slot];
	size_t len = output_state_len(line);
	if (!len)
		return;
	memcpy(record + TFC__LOG_HEADER, line->state, len);
	tfc__log_append(&shim->log, record, len, slot ? 'e' : 'o');
	line->len -= len;
	memmove(line->state, line->state + len, line->len);
	line->written_at = tfc__now();
}

/*
 * The lower one of two nested bars of tqdm writes "\n", its state and a cursor movement up, over
 * and over. A newline behind that movement only returns to the lower bar's line, as a carriage
 * return does, and becomes one. Returns the new length.
 */
static size_t output_join_nested_bar(char *text, size_t len)
{
	size_t kept = 0;
	for (size_t at = 0; at < len; at++) {
		size_t shown = text[at] == '\n' ? tfc__line_trimmed(text, kept) : 0;
		bool is_return = ends_with_cursor_up(text, shown);
		kept = is_return ? shown - CURSOR_UP_LEN : kept;
		text[kept++] = is_return ? '\r' : text[at];
	}
	return kept;
}

/* Removes what is overwritten in each line. The carriage return itself stays: it overwrites what
 * was written before. Returns the new length. */
static size_t output_remove_overwritten(char *text, size_t len)
{
	size_t kept = 0;
	for (size_t at = 0, end; at < len; at = end) {
		const char *newline = memchr(text + at, '\n', len - at);
		end = newline ? (size_t)(newline - text) + 1 : len;
		size_t shown = tfc__line_trimmed(text + at, end - at - (newline ? 1 : 0));
		size_t overwritten = tfc__line_overwritten(text + at, shown);
		size_t from = at + overwritten - (overwritten ? 1 : 0);
		memmove(text + kept, text + from, end - from);
		kept += end - from;
	}
	return kept;
}

static void output_add(struct shim *shim, size_t slot, size_t len)
{
	struct unfinished_line *line = &unfinished_lines[slot];
	char *text = record + TFC__LOG_HEADER;
	bool has_return = memchr(text, '\r', len);
	if ((line->is_bar || has_return) && memmem(text, len, CURSOR_UP, CURSOR_UP_LEN)) {
		len = output_join_nested_bar(text, len);
		has_return = memchr(text, '\r', len);
	}
	if (has_return)
		len = output_remove_overwritten(text, len);
	const char *newline = memrchr(text, '\n', len);
	size_t whole = newline ? (size_t)(newline - text) + 1 : 0;
	size_t rest = len - whole;
	line->is_bar = rest && ((line->is_bar && !newline) ||
				(has_return && memchr(text + whole, '\r', rest)));
	line->len = line->is_bar && rest <= STATE_MAX ? rest : 0;
	memcpy(line->state, text + whole, line->len);
	if (len > line->len)
		tfc__log_append(&shim->log, record, len - line->len, slot ? 'e' : 'o');
	if (line->len && tfc__now() >= line->written_at + STATE_PAUSE)
		output_write_state(shim, slot);
}

bool output_read(struct shim *shim, int fd)
{
	bool is_report = fd == shim->reports;
	size_t slot = fd == shim->out ? 0 : 1;
	size_t waiting = is_report ? 0 : unfinished_lines[slot].len;
	char *text = record + TFC__LOG_HEADER;
	ssize_t len;
	memcpy(text, unfinished_lines[slot].state, waiting);
	do
		len = read(fd, text + waiting, TFC__LOG_PAYLOAD_MAX - waiting);
	while (len < 0 && errno == EINTR);
	if (len <= 0)
		return false;
	stall_sign(shim);
	if (is_report)
		tfc__log_append(&shim->log, record, (size_t)len, 'r');
	else
		output_add(shim, slot, waiting + (size_t)len);
	return true;
}

uint64_t output_due(void)
{
	uint64_t due = 0;
	for (size_t i = 0; i < 2; i++) {
		uint64_t at = unfinished_lines[i].written_at + STATE_PAUSE;
		if (output_state_len(&unfinished_lines[i]) && (!due || at < due))
			due = at;
	}
	return due;
}

void output_write_due(struct shim *shim)
{
	uint64_t now = unfinished_lines[0].len || unfinished_lines[1].len ? tfc__now() : 0;
	for (size_t i = 0; i < 2; i++)
		if (now >= unfinished_lines[i].written_at + STATE_PAUSE)
			output_write_state(shim, i);
}

/*
 * A process outside the task's tree may keep the pipe open, so this does not wait for end of file.
 */
static void output_drain_pipe(struct shim *shim, int fd)
{
	int waiting;
	while (fd >= 0 && ioctl(fd, FIONREAD, &waiting) == 0 && waiting > 0 &&
	       output_read(shim, fd))
		;
}

void output_drain(struct shim *shim)
{
	output_drain_pipe(shim, shim->out);
	output_drain_pipe(shim, shim->err);
	output_drain_pipe(shim, shim->reports);
	output_write_state(shim, 0);
	output_write_state(shim, 1);
}
