#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "port/port.h"
#include "proc/guard.h"

/* The last change of the bind window counts; one that is still queued is replaced. */
static int kept_set_bind_window(void *user, bool is_open)
{
	struct tfc__kept *kept = user;
	kept->set_bind_window.command.value = is_open;
	return tfc__guard_post(kept->guard, &kept->set_bind_window);
}

static void kept_free(struct tfc__kept *kept)
{
	tfc__list_remove(&kept->link);
	tfc__list_remove(&kept->set_bind_window.link);
	free(kept);
}

static void kept_release(void *user)
{
	struct tfc__kept *kept = user;
	tfc__list_remove(&kept->link);
	tfc__list_remove(&kept->set_bind_window.link);
	kept->guard->releases++;
	tfc__guard_post(kept->guard, &kept->release);
}

static const struct tfc__port_keeper keeper_ops = {kept_set_bind_window, kept_release};

uint32_t tfc__guard_keep_id(const struct tfc__guard *guard, const tfc_port_hold *hold)
{
	const struct tfc__kept *kept = tfc__port_kept(hold);
	return kept && kept->guard == guard ? kept->id : 0;
}

int tfc__guard_keep_in(struct tfc__guard *guard, tfc_port_hold *hold)
{
	if (tfc__guard_keep_id(guard, hold))
		return TFC_OK;
	int own = tfc__port_fd(hold);
	if (own < 0)
		return tfc__ctx_fail(guard->ctx, TFC_ELOST, "proc", 0,
				     "port %u is no longer held: its guard has ended",
				     tfc_port_hold_number(hold));
	struct tfc__kept *kept = calloc(1, sizeof(*kept));
	int copy = kept ? fcntl(own, F_DUPFD_CLOEXEC, 0) : -1;
	if (copy < 0) {
		int error = kept ? errno : ENOMEM;
		free(kept);
		return tfc__fail_errno(tfc__ctx_error(guard->ctx), "proc", error,
				       "cannot pass port %u to the guard",
				       tfc_port_hold_number(hold));
	}
	kept->guard = guard;
	kept->hold = hold;
	kept->id = ++guard->last_keep;
	struct tfc__command command = {.kind = TFC__MSG_BIND_WINDOW, .keep_id = kept->id};
	tfc__outgoing_init(&kept->set_bind_window, &command);
	command.kind = TFC__MSG_RELEASE;
	tfc__outgoing_init(&kept->release, &command);
	kept->release.memory = kept;
	command.kind = TFC__MSG_KEEP;
	int code = tfc__guard_send(guard, &command, copy, NULL, 0);
	if (code < 0) {
		free(kept);
		return code;
	}
	tfc__list_append(&guard->keeps, &kept->link);
	tfc__port_move(hold, &keeper_ops, kept);
	return TFC_OK;
}

void tfc__guard_lose_ports(struct tfc__guard *guard)
{
	TFC__LIST_EACH (link, &guard->keeps) {
		struct tfc__kept *kept = tfc__container_of(link, struct tfc__kept, link);
		tfc__port_lose(kept->hold);
		kept_free(kept);
	}
}

void tfc__guard_not_kept(struct tfc__guard *guard, uint32_t id)
{
	TFC__LIST_EACH (link, &guard->keeps) {
		struct tfc__kept *kept = tfc__container_of(link, struct tfc__kept, link);
		if (kept->id != id)
			continue;
		tfc__log(guard->ctx, TFC_LOG_ERROR, "proc", "",
			 "port %u is no longer held: the guard is out of memory",
			 tfc_port_hold_number(kept->hold));
		tfc__port_lose(kept->hold);
		kept_free(kept);
		return;
	}
}

void tfc__guard_forget_ports(struct tfc__guard *guard)
{
	TFC__LIST_EACH (link, &guard->keeps)
		kept_free(tfc__container_of(link, struct tfc__kept, link));
}

int tfc__guard_keep(tfc_ctx *ctx, tfc_port_hold *hold)
{
	struct tfc__guard *guard;
	int code = tfc__guard_get(ctx, &guard);
	if (code == TFC_OK)
		code = tfc__guard_keep_in(guard, hold);
	if (code == TFC_ELOST && !tfc__port_is_lost(hold) && /* that guard was dead: the next */
	    (code = tfc__guard_get(ctx, &guard)) == TFC_OK)
		code = tfc__guard_keep_in(guard, hold);
	return code;
}

static struct tfc__guard *guard_find_exiting(const struct tfc__guards *guards)
{
	TFC__LIST_EACH (link, &guards->dead) {
		struct tfc__guard *guard = tfc__container_of(link, struct tfc__guard, link);
		if (tfc__guard_is_exiting(guard))
			return guard;
	}
	return NULL;
}

/* Sends a ping behind the releases. False: nothing is to be awaited, or the ping was not sent. */
static bool guard_ping_releases(struct tfc__guard *guard)
{
	if (guard->confirmed == guard->releases)
		return false;
	if (guard->pinged_releases == guard->releases)
		return true;
	if (tfc__guard_ping(guard) < 0)
		return guard->is_dead;
	guard->pinged_releases = guard->releases;
	guard->release_ping = guard->pings;
	return true;
}

bool tfc__guard_await_releases(tfc_ctx *ctx, struct tfc__work *work)
{
	struct tfc__guards *guards = tfc__ctx_slot(ctx, TFC__SLOT_GUARDS);
	struct tfc__guard *guard = guards ? guard_find_exiting(guards) : NULL;
	if (!guard) {
		guard = guards ? guards->current : NULL;
		if (!guard || !guard_ping_releases(guard))
			return false;
	}
	if (guard->is_dead && !tfc__guard_is_exiting(guard)) {
		tfc__work_schedule(work);
		return true;
	}
	tfc__list_append(&guard->releasing, &work->link);
	if (!guard->is_dead)
		tfc__guard_expect(guard);
	return true;
}
