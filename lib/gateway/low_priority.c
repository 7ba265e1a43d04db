#include "gateway/low_priority.h"

#include <stdlib.h>

/* The queue of one connection. */
struct tfc__low_priority_connection {
	struct tfc__link link;
	struct tfc__low_priority *low_priority;
	struct tfc__rpc *rpc; /* valid while a request is queued or in progress */
	struct tfc__link waiting;
	uint32_t begun;
	bool is_client;
	struct tfc__rpc_waiter room;
};

static void low_priority_schedule(struct tfc__low_priority *low_priority)
{
	if (!low_priority->is_closed)
		tfc__work_schedule(&low_priority->next);
}

/* ---- beginning requests */

/* If there is no room in the send buffer, registers for a callback when there is. */
static bool connection_may_begin(struct tfc__low_priority_connection *connection)
{
	uint32_t max = connection->is_client ? TFC__LOW_PRIORITY_CLIENT_MAX : TFC__LOW_PRIORITY_MAX;
	if (tfc__list_is_empty(&connection->waiting) || connection->begun == max)
		return false;
	if (tfc__rpc_has_room(connection->rpc))
		return true;
	tfc__rpc_await_room(connection->rpc, &connection->room);
	return false;
}

static struct tfc__low_priority_connection *
next_connection(const struct tfc__low_priority *low_priority, bool is_client)
{
	TFC__LIST_EACH (link, &low_priority->connections) {
		struct tfc__low_priority_connection *connection =
			tfc__container_of(link, struct tfc__low_priority_connection, link);
		if (connection->is_client == is_client && connection_may_begin(connection))
			return connection;
	}
	return NULL;
}

static void begin_next_request(struct tfc__work *work)
{
	struct tfc__low_priority *low_priority = tfc__container_of(work, struct tfc__low_priority,
								   next);
	struct tfc__low_priority_connection *connection = next_connection(low_priority, false);
	if (!connection && low_priority->clients < TFC__LOW_PRIORITY_CLIENTS_MAX)
		connection = next_connection(low_priority, true);
	if (!connection)
		return;
	struct tfc__low_priority_request *request =
		tfc__container_of(connection->waiting.next, struct tfc__low_priority_request, link);
	tfc__list_remove(&connection->link);
	tfc__list_append(&low_priority->connections, &connection->link);
	tfc__list_remove(&request->link);
	request->is_begun = true;
	connection->begun++;
	low_priority->clients += connection->is_client;
	low_priority_schedule(low_priority);
	request->begin(request);
}

static void connection_on_room(struct tfc__rpc_waiter *waiter)
{
	low_priority_schedule(
		tfc__container_of(waiter, struct tfc__low_priority_connection, room)->low_priority);
}

/* ---- connections */

static struct tfc__low_priority_connection *
find_or_add_connection(struct tfc__low_priority *low_priority, struct tfc__rpc *rpc, bool is_client)
{
	TFC__LIST_EACH (link, &low_priority->connections) {
		struct tfc__low_priority_connection *connection =
			tfc__container_of(link, struct tfc__low_priority_connection, link);
		if (connection->rpc == rpc)
			return connection;
	}
	struct tfc__low_priority_connection *connection = calloc(1, sizeof(*connection));
	if (!connection)
		return NULL;
	connection->low_priority = low_priority;
	connection->rpc = rpc;
	connection->is_client = is_client;
	tfc__list_init(&connection->waiting);
	connection->room.fn = connection_on_room;
	tfc__list_append(&low_priority->connections, &connection->link);
	return connection;
}

int tfc__low_priority_enqueue(struct tfc__low_priority *low_priority, struct tfc__rpc *rpc,
			      bool is_client, struct tfc__low_priority_request *request)
{
	struct tfc__low_priority_connection *connection = find_or_add_connection(low_priority, rpc,
										 is_client);
	if (!connection)
		return TFC_ENOMEM;
	request->connection = connection;
	request->is_begun = false;
	tfc__list_append(&connection->waiting, &request->link);
	low_priority_schedule(low_priority);
	return TFC_OK;
}

void tfc__low_priority_leave(struct tfc__low_priority_request *request)
{
	struct tfc__low_priority_connection *connection = request->connection;
	if (!connection)
		return;
	request->connection = NULL;
	if (request->is_begun)
		connection->begun--;
	else
		tfc__list_remove(&request->link);
	connection->low_priority->clients -= request->is_begun && connection->is_client;
	low_priority_schedule(connection->low_priority);
	if (!tfc__list_is_empty(&connection->waiting) || connection->begun)
		return;
	tfc__rpc_stop_waiting(&connection->room);
	tfc__list_remove(&connection->link);
	free(connection);
}

/* ---- the whole */

void tfc__low_priority_init(struct tfc__low_priority *low_priority, tfc_ctx *ctx)
{
	low_priority->is_closed = false;
	low_priority->clients = 0;
	tfc__list_init(&low_priority->connections);
	tfc__work_init(&low_priority->next, ctx, begin_next_request);
}

void tfc__low_priority_close(struct tfc__low_priority *low_priority)
{
	tfc__work_cancel(&low_priority->next);
	low_priority->is_closed = true;
}
