/*
 * The table of members: who is in it, how they are, and who wants to know.
 */
#include "member/members.h"

#include <stdlib.h>
#include <string.h>
#include <tfcluster/memory.h>

#include "base/clock.h"
#include "base/options.h"

static void tell_changes(struct tfc__work *work);
static void tick(struct tfc__timer *timer);

static struct tfc__member_row *row_of(struct tfc__link *link)
{
	return tfc__container_of(link, struct tfc__member_row, member.link);
}

/* ---- telling, in a turn of its own */

/* From here on `what` is to be told of it, with what is to be told already. */
static void note(struct tfc__members *members, struct tfc__member_row *row,
		 enum tfc__member_change what)
{
	if (what == TFC__MEMBER_CHANGED && row->untold)
		return; /* whoever is told of it sees all that there is then */
	if (what == TFC__MEMBER_ADDED && row->untold == TFC__MEMBER_REMOVED)
		what = TFC__MEMBER_CHANGED; /* nobody has missed it yet */
	row->untold = what;
	tfc__work_schedule(&members->telling);
}

static void set_state(struct tfc__members *members, struct tfc__member_row *row, uint32_t state)
{
	if (row->member.state == state)
		return;
	row->member.state = state;
	row->member.since_ns = tfc__now();
	tfc__log(members->ctx, TFC_LOG_INFO, "member", row->member.name, "is %s",
		 tfc_member_state_name(state));
	note(members, row, TFC__MEMBER_CHANGED);
}

static void free_row(struct tfc__member_row *row)
{
	tfc__list_remove(&row->member.link);
	free(row->member.name);
	free(row->member.address);
	free(row->member.node_id);
	tfc_env_free(row->member.labels);
	free(row);
}

/* Each watcher goes behind the marker before it is called: it may unwatch any, itself included. */
static void tell(struct tfc__members *members, struct tfc__member_row *row,
		 enum tfc__member_change change)
{
	struct tfc__link marker;
	tfc__list_init(&marker);
	tfc__list_append(&members->watches, &marker);
	while (members->watches.next != &marker) {
		struct tfc__link *link = members->watches.next;
		struct tfc__member_watch *watch = tfc__container_of(link, struct tfc__member_watch,
								    link);
		tfc__list_remove(link);
		tfc__list_append(&members->watches, link);
		watch->fn(watch, &row->member, change);
		if (members->is_closed)
			break;
	}
	tfc__list_remove(&marker);
}

static void free_members(struct tfc__members *members)
{
	TFC__LIST_EACH (link, &members->all) {
		free_row(row_of(link));
	}
	free(members);
}

/* The first that has something to be told, from the front: a watcher may change any row. */
static struct tfc__member_row *next_untold(struct tfc__members *members)
{
	TFC__LIST_EACH (link, &members->all) {
		if (row_of(link)->untold)
			return row_of(link);
	}
	return NULL;
}

static void enter_callbacks(struct tfc__members *members)
{
	members->busy++;
}

static void leave_callbacks(struct tfc__members *members)
{
	if (--members->busy == 0 && members->is_closed)
		free_members(members);
}

static void tell_changes(struct tfc__work *work)
{
	struct tfc__members *members = tfc__container_of(work, struct tfc__members, telling);
	struct tfc__member_row *row;
	enter_callbacks(members);
	while (!members->is_closed && (row = next_untold(members))) {
		enum tfc__member_change change = row->untold;
		row->untold = 0;
		members->told = row;
		tell(members, row, change);
		members->told = NULL;
		if (change == TFC__MEMBER_REMOVED && row->member.is_out) /* not put in again */
			free_row(row);
	}
	leave_callbacks(members);
}

void tfc__members_watch(struct tfc__members *members, struct tfc__member_watch *watch)
{
	tfc__list_append(&members->watches, &watch->link);
}

void tfc__members_unwatch(struct tfc__member_watch *watch)
{
	tfc__list_remove(&watch->link);
}

/* ---- looking after them */

static void look_again_at(struct tfc__members *members)
{
	if (members->probes.next_at)
		tfc__timer_set(&members->timer, members->probes.next_at);
	else
		tfc__timer_cancel(&members->timer);
}

/* Takes over what the probe found. */
static void judge(struct tfc__members *members, struct tfc__member_row *row)
{
	set_state(members, row, row->probe.state);
}

static bool is_probed(const struct tfc__member_row *row)
{
	return !tfc__list_is_empty(&row->probe.link);
}

static void warn_of_cut(struct tfc__members *members, bool was_cut_off)
{
	if (members->probes.is_cut_off == was_cut_off)
		return;
	if (was_cut_off)
		tfc__log(members->ctx, TFC_LOG_INFO, "member", "",
			 "enough members are heard again to judge the others");
	else
		tfc__log(members->ctx, TFC_LOG_WARNING, "member", "",
			 "more than a third of the members fell silent at once: perhaps this node "
			 "is the one that is cut off; none is called down by its silence alone");
}

static void tick(struct tfc__timer *timer)
{
	struct tfc__members *members = tfc__container_of(timer, struct tfc__members, timer);
	bool was_cut_off = members->probes.is_cut_off;
	tfc__probes_tick(&members->probes, tfc__now());
	warn_of_cut(members, was_cut_off);
	look_again_at(members);
	enter_callbacks(members);
	TFC__LIST_EACH (link, &members->all) {
		struct tfc__member_row *row = row_of(link);
		if (!is_probed(row))
			continue;
		judge(members, row);
		if (row->probe.is_due && members->prober)
			members->prober->fn(members->prober, &row->member);
		if (members->is_closed)
			break;
	}
	leave_callbacks(members);
}

void tfc__members_set_prober(struct tfc__members *members, struct tfc__member_prober *prober)
{
	members->prober = prober;
}

void tfc__members_heard(struct tfc__members *members, struct tfc__member *member)
{
	struct tfc__member_row *row = row_of(&member->link);
	if (!is_probed(row))
		return;
	tfc__probe_heard(&row->probe, tfc__now());
	judge(members, row);
}

void tfc__members_broken(struct tfc__members *members, struct tfc__member *member, bool is_refused)
{
	struct tfc__member_row *row = row_of(&member->link);
	if (!is_probed(row))
		return;
	if (is_refused)
		tfc__probe_refused(&row->probe);
	else
		tfc__probe_broken(&row->probe);
	judge(members, row);
}

void tfc__members_left(struct tfc__members *members, struct tfc__member *member)
{
	struct tfc__member_row *row = row_of(&member->link);
	if (is_probed(row))
		tfc__probe_left(&row->probe);
	if (!member->is_self)
		set_state(members, row, TFC_MEMBER_LEFT);
}

/* ---- who is in it */

const struct tfc__link *tfc__members_all(const struct tfc__members *members)
{
	return &members->all;
}

uint32_t tfc__members_count(const struct tfc__members *members)
{
	return members->count;
}

/* Its place by name: the row of that name, or the one in front of which it belongs. */
static struct tfc__link *place_of(const struct tfc__members *members, const char *name,
				  struct tfc__member_row **ret_row)
{
	*ret_row = NULL;
	for (struct tfc__link *at = members->all.prev; at != &members->all; at = at->prev) {
		int order = strcmp(row_of(at)->member.name, name);
		if (order == 0)
			*ret_row = row_of(at);
		if (order <= 0)
			return at->next;
	}
	return members->all.next;
}

static struct tfc__member_row *find_row(const struct tfc__members *members, const char *name)
{
	struct tfc__member_row *row;
	place_of(members, name, &row);
	return row;
}

struct tfc__member *tfc__members_find(const struct tfc__members *members, const char *name)
{
	struct tfc__member_row *row = find_row(members, name);
	return row && !row->member.is_out ? &row->member : NULL;
}

struct tfc__member *tfc__members_self(const struct tfc__members *members)
{
	return members->self;
}

static void begin_to_look(struct tfc__members *members, struct tfc__member_row *row)
{
	bool is_judged = members->ops.flags & TFC_MEMBERSHIP_TELLS_STATES;
	if (row->member.is_self || !row->member.address || is_judged || is_probed(row))
		return;
	tfc__probe_add(&members->probes, &row->probe, tfc__now());
	look_again_at(members);
}

static void end_to_look(struct tfc__members *members, struct tfc__member_row *row)
{
	if (!is_probed(row))
		return;
	tfc__probe_remove(&members->probes, &row->probe);
	look_again_at(members);
}

static int add_row(struct tfc__members *members, struct tfc__link *before,
		   const tfc_member_info *info, struct tfc__member_row **ret_row)
{
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
	tfc__list_append(before, &row->member.link); /* in front of it */
	members->count++;
	*ret_row = row;
	return TFC_OK;
}

static bool is_same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static void put_text(char **field, char **text)
{
	char *older = *field;
	*field = *text;
	*text = older;
}

/* What it offers; the labels are handed over. */
static bool set_offer(struct tfc__member *member, const tfc_member_info *info, char **labels)
{
	bool is_same = member->slots == info->slots && member->memory == info->memory &&
		       member->gpus == info->gpus && tfc__labels_equal(member->labels, labels);
	member->slots = info->slots;
	member->memory = info->memory;
	member->gpus = info->gpus;
	tfc_env_free(member->labels);
	member->labels = labels;
	return !is_same;
}

/* What this node itself was given counts. */
static bool keeps_labels(const struct tfc__members *members, const struct tfc__member_row *row)
{
	return row->has_spoken || (row->member.is_self && members->has_own_labels);
}

static int copy_labels(const struct tfc__members *members, const struct tfc__member_row *row,
		       const tfc_member_info *info, char ***ret_labels)
{
	bool is_kept = keeps_labels(members, row);
	return tfc__labels_copy(is_kept ? (const char *const *)row->member.labels : info->labels,
				ret_labels);
}

/* All fields or none. */
static int set_fields(struct tfc__members *members, struct tfc__member_row *row,
		      const tfc_member_info *info)
{
	struct tfc__member *member = &row->member;
	char *address = info->address ? strdup(info->address) : NULL;
	char *node_id = info->node_id ? strdup(info->node_id) : NULL;
	char **labels = NULL;
	int code = (info->address && !address) || (info->node_id && !node_id) ? TFC_ENOMEM : TFC_OK;
	if (code == TFC_OK)
		code = copy_labels(members, row, info, &labels);
	if (code == TFC_OK) {
		bool is_changed = !is_same_text(member->address, address) ||
				  !is_same_text(member->node_id, node_id);
		put_text(&member->address, &address);
		put_text(&member->node_id, &node_id);
		if (set_offer(member, info, labels))
			is_changed = true;
		if (is_changed)
			note(members, row, TFC__MEMBER_CHANGED);
	}
	free(address);
	free(node_id);
	return code;
}

/* What the backend says of a member, with what is known better. */
static tfc_member_info amend(const struct tfc__members *members, const struct tfc__member_row *row,
			     const tfc_member_info *info)
{
	tfc_member_info amended = *info;
	const struct tfc__member *member = &row->member;
	const tfc_member_info *own = &members->own;
	if (row->has_spoken) {
		amended.slots = member->slots;
		amended.memory = member->memory;
		amended.gpus = member->gpus;
	}
	if (member->is_self) {
		amended.slots = own->slots ? own->slots : info->slots;
		amended.memory = own->memory ? own->memory : info->memory;
		amended.gpus = members->has_own_gpus ? own->gpus : info->gpus;
	}
	return amended;
}

static int put(struct tfc__members *members, const tfc_member_info *info)
{
	struct tfc__member_row *row;
	struct tfc__link *before = place_of(members, info->name, &row);
	bool is_new = !row;
	int code = row ? TFC_OK : add_row(members, before, info, &row);
	if (code < 0)
		return code;
	tfc_member_info amended = amend(members, row, info);
	code = set_fields(members, row, &amended);
	if (code < 0 && is_new) {
		free_row(row);
		members->count--;
	}
	if (code < 0)
		return code;
	if (row->member.is_out)
		members->count++;
	if (is_new || row->member.is_out)
		note(members, row, TFC__MEMBER_ADDED);
	row->member.is_out = false;
	begin_to_look(members, row);
	return TFC_OK;
}

/* ---- the calls of a backend */

struct tfc__members *tfc__members_of(tfc_membership *membership)
{
	return tfc__container_of(membership, struct tfc__members, face);
}

tfc_membership *tfc__members_face(struct tfc__members *members)
{
	return &members->face;
}

/* Begins those that are about a member that is there. */
static int enter(tfc_membership *membership, const char *name, struct tfc__members **ret_members,
		 struct tfc__member_row **ret_row)
{
	struct tfc__members *members = membership ? tfc__members_of(membership) : NULL;
	int code = tfc__ctx_enter(members ? members->ctx : NULL);
	if (code < 0)
		return code;
	*ret_members = members;
	if (!name)
		return tfc__ctx_fail(members->ctx, TFC_EINVAL, "member", 0, "name: is missing");
	*ret_row = find_row(members, name);
	if (!*ret_row || (*ret_row)->member.is_out)
		return tfc__ctx_fail(members->ctx, TFC_ENOENT, "member", 0,
				     "there is no member \"%.63s\"", name);
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
	code = tfc__options_copy(&known, sizeof(known), info, "member", "tfc_member_info", error);
	if (code == TFC_OK)
		code = tfc__member_check(&known, error);
	if (code == TFC_OK && (code = put(members, &known)) == TFC_ENOMEM)
		tfc__fail_nomem(error, "member");
	return code;
}

int tfc_membership_remove(tfc_membership *membership, const char *name)
{
	struct tfc__members *members;
	struct tfc__member_row *row;
	int code = enter(membership, name, &members, &row);
	if (code < 0)
		return code;
	if (row->member.is_self)
		return tfc__ctx_fail(members->ctx, TFC_ESTATE, "member", 0,
				     "\"%s\" is this node itself", name);
	end_to_look(members, row);
	row->has_spoken = false;
	row->member.is_out = true;
	members->count--;
	if (row->untold != TFC__MEMBER_ADDED)
		note(members, row, TFC__MEMBER_REMOVED);
	else if (members->told == row) /* as out, and it was put in and taken out meanwhile */
		row->untold = 0;
	else
		free_row(row); /* nobody has heard of it */
	return TFC_OK;
}

int tfc_membership_state(tfc_membership *membership, const char *name, uint32_t state)
{
	struct tfc__members *members;
	struct tfc__member_row *row;
	int code = enter(membership, name, &members, &row);
	if (code < 0)
		return code;
	if (!(members->ops.flags & TFC_MEMBERSHIP_TELLS_STATES))
		return tfc__ctx_fail(members->ctx, TFC_ESTATE, "member", 0,
				     "this membership does not tell states: set "
				     "TFC_MEMBERSHIP_TELLS_STATES in its flags");
	if (state < TFC_MEMBER_ALIVE || state > TFC_MEMBER_LEFT)
		return tfc__ctx_fail(members->ctx, TFC_EINVAL, "member", 0,
				     "%u is no enum tfc_member_state", state);
	if (!row->member.is_self)
		set_state(members, row, state);
	return TFC_OK;
}

/* ---- what a member says of itself */

int tfc__members_learn(struct tfc__members *members, struct tfc__member *member,
		       const tfc_member_info *info, tfc_error *error)
{
	struct tfc__member_row *row = row_of(&member->link);
	tfc_member_info said = *info;
	char **labels;
	said.name = member->name;
	said.address = said.node_id = NULL;
	int code = tfc__member_check(&said, error);
	if (code < 0)
		return code;
	if (tfc__labels_copy(info->labels, &labels) < 0)
		return tfc__fail_nomem(error, "member");
	row->has_spoken = true;
	if (set_offer(member, info, labels))
		note(members, row, TFC__MEMBER_CHANGED);
	tfc__members_set_draining(members, member, info->is_draining);
	return TFC_OK;
}

void tfc__members_set_gpus(struct tfc__members *members, uint32_t gpus)
{
	members->own.gpus = gpus;
	members->has_own_gpus = true;
	if (members->self->gpus == gpus)
		return;
	members->self->gpus = gpus;
	note(members, row_of(&members->self->link), TFC__MEMBER_CHANGED);
}

void tfc__members_set_draining(struct tfc__members *members, struct tfc__member *member,
			       bool is_draining)
{
	if (member->is_draining == is_draining)
		return;
	member->is_draining = is_draining;
	note(members, row_of(&member->link), TFC__MEMBER_CHANGED);
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
		.memory = member->memory,
		.slots = member->slots,
		.gpus = member->gpus,
		.is_self = member->is_self,
		.is_draining = member->is_draining,
	};
}

/* ---- its life */

/* Nobody watches yet: whoever will finds them in the table. */
static void forget_untold(struct tfc__members *members)
{
	TFC__LIST_EACH (link, &members->all) {
		row_of(link)->untold = 0;
	}
	tfc__work_cancel(&members->telling);
}

static int add_self(struct tfc__members *members, const tfc_member_info *self, tfc_error *error)
{
	struct tfc__member_row *row;
	int code = tfc__member_check(self, error);
	if (code < 0)
		return code;
	if (add_row(members, &members->all, self, &row) < 0)
		return tfc__fail_nomem(error, "member");
	row->member.is_self = true;
	row->member.state = TFC_MEMBER_ALIVE;
	members->self = &row->member;
	if (set_fields(members, row, self) < 0)
		return tfc__fail_nomem(error, "member");
	members->own =
		(tfc_member_info){.slots = self->slots, .memory = self->memory, .gpus = self->gpus};
	members->has_own_labels = self->labels && self->labels[0];
	members->has_own_gpus = self->gpus > 0;
	return TFC_OK;
}

static int start(struct tfc__members *members, const struct tfc__members_options *options,
		 tfc_error *error)
{
	int code = tfc__options_copy(&members->ops, sizeof(members->ops), options->ops, "member",
				     "tfc_membership_ops", error);
	if (code < 0 || !options->ops)
		return code;
	if (!members->ops.start || !members->ops.stop)
		return tfc__fail(error, TFC_EINVAL, "member", 0, "tfc_membership_ops.%s is NULL",
				 members->ops.start ? "stop" : "start");
	if (members->ops.flags & ~TFC_MEMBERSHIP_TELLS_STATES)
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
	tfc__list_init(&members->watches);
	tfc__work_init(&members->telling, ctx, tell_changes);
	tfc__timer_init(&members->timer, ctx, tick);
	tfc__probes_init(&members->probes, &options->times);
	int code = add_self(members, options->self, error);
	if (code == TFC_OK)
		code = start(members, options, error);
	if (code < 0) {
		tfc__members_close(members);
		return code;
	}
	forget_untold(members);
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
	tfc__work_cancel(&members->telling);
	tfc__timer_cancel(&members->timer);
	TFC__LIST_EACH (link, &members->watches) {
		tfc__list_remove(link);
	}
	if (!members->busy)
		free_members(members);
}
