#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "ctx/ctx.h"
#include "port/internal.h"
#include "port/owner.h"
#include "port/sock_diag.h"

/* ---- many ports */

struct each {
	tfc__listener_fn fn;
	void *user;
};

static void report_listener(void *user, const struct tfc__tcp_socket *socket)
{
	const struct each *each = user;
	each->fn(each->user, socket->port, socket->uid, socket->inode);
}

int tfc__port_each_listener(tfc_ctx *ctx, uint16_t first, uint16_t last, tfc__listener_fn fn,
			    void *user)
{
	struct each each = {fn, user};
	return tfc__tcp_each(first, last, TFC__TCP_LISTENERS, report_listener, &each,
			     tfc__ctx_error(ctx));
}

/* ---- one port */

bool tfc__port_is_searching(const tfc_port_hold *hold)
{
	return hold->search.inode != 0;
}

struct found_listeners {
	struct tfc__sought *items;
	size_t count;
	size_t capacity;
	bool is_failed;
};

static void found_listeners_add(void *user, const struct tfc__tcp_socket *socket)
{
	struct found_listeners *all = user;
	if (all->count == all->capacity && !all->is_failed) {
		size_t capacity = all->capacity ? 2 * all->capacity : 4;
		struct tfc__sought *items = realloc(all->items, capacity * sizeof(*items));
		all->is_failed = !items;
		if (items) {
			all->items = items;
			all->capacity = capacity;
		}
	}
	if (!all->is_failed)
		all->items[all->count++] = (struct tfc__sought){.inode = socket->inode,
								.uid = socket->uid};
}

/* Finds the owners of the listeners. Returns 0, or -1 and errno. */
static int found_listeners_describe(const struct found_listeners *all, pid_t root,
				    struct tfc__owner_search *search, tfc_port_listener *listener)
{
	listener->count = (uint32_t)all->count;
	if (!all->count)
		return 0;
	int failed = !root ? 0
		     : tfc__owner_kernel_lists_children()
			     ? tfc__owner_find_in_tree(root, all->items, all->count)
			     : tfc__owner_find_by_parents(root, all->items, all->count);
	if (failed)
		return -1;

	/* The first foreign listener (outside the process tree), or else the first listener. */
	const struct tfc__sought *one = all->items;
	for (size_t i = 0; one->pid && i < all->count; i++)
		if (!all->items[i].pid)
			one = &all->items[i];
	struct tfc__owner owner = {.pid = one->pid};
	if (one->pid)
		tfc__owner_program(one->pid, owner.program);
	else
		tfc__owner_find(search, one->inode, TFC__OWNER_SLICE, &owner);
	listener->uid = one->uid;
	listener->pid = owner.pid;
	listener->is_ours = one->pid != 0;
	memcpy(listener->program, owner.program, sizeof(listener->program));
	return 0;
}

int tfc_port_hold_listener(tfc_port_hold *hold, pid_t root, tfc_port_listener *ret_listener)
{
	int code = tfc__ctx_enter(hold ? hold->ctx : NULL);
	if (code)
		return code;
	if (root < 0)
		return tfc__ctx_fail(hold->ctx, TFC_EINVAL, "port", 0,
				     "root is %d; it must be a pid, or 0 for any process",
				     (int)root);
	if (!ret_listener || ret_listener->size < sizeof(uint32_t))
		return tfc__ctx_fail(
			hold->ctx, TFC_EINVAL, "port", 0,
			"ret_listener is NULL or not initialized; use TFC_PORT_LISTENER_INIT");

	tfc_port_listener listener = TFC_PORT_LISTENER_INIT;
	struct found_listeners all = {0};
	code = tfc__tcp_each(hold->port, hold->port, TFC__TCP_LISTENERS, found_listeners_add, &all,
			     tfc__ctx_error(hold->ctx));
	if (!code && all.is_failed)
		code = tfc__fail_nomem(tfc__ctx_error(hold->ctx), "port");
	if (!code && found_listeners_describe(&all, root, &hold->search, &listener))
		code = tfc__fail_errno(tfc__ctx_error(hold->ctx), "port", errno,
				       "cannot find the listener of port %u in /proc", hold->port);
	free(all.items);
	if (code)
		return code;
	uint32_t size = ret_listener->size;
	memcpy(ret_listener, &listener, size < sizeof(listener) ? size : sizeof(listener));
	ret_listener->size = size;
	return TFC_OK;
}

int tfc_port_listener_init(tfc_port_listener *listener, uint32_t size)
{
	return tfc__options_init(listener, size, sizeof(*listener));
}
