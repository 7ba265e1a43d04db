#include "cluster/nodes.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"

#define FULL_TIME (5000 * TFC__MS)  /* a node that refused a task counts as full for this long */
#define KNOWN_TIME (3000 * TFC__MS) /* wait for members after the start */
#define RETRY_TIME (500 * TFC__MS)

struct tfc__nodes {
	tfc_ctx *ctx;
	struct tfc__members *members;
	tfc__agent_of_fn agent_of;
	void *agent_user;
	struct tfc__upstreams *upstreams;
	struct tfc__link all; /* in the order in which they were added */
	struct tfc__name_table names;
	struct tfc__observers users;
	struct tfc__observer watch; /* of the members */
	struct tfc__work changed;
	struct tfc__timer timer;
	uint64_t known_at; /* end of that wait; 0: over */
	uint64_t wake_at;  /* of the timer; 0: not set */
};

void tfc__nodes_set_upstreams(struct tfc__nodes *nodes, struct tfc__upstreams *upstreams)
{
	nodes->upstreams = upstreams;
}

struct tfc__upstreams *tfc__nodes_upstreams(const struct tfc__nodes *nodes)
{
	return nodes->upstreams;
}

/* ---- entries */

static void node_free(struct tfc__node_entry *node)
{
	tfc__list_remove(&node->link);
	tfc__name_remove(&node->named);
	free(node->name);
	free(node);
}

static void node_free_if_unused(struct tfc__node_entry *node)
{
	if (!node->member && node->users == 0)
		node_free(node);
}

struct tfc__node_entry *tfc__nodes_find(struct tfc__nodes *nodes, const char *name)
{
	struct tfc__named *named = tfc__name_find(&nodes->names, name);
	return named ? tfc__container_of(named, struct tfc__node_entry, named) : NULL;
}

struct tfc__node_entry *tfc__nodes_find_or_add(struct tfc__nodes *nodes, const char *name)
{
	struct tfc__node_entry *node = tfc__nodes_find(nodes, name);
	if (node)
		return node;
	node = calloc(1, sizeof(*node));
	if (!node || !(node->name = strdup(name))) {
		free(node);
		return NULL;
	}
	node->nodes = nodes;
	tfc__cooldown_init(&node->cooldown, &(struct tfc__cooldown_rule){0});
	tfc__list_append(&nodes->all, &node->link);
	tfc__name_add(&nodes->names, &node->named, node->name);
	return node;
}

/* Adds members without an entry, also those for which there was no memory before. */
static int nodes_add_missing(struct tfc__nodes *nodes)
{
	int code = TFC_OK;
	TFC__LIST_EACH (link, tfc__members_all(nodes->members)) {
		const struct tfc__member *member = tfc__container_of(link, const struct tfc__member,
								     link);
		if (member->is_out)
			continue;
		struct tfc__node_entry *node = tfc__nodes_find_or_add(nodes, member->name);
		if (!node)
			code = TFC_ENOMEM;
		else if (!node->member)
			node->member = member;
	}
	return code;
}

static void on_member_event(struct tfc__observer *watch, const void *event)
{
	struct tfc__nodes *nodes = tfc__container_of(watch, struct tfc__nodes, watch);
	const struct tfc__member_event *what = event;
	struct tfc__node_entry *node = tfc__nodes_find(nodes, what->member->name);
	if (what->change == TFC__MEMBER_REMOVED && node && node->member == what->member) {
		node->member = NULL;
		node_free_if_unused(node);
	}
	tfc__work_schedule(&nodes->changed);
}

/* ---- notifying observers */

static void nodes_notify(struct tfc__work *work)
{
	struct tfc__nodes *nodes = tfc__container_of(work, struct tfc__nodes, changed);
	if (nodes_add_missing(nodes) < 0)
		tfc__nodes_try_later(nodes);
	tfc__observers_notify(&nodes->users, NULL);
}

void tfc__nodes_try_at(struct tfc__nodes *nodes, uint64_t at)
{
	if (nodes->wake_at && nodes->wake_at <= at)
		return;
	nodes->wake_at = at;
	tfc__timer_set(&nodes->timer, at);
}

/* Nodes that counted as full may have room again. Sets the timer for the next one. */
static void on_nodes_timer(struct tfc__timer *timer)
{
	struct tfc__nodes *nodes = tfc__container_of(timer, struct tfc__nodes, timer);
	uint64_t now = tfc__now();
	nodes->wake_at = 0;
	TFC__LIST_EACH (link, &nodes->all) {
		struct tfc__node_entry *node = tfc__container_of(link, struct tfc__node_entry,
								 link);
		if (node->full_until > now)
			tfc__nodes_try_at(nodes, node->full_until);
		else
			node->full_until = 0;
	}
	tfc__work_schedule(&nodes->changed);
}

void tfc__nodes_try_later(struct tfc__nodes *nodes)
{
	tfc__nodes_try_at(nodes, tfc__now() + RETRY_TIME);
}

/* ---- opening and closing */

int tfc__nodes_open(tfc_ctx *ctx, struct tfc__members *members, tfc__agent_of_fn agent_of,
		    void *user, tfc_error *error, struct tfc__nodes **ret_nodes)
{
	struct tfc__nodes *nodes = calloc(1, sizeof(*nodes));
	if (!nodes)
		return tfc__fail_nomem(error, "cluster");
	nodes->ctx = ctx;
	nodes->members = members;
	nodes->known_at = tfc__now() + KNOWN_TIME;
	nodes->agent_of = agent_of;
	nodes->agent_user = user;
	tfc__list_init(&nodes->all);
	tfc__names_init(&nodes->names);
	tfc__observers_init(&nodes->users);
	tfc__observer_init(&nodes->watch, on_member_event);
	tfc__work_init(&nodes->changed, ctx, nodes_notify);
	tfc__timer_init(&nodes->timer, ctx, on_nodes_timer);
	tfc__members_watch(members, &nodes->watch);
	if (nodes_add_missing(nodes) < 0) {
		tfc__nodes_close(nodes);
		return tfc__fail_nomem(error, "cluster");
	}
	*ret_nodes = nodes;
	return TFC_OK;
}

void tfc__nodes_close(struct tfc__nodes *nodes)
{
	if (!nodes)
		return;
	tfc__observer_remove(&nodes->watch);
	tfc__work_cancel(&nodes->changed);
	tfc__timer_cancel(&nodes->timer);
	TFC__LIST_EACH (link, &nodes->all)
		node_free(tfc__container_of(link, struct tfc__node_entry, link));
	free(nodes);
}

void tfc__nodes_join(struct tfc__nodes *nodes, struct tfc__observer *user)
{
	tfc__observers_add(&nodes->users, user);
}

static const struct tfc__member *find_unknown_member(const struct tfc__nodes *nodes)
{
	TFC__LIST_EACH (link, tfc__members_all(nodes->members)) {
		const struct tfc__member *member = tfc__container_of(link, const struct tfc__member,
								     link);
		bool is_known = member->state == TFC_MEMBER_ALIVE ||
				member->state == TFC_MEMBER_LEFT;
		if (!is_known && !member->is_out)
			return member;
	}
	return NULL;
}

bool tfc__nodes_are_fixed(const struct tfc__nodes *nodes)
{
	return tfc__members_is_alone(nodes->members) && !tfc__members_is_finding(nodes->members);
}

bool tfc__nodes_are_finding_gpus(const struct tfc__nodes *nodes)
{
	return tfc__members_is_alone(nodes->members) && tfc__members_is_finding(nodes->members);
}

bool tfc__nodes_are_known(struct tfc__nodes *nodes, tfc_error *error)
{
	const struct tfc__member *unknown = nodes->known_at ? find_unknown_member(nodes) : NULL;
	bool are_joining = tfc__members_are_joining(nodes->members);
	if ((!unknown && !are_joining) || tfc__now() >= nodes->known_at) {
		nodes->known_at = 0;
		return true;
	}
	const char *self = tfc__members_self(nodes->members)->name;
	tfc__nodes_try_at(nodes, nodes->known_at);
	if (unknown)
		tfc__fail(error, TFC_EAGAIN, "cluster", 0,
			  "node %s has just started and does not know yet whether node %s is alive",
			  self, unknown->name);
	else
		tfc__fail(error, TFC_EAGAIN, "cluster", 0,
			  "node %s has just started and has not found the other nodes yet", self);
	return false;
}

/* ---- queries */

const struct tfc__link *tfc__nodes_all(const struct tfc__nodes *nodes)
{
	return &nodes->all;
}

uint32_t tfc__nodes_count(const struct tfc__nodes *nodes)
{
	uint32_t count = 0;
	TFC__LIST_EACH (link, &nodes->all)
		count++;
	return count;
}

struct tfc__node_entry *tfc__nodes_alone(struct tfc__nodes *nodes)
{
	if (tfc__members_count(nodes->members) != 1)
		return NULL;
	return tfc__nodes_find(nodes, tfc__members_self(nodes->members)->name);
}

struct tfc__agent_handle tfc__nodes_agent(const struct tfc__node_entry *node)
{
	return node->nodes->agent_of(node->nodes->agent_user, node->name);
}

bool tfc__nodes_is_draining(const struct tfc__node_entry *node)
{
	return node->member && node->member->is_draining;
}

void tfc__nodes_use(struct tfc__node_entry *node)
{
	node->users++;
}

void tfc__nodes_unuse(struct tfc__node_entry *node)
{
	node->users--;
	node_free_if_unused(node);
}

/* ---- capacity */

void tfc__nodes_acquire(struct tfc__node_entry *node, const struct tfc__role *role)
{
	node->tasks++;
	node->memory += role->memory;
	node->gpus += role->gpus;
}

void tfc__nodes_release(struct tfc__node_entry *node, const struct tfc__role *role)
{
	node->tasks--;
	node->memory -= role->memory;
	node->gpus -= role->gpus;
	tfc__work_schedule(&node->nodes->changed);
}

void tfc__nodes_refused(struct tfc__node_entry *node)
{
	node->full_until = tfc__now() + FULL_TIME;
	tfc__nodes_try_at(node->nodes, node->full_until);
}

bool tfc__nodes_failed(struct tfc__node_entry *node)
{
	return tfc__cooldown_failed(&node->cooldown, tfc__now());
}

void tfc__nodes_worked(struct tfc__node_entry *node)
{
	tfc__cooldown_worked(&node->cooldown);
}
