/*
 * An intrusive doubly linked ring. The head of an empty list points to itself. A link that is in no
 * list points to itself, so removing it twice is harmless.
 */
#ifndef TFC_BASE_LIST_H
#define TFC_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct tfc__link {
	struct tfc__link *next;
	struct tfc__link *prev;
};

#define tfc__container_of(pointer, type, member) \
	((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* Iterates over the list; the loop body may remove the current link. */
#define TFC__LIST_EACH(link, head)                                                             \
	for (struct tfc__link *link = (head)->next, *link##_next = link->next; link != (head); \
	     link = link##_next, link##_next = link->next)

static inline void tfc__list_init(struct tfc__link *link)
{
	link->next = link->prev = link;
}

static inline bool tfc__list_is_empty(const struct tfc__link *head)
{
	return head->next == head;
}

static inline void tfc__list_append(struct tfc__link *head, struct tfc__link *link)
{
	link->prev = head->prev;
	link->next = head;
	head->prev->next = link;
	head->prev = link;
}

static inline void tfc__list_remove(struct tfc__link *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
	tfc__list_init(link);
}

/* Moves all links of `from`, in order, to the end of `to`. */
static inline void tfc__list_move(struct tfc__link *to, struct tfc__link *from)
{
	while (!tfc__list_is_empty(from)) {
		struct tfc__link *link = from->next;
		tfc__list_remove(link);
		tfc__list_append(to, link);
	}
}

#endif
