#include "gossip_member.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct gossip_caller {
	struct tfc__link link;
	struct gossip_member *member;
	struct tfc__peer *peer;
};

const char *gossip_member_host(void)
{
	static char host[20];
	uint32_t pid = (uint32_t)getpid();
	snprintf(host, sizeof(host), "127.%u.%u.%u", 64 + (pid >> 16) % 128, pid >> 8 & 255,
		 pid & 255);
	return host;
}

/* ---- connections from other members */

static void caller_close(struct gossip_caller *caller)
{
	tfc__list_remove(&caller->link);
	tfc__peer_close(caller->peer);
	free(caller);
}

static void caller_serve(struct tfc__peer *peer, void *user, struct tfc__rpc_request *request,
			 const char *method, const msgpack_object *params)
{
	struct gossip_caller *caller = user;
	assert_string_equal(method, "node.gossip");
	tfc__gossip_membership_serve(caller->member->gossip, request, tfc__peer_id(peer)->node_id,
				     params);
}

static void caller_down(struct tfc__peer *peer, void *user, const tfc_error *why)
{
	caller_close(user);
}

static void member_accept(void *user, struct tfc__peer *peer)
{
	static const struct tfc__peer_ops ops = {.serve = caller_serve, .down = caller_down};
	struct gossip_member *member = user;
	struct gossip_caller *caller = calloc(1, sizeof(*caller));
	assert_non_null(caller);
	caller->member = member;
	caller->peer = peer;
	tfc__list_append(&member->callers, &caller->link);
	tfc__peer_accept(peer, &ops, caller);
}

/* ---- start and end */

static void member_refused(void *user, const tfc_error *error)
{
	struct gossip_member *member = user;
	member->refusal = *error;
}

static void member_open_table(struct gossip_member *member, const tfc_member_info *self,
			      const struct gossip_member_options *options)
{
	tfc_error error = TFC_ERROR_INIT;
	const char *const seeds[] = {options->seed, NULL};
	const struct tfc__gossip_membership_options gossip = {
		.keyring = member->keyring,
		.identity = member->identity,
		.state_dir = member->state_dir,
		.seeds = options->seed ? seeds : NULL,
		.interval_ns = options->interval_ns,
		.refused = member_refused,
		.user = member,
	};
	if (tfc__gossip_membership_new(&gossip, &error, &member->gossip) < 0)
		fail_msg("%s", error.text);
	const struct tfc__members_options table = {.self = self,
						   .ops = &tfc__gossip_membership_ops,
						   .user = member->gossip};
	if (tfc__members_open(member->ctx, &table, &error, &member->members) < 0)
		fail_msg("%s", error.text);
}

static void member_listen(struct gossip_member *member)
{
	tfc_error error = TFC_ERROR_INIT;
	const struct tfc__listen_options listen = {.address = member->address,
						   .keyring = member->keyring,
						   .identity = member->identity};
	if (tfc__peer_listen(member->ctx, &listen, member_accept, member, &error,
			     &member->listener) < 0 ||
	    tfc__datagrams_open(member->ctx, &error, &member->datagrams) < 0 ||
	    tfc__datagrams_bind(member->datagrams, member->address, &error) < 0 ||
	    tfc__gossip_membership_begin(member->gossip, member->datagrams, member->address,
					 &error) < 0)
		fail_msg("%s", error.text);
}

void gossip_member_start(struct gossip_member *member, tfc_ctx *ctx,
			 const struct gossip_member_options *options)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_member_info self = *options->self;
	char identity[128];
	*member = (struct gossip_member){.ctx = ctx, .refusal = TFC_ERROR_INIT};
	tfc__list_init(&member->callers);
	snprintf(member->name, sizeof(member->name), "%s", self.name);
	snprintf(member->address, sizeof(member->address), "%s", self.address);
	snprintf(member->state_dir, sizeof(member->state_dir), "%s", options->state_dir);
	snprintf(identity, sizeof(identity), "%s/identity", member->state_dir);
	if (tfc__identity_open(identity, &error, &member->identity) < 0 ||
	    (options->key_file &&
	     tfc__keyring_load(options->key_file, &error, &member->keyring) < 0))
		fail_msg("%s", error.text);
	self.address = NULL; /* set once it listens */
	member_open_table(member, &self, options);
	member_listen(member);
}

static void member_on_left(void *user)
{
	struct gossip_member *member = user;
	member->has_left = true;
}

void gossip_member_leave(struct gossip_member *member)
{
	tfc__gossip_membership_leave(member->gossip, member_on_left, member);
}

void gossip_member_kill(struct gossip_member *member)
{
	tfc__peer_listener_close(member->listener);
	TFC__LIST_EACH (link, &member->callers)
		caller_close(tfc__container_of(link, struct gossip_caller, link));
	tfc__members_close(member->members);
	tfc__gossip_membership_free(member->gossip);
	tfc__datagrams_close(member->datagrams);
	tfc__keyring_free(member->keyring);
	tfc__identity_free(member->identity);
}
