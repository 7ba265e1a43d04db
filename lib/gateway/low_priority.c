#include "gateway/low_priority.h"

#include <stdlib.h>

/* The queue of one connection. */
struct tfc__low_priority_client {
	struct tfc__link link;
	struct tfc__low_priority *low_priority;
	struct tfc__rpc *rpc; /* valid while a request is queued or in progress */
	struct tfc__link waiting;
	uint32_t begun;
	bool is_client;
	struct tfc__rpc_waiter room;
};

static void schedule(struct tfc__low_priority *low_priority)
{
	if (!low_priority->is_closed)
		tfc__work_schedule(&low_priority->next);
}

/* ---- turns */

/* If there is no room in the send buffer, registers for a callback when there is. */
static bool may_begin(struct tfc__low_priority_client *line)
{
	uint32_t max = line->is_client ? TFC__LOW_PRIORITY_CLIENT_MAX : TFC__LOW_PRIORITY_MAX;
	if (tfc__list_is_empty(&line->waiting) || line->begun == max)
		return false;
	if (tfc__rpc_has_room(line->rpc))
		return true;
	tfc__rpc_await_room(line->rpc, &line->room);
	return false;
}

static struct tfc__low_priority_client *find_next(const struct tfc__low_priority *low_priority,
						  bool is_client)
{
	TFC__LIST_EACH (link, &low_priority->lines) {
		struct tfc__low_priority_client *line =
			tfc__container_of(link, struct tfc__low_priority_client, link);
		if (line->is_client == is_client && may_begin(line))
			return line;
	}
	return NULL;
}

static void begin_next(struct tfc__work *work)
{
	struct tfc__low_priority *low_priority = tfc__container_of(work, struct tfc__low_priority,
								   next);
	struct tfc__low_priority_client *line = find_next(low_priority, false);
	if (!line && low_priority->clients < TFC__LOW_PRIORITY_CLIENTS_MAX)
		line = find_next(low_priority, true);
	if (!line)
		return;
	struct tfc__low_priority_request *turn =
		tfc__container_of(line->waiting.next, struct tfc__low_priority_request, link);
	tfc__list_remove(&line->link);
	tfc__list_append(&low_priority->lines, &line->link);
	tfc__list_remove(&turn->link);
	turn->is_begun = true;
	line->begun++;
	low_priority->clients += line->is_client;
	schedule(low_priority);
	turn->go(turn);
}

static void on_room(struct tfc__rpc_waiter *waiter)
{
	schedule(tfc__container_of(waiter, struct tfc__low_priority_client, room)->low_priority);
}

/* ---- lines */

static struct tfc__low_priority_client *find_line(struct tfc__low_priority *low_priority,
						  struct tfc__rpc *rpc, bool is_client)
{
	TFC__LIST_EACH (link, &low_priority->lines) {
		struct tfc__low_priority_client *line =
			tfc__container_of(link, struct tfc__low_priority_client, link);
		if (line->rpc == rpc)
			return line;
	}
	struct tfc__low_priority_client *line = calloc(1, sizeof(*line));
	if (!line)
		return NULL;
	line->low_priority = low_priority;
	line->rpc = rpc;
	line->is_client = is_client;
	tfc__list_init(&line->waiting);
	line->room.fn = on_room;
	tfc__list_append(&low_priority->lines, &line->link);
	return line;
}

int tfc__low_priority_enqueue(struct tfc__low_priority *low_priority, struct tfc__rpc *rpc,
			      bool is_client, struct tfc__low_priority_request *turn)
{
	struct tfc__low_priority_client *line = find_line(low_priority, rpc, is_client);
	if (!line)
		return TFC_ENOMEM;
	turn->line = line;
	turn->is_begun = false;
	tfc__list_append(&line->waiting, &turn->link);
	schedule(low_priority);
	return TFC_OK;
}

void tfc__low_priority_leave(struct tfc__low_priority_request *turn)
{
	struct tfc__low_priority_client *line = turn->line;
	if (!line)
		return;
	turn->line = NULL;
	if (turn->is_begun)
		line->begun--;
	else
		tfc__list_remove(&turn->link);
	line->low_priority->clients -= turn->is_begun && line->is_client;
	schedule(line->low_priority);
	if (!tfc__list_is_empty(&line->waiting) || line->begun)
		return;
	tfc__rpc_stop_waiting(&line->room);
	tfc__list_remove(&line->link);
	free(line);
}

/* ---- the whole */

void tfc__low_priority_init(struct tfc__low_priority *low_priority, tfc_ctx *ctx)
{
	low_priority->is_closed = false;
	low_priority->clients = 0;
	tfc__list_init(&low_priority->lines);
	tfc__work_init(&low_priority->next, ctx, begin_next);
}

void tfc__low_priority_close(struct tfc__low_priority *low_priority)
{
	tfc__work_cancel(&low_priority->next);
	low_priority->is_closed = true;
}
