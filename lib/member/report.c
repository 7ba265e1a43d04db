/*
 * Observers of the members: changes are reported in a turn of their own.
 */
#include "member/members.h"

#include "base/clock.h"

void tfc__members_note(struct tfc__members *members, struct tfc__member_row *row,
		       enum tfc__member_change what)
{
	if (what == TFC__MEMBER_CHANGED && row->unreported)
		return; /* the pending report covers this change */
	if (what == TFC__MEMBER_ADDED && row->unreported == TFC__MEMBER_REMOVED)
		what = TFC__MEMBER_CHANGED; /* the removal was not reported */
	row->unreported = what;
	tfc__work_schedule(&members->reporting);
}

void tfc__members_set_state(struct tfc__members *members, struct tfc__member_row *row,
			    uint32_t state)
{
	if (row->member.state == state)
		return;
	row->member.state = state;
	row->member.since_ns = tfc__now();
	tfc__log(members->ctx, TFC_LOG_INFO, "member", row->member.name, "is %s",
		 tfc_member_state_name(state));
	tfc__members_note(members, row, TFC__MEMBER_CHANGED);
}

/* Returns the first row with a change to report. Starts at the front each time, since a watcher may
 * change any row. */
static struct tfc__member_row *next_unreported(struct tfc__members *members)
{
	TFC__LIST_EACH (link, &members->all) {
		if (tfc__member_row_of(link)->unreported)
			return tfc__member_row_of(link);
	}
	return NULL;
}

void tfc__members_report(struct tfc__work *work)
{
	struct tfc__members *members = tfc__container_of(work, struct tfc__members, reporting);
	struct tfc__member_row *row;
	tfc__members_keep(members);
	while (!members->is_closed && (row = next_unreported(members))) {
		enum tfc__member_change change = row->unreported;
		row->unreported = 0;
		members->reported = row;
		tfc__observers_notify(&members->watches,
				      &(struct tfc__member_event){&row->member, change});
		members->reported = NULL;
		if (change == TFC__MEMBER_REMOVED && row->member.is_out) /* not added again */
			tfc__member_row_free(row);
	}
	tfc__members_drop(members);
}

void tfc__members_watch(struct tfc__members *members, struct tfc__observer *observer)
{
	tfc__observers_add(&members->watches, observer);
}
