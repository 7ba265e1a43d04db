/*
 * The functions that other threads may call: post a call, wake the context. The eventfd is readable
 * while posts, deferred work or a wake are pending. is_signaled, under the mutex, mirrors the
 * eventfd's state, so that many posts cause one write.
 */
#include "ctx/internal.h"

#include <stdlib.h>
#include <unistd.h>

static struct post *post_queue_pop(struct post_queue *queue)
{
	struct post *post = queue->first;
	queue->first = post->next;
	return post;
}

/* Called with the mutex held. Neither call can fail: the counter is 0 or 1 and the descriptor is
 * non-blocking. */
static void ctx_set_signaled(tfc_ctx *ctx, bool is_signaled)
{
	uint64_t count = 1;
	if (ctx->is_signaled == is_signaled)
		return;
	ctx->is_signaled = is_signaled;
	ssize_t len = is_signaled ? write(ctx->event_fd, &count, sizeof(count))
				  : read(ctx->event_fd, &count, sizeof(count));
	(void)len;
}

/* Called with the mutex held. */
static bool ctx_is_waiting_locked(const tfc_ctx *ctx)
{
	return !tfc__list_is_empty(&ctx->work) || ctx->fetched.first || ctx->posted.first;
}

bool tfc__ctx_is_waiting(tfc_ctx *ctx)
{
	pthread_mutex_lock(&ctx->mutex);
	bool is_waiting = ctx_is_waiting_locked(ctx);
	pthread_mutex_unlock(&ctx->mutex);
	return is_waiting;
}

bool tfc__ctx_signal(tfc_ctx *ctx)
{
	if (tfc__ctx_is_forked(ctx))
		return false;
	pthread_mutex_lock(&ctx->mutex);
	bool is_waiting = ctx_is_waiting_locked(ctx) || ctx->is_woken;
	ctx_set_signaled(ctx, is_waiting);
	pthread_mutex_unlock(&ctx->mutex);
	return is_waiting;
}

/* The dispatch that begins now serves the wake. A later wake makes the eventfd readable again and
 * causes another dispatch. */
void tfc__ctx_clear_wake(tfc_ctx *ctx)
{
	pthread_mutex_lock(&ctx->mutex);
	ctx->is_woken = false;
	pthread_mutex_unlock(&ctx->mutex);
}

int tfc_ctx_post(tfc_ctx *ctx, tfc_post_fn fn, void *user)
{
	if (!ctx || !fn)
		return TFC_EINVAL;
	if (tfc__ctx_is_forked(ctx))
		return TFC_EFORK;
	struct post *post = malloc(sizeof(*post));
	if (!post)
		return TFC_ENOMEM;
	*post = (struct post){.fn = fn, .user = user};
	pthread_mutex_lock(&ctx->mutex);
	if (ctx->posted.first)
		ctx->posted.last->next = post;
	else
		ctx->posted.first = post;
	ctx->posted.last = post;
	ctx_set_signaled(ctx, true);
	pthread_mutex_unlock(&ctx->mutex);
	return TFC_OK;
}

int tfc_ctx_wake(tfc_ctx *ctx)
{
	if (!ctx)
		return TFC_EINVAL;
	if (tfc__ctx_is_forked(ctx))
		return TFC_EFORK;
	pthread_mutex_lock(&ctx->mutex);
	ctx->is_woken = true;
	ctx_set_signaled(ctx, true);
	pthread_mutex_unlock(&ctx->mutex);
	return TFC_OK;
}

int tfc__ctx_run_posts(tfc_ctx *ctx, uint32_t *left)
{
	if (!ctx->fetched.first) {
		pthread_mutex_lock(&ctx->mutex);
		ctx->fetched = ctx->posted;
		ctx->posted.first = NULL;
		pthread_mutex_unlock(&ctx->mutex);
	}
	while (*left > 0 && ctx->fetched.first) {
		struct post *post = post_queue_pop(&ctx->fetched);
		tfc_post_fn fn = post->fn;
		void *user = post->user;
		free(post);
		--*left;
		fn(user);
	}
	return TFC_OK;
}

void tfc__ctx_drop_posts(tfc_ctx *ctx)
{
	while (ctx->fetched.first)
		free(post_queue_pop(&ctx->fetched));
	while (ctx->posted.first)
		free(post_queue_pop(&ctx->posted));
}
