/*
 * Which job of the whole cluster is meant by an id, a prefix of one, or a name, and on which node
 * it is: this node's own jobs and the answers of all members that can be asked now.
 */
#ifndef TFC_GATEWAY_SEARCH_H
#define TFC_GATEWAY_SEARCH_H

#include "gateway/gateway.h"
#include "gateway/members.h"
#include "wire/msg.h"

struct tfc__search;

/* node "": it is here. On failure TFC_ENOENT, TFC_EINVAL (ambiguous), TFC_ELOST (not found, but
 * somebody could not be asked), TFC_EPARSE (its record is damaged), TFC_ENOMEM. Once, never inside
 * tfc__search_begin. */
typedef void (*tfc__search_fn)(void *user, const char *node, const char *id,
			       const tfc_error *error);

/* TFC_ENOMEM. `members` is borrowed. */
int tfc__search_begin(tfc_ctx *ctx, struct tfc__directory *directory,
		      const struct tfc__gateway_members *members, const char *job,
		      tfc__search_fn fn, void *user, struct tfc__search **ret_search);
/* Nobody wants the answer any more. NULL is a no-op. */
void tfc__search_drop(struct tfc__search *search);

/* What one node answers to FIND. */
void tfc__search_answer(struct tfc__directory *directory, const char *job, struct tfc__buf *buf);

/* Of memory, while it is under way: what it asks of members. */
size_t tfc__search_bytes(const struct tfc__search *search);

/* The connection to a member, or NULL. */
struct tfc__rpc *tfc__member_rpc(const struct tfc__gateway_members *members, const char *node);

#endif
