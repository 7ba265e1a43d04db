/*
 * The table of members: opening and closing it, its probes, and the functions for backends.
 */
#include "member/members.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/options.h"

#define EVIDENCE_PAUSE (100 * TFC__MS) /* between two observations of messages of a member */

/* ---- probes */

static void set_probe_timer(struct tfc__members *members)
{
	if (members->probes.next_at)
		tfc__timer_set(&members->timer, members->probes.next_at);
	else
		tfc__timer_cancel(&members->timer);
}

static bool is_probed(const struct tfc__member_row *row)
{
	return !tfc__list_is_empty(&row->probe.link);
}

static void members_log_cut_off(struct tfc__members *members)
{
	uint32_t mismatched = 0;
	TFC__LIST_EACH (link, &members->all)
		mismatched += tfc__member_row_of(link)->member.has_mismatch;
	if (mismatched)
		tfc__log(members->ctx, TFC_LOG_WARNING, "member", "",
			 "more than a third of the members are unreachable, and connections to %u "
			 "of them do not authenticate: check that this node has the cluster's key "
			 "(key_file); it declares no member down for now",
			 mismatched);
	else
		tfc__log(members->ctx, TFC_LOG_WARNING, "member", "",
			 "more than a third of the members became unreachable at once; this node "
			 "may be the one that is cut off; it declares no member down for now");
}

static void members_on_probe_timer(struct tfc__timer *timer)
{
	struct tfc__members *members = tfc__container_of(timer, struct tfc__members, timer);
	bool was_cut_off = members->probes.is_cut_off;
	tfc__probes_tick(&members->probes, tfc__now());
	if (was_cut_off && !members->probes.is_cut_off)
		tfc__log(members->ctx, TFC_LOG_INFO, "member", "",
			 "enough members respond again; from now on this node declares unreachable "
			 "members down");
	if (!was_cut_off && members->probes.is_cut_off)
		members_log_cut_off(members);
	set_probe_timer(members);
	tfc__members_keep(members);
	TFC__LIST_EACH (link, &members->all) {
		struct tfc__member_row *row = tfc__member_row_of(link);
		if (!is_probed(row))
			continue;
		tfc__members_set_state(members, row, row->probe.state);
		if (row->probe.is_due && members->prober)
			members->prober->fn(members->prober, &row->member);
		if (members->is_closed)
			break;
	}
	tfc__members_drop(members);
}

void tfc__members_set_prober(struct tfc__members *members, struct tfc__member_prober *prober)
{
	members->prober = prober;
}

void tfc__members_set_evidence(struct tfc__members *members, struct tfc__member_evidence *evidence)
{
	members->evidence = evidence;
}

static void report_observation(struct tfc__members *members, struct tfc__member_row *row,
			       enum tfc__member_observation what)
{
	uint64_t now = tfc__now();
	bool is_recent = now - row->probe.received_at < EVIDENCE_PAUSE;
	if (!members->evidence || (what == TFC__MEMBER_RECEIVED && is_recent))
		return;
	/* after a connection has ended, the next message counts at once */
	row->probe.received_at = what == TFC__MEMBER_RECEIVED ? now : 0;
	members->evidence->fn(members->evidence, &row->member, what);
}

void tfc__members_received(struct tfc__members *members, struct tfc__member *member)
{
	struct tfc__member_row *row = tfc__member_row_of(&member->link);
	member->has_mismatch = false;
	if (!is_probed(row)) {
		report_observation(members, row, TFC__MEMBER_RECEIVED);
		return;
	}
	tfc__probe_received(&row->probe, tfc__now());
	tfc__members_set_state(members, row, row->probe.state);
}

void tfc__members_broken(struct tfc__members *members, struct tfc__member *member, bool is_refused)
{
	struct tfc__member_row *row = tfc__member_row_of(&member->link);
	if (!is_probed(row)) {
		report_observation(members, row,
				   is_refused ? TFC__MEMBER_REFUSED : TFC__MEMBER_BROKEN);
		return;
	}
	if (is_refused)
		tfc__probe_refused(&row->probe);
	else
		tfc__probe_broken(&row->probe);
	tfc__members_set_state(members, row, row->probe.state);
}

void tfc__members_unreached(struct tfc__members *members, struct tfc__member *member)
{
	struct tfc__member_row *row = tfc__member_row_of(&member->link);
	if (!is_probed(row)) /* else its silence shows it */
		report_observation(members, row, TFC__MEMBER_UNREACHED);
}

void tfc__members_mismatched(struct tfc__member *member)
{
	member->has_mismatch = true;
}

void tfc__members_left(struct tfc__members *members, struct tfc__member *member)
{
	struct tfc__member_row *row = tfc__member_row_of(&member->link);
	if (is_probed(row))
		tfc__probe_left(&row->probe);
	if (!member->is_self && !members->evidence)
		tfc__members_set_state(members, row, TFC_MEMBER_LEFT);
}

/* ---- functions for backends */

struct tfc__members *tfc__members_of(tfc_membership *membership)
{
	return tfc__container_of(membership, struct tfc__members, face);
}

tfc_membership *tfc__members_face(struct tfc__members *members)
{
	return &members->face;
}

/* Begins a function for a backend that concerns an existing member. */
static int membership_enter(tfc_membership *membership, const char *name,
			    struct tfc__members **ret_members, struct tfc__member_row **ret_row)
{
	struct tfc__members *members = membership ? tfc__members_of(membership) : NULL;
	int code = tfc__ctx_enter(members ? members->ctx : NULL);
	if (code < 0)
		return code;
	*ret_members = members;
	if (!name)
		return tfc__ctx_fail(members->ctx, TFC_EINVAL, "member", 0, "name is NULL");
	*ret_row = tfc__member_row_find(members, name);
	if (!*ret_row || (*ret_row)->member.is_out)
		return tfc__ctx_fail(members->ctx, TFC_ENOENT, "member", 0,
				     "member \"%.63s\" not found", name);
	return TFC_OK;
}

static int members_put(struct tfc__members *members, const tfc_member_info *info)
{
	struct tfc__member_row *row = tfc__member_row_find(members, info->name);
	bool is_new = !row;
	int code = row ? TFC_OK : tfc__member_row_add(members, info, &row);
	if (code < 0)
		return code;
	code = tfc__member_row_set(members, row, info);
	if (code < 0 && is_new) {
		tfc__member_row_free(row);
		members->count--;
	}
	if (code < 0)
		return code;
	if (row->member.is_out)
		members->count++;
	if (is_new || row->member.is_out)
		tfc__members_note(members, row, TFC__MEMBER_ADDED);
	row->member.is_out = false;
	bool is_judged = members->ops.flags & TFC_MEMBERSHIP_REPORTS_STATES;
	if (!row->member.is_self && row->member.address && !is_judged && !is_probed(row)) {
		tfc__probe_add(&members->probes, &row->probe, tfc__now());
		set_probe_timer(members);
	}
	return TFC_OK;
}

int tfc_membership_put(tfc_membership *membership, const tfc_member_info *info)
{
	struct tfc__members *members = membership ? tfc__members_of(membership) : NULL;
	tfc_member_info known;
	int code = tfc__ctx_enter(members ? members->ctx : NULL);
	if (code < 0)
		return code;
	tfc_error *error = tfc__ctx_error(members->ctx);
	code = tfc__options_copy(&known, sizeof(known), info, "member", "tfc_member_info", 0,
				 error);
	if (code == TFC_OK)
		code = tfc__member_check(&known, error);
	if (code == TFC_OK && (code = members_put(members, &known)) == TFC_ENOMEM)
		tfc__fail_nomem(error, "member");
	return code;
}

int tfc_membership_remove(tfc_membership *membership, const char *name)
{
	struct tfc__members *members;
	struct tfc__member_row *row;
	int code = membership_enter(membership, name, &members, &row);
	if (code < 0)
		return code;
	if (row->member.is_self)
		return tfc__ctx_fail(members->ctx, TFC_ESTATE, "member", 0,
				     "cannot remove member \"%s\": it is this node", name);
	if (is_probed(row)) {
		tfc__probe_remove(&members->probes, &row->probe);
		set_probe_timer(members);
	}
	row->has_reported = false;
	row->member.is_out = true;
	members->count--;
	if (row->unreported != TFC__MEMBER_ADDED)
		tfc__members_note(members, row, TFC__MEMBER_REMOVED);
	else if (members->reported ==
		 row) /* a watcher added and removed it while it was reported */
		tfc__member_row_set_reported(row);
	else
		tfc__member_row_free(row); /* it was never reported */
	return TFC_OK;
}

int tfc_membership_set_state(tfc_membership *membership, const char *name, uint32_t state)
{
	struct tfc__members *members;
	struct tfc__member_row *row;
	int code = membership_enter(membership, name, &members, &row);
	if (code < 0)
		return code;
	if (!(members->ops.flags & TFC_MEMBERSHIP_REPORTS_STATES))
		return tfc__ctx_fail(members->ctx, TFC_ESTATE, "member", 0,
				     "this membership does not report states; set "
				     "TFC_MEMBERSHIP_REPORTS_STATES in its flags");
	if (state < TFC_MEMBER_ALIVE || state > TFC_MEMBER_LEFT)
		return tfc__ctx_fail(members->ctx, TFC_EINVAL, "member", 0,
				     "state %u is not in enum tfc_member_state", state);
	if (!row->member.is_self)
		tfc__members_set_state(members, row, state);
	return TFC_OK;
}

/* ---- opening and closing */

static void members_free(struct tfc__members *members)
{
	TFC__LIST_EACH (link, &members->all) {
		tfc__member_row_free(tfc__member_row_of(link));
	}
	free(members);
}

void tfc__members_keep(struct tfc__members *members)
{
	members->busy++;
}

void tfc__members_drop(struct tfc__members *members)
{
	if (--members->busy == 0 && members->is_closed)
		members_free(members);
}

static int members_add_self(struct tfc__members *members, const tfc_member_info *self,
			    tfc_error *error)
{
	struct tfc__member_row *row;
	int code = tfc__member_check(self, error);
	if (code < 0)
		return code;
	if (tfc__member_row_add(members, self, &row) < 0)
		return tfc__fail_nomem(error, "member");
	row->member.is_self = true;
	row->member.state = TFC_MEMBER_ALIVE;
	members->self = &row->member;
	if (tfc__member_row_set(members, row, self) < 0)
		return tfc__fail_nomem(error, "member");
	members->own = (tfc_member_info){.slots = self->slots,
					 .memory_bytes = self->memory_bytes,
					 .gpus = self->gpus};
	members->has_own_labels = self->labels && self->labels[0];
	members->has_own_gpus = self->gpus > 0;
	return TFC_OK;
}

static int members_start_backend(struct tfc__members *members,
				 const struct tfc__members_options *options, tfc_error *error)
{
	int code = tfc__options_copy(&members->ops, sizeof(members->ops), options->ops, "member",
				     "tfc_membership_ops", 0, error);
	if (code < 0 || !options->ops)
		return code;
	if (!members->ops.start || !members->ops.stop)
		return tfc__fail(error, TFC_EINVAL, "member", 0, "tfc_membership_ops.%s is NULL",
				 members->ops.start ? "stop" : "start");
	if (members->ops.flags & ~TFC_MEMBERSHIP_REPORTS_STATES)
		return tfc__fail(error, TFC_ENOTSUP, "member", 0,
				 "tfc_membership_ops.flags has a bit that this version of the "
				 "library does not know");
	members->user = options->user;
	code = members->ops.start(members->user, members->ctx, &members->face, error);
	members->is_started = code >= 0;
	return code < 0 ? code : TFC_OK;
}

int tfc_membership_ops_init(tfc_membership_ops *ops, uint32_t size)
{
	return tfc__options_init(ops, size, sizeof(*ops));
}

int tfc__members_open(tfc_ctx *ctx, const struct tfc__members_options *options, tfc_error *error,
		      struct tfc__members **ret_members)
{
	struct tfc__members *members = calloc(1, sizeof(*members));
	if (!members)
		return tfc__fail_nomem(error, "member");
	members->ctx = ctx;
	tfc__list_init(&members->all);
	tfc__list_init(&members->unreported);
	tfc__names_init(&members->names);
	tfc__observers_init(&members->watches);
	tfc__work_init(&members->reporting, ctx, tfc__members_report);
	tfc__timer_init(&members->timer, ctx, members_on_probe_timer);
	tfc__probes_init(&members->probes, &options->times);
	int code = members_add_self(members, options->self, error);
	if (code == TFC_OK)
		code = members_start_backend(members, options, error);
	if (code < 0) {
		tfc__members_close(members);
		return code;
	}
	/* There are no watchers yet; later ones find these members in the table. */
	TFC__LIST_EACH (link, &members->all) {
		tfc__member_row_set_reported(tfc__member_row_of(link));
	}
	tfc__work_cancel(&members->reporting);
	*ret_members = members;
	return TFC_OK;
}

void tfc__members_close(struct tfc__members *members)
{
	if (!members || members->is_closed)
		return;
	if (members->is_started)
		members->ops.stop(members->user, &members->face);
	members->is_closed = true;
	tfc__work_cancel(&members->reporting);
	tfc__timer_cancel(&members->timer);
	tfc__observers_close(&members->watches);
	if (!members->busy)
		members_free(members);
}
