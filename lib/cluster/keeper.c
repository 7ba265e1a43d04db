#include "cluster/keeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "cluster/journal_msg.h"
#include "cluster/record.h"

#define SEGMENT_BYTES (64u << 10) /* then another begins */
#define RETRY_NS TFC__SECOND

static void schedule(struct tfc__keeper *keeper)
{
	if (!keeper->op && keeper->kept < keeper->journal->added)
		tfc__work_schedule(&keeper->work);
}

static void show(struct tfc__keeper *keeper, uint32_t count)
{
	if (count > keeper->journal->count)
		tfc__journal_show(keeper->journal, count);
}

/* The job goes on, and so do those who watch it; what is missing in the store is written once that
 * works again. */
static void fail(struct tfc__keeper *keeper, const tfc_error *error)
{
	if (!keeper->is_failing)
		tfc__log(keeper->ctx, TFC_LOG_ERROR, "cluster", keeper->id,
			 "the journal is not stored, it is tried again: %s", error->text);
	keeper->is_failing = true;
	show(keeper, keeper->journal->added);
	tfc__timer_set(&keeper->retry, tfc__now() + RETRY_NS);
}

static void on_put(void *user, int code, const tfc_store_value *values, uint32_t count,
		   const tfc_error *error)
{
	struct tfc__keeper *keeper = user;
	keeper->op = NULL;
	if (code < 0) {
		fail(keeper, error);
		return;
	}
	keeper->is_failing = false;
	keeper->kept = keeper->putting;
	if (keeper->is_segment_full)
		keeper->first = keeper->kept;
	show(keeper, keeper->kept);
	schedule(keeper);
}

/* Writes the segment with what has come since; NULL and is_failed: out of memory. */
static struct tfc__store_op *put(struct tfc__keeper *keeper, tfc__store_fn fn)
{
	char name[32], key[TFC__RECORD_KEY_SIZE];
	struct tfc__buf buf = {0};
	uint32_t most = keeper->first + TFC__JOURNAL_PIECE;
	uint32_t until = keeper->journal->added < most ? keeper->journal->added : most;
	snprintf(name, sizeof(name), "journal/%010u", keeper->first);
	tfc__record_key(keeper->id, name, key);
	tfc__journal_write(keeper->journal, keeper->first, until, &buf);
	struct tfc__store_op *op = NULL;
	if (!buf.is_failed)
		op = tfc__store_put(keeper->store, key, buf.data, buf.len, UINT64_MAX, fn, keeper);
	keeper->putting = until;
	keeper->is_segment_full = until == most || buf.len >= SEGMENT_BYTES;
	tfc__buf_fini(&buf);
	return op;
}

static void write_next(struct tfc__work *work)
{
	struct tfc__keeper *keeper = tfc__container_of(work, struct tfc__keeper, work);
	tfc_error error;
	if (keeper->op || keeper->kept == keeper->journal->added)
		return;
	keeper->op = put(keeper, on_put);
	if (!keeper->op) {
		tfc__fail_nomem(&error, "cluster");
		fail(keeper, &error);
	}
}

static void try_again(struct tfc__timer *timer)
{
	schedule(tfc__container_of(timer, struct tfc__keeper, retry));
}

static void on_added(struct tfc__journal_writer *writer)
{
	struct tfc__keeper *keeper = tfc__container_of(writer, struct tfc__keeper, writer);
	if (keeper->is_failing)
		show(keeper, keeper->journal->added);
	else
		schedule(keeper);
}

void tfc__keeper_open(struct tfc__keeper *keeper, tfc_ctx *ctx, struct tfc__store *store,
		      struct tfc__journal *journal, const char *id)
{
	*keeper = (struct tfc__keeper){
		.writer = {on_added},
		.journal = journal,
		.store = store,
		.ctx = ctx,
		.id = id,
		.first = journal->added,
		.kept = journal->added,
	};
	journal->writer = &keeper->writer;
	tfc__work_init(&keeper->work, ctx, write_next);
	tfc__timer_init(&keeper->retry, ctx, try_again);
}

void tfc__keeper_abandon(struct tfc__keeper *keeper)
{
	if (!keeper->ctx)
		return;
	tfc__work_cancel(&keeper->work);
	tfc__timer_cancel(&keeper->retry);
	tfc__store_drop(keeper->op);
	keeper->journal->writer = NULL;
	keeper->ctx = NULL;
}

/* Behind a write that is under way the rest is written again: the last one counts. */
void tfc__keeper_close(struct tfc__keeper *keeper)
{
	if (!keeper->ctx)
		return;
	tfc__store_drop(keeper->op);
	while (keeper->kept < keeper->journal->added && put(keeper, NULL)) {
		keeper->kept = keeper->putting;
		keeper->first = keeper->kept;
	}
	tfc__keeper_abandon(keeper);
}

uint32_t tfc__keeper_segment(const char *key)
{
	const char *number = strstr(key, "/journal/");
	char *end;
	if (!number)
		return UINT32_MAX;
	unsigned long first = strtoul(number + strlen("/journal/"), &end, 10);
	return *end || end == number + strlen("/journal/") ? UINT32_MAX : (uint32_t)first;
}
