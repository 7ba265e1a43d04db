#include <stdlib.h>

#include "base/clock.h"
#include "proc/guard.h"

struct tfc__lease {
	struct tfc__link link; /* in the context's list */
	tfc_ctx *ctx;          /* NULL: the context is freed */
	tfc__lease_fn fn;
	void *user;
	uint64_t id; /* index in the low half, serial number in the high one */
	uint64_t deadline_ns;
	uint32_t ms;
	bool is_over;
	struct tfc__outgoing message; /* the last renewal, if the guard's socket is full */
};

static struct tfc__lease *lease_of(struct tfc__link *link)
{
	return tfc__container_of(link, struct tfc__lease, link);
}

/*
 * A message that is still queued is changed in place: messages queued behind it may depend on it.
 */
static int lease_post(struct tfc__guard *guard, struct tfc__lease *lease)
{
	lease->message.command.deadline_ns = lease->deadline_ns;
	if (!tfc__list_is_empty(&lease->message.link))
		return TFC_OK;
	return tfc__guard_post(guard, &lease->message);
}

void tfc__leases_send(struct tfc__guard *guard)
{
	struct tfc__guards *guards = tfc__ctx_slot(guard->ctx, TFC__SLOT_GUARDS);
	TFC__LIST_EACH (link, &guards->leases)
		if (!lease_of(link)->is_over)
			lease_post(guard, lease_of(link));
}

void tfc__lease_ended(tfc_ctx *ctx, uint64_t id)
{
	struct tfc__guards *guards = tfc__ctx_slot(ctx, TFC__SLOT_GUARDS);
	TFC__LIST_EACH (link, &guards->leases) {
		struct tfc__lease *lease = lease_of(link);
		if (lease->id != id || lease->is_over)
			continue;
		lease->is_over = true;
		lease->fn(lease->user);
		return;
	}
}

void tfc__lease_forget_all(struct tfc__guards *guards)
{
	TFC__LIST_EACH (link, &guards->leases) {
		struct tfc__lease *lease = lease_of(link);
		tfc__list_remove(&lease->message.link);
		tfc__list_remove(link);
		lease->ctx = NULL;
	}
}

int tfc__lease_begin(tfc_ctx *ctx, uint32_t ms, uint64_t deadline_ns, tfc__lease_fn fn, void *user,
		     struct tfc__lease **ret_lease)
{
	struct tfc__guards *guards = NULL;
	struct tfc__guard *guard;
	int code = tfc__guards_get(ctx, &guards);
	if (code < 0)
		return code;
	/* There are only as many leases as maintainers on other nodes, so a linear search for a
	 * free index is enough. */
	uint32_t index = 0;
	for (bool is_used = true; is_used; index += is_used) {
		is_used = false;
		TFC__LIST_EACH (link, &guards->leases)
			is_used |= (uint32_t)lease_of(link)->id == index;
	}
	struct tfc__lease *lease = calloc(1, sizeof(*lease));
	if (!lease)
		return tfc__fail_nomem(tfc__ctx_error(ctx), "proc");
	lease->ctx = ctx;
	lease->fn = fn;
	lease->user = user;
	lease->ms = ms;
	lease->id = (uint64_t)++guards->lease_serial << 32 | index;
	lease->deadline_ns = deadline_ns ? deadline_ns : tfc__boot_time() + ms * TFC__MS;
	const struct tfc__command command = {.kind = TFC__MSG_LEASE,
					     .value = ms,
					     .lease = lease->id};
	tfc__outgoing_init(&lease->message, &command);
	tfc__list_append(&guards->leases, &lease->link);
	code = tfc__guard_get(ctx, &guard);
	if (code == TFC_OK && lease_post(guard, lease) == TFC_ELOST)
		code = tfc__guard_get(ctx, &guard); /* which receives all leases when it starts */
	if (code < 0)
		tfc__lease_end(lease);
	else
		*ret_lease = lease;
	return code;
}

static void lease_set_deadline(struct tfc__lease *lease, uint64_t deadline_ns)
{
	struct tfc__guards *guards = tfc__ctx_slot(lease->ctx, TFC__SLOT_GUARDS);
	lease->deadline_ns = deadline_ns;
	if (guards->current)
		lease_post(guards->current, lease); /* the next guard receives it when it starts */
}

int tfc__lease_renew(struct tfc__lease *lease, uint64_t deadline_ns)
{
	if (lease->is_over || !lease->ctx)
		return TFC_ELOST;
	if (deadline_ns > lease->deadline_ns)
		lease_set_deadline(lease, deadline_ns);
	return TFC_OK;
}

void tfc__lease_expire(struct tfc__lease *lease)
{
	uint64_t now = tfc__boot_time();
	if (!lease->is_over && lease->ctx && now < lease->deadline_ns)
		lease_set_deadline(lease, now);
}

uint64_t tfc__lease_id(const struct tfc__lease *lease)
{
	return lease->id;
}

/*
 * A guard that misses this message, for lack of memory, later reports the end of an unknown lease,
 * which the host ignores.
 */
void tfc__lease_end(struct tfc__lease *lease)
{
	if (!lease)
		return;
	const struct tfc__command command = {.kind = TFC__MSG_LEASE, .lease = lease->id};
	tfc__list_remove(&lease->link);
	tfc__list_remove(&lease->message.link);
	struct tfc__guards *guards = lease->ctx ? tfc__ctx_slot(lease->ctx, TFC__SLOT_GUARDS)
						: NULL;
	if (guards && guards->current)
		tfc__guard_send(guards->current, &command, -1, NULL, 0);
	free(lease);
}
