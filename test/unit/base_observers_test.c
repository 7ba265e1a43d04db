/* base: the rule of lists of observers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/observers.h"

#define COUNT 4

enum deed { NOTHING, REMOVE, ADD, ADD_FIRST, ADD_AGAIN, NOTIFY, CLOSE, FREE };

/* Observers "a" to "d", the first three in the list; what each does when it is called first. */
struct scene {
	struct tfc__observers *list; /* NULL: freed */
	struct observer {
		struct tfc__observer base;
		struct scene *scene;
		char name;
		enum deed deed;
		struct observer *at;
	} observers[COUNT];
	char calls[64]; /* "a1": a was called with event 1 */
};

static void on_event(struct tfc__observer *base, const void *event)
{
	struct observer *observer = tfc__container_of(base, struct observer, base);
	struct scene *scene = observer->scene;
	enum deed deed = observer->deed;
	bool is_open;
	size_t len = strlen(scene->calls);
	observer->deed = NOTHING;
	snprintf(scene->calls + len, sizeof(scene->calls) - len, "%s%c%d", len ? " " : "",
		 observer->name, *(const int *)event);
	switch (deed) {
	case NOTHING:
		break;
	case REMOVE:
		tfc__observer_remove(&observer->at->base);
		break;
	case ADD:
		tfc__observers_add(scene->list, &observer->at->base);
		break;
	case ADD_FIRST:
		tfc__observers_add_first(scene->list, &observer->at->base);
		break;
	case ADD_AGAIN:
		tfc__observer_remove(&observer->at->base);
		tfc__observers_add(scene->list, &observer->at->base);
		break;
	case NOTIFY:
		is_open = tfc__observers_notify(scene->list, &(int){2});
		assert_int_equal(is_open, scene->list != NULL);
		break;
	case CLOSE:
		tfc__observers_close(scene->list);
		break;
	case FREE:
		tfc__observers_close(scene->list);
		free(scene->list);
		scene->list = NULL;
		break;
	}
}

struct plan {
	char who;
	enum deed deed;
	char at;
};

/* An event 1 during which the plans are carried out, and, if the list is still there, an event 3.
 */
static void expect_calls(const struct plan *plans, int plan_count, const char *calls)
{
	struct scene scene = {.list = malloc(sizeof(*scene.list))};
	bool is_closed = false;
	tfc__observers_init(scene.list);
	for (int i = 0; i < COUNT; i++) {
		scene.observers[i].scene = &scene;
		scene.observers[i].name = (char)('a' + i);
		tfc__observer_init(&scene.observers[i].base, on_event);
		if (i < 3)
			tfc__observers_add(scene.list, &scene.observers[i].base);
	}
	for (int i = 0; i < plan_count; i++) {
		scene.observers[plans[i].who - 'a'].deed = plans[i].deed;
		scene.observers[plans[i].who - 'a'].at = &scene.observers[plans[i].at - 'a'];
		is_closed |= plans[i].deed == CLOSE || plans[i].deed == FREE;
	}
	assert_int_equal(tfc__observers_notify(scene.list, &(int){1}), !is_closed);
	if (scene.list)
		assert_true(tfc__observers_notify(scene.list, &(int){3}));
	assert_string_equal(scene.calls, calls);
	free(scene.list);
}

static void an_event_reaches_each_that_was_and_is_there_once_in_order(void **state)
{
	static const struct {
		struct plan plan;
		const char *calls;
	} cases[] = {
		{{'a', NOTHING, 'a'}, "a1 b1 c1 a3 b3 c3"},
		{{'a', REMOVE, 'a'}, "a1 b1 c1 b3 c3"},
		{{'c', REMOVE, 'c'}, "a1 b1 c1 a3 b3"},
		{{'b', REMOVE, 'a'}, "a1 b1 c1 b3 c3"},
		{{'b', REMOVE, 'c'}, "a1 b1 a3 b3"},
		{{'a', REMOVE, 'b'}, "a1 c1 a3 c3"},
		{{'b', REMOVE, 'd'}, "a1 b1 c1 a3 b3 c3"},
		{{'a', ADD, 'd'}, "a1 b1 c1 a3 b3 c3 d3"},
		{{'c', ADD, 'd'}, "a1 b1 c1 a3 b3 c3 d3"},
		{{'b', ADD_FIRST, 'd'}, "a1 b1 c1 d3 a3 b3 c3"},
		{{'b', ADD_AGAIN, 'b'}, "a1 b1 c1 a3 c3 b3"},
		{{'b', ADD_AGAIN, 'c'}, "a1 b1 a3 b3 c3"},
		{{'b', CLOSE, 'a'}, "a1 b1"},
		{{'c', CLOSE, 'a'}, "a1 b1 c1"},
		{{'b', FREE, 'a'}, "a1 b1"},
		{{'c', FREE, 'a'}, "a1 b1 c1"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect_calls(&cases[i].plan, 1, cases[i].calls);
}

static void a_nested_event_reaches_all_before_the_outer_goes_on(void **state)
{
	static const struct {
		struct plan plans[2];
		const char *calls;
	} cases[] = {
		{{{'b', NOTIFY, 'a'}, {'d', NOTHING, 'a'}}, "a1 b1 a2 b2 c2 c1 a3 b3 c3"},
		{{{'a', NOTIFY, 'a'}, {'b', REMOVE, 'b'}}, "a1 a2 b2 c2 c1 a3 c3"},
		{{{'a', NOTIFY, 'a'}, {'b', REMOVE, 'c'}}, "a1 a2 b2 b1 a3 b3"},
		{{{'a', NOTIFY, 'a'}, {'b', REMOVE, 'a'}}, "a1 a2 b2 c2 b1 c1 b3 c3"},
		{{{'a', NOTIFY, 'a'}, {'b', ADD, 'd'}}, "a1 a2 b2 c2 b1 c1 a3 b3 c3 d3"},
		{{{'a', ADD, 'd'}, {'b', NOTIFY, 'a'}}, "a1 b1 a2 b2 c2 d2 c1 a3 b3 c3 d3"},
		{{{'a', NOTIFY, 'a'}, {'c', FREE, 'a'}}, "a1 a2 b2 c2"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect_calls(cases[i].plans, 2, cases[i].calls);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_event_reaches_each_that_was_and_is_there_once_in_order),
		cmocka_unit_test(a_nested_event_reaches_all_before_the_outer_goes_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
