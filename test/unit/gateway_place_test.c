/* gateway: the text of a place is a cursor, and only that is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/place.h"
#include "leaks.h"

static void a_place_is_read_as_it_was_written(void **state)
{
	static const char *const texts[] = {
		"0",
		"1f",
		"1fg",
		"0_0.0",
		"3_0.5_2.10+3",
		"3g_1.5,6_2.10+3,ffffffffffffffff+ffffffffffffffff",
		"ffffffff_63.1,0",
		"3~0.0",
		"3g_1.5~0.10~2.7+1,8",
	};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct tfc__place place = {0};
		assert_int_equal(tfc__place_read(&place, 100, texts[i]), TFC_OK);
		assert_string_equal(tfc__place_text(&place), texts[i]);
		tfc__place_fini(&place);
	}
}

static void what_no_place_writes_is_refused(void **state)
{
	static const char *const texts[] = {
		"",        "x",         "01",
		"-1",      "100000000", "1_",
		"1_0",     "1_0.",      "1_0.x",
		"1_64.0",  "1_1.0_1.",  "1_1.0_0.0",
		"1_0.1+0", "1_0.1,1",   "1_0.1+",
		"1 ",      "1gg",       "1_0.1,",
		"1_0.0 ",  "1F",        "1_0.10000000000000000",
		"1~1.0",   "3~1.",      "3~1.0~1.0",
		"3~x.0",   "3~1.0_1.0", "3~2.0~1.0",
	};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct tfc__place place = {0};
		int code = tfc__place_read(&place, 100, texts[i]);
		if (code != TFC_EINVAL)
			fail_msg("%s: %d", texts[i], code);
		tfc__place_fini(&place);
	}
}

/* Cursors are set and removed all over a large job; the text has those that are left, in order. */
static void few_cursors_of_many_tasks_are_written_in_order(void **state)
{
	static const uint32_t tasks[] = {0, 63, 64, 4095, 4096, 9999};
	const struct tfc__lines_cursor cursor = {{{1, 0}, {1, 0}, {1, 0}}};
	struct tfc__place place = {0};
	assert_int_equal(tfc__place_reserve(&place, 70), TFC_OK);
	tfc__place_set(&place, 64, &cursor);
	assert_int_equal(tfc__place_reserve(&place, 10000), TFC_OK);
	for (uint32_t i = 0; i < 6; i++)
		tfc__place_set(&place, tasks[5 - i], &cursor);
	assert_string_equal(tfc__place_text(&place), "0_0.1_3f.1_40.1_fff.1_1000.1_270f.1");
	tfc__place_set(&place, 64, NULL);
	tfc__place_set(&place, 4096, NULL);
	tfc__place_set(&place, 0, NULL);
	assert_string_equal(tfc__place_text(&place), "0_3f.1_fff.1_270f.1");
	for (uint32_t i = 0; i < 6; i++)
		tfc__place_set(&place, tasks[i], NULL);
	assert_string_equal(tfc__place_text(&place), "0");
	tfc__place_fini(&place);
}

/* After each change the text is what a place without a text would write. */
static void a_text_is_the_same_however_it_came_to_be(void **state)
{
	struct tfc__place place = {0};
	uint32_t random = 1;
	assert_int_equal(tfc__place_reserve(&place, 200), TFC_OK);
	for (uint32_t i = 0; i < 20000; i++) {
		random = random * 1664525 + 1013904223;
		uint32_t number = random >> 24, length = random >> 16 & 31, kind = random >> 8 & 15;
		struct tfc__mark mark = tfc__no_mark;
		mark.next = 256 + i;
		mark.is_gap_reported = kind & 1;
		mark.cursor = (struct tfc__lines_cursor){{{number, 1ull << length}, {number, i}}};
		if (kind < 8)
			mark.task = number % 200;
		else if (kind < 13)
			mark.ended_task = number % 200;
		else if (kind < 14)
			mark.missing = number;
		else
			mark.missing_over = number;
		assert_int_equal(tfc__place_apply(&place, &mark), TFC_OK);
		struct tfc__place fresh = {0};
		const char *text = tfc__place_text(&place);
		assert_int_equal(tfc__place_read(&fresh, 200, text), TFC_OK);
		for (uint32_t task = 0; task < 200; task++) {
			const struct tfc__lines_cursor *one = tfc__place_cursor(&place, task),
						       *other = tfc__place_cursor(&fresh, task);
			assert_int_equal(!one, !other);
			if (one)
				assert_memory_equal(one, other, sizeof(*one));
		}
		assert_int_equal(fresh.next, mark.next);
		assert_int_equal(fresh.missing_count, place.missing_count);
		assert_string_equal(tfc__place_text(&fresh), text);
		tfc__place_fini(&fresh);
	}
	tfc__place_fini(&place);
}

/* As many as there may be, in a time that grows with their number alone. */
static void many_rests_are_read_and_kept_in_order(void **state)
{
	struct tfc__buf text = {0};
	struct tfc__place place = {0};
	const struct tfc__lines_cursor cursor = {{{1, 0}, {1, 0}, {1, 0}}};
	tfc__buf_add_str(&text, "20000");
	for (uint32_t i = 0; i < 65536; i++)
		tfc__buf_addf(&text, "~%x.0", 2 * i);
	assert_int_equal(tfc__place_read(&place, 100, text.data), TFC_OK);
	assert_int_equal(place.missing_count, 65536);
	assert_string_equal(tfc__place_text(&place), text.data);
	assert_int_equal(tfc__place_set_missing(&place, 3, &cursor), TFC_ENOMEM);
	for (uint32_t i = 0; i < 65536; i++) {
		const struct tfc__mark over = {.task = UINT32_MAX,
					       .ended_task = UINT32_MAX,
					       .missing = UINT32_MAX,
					       .missing_over = 2 * (65535 - i)};
		if (i % 4096 != 0)
			assert_int_equal(tfc__place_apply(&place, &over), TFC_OK);
	}
	assert_int_equal(place.missing_count, 16);
	assert_int_equal(tfc__place_set_missing(&place, 3, &cursor), TFC_OK);
	assert_int_equal(place.missing[0].entry, 3);
	assert_int_equal(place.missing_count, 17);
	for (uint32_t i = 1; i < place.missing_count; i++)
		assert_true(place.missing[i - 1].entry < place.missing[i].entry);
	tfc__place_fini(&place);
	tfc__buf_fini(&text);
}

static void streams_that_are_equally_far_share_a_number(void **state)
{
	struct tfc__cursor_text cursor_text;
	struct tfc__lines_cursor cursor = {{{16, 0}, {16, 0}, {16, 0}}}, again;
	tfc__cursor_write(&cursor_text, &cursor);
	assert_string_equal(cursor_text.text, "10");
	cursor.reported[1].skip = cursor.reported[2].skip = 2;
	tfc__cursor_write(&cursor_text, &cursor);
	assert_string_equal(cursor_text.text, "10,10+2");
	assert_true(tfc__cursor_read(cursor_text.text, &again));
	assert_memory_equal(&again, &cursor, sizeof(cursor));
}

/* Without reports, their position is the later one of the others. */
static void reports_have_a_number_only_where_it_differs(void **state)
{
	static const struct {
		const char *text;
		struct tfc__lines_cursor cursor;
	} valid[] = {
		{"10", {{{16, 0}, {16, 0}, {16, 0}}}},
		{"10,20", {{{16, 0}, {32, 0}, {32, 0}}}},
		{"20,10", {{{32, 0}, {16, 0}, {32, 0}}}},
		{"10;8", {{{16, 0}, {16, 0}, {8, 0}}}},
		{"10,20;10", {{{16, 0}, {32, 0}, {16, 0}}}},
		{"10+1,20+2;30+3", {{{16, 1}, {32, 2}, {48, 3}}}},
	};
	static const char *const invalid[] = {"10;10", "10,20;20", "20,10;20",  "10;",
					      ";10",   "10;1;1",   "10,20;30+0"};
	struct tfc__cursor_text text;
	struct tfc__lines_cursor cursor;
	for (size_t i = 0; i < sizeof(valid) / sizeof(valid[0]); i++) {
		tfc__cursor_write(&text, &valid[i].cursor);
		assert_string_equal(text.text, valid[i].text);
		assert_true(tfc__cursor_read(text.text, &cursor));
		assert_memory_equal(&cursor, &valid[i].cursor, sizeof(cursor));
	}
	for (size_t i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++)
		assert_false(tfc__cursor_read(invalid[i], &cursor));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_place_is_read_as_it_was_written),
		cmocka_unit_test(what_no_place_writes_is_refused),
		cmocka_unit_test(few_cursors_of_many_tasks_are_written_in_order),
		cmocka_unit_test(a_text_is_the_same_however_it_came_to_be),
		cmocka_unit_test(many_rests_are_read_and_kept_in_order),
		cmocka_unit_test(streams_that_are_equally_far_share_a_number),
		cmocka_unit_test(reports_have_a_number_only_where_it_differs),
	};
	return cmocka_run_group_tests_name("gateway_place", tests, NULL, NULL);
}
