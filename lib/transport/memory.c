/*
 * Pairs of pipes inside one context. Each end has a buffer of the bytes that the other end wrote.
 * An end is notified of bytes and of room in the next turn of dispatch.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "ctx/ctx.h"
#include "transport/builtin.h"

#define SCHEME "memory:"
#define ROOM (UINT32_C(256) << 10) /* bytes that an end buffers at most */

struct memory {
	tfc_ctx *ctx;
	struct tfc__link listeners;
};

struct listener {
	struct tfc__link link;
	tfc_listener *listener;
	char address[128];
};

struct end {
	struct end *other; /* NULL: closed */
	tfc_pipe *pipe;
	struct tfc__buf in;
	size_t at; /* of the first byte of `in` that was not read */
	char address[128];
};

void *tfc__memory_open(tfc_ctx *ctx)
{
	struct memory *memory = malloc(sizeof(*memory));
	if (!memory)
		return NULL;
	memory->ctx = ctx;
	tfc__list_init(&memory->listeners);
	return memory;
}

static void memory_fini(void *impl)
{
	free(impl);
}

static struct listener *memory_find_listener(struct memory *memory, const char *address)
{
	TFC__LIST_EACH (link, &memory->listeners) {
		struct listener *one = tfc__container_of(link, struct listener, link);
		if (strcmp(one->address, address) == 0)
			return one;
	}
	return NULL;
}

/* ---- connecting */

static struct end *memory_end_new(const char *address)
{
	struct end *end = calloc(1, sizeof(*end));
	if (end)
		snprintf(end->address, sizeof(end->address), "%s", address);
	return end;
}

static int memory_check_address(const char *address, tfc_error *error)
{
	if (strlen(address) > strlen(SCHEME) &&
	    strlen(address) < sizeof(((struct end *)NULL)->address))
		return TFC_OK;
	return tfc__fail(
		error, TFC_EINVAL, "transport", 0,
		"address \"%.60s\" is not valid; write memory:NAME, where NAME has 1 to 120 bytes",
		address);
}

static int memory_dial(void *impl, const char *address, uint32_t flags, tfc_pipe *pipe,
		       void **ret_pipe_impl, tfc_error *error)
{
	int code = memory_check_address(address, error);
	if (code < 0)
		return code;
	struct listener *listener = memory_find_listener(impl, address);
	if (!listener)
		return tfc__fail(
			error, TFC_ENOENT, "transport", 0,
			"cannot connect to \"%s\": no listener has this address in this context",
			address);
	struct end *here = memory_end_new(address), *there = memory_end_new(address);
	if (!here || !there) {
		code = tfc__fail_nomem(error, "transport");
		goto fail;
	}
	code = tfc_listener_accept(listener->listener, there, &there->pipe);
	if (code < 0) {
		tfc__fail(error, code, "transport", 0,
			  "cannot connect to \"%s\": the listener is not accepting connections",
			  address);
		goto fail;
	}
	here->pipe = pipe;
	here->other = there;
	there->other = here;
	tfc_pipe_ready(pipe, TFC_PIPE_EVENT_WRITABLE);
	*ret_pipe_impl = here;
	return TFC_OK;
fail:
	free(here);
	free(there);
	return code;
}

static int memory_listen(void *impl, const char *address, uint32_t flags, tfc_listener *listener,
			 void **ret_listener_impl, tfc_error *error)
{
	struct memory *memory = impl;
	int code = memory_check_address(address, error);
	if (code < 0)
		return code;
	if (memory_find_listener(memory, address))
		return tfc__fail(error, TFC_EBUSY, "transport", 0,
				 "address \"%s\" is in use by another listener of this context",
				 address);
	struct listener *one = calloc(1, sizeof(*one));
	if (!one)
		return tfc__fail_nomem(error, "transport");
	one->listener = listener;
	snprintf(one->address, sizeof(one->address), "%s", address);
	tfc__list_append(&memory->listeners, &one->link);
	*ret_listener_impl = one;
	return TFC_OK;
}

static const char *memory_listener_address(void *listener_impl)
{
	return ((struct listener *)listener_impl)->address;
}

static void memory_listener_close(void *listener_impl)
{
	struct listener *one = listener_impl;
	tfc__list_remove(&one->link);
	free(one);
}

/* ---- bytes */

static int memory_describe(void *pipe_impl, tfc_pipe_info *info, tfc_error *error)
{
	const struct end *end = pipe_impl;
	info->flags = TFC_PIPE_FLAG_IS_NODE;
	memcpy(info->address, end->address, sizeof(info->address));
	return TFC_OK;
}

static size_t unread_len(const struct end *end)
{
	return end->in.len - end->at;
}

static int fail_closed(tfc_error *error)
{
	return tfc__fail(error, TFC_ELOST, "transport", 0, "the peer closed the connection");
}

static int64_t memory_read(void *pipe_impl, void *data, size_t len, tfc_error *error)
{
	struct end *end = pipe_impl;
	size_t count = unread_len(end) < len ? unread_len(end) : len;
	if (!unread_len(end))
		return end->other ? 0 : fail_closed(error);
	if (count)
		memcpy(data, end->in.data + end->at, count);
	end->at += count;
	if (end->at == end->in.len) {
		tfc__buf_fini(&end->in);
		end->at = 0;
	}
	if (end->other)
		tfc_pipe_ready(end->other->pipe, TFC_PIPE_EVENT_WRITABLE);
	return (int64_t)count;
}

static int64_t memory_write(void *pipe_impl, const void *data, size_t len, tfc_error *error)
{
	struct end *other = ((struct end *)pipe_impl)->other;
	if (!other)
		return fail_closed(error);
	size_t room = ROOM - (unread_len(other) < ROOM ? unread_len(other) : ROOM);
	size_t count = len < room ? len : room;
	if (!count)
		return 0;
	/* drop the bytes that were read, so that the buffer does not exceed ROOM */
	if (other->at) {
		memmove(other->in.data, other->in.data + other->at, unread_len(other));
		other->in.len -= other->at;
		other->at = 0;
	}
	tfc__buf_add(&other->in, data, count);
	if (other->in.is_failed)
		return tfc__fail_nomem(error, "transport");
	tfc_pipe_ready(other->pipe, TFC_PIPE_EVENT_READABLE);
	return (int64_t)count;
}

/* Every event is reported when it happens. */
static void memory_want(void *pipe_impl, uint32_t events)
{
}

static void memory_close(void *pipe_impl)
{
	struct end *end = pipe_impl;
	if (end->other) {
		end->other->other = NULL;
		tfc_pipe_ready(end->other->pipe, TFC_PIPE_EVENT_READABLE | TFC_PIPE_EVENT_WRITABLE);
	}
	tfc__buf_fini(&end->in);
	free(end);
}

const tfc_transport_ops tfc__memory_ops = {
	.size = sizeof(tfc_transport_ops),
	.scheme = "memory",
	.dial = memory_dial,
	.listen = memory_listen,
	.listener_address = memory_listener_address,
	.listener_close = memory_listener_close,
	.describe = memory_describe,
	.read = memory_read,
	.write = memory_write,
	.want = memory_want,
	.close = memory_close,
	.fini = memory_fini,
};
