#include "gateway/bulk.h"

#include <stdlib.h>

/* The queue of one connection. */
struct tfc__bulk_line {
	struct tfc__link link;
	struct tfc__bulk *bulk;
	struct tfc__rpc *rpc; /* valid while a request is queued or in progress */
	struct tfc__link waiting;
	uint32_t begun;
	bool is_client;
	struct tfc__rpc_waiter room;
};

static void schedule(struct tfc__bulk *bulk)
{
	if (!bulk->is_closed)
		tfc__work_schedule(&bulk->next);
}

/* ---- turns */

/* If there is no room in the send buffer, registers for a callback when there is. */
static bool may_begin(struct tfc__bulk_line *line)
{
	uint32_t max = line->is_client ? TFC__BULK_CLIENT_MAX : TFC__BULK_MAX;
	if (tfc__list_is_empty(&line->waiting) || line->begun == max)
		return false;
	if (tfc__rpc_has_room(line->rpc))
		return true;
	tfc__rpc_await_room(line->rpc, &line->room);
	return false;
}

static struct tfc__bulk_line *find_next(const struct tfc__bulk *bulk, bool is_client)
{
	TFC__LIST_EACH (link, &bulk->lines) {
		struct tfc__bulk_line *line = tfc__container_of(link, struct tfc__bulk_line, link);
		if (line->is_client == is_client && may_begin(line))
			return line;
	}
	return NULL;
}

static void begin_next(struct tfc__work *work)
{
	struct tfc__bulk *bulk = tfc__container_of(work, struct tfc__bulk, next);
	struct tfc__bulk_line *line = find_next(bulk, false);
	if (!line && bulk->clients < TFC__BULK_CLIENTS_MAX)
		line = find_next(bulk, true);
	if (!line)
		return;
	struct tfc__bulk_turn *turn = tfc__container_of(line->waiting.next, struct tfc__bulk_turn,
							link);
	tfc__list_remove(&line->link);
	tfc__list_append(&bulk->lines, &line->link);
	tfc__list_remove(&turn->link);
	turn->is_begun = true;
	line->begun++;
	bulk->clients += line->is_client;
	schedule(bulk);
	turn->go(turn);
}

static void on_room(struct tfc__rpc_waiter *waiter)
{
	schedule(tfc__container_of(waiter, struct tfc__bulk_line, room)->bulk);
}

/* ---- lines */

static struct tfc__bulk_line *find_line(struct tfc__bulk *bulk, struct tfc__rpc *rpc,
					bool is_client)
{
	TFC__LIST_EACH (link, &bulk->lines) {
		struct tfc__bulk_line *line = tfc__container_of(link, struct tfc__bulk_line, link);
		if (line->rpc == rpc)
			return line;
	}
	struct tfc__bulk_line *line = calloc(1, sizeof(*line));
	if (!line)
		return NULL;
	line->bulk = bulk;
	line->rpc = rpc;
	line->is_client = is_client;
	tfc__list_init(&line->waiting);
	line->room.fn = on_room;
	tfc__list_append(&bulk->lines, &line->link);
	return line;
}

int tfc__bulk_enter(struct tfc__bulk *bulk, struct tfc__rpc *rpc, bool is_client,
		    struct tfc__bulk_turn *turn)
{
	struct tfc__bulk_line *line = find_line(bulk, rpc, is_client);
	if (!line)
		return TFC_ENOMEM;
	turn->line = line;
	turn->is_begun = false;
	tfc__list_append(&line->waiting, &turn->link);
	schedule(bulk);
	return TFC_OK;
}

void tfc__bulk_leave(struct tfc__bulk_turn *turn)
{
	struct tfc__bulk_line *line = turn->line;
	if (!line)
		return;
	turn->line = NULL;
	if (turn->is_begun)
		line->begun--;
	else
		tfc__list_remove(&turn->link);
	line->bulk->clients -= turn->is_begun && line->is_client;
	schedule(line->bulk);
	if (!tfc__list_is_empty(&line->waiting) || line->begun)
		return;
	tfc__rpc_stop_waiting(&line->room);
	tfc__list_remove(&line->link);
	free(line);
}

/* ---- the whole */

void tfc__bulk_init(struct tfc__bulk *bulk, tfc_ctx *ctx)
{
	bulk->is_closed = false;
	bulk->clients = 0;
	tfc__list_init(&bulk->lines);
	tfc__work_init(&bulk->next, ctx, begin_next);
}

void tfc__bulk_close(struct tfc__bulk *bulk)
{
	tfc__work_cancel(&bulk->next);
	bulk->is_closed = true;
}
