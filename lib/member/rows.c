/*
 * The rows of the table: the members, their capacity, and the reports of their changes.
 */
#include "member/members.h"

#include <stdlib.h>
#include <string.h>
#include <tfcluster/memory.h>

#include "base/clock.h"

const struct tfc__link *tfc__members_all(const struct tfc__members *members)
{
	return &members->all;
}

uint32_t tfc__members_count(const struct tfc__members *members)
{
	return members->count;
}

struct tfc__member_row *tfc__member_row_find(struct tfc__members *members, const char *name)
{
	struct tfc__named *named = tfc__name_find(&members->names, name);
	return named ? tfc__container_of(named, struct tfc__member_row, named) : NULL;
}

struct tfc__member *tfc__members_find(struct tfc__members *members, const char *name)
{
	struct tfc__member_row *row = tfc__member_row_find(members, name);
	return row && !row->member.is_out ? &row->member : NULL;
}

struct tfc__member *tfc__members_self(const struct tfc__members *members)
{
	return members->self;
}

int tfc__member_row_add(struct tfc__members *members, const tfc_member_info *info,
			struct tfc__member_row **ret_row)
{
	struct tfc__link *before = &members->all;
	struct tfc__member_row *row = calloc(1, sizeof(*row));
	char *name = strdup(info->name);
	if (!row || !name) {
		free(row);
		free(name);
		return TFC_ENOMEM;
	}
	row->member.name = name;
	row->member.state = TFC_MEMBER_SUSPECT;
	row->member.since_ns = tfc__now();
	tfc__list_init(&row->probe.link);
	tfc__list_init(&row->in_unreported);
	while (before->prev != &members->all &&
	       strcmp(tfc__member_row_of(before->prev)->member.name, name) > 0)
		before = before->prev;
	tfc__list_append(before, &row->member.link); /* in front of `before` */
	tfc__name_add(&members->names, &row->named, name);
	members->count++;
	*ret_row = row;
	return TFC_OK;
}

void tfc__member_row_free(struct tfc__member_row *row)
{
	tfc__list_remove(&row->member.link);
	tfc__list_remove(&row->in_unreported);
	tfc__name_remove(&row->named);
	free(row->member.name);
	free(row->member.address);
	free(row->member.node_id);
	tfc_strv_free(row->member.labels);
	free(row);
}

static bool member_text_equal(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static void member_swap_text(char **field, char **text)
{
	char *older = *field;
	*field = *text;
	*text = older;
}

/* Sets the capacity and acquires `labels`. Returns whether anything has changed. */
static bool member_set_offer(struct tfc__member *member, const tfc_member_info *info, char **labels)
{
	bool is_same = member->slots == info->slots && member->memory_bytes == info->memory_bytes &&
		       member->gpus == info->gpus && tfc__labels_equal(member->labels, labels);
	member->slots = info->slots;
	member->memory_bytes = info->memory_bytes;
	member->gpus = info->gpus;
	tfc_strv_free(member->labels);
	member->labels = labels;
	return !is_same;
}

/* Replaces the backend's values by those from the member itself or given to this node. */
static tfc_member_info row_amend(const struct tfc__members *members,
				 const struct tfc__member_row *row, const tfc_member_info *info)
{
	tfc_member_info amended = *info;
	const struct tfc__member *member = &row->member;
	const tfc_member_info *own = &members->own;
	if (row->has_reported) {
		amended.slots = member->slots;
		amended.memory_bytes = member->memory_bytes;
		amended.gpus = member->gpus;
	}
	if (member->is_self) {
		amended.slots = own->slots ? own->slots : info->slots;
		amended.memory_bytes = own->memory_bytes ? own->memory_bytes : info->memory_bytes;
		amended.gpus = members->has_own_gpus ? own->gpus : info->gpus;
	}
	return amended;
}

/* ---- changes of a row */

/* All fields or none. */
int tfc__member_row_set(struct tfc__members *members, struct tfc__member_row *row,
			const tfc_member_info *info)
{
	struct tfc__member *member = &row->member;
	const tfc_member_info offered = row_amend(members, row, info);
	/* Labels from the member itself, or given to this node, override the backend's. */
	bool is_kept = row->has_reported || (member->is_self && members->has_own_labels);
	char *address = info->address ? strdup(info->address) : NULL;
	char *node_id = info->node_id ? strdup(info->node_id) : NULL;
	char **labels = NULL;
	int code = (info->address && !address) || (info->node_id && !node_id) ? TFC_ENOMEM : TFC_OK;
	if (code == TFC_OK)
		code = tfc__labels_copy(is_kept ? (const char *const *)member->labels
						: info->labels,
					&labels);
	if (code == TFC_OK) {
		bool is_changed = !member_text_equal(member->address, address) ||
				  !member_text_equal(member->node_id, node_id);
		member_swap_text(&member->address, &address);
		member_swap_text(&member->node_id, &node_id);
		if (member_set_offer(member, &offered, labels))
			is_changed = true;
		if (is_changed)
			tfc__members_note(members, row, TFC__MEMBER_CHANGED);
	}
	free(address);
	free(node_id);
	return code;
}

int tfc__members_set_own_address(struct tfc__members *members, const char *address)
{
	struct tfc__member *self = members->self;
	if (self->address || !tfc__members_is_alone(members))
		return TFC_OK;
	self->address = strdup(address);
	if (!self->address)
		return TFC_ENOMEM;
	tfc__members_note(members, tfc__member_row_of(&self->link), TFC__MEMBER_CHANGED);
	return TFC_OK;
}

int tfc__members_learn(struct tfc__members *members, struct tfc__member *member,
		       const tfc_member_info *info, tfc_error *error)
{
	struct tfc__member_row *row = tfc__member_row_of(&member->link);
	tfc_member_info reported = *info;
	char **labels;
	reported.name = member->name;
	reported.address = reported.node_id = NULL;
	int code = tfc__member_check(&reported, error);
	if (code < 0)
		return code;
	if (tfc__labels_copy(info->labels, &labels) < 0)
		return tfc__fail_nomem(error, "member");
	row->has_reported = true;
	if (member_set_offer(member, info, labels))
		tfc__members_note(members, row, TFC__MEMBER_CHANGED);
	tfc__members_set_draining(members, member, info->is_draining);
	return TFC_OK;
}

bool tfc__members_is_alone(const struct tfc__members *members)
{
	return !members->ops.start;
}

bool tfc__members_are_joining(const struct tfc__members *members)
{
	return members->are_joining;
}

void tfc__members_set_joining(struct tfc__members *members, bool are_joining)
{
	if (members->are_joining == are_joining)
		return;
	members->are_joining = are_joining;
	tfc__members_note(members, tfc__member_row_of(&members->self->link), TFC__MEMBER_CHANGED);
}

bool tfc__members_is_finding(const struct tfc__members *members)
{
	return members->is_finding;
}

void tfc__members_set_gpus(struct tfc__members *members, uint32_t gpus, bool is_final)
{
	bool was_finding = members->is_finding;
	members->is_finding = !is_final;
	members->own.gpus = gpus;
	members->has_own_gpus = true;
	if (members->self->gpus == gpus && !was_finding)
		return;
	members->self->gpus = gpus;
	tfc__members_note(members, tfc__member_row_of(&members->self->link), TFC__MEMBER_CHANGED);
}

void tfc__members_set_draining(struct tfc__members *members, struct tfc__member *member,
			       bool is_draining)
{
	if (member->is_draining == is_draining)
		return;
	member->is_draining = is_draining;
	tfc__members_note(members, tfc__member_row_of(&member->link), TFC__MEMBER_CHANGED);
}

void tfc__member_info(const struct tfc__member *member, tfc_member_info *ret_info)
{
	*ret_info = (tfc_member_info){
		.size = sizeof(*ret_info),
		.state = member->state,
		.name = member->name,
		.address = member->address,
		.node_id = member->node_id,
		.labels = (const char *const *)member->labels,
		.memory_bytes = member->memory_bytes,
		.slots = member->slots,
		.gpus = member->gpus,
		.is_self = member->is_self,
		.is_draining = member->is_draining,
		.was_reached = member->was_reached,
	};
}

/* ---- reports: to the watchers, in a dispatch of their own */

void tfc__members_note(struct tfc__members *members, struct tfc__member_row *row,
		       enum tfc__member_change what)
{
	if (what == TFC__MEMBER_CHANGED && row->unreported)
		return; /* the pending report covers this change */
	if (what == TFC__MEMBER_ADDED && row->unreported == TFC__MEMBER_REMOVED)
		what = TFC__MEMBER_CHANGED; /* the removal was not reported */
	if (!row->unreported)
		tfc__list_append(&members->unreported, &row->in_unreported);
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
	row->member.was_reached |= state == TFC_MEMBER_ALIVE;
	if (state == TFC_MEMBER_DOWN && !row->member.was_reached)
		tfc__log(members->ctx, TFC_LOG_INFO, "member", row->member.name,
			 "has not been reached yet");
	else
		tfc__log(members->ctx, TFC_LOG_INFO, "member", row->member.name, "is %s",
			 tfc_member_state_name(state));
	tfc__members_note(members, row, TFC__MEMBER_CHANGED);
}

void tfc__member_row_set_reported(struct tfc__member_row *row)
{
	row->unreported = 0;
	tfc__list_remove(&row->in_unreported);
}

void tfc__members_report(struct tfc__work *work)
{
	struct tfc__members *members = tfc__container_of(work, struct tfc__members, reporting);
	tfc__members_keep(members);
	while (!members->is_closed && !tfc__list_is_empty(&members->unreported)) {
		struct tfc__member_row *row = tfc__container_of(members->unreported.next,
								struct tfc__member_row,
								in_unreported);
		enum tfc__member_change change = row->unreported;
		tfc__member_row_set_reported(row);
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
