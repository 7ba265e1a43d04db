/*
 * One request to all other members. Each member's response is reported once, then the end.
 */
#ifndef TFC_GATEWAY_MEMBER_CALLS_H
#define TFC_GATEWAY_MEMBER_CALLS_H

#include "gateway/gateway.h"
#include "gateway/members.h"

struct tfc__member_calls;

/* Called in dispatch, where each may drop the calls; but `responded` is called inside
 * tfc__member_calls_begin for a member that cannot be called. */
struct tfc__member_calls_ops {
	/* result NULL: `error` says why there is none. `node` is borrowed. */
	void (*responded)(void *user, const char *node, const msgpack_object *result,
			  const tfc_error *error);
	void (*ended)(void *user); /* all members were reported */
};

/* Sends the request to all members that can be reached; each must respond within timeout_ms of its
 * connection.
 * `members` NULL: to none. TFC_ENOMEM. The caller drops *ret_calls. */
int tfc__member_calls_begin(tfc_ctx *ctx, const struct tfc__gateway_members *members,
			    const struct tfc__request_params *params, uint32_t timeout_ms,
			    const struct tfc__member_calls_ops *ops, void *user,
			    struct tfc__member_calls **ret_calls);
void tfc__member_calls_drop(struct tfc__member_calls *calls); /* NULL is a no-op */

/* Bytes that calls to these members hold while they are pending. */
size_t tfc__member_calls_bytes(const struct tfc__gateway_members *members);

#endif
