/*
 * A list of observers: who wants to be notified of something.
 *
 * The rule. An event reaches each observer that is in the list when its notification begins and
 * still there when its turn comes, once, in the order in which they were added. So a callback may
 *   - remove any observer, its own too: one that is removed is not called again, and its memory
 *     may go at once;
 *   - add observers: they are called from the next event on;
 *   - notify the same list: that event reaches all of them before the outer one goes on;
 *   - close the list and free its owner: nobody is called any more.
 *
 * An observer is embedded in whoever observes and in one list at most. `event` is what the owner of
 * the list says in its header, borrowed during the call, or NULL.
 */
#ifndef TFC_BASE_OBSERVERS_H
#define TFC_BASE_OBSERVERS_H

#include <stdint.h>

#include "base/list.h"

struct tfc__observer {
	struct tfc__link link;
	uint64_t added; /* its number in the order of adding */
	void (*fn)(struct tfc__observer *observer, const void *event);
};

struct tfc__observers {
	struct tfc__link all;
	uint64_t added; /* so far */
};

static inline void tfc__observers_init(struct tfc__observers *observers)
{
	tfc__list_init(&observers->all);
	observers->added = 0;
}

/* Before anything else; one that is not in a list is removed without harm. */
static inline void tfc__observer_init(struct tfc__observer *observer,
				      void (*fn)(struct tfc__observer *observer, const void *event))
{
	tfc__list_init(&observer->link);
	observer->fn = fn;
}

static inline void tfc__observers_add(struct tfc__observers *observers,
				      struct tfc__observer *observer)
{
	observer->added = ++observers->added;
	tfc__list_append(&observers->all, &observer->link);
}

/* Before all that are there: it is called first. */
static inline void tfc__observers_add_first(struct tfc__observers *observers,
					    struct tfc__observer *observer)
{
	observer->added = ++observers->added;
	tfc__list_append(observers->all.next, &observer->link);
}

static inline void tfc__observer_remove(struct tfc__observer *observer)
{
	tfc__list_remove(&observer->link);
}

static inline bool tfc__observer_is_added(const struct tfc__observer *observer)
{
	return !tfc__list_is_empty(&observer->link);
}

/* Outside of a notification. */
static inline bool tfc__observers_is_empty(const struct tfc__observers *observers)
{
	return tfc__list_is_empty(&observers->all);
}

/* Removes all of them. */
static inline void tfc__observers_close(struct tfc__observers *observers)
{
	while (!tfc__list_is_empty(&observers->all))
		tfc__list_remove(observers->all.next);
}

/* Whether the list is still open: the owner may be gone if not. */
static inline bool tfc__observers_notify(struct tfc__observers *observers, const void *event)
{
	struct tfc__observer place = {.fn = NULL}; /* between those that were called and the rest */
	uint64_t until = observers->added;
	tfc__list_init(&place.link);
	tfc__list_append(observers->all.next, &place.link);
	while (place.link.next != &place.link && place.link.next != &observers->all) {
		struct tfc__link *next = place.link.next;
		struct tfc__observer *observer = tfc__container_of(next, struct tfc__observer,
								   link);
		tfc__list_remove(&place.link);
		tfc__list_append(next->next, &place.link);
		if (observer->fn && observer->added <= until) /* else the place of another event */
			observer->fn(observer, event);
	}
	bool is_open = place.link.next != &place.link;
	tfc__list_remove(&place.link);
	return is_open;
}

#endif
