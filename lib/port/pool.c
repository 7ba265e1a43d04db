#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/options.h"
#include "base/random.h"
#include "ctx/ctx.h"
#include "port/bind.h"
#include "port/internal.h"

#define DEFAULT_FIRST 20000
#define DEFAULT_LAST 29999

int tfc_port_pool_options_init(tfc_port_pool_options *options, uint32_t size)
{
	return tfc__options_init(options, size, sizeof(*options));
}

/* ---- opening */

/*
 * Checks whether the process may bind the pool's lowest port by binding it: the limit is a sysctl
 * and the permission a capability. A port in use does not disturb the check, because the kernel
 * checks the permission first.
 */
static int pool_check_privilege(tfc_ctx *ctx, uint16_t first)
{
	if (first >= 1024)
		return TFC_OK;
	int fd = tfc__hold_socket();
	if (fd < 0)
		return tfc__fail_errno(tfc__ctx_error(ctx), "port", errno,
				       "cannot create a socket");
	int code = TFC_OK;
	if (tfc__hold_bind(&fd, first) && (errno == EACCES || errno == EPERM))
		code = tfc__ctx_fail(ctx, TFC_EACCES, "port", errno,
				     "tfc_port_pool_options.first (%u) is privileged; choose ports "
				     "above 1023 or give the process CAP_NET_BIND_SERVICE",
				     first);
	close(fd);
	return code;
}

/* The kernel may assign a port of the pool to an outgoing connection. The pool still works, but
 * that port is unavailable while the connection exists. */
static void pool_warn_of_overlap(const tfc_port_pool *pool)
{
	char text[4096];
	unsigned first = 0, last = 0;
	tfc__read_text("/proc/sys/net/ipv4/ip_local_port_range", text, sizeof(text));
	if (sscanf(text, "%u %u", &first, &last) != 2 || first > pool->last || last < pool->first)
		return;
	unsigned from = first > pool->first ? first : pool->first;
	unsigned to = last < pool->last ? last : pool->last;

	/* A list such as "8080,20000-29999": one entry covers the whole range, or none does. */
	tfc__read_text("/proc/sys/net/ipv4/ip_local_reserved_ports", text, sizeof(text));
	char *rest = text;
	for (char *entry; (entry = strsep(&rest, ",\n"));) {
		unsigned lowest = 0, highest = 0;
		int fields = sscanf(entry, "%u-%u", &lowest, &highest);
		if (fields > 0 && lowest <= from && (fields == 2 ? highest : lowest) >= to)
			return;
	}
	tfc__log(pool->ctx, TFC_LOG_WARNING, "port", "",
		 "ports %u to %u of the pool overlap the ports of outgoing connections "
		 "(net.ipv4.ip_local_port_range is %u to %u); choose others, or reserve them with "
		 "\"sysctl -w net.ipv4.ip_local_reserved_ports=%u-%u\"",
		 from, to, first, last, from, to);
}

int tfc__port_pool_open(tfc_ctx *ctx, const tfc_port_pool_options *options,
			tfc_port_pool **ret_pool)
{
	int code = tfc__ctx_enter(ctx);
	if (code)
		return code;
	if (!ret_pool)
		return tfc__ctx_fail(ctx, TFC_EINVAL, "port", 0, "ret_pool is NULL");
	tfc_port_pool_options copy;
	code = tfc__options_copy(&copy, sizeof(copy), options, "port", "tfc_port_pool_options", 0,
				 tfc__ctx_error(ctx));
	if (code)
		return code;
	if (!copy.first && !copy.last) {
		copy.first = DEFAULT_FIRST;
		copy.last = DEFAULT_LAST;
	}
	if (!copy.first || !copy.last)
		return tfc__ctx_fail(ctx, TFC_EINVAL, "port", 0,
				     "tfc_port_pool_options.%s is 0; set both ends of the pool, or "
				     "neither for %u to %u",
				     copy.first ? "last" : "first", DEFAULT_FIRST, DEFAULT_LAST);
	if (copy.first > copy.last)
		return tfc__ctx_fail(ctx, TFC_EINVAL, "port", 0,
				     "tfc_port_pool_options.first (%u) is above "
				     "tfc_port_pool_options.last (%u); swap them",
				     copy.first, copy.last);
	code = pool_check_privilege(ctx, copy.first);
	if (code)
		return code;

	tfc_port_pool *pool = calloc(1, sizeof(*pool));
	if (!pool)
		return tfc__fail_nomem(tfc__ctx_error(ctx), "port");
	pool->ctx = ctx;
	pool->first = copy.first;
	pool->last = copy.last;
	/* Random, so that the pools of several processes rarely try the same ports. */
	uint64_t seed = tfc__wall() ^ (uint64_t)getpid() << 32;
	pool->next = (uint16_t)(pool->first +
				tfc__random_next(&seed) % (pool->last - pool->first + UINT32_C(1)));
	tfc__list_init(&pool->holds);
	pool_warn_of_overlap(pool);
	*ret_pool = pool;
	return TFC_OK;
}

static void pool_close_handle(struct tfc__handle *handle)
{
	tfc_port_pool_close(tfc__container_of(handle, tfc_port_pool, handle));
}

int tfc_port_pool_open(tfc_ctx *ctx, const tfc_port_pool_options *options, tfc_port_pool **ret_pool)
{
	int code = tfc__port_pool_open(ctx, options, ret_pool);
	if (code == TFC_OK)
		tfc__handle_open(ctx, &(*ret_pool)->handle, TFC__HANDLE_PORT_POOL,
				 pool_close_handle);
	return code;
}

uint16_t tfc__port_pool_example(const tfc_port_pool *pool, uint32_t number)
{
	return (uint16_t)(pool->first + number % (65536u - pool->first));
}

void tfc_port_pool_close(tfc_port_pool *pool)
{
	if (!pool)
		return;
	tfc__handle_closed(&pool->handle);
	TFC__LIST_EACH (link, &pool->holds) {
		tfc__container_of(link, tfc_port_hold, link)->pool = NULL;
		tfc__list_remove(link);
	}
	free(pool);
}

/* ---- acquiring a port */

static bool pool_has_hold(const tfc_port_pool *pool, uint16_t port)
{
	return pool->has_hold[port / 8] >> port % 8 & 1;
}

/* Fixed ports may lie outside the pool. */
void tfc__pool_mark(tfc_port_pool *pool, uint16_t port, bool is_there)
{
	if (pool_has_hold(pool, port) == is_there)
		return;
	pool->has_hold[port / 8] ^= (uint8_t)(1 << port % 8);
	if (port >= pool->first && port <= pool->last)
		pool->own += is_there ? 1 : UINT32_MAX;
}

/* Binds the next free port. */
static int pool_acquire_any(tfc_port_pool *pool, tfc_port_hold *hold)
{
	uint32_t count = pool->last - pool->first + UINT32_C(1), own = pool->own;
	int code = TFC_OK;
	int fd = tfc__hold_socket();
	if (fd < 0)
		return tfc__fail_errno(tfc__ctx_error(pool->ctx), "port", errno,
				       "cannot create a socket for a port");
	for (uint32_t left = count; left > 0 && !code; left--) {
		uint16_t port = pool->next;
		pool->next = port == pool->last ? pool->first : (uint16_t)(port + 1);
		if (pool_has_hold(pool, port))
			continue;
		if (!tfc__hold_bind(&fd, port)) {
			hold->port = port;
			tfc__fd_note(pool->ctx, &hold->socket, fd);
			return TFC_OK;
		}
		if (errno != EADDRINUSE)
			code = tfc__hold_fail(tfc__ctx_error(pool->ctx), port, errno);
	}
	close(fd);
	if (code)
		return code;
	return tfc__ctx_fail(pool->ctx, TFC_EEXHAUSTED, "port", EADDRINUSE,
			     "all %u ports of the pool (%u to %u) are in use: %u by this pool, %u "
			     "by other programs; use a larger pool",
			     count, pool->first, pool->last, own, count - own);
}

static int pool_acquire_fixed(tfc_port_pool *pool, uint16_t port, tfc_port_hold *hold)
{
	for (struct tfc__link *link = pool->holds.next;
	     pool_has_hold(pool, port) && link != &pool->holds; link = link->next) {
		const tfc_port_hold *other = tfc__container_of(link, tfc_port_hold, link);
		if (other->port == port && other->state != TFC__HOLD_LOST)
			return tfc__ctx_fail(pool->ctx, TFC_EBUSY, "port", 0,
					     "port %u is in use: this pool holds it already", port);
	}
	int fd = tfc__hold_bind_fixed(port, tfc__ctx_error(pool->ctx));
	if (fd < 0)
		return fd;
	tfc__fd_note(pool->ctx, &hold->socket, fd);
	hold->port = port;
	return TFC_OK;
}

int tfc__port_acquire(tfc_port_pool *pool, uint16_t port, tfc_port_hold **ret_hold)
{
	int code = tfc__ctx_enter(pool ? pool->ctx : NULL);
	if (code)
		return code;
	if (!ret_hold)
		return tfc__ctx_fail(pool->ctx, TFC_EINVAL, "port", 0, "ret_hold is NULL");
	tfc_port_hold *hold = calloc(1, sizeof(*hold));
	if (!hold)
		return tfc__fail_nomem(tfc__ctx_error(pool->ctx), "port");
	hold->socket.fd = -1;
	code = port ? pool_acquire_fixed(pool, port, hold) : pool_acquire_any(pool, hold);
	if (code) {
		free(hold);
		return code;
	}
	hold->ctx = pool->ctx;
	hold->pool = pool;
	tfc__list_append(&pool->holds, &hold->link);
	tfc__pool_mark(pool, hold->port, true);
	*ret_hold = hold;
	return TFC_OK;
}

static void hold_release_handle(struct tfc__handle *handle)
{
	tfc_port_hold_release(tfc__container_of(handle, tfc_port_hold, handle));
}

int tfc_port_acquire(tfc_port_pool *pool, uint16_t port, tfc_port_hold **ret_hold)
{
	int code = tfc__port_acquire(pool, port, ret_hold);
	if (code == TFC_OK)
		tfc__handle_open(pool->ctx, &(*ret_hold)->handle, TFC__HANDLE_PORT_HOLD,
				 hold_release_handle);
	return code;
}
