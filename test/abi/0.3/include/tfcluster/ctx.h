/*
 * The context: everything the library does on behalf of one host loop.
 *
 * A context has one level-triggered file descriptor. A host with a loop of its own (poll, epoll,
 * libuv, glib) waits for the descriptor, and calls tfc_ctx_dispatch when it is readable. A host
 * without a loop calls tfc_ctx_run. The callbacks of everything opened under the context run only
 * inside these two calls, on the thread that makes them. There are three exceptions. Any call may
 * run tfc_ctx_options.log and the functions in a host's tables (backend.h, upstream.h). The comment
 * of a call such as tfc_member_list says that it runs its function before it returns.
 *
 * Threads: only one thread at a time may use a context and what is opened under it. Any thread may,
 * as long as the calls do not overlap. Only tfc_ctx_post and tfc_ctx_wake may be called at the same
 * time as another call. Several contexts in one process are independent.
 *
 * Forks: a child that the host forks without exec calls tfc_ctx_abandon; tfc_ctx_free does the same
 * there. In the child every other call on the context does nothing, and returns TFC_EFORK if it
 * returns a code.
 *
 * The library has no globals, installs no signal handler, reaps no child but its own, writes
 * nothing to stderr, reads no environment variable, and does not change the locale, the umask or
 * the working directory. All its descriptors are close-on-exec.
 */
#ifndef TFCLUSTER_CTX_H
#define TFCLUSTER_CTX_H

#include <stdint.h>
#include <tfcluster/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfc_ctx tfc_ctx;

enum tfc_log_level {
	TFC_LOG_NONE = 0, /* log nothing */
	TFC_LOG_ERROR = 1,
	TFC_LOG_WARNING = 2,
	TFC_LOG_INFO = 3,
	TFC_LOG_DEBUG = 4,
};

/* One log entry. Borrowed: valid during the callback. */
typedef struct tfc_log_entry {
	uint32_t size;
	uint32_t level;        /* enum tfc_log_level */
	const char *component; /* "proc", "port", ... */
	const char *subject;   /* what it is about: a job id, "worker/0", or "" */
	const char *text;      /* one line, no newline */
	int32_t code;          /* enum tfc_err, or 0 */
	int32_t sys_errno;     /* or 0 */
} tfc_log_entry;

/**
 * Receives log entries. Runs inside any call on the context, on the thread of that call, and must
 * not call the library.
 */
typedef void (*tfc_log_fn)(void *user, const tfc_log_entry *entry);

/* Options of a context. Zero is the default of every field. */
typedef struct tfc_ctx_options {
	uint32_t size;      /* sizeof(tfc_ctx_options) */
	uint32_t log_level; /* enum tfc_log_level: the highest level that is reported */
	tfc_log_fn log;     /* NULL: no log */
	void *log_user;     /* handed to log */
	const char
		*helper_dir; /* directory of tfc-guard and tfc-shim; NULL: as installed; copied */
} tfc_ctx_options;

#define TFC_CTX_OPTIONS_INIT                        \
	{                                           \
		sizeof(tfc_ctx_options), 0, 0, 0, 0 \
	}

/**
 * Sets all fields to their defaults, for hosts that cannot use the initializer. `size` is
 * sizeof(tfc_ctx_options) of the host. A call that receives the struct fails with TFC_EINVAL if
 * `size` is not set, and with TFC_ENOTSUP if a field is set that this version of the library does
 * not know. Thread: any. Errors: TFC_EINVAL (options is NULL, or size below 4), TFC_ENOTSUP (size
 * is more than 4,096 bytes above the library's).
 */
TFC_API int tfc_ctx_options_init(tfc_ctx_options *options, uint32_t size);

/**
 * Makes a context. `options` may be NULL. The caller owns *ret_ctx and ends it with tfc_ctx_close
 * or tfc_ctx_free. Thread: any. Errors: TFC_EINVAL, TFC_ENOTSUP, TFC_ENOMEM, TFC_EMFILE, TFC_ESYS.
 */
TFC_API int tfc_ctx_new(const tfc_ctx_options *options, tfc_error *error, tfc_ctx **ret_ctx);

/**
 * Closes the context if everything that was opened under it is closed, and frees it as tfc_ctx_free
 * does. Replies that are still pending are dropped. NULL is a no-op. Thread: the context's. Errors:
 * TFC_EBUSY (handles are open; the text counts them by kind), TFC_ESTATE (inside a callback),
 * TFC_EFORK; the context then stays as it is.
 */
TFC_API int tfc_ctx_close(tfc_ctx *ctx);

/**
 * Closes everything that is still open under the context, the newest first, and frees the context.
 * All handles under it are then invalid. The processes of the context's guard are killed, pending
 * requests get no reply, and no callback runs any more. The call waits for the guard's end, some
 * seconds at most. Inside a callback it has no effect, and logs an error. NULL is a no-op. In a
 * forked child it acts as tfc_ctx_abandon. Thread: the context's.
 */
TFC_API void tfc_ctx_free(tfc_ctx *ctx);

/**
 * Returns the descriptor to wait for, which is readable while the context has something to do. It
 * is the same for the life of the context. Borrowed: never read, write or close it. Thread: the
 * context's. Errors: TFC_EINVAL, TFC_EFORK.
 */
TFC_API int tfc_ctx_fd(tfc_ctx *ctx);

/**
 * Does the work that is due and runs the callbacks, without waiting. `budget` limits the number of
 * callbacks (0: the library's choice), so that a busy context cannot starve the host's loop.
 * Returns 1 when more work is pending now (for edge-triggered loops; the descriptor stays
 * readable), else 0. Not inside a callback. Thread: the context's. Errors: TFC_EINVAL, TFC_EFORK,
 * TFC_ESTATE (inside a callback), TFC_ESYS.
 */
TFC_API int tfc_ctx_dispatch(tfc_ctx *ctx, uint32_t budget);

/**
 * Waits up to `timeout_ms` milliseconds (-1: for ever) until something is due, then dispatches once
 * and returns the result of tfc_ctx_dispatch. Returns 0 when nothing was due in that time, or when
 * a signal interrupted the wait. Thread: the context's. Errors: as tfc_ctx_dispatch.
 */
TFC_API int tfc_ctx_run(tfc_ctx *ctx, int timeout_ms);

/** Runs once in the next dispatch. */
typedef void (*tfc_post_fn)(void *user);

/**
 * Makes the next dispatch call fn(user). Functions that one thread posts run in that order. Those
 * still pending when the context is freed do not run. Thread: any, also beside other calls.
 * Errors: TFC_EINVAL, TFC_ENOMEM, TFC_EFORK.
 */
TFC_API int tfc_ctx_post(tfc_ctx *ctx, tfc_post_fn fn, void *user);

/**
 * Makes the descriptor readable once: a tfc_ctx_run in another thread returns.
 * Thread: any, also beside other calls; not from a signal handler. Errors: TFC_EINVAL, TFC_EFORK.
 */
TFC_API int tfc_ctx_wake(tfc_ctx *ctx);

/**
 * The last failure of a call on this context; never NULL, code 0 when there was none. A call that
 * succeeds does not clear it. Borrowed: valid until the next failing call. NULL yields a static "no
 * context" error. Thread: the context's. Errors: none.
 */
TFC_API const tfc_error *tfc_ctx_error(const tfc_ctx *ctx);

/**
 * For a forked child: closes the child's copies of the context's sockets, held ports and other
 * descriptors, and frees the context's memory, without an effect on the parent. Only logs and
 * directories that were open for reading stay open. Handles that were opened under the context must
 * not be used in the child. NULL is a no-op. Thread: any of the child's. Errors: none.
 */
TFC_API void tfc_ctx_abandon(tfc_ctx *ctx);

/*
 * A pending operation, which an asynchronous call returns. It ends by calling its callback exactly
 * once, inside dispatch. When the callback begins, the handle is no longer valid.
 */
typedef struct tfc_op tfc_op;

/**
 * Cancels an operation: its callback gets TFC_ECANCELED in a later dispatch. Effects that the
 * operation already had are not undone. An operation that is about to end anyway ends normally.
 * Legal inside a callback. NULL is a no-op. Thread: the context's.
 */
TFC_API void tfc_op_cancel(tfc_op *op);

#ifdef __cplusplus
}
#endif
#endif
