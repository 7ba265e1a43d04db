#include "gateway/bulk.h"

#include <stdlib.h>

/* One connection's. */
struct tfc__bulk_line {
	struct tfc__link link;
	struct tfc__bulk *bulk;
	struct tfc__rpc *rpc; /* lives as long as anybody stands here */
	struct tfc__link waiting;
	uint32_t begun;
	uint32_t max;
	bool is_moving;
	struct tfc__rpc_waiter room;
};

static void free_line(struct tfc__bulk_line *line)
{
	tfc__rpc_stop_waiting(&line->room);
	tfc__list_remove(&line->link);
	free(line);
}

static bool has_room(const struct tfc__bulk_line *line)
{
	return !line->bulk->is_closed && line->begun < line->max && tfc__rpc_has_room(line->rpc);
}

/* Who goes may leave at once: that is no call inside a call. */
static void move(struct tfc__bulk_line *line)
{
	if (line->is_moving)
		return;
	line->is_moving = true;
	while (!tfc__list_is_empty(&line->waiting) && has_room(line)) {
		struct tfc__bulk_turn *turn = tfc__container_of(line->waiting.next,
								struct tfc__bulk_turn, link);
		tfc__list_remove(&turn->link);
		turn->is_begun = true;
		line->begun++;
		turn->go(turn);
	}
	line->is_moving = false;
	if (tfc__list_is_empty(&line->waiting) && !line->begun)
		free_line(line);
	else if (!tfc__list_is_empty(&line->waiting) && line->begun < line->max)
		tfc__rpc_await_room(line->rpc, &line->room);
}

static void on_room(struct tfc__rpc_waiter *waiter)
{
	move(tfc__container_of(waiter, struct tfc__bulk_line, room));
}

static struct tfc__bulk_line *find_line(struct tfc__bulk *bulk, struct tfc__rpc *rpc, uint32_t max)
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
	tfc__list_init(&line->waiting);
	line->max = max;
	line->room.fn = on_room;
	tfc__list_append(&bulk->lines, &line->link);
	return line;
}

void tfc__bulk_init(struct tfc__bulk *bulk)
{
	bulk->is_closed = false;
	tfc__list_init(&bulk->lines);
}

int tfc__bulk_enter(struct tfc__bulk *bulk, struct tfc__rpc *rpc, uint32_t max,
		    struct tfc__bulk_turn *turn)
{
	struct tfc__bulk_line *line = find_line(bulk, rpc, max);
	if (!line)
		return TFC_ENOMEM;
	turn->line = line;
	turn->is_begun = false;
	tfc__list_append(&line->waiting, &turn->link);
	move(line);
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
	move(line);
}
