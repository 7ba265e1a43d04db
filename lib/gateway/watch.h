/*
 * Watches of all jobs. A watch of one node reads the changes in that node's directory
 * (node_watch.c). A watch of all nodes merges the watches of all members, each a stream of its own
 * (watch.c). Both are subscriptions, so that what they hold is bounded: a reader that is slow gets
 * the latest state of each job later.
 */
#ifndef TFC_GATEWAY_WATCH_H
#define TFC_GATEWAY_WATCH_H

#include "gateway/forward.h"
#include "gateway/watch_position.h"

/* The jobs of this node. `from` may be NULL. Reports NODE_RESET if `from` cannot be continued, what
 * is known, NODE_SEEN, and changes from then on; or NODE_UNSEEN if its store could not be read.
 * TFC_ENOMEM. */
int tfc__node_watch(tfc_ctx *ctx, struct tfc__link *list, struct tfc__directory *directory,
		    const struct tfc__changes_position *from, tfc_event_fn fn, void *user,
		    tfc_error *error, tfc_sub **ret_sub);

/* The jobs of all members. Without is_bare, events carry cursors. TFC_EINVAL (cursor), TFC_ENOMEM.
 */
int tfc__watch_all(struct tfc__forwarder *forwarder, struct tfc__link *list,
		   const tfc_watch_options *options, bool is_bare, tfc_event_fn fn, void *user,
		   tfc_error *error, tfc_sub **ret_sub);

/* An event about the jobs of a node, with empty fields. */
tfc_event tfc__watch_event(uint32_t kind, const char *node);
/* NODE_UNSEEN; the text of `why` is borrowed. */
tfc_event tfc__watch_unseen(const char *node, const tfc_error *why);

#endif
