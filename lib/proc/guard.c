#include "proc/guard.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pass.h"

#define BATCH 64 /* reports handled per iteration of dispatch */

/*
 * The time that a shim may need, beyond its task's grace, to end the task once the guard is dead.
 * The host waits in short intervals, as for a guard that does not respond: a suspend of the machine
 * uses up one interval, and the shims have the remaining ones to notice and act.
 */
#define MARGIN_MS 120000
#define PATIENCE_INTERVAL_MS 2000

/* ---- the end */

static void guard_close_io(struct tfc__io *io)
{
	int fd = io->fd;
	tfc__io_close(io);
	if (fd >= 0)
		close(fd);
	io->fd = -1;
}

/* The pidfd names the guard even if its pid was reused. ECHILD: the host program has reaped it. */
void tfc__guard_reap(struct tfc__guard *guard)
{
	siginfo_t info;
	if (guard->pidfd.fd >= 0)
		waitid((idtype_t)P_PIDFD, (id_t)guard->pidfd.fd, &info, WEXITED | WNOHANG);
	else
		waitpid(guard->pid, NULL, WNOHANG);
}

void tfc__guard_free(struct tfc__guard *guard)
{
	guard_close_io(&guard->socket);
	guard_close_io(&guard->pidfd);
	guard_close_io(&guard->lifeline);
	tfc__timer_cancel(&guard->patience);
	tfc__timer_cancel(&guard->heartbeat);
	tfc__work_cancel(&guard->end);
	TFC__LIST_EACH (link, &guard->parked)
		tfc__list_remove(link);
	TFC__LIST_EACH (link, &guard->releasing)
		tfc__list_remove(link);
	tfc__guard_drop_queue(guard);
	tfc__guard_forget_ports(guard);
	free(guard->table);
	free(guard);
}

/*
 * A shim that was killed together with its guard has killed only its task. The task's descendants
 * are still in its cgroup. Another guard kills them before it starts anything for this context.
 */
static void guard_clear_groups(tfc_ctx *ctx)
{
	const struct tfc__command command = {.kind = TFC__MSG_CLEAR};
	struct tfc__guard *next;
	int code = tfc__guard_get(ctx, &next);
	if (code == TFC_OK)
		code = tfc__guard_send(next, &command, -1, NULL, 0);
	if (code < 0)
		tfc__log(ctx, TFC_LOG_ERROR, "proc", "",
			 "cannot remove the guard's cgroups; the next guard will try again: %s",
			 tfc_ctx_error(ctx)->text);
}

static void guard_finish(struct tfc__guard *guard)
{
	guard_close_io(&guard->lifeline);
	tfc__timer_cancel(&guard->patience);
	if (tfc__guard_has_groups(guard))
		guard_clear_groups(guard->ctx);
	tfc__guard_report_all_lost(guard);
	tfc__guard_unpark(&guard->releasing);
	tfc__guard_reap(guard);
	tfc__list_remove(&guard->link);
	tfc__guard_free(guard);
}

/* A guard that was killed closes its end of the lifeline shortly before it can be reaped. */
static void guard_shims_ended(struct tfc__guard *guard)
{
	guard->are_shims_ended = true;
	if (guard->pidfd.ctx)
		guard_close_io(&guard->lifeline);
	else
		guard_finish(guard);
}

static void guard_on_lifeline(struct tfc__io *io, uint32_t events)
{
	guard_shims_ended(tfc__container_of(io, struct tfc__guard, lifeline));
}

static void guard_on_patience(struct tfc__timer *timer)
{
	struct tfc__guard *guard = tfc__container_of(timer, struct tfc__guard, patience);
	if (--guard->patience_intervals) {
		tfc__timer_set(timer, tfc__now() + PATIENCE_INTERVAL_MS * TFC__MS);
		return;
	}
	((struct tfc__guards *)tfc__ctx_slot(guard->ctx, TFC__SLOT_GUARDS))->has_unseen_end = true;
	guard_finish(guard);
}

/* In dispatch: the processes are lost once their shims are gone. */
static void guard_begin_end(struct tfc__work *work)
{
	struct tfc__guard *guard = tfc__container_of(work, struct tfc__guard, end);
	struct tfc__guards *guards = tfc__ctx_slot(guard->ctx, TFC__SLOT_GUARDS);
	struct tfc__guard *next;
	/* A guard must be there to clean up after the host. */
	bool is_wanted = !tfc__list_is_empty(&guards->dirs) || !tfc__list_is_empty(&guards->leases);
	if (is_wanted && tfc__guard_get(guard->ctx, &next) < 0)
		tfc__log(guard->ctx, TFC_LOG_ERROR, "proc", "", "cannot start another guard: %s",
			 tfc_ctx_error(guard->ctx)->text);
	if (guard->lifeline.fd < 0 || tfc__io_open(&guard->lifeline, guard->ctx, guard->lifeline.fd,
						   EPOLLIN, guard_on_lifeline) < 0) {
		guards->has_unseen_end = true;
		guard_shims_ended(guard);
		return;
	}
	guard->patience_intervals = (guard->longest_grace_ms + MARGIN_MS) / PATIENCE_INTERVAL_MS;
	tfc__timer_set(&guard->patience, tfc__now() + PATIENCE_INTERVAL_MS * TFC__MS);
}

bool tfc__guard_is_exiting(const struct tfc__guard *guard)
{
	return guard->is_dead && guard->pidfd.ctx;
}

void tfc__guard_died(struct tfc__guard *guard)
{
	if (guard->is_dead)
		return;
	struct tfc__guards *guards = tfc__ctx_slot(guard->ctx, TFC__SLOT_GUARDS);
	guard->is_dead = true;
	guards->early_ends += !guard->is_known;
	/* It may be alive, if only the socket has failed, and it must not publish the last will. */
	tfc__guard_kill(guard);
	if (guards->current == guard)
		guards->current = NULL;
	tfc__list_append(&guards->dead, &guard->link);
	guard_close_io(&guard->socket);
	tfc__timer_cancel(&guard->heartbeat);
	tfc__guard_drop_queue(guard);
	tfc__guard_unpark(&guard->parked);
	if (!tfc__guard_is_exiting(guard))
		tfc__guard_unpark(&guard->releasing);
	tfc__guard_lose_ports(guard);
	tfc__work_schedule(&guard->end);
	tfc__log(guard->ctx, TFC_LOG_ERROR, "proc", "", "the guard (process %d) has died",
		 (int)guard->pid);
}

/* ---- its messages */

static void guard_on_death(struct tfc__io *io, uint32_t events)
{
	struct tfc__guard *guard = tfc__container_of(io, struct tfc__guard, pidfd);
	tfc__io_close(io);
	tfc__guard_reap(guard);
	tfc__guard_unpark(&guard->releasing);
	if (guard->are_shims_ended) {
		guard_finish(guard);
	} else if (!guard->is_dead) {
		tfc__guard_receive(guard); /* messages that it sent before its death */
		tfc__guard_died(guard);
	}
}

void tfc__guard_watch(struct tfc__guard *guard, int pidfd)
{
	guard->pidfd.fd = pidfd;
	tfc__io_open(&guard->pidfd, guard->ctx, pidfd, EPOLLIN, guard_on_death);
}

/*
 * If this process had no descriptors left to receive them, only the end of the socket reports the
 * guard's death.
 */
static void guard_handle_hello(struct tfc__guard *guard, int fds[2])
{
	struct tfc__guards *guards = tfc__ctx_slot(guard->ctx, TFC__SLOT_GUARDS);
	guards->early_ends = 0;
	guard->is_known = true;
	if (!guard->stops && tfc__list_is_empty(&guard->releasing))
		tfc__timer_cancel(&guard->heartbeat);
	if (fds[1] < 0)
		return;
	guard->lifeline.fd = fds[0];
	tfc__guard_watch(guard, fds[1]);
	fds[0] = fds[1] = -1;
}

static void guard_handle_report(struct tfc__guard *guard, struct tfc__report *report, int fds[2])
{
	tfc_process *process = tfc__guard_find(guard, report->id);
	guard->missed_heartbeats = 0;
	if (report->kind == TFC__MSG_HELLO)
		guard_handle_hello(guard, fds);
	else if (report->kind == TFC__MSG_OVER)
		tfc__lease_ended(guard->ctx, report->id);
	else if (report->kind == TFC__MSG_NOT_KEPT)
		tfc__guard_not_kept(guard, (uint32_t)report->id);
	else if (report->kind == TFC__MSG_PONG)
		tfc__guard_ponged(guard);
	else if (process)
		tfc__process_receive(process, report);
}

void tfc__guard_receive(struct tfc__guard *guard)
{
	for (int i = 0; i < BATCH && !guard->is_dead; i++) {
		struct tfc__report report;
		int fds[2]; /* every received descriptor must be closed here */
		ssize_t len = tfc__pass_recv(guard->socket.fd, &report, sizeof(report),
					     MSG_DONTWAIT, fds, 2);
		if (len < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (len == (ssize_t)sizeof(report) && tfc__guard_report_is_valid(guard, &report))
			guard_handle_report(guard, &report, fds);
		else if (len <= 0)
			tfc__guard_died(guard);
		else { /* before the hello the program is of another version, then it is faulty */
			struct tfc__guards *guards = tfc__ctx_slot(guard->ctx, TFC__SLOT_GUARDS);
			guards->is_foreign = guards->is_foreign || !guard->is_known;
			tfc__guard_fail(
				guard, "sent a message that a guard of this version does not send");
		}
		for (int k = 0; k < 2; k++)
			if (fds[k] >= 0)
				close(fds[k]);
	}
}

static void guard_on_socket(struct tfc__io *io, uint32_t events)
{
	struct tfc__guard *guard = tfc__container_of(io, struct tfc__guard, socket);
	if (events & EPOLLOUT)
		tfc__guard_flush(guard);
	if (!guard->is_dead && (events & ~(uint32_t)EPOLLOUT))
		tfc__guard_receive(guard);
}

/* ---- the start */

int tfc__guards_get(tfc_ctx *ctx, struct tfc__guards **ret_guards)
{
	struct tfc__guards *guards = tfc__ctx_slot(ctx, TFC__SLOT_GUARDS);
	if (!guards) {
		guards = calloc(1, sizeof(*guards));
		if (!guards)
			return tfc__fail_nomem(tfc__ctx_error(ctx), "proc");
		tfc__list_init(&guards->dead);
		tfc__list_init(&guards->leases);
		tfc__list_init(&guards->dirs);
		tfc__ctx_set_slot(ctx, TFC__SLOT_GUARDS, guards, tfc__guards_leave);
	}
	*ret_guards = guards;
	return TFC_OK;
}

int tfc__guard_get(tfc_ctx *ctx, struct tfc__guard **ret_guard)
{
	struct tfc__guards *guards = NULL;
	int code = tfc__guards_get(ctx, &guards);
	if (code < 0)
		return code;
	if (guards->current) {
		*ret_guard = guards->current;
		return TFC_OK;
	}
	if (guards->is_foreign)
		return tfc__ctx_fail(ctx, TFC_ENOTSUP, "proc", 0,
				     "\"%s/tfc-guard\" has another version than this library; "
				     "install both together",
				     tfc__ctx_helper_dir(ctx));
	if (guards->early_ends >= TFC__EARLY_ENDS_MAX)
		return tfc__ctx_fail(ctx, TFC_ESYS, "proc", 0,
				     "\"%s/tfc-guard\" ended %u times at startup; install it "
				     "again, or raise the limit of open files",
				     tfc__ctx_helper_dir(ctx), guards->early_ends);
	struct tfc__guard *guard = calloc(1, sizeof(*guard));
	if (!guard)
		return tfc__fail_nomem(tfc__ctx_error(ctx), "proc");
	guard->ctx = ctx;
	guard->socket.fd = guard->pidfd.fd = guard->lifeline.fd = -1;
	tfc__list_init(&guard->link);
	tfc__list_init(&guard->queue);
	tfc__list_init(&guard->parked);
	tfc__list_init(&guard->releasing);
	tfc__list_init(&guard->keeps);
	tfc__timer_init(&guard->patience, ctx, guard_on_patience);
	tfc__timer_init(&guard->heartbeat, ctx, tfc__guard_on_heartbeat);
	tfc__work_init(&guard->end, ctx, guard_begin_end);
	guard->number = ++guards->last_number;
	code = tfc__guard_run(guard);
	if (code == TFC_OK)
		code = tfc__io_open(&guard->socket, ctx, guard->socket.fd, EPOLLIN,
				    guard_on_socket);
	if (code < 0) {
		tfc__guard_free(guard);
		return code;
	}
	tfc__guard_expect(guard);
	guards->current = guard;
	tfc__leases_send(guard); /* leases first: they need no memory, directories do */
	TFC__LIST_EACH (link, &guards->dirs)
		if (code == TFC_OK)
			code = tfc__private_dir_send(
				guard, tfc__container_of(link, struct tfc__private_dir, link),
				true);
	if (code < 0)
		return code;
	*ret_guard = guard;
	return TFC_OK;
}

bool tfc__guard_is_busy(tfc_ctx *ctx)
{
	struct tfc__guards *guards = tfc__ctx_slot(ctx, TFC__SLOT_GUARDS);
	return guards && guards->current && !tfc__list_is_empty(&guards->current->queue);
}

void tfc__guard_when_free(tfc_ctx *ctx, struct tfc__work *work)
{
	struct tfc__guards *guards = tfc__ctx_slot(ctx, TFC__SLOT_GUARDS);
	if (!tfc__list_is_empty(&work->link))
		return;
	if (tfc__guard_is_busy(ctx))
		tfc__list_append(&guards->current->parked, &work->link);
	else
		tfc__work_schedule(work);
}

pid_t tfc__guard_pid(const tfc_ctx *ctx)
{
	const struct tfc__guards *guards = tfc__ctx_slot(ctx, TFC__SLOT_GUARDS);
	return guards && guards->current ? guards->current->pid : 0;
}

int tfc__guard_start(tfc_ctx *ctx)
{
	struct tfc__guard *guard;
	int code = tfc__ctx_enter(ctx);
	return code < 0 ? code : tfc__guard_get(ctx, &guard);
}
