/*
 * Finds a job in the whole cluster by its id, a prefix of it, or its name, and the node that has
 * it: among this node's own jobs and those of all reachable members.
 */
#ifndef TFC_GATEWAY_SEARCH_H
#define TFC_GATEWAY_SEARCH_H

#include "gateway/gateway.h"
#include "gateway/members.h"
#include "wire/fields.h"

struct tfc__search;

/* node "": this node. On failure TFC_ENOENT, TFC_EINVAL (ambiguous; also a name of which
 * only ended jobs are known while a member is unreachable), TFC_ELOST (not found, but a member was
 * unreachable), TFC_EPARSE (its record is damaged), TFC_ENOMEM. Called once, never
 * inside tfc__search_begin. */
typedef void (*tfc__search_fn)(void *user, const char *node, const char *id,
			       const tfc_error *error);

/* TFC_ENOMEM. `members` is borrowed. */
int tfc__search_begin(tfc_ctx *ctx, struct tfc__directory *directory,
		      const struct tfc__gateway_members *members, const char *job,
		      tfc__search_fn fn, void *user, struct tfc__search **ret_search);
/* Cancels the search. NULL is a no-op. */
void tfc__search_drop(struct tfc__search *search);

/* The jobs that match on one node, which is its response to FIND, or on all nodes. */
struct tfc__matches {
	char by_name[17]; /* the latest that has not ended, or else the latest; "": none */
	uint64_t submitted_ns;
	uint32_t names; /* how many of that name have not ended */
	char name_node[256];
	char name_ids[64];  /* the first of these on one node */
	char by_prefix[17]; /* one of them */
	uint32_t prefixes;
	char prefix_node[256];
	char ids[64]; /* the first matching ids on one node */
};
extern const struct tfc__fields tfc__matches_fields;

/* Writes the response to FIND. */
void tfc__search_respond(struct tfc__directory *directory, const char *job, struct tfc__buf *buf);

/* Bytes that the search holds while it is pending, for its calls to members. */
size_t tfc__search_bytes(const struct tfc__search *search);

#endif
