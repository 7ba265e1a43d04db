#include "gateway/bulk.h"

#include <stdlib.h>

#include "base/clock.h"

#define LOOK_AGAIN (20 * TFC__MS) /* whether the other end has read */

/* One connection's. */
struct tfc__bulk_line {
	struct tfc__link link;
	struct tfc__bulk *bulk;
	struct tfc__rpc *rpc; /* lives as long as anybody stands here */
	struct tfc__link waiting;
	uint32_t begun;
	bool is_moving;
	struct tfc__timer timer;
};

static void free_line(struct tfc__bulk_line *line)
{
	tfc__timer_cancel(&line->timer);
	tfc__list_remove(&line->link);
	free(line);
}

static bool has_room(const struct tfc__bulk_line *line)
{
	return !line->bulk->is_closed && line->begun < TFC__BULK_MAX &&
	       tfc__rpc_backlog(line->rpc) <= TFC__BULK_BACKLOG;
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
	else if (!tfc__list_is_empty(&line->waiting) && line->begun < TFC__BULK_MAX)
		tfc__timer_set(&line->timer, tfc__now() + LOOK_AGAIN);
}

static void look_again(struct tfc__timer *timer)
{
	move(tfc__container_of(timer, struct tfc__bulk_line, timer));
}

static struct tfc__bulk_line *find_line(struct tfc__bulk *bulk, struct tfc__rpc *rpc)
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
	tfc__timer_init(&line->timer, bulk->ctx, look_again);
	tfc__list_append(&bulk->lines, &line->link);
	return line;
}

void tfc__bulk_init(struct tfc__bulk *bulk, tfc_ctx *ctx)
{
	bulk->ctx = ctx;
	bulk->is_closed = false;
	tfc__list_init(&bulk->lines);
}

int tfc__bulk_enter(struct tfc__bulk *bulk, struct tfc__rpc *rpc, struct tfc__bulk_turn *turn)
{
	struct tfc__bulk_line *line = find_line(bulk, rpc);
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
