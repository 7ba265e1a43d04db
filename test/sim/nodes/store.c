/*
 * A store per machine, in place of lib/store/local.c. A request is done after a while, by what
 * plays the helper process: it goes on when the node is killed, and its answer is lost then. Power
 * loss keeps what was answered, and of the rest nothing.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/backend.h"

struct item {
	struct item *next;
	uint64_t version;
	size_t len;
	void *data;
	char key[256];
};

enum kind { GET, LIST, PUT, REMOVE };

struct request {
	struct request *next;
	enum kind kind;
	char key[256];
	void *data;
	uint64_t len;
	uint64_t version;
	tfc_store_done done;
	void *user;
};

struct sim_store {
	struct sim_machine *machine;
	struct item *items; /* in the order of keys */
	uint64_t version;
	bool is_full;
	uint64_t serial; /* of the request under way; one that changed is forgotten */
	bool is_asked;
	bool is_done; /* and not answered yet */
	struct request request;
	struct request *waiting; /* writes that came with the close, in their order */
	struct sim_host *host;   /* who asks; NULL: dead */
	int32_t code;
	tfc_store_value value;
	uint8_t seal_key[TFC__STORE_SEAL_SIZE];
};

struct sim_store *sim_store_new(struct sim_machine *machine)
{
	struct sim_store *store = calloc(1, sizeof(*store));
	if (!store)
		abort();
	store->machine = machine;
	return store;
}

void sim_store_set_full(struct sim_store *store, bool is_full)
{
	store->is_full = is_full;
}

static bool is_below(const struct item *item, const char *prefix)
{
	return strncmp(item->key, prefix, strlen(prefix)) == 0;
}

static struct item **place_of(struct sim_store *store, const char *key)
{
	struct item **at = &store->items;
	while (*at && strcmp((*at)->key, key) < 0)
		at = &(*at)->next;
	return at;
}

static void remove_item(struct item **at)
{
	struct item *item = *at;
	*at = item->next;
	free(item->data);
	free(item);
}

static int do_put(struct sim_store *store, const struct request *request)
{
	struct item **at = place_of(store, request->key);
	bool is_there = *at && strcmp((*at)->key, request->key) == 0;
	uint64_t version = is_there ? (*at)->version : 0;
	if (request->version != UINT64_MAX && request->version != version)
		return TFC_ESTATE;
	if (store->is_full)
		return TFC_ENOSPC;
	struct item *item = calloc(1, sizeof(*item));
	if (!item || !(item->data = malloc(request->len ? request->len : 1)))
		abort();
	snprintf(item->key, sizeof(item->key), "%s", request->key);
	memcpy(item->data, request->data, request->len);
	item->len = request->len;
	item->version = ++store->version;
	if (is_there)
		remove_item(at);
	item->next = *at;
	*at = item;
	store->value = (tfc_store_value){.size = sizeof(tfc_store_value),
					 .key = item->key,
					 .data = item->data,
					 .len = item->len,
					 .version = item->version};
	return TFC_OK;
}

static int do_remove(struct sim_store *store, const struct request *request)
{
	struct item **at = place_of(store, request->key);
	if (request->key[strlen(request->key) - 1] != '/') {
		if (!*at || strcmp((*at)->key, request->key) != 0)
			return TFC_ENOENT;
		remove_item(at);
		return TFC_OK;
	}
	while (*at && is_below(*at, request->key))
		remove_item(at);
	return TFC_OK;
}

static void answer(struct sim_store *store)
{
	struct request request = store->request;
	struct item **at = place_of(store, request.key);
	tfc_store_value values[256];
	uint32_t count = 0;
	store->is_asked = false;
	if (!store->host)
		return;
	if (request.kind == PUT && store->code == TFC_OK)
		values[count++] = store->value;
	for (struct item *item = *at; item && (request.kind == GET || request.kind == LIST);
	     item = item->next) {
		bool is_wanted = request.kind == LIST ? is_below(item, request.key)
						      : strcmp(item->key, request.key) == 0;
		if (is_wanted && count < 256)
			values[count++] = (tfc_store_value){.size = sizeof(tfc_store_value),
							    .key = item->key,
							    .data = item->data,
							    .len = item->len,
							    .version = item->version};
	}
	if (request.kind == GET && !count)
		store->code = TFC_ENOENT;
	const char *text = store->code == TFC_ENOSPC ? "no space left on device" : NULL;
	struct sim_host *before = sim.current;
	sim_enter(store->host);
	request.done(request.user, store->code, values, count, text);
	if (before)
		sim_enter(before);
	else
		sim_leave();
}

static void begin_waiting(struct sim_store *store);

static void finish(void *user, uint64_t serial)
{
	struct sim_store *store = user;
	if (serial != store->serial || !store->is_asked)
		return;
	bool is_frozen = store->machine->power == SIM_FROZEN ||
			 store->machine->power == SIM_SUSPENDED;
	if (is_frozen) {
		sim_at(sim.now + SIM_MS, finish, store, serial);
		return;
	}
	if (store->is_done) {
		void *data = store->request.data;
		store->request.data = NULL;
		answer(store);
		free(data);
		if (!store->is_asked)
			begin_waiting(store);
		return;
	}
	store->code = store->request.kind == PUT      ? do_put(store, &store->request)
		      : store->request.kind == REMOVE ? do_remove(store, &store->request)
						      : TFC_OK;
	sim.kernel = store->machine;
	sim_note("store: %s %s: %d", store->request.kind == PUT ? "put" : "other",
		 store->request.key, store->code);
	sim.kernel = NULL;
	store->is_done = true;
	sim_at(sim.now + 50000 + sim_draw(SIM_MS), finish, store, serial);
}

static void begin(struct sim_store *store, const struct request *request)
{
	store->is_asked = true;
	store->is_done = false;
	store->request = *request;
	bool is_put = request->kind == PUT;
	uint64_t takes = is_put ? 200000 + sim_draw(4 * SIM_MS) : 50000 + sim_draw(SIM_MS);
	if (is_put && sim_draw(64) == 0)
		takes += sim_draw(400 * SIM_MS); /* a disk that is slow for once */
	sim_at(sim.now + takes, finish, store, ++store->serial);
}

static void begin_waiting(struct sim_store *store)
{
	struct request *next = store->waiting;
	if (!next)
		return;
	store->waiting = next->next;
	begin(store, next);
	free(next);
}

static void ask(struct sim_store *store, enum kind kind, const char *key, const void *data,
		uint64_t len, uint64_t version, tfc_store_done done, void *user)
{
	struct request *request = calloc(1, sizeof(*request)), **last = &store->waiting;
	if (!request || (len && !(request->data = malloc(len))))
		abort();
	request->kind = kind;
	request->len = len;
	request->version = version;
	request->done = done;
	request->user = user;
	snprintf(request->key, sizeof(request->key), "%s", key);
	if (len)
		memcpy(request->data, data, len);
	while (*last)
		last = &(*last)->next;
	*last = request;
	store->host = sim.current;
	if (!store->is_asked)
		begin_waiting(store);
}

static void get(void *store, const char *key, tfc_store_done done, void *request)
{
	ask(store, GET, key, NULL, 0, 0, done, request);
}

static void list(void *store, const char *prefix, tfc_store_done done, void *request)
{
	ask(store, LIST, prefix, NULL, 0, 0, done, request);
}

static void put(void *store, const char *key, const void *data, uint64_t len, uint64_t version,
		tfc_store_done done, void *request)
{
	ask(store, PUT, key, data, len, version, done, request);
}

static void remove_keys(void *store, const char *key, tfc_store_done done, void *request)
{
	ask(store, REMOVE, key, NULL, 0, 0, done, request);
}

/* What was asked before is done. */
static void close_store(void *user)
{
	struct sim_store *store = user;
	store->host = NULL;
}

static void drop_waiting(struct sim_store *store)
{
	for (struct request *request = store->waiting, *next; request; request = next) {
		next = request->next;
		free(request->data);
		free(request);
	}
	store->waiting = NULL;
}

void sim_store_lose_host(struct sim_store *store)
{
	store->host = NULL;
	if (store->is_asked && !store->is_done && sim_draw(2)) {
		store->serial++; /* the request had not reached the helper */
		store->is_asked = false;
	}
}

void sim_store_lose_power(struct sim_store *store)
{
	store->host = NULL;
	store->serial++;
	store->is_asked = false;
	drop_waiting(store);
}

/* Job records, of any state. */
uint32_t sim_store_jobs(const struct sim_store *store)
{
	uint32_t count = 0;
	for (const struct item *item = store->items; item; item = item->next) {
		size_t len = strlen(item->key);
		count += len > 7 && strcmp(item->key + len - 7, "/record") == 0;
	}
	return count;
}

static int wait_answer(void *backend, int timeout_ms)
{
	struct sim_store *store = backend;
	uint64_t until = sim.now + (uint64_t)timeout_ms * SIM_MS;
	struct sim_host *host = sim.current;
	while (store->is_asked && sim.now < until) {
		sim_leave();
		sim.is_waiting = true;
		if (!sim_run_event())
			sim.now = sim_next_event() < until ? sim_next_event() : until;
		sim.is_waiting = false;
		sim.waited_at = sim.now;
		sim_enter(host);
	}
	return store->is_asked ? TFC_ETIMEDOUT : TFC_OK;
}

int tfc__store_open_local(tfc_ctx *ctx, const char *path, struct tfc__store **ret_store,
			  tfc_error *error)
{
	static const tfc_store_ops ops = {.size = sizeof(ops),
					  .get = get,
					  .list = list,
					  .put = put,
					  .remove = remove_keys,
					  .close = close_store};
	struct sim_store *store = sim.kernel->store;
	/* The helper of the incarnation before is waited for: it has the lock. */
	store->host = NULL;
	wait_answer(store, 10000);
	const struct tfc__store_kind kind = {.seal_key = store->seal_key, .wait = wait_answer};
	return tfc__store_open(ctx, &ops, store, &kind, ret_store, error);
}
