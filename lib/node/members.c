/*
 * The members, as hosts and this node use them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "node/internal.h"

struct tfc_member_watch {
	struct tfc__handle handle;
	struct tfc__observer inner;
	struct tfc__link link;
	tfc_node *node; /* NULL: the node was closed */
	tfc_member_fn fn;
	void *user;
};

/* ---- opening */

static int open_members_source(tfc_node *node, const tfc_node_options *options,
			       struct tfc__members_options *members, tfc_error *error)
{
	members->ops = options->membership;
	members->user = options->membership_impl;
	if (options->join && options->join[0] && !options->gossip)
		return tfc__fail(error, TFC_EINVAL, "node", 0,
				 "join has no effect without gossip; set gossip, too");
	if (options->gossip) {
		members->ops = &tfc__gossip_membership_ops;
		int code = tfc__node_open_gossip(node, options, error);
		members->user = node->gossip;
		return code;
	}
	if (!options->members_file)
		return TFC_OK;
	if (options->membership)
		return tfc__fail(
			error, TFC_EINVAL, "node", 0,
			"tfc_node_options has both members_file and membership; set one of them");
	int code = tfc__static_file_new(options->members_file, error, &node->file);
	members->ops = &tfc__static_file_ops;
	members->user = node->file;
	return code;
}

void tfc__node_on_stall(struct tfc__observer *stalls, const void *event)
{
	tfc_node *node = tfc__container_of(stalls, tfc_node, stalls);
	double seconds = (double)*(const uint64_t *)event / (double)TFC__SECOND;
	tfc__log(node->ctx, TFC_LOG_WARNING, "node", "",
		 "this node did not run for %.1f s: its process was stopped, its machine was "
		 "suspended or overloaded, or its event loop was blocked; other nodes may have "
		 "declared it down",
		 seconds);
}

int tfc__node_open_members(tfc_node *node, const tfc_node_options *options, tfc_error *error)
{
	tfc_member_info self = TFC_MEMBER_INFO_INIT;
	struct tfc__members_options members = {
		.self = &self,
		.times = {options->probe_ms * TFC__MS, options->suspect_ms * TFC__MS,
			  options->down_ms * TFC__MS},
	};
	self.name = options->name ? options->name : "local";
	self.slots = options->slots;
	self.memory_bytes = options->memory_bytes;
	self.labels = options->labels;
	char *address = NULL;
	int code = open_members_source(node, options, &members, error);
	if (code == TFC_OK &&
	    (code = tfc__node_gossip_address(options, error, &address)) == TFC_OK) {
		self.address = address;
		code = tfc__members_open(node->ctx, &members, error, &node->members);
	}
	if (code == TFC_OK && members.ops)
		tfc__ctx_watch_stalls(node->ctx, &node->stalls);
	free(address);
	return code;
}

void tfc__node_close_members(tfc_node *node)
{
	tfc__observer_remove(&node->stalls);
	TFC__LIST_EACH (link, &node->watches) {
		struct tfc_member_watch *watch = tfc__container_of(link, struct tfc_member_watch,
								   link);
		tfc__observer_remove(&watch->inner);
		tfc__list_remove(link);
		watch->node = NULL;
	}
	tfc__members_close(node->members);
	tfc__static_file_free(node->file);
	tfc__gossip_membership_free(node->gossip);
	tfc__datagrams_close(node->datagrams);
}

void tfc__node_set_draining(tfc_node *node, bool is_draining)
{
	tfc__members_set_draining(node->members, tfc__members_self(node->members), is_draining);
}

int tfc__node_set_labels(tfc_node *node, const char *const *labels, tfc_error *error)
{
	struct tfc__member *self = tfc__members_self(node->members);
	tfc_member_info info;
	tfc__member_info(self, &info);
	info.labels = labels;
	return tfc__members_learn(node->members, self, &info, error);
}

const char *tfc__node_member_id(const tfc_node *node, const struct tfc__member *member)
{
	const struct tfc__node_peer *peer = member->owner;
	if (member->is_self)
		return node->hello.node_id;
	return peer && *peer->node_id ? peer->node_id : member->node_id;
}

/* ---- for hosts */

/* When the last sign of life of the member came, by gossip or over a connection. */
static void set_contact(const tfc_node *node, const struct tfc__member *member,
			tfc_member_info *info)
{
	const struct tfc__node_peer *peer = member->owner;
	uint64_t received_at = 0, rtt_ns = 0, now = tfc__now();
	if (node->gossip)
		tfc__gossip_membership_contact(node->gossip, member->name, &received_at, &rtt_ns);
	if (peer && peer->received_at > received_at)
		received_at = peer->received_at;
	if (peer && !rtt_ns)
		rtt_ns = peer->rtt_ns;
	if (received_at)
		info->silent_ms = (uint32_t)((now - received_at) / TFC__MS) + 1;
	if (rtt_ns)
		info->rtt_us = (uint32_t)(rtt_ns / 1000) + 1;
}

static void report_member(const tfc_node *node, const struct tfc__member *member, uint32_t change,
			  tfc_member_fn fn, void *user)
{
	tfc_member_info info;
	tfc__member_info(member, &info);
	info.node_id = tfc__node_member_id(node, member);
	if (!member->is_self)
		set_contact(node, member, &info);
	fn(user, change, &info);
}

static int member_call_enter(tfc_node *node, bool has_fn, tfc_error **ret_error)
{
	int code = tfc__ctx_enter(node ? node->ctx : NULL);
	if (code < 0)
		return code;
	*ret_error = tfc__ctx_error(node->ctx);
	return has_fn ? TFC_OK : tfc__fail(*ret_error, TFC_EINVAL, "node", 0, "fn is NULL");
}

int tfc_member_list(tfc_node *node, tfc_member_fn fn, void *user)
{
	tfc_error *error;
	int code = member_call_enter(node, fn != NULL, &error);
	if (code < 0)
		return code;
	const struct tfc__link *all = tfc__members_all(node->members);
	for (const struct tfc__link *link = all->next, *next; link != all; link = next) {
		struct tfc__member *member = tfc__container_of(link, struct tfc__member, link);
		next = link->next;
		if (!member->is_out)
			report_member(node, member, 0, fn, user);
	}
	return TFC_OK;
}

static void member_watch_on_change(struct tfc__observer *inner, const void *event)
{
	const struct tfc__member_event *what = event;
	tfc_member_watch *watch = tfc__container_of(inner, tfc_member_watch, inner);
	report_member(watch->node, what->member, (uint32_t)what->change, watch->fn, watch->user);
}

static void member_watch_on_close(struct tfc__handle *handle)
{
	tfc_member_watch_close(tfc__container_of(handle, tfc_member_watch, handle));
}

int tfc_member_watch_open(tfc_node *node, tfc_member_fn fn, void *user,
			  tfc_member_watch **ret_watch)
{
	tfc_error *error;
	int code = member_call_enter(node, fn != NULL, &error);
	if (code < 0)
		return code;
	if (!ret_watch)
		return tfc__fail(error, TFC_EINVAL, "node", 0, "ret_watch is NULL");
	tfc_member_watch *watch = calloc(1, sizeof(*watch));
	if (!watch)
		return tfc__fail_nomem(error, "node");
	watch->node = node;
	watch->fn = fn;
	watch->user = user;
	tfc__observer_init(&watch->inner, member_watch_on_change);
	tfc__list_append(&node->watches, &watch->link);
	tfc__members_watch(node->members, &watch->inner);
	tfc__handle_open(node->ctx, &watch->handle, TFC__HANDLE_MEMBER_WATCH,
			 member_watch_on_close);
	*ret_watch = watch;
	return TFC_OK;
}

void tfc_member_watch_close(tfc_member_watch *watch)
{
	if (!watch)
		return;
	tfc__handle_closed(&watch->handle);
	if (watch->node) {
		tfc__observer_remove(&watch->inner);
		tfc__list_remove(&watch->link);
	}
	free(watch);
}
