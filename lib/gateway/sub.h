/*
 * Common to all subscriptions: they report events in turns of dispatch, can be paused, and are
 * closed once, also during their own turn. `ops` hides the source of the events.
 */
#ifndef TFC_GATEWAY_SUB_H
#define TFC_GATEWAY_SUB_H

#include "base/list.h"
#include "ctx/ctx.h"
#include <tfcluster/gateway.h>

struct tfc__sub_event;

/* An event with empty fields. */
#define TFC__EVENT_INIT                                                                         \
	{                                                                                       \
		.size = sizeof(tfc_event), .cursor = "", .job = "", .name = "", .host_tag = "", \
		.task_type = "", .node = "", .address = "", .text = "", .data = "",             \
		.error_line = ""                                                                \
	}

/* The kind of what is not an event: the subscription is established, perhaps without having an
 * event yet. It has the head of the events (job, name, tag), and comes first, but only for a
 * subscription to a job whose events go to another process (is_bare). */
#define TFC__SUB_ESTABLISHED 0

struct tfc__sub_ops {
	/* Reports an event: 1, or 0 if there is none now. Of lines for another process, which are
	 * cheap, it reports up to 64. */
	int (*report)(tfc_sub *sub);
	/* Releases the source of its events; called once. NULL: there is nothing to release. */
	void (*detach)(tfc_sub *sub);
	void (*free)(tfc_sub *sub); /* after detach */
	/* Called after each turn, and when the subscription is paused for long (is_suspended):
	 * closes files that are open only for further reading. NULL: there are none. */
	void (*suspend)(tfc_sub *sub, bool is_suspended);
};

struct tfc_sub {
	struct tfc__handle handle;
	const struct tfc__sub_ops *ops;
	struct tfc__link link; /* in its gateway's list */
	tfc_ctx *ctx;
	tfc_event_fn fn;
	void *user;
	/* The event that is being reported, with what is sent of it. Output of a job of another
	 * node is a whole batch, with the texts of its lines as data. NULL: its events never go to
	 * another process. */
	const struct tfc__sub_event *event;
	void (*turning)(void *user); /* called before a turn, and may pause it; or NULL */
	void (*turned)(void *user);  /* called after a turn; or NULL */
	/* Called in place of scheduling a turn: its owner calls tfc__sub_pull. NULL: it has turns
	 * of its own. */
	void (*wake)(tfc_sub *sub);
	tfc_sub *following; /* reports in its place, and is paused and resumed with it; or NULL */
	struct tfc__work work;
	size_t held; /* allocated bytes that grow with the job */
	bool is_detached;
	bool is_paused;
	bool is_ended;
	/* In its turn, so perhaps inside fn: closing leaves the freeing to the turn. */
	bool is_reporting;
	bool is_closed;
};

/* list may be NULL. */
void tfc__sub_init(tfc_sub *sub, const struct tfc__sub_ops *ops, tfc_ctx *ctx,
		   struct tfc__link *list, tfc_event_fn fn, void *user);

/* Call when the host owns it. */
void tfc__sub_open(tfc_sub *sub);

/* Call when there may be an event to report. */
void tfc__sub_wake(tfc_sub *sub);

/* Calls `report` of a subscription with `wake`. The subscription may be closed inside. */
int tfc__sub_pull(tfc_sub *sub);

/* Pauses it for an unknown time, so it closes its files. Not inside fn. */
void tfc__sub_suspend(tfc_sub *sub);

/* Call when its gateway or node is closed: no further events, but the owner still has to close it.
 */
void tfc__sub_orphan(tfc_sub *sub);

/* Reports LOST, the terminal event of a subscription that cannot continue. All other fields are
 * empty. */
void tfc__sub_report_lost(tfc_sub *sub, const char *job, const tfc_error *error);

#endif
