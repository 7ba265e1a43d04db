/* member: the members file, its sentences, and what happens when it changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "leaks.h"
#include "member/static_file.h"

#define A "{\"name\":\"a\",\"address\":\"tcp://h1:1\"}"
#define B "{\"name\":\"b\",\"address\":\"tcp://h2:1\"}"

static void a_list_is_read_by_name(void **state)
{
	static const char text[] =
		"{\"members\": [\n"
		"{\"name\": \"b\", \"address\": \"tcp://[::1]:7777\", \"slots\": 4,\n"
		" \"memory\": 8589934592, \"gpus\": 2, \"labels\": {\"rack\": \"1\", \"x\": "
		"\"\"},\n"
		" \"node_id\": \"0123456789abcdef\"},\n"
		"{\"name\": \"a\", \"address\": \"memory:a\", \"labels\": null, \"node_id\": "
		"null}]}";
	struct tfc__static_list list;
	tfc_error error = TFC_ERROR_INIT;
	assert_int_equal(tfc__static_parse(text, strlen(text), "m.json", &error, &list), TFC_OK);
	assert_int_equal(list.count, 2);
	assert_string_equal(list.items[0].name, "a");
	assert_null(list.items[0].labels);
	assert_int_equal(list.items[0].slots, 0);
	const tfc_member_info *b = &list.items[1];
	assert_string_equal(b->address, "tcp://[::1]:7777");
	assert_string_equal(b->node_id, "0123456789abcdef");
	assert_int_equal(b->slots, 4);
	assert_int_equal(b->memory_bytes, 8589934592);
	assert_int_equal(b->gpus, 2);
	assert_string_equal(b->labels[0], "rack=1");
	assert_string_equal(b->labels[1], "x=");
	assert_null(b->labels[2]);
	assert_int_equal(b->state, 0);
	tfc__static_list_free(&list);
}

static void what_is_wrong_is_named_with_its_line(void **state)
{
	static const struct {
		const char *text;
		int code;
		const char *sentence;
	} cases[] = {
		{"", TFC_EPARSE, "m.json:1: '[' or '{' expected near end of file"},
		{"{\n\"members\": [}", TFC_EPARSE, "m.json:2: "},
		{"[]", TFC_EINVAL, "m.json:1: must be an object: {\"members\": [...]}"},
		{"{}", TFC_EINVAL, "m.json:1: the key \"members\" is missing"},
		{"{\"member\": []}", TFC_EINVAL,
		 "m.json:1: member: unknown key; did you mean members?"},
		{"{\"members\": {}}", TFC_EINVAL, "m.json:1: members: must be a list of members"},
		{"{\"members\": []}", TFC_EINVAL, "m.json:1: members: the list is empty"},
		{"{\"members\": [\n\"a\"]}", TFC_EINVAL, "m.json:2: members[0]: must be an object"},
		{"{\"members\": [" A ",\n{}]}", TFC_EINVAL, "m.json:2: members[1]: name: missing"},
		{"{\"members\": [" A ",\n{\"name\":\"b\"}]}", TFC_EINVAL,
		 "m.json:2: members[1]: address of member \"b\" is missing"},
		{"{\"members\": [" A ",\n{\"name\":\"b\",\n\"adress\":\"tcp://h2:1\"}]}",
		 TFC_EINVAL, "m.json:3: members[1].adress: unknown key; did you mean address?"},
		{"{\"members\": [{\"name\":\"a\",\n\"xylophone\":1}]}", TFC_EINVAL,
		 "m.json:2: members[0].xylophone: unknown key"},
		{"{\"members\": [{\"name\":7}]}", TFC_EINVAL,
		 "m.json:1: members[0].name: must be a string"},
		{"{\"members\": [{\"address\":\"tcp://h2:1\",\n\"name\":\"a b\"}]}", TFC_EINVAL,
		 "m.json:2: members[0].name: must be 1 to 63 letters"},
		{"{\"members\": [{\"name\":\"a\",\"address\":\"h1:7777\"}]}", TFC_EINVAL,
		 "m.json:1: members[0].address: must be \"tcp://HOST:PORT\", not \"h1:7777\""},
		{"{\"members\": [{\"name\":\"a\",\"address\":\"tcp://h1\"}]}", TFC_EINVAL,
		 "m.json:1: members[0].address: must be \"tcp://HOST:PORT\""},
		{"{\"members\": [{\"name\":\"a\",\n\"slots\":-1}]}", TFC_EINVAL,
		 "m.json:2: members[0].slots: must be a whole number from 0 to 1000000"},
		{"{\"members\": [{\"name\":\"a\",\n\"memory\":\"8G\"}]}", TFC_EINVAL,
		 "m.json:2: members[0].memory: must be a whole number from 0 to "},
		{"{\"members\": [{\"name\":\"a\",\"address\":\"tcp://h1:1\",\n\"gpus\":2000}]}",
		 TFC_EINVAL, "m.json:2: members[0].gpus: must be a whole number from 0 to 1024"},
		{"{\"members\": [{\"labels\":[]}]}", TFC_EINVAL,
		 "m.json:1: members[0].labels: must be an object of strings"},
		{"{\"members\": [{\"labels\":{\n\"x\":1}}]}", TFC_EINVAL,
		 "m.json:2: members[0].labels.x: must be a string"},
		{"{\"members\": [{\"labels\":{\n\"x=\":\"1\"}}]}", TFC_EINVAL,
		 "m.json:2: members[0].labels.x=: a label's name has no '='"},
		{"{\"members\": "
		 "[{\"name\":\"a\",\"address\":\"tcp://h1:1\",\n\"labels\":{\"?\":\"\"}}]}",
		 TFC_EINVAL, "m.json:2: members[0].labels: a label's name is"},
		{"{\"members\": "
		 "[{\"name\":\"a\",\"address\":\"tcp://h1:1\",\n\"node_id\":\"me\"}]}",
		 TFC_EINVAL, "m.json:2: members[0].node_id: must be 16 to 64 hexadecimal digits"},
		{"{\"members\": [" A ",\n" B ",\n{\"name\":\"a\",\"address\":\"tcp://h3:1\"}]}",
		 TFC_EINVAL, "m.json:3: members[2].name: members[0] has the same name \"a\""},
		{"{\"members\": [" A ",\n{\"name\":\"c\",\"address\":\"tcp://h1:1\"}]}", TFC_EINVAL,
		 "m.json:2: members[1].address: members[0] (a) has the same address"},
		{"{\"members\": [{\"name\":\"a\",\n\"name\":\"b\"}]}", TFC_EPARSE,
		 "m.json:2: duplicate object key"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tfc__static_list list;
		tfc_error error = TFC_ERROR_INIT;
		const char *text = cases[i].text;
		assert_int_equal(tfc__static_parse(text, strlen(text), "m.json", &error, &list),
				 cases[i].code);
		if (strncmp(error.text, cases[i].sentence, strlen(cases[i].sentence)) != 0)
			fail_msg("\"%s\" instead of \"%s\"", error.text, cases[i].sentence);
		assert_string_equal(error.component, "member");
		assert_null(list.items);
	}
}

/* ---- a file that changes */

static char dir[LEAKS_PATH], path[LEAKS_PATH + 32], other[LEAKS_PATH + 32];
static tfc_ctx *ctx;
static struct tfc__static_file *file;
static struct tfc__members *members;
static char warning[256], repair[256];
static int warnings, repairs, reported;

static void take_log(void *user, const tfc_log_entry *entry)
{
	if (strstr(entry->text, "is valid again")) {
		assert_int_equal(entry->level, TFC_LOG_INFO);
		repairs++;
		snprintf(repair, sizeof(repair), "%s", entry->text);
	}
	if (entry->level != TFC_LOG_WARNING)
		return;
	warnings++;
	snprintf(warning, sizeof(warning), "%s", entry->text);
}

static void note(struct tfc__observer *watch, const void *event)
{
	reported++;
}

static struct tfc__observer watch = {.fn = note};

static void write_text(const char *to, const char *text)
{
	FILE *stream = fopen(to, "we");
	assert_non_null(stream);
	assert_true(fputs(text, stream) >= 0);
	assert_int_equal(fclose(stream), 0);
}

static int setup(void **state)
{
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	options.log = take_log;
	options.log_level = TFC_LOG_INFO;
	assert_int_equal(tfc_ctx_new(&options, NULL, &ctx), TFC_OK);
	leaks_make_dir(dir);
	snprintf(path, sizeof(path), "%s/members.json", dir);
	snprintf(other, sizeof(other), "%s/other", dir);
	warnings = repairs = reported = 0;
	members = NULL;
	return 0;
}

static int teardown(void **state)
{
	tfc__members_close(members);
	tfc__static_file_free(file);
	tfc_ctx_free(ctx);
	tfc__remove_tree(dir);
	return 0;
}

static int open_as(const char *name, const char *file_path, tfc_error *error)
{
	tfc_member_info self = {.size = sizeof(self), .name = name};
	struct tfc__members_options options = {.self = &self, .ops = &tfc__static_file_ops};
	assert_int_equal(tfc__static_file_new(file_path, error, &file), TFC_OK);
	options.user = file;
	int code = tfc__members_open(ctx, &options, error, &members);
	if (code == TFC_OK)
		tfc__members_watch(members, &watch);
	return code;
}

static void open_good(const char *text)
{
	tfc_error error = TFC_ERROR_INIT;
	write_text(path, text);
	assert_int_equal(open_as("a", path, &error), TFC_OK);
}

static void await(const int *what, int count)
{
	while (*what < count)
		assert_true(tfc_ctx_run(ctx, 5000) >= 0);
	assert_int_equal(*what, count);
}

static void writing_over_it_counts_and_renaming_over_it(void **state)
{
	open_good("{\"members\":[" A "]}");
	write_text(path, "{\"members\":[" A "," B "]}");
	await(&reported, 1);
	assert_non_null(tfc__members_find(members, "b"));
	write_text(other, "{\"members\":[" A "]}");
	assert_int_equal(rename(other, path), 0);
	await(&reported, 2);
	assert_null(tfc__members_find(members, "b"));
}

/* As Kubernetes changes a mounted file: a link to a link to a folder, and the second is replaced.
 */
static void a_link_that_is_changed_counts(void **state)
{
	char first[LEAKS_PATH + 32], second[LEAKS_PATH + 32], text[LEAKS_PATH + 64];
	char data[LEAKS_PATH + 32];
	tfc_error error = TFC_ERROR_INIT;
	snprintf(first, sizeof(first), "%s/..1", dir);
	snprintf(second, sizeof(second), "%s/..2", dir);
	snprintf(data, sizeof(data), "%s/..data", dir);
	assert_int_equal(mkdir(first, 0700) | mkdir(second, 0700), 0);
	snprintf(text, sizeof(text), "%s/members.json", first);
	write_text(text, "{\"members\":[" A "]}");
	snprintf(text, sizeof(text), "%s/members.json", second);
	write_text(text, "{\"members\":[" A "," B "]}");
	assert_int_equal(symlink("..1", data), 0);
	assert_int_equal(symlink("..data/members.json", path), 0);
	assert_int_equal(open_as("a", path, &error), TFC_OK);
	assert_int_equal(symlink("..2", other), 0);
	assert_int_equal(rename(other, data), 0);
	await(&reported, 1);
	assert_non_null(tfc__members_find(members, "b"));
}

static void a_version_that_cannot_be_read_changes_nothing(void **state)
{
	open_good("{\"members\":[" A "," B "]}");
	write_text(path, "{\"members\":[" A ",\n{\"name\":\"c\"}]}");
	await(&warnings, 1);
	assert_non_null(strstr(warning, "members not changed: "));
	assert_non_null(
		strstr(warning, "members.json:2: members[1]: address of member \"c\" is missing"));
	assert_int_equal(tfc__members_count(members), 2);
	write_text(path, "{\"members\":[" B "]}");
	await(&warnings, 2);
	assert_non_null(strstr(warning, "does not list this node, \"a\""));
	assert_int_equal(tfc__members_count(members), 2);
	assert_int_equal(reported, 0);
	assert_int_equal(repairs, 0);
	write_text(path, "{\"members\":[" A "]}");
	await(&reported, 1);
	assert_int_equal(tfc__members_count(members), 1);
	assert_int_equal(repairs, 1);
	assert_non_null(strstr(repair, "members.json\" is valid again; nodes: 1"));
	write_text(path, "{\"members\":[" A "," B "]}");
	await(&reported, 2);
	assert_int_equal(repairs, 1);
}

static void a_repair_to_the_text_before_is_logged_too(void **state)
{
	open_good("{\"members\":[" A "," B "]}");
	write_text(path, "{");
	await(&warnings, 1);
	write_text(path, "{\"members\":[" A "," B "]}");
	await(&repairs, 1);
	assert_non_null(strstr(repair, "is valid again; nodes: 2"));
	assert_int_equal(reported, 0);
}

static void the_same_again_reports_nothing(void **state)
{
	open_good("{\"members\":[" A "]}");
	write_text(path, "{\"members\":[" A "]}");
	write_text(other, "");
	assert_int_equal(unlink(other), 0);
	write_text(path, " {\"members\":[" A "]}");
	write_text(path, "{\"members\":[" A "," B "]}");
	await(&reported, 1);
	assert_int_equal(warnings, 0);
}

static void what_this_node_was_given_itself_counts(void **state)
{
	static const char *const labels[] = {"own=1", NULL};
	tfc_member_info self = {.size = sizeof(self), .name = "a", .slots = 3, .labels = labels};
	struct tfc__members_options options = {.self = &self, .ops = &tfc__static_file_ops};
	tfc_error error = TFC_ERROR_INIT;
	write_text(path, "{\"members\":[{\"name\":\"a\",\"address\":\"tcp://h1:1\",\"slots\":8,"
			 "\"gpus\":2,\"labels\":{\"own\":\"2\"}}]}");
	assert_int_equal(tfc__static_file_new(path, &error, &file), TFC_OK);
	options.user = file;
	assert_int_equal(tfc__members_open(ctx, &options, &error, &members), TFC_OK);
	const struct tfc__member *member = tfc__members_self(members);
	assert_int_equal(member->slots, 3);
	assert_int_equal(member->gpus, 2);
	assert_string_equal(member->labels[0], "own=1");
	assert_string_equal(member->address, "tcp://h1:1");
}

static void a_file_that_is_not_fit_at_the_start_is_refused(void **state)
{
	tfc_error error = TFC_ERROR_INIT;
	write_text(path, "{\"members\":[" A "," B "]}");
	assert_int_equal(open_as("c", path, &error), TFC_ENOENT);
	assert_non_null(strstr(error.text, "does not list this node, \"c\"; add it, or "
					   "give the node one of the 2 names listed, such as "
					   "\"a\""));
	tfc__static_file_free(file);
	assert_int_equal(open_as("a", other, &error), TFC_ENOENT);
	assert_non_null(strstr(error.text, other));
	tfc__static_file_free(file);
	assert_int_equal(mkfifo(other, 0600), 0);
	assert_int_equal(open_as("a", other, &error), TFC_EINVAL);
	assert_non_null(strstr(error.text, "not a regular file"));
	tfc__static_file_free(file);
	assert_int_equal(open_as("a", "/nowhere/at/all", &error), TFC_ENOENT);
	assert_null(members);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_is_read_by_name),
		cmocka_unit_test(what_is_wrong_is_named_with_its_line),
		TEST(writing_over_it_counts_and_renaming_over_it),
		TEST(a_link_that_is_changed_counts),
		TEST(a_version_that_cannot_be_read_changes_nothing),
		TEST(a_repair_to_the_text_before_is_logged_too),
		TEST(the_same_again_reports_nothing),
		TEST(what_this_node_was_given_itself_counts),
		TEST(a_file_that_is_not_fit_at_the_start_is_refused),
	};
	return cmocka_run_group_tests_name("member_file", tests, NULL, NULL);
}
