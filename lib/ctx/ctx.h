/*
 * The internal interface of the context, for the modules below: descriptors, timers, deferred work,
 * operations.
 *
 * The structs are embedded in their owners, so these functions do not allocate. An owner may close
 * any of them inside any callback, including its own; no callback of a closed struct is called
 * afterwards.
 */
#ifndef TFC_CTX_CTX_H
#define TFC_CTX_CTX_H

#include "base/fail.h"
#include "base/list.h"
#include "base/observers.h"
#include <stdbool.h>
#include <stdint.h>
#include <tfcluster/ctx.h>

/* ---- entry checks of every public function, errors, log */

/* Returns 0, TFC_EINVAL when ctx is NULL, or TFC_EFORK in a forked child. */
int tfc__ctx_enter(tfc_ctx *ctx);

/* Fills the context's error and returns `code`, like tfc__fail. */
int tfc__ctx_fail(tfc_ctx *ctx, int code, const char *component, int sys_errno, const char *format,
		  ...) TFC_PRINTF(5, 6);

/* The context's error, for functions that have an `error` argument. */
tfc_error *tfc__ctx_error(tfc_ctx *ctx);

const char *tfc__ctx_helper_dir(const tfc_ctx *ctx);

void tfc__log(tfc_ctx *ctx, enum tfc_log_level level, const char *component, const char *subject,
	      const char *format, ...) TFC_PRINTF(5, 6);

/* ---- a watched descriptor (EPOLLIN, EPOLLOUT; level-triggered) */

struct tfc__io;
typedef void (*tfc__io_fn)(struct tfc__io *io, uint32_t events);

struct tfc__io {
	tfc_ctx *ctx; /* NULL: closed */
	int fd;       /* owned by the caller, who closes it after tfc__io_close */
	uint32_t events;
	tfc__io_fn fn;
};

int tfc__io_open(struct tfc__io *io, tfc_ctx *ctx, int fd, uint32_t events, tfc__io_fn fn);
int tfc__io_set(struct tfc__io *io, uint32_t events);
void tfc__io_close(struct tfc__io *io); /* a no-op when closed */

/*
 * ---- a descriptor of which a forked child of the host must not keep a copy: the other end of a
 * connection would wait for a dead process, or a port would stay in use. tfc_ctx_abandon closes the
 * child's copy.
 */

struct tfc__noted_fd {
	struct tfc__link link;
	int fd; /* -1: none */
};

void tfc__fd_note(tfc_ctx *ctx, struct tfc__noted_fd *note, int fd);
void tfc__fd_close(struct tfc__noted_fd *note); /* a no-op if the fd is -1 */

/* ---- stalls of the host's loop */

/* Notified when the context ran nothing for 2 s or more although a timer was due, or the machine
 * was suspended for as long. The event is a const uint64_t, in ns. */
void tfc__ctx_watch_stalls(tfc_ctx *ctx, struct tfc__observer *observer);

/* ---- a timer on CLOCK_MONOTONIC; a timer that is not set causes no wake-up */

struct tfc__timer;
typedef void (*tfc__timer_fn)(struct tfc__timer *timer);

struct tfc__timer {
	tfc_ctx *ctx;
	tfc__timer_fn fn;
	uint64_t at;              /* in ns of tfc__now(); 0: not set */
	struct tfc__timer *child; /* pairing heap */
	struct tfc__timer *next;
	struct tfc__timer *prev; /* left sibling, or parent for a first child */
};

void tfc__timer_init(struct tfc__timer *timer, tfc_ctx *ctx, tfc__timer_fn fn);
void tfc__timer_set(struct tfc__timer *timer, uint64_t at); /* one-shot; replaces an earlier time */
void tfc__timer_cancel(struct tfc__timer *timer);

/* ---- deferred work: runs in a later turn of dispatch, never inside the submitting call */

struct tfc__work;
typedef void (*tfc__work_fn)(struct tfc__work *work);

struct tfc__work {
	struct tfc__link link;
	tfc_ctx *ctx;
	tfc__work_fn fn;
};

void tfc__work_init(struct tfc__work *work, tfc_ctx *ctx, tfc__work_fn fn);
void tfc__work_schedule(struct tfc__work *work); /* a no-op when already scheduled */
void tfc__work_cancel(struct tfc__work *work);

/* ---- operations: a tfc_op has a deadline and exactly one terminal callback */

/*
 * The terminal callback of an operation. It is called exactly once, from dispatch, with 0 (after
 * tfc__op_finish), TFC_ECANCELED or TFC_ETIMEDOUT. The callback may free the embedding struct.
 */
typedef void (*tfc__op_end_fn)(tfc_op *op, int code);

struct tfc_op {
	struct tfc__timer deadline;
	struct tfc__work work;
	tfc__op_end_fn end;
	void (*free)(tfc_op *op); /* NULL: the context does not free it */
	struct tfc__link link;    /* in the context's `ops` when `free` is set */
	int code;
	bool is_ending;
};

void tfc__op_init(tfc_op *op, tfc_ctx *ctx, uint32_t timeout_ms, tfc__op_end_fn end);
/* Sets the function that frees the operation, without the terminal callback, when the context is
 * freed before the operation has ended. */
void tfc__op_free_with(tfc_op *op, void (*free_fn)(tfc_op *op));
/* Like tfc__op_free_with, for an object that operations use: it is freed after all operations.
 * Connections send nothing from the first of these calls on (tfc__ctx_is_ending). */
void tfc__op_free_last(tfc_op *op, void (*free_fn)(tfc_op *op));
bool tfc__ctx_is_ending(const tfc_ctx *ctx); /* the context is being freed, its operations too */
void tfc__op_finish(tfc_op *op);             /* calls `end` with 0 in a later turn of dispatch */
void tfc__op_drop(tfc_op *op); /* removes it without a callback, after a failed submit */

/* ---- handles that the host opened: tfc_ctx_close counts them in its error, tfc_ctx_free closes
 * them */

enum tfc__handle_kind {
	TFC__HANDLE_PORT_POOL,
	TFC__HANDLE_PORT_HOLD,
	TFC__HANDLE_PROCESS,
	TFC__HANDLE_NODE,
	TFC__HANDLE_MEMBER_WATCH,
	TFC__HANDLE_GATEWAY,
	TFC__HANDLE_SUBSCRIPTION,
	TFC__HANDLE_FEED_PRODUCER,
	TFC__HANDLE_FEED_CONSUMER,
	TFC__HANDLE_ALLOCATION,
	TFC__HANDLE_KINDS,
};

/* Part of each handle, zero until it is open. It stays zero in a handle that the library opens for
 * its own use. */
struct tfc__handle {
	struct tfc__link link;
	enum tfc__handle_kind kind;
	void (*close)(struct tfc__handle *handle);
};

void tfc__handle_open(tfc_ctx *ctx, struct tfc__handle *handle, enum tfc__handle_kind kind,
		      void (*close_fn)(struct tfc__handle *handle));
void tfc__handle_closed(struct tfc__handle *handle); /* a no-op when not open */

/* ---- slots: objects that live as long as the context, one of each kind, created on first use */

/* Freed from the last to the first: an object may use those of earlier slots. */
enum tfc__slot { TFC__SLOT_GUARDS, TFC__SLOT_TRANSPORTS, TFC__SLOTS };

typedef void (*tfc__slot_free_fn)(void *slot, bool is_forked);

void *tfc__ctx_slot(const tfc_ctx *ctx, enum tfc__slot which); /* NULL until set */
void tfc__ctx_set_slot(tfc_ctx *ctx, enum tfc__slot which, void *slot, tfc__slot_free_fn free_fn);

#endif
