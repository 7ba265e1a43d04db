/*
 * What all subscriptions have in common: they tell in turns of dispatch, can be paused, and are
 * closed once, also in the middle of their own turn. Where the events come from is behind `ops`.
 */
#ifndef TFC_GATEWAY_SUB_H
#define TFC_GATEWAY_SUB_H

#include "base/list.h"
#include "ctx/ctx.h"
#include <tfcluster/gateway.h>

struct tfc__mark;

struct tfc__sub_ops {
	int (*tell)(tfc_sub *sub);    /* one event: 1, or 0 when there is none now */
	void (*detach)(tfc_sub *sub); /* lets go of what it follows; once */
	void (*free)(tfc_sub *sub);   /* after detach */
	const struct tfc__mark *(*mark)(const tfc_sub *sub);
	/* After each turn, and when it is paused for long (is_resting): closes what is open only to
	 * be read on soon. NULL: nothing is. */
	void (*rest)(tfc_sub *sub, bool is_resting);
};

struct tfc_sub {
	struct tfc__handle handle;
	const struct tfc__sub_ops *ops;
	struct tfc__link link; /* of its gateway */
	tfc_ctx *ctx;
	tfc_event_fn fn;
	void *user;
	void (*turning)(void *user); /* NULL, or called before a turn, which it may pause */
	void (*turned)(void *user);  /* NULL, or called when a turn is over */
	struct tfc__work work;
	size_t held; /* bytes that it takes, and that grow with its job */
	bool is_detached;
	bool is_paused;
	bool is_ended;
	bool is_telling; /* inside its turn, so inside fn: closing leaves the memory to it */
	bool is_closed;
};

/* Begins; list may be NULL. */
void tfc__sub_init(tfc_sub *sub, const struct tfc__sub_ops *ops, tfc_ctx *ctx,
		   struct tfc__link *list, tfc_event_fn fn, void *user);

/* How far it is once the event is told that it is telling; see place.h. */
static inline const struct tfc__mark *tfc__sub_mark(const tfc_sub *sub)
{
	return sub->ops->mark(sub);
}

/* There may be something to tell. */
void tfc__sub_wake(tfc_sub *sub);

/* Paused for as long as its reader likes, so that it keeps nothing open. Not inside fn. */
void tfc__sub_rest(tfc_sub *sub);

/* Its gateway or node goes away: nothing more is told, but it is its owner's to close. */
void tfc__sub_orphan(tfc_sub *sub);

/* The terminal event of a subscription that cannot go on; the other fields are empty. */
void tfc__sub_tell_lost(tfc_sub *sub, const char *job, const tfc_error *error);

#endif
