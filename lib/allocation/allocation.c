/*
 * The ranks of an allocation as nodes of one cluster. Rank 0 opens its node and publishes its
 * address; the others wait for the address and join. What a rank announces to the others (the hash
 * of the agreement; the end) are labels of its node, which gossip carries to all.
 */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocation/internal.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/options.h"
#include "base/utf8.h"

#define POLL_NS (100 * TFC__MS) /* between two reads of the rendezvous file */
#define FIRST_NOTICE_NS (3 * TFC__SECOND)
#define NOTICE_NS (30 * TFC__SECOND)
#define FAREWELL_NS (5 * TFC__SECOND) /* for which rank 0 waits until the others have left */

int tfc_allocation_options_init(tfc_allocation_options *options, uint32_t size)
{
	return tfc__options_init(options, size, sizeof(*options));
}

const tfc_allocation_info *tfc_allocation_describe(const tfc_allocation *allocation)
{
	return allocation ? &allocation->info : NULL;
}

tfc_node *tfc_allocation_node(const tfc_allocation *allocation)
{
	return allocation && allocation->state != ALLOCATION_JOINING ? allocation->node : NULL;
}

/* ---- reports: each is the last thing that its caller does, as the host may close the allocation
 */

static void allocation_report(tfc_allocation *allocation, uint32_t kind, uint32_t rank, int code,
			      uint32_t exit_status, const char *text)
{
	const tfc_allocation_event event = {
		.size = sizeof(event),
		.kind = kind,
		.rank = rank,
		.code = code,
		.exit_status = exit_status,
		.text = text,
	};
	allocation->fn(allocation->user, &event);
}

static void allocation_fail(tfc_allocation *allocation, const tfc_error *error)
{
	const tfc_error copy = *error; /* the context's own may change meanwhile */
	allocation->state = ALLOCATION_OVER;
	tfc__timer_cancel(&allocation->timer);
	allocation_report(allocation, TFC_ALLOCATION_FAILED, 0, copy.code, 0, copy.text);
}

/* ---- while ranks are missing */

static void allocation_missing_text(const tfc_allocation *allocation, char *text, size_t size)
{
	char ranks[TFC__RANK_LIST_SIZE];
	if (allocation->info.rank == 0) {
		uint32_t count = tfc__allocation_list(allocation,
						      1U << RANK_UNSEEN | 1U << RANK_GONE, ranks,
						      sizeof(ranks));
		snprintf(text, size, "%s %s not joined", ranks, count == 1 ? "has" : "have");
	} else if (!allocation->node) {
		snprintf(text, size, "rank 0 has not written \"%s\"", allocation->rendezvous);
	} else {
		snprintf(text, size, "rank 0 does not respond at %s",
			 allocation->fixed ? allocation->fixed : allocation->at.address);
	}
}

static void allocation_time_out(tfc_allocation *allocation)
{
	char missing[TFC__RANK_LIST_SIZE + 4200];
	tfc_error error;
	allocation_missing_text(allocation, missing, sizeof(missing));
	tfc__fail(&error, TFC_ETIMEDOUT, "allocation", 0, "%s within %g s%s", missing,
		  allocation->info.wait_ms / 1000.0,
		  allocation->rendezvous
			  ? "; every rank must be started with the same command, and share the "
			    "directory of rendezvous"
			  : "");
	allocation_fail(allocation, &error);
}

static void allocation_on_timer(struct tfc__timer *timer)
{
	tfc_allocation *allocation = tfc__container_of(timer, tfc_allocation, timer);
	char missing[TFC__RANK_LIST_SIZE + 4200];
	tfc_error error = TFC_ERROR_INIT;
	uint64_t now = tfc__now();
	if (allocation->state == ALLOCATION_LEAVING) {
		tfc__work_schedule(&allocation->work);
		return;
	}
	if (allocation->info.rank && tfc__allocation_find_first(allocation, &error) < 0) {
		allocation_fail(allocation, error.code ? &error : tfc_ctx_error(allocation->ctx));
		return;
	}
	tfc__timer_set(timer, now + POLL_NS);
	if (now >= allocation->deadline) {
		tfc__work_schedule(&allocation->work);
	} else if (now >= allocation->notice_at) {
		allocation->notice_at = now + NOTICE_NS;
		allocation_missing_text(allocation, missing, sizeof(missing));
		allocation_report(allocation, TFC_ALLOCATION_WAITING, 0, 0, 0, missing);
	}
}

/* ---- what changes lead to */

/* Returns whether it has reported a failure. */
static bool allocation_check_agreement(tfc_allocation *allocation)
{
	tfc_error error;
	bool is_first = allocation->info.rank == 0;
	uint32_t count = is_first ? allocation->info.rank_count : 1;
	for (uint32_t i = 0; i < count; i++) {
		if (allocation->ranks[i].state != RANK_ALIVE || !allocation->ranks[i].disagrees)
			continue;
		tfc__fail(&error, TFC_EINVAL, "allocation", 0,
			  "rank %u was started with another command than rank %u; start all ranks "
			  "with the same one",
			  i, allocation->info.rank);
		allocation_fail(allocation, &error);
		return true;
	}
	return false;
}

/* The end of the connection to rank 0 shows each of both at once that the other one has died. */
static void allocation_keep_connection(tfc_allocation *allocation)
{
	struct tfc__node_peer *peer = tfc__peers_find(allocation->node->peers, "rank-0");
	if (peer)
		tfc__node_peer_keep(peer, true);
}

static void allocation_become_ready(tfc_allocation *allocation)
{
	tfc_error error;
	if (allocation->info.rank == 0 && !tfc__allocation_suffices(allocation, &error)) {
		allocation_fail(allocation, &error);
		return;
	}
	allocation->state = ALLOCATION_READY;
	tfc__timer_cancel(&allocation->timer);
	if (allocation->info.rank)
		allocation_keep_connection(allocation);
	for (uint32_t i = 0; i < allocation->info.rank_count; i++)
		allocation->ranks[i].is_unreported = false;
	allocation_report(allocation, TFC_ALLOCATION_READY, 0, 0, 0, "");
}

static void allocation_check_joining(tfc_allocation *allocation)
{
	bool is_first = allocation->info.rank == 0;
	bool is_late = tfc__now() >= allocation->deadline;
	if (allocation->refused.code && !is_late && !is_first) {
		/* The previous process of this rank may count as alive still: tries again. */
		tfc__allocation_close_node(allocation);
		allocation->at.address[0] = '\0';
		tfc__timer_set(&allocation->timer, tfc__now() + TFC__SECOND);
	} else if (allocation->refused.code) {
		allocation_fail(allocation, &allocation->refused);
	} else if (allocation_check_agreement(allocation)) {
		return;
	} else if (is_first ? allocation->alive == allocation->info.rank_count
			    : allocation->ranks[0].state == RANK_ALIVE) {
		allocation_become_ready(allocation);
	} else if (is_late && is_first && allocation->min_ranks &&
		   allocation->alive >= allocation->min_ranks) {
		allocation_become_ready(allocation);
	} else if (is_late) {
		allocation_time_out(allocation);
	}
}

/* Reports the change of one rank; false: there is none. */
static bool allocation_report_rank(tfc_allocation *allocation)
{
	char text[64];
	for (uint32_t i = 0; i < allocation->info.rank_count; i++) {
		struct tfc__rank *rank = &allocation->ranks[i];
		bool is_alive = rank->state == RANK_ALIVE;
		if (!rank->is_unreported)
			continue;
		rank->is_unreported = false;
		tfc__work_schedule(&allocation->work); /* for what else there is */
		snprintf(text, sizeof(text), "rank %u %s", i,
			 is_alive         ? "has joined"
			 : rank->has_left ? "has left"
					  : "is lost");
		allocation_report(allocation,
				  is_alive ? TFC_ALLOCATION_RETURNED : TFC_ALLOCATION_LOST, i, 0, 0,
				  text);
		return true;
	}
	return false;
}

static void allocation_report_end(tfc_allocation *allocation)
{
	char *text;
	uint32_t status = (uint32_t)strtoul(allocation->end, &text, 10);
	allocation->state = ALLOCATION_OVER;
	allocation_report(allocation, TFC_ALLOCATION_ENDED, 0, 0, status, text + (*text == ' '));
}

static void allocation_check_ready(tfc_allocation *allocation)
{
	bool is_first = allocation->info.rank == 0;
	tfc_error error;
	if (allocation->refused.code) {
		allocation_fail(allocation, &allocation->refused);
	} else if (!is_first && *allocation->end) {
		allocation_report_end(allocation);
	} else if (!is_first && allocation->ranks[0].state == RANK_GONE) {
		tfc__fail(&error, TFC_ELOST, "allocation", 0, "rank 0 is lost");
		allocation_fail(allocation, &error);
	} else if (allocation_report_rank(allocation)) {
		return;
	} else if (is_first && !tfc__allocation_suffices(allocation, &error)) {
		allocation_fail(allocation, &error);
	}
}

/* ---- the end */

static void allocation_on_left(void *user)
{
	tfc_allocation *allocation = user;
	allocation->state = ALLOCATION_LEFT;
	tfc__timer_cancel(&allocation->timer);
	allocation->ended(allocation->ended_user);
}

/* Rank 0 leaves after the others, so that they learn of the end. */
static void allocation_check_leaving(tfc_allocation *allocation)
{
	bool is_alone = allocation->alive <= 1 || allocation->info.rank != 0;
	if (!allocation->node) {
		allocation_on_left(allocation);
		return;
	}
	if (!allocation->farewell_at || (!is_alone && tfc__now() < allocation->farewell_at))
		return;
	allocation->farewell_at = 0; /* leaves once */
	if (tfc_node_leave(allocation->node, allocation_on_left, allocation) < 0)
		allocation_on_left(allocation);
}

static void allocation_check(struct tfc__work *work)
{
	tfc_allocation *allocation = tfc__container_of(work, tfc_allocation, work);
	switch (allocation->state) {
	case ALLOCATION_JOINING:
		allocation_check_joining(allocation);
		break;
	case ALLOCATION_READY:
		allocation_check_ready(allocation);
		break;
	case ALLOCATION_LEAVING:
		allocation_check_leaving(allocation);
		break;
	case ALLOCATION_OVER:
	case ALLOCATION_LEFT:
		break;
	}
}

/* The text up to END_TEXT_MAX bytes, without a part of a character. */
static size_t allocation_text_len(const char *text)
{
	size_t len = strnlen(text, END_TEXT_MAX + 1);
	if (len <= END_TEXT_MAX)
		return len;
	for (len = END_TEXT_MAX; len && ((unsigned char)text[len] & 0xC0) == 0x80; len--)
		;
	return len;
}

static int allocation_announce(tfc_allocation *allocation, uint32_t status, const char *text,
			       tfc_error *error)
{
	char command[sizeof(LABEL_COMMAND) + 16], end[sizeof(LABEL_END) + END_TEXT_MAX + 24];
	const char *labels[] = {end, command, NULL};
	snprintf(command, sizeof(command), LABEL_COMMAND "%s", allocation->command);
	int len = snprintf(end, sizeof(end), LABEL_END "%u", status);
	if (text && *text)
		snprintf(end + len, sizeof(end) - (size_t)len, " %.*s",
			 (int)allocation_text_len(text), text);
	tfc__make_plain_text(end);
	return tfc__node_set_labels(allocation->node, labels, error);
}

int tfc_allocation_end(tfc_allocation *allocation, uint32_t exit_status, const char *text,
		       tfc_allocation_ended_fn fn, void *user)
{
	int code = tfc__ctx_enter(allocation ? allocation->ctx : NULL);
	if (code < 0)
		return code;
	tfc_error *error = tfc__ctx_error(allocation->ctx);
	if (!fn)
		return tfc__fail(error, TFC_EINVAL, "allocation", 0, "fn is NULL");
	if (allocation->state >= ALLOCATION_LEAVING)
		return tfc__fail(error, TFC_ESTATE, "allocation", 0,
				 "the allocation is being ended already");
	if (allocation->node && allocation->info.rank == 0 &&
	    (code = allocation_announce(allocation, exit_status, text, error)) < 0)
		return code;
	/* Nobody would stop the tasks of rank 0 before their leases are over. */
	if (allocation->node && allocation->info.rank && allocation->ranks[0].state == RANK_GONE)
		tfc__node_agents_expire(allocation->node->agents, "rank-0");
	allocation->state = ALLOCATION_LEAVING;
	allocation->ended = fn;
	allocation->ended_user = user;
	allocation->farewell_at = tfc__now() + FAREWELL_NS;
	tfc__timer_set(&allocation->timer, allocation->farewell_at);
	tfc__work_schedule(&allocation->work);
	return TFC_OK;
}

/* ---- opening and closing */

static int allocation_check_options(const tfc_allocation_options *options, tfc_error *error)
{
	if (!options->env)
		return tfc__fail(error, TFC_EINVAL, "allocation", 0, "env is NULL");
	if (!options->rendezvous || !*options->rendezvous)
		return tfc__fail(error, TFC_EINVAL, "allocation", 0,
				 "rendezvous is missing; set it to a directory that all ranks "
				 "share, or to HOST:PORT of rank 0");
	if (options->has_rank && !options->rank_count)
		return tfc__fail(error, TFC_EINVAL, "allocation", 0,
				 "rank is set, but rank_count is missing");
	return TFC_OK;
}

static void allocation_free(tfc_allocation *allocation)
{
	tfc__timer_cancel(&allocation->timer);
	tfc__work_cancel(&allocation->work);
	if (allocation->ranks)
		tfc__allocation_close_node(allocation);
	if (allocation->rendezvous && allocation->info.rank == 0 && allocation->at.address[0])
		tfc__rendezvous_remove(allocation->rendezvous, allocation->at.address);
	if (allocation->lock >= 0)
		close(allocation->lock);
	if (allocation->key)
		sodium_memzero(allocation->key, strlen(allocation->key));
	json_decref(allocation->node_options);
	tfc__strv_fini(&allocation->env);
	free(allocation->ranks);
	free(allocation->rendezvous);
	free(allocation->fixed);
	free(allocation->gpus);
	free(allocation->host);
	free(allocation->key);
	free(allocation);
}

static void allocation_on_close(struct tfc__handle *handle)
{
	tfc_allocation_close(tfc__container_of(handle, tfc_allocation, handle));
}

int tfc_allocation_open(tfc_ctx *ctx, const tfc_allocation_options *options, tfc_allocation_fn fn,
			void *user, tfc_allocation **ret_allocation)
{
	tfc_allocation_options known;
	int code = tfc__ctx_enter(ctx);
	if (code < 0)
		return code;
	tfc_error *error = tfc__ctx_error(ctx);
	if (!fn || !ret_allocation)
		return tfc__fail(error, TFC_EINVAL, "allocation", 0, "%s is NULL",
				 fn ? "ret_allocation" : "fn");
	code = tfc__options_copy(&known, sizeof(known), options, "allocation",
				 "tfc_allocation_options", 0, error);
	if (code < 0 || (code = allocation_check_options(&known, error)) < 0)
		return code;
	tfc_allocation *allocation = calloc(1, sizeof(*allocation));
	if (!allocation)
		return tfc__fail_nomem(error, "allocation");
	allocation->ctx = ctx;
	allocation->fn = fn;
	allocation->user = user;
	allocation->lock = -1;
	tfc__timer_init(&allocation->timer, ctx, allocation_on_timer);
	tfc__work_init(&allocation->work, ctx, allocation_check);
	tfc__observer_init(&allocation->watch, tfc__allocation_on_member);
	code = tfc__allocation_init(allocation, &known, error);
	if (code == TFC_OK && allocation->info.rank == 0)
		code = tfc__allocation_open_first(allocation, error);
	if (code < 0) {
		tfc_error why = *error; /* closing may set the error, too */
		allocation_free(allocation);
		*error = why;
		return code;
	}
	allocation->place.launcher = NULL; /* both are of the host's environment */
	allocation->grant.gpus = allocation->gpus;
	uint64_t now = tfc__now();
	allocation->deadline = now + allocation->info.wait_ms * TFC__MS;
	allocation->notice_at = now + FIRST_NOTICE_NS;
	tfc__timer_set(&allocation->timer, now);
	tfc__handle_open(ctx, &allocation->handle, TFC__HANDLE_ALLOCATION, allocation_on_close);
	*ret_allocation = allocation;
	return TFC_OK;
}

void tfc_allocation_close(tfc_allocation *allocation)
{
	if (!allocation)
		return;
	tfc__handle_closed(&allocation->handle);
	allocation_free(allocation);
}
