/* The front end of every store: the order of requests, their callbacks and their completion. */
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/options.h"
#include "store/internal.h"

enum op_kind { OP_GET, OP_LIST, OP_PUT, OP_REMOVE };

struct tfc__store_op {
	struct tfc__link link;
	enum op_kind kind;
	uint64_t version;
	tfc__store_fn fn; /* NULL: detached */
	void *user;
	size_t len;
	char *key;  /* in the same allocation, after the struct */
	void *data; /* in the same allocation, after the key */
};

struct tfc__store {
	tfc_ctx *ctx;
	tfc_store_ops ops;
	void *backend;
	struct tfc__store_kind kind;
	struct tfc__link queue;
	struct tfc__store_op *current; /* submitted to the backend, not completed */
	struct tfc__work next;
};

/* ---- completion of requests */

static void store_complete(struct tfc__store *store, int code, const tfc_store_value *values,
			   uint32_t count, const char *text)
{
	struct tfc__store_op *op = store->current;
	tfc_error error = TFC_ERROR_INIT;
	if (code < 0)
		tfc__fail(&error, code, "store", 0, "%s", text ? text : tfc_err_text(code));
	store->current = NULL;
	if (!tfc__list_is_empty(&store->queue))
		tfc__work_schedule(&store->next);
	if (op->fn) /* may close the store */
		op->fn(op->user, code, values, count, &error);
	free(op);
}

static void store_on_done(void *request, int32_t code, const tfc_store_value *values,
			  uint32_t count, const char *text)
{
	struct tfc__store *store = request;
	if (!store->current) /* a host's store that completes a request twice */
		return;
	bool has_one = store->current->kind == OP_GET || store->current->kind == OP_PUT;
	if (code >= 0 && has_one && !count)
		store_complete(store, TFC_EINVAL, NULL, 0,
			       "the store reported success without a value");
	else
		store_complete(store, code < 0 ? code : TFC_OK, values, count, text);
}

/* ---- submission of requests */

static void store_submit(const struct tfc__store *store, const struct tfc__store_op *op,
			 tfc_store_done done, void *request)
{
	switch (op->kind) {
	case OP_GET:
		store->ops.get(store->backend, op->key, done, request);
		break;
	case OP_LIST:
		store->ops.list(store->backend, op->key, done, request);
		break;
	case OP_PUT:
		store->ops.put(store->backend, op->key, op->data, op->len, op->version, done,
			       request);
		break;
	case OP_REMOVE:
		store->ops.remove(store->backend, op->key, done, request);
		break;
	}
}

static int store_check_request(const struct tfc__store_op *op, const char **ret_why)
{
	bool is_folder = op->key[0] && op->key[strlen(op->key) - 1] == '/';
	bool as_prefix = op->kind == OP_LIST || (op->kind == OP_REMOVE && is_folder);
	*ret_why = "invalid key; a key has parts of letters, digits, '.', '_' and '-' with '/' "
		   "between them";
	if (!(as_prefix ? tfc__is_store_prefix(op->key) : tfc__is_store_key(op->key)))
		return TFC_EINVAL;
	*ret_why = "record exceeds 8 MiB";
	return op->len > TFC__STORE_VALUE_MAX ? TFC_ETOOBIG : TFC_OK;
}

/* The request may complete inside the call, and its callback may close the store: the store must
 * not be used afterwards. */
static void store_submit_next(struct tfc__work *work)
{
	struct tfc__store *store = tfc__container_of(work, struct tfc__store, next);
	const char *why;
	if (store->current || tfc__list_is_empty(&store->queue))
		return;
	store->current = tfc__container_of(store->queue.next, struct tfc__store_op, link);
	tfc__list_remove(&store->current->link);
	int code = store_check_request(store->current, &why);
	if (code < 0)
		store_complete(store, code, NULL, 0, why);
	else
		store_submit(store, store->current, store_on_done, store);
}

static struct tfc__store_op *store_add_request(struct tfc__store *store, enum op_kind kind,
					       const char *key, const void *data, size_t len,
					       tfc__store_fn fn, void *user)
{
	size_t key_size = strlen(key) + 1;
	size_t kept = len <= TFC__STORE_VALUE_MAX ? len : 0; /* a longer value is refused */
	struct tfc__store_op *op = malloc(sizeof(*op) + key_size + kept);
	if (!op)
		return NULL;
	*op = (struct tfc__store_op){
		.kind = kind,
		.fn = fn,
		.user = user,
		.len = len,
		.key = (char *)(op + 1),
		.data = (char *)(op + 1) + key_size,
	};
	memcpy(op->key, key, key_size);
	if (kept)
		memcpy(op->data, data, kept);
	tfc__list_append(&store->queue, &op->link);
	tfc__work_schedule(&store->next);
	return op;
}

struct tfc__store_op *tfc__store_get(struct tfc__store *store, const char *key, tfc__store_fn fn,
				     void *user)
{
	return store_add_request(store, OP_GET, key, NULL, 0, fn, user);
}

struct tfc__store_op *tfc__store_list(struct tfc__store *store, const char *prefix,
				      tfc__store_fn fn, void *user)
{
	return store_add_request(store, OP_LIST, prefix, NULL, 0, fn, user);
}

struct tfc__store_op *tfc__store_put(struct tfc__store *store, const char *key, const void *data,
				     size_t len, uint64_t version, tfc__store_fn fn, void *user)
{
	struct tfc__store_op *op = store_add_request(store, OP_PUT, key, data, len, fn, user);
	if (op)
		op->version = version;
	return op;
}

struct tfc__store_op *tfc__store_remove(struct tfc__store *store, const char *key, tfc__store_fn fn,
					void *user)
{
	return store_add_request(store, OP_REMOVE, key, NULL, 0, fn, user);
}

void tfc__store_drop(struct tfc__store_op *op)
{
	if (op)
		op->fn = NULL;
}

int tfc__store_wait(struct tfc__store *store, uint32_t timeout_ms)
{
	uint64_t until = tfc__now() + timeout_ms * TFC__MS;
	for (;;) {
		store_submit_next(&store->next);
		if (!store->current && tfc__list_is_empty(&store->queue))
			return TFC_OK;
		uint64_t now = tfc__now();
		if (!store->current)
			continue; /* the request completed at once */
		if (!store->kind.wait)
			return TFC_ENOTSUP;
		if (now >= until ||
		    store->kind.wait(store->backend, (int)((until - now) / TFC__MS) + 1) < 0)
			return TFC_ETIMEDOUT;
	}
}

/* ---- opening and closing */

int tfc__store_open(tfc_ctx *ctx, const tfc_store_ops *ops, void *backend,
		    const struct tfc__store_kind *kind, tfc_error *error,
		    struct tfc__store **ret_store)
{
	struct tfc__store *store = calloc(1, sizeof(*store));
	if (!store) {
		if (ops->close)
			ops->close(backend);
		return tfc__fail_nomem(error, "store");
	}
	store->ctx = ctx;
	store->ops = *ops;
	store->backend = backend;
	store->kind = *kind;
	tfc__list_init(&store->queue);
	tfc__work_init(&store->next, ctx, store_submit_next);
	*ret_store = store;
	return TFC_OK;
}

int tfc_store_ops_init(tfc_store_ops *ops, uint32_t size)
{
	return tfc__options_init(ops, size, sizeof(*ops));
}

int tfc__store_open_ops(tfc_ctx *ctx, const tfc_store_ops *ops, void *user, tfc_error *error,
			struct tfc__store **ret_store)
{
	tfc_store_ops known;
	const struct tfc__store_kind kind = {.seal_key = NULL};
	int code = tfc__options_copy(&known, sizeof(known), ops, "store", "tfc_store_ops",
				     offsetof(tfc_store_ops, reserved), error);
	if (code < 0)
		return code;
	const char *missing = !known.get      ? "get"
			      : !known.list   ? "list"
			      : !known.put    ? "put"
			      : !known.remove ? "remove"
					      : NULL;
	if (missing)
		return tfc__fail(error, TFC_EINVAL, "store", 0, "tfc_store_ops.%s is NULL",
				 missing);
	return tfc__store_open(ctx, &known, user, &kind, error, ret_store);
}

const uint8_t *tfc__store_seal_key(const struct tfc__store *store)
{
	return store->kind.seal_key;
}

bool tfc__store_is_volatile(const struct tfc__store *store)
{
	return store->kind.is_volatile;
}

static void store_ignore_result(void *request, int32_t code, const tfc_store_value *values,
				uint32_t count, const char *text)
{
}

void tfc__store_close(struct tfc__store *store)
{
	const char *why;
	if (!store)
		return;
	tfc__work_cancel(&store->next);
	TFC__LIST_EACH (link, &store->queue) {
		struct tfc__store_op *op = tfc__container_of(link, struct tfc__store_op, link);
		if ((op->kind == OP_PUT || op->kind == OP_REMOVE) &&
		    store_check_request(op, &why) == TFC_OK)
			store_submit(store, op, store_ignore_result, NULL);
		free(op);
	}
	if (store->ops.close)
		store->ops.close(store->backend);
	free(store->current);
	free(store);
}
