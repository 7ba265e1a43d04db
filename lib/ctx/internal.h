/*
 * Shared by the files of this module: the context itself and the four sources of callbacks.
 *
 * The context's descriptor is an epoll that watches
 *
 *   - the descriptors of the modules below (io.c),
 *   - a timerfd, armed for the earliest timer only (timer.c),
 *   - an eventfd, readable while posted calls, deferred work or a wake are pending (post.c).
 *
 * An idle context therefore causes no wake-up, and the descriptor is readable whenever work is
 * pending, as a level-triggered loop requires.
 */
#ifndef TFC_CTX_INTERNAL_H
#define TFC_CTX_INTERNAL_H

#include "ctx/ctx.h"
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/types.h>

enum {
	IO_BATCH = 64,
	SOURCE_COUNT = 4,
};

struct post {
	struct post *next;
	tfc_post_fn fn;
	void *user;
};

/* First in, first out. */
struct post_queue {
	struct post *first;
	struct post *last; /* undefined while `first` is NULL */
};

struct tfc_ctx {
	pid_t owner;          /* the process that created it */
	const bool *is_owned; /* false in a forked child */
	int epoll_fd;
	int timer_fd;
	int event_fd;
	bool is_dispatching;
	bool is_ending;
	uint32_t first_source; /* the source that runs first; not 0 after a budget ran out */

	struct epoll_event batch[IO_BATCH]; /* results of the last epoll_wait */
	int batch_len;                      /* nonzero outside dispatch: from tfc_ctx_run's wait */

	struct tfc__timer *timers; /* root of the heap: the earliest timer */
	uint64_t armed_at;         /* expiry of the timerfd, in ns; 0: disarmed */
	uint64_t due_at; /* when it becomes readable: `armed_at`, or when that was set, if later */

	struct tfc__observers stalls;
	uint64_t checked_at;  /* when this was last checked: at each turn */
	int64_t suspended_ns; /* CLOCK_BOOTTIME minus CLOCK_MONOTONIC, at that time */

	struct tfc__link fds;     /* struct tfc__noted_fd */
	struct tfc__link handles; /* struct tfc__handle, the newest last */
	struct tfc__link ops;     /* tfc_op with a `free` function */
	struct tfc__link work;
	struct tfc__link work_marker; /* in `work` during a turn: the end of the turn */

	struct post_queue fetched; /* moved out of `posted`, not called yet */
	pthread_mutex_t mutex;     /* guards the next three, which other threads access */
	struct post_queue posted;
	bool is_woken;
	bool is_signaled; /* the eventfd is readable */

	tfc_log_fn log;
	void *log_user;
	uint32_t log_level;
	char *helper_dir; /* NULL: the installed directory */
	tfc_error error;

	struct slot {
		void *value;
		tfc__slot_free_fn free;
	} slots[TFC__SLOTS];
};

bool tfc__ctx_is_forked(const tfc_ctx *ctx);

/* The sources: each runs callbacks and decrements *left for each, down to 0 at most. Each returns 0
 * or an enum tfc_err. */
int tfc__ctx_run_work(tfc_ctx *ctx, uint32_t *left);
int tfc__ctx_run_posts(tfc_ctx *ctx, uint32_t *left);
int tfc__ctx_run_timers(tfc_ctx *ctx, uint32_t *left);
int tfc__ctx_run_io(tfc_ctx *ctx, uint32_t *left);

/* Fills the batch. Returns the number of ready descriptors (0 also after a signal), or an enum
 * tfc_err. */
int tfc__ctx_fetch_io(tfc_ctx *ctx, int want, int timeout_ms);
/* Calls the callbacks of the descriptors in the batch and returns the number of calls. */
uint32_t tfc__ctx_walk_io(tfc_ctx *ctx);

/* Sets the timerfd to the earliest timer. A no-op when it is already set to that time, and in a
 * forked child. */
void tfc__ctx_arm(tfc_ctx *ctx);

/*
 * Makes the eventfd readable if and only if work, posts or a wake are pending, and returns whether
 * they are. A no-op in a forked child, where the eventfd is shared with the parent and the mutex
 * may be locked forever.
 */
bool tfc__ctx_signal(tfc_ctx *ctx);

/* Whether work or posts are pending. */
bool tfc__ctx_is_waiting(tfc_ctx *ctx);

/* TFC_OK, or TFC_EBUSY with a text that counts the open handles. */
int tfc__ctx_check_handles(tfc_ctx *ctx);
/* In a forked child: closes its copies of the noted descriptors. */
void tfc__ctx_close_fds(tfc_ctx *ctx);
/* Closes the open handles, the newest first. */
void tfc__ctx_close_handles(tfc_ctx *ctx);

void tfc__ctx_clear_wake(tfc_ctx *ctx);
void tfc__ctx_drop_posts(tfc_ctx *ctx);
void tfc__ctx_drop_ops(tfc_ctx *ctx);

#endif
