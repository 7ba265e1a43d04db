/*
 * The inside of the context, for the modules below: descriptors, timers, deferred work, operations.
 *
 * The structs are embedded in their owners, so nothing here allocates on the way. An owner may
 * close any of them inside any callback, its own included; nothing is called for it afterwards.
 */
#ifndef TFC_CTX_CTX_H
#define TFC_CTX_CTX_H

#include "base/fail.h"
#include "base/list.h"
#include <stdbool.h>
#include <stdint.h>
#include <tfcluster/ctx.h>

/* ---- every public function begins with one of these */

/* 0, or TFC_EINVAL for NULL, or TFC_EFORK in a forked child. */
int tfc__ctx_enter(tfc_ctx *ctx);

/* Fills the context's error and returns code, as tfc__fail. */
int tfc__ctx_fail(tfc_ctx *ctx, int code, const char *component, int sys_errno, const char *format,
		  ...) TFC_PRINTF(5, 6);

/* The context's error, for calls that take one. */
tfc_error *tfc__ctx_error(tfc_ctx *ctx);

const char *tfc__ctx_helper_dir(const tfc_ctx *ctx);

void tfc__log(tfc_ctx *ctx, enum tfc_log_level level, const char *component, const char *subject,
	      const char *format, ...) TFC_PRINTF(5, 6);

/* ---- a descriptor that is watched (EPOLLIN, EPOLLOUT; level-triggered) */

struct tfc__io;
typedef void (*tfc__io_fn)(struct tfc__io *io, uint32_t events);

struct tfc__io {
	tfc_ctx *ctx; /* NULL: not open */
	int fd;       /* owned by the caller, who closes it after tfc__io_close */
	uint32_t events;
	tfc__io_fn fn;
};

int tfc__io_open(struct tfc__io *io, tfc_ctx *ctx, int fd, uint32_t events, tfc__io_fn fn);
int tfc__io_set(struct tfc__io *io, uint32_t events);
void tfc__io_close(struct tfc__io *io); /* a no-op when not open */

/* ---- a timer, CLOCK_MONOTONIC; costs no wake-up while it is not set */

struct tfc__timer;
typedef void (*tfc__timer_fn)(struct tfc__timer *timer);

struct tfc__timer {
	tfc_ctx *ctx;
	tfc__timer_fn fn;
	uint64_t at;              /* nanoseconds of tfc__now(); 0: not set */
	struct tfc__timer *child; /* pairing heap */
	struct tfc__timer *next;
	struct tfc__timer *prev; /* left sibling, or parent for a first child */
};

void tfc__timer_init(struct tfc__timer *timer, tfc_ctx *ctx, tfc__timer_fn fn);
void tfc__timer_set(struct tfc__timer *timer, uint64_t at); /* again: moves it; fires once */
void tfc__timer_cancel(struct tfc__timer *timer);

/* ---- work for a later turn of dispatch, never inside the call that asks for it */

struct tfc__work;
typedef void (*tfc__work_fn)(struct tfc__work *work);

struct tfc__work {
	struct tfc__link link;
	tfc_ctx *ctx;
	tfc__work_fn fn;
};

void tfc__work_init(struct tfc__work *work, tfc_ctx *ctx, tfc__work_fn fn);
void tfc__work_schedule(struct tfc__work *work); /* once, however often asked */
void tfc__work_cancel(struct tfc__work *work);

/* ---- operations: tfc_op with a deadline and one terminal call */

/*
 * How an operation ends: called exactly once, from dispatch, with 0 (tfc__op_finish was called),
 * TFC_ECANCELED or TFC_ETIMEDOUT. The embedding struct may be freed inside.
 */
typedef void (*tfc__op_end_fn)(tfc_op *op, int code);

struct tfc_op {
	struct tfc__timer deadline;
	struct tfc__work work;
	tfc__op_end_fn end;
	void (*free)(tfc_op *op); /* NULL: the owner frees it in any case */
	struct tfc__link link;    /* of those with free: the context's */
	int code;
	bool is_ending;
};

void tfc__op_init(tfc_op *op, tfc_ctx *ctx, uint32_t timeout_ms, tfc__op_end_fn end);
/* What frees the operation, without a call, when the context is freed before it has ended. */
void tfc__op_free_with(tfc_op *op, void (*free_fn)(tfc_op *op));
/* The same for what operations use: behind all of them. Nothing is sent any more then. */
void tfc__op_free_last(tfc_op *op, void (*free_fn)(tfc_op *op));
bool tfc__ctx_is_ending(const tfc_ctx *ctx); /* operations are being freed with it */
void tfc__op_finish(tfc_op *op);             /* ends with 0 in a later turn of dispatch */
void tfc__op_drop(tfc_op *op); /* takes it back without a call, for a submit that fails */

/* ---- handles that the host opened: tfc_ctx_close names them, tfc_ctx_free closes them */

enum tfc__handle_kind {
	TFC__HANDLE_PORT_POOL,
	TFC__HANDLE_PORT_HOLD,
	TFC__HANDLE_PROCESS,
	TFC__HANDLE_NODE,
	TFC__HANDLE_MEMBER_WATCH,
	TFC__HANDLE_GATEWAY,
	TFC__HANDLE_SUBSCRIPTION,
	TFC__HANDLE_KINDS,
};

/* Part of each handle, zero until it is open. What the library opens for itself stays zero. */
struct tfc__handle {
	struct tfc__link link;
	enum tfc__handle_kind kind;
	void (*close)(struct tfc__handle *handle);
};

void tfc__handle_open(tfc_ctx *ctx, struct tfc__handle *handle, enum tfc__handle_kind kind,
		      void (*close_fn)(struct tfc__handle *handle));
void tfc__handle_closed(struct tfc__handle *handle); /* a no-op for one that is not open */

/* ---- things that live as long as the context, one of a kind, made on first use */

/* Freed from the last to the first: a later one may use an earlier one. */
enum tfc__slot { TFC__SLOT_GUARDS, TFC__SLOT_TRANSPORTS, TFC__SLOTS };

typedef void (*tfc__slot_free_fn)(void *slot, bool is_forked);

void *tfc__ctx_slot(const tfc_ctx *ctx, enum tfc__slot which); /* NULL while there is none */
void tfc__ctx_set_slot(tfc_ctx *ctx, enum tfc__slot which, void *slot, tfc__slot_free_fn free_fn);

#endif
