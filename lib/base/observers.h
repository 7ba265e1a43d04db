/*
 * A list of observers, which are notified of events.
 *
 * Each observer that is in the list when a notification begins, and is still in the list when its
 * turn comes, is called once, in the order of adding. A callback may:
 *
 *   - remove any observer, including its own: a removed observer is not called again and its memory
 *     may be freed at once;
 *   - add observers: they are called from the next event on;
 *   - notify the same list: the inner event reaches all observers before the outer event continues;
 *   - close the list and free its owner: no further observer is called.
 *
 * An observer is embedded in a struct of the observing module and is in at most one list. The
 * list's owner documents the type of `event` in its header; `event` is borrowed during the call and
 * may be NULL.
 */
#ifndef TFC_BASE_OBSERVERS_H
#define TFC_BASE_OBSERVERS_H

#include <stdint.h>

#include "base/list.h"

struct tfc__observer {
	struct tfc__link link;
	uint64_t added; /* sequence number of its addition */
	void (*fn)(struct tfc__observer *observer, const void *event);
};

struct tfc__observers {
	struct tfc__link all;
	uint64_t added; /* number of additions so far */
};

static inline void tfc__observers_init(struct tfc__observers *observers)
{
	tfc__list_init(&observers->all);
	observers->added = 0;
}

/* Must be called first. Removing an observer that is in no list is a no-op. */
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

/* Adds the observer at the front: it is called before those already in the list. */
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

/* Whether the list has this observer and no other. Valid only outside of a notification. */
static inline bool tfc__observers_has_only(const struct tfc__observers *observers,
					   const struct tfc__observer *observer)
{
	return observers->all.next == &observer->link && observer->link.next == &observers->all;
}

/* Removes all observers. */
static inline void tfc__observers_close(struct tfc__observers *observers)
{
	while (!tfc__list_is_empty(&observers->all))
		tfc__list_remove(observers->all.next);
}

/* Calls the observers. Returns whether the list is still open; if not, its owner may have been
 * freed. */
static inline bool tfc__observers_notify(struct tfc__observers *observers, const void *event)
{
	struct tfc__observer place = {.fn = NULL}; /* between those already called and the rest */
	uint64_t until = observers->added;
	tfc__list_init(&place.link);
	tfc__list_append(observers->all.next, &place.link);
	while (place.link.next != &place.link && place.link.next != &observers->all) {
		struct tfc__link *next = place.link.next;
		struct tfc__observer *observer = tfc__container_of(next, struct tfc__observer,
								   link);
		tfc__list_remove(&place.link);
		tfc__list_append(next->next, &place.link);
		if (observer->fn && observer->added <= until) /* not new, not a marker */
			observer->fn(observer, event);
	}
	bool is_open = place.link.next != &place.link;
	tfc__list_remove(&place.link);
	return is_open;
}

#endif
