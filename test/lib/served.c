#include "served.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/list.h"
#include "node/internal.h"

struct served {
	tfc_ctx *ctx;
	struct tfc__gateway_service *service;
	struct tfc__peer_listener *listener;
	struct tfc__keyring *keyring;
	struct tfc__identity *identity;
	struct tfc__link connections;
	unsigned count;
	const struct tfc__peer_id *claim;
	char address[256];
};

struct connection {
	struct tfc__link link;
	struct served *served;
	struct tfc__peer *peer;
};

static void drop(struct connection *connection)
{
	tfc__list_remove(&connection->link);
	tfc__peer_close(connection->peer);
	free(connection);
}

static void on_serve(struct tfc__peer *peer, void *user, struct tfc__rpc_request *request,
		     const char *method, const msgpack_object *params)
{
	struct connection *connection = user;
	const struct tfc__peer_id *claim = connection->served->claim;
	tfc__gateway_service_serve(connection->served->service, claim ? claim : tfc__peer_id(peer),
				   request, method, params);
}

static void on_down(struct tfc__peer *peer, void *user, const tfc_error *why)
{
	drop(user);
}

static void on_accept(void *user, struct tfc__peer *peer)
{
	static const struct tfc__peer_ops ops = {NULL, on_serve, on_down};
	struct served *served = user;
	struct connection *connection = calloc(1, sizeof(*connection));
	if (!connection) /* not taken: it is closed */
		return;
	connection->served = served;
	connection->peer = peer;
	tfc__list_append(&served->connections, &connection->link);
	served->count++;
	tfc__peer_accept(peer, &ops, connection);
}

void served_return(struct served *served)
{
	tfc_error error = TFC_ERROR_INIT;
	const struct tfc__listen_options options = {
		.address = served->address,
		.keyring = served->keyring,
		.identity = served->identity,
	};
	if (tfc__peer_listen(served->ctx, &options, on_accept, served, &error, &served->listener) <
	    0)
		fail_msg("%s", error.text);
	snprintf(served->address, sizeof(served->address), "%s",
		 tfc__peer_listener_address(served->listener));
}

void served_leave(struct served *served)
{
	tfc__peer_listener_close(served->listener);
	served->listener = NULL;
	served_cut(served);
}

struct served *served_begin(tfc_ctx *ctx, tfc_node *node, const char *address,
			    struct tfc__keyring *keyring,
			    const struct tfc__gateway_service_options *options)
{
	struct served *served = calloc(1, sizeof(*served));
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__gateway_service_options own = {.submit_uid = UINT32_MAX};
	if (options)
		own = *options;
	if (!own.members.node_id)
		own.members.node_id = node->hello.node_id;
	served->ctx = ctx;
	served->keyring = keyring;
	snprintf(served->address, sizeof(served->address), "%s", address);
	tfc__list_init(&served->connections);
	if (keyring && tfc__identity_open(NULL, &error, &served->identity) < 0)
		fail_msg("%s", error.text);
	assert_int_equal(tfc__gateway_service_open(ctx, node->directory, &own, &served->service),
			 0);
	served_return(served);
	return served;
}

const char *served_address(const struct served *served)
{
	return served->address;
}

unsigned served_cut(struct served *served)
{
	unsigned count = 0;
	TFC__LIST_EACH (link, &served->connections) {
		drop(tfc__container_of(link, struct connection, link));
		count++;
	}
	return count;
}

void served_claim(struct served *served, const struct tfc__peer_id *who)
{
	served->claim = who;
}

unsigned served_count(const struct served *served)
{
	return served->count;
}

void served_end(struct served *served)
{
	if (!served)
		return;
	served_leave(served);
	tfc__gateway_service_close(served->service);
	tfc__identity_free(served->identity);
	free(served);
}
