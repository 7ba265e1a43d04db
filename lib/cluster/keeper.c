#include "cluster/keeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "cluster/journal_msg.h"
#include "cluster/record.h"

#define SEGMENT_BYTES (64u << 10) /* a larger segment is full */

static void keeper_schedule(struct tfc__keeper *keeper)
{
	if (!keeper->is_paused && !keeper->op && keeper->kept < keeper->journal->added)
		tfc__work_schedule(&keeper->work);
}

/* Entries that are not stored are written again later. Until then they are not shown and nothing is
 * launched for them: after a crash the job continues from what is stored. */
static void keeper_fail(struct tfc__keeper *keeper, const tfc_error *error)
{
	if (!keeper->why[0])
		tfc__log(keeper->ctx, TFC_LOG_ERROR, "cluster", keeper->id,
			 "cannot store the job's events; retrying: %s", error->text);
	const enum tfc__journal_event event = TFC__JOURNAL_BLOCKED;
	snprintf(keeper->why, sizeof(keeper->why), "%s", error->text);
	tfc__observers_notify(&keeper->journal->readers, &event);
	tfc__timer_set(&keeper->retry, tfc__now() + TFC__STORE_RETRY_NS);
}

static void keeper_on_put(void *user, int code, const tfc_store_value *values, uint32_t count,
			  const tfc_error *error)
{
	struct tfc__keeper *keeper = user;
	keeper->op = NULL;
	if (code < 0) {
		keeper_fail(keeper, error);
		return;
	}
	keeper->why[0] = '\0';
	keeper->kept = keeper->putting;
	if (keeper->kept == keeper->next) {
		keeper->first = keeper->next;
		keeper->next = 0;
	}
	tfc__journal_show(keeper->journal, keeper->kept);
	keeper_schedule(keeper);
}

static void keeper_on_next(void *user, int code, const tfc_store_value *values, uint32_t count,
			   const tfc_error *error)
{
	struct tfc__keeper *keeper = user;
	keeper->op = NULL;
	if (code < 0) {
		keeper->next = 0;
		keeper_fail(keeper, error);
		return;
	}
	keeper_schedule(keeper);
}

static struct tfc__store_op *keeper_put(struct tfc__store *store, const char *id, uint32_t first,
					const struct tfc__buf *buf, tfc__store_fn fn, void *user)
{
	char name[32], key[TFC__RECORD_KEY_SIZE];
	snprintf(name, sizeof(name), "journal/%010u", first);
	tfc__record_key(id, name, key);
	if (buf->is_failed)
		return NULL;
	return tfc__store_put(store, key, buf->data, buf->len, UINT64_MAX, fn, user);
}

struct tfc__store_op *tfc__keeper_begin(struct tfc__store *store, const char *id, uint32_t first,
					tfc__store_fn fn, void *user)
{
	struct tfc__buf empty = {0};
	tfc__journal_write(NULL, 0, 0, &empty);
	struct tfc__store_op *op = keeper_put(store, id, first, &empty, fn, user);
	tfc__buf_fini(&empty);
	return op;
}

bool tfc__keeper_is_full(uint32_t entries, size_t bytes)
{
	return entries >= TFC__JOURNAL_SEGMENT_ENTRIES || bytes >= SEGMENT_BYTES;
}

/* Encodes the current segment with all new entries that fit. *ret_next: the number of the next
 * segment if this one is full, else 0. */
static void keeper_encode_segment(struct tfc__keeper *keeper, struct tfc__buf *buf,
				  uint32_t *ret_next)
{
	uint32_t most = keeper->next ? keeper->next : keeper->first + TFC__JOURNAL_SEGMENT_ENTRIES;
	uint32_t until = keeper->journal->added < most ? keeper->journal->added : most;
	tfc__journal_write(keeper->journal, keeper->first, until, buf);
	keeper->putting = until;
	*ret_next = tfc__keeper_is_full(until - keeper->first, buf->len) ? until : 0;
}

static void keeper_write(struct tfc__work *work)
{
	struct tfc__keeper *keeper = tfc__container_of(work, struct tfc__keeper, work);
	struct tfc__buf buf = {0};
	tfc_error error;
	uint32_t next;
	if (keeper->is_paused || keeper->op || keeper->kept == keeper->journal->added)
		return;
	keeper_encode_segment(keeper, &buf, &next);
	if (next == keeper->next) {
		keeper->op = keeper_put(keeper->store, keeper->id, keeper->first, &buf,
					keeper_on_put, keeper);
	} else {
		keeper->op = tfc__keeper_begin(keeper->store, keeper->id, next, keeper_on_next,
					       keeper);
		keeper->next = keeper->op ? next : 0;
	}
	tfc__buf_fini(&buf);
	if (!keeper->op) {
		tfc__fail_nomem(&error, "cluster");
		keeper_fail(keeper, &error);
	}
}

static void keeper_on_retry(struct tfc__timer *timer)
{
	keeper_schedule(tfc__container_of(timer, struct tfc__keeper, retry));
}

static void keeper_on_added(struct tfc__journal_writer *writer)
{
	struct tfc__keeper *keeper = tfc__container_of(writer, struct tfc__keeper, writer);
	if (!keeper->why[0])
		keeper_schedule(keeper);
}

void tfc__keeper_open(struct tfc__keeper *keeper, tfc_ctx *ctx, struct tfc__store *store,
		      struct tfc__journal *journal, const char *id)
{
	*keeper = (struct tfc__keeper){
		.writer = {keeper_on_added},
		.journal = journal,
		.store = store,
		.ctx = ctx,
		.id = id,
		.first = journal->added,
		.kept = journal->added,
	};
	journal->writer = &keeper->writer;
	tfc__work_init(&keeper->work, ctx, keeper_write);
	tfc__timer_init(&keeper->retry, ctx, keeper_on_retry);
}

void tfc__keeper_pause(struct tfc__keeper *keeper)
{
	keeper->is_paused = true;
}

void tfc__keeper_resume(struct tfc__keeper *keeper)
{
	keeper->is_paused = false;
	if (keeper->ctx)
		keeper_schedule(keeper);
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

/* The remaining entries are written even if a write is in progress: the last write wins. */
void tfc__keeper_close(struct tfc__keeper *keeper)
{
	bool is_handed_over = !keeper->is_paused;
	if (!keeper->ctx)
		return;
	if (is_handed_over && keeper->why[0])
		tfc__log(keeper->ctx, TFC_LOG_WARNING, "cluster", keeper->id,
			 "the node closes, but the job's last events are not stored yet; if they "
			 "cannot be stored now, the job resumes without them: %s",
			 keeper->why);
	tfc__store_drop(keeper->op);
	while (is_handed_over && keeper->kept < keeper->journal->added) {
		struct tfc__buf buf = {0};
		uint32_t next;
		keeper_encode_segment(keeper, &buf, &next);
		is_handed_over =
			(!next || tfc__keeper_begin(keeper->store, keeper->id, next, NULL, NULL)) &&
			keeper_put(keeper->store, keeper->id, keeper->first, &buf, NULL, NULL);
		keeper->kept = keeper->first = keeper->putting;
		keeper->next = 0;
		tfc__buf_fini(&buf);
	}
	tfc__keeper_abandon(keeper);
}

bool tfc__keeper_is_done(const struct tfc__keeper *keeper)
{
	return !keeper->ctx || keeper->is_paused || keeper->kept == keeper->journal->added;
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
