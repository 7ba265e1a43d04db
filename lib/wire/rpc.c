#include "wire/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tfcluster/version.h>

#define DIGITS(number) #number
#define DOTTED(major, minor, patch) DIGITS(major) "." DIGITS(minor) "." DIGITS(patch)
#define LIBRARY DOTTED(TFC_VERSION_MAJOR, TFC_VERSION_MINOR, TFC_VERSION_PATCH)

/* ---- open ids */

static void table_init(struct table *table)
{
	for (size_t i = 0; i < BUCKETS; i++)
		tfc__list_init(&table->buckets[i]);
}

void tfc__rpc_insert(struct table *table, struct rpc_entry *entry, uint64_t id)
{
	entry->id = table->last = id;
	tfc__list_append(&table->buckets[id % BUCKETS], &entry->link);
	table->count++;
}

struct rpc_entry *tfc__rpc_find(const struct table *table, uint64_t id)
{
	const struct tfc__link *head = &table->buckets[id % BUCKETS];
	TFC__LIST_EACH (link, head) {
		struct rpc_entry *entry = tfc__container_of(link, struct rpc_entry, link);
		if (entry->id == id)
			return entry;
	}
	return NULL;
}

void tfc__rpc_remove(struct table *table, struct rpc_entry *entry)
{
	if (tfc__list_is_empty(&entry->link))
		return;
	tfc__list_remove(&entry->link);
	table->count--;
}

/* ---- life */

static void rpc_release(struct tfc__rpc *rpc)
{
	if (--rpc->holds)
		return;
	tfc__op_drop(&rpc->life);
	tfc__work_cancel(&rpc->break_work);
	tfc__work_cancel(&rpc->room_work);
	free(rpc);
}

void *tfc__rpc_new(struct tfc__rpc *rpc, size_t size)
{
	struct rpc_entry *entry = calloc(1, size);
	if (!entry)
		return NULL;
	tfc__list_init(&entry->link);
	tfc__list_append(&rpc->all, &entry->all);
	rpc->holds++;
	return entry;
}

void tfc__rpc_free(struct tfc__rpc *rpc, struct rpc_entry *entry)
{
	tfc__list_remove(&entry->all);
	free(entry);
	rpc_release(rpc);
}

/* The context is being freed with all its timers and work: no callback is called. */
static void rpc_free_with_context(tfc_op *op)
{
	struct tfc__rpc *rpc = tfc__container_of(op, struct tfc__rpc, life);
	TFC__LIST_EACH (link, &rpc->all)
		free(tfc__container_of(link, struct rpc_entry, all));
	free(rpc);
}

static void rpc_report_broken(struct tfc__work *work)
{
	struct tfc__rpc *rpc = tfc__container_of(work, struct tfc__rpc, break_work);
	tfc_error error = rpc->error;
	rpc->ops->broken(rpc->user, &error);
}

/* ---- sending */

void tfc__rpc_begin(struct tfc__buf *message, enum kind kind, uint32_t items)
{
	tfc__msg_array(message, items);
	tfc__msg_u64(message, kind);
}

void tfc__rpc_add(struct tfc__buf *message, const struct tfc__buf *value)
{
	if (value && value->is_failed)
		message->is_failed = true;
	else if (value && value->len)
		tfc__buf_add(message, value->data, value->len);
	else
		tfc__msg_nil(message);
}

/* Each value needs at least one byte, so only a long message can have too many values. */
static int rpc_check_size(const struct tfc__rpc *rpc, const struct tfc__buf *message,
			  tfc_error *error)
{
	const struct tfc__msg_limits limits = {.objects = OBJECTS_MAX};
	if (message->is_failed)
		return tfc__fail_nomem(error, "wire");
	if (message->len > rpc->message_max)
		return tfc__fail(error, TFC_ETOOBIG, "wire", 0,
				 "message of %zu bytes exceeds the limit of %llu", message->len,
				 (unsigned long long)rpc->message_max);
	if (message->len > OBJECTS_MAX &&
	    tfc__msg_scan(message->data, message->len, &limits, NULL) < 0)
		return tfc__fail(error, TFC_ETOOBIG, "wire", 0,
				 "message has too many values (limit %d)", OBJECTS_MAX);
	return TFC_OK;
}

int tfc__rpc_send(struct tfc__rpc *rpc, struct tfc__buf *message, tfc_error *error)
{
	int code = rpc_check_size(rpc, message, error);
	bool is_closed = rpc->is_closed || rpc->is_broken || tfc__ctx_is_ending(rpc->ctx);
	if (code == TFC_OK && is_closed)
		code = tfc__fail(error, TFC_ELOST, "wire", 0, "connection closed");
	rpc->sent += code == TFC_OK;
	if (code == TFC_OK)
		rpc->ops->send(rpc->user, message);
	else
		tfc__buf_fini(message);
	return code;
}

void tfc__rpc_must_send(struct tfc__rpc *rpc, struct tfc__buf *message)
{
	if (tfc__rpc_send(rpc, message, NULL) != TFC_ENOMEM || rpc->is_closed || rpc->is_broken)
		return;
	rpc->is_broken = true;
	tfc__fail_nomem(&rpc->error, "wire");
	tfc__work_schedule(&rpc->break_work);
}

/* ---- room */

bool tfc__rpc_has_room(const struct tfc__rpc *rpc)
{
	if (rpc->is_closed || rpc->is_broken)
		return false;
	return !rpc->ops->has_room || rpc->ops->has_room(rpc->user);
}

void tfc__rpc_await_room(struct tfc__rpc *rpc, struct tfc__rpc_waiter *waiter)
{
	if (!waiter->link.next)
		tfc__list_init(&waiter->link);
	if (tfc__list_is_empty(&waiter->link) && !rpc->is_closed)
		tfc__list_append(&rpc->waiters, &waiter->link);
}

void tfc__rpc_stop_waiting(struct tfc__rpc_waiter *waiter)
{
	if (waiter->link.next)
		tfc__list_remove(&waiter->link);
}

/* One waiter at a time: the next one is called after this one has used the room. */
static void rpc_wake_waiter(struct tfc__work *work)
{
	struct tfc__rpc *rpc = tfc__container_of(work, struct tfc__rpc, room_work);
	if (tfc__list_is_empty(&rpc->waiters) || !tfc__rpc_has_room(rpc))
		return;
	struct tfc__rpc_waiter *waiter = tfc__container_of(rpc->waiters.next,
							   struct tfc__rpc_waiter, link);
	tfc__list_remove(&waiter->link);
	if (!tfc__list_is_empty(&rpc->waiters))
		tfc__work_schedule(&rpc->room_work);
	waiter->fn(waiter);
}

void tfc__rpc_room(struct tfc__rpc *rpc)
{
	if (!rpc->is_closed && !tfc__list_is_empty(&rpc->waiters))
		tfc__work_schedule(&rpc->room_work);
}

int tfc__rpc_notify(struct tfc__rpc *rpc, const char *method, const struct tfc__buf *params)
{
	struct tfc__buf message = {0};
	if (strlen(method) > TFC__RPC_METHOD_MAX)
		return TFC_EINVAL;
	tfc__rpc_begin(&message, NOTIFY, 3);
	tfc__msg_str(&message, method);
	tfc__rpc_add(&message, params);
	return tfc__rpc_send(rpc, &message, NULL);
}

/* ---- hello */

static void write_hello(struct tfc__buf *message, uint32_t more)
{
	tfc__rpc_begin(message, HELLO, 3);
	tfc__msg_u64(message, TFC__RPC_VERSION);
	tfc__msg_map(message, 3 + more);
	tfc__msg_put_u64(message, "oldest", TFC__RPC_VERSION_OLDEST);
	tfc__msg_put_u64(message, "message_max", TFC__RPC_MESSAGE_MAX);
	tfc__msg_put_str(message, "library", LIBRARY);
}

void tfc__rpc_write_refusal(struct tfc__buf *message, const tfc_error *error)
{
	write_hello(message, 1);
	tfc__msg_str(message, "refused");
	tfc__msg_error(message, error);
}

/* Both ends use the older end's version if the newer end supports it. */
static int rpc_on_hello(struct tfc__rpc *rpc, const msgpack_object *items, tfc_error *error)
{
	char library[32];
	unsigned major, minor, patch;
	if (items[0].type != MSGPACK_OBJECT_POSITIVE_INTEGER || rpc->is_greeted)
		return tfc__rpc_refuse(error, "malformed or repeated hello");
	if (!tfc__msg_get_text(&items[1], "library", library, sizeof(library)))
		library[0] = '\0';
	if (sscanf(library, "%3u.%3u.%3u", &major, &minor, &patch) == 3)
		rpc->peer_version = major << 16 | (minor & 0xff) << 8 | (patch & 0xff);
	uint64_t version = items[0].via.u64;
	uint64_t oldest = tfc__msg_get_u64(&items[1], "oldest", version);
	uint64_t max = tfc__msg_get_u64(&items[1], "message_max", TFC__RPC_MESSAGE_MAX);
	if (version < TFC__RPC_VERSION_OLDEST || oldest > TFC__RPC_VERSION) {
		return tfc__fail(error, TFC_ENOTSUP, "wire", 0,
				 "wire version mismatch: the peer (libtfcluster %s) has versions "
				 "%llu to %llu, this side (%s) %d to %d; update the older one",
				 library[0] ? library : "of an unknown version",
				 (unsigned long long)oldest, (unsigned long long)version, LIBRARY,
				 TFC__RPC_VERSION_OLDEST, TFC__RPC_VERSION);
	}
	const msgpack_object *refusal = tfc__msg_get(&items[1], "refused");
	if (refusal) /* the other end closes the connection */
		return tfc__msg_to_error(refusal, error);
	if (max < PEER_MAX_LEAST)
		return tfc__rpc_refuse(error, "maximum message size too small");
	if (max < rpc->message_max)
		rpc->message_max = max;
	rpc->is_greeted = true;
	return TFC_OK;
}

/* ---- received messages */

int tfc__rpc_refuse(tfc_error *error, const char *what)
{
	tfc__fail(error, TFC_EPARSE, "wire", 0, "protocol error of the peer: %s", what);
	return TFC_EPARSE;
}

typedef int (*handle_fn)(struct tfc__rpc *rpc, const msgpack_object *items, tfc_error *error);

/* A newer version may append items to a message and add kinds. */
static const struct {
	handle_fn handle;
	uint32_t items; /* minimum number of items after the kind */
} kinds[KIND_COUNT] = {
	[REQUEST] = {tfc__rpc_on_request, 5}, [RESPONSE] = {tfc__rpc_on_response, 3},
	[NOTIFY] = {tfc__rpc_on_notify, 2},   [CANCEL] = {tfc__rpc_on_cancel, 1},
	[ITEM] = {tfc__rpc_on_item, 2},       [CREDIT] = {tfc__rpc_on_credit, 2},
	[HELLO] = {rpc_on_hello, 2},
};

static int rpc_handle(struct tfc__rpc *rpc, const msgpack_object *message, tfc_error *error)
{
	const msgpack_object *items = message->via.array.ptr;
	if (message->type != MSGPACK_OBJECT_ARRAY || message->via.array.size < 1 ||
	    items[0].type != MSGPACK_OBJECT_POSITIVE_INTEGER)
		return tfc__rpc_refuse(error, "not a list that begins with a message kind");
	uint64_t kind = items[0].via.u64;
	if (!rpc->is_greeted && kind != HELLO)
		return tfc__rpc_refuse(error, "message before hello");
	if (kind >= KIND_COUNT)
		return TFC_OK;
	if (message->via.array.size - 1 < kinds[kind].items)
		return tfc__rpc_refuse(error, "message lacks items");
	return kinds[kind].handle(rpc, items + 1, error);
}

static int rpc_parse_and_handle(struct tfc__rpc *rpc, const void *data, size_t len,
				tfc_error *error)
{
	const struct tfc__msg_limits limits = {.objects = OBJECTS_MAX};
	struct tfc__msg msg;
	if (len > TFC__RPC_MESSAGE_MAX)
		return tfc__rpc_refuse(error, "message too large");
	int code = tfc__rpc_on_item_bytes(rpc, data, len, error);
	if (code)
		return code;
	code = tfc__msg_parse(&msg, data, len, &limits, error);
	if (code < 0)
		return code;
	code = rpc_handle(rpc, &msg.root, error);
	tfc__msg_fini(&msg);
	return code;
}

void tfc__rpc_feed(struct tfc__rpc *rpc, const void *data, size_t len)
{
	tfc_error error = TFC_ERROR_INIT;
	if (rpc->is_closed || rpc->is_broken)
		return;
	rpc->holds++;
	rpc->feeding = len;
	rpc->received++;
	int code = rpc_parse_and_handle(rpc, data, len, &error);
	if (code < 0 && !rpc->is_closed && !rpc->is_broken) {
		rpc->is_broken = true;
		rpc->error = error;
		rpc->ops->broken(rpc->user, &error);
	}
	rpc_release(rpc);
}

/* ---- open, close */

int tfc__rpc_open(tfc_ctx *ctx, const struct tfc__rpc_ops *ops, void *user,
		  struct tfc__rpc **ret_rpc)
{
	struct tfc__buf hello = {0};
	struct tfc__rpc *rpc = calloc(1, sizeof(*rpc));
	if (!rpc)
		return TFC_ENOMEM;
	rpc->ctx = ctx;
	rpc->ops = ops;
	rpc->user = user;
	rpc->holds = 1;
	rpc->message_max = TFC__RPC_MESSAGE_MAX;
	table_init(&rpc->calls);
	table_init(&rpc->requests);
	tfc__list_init(&rpc->all);
	tfc__list_init(&rpc->waiters);
	tfc__work_init(&rpc->room_work, ctx, rpc_wake_waiter);
	tfc__work_init(&rpc->break_work, ctx, rpc_report_broken);
	tfc__op_init(&rpc->life, ctx, 0, NULL);
	tfc__op_free_last(&rpc->life, rpc_free_with_context);
	write_hello(&hello, 0);
	int code = tfc__rpc_send(rpc, &hello, NULL);
	if (code < 0)
		rpc_release(rpc);
	else
		*ret_rpc = rpc;
	return code;
}

void tfc__rpc_close(struct tfc__rpc *rpc, const tfc_error *why)
{
	if (!rpc || rpc->is_closed)
		return;
	rpc->is_closed = true;
	if (why)
		rpc->error = *why;
	tfc__work_cancel(&rpc->break_work);
	tfc__work_cancel(&rpc->room_work);
	/* The waiters may outlive the connection, and there will be no room again. */
	TFC__LIST_EACH (link, &rpc->waiters)
		tfc__list_remove(link);
	for (size_t i = 0; i < BUCKETS; i++) {
		TFC__LIST_EACH (link, &rpc->calls.buckets[i])
			tfc__rpc_call_lost(
				tfc__container_of(link, struct tfc__rpc_call, entry.link));
		TFC__LIST_EACH (link, &rpc->requests.buckets[i])
			tfc__rpc_request_lost(
				tfc__container_of(link, struct tfc__rpc_request, entry.link));
	}
	rpc_release(rpc);
}

bool tfc__rpc_is_exposed(const struct tfc__rpc *rpc)
{
	return rpc->ops->is_exposed && rpc->ops->is_exposed(rpc->user);
}

bool tfc__rpc_is_closed(const struct tfc__rpc *rpc)
{
	return rpc->is_closed;
}

uint64_t tfc__rpc_received(const struct tfc__rpc *rpc)
{
	return rpc->received;
}

uint64_t tfc__rpc_sent(const struct tfc__rpc *rpc)
{
	return rpc->sent;
}

uint32_t tfc__rpc_open_calls(const struct tfc__rpc *rpc)
{
	return rpc->calls.count;
}

uint32_t tfc__rpc_peer_version(const struct tfc__rpc *rpc)
{
	return rpc->peer_version;
}
