/* tfc_run: what it changes in messages and output. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/tfc_run/tail.h"
#include "examples/tfc_run/tfc_run.h"
#include "examples/tfc_run/unfinished.h"
#include <tfcluster/log.h>

/* ---- what tail.c and unfinished.c write to */

static tfc_event shown[4];
static size_t shown_count;
static char drawn[256];
static size_t drawn_len;

void output_event(struct output *output, const tfc_event *event)
{
	assert_true(shown_count < 4);
	shown[shown_count] = *event;
	shown[shown_count].text = strdup(event->text);
	shown[shown_count++].cursor = strdup(event->cursor);
}

void stream_add(struct stream *stream, const char *data, size_t len)
{
	assert_true(drawn_len + len < sizeof(drawn));
	memcpy(drawn + drawn_len, data, len);
	drawn_len += len;
	drawn[drawn_len] = '\0';
}

void stream_print(struct stream *stream, const char *format, ...)
{
	stream_add(stream, format, strlen(format));
}

/* ---- messages */

static void assert_line(const char *text, const char *expected)
{
	char *line = message_line(text);
	assert_string_equal(line, expected);
	free(line);
}

static void options_have_the_names_of_the_command_line(void **state)
{
	assert_line("a connection to another machine requires a key; set key_file to a file",
		    "a connection to another machine requires a key; set --key to a file");
	assert_line("\"a\" needs a key (key_file) or \"b\"", "\"a\" needs a key (--key) or \"b\"");
	assert_line("keys; set its option submit_user", "keys; set its option --submit-user");
	assert_line("set the variable on the node (pass_env)",
		    "set the variable on the node (--pass-env)");
}

static void names_of_jobs_and_files_stay(void **state)
{
	static const char *const texts[] = {
		"job \"key_file\" has ended",
		"job \"set key_file to\" has ended",
		"cannot read \"/tmp/key_file\": No such file or directory",
		"cannot read \"/tmp/(key_file)\": No such file or directory",
		"node.json:3: \"submit_user\": must be a user",
		"worker/0: NameError: name 'key_file' is not defined",
		"worker/0: my_pass_env=1",
	};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_line(texts[i], texts[i]);
}

static void an_error_about_something_unknown_says_what_lists_it(void **state)
{
	assert_line("job \"key_file\" not found",
		    "job \"key_file\" not found; \"tfc_run ps --all\" lists all jobs");
	assert_line("member \"z\" not found",
		    "member \"z\" not found; \"tfc_run members\" lists all nodes");
	assert_line("job \"a\" not found; it may be a job of a node that is unreachable: b",
		    "job \"a\" not found; it may be a job of a node that is unreachable: b");
}

/* ---- logs --tail */

static void a_gap_keeps_its_text(void **state)
{
	const char *const log_tail[] = {"a", NULL};
	char cursor[] = "12", text[] = "missing output: it is on node b, which is unreachable";
	const tfc_event gap = {.size = sizeof(gap),
			       .kind = TFC_EVENT_GAP,
			       .time_ns = 5,
			       .job = "0123456789abcdef",
			       .name = "j",
			       .cursor = cursor,
			       .task_type = "worker",
			       .task_index = 1,
			       .attempt = 2,
			       .node = "b",
			       .address = "",
			       .text = text,
			       .log_tail = log_tail,
			       .data = "",
			       .data_len = 7,
			       .stream = TFC_STREAM_STDERR,
			       .error_line = ""};
	struct tail tail;
	tail_begin(&tail, 2);
	tail_add(&tail, &gap);
	memset(cursor, 'x', strlen(cursor)); /* the event is valid only during the call */
	memset(text, 'x', strlen(text));
	tail_each(&tail, NULL);
	tail_end(&tail);
	assert_int_equal(shown_count, 1);
	assert_string_equal(shown[0].text, "missing output: it is on node b, which is unreachable");
	assert_string_equal(shown[0].cursor, "12");
	assert_int_equal(shown[0].kind, TFC_EVENT_GAP);
	assert_int_equal(shown[0].task_index, 1);
	assert_int_equal(shown[0].attempt, 2);
	assert_int_equal(shown[0].data_len, 7);
	assert_int_equal(shown[0].stream, TFC_STREAM_STDERR);
	assert_null(shown[0].log_tail);
	free((char *)shown[0].text);
	free((char *)shown[0].cursor);
}

/* ---- unfinished lines */

static void assert_drawn(const char *data, size_t len, size_t columns, const char *expected)
{
	struct unfinished unfinished = {.count = 0};
	const tfc_event event = {.data = data, .data_len = len, .stream = TFC_STREAM_STDOUT};
	char whole[sizeof(drawn)];
	drawn_len = 0;
	unfinished_set(&unfinished, 0, "p ", &event);
	assert_int_equal(unfinished_draw(&unfinished, NULL, 3, columns), 1);
	unfinished_remove_all(&unfinished);
	snprintf(whole, sizeof(whole), "%s%s\033[0m\n%s", WRAP_OFF, expected, WRAP_ON);
	assert_string_equal(drawn, whole);
}

static void no_character_of_an_unfinished_line_moves_the_cursor(void **state)
{
	assert_drawn("a\b\033[31mb\033[2Jc\0d", 15, 20, "p a\033[31mb[2Jcd");
	assert_drawn("a\xc2\x9b"
		     "2Jb",
		     6, 20, "p a2Jb"); /* CSI of C1 */
	assert_drawn("a\x9b"
		     "2Jb\xe2\x82",
		     7, 20, "p a2Jb"); /* not UTF-8 */
	assert_drawn("a\xe2\x80\xae"
		     "b",
		     5, 20, "p ab"); /* writes from right to left */
}

static void an_unfinished_line_is_cut_by_columns(void **state)
{
	assert_drawn("12345", 5, 5, "p 123");
	assert_drawn("\xe6\xbc\xa2\xe6\xbc\xa2", 6, 5, "p \xe6\xbc\xa2"); /* two columns each */
	assert_drawn("\xc3\xa4\xc3\xb6\xc3\xbc", 6, 4, "p \xc3\xa4\xc3\xb6");
	assert_drawn("\033[31m123\033[0m4", 13, 5, "p \033[31m123\033[0m");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_have_the_names_of_the_command_line),
		cmocka_unit_test(names_of_jobs_and_files_stay),
		cmocka_unit_test(an_error_about_something_unknown_says_what_lists_it),
		cmocka_unit_test(a_gap_keeps_its_text),
		cmocka_unit_test(no_character_of_an_unfinished_line_moves_the_cursor),
		cmocka_unit_test(an_unfinished_line_is_cut_by_columns),
	};
	return cmocka_run_group_tests_name("tfc_run_text", tests, NULL, NULL);
}
