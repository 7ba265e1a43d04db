/*
 * These lines name the reason, and the last one in the output counts:
 *
 * - The exception of a traceback: after the header, the first line that is not indented. A message
 *   of several lines continues below it. TensorFlow's "Graph execution error:" says nothing; its
 *   reason follows the list of the nodes' definitions.
 * - The message of a runtime that aborts the program: Python ("Fatal Python error: "), absl and
 *   TensorFlow (log entries of level F), C++ ("terminate called ...").
 * - After a traceback: "fatal: ..." or "train.py: error: ...". The program has survived the
 *   exception, which it printed or logged.
 * - If there is none of these: the last line that is neither a log entry nor a warning, such as the
 *   text of sys.exit("...") or a shell's "not found".
 *
 * Other threads write log entries between the lines of a traceback. They are skipped.
 */
#include "agent/error_line.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/utf8.h"
#include "log/overwrite.h"

#define CALLS_FOLLOW "(most recent call last):"

#define QUOTE_BYTES 160

#define LEGACY_KERAS                                                                          \
	"Model.fit of Keras 3 does not support this strategy; set TF_USE_LEGACY_KERAS=1 and " \
	"install tf_keras"

/* Known errors with a remedy: parts of the line and of the output around it, and the hint. A
 * training loop without Keras can fail with the same errors for other reasons. */
static const struct {
	const char *part;
	const char *around;
	const char *hint;
} hints[] = {
	{"Attempt to convert a value (PerReplica", "/keras/src/", LEGACY_KERAS},
	{"pass this dataset to ClusterCoordinator.create_per_worker_dataset", "/keras/src/",
	 LEGACY_KERAS},
	{"\\r", "shebang lines",
	 "the script has the line ends of Windows; convert it, as with dos2unix"},
};

static bool has_digits(const char *text, const char *pattern)
{
	for (; *pattern; pattern++, text++)
		if (*pattern == '9' ? !isdigit((unsigned char)*text) : *text != *pattern)
			return false;
	return true;
}

/* The level of a log entry of absl ("I0000 00:00:1731...") or TensorFlow ("2026-01-31 12:00:00.123:
 * I tensorflow/..."): I, W, E or F; 0: the line is none. */
static char log_entry_level(const char *line)
{
	if (line[0] && strchr("IWEF", line[0]) && has_digits(line + 1, "9999 99:99:"))
		return line[0];
	if (!has_digits(line, "9999-99-99 99:99:99."))
		return 0;
	const char *level = strstr(line, ": ");
	return level && level[2] && strchr("IWEF", level[2]) && level[3] == ' ' ? level[2] : 0;
}

/* A log entry without its head, which ends with the place in the source: "] ". */
static const char *log_entry_text(const char *line)
{
	const char *text = strstr(line, "] ");
	return text ? text + 2 : line;
}

/* "ValueError: a message", "KeyboardInterrupt", "torch.OutOfMemoryError: ..." */
static bool is_exception(const char *line)
{
	size_t len = strspn(line, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				  "_.<>");
	bool is_name = len && !isdigit((unsigned char)line[0]) && line[len - 1] != '.';
	return is_name &&
	       (!line[len] || (line[len] == ':' && (!line[len + 1] || line[len + 1] == ' ')));
}

static bool is_fatal(const char *line)
{
	static const char *const beginnings[] = {"Fatal Python error: ", "terminate called ",
						 "FATAL ERROR: "};
	for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++)
		if (strncmp(line, beginnings[i], strlen(beginnings[i])) == 0)
			return true;
	return log_entry_level(line) == 'F';
}

/* What faulthandler prints when a runtime aborts the program after a message of its own. */
static bool is_abort(const char *line)
{
	return strcmp(line, "Fatal Python error: Aborted") == 0;
}

/* "fatal: ...", "Error: ...", "train.py: error: ...". Python's logging has no space after its
 * "ERROR:", and the lines of an exception's message seldom begin so. */
static bool is_last_word(const char *line)
{
	return strncasecmp(line, "fatal: ", 7) == 0 || strncasecmp(line, "fatal ", 6) == 0 ||
	       strncasecmp(line, "error: ", 7) == 0 || strstr(line, ": fatal: ") ||
	       strstr(line, ": error: ");
}

/* A line without torchrun's "[rank0]: ". */
static const char *line_untagged(const char *line)
{
	const char *end = line[0] == '[' ? strstr(line, "]: ") : NULL;
	return end ? end + 3 : line;
}

/* Whether functions are listed below the line. */
static bool is_stack_head(const char *line)
{
	size_t len = strlen(line), tail = strlen(CALLS_FOLLOW);
	return len >= tail && strcmp(line + len - tail, CALLS_FOLLOW) == 0;
}

/* Warnings, entries of Python's logging below ERROR, progress bars, lines of stacks, the second
 * line of TensorFlow's entry about the instructions of the CPU, and hints: absl's about flags, and
 * that of env, which follows its reason. */
static bool is_noise(const char *line)
{
	static const char *const beginnings[] = {"DEBUG:", "INFO:", "WARNING:",
						 "To enable the following instructions:",
						 "Pass --helpshort or --helpfull "};
	char level = log_entry_level(line);
	const char *text = line_untagged(line);
	for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++)
		if (strncmp(line, beginnings[i], strlen(beginnings[i])) == 0)
			return true;
	return level == 'I' || level == 'W' || isspace((unsigned char)text[0]) || !text[0] ||
	       is_stack_head(line) || strstr(line, "Warning: ") || strstr(line, "%|") ||
	       strstr(line, "Unable to register ") ||
	       strstr(line, "env: use -[v]S to pass options in shebang lines");
}

/* ---- tracebacks */

/* A traceback that ends nothing follows such a line. */
static bool is_harmless_head(const char *line)
{
	return strncmp(line, "Exception ignored in", strlen("Exception ignored in")) == 0 ||
	       strncmp(line, "--- Logging error ---", strlen("--- Logging error ---")) == 0;
}

/* The length of what precedes the lines of a traceback, such as torchrun's "[rank0]: "; -1: the
 * line is not the header of a traceback. */
static int traceback_prefix(const char *line)
{
	static const char group[] = "  + Exception Group ";
	const char *at = strstr(line, "Traceback " CALLS_FOLLOW);
	if (!at || !is_stack_head(line))
		return -1;
	size_t len = (size_t)(at - line), tail = strlen(group);
	bool is_group = len >= tail && strncmp(at - tail, group, tail) == 0;
	if (is_group)
		len -= tail;
	if (len && (line[0] != '[' || line[len - 1] != ' ' || line[len - 2] == '|'))
		return -1;
	return (int)(is_group ? len + strlen("  | ") : len);
}

/* The number of the exception's line in the traceback whose header is lines[at]; 0: not found. */
static size_t traceback_exception(char *const *lines, size_t at, int prefix)
{
	for (at++; lines[at] && traceback_prefix(lines[at]) < 0; at++)
		if ((int)strlen(lines[at]) > prefix && is_exception(lines[at] + prefix))
			return at;
	return 0;
}

/* Where TensorFlow gives the reason of a "Graph execution error:"; NULL: nowhere. */
static const char *graph_error_reason(char *const *lines)
{
	for (; *lines && traceback_prefix(*lines) < 0; lines++) {
		const char *line = *lines;
		bool is_about_nodes = strncmp(line, "Detected at node", 16) == 0 ||
				      strncmp(line, "Node: ", 6) == 0 ||
				      strstr(line, "root error(s)");
		if (line[0] && !isspace((unsigned char)line[0]) && !is_about_nodes &&
		    !log_entry_level(line))
			return line;
	}
	return NULL;
}

/* TensorFlow puts "{{function_node NAME}} " in front of the message; NAME may be longer than it. */
static void exception_copy(char *const *lines, int prefix, char ret_line[TFC__ERROR_LINE_SIZE])
{
	static const char graph_error[] = ": Graph execution error:";
	const char *line = lines[0] + prefix, *reason = NULL;
	const char *node = strstr(line, ": {{function_node ");
	const char *message = node ? strstr(node, "}} ") : NULL;
	size_t len = strlen(line), tail = strlen(graph_error);
	if (len > tail && strcmp(line + len - tail, graph_error) == 0)
		reason = graph_error_reason(lines + 1);
	if (reason)
		snprintf(ret_line, TFC__ERROR_LINE_SIZE, "%.*s: %s", (int)(len - tail), line,
			 reason);
	else if (message)
		snprintf(ret_line, TFC__ERROR_LINE_SIZE, "%.*s: %s", (int)(node - line), line,
			 message + strlen("}} "));
	else
		snprintf(ret_line, TFC__ERROR_LINE_SIZE, "%s", line);
}

/* ---- the line and its quote */

/* Removes the part of a character that snprintf has left at the end. */
static void text_cut(char *text, size_t size)
{
	size_t len = strlen(text), at = len;
	if (len + 1 < size)
		return;
	while (at && ((unsigned char)text[at - 1] & 0xc0) == 0x80)
		at--;
	if (at && (unsigned char)text[at - 1] >= 0xc0 &&
	    !tfc__utf8_len(text + at - 1, len - at + 1))
		text[at - 1] = '\0';
}

static const char *find_hint(char *const *lines, const char *text)
{
	for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
		for (size_t at = 0; strstr(text, hints[i].part) && lines[at]; at++)
			if (strstr(lines[at], hints[i].around))
				return hints[i].hint;
	return NULL;
}

bool tfc__error_line_find(char *const *lines, enum tfc__error_source source,
			  struct tfc__error_line *ret_line)
{
	char *text = ret_line->text;
	const char *last = NULL;
	enum { FOUND_NONE, FOUND_EXCEPTION, FOUND_FATAL } found = FOUND_NONE;
	text[0] = '\0';
	for (size_t i = 0; lines[i]; i++) {
		const char *line = lines[i];
		line += tfc__line_overwritten(line, tfc__line_trimmed(line, strlen(line)));
		int prefix = source >= TFC__ERROR_RAISED ? traceback_prefix(line) : -1;
		size_t exception = 0;
		if (prefix >= 0 && (i == 0 || !is_harmless_head(lines[i - 1])))
			exception = traceback_exception(lines, i, prefix);
		if (exception) {
			exception_copy(lines + exception, prefix, text);
			found = FOUND_EXCEPTION;
		} else if (is_fatal(line) && !(found == FOUND_FATAL && is_abort(line))) {
			snprintf(text, TFC__ERROR_LINE_SIZE, "%s",
				 log_entry_level(line) ? log_entry_text(line) : line);
			found = FOUND_FATAL;
		} else if (found == FOUND_EXCEPTION && is_last_word(line)) {
			snprintf(text, TFC__ERROR_LINE_SIZE, "%s", line);
		} else if (!is_noise(line)) {
			last = line;
		}
	}
	if (!found && source == TFC__ERROR_LAST && last)
		snprintf(text, TFC__ERROR_LINE_SIZE, "%s",
			 log_entry_level(last) ? log_entry_text(last) : last);
	text_cut(text, TFC__ERROR_LINE_SIZE);
	tfc__make_plain_text(text);
	for (size_t len = strlen(text); len && text[len - 1] == ' '; len--)
		text[len - 1] = '\0';
	ret_line->hint = find_hint(lines, text);
	return text[0];
}

void tfc__error_line_quote(const struct tfc__error_line *line, char ret_text[TFC__ERROR_QUOTE_SIZE])
{
	char quote[QUOTE_BYTES] = "";
	memcpy(quote, line->text, strnlen(line->text, sizeof(quote) - 1));
	text_cut(quote, sizeof(quote));
	snprintf(ret_text, TFC__ERROR_QUOTE_SIZE, "%s%s%s%s", quote,
		 strlen(quote) < strlen(line->text) ? "..." : "", line->hint ? "; " : "",
		 line->hint ? line->hint : "");
}
