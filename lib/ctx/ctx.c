#include "ctx/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/options.h"

int tfc_ctx_options_init(tfc_ctx_options *options, uint32_t size)
{
	return tfc__options_init(options, size, sizeof(*options));
}

/* The directory is absolute because programs are also started in other directories than this. */
static int ctx_set_helper_dir(tfc_ctx *ctx, const char *dir, tfc_error *error)
{
	if (*dir == '/') {
		ctx->helper_dir = strdup(dir);
	} else {
		char *current = getcwd(NULL, 0);
		if (!current)
			return tfc__fail_errno(error, "ctx", errno,
					       "cannot find helper_dir \"%s\" in the current "
					       "directory",
					       dir);
		ctx->helper_dir = tfc__path_join(current, dir);
		free(current);
	}
	return ctx->helper_dir ? TFC_OK : tfc__fail_nomem(error, "ctx");
}

static int ctx_apply_options(tfc_ctx *ctx, const tfc_ctx_options *options, tfc_error *error)
{
	tfc_ctx_options own;
	int code = tfc__options_copy(&own, sizeof(own), options, "ctx", "tfc_ctx_options", 0,
				     error);
	if (code < 0)
		return code;
	if (own.log_level > TFC_LOG_DEBUG)
		return tfc__fail(
			error, TFC_EINVAL, "ctx", 0,
			"tfc_ctx_options.log_level is %u; the highest is TFC_LOG_DEBUG (%d)",
			own.log_level, TFC_LOG_DEBUG);
	ctx->log = own.log;
	ctx->log_user = own.log_user;
	ctx->log_level = own.log_level;
	return own.helper_dir ? ctx_set_helper_dir(ctx, own.helper_dir, error) : TFC_OK;
}

/* The context's own descriptors have no struct tfc__io: their data is NULL. */
static int ctx_watch_own(tfc_ctx *ctx, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
	return epoll_ctl(ctx->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static int ctx_open_fds(tfc_ctx *ctx, tfc_error *error)
{
	ctx->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (ctx->epoll_fd < 0)
		return tfc__fail_errno(error, "ctx", errno, "cannot create an epoll descriptor");
	ctx->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (ctx->timer_fd < 0)
		return tfc__fail_errno(error, "ctx", errno, "cannot create a timer descriptor");
	ctx->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ctx->event_fd < 0)
		return tfc__fail_errno(error, "ctx", errno, "cannot create an event descriptor");
	if (ctx_watch_own(ctx, ctx->timer_fd) < 0 || ctx_watch_own(ctx, ctx->event_fd) < 0)
		return tfc__fail_errno(error, "ctx", errno, "cannot watch a descriptor");
	return TFC_OK;
}

/*
 * Every public function checks for a fork; reading a flag is cheaper than getpid, which is a system
 * call. The kernel zeroes the flag's page in a forked child (madvise(2), MADV_WIPEONFORK, since
 * Linux 4.14).
 */
static int ctx_mark_owner(tfc_ctx *ctx, tfc_error *error)
{
	bool *mark = mmap(NULL, sizeof(*mark), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	if (mark == MAP_FAILED)
		return tfc__fail_nomem(error, "ctx");
	ctx->owner = getpid();
	ctx->is_owned = mark;
	if (madvise(mark, sizeof(*mark), MADV_WIPEONFORK) < 0)
		return tfc__fail_errno(error, "ctx", errno,
				       "cannot create a page that is wiped on fork");
	*mark = true;
	return TFC_OK;
}

static void ctx_free_slots(tfc_ctx *ctx, bool is_forked)
{
	for (int i = TFC__SLOTS - 1; i >= 0; i--)
		if (ctx->slots[i].free)
			ctx->slots[i].free(ctx->slots[i].value, is_forked);
}

/* Releases what belongs to the calling process: the same in the owner and in a forked child. */
static void ctx_destroy(tfc_ctx *ctx)
{
	const int fds[] = {ctx->epoll_fd, ctx->timer_fd, ctx->event_fd};
	for (int i = 0; i < 3; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	tfc__ctx_drop_posts(ctx);
	tfc__ctx_drop_ops(ctx);
	if (ctx->is_owned)
		munmap((void *)ctx->is_owned, sizeof(*ctx->is_owned));
	free(ctx->helper_dir);
	free(ctx);
}

int tfc_ctx_new(const tfc_ctx_options *options, tfc_error *error, tfc_ctx **ret_ctx)
{
	if (!ret_ctx)
		return tfc__fail(error, TFC_EINVAL, "ctx", 0, "ret_ctx is NULL");
	tfc_ctx *ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return tfc__fail_nomem(error, "ctx");
	ctx->epoll_fd = ctx->timer_fd = ctx->event_fd = -1;
	ctx->error.component = "";
	tfc__list_init(&ctx->work);
	tfc__list_init(&ctx->ops);
	tfc__list_init(&ctx->fds);
	tfc__list_init(&ctx->handles);
	tfc__observers_init(&ctx->stalls);
	ctx->suspended_ns = (int64_t)(tfc__boot_time() - tfc__now());
	pthread_mutex_init(&ctx->mutex, NULL);

	int code = ctx_apply_options(ctx, options, error);
	if (code == TFC_OK)
		code = ctx_mark_owner(ctx, error);
	if (code == TFC_OK)
		code = ctx_open_fds(ctx, error);
	if (code < 0) {
		pthread_mutex_destroy(&ctx->mutex);
		ctx_destroy(ctx);
		return code;
	}
	*ret_ctx = ctx;
	return TFC_OK;
}

void tfc_ctx_free(tfc_ctx *ctx)
{
	if (!ctx)
		return;
	if (tfc__ctx_is_forked(ctx)) {
		tfc_ctx_abandon(ctx);
		return;
	}
	if (ctx->is_dispatching) {
		tfc__log(ctx, TFC_LOG_ERROR, "ctx", "",
			 "tfc_ctx_free was called inside a callback; the context is not freed");
		return;
	}
	tfc__ctx_close_handles(ctx);
	ctx_free_slots(ctx, false);
	pthread_mutex_destroy(&ctx->mutex);
	ctx_destroy(ctx);
}

int tfc_ctx_close(tfc_ctx *ctx)
{
	if (!ctx)
		return TFC_OK;
	int code = tfc__ctx_enter(ctx);
	if (code < 0)
		return code;
	if (ctx->is_dispatching)
		return tfc__fail(&ctx->error, TFC_ESTATE, "ctx", 0,
				 "cannot close the context inside one of its callbacks");
	code = tfc__ctx_check_handles(ctx);
	if (code == TFC_OK)
		tfc_ctx_free(ctx);
	return code;
}

/*
 * Parent and child share the epoll, timerfd and eventfd objects: the child closes its descriptors
 * without changing the objects. The mutex is not destroyed, because another thread of the parent
 * may have held it at the fork.
 */
void tfc_ctx_abandon(tfc_ctx *ctx)
{
	if (!ctx)
		return;
	tfc__ctx_close_fds(ctx);
	ctx_free_slots(ctx, true);
	ctx_destroy(ctx);
}

bool tfc__ctx_is_forked(const tfc_ctx *ctx)
{
	return !*ctx->is_owned;
}

bool tfc__ctx_is_ending(const tfc_ctx *ctx)
{
	return ctx->is_ending;
}

int tfc__ctx_enter(tfc_ctx *ctx)
{
	if (!ctx)
		return TFC_EINVAL;
	if (tfc__ctx_is_forked(ctx))
		return tfc__fail(&ctx->error, TFC_EFORK, "ctx", 0,
				 "process %d opened this context; process %d is its fork and may "
				 "call only tfc_ctx_abandon",
				 (int)ctx->owner, (int)getpid());
	return TFC_OK;
}

int tfc_ctx_fd(tfc_ctx *ctx)
{
	int code = tfc__ctx_enter(ctx);
	return code < 0 ? code : ctx->epoll_fd;
}

const tfc_error *tfc_ctx_error(const tfc_ctx *ctx)
{
	static const tfc_error no_context = {TFC_EINVAL, 0, "ctx", "no context"};
	return ctx ? &ctx->error : &no_context;
}

tfc_error *tfc__ctx_error(tfc_ctx *ctx)
{
	return &ctx->error;
}

const char *tfc__ctx_helper_dir(const tfc_ctx *ctx)
{
	return ctx->helper_dir ? ctx->helper_dir : TFC__HELPER_DIR;
}

void *tfc__ctx_slot(const tfc_ctx *ctx, enum tfc__slot which)
{
	return ctx->slots[which].value;
}

void tfc__ctx_set_slot(tfc_ctx *ctx, enum tfc__slot which, void *slot, tfc__slot_free_fn free_fn)
{
	ctx->slots[which] = (struct slot){slot, free_fn};
}
