/*
 * What the files of the node share.
 */
#ifndef TFC_NODE_INSIDE_H
#define TFC_NODE_INSIDE_H

#include <tfcluster/node.h>

#include "cluster/directory.h"
#include "cluster/upstream.h"
#include "gateway/service.h"
#include "member/static_file.h"
#include "node/agents.h"
#include "node/peers.h"

struct tfc_node {
	tfc_ctx *ctx;
	struct tfc__agent *agent;
	struct tfc__nodes *nodes;
	struct tfc__upstreams *upstreams;
	struct tfc__upstream_map *map; /* NULL: none */
	struct tfc__directory *directory;

	struct tfc__keyring *keyring; /* NULL: none */
	struct tfc__identity *identity;
	struct tfc__static_file *file; /* NULL: none */
	struct tfc__members *members;
	struct tfc__hello hello;
	struct tfc__peers *peers;
	struct tfc__node_agents *agents;
	struct tfc__quota quota; /* of clients */
	struct tfc__peer_listener **listeners;
	uint32_t listener_count;

	struct tfc__gateway_service *gateway;
	struct tfc__link drains; /* struct tfc__drain_call: members that are asked */

	struct tfc__link watches; /* struct tfc_member_watch */

	struct tfc__link askings; /* of guests.c */
	struct tfc__timer guest_look;
	uint64_t retain_s;

	void *refused_user;
	void (*refused)(void *user, const tfc_error *error);

	void (*left)(void *user); /* who waits for tfc_node_leave; NULL: nobody */
	void *left_user;
	struct tfc__timer leaving;
	struct tfc__work emptied; /* no task of anybody is left here */
	uint64_t leave_by;        /* tfc__now */
	bool is_suspended;        /* no maintainer of this node has a task left */
};

/* ---- open.c: the parts, in the order in which they are opened */

int tfc__node_open_parts(tfc_node *node, const tfc_node_options *options, tfc_error *error);
void tfc__node_close_parts(tfc_node *node);

/* ---- connect.c */

/* Dials the members, before anything that speaks to them; listens, after all that is asked for. */
int tfc__node_connect(tfc_node *node, tfc_error *error);
int tfc__node_listen(tfc_node *node, const tfc_node_options *options, tfc_error *error);
void tfc__node_stop_listening(tfc_node *node);
void tfc__node_disconnect(tfc_node *node);

/* ---- gateway.c: what others may ask of the jobs here */

int tfc__node_open_gateway(tfc_node *node, const tfc_node_options *options, tfc_error *error);
void tfc__node_close_gateway(tfc_node *node);
int tfc__node_gateway_new(tfc_node *node, tfc_gateway **ret_gateway); /* in this process */

/* ---- upstream.c */

int tfc__node_open_upstreams(tfc_node *node, const tfc_node_options *options, tfc_error *error);
void tfc__node_close_upstreams(tfc_node *node);

/* ---- guests.c */

/* A member is met: asks it for the jobs whose logs are here. */
void tfc__node_ask_guests(tfc_node *node, struct tfc__node_peer *peer);
void tfc__node_serve_known(tfc_node *node, struct tfc__rpc_request *request,
			   const msgpack_object *params);
void tfc__node_begin_guests(tfc_node *node); /* first of all; retain_s is set */
void tfc__node_find_guests(tfc_node *node);  /* those of an earlier run: the agent is open */
void tfc__node_end_guests(tfc_node *node);

/* ---- leave.c */

void tfc__node_stop_leaving(tfc_node *node);

/* ---- members.c */

int tfc__node_open_members(tfc_node *node, const tfc_node_options *options, tfc_error *error);
void tfc__node_close_members(tfc_node *node);
/* As it has said; else as it is pinned; or NULL. Borrowed. */
const char *tfc__node_member_id(const tfc_node *node, const struct tfc__member *member);
/* It takes no new task, or takes them again; everybody is told. */
void tfc__node_set_draining(tfc_node *node, bool is_draining);

#endif
