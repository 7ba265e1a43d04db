/*
 * A store per machine, in place of lib/store/local.c: its disk, the helper process that has it, and
 * the host that asks the helper. Requests are done one after the other, each after a while. The
 * helper outlives its host and does what it has received; it may be killed with a request under
 * way. Power loss keeps what was answered, and of what was changed but not synced the beginning.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "store/internal.h"

#define OPEN_WAIT (10 * SIM_SECOND) /* OPEN_WAIT_MS, lib/store/local.c */
#define LOCK_WAIT (3 * SIM_SECOND)  /* PATIENCE, lib/store/disk_open.c */

struct item {
	struct item *next;
	uint64_t version;
	size_t len;
	void *data;
	char key[TFC__STORE_KEY_MAX + 1];
};

/* One that power loss may take back: the folder it is in was not synced since. */
struct change {
	struct change *before;
	bool is_put; /* of `key` */
	char key[TFC__STORE_KEY_MAX + 1];
	struct item *old; /* what it removed or replaced */
};

enum kind { GET, LIST, PUT, REMOVE };
static const char *const kinds[] = {"get", "list", "put", "remove"};

struct request {
	struct request *next;
	enum kind kind;
	char key[TFC__STORE_KEY_MAX + 1];
	void *data;
	size_t len;
	uint64_t version; /* that must be there; then the one that was written */
};

enum helper {
	HELPER_NONE,
	HELPER_OPENING, /* the directory */
	HELPER_IDLE,
	HELPER_WORKING, /* at the first request */
	HELPER_SYNCING, /* that one's change is made */
	HELPER_DEAD,    /* and its host has not noticed yet */
};

struct disk_fault {
	uint64_t until;
	bool *ret_hit;
};

struct sim_store {
	struct sim_machine *machine;

	/* the disk */
	struct item *items; /* in the order of keys */
	struct change *changes;
	uint64_t opens;
	uint64_t version;
	struct disk_fault faults[SIM_DISK_FAULTS];
	uint8_t seal_key[TFC__STORE_SEAL_SIZE];

	/* the helper */
	enum helper helper;
	uint64_t process;     /* number of the one that runs: events of others are void */
	bool is_still;        /* it is due, and its machine does not run */
	struct request *head; /* requests that it has received */
	int32_t code;         /* of the first one, or of opening */
	struct disk_fault killer;
	uint32_t failed_removals;
	uint32_t unreported_removals; /* of these: made, but not reported as made */

	/* its host */
	struct sim_host *host; /* NULL: none has it */
	tfc_store_done done;   /* NULL: nothing is asked */
	void *user;
};

struct sim_store *sim_store_new(struct sim_machine *machine)
{
	struct sim_store *store = calloc(1, sizeof(*store));
	if (!store)
		abort();
	store->machine = machine;
	return store;
}

/* ---- the disk */

static bool is_broken(const struct sim_store *store, enum sim_disk_fault how)
{
	return sim.now < store->faults[how].until;
}

/* Whether what is done now meets this fault. */
static bool meets(const struct disk_fault *fault)
{
	bool is_met = sim.now < fault->until;
	if (is_met && fault->ret_hit)
		*fault->ret_hit = true;
	return is_met;
}

/* A disk that fails does so half of the times. */
static bool fails_now(const struct sim_store *store)
{
	return is_broken(store, SIM_DISK_FAILS) && sim_draw(2) &&
	       meets(&store->faults[SIM_DISK_FAILS]);
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

static struct item *find_item(struct sim_store *store, const char *key)
{
	struct item *item = *place_of(store, key);
	return item && strcmp(item->key, key) == 0 ? item : NULL;
}

static void insert_item(struct sim_store *store, struct item *item)
{
	struct item **at = place_of(store, item->key);
	item->next = *at;
	*at = item;
}

static void move_item(struct item **from, struct item **to)
{
	struct item *item = *from;
	*from = item->next;
	item->next = *to;
	*to = item;
}

static void free_items(struct item **items)
{
	while (*items) {
		struct item *item = *items;
		*items = item->next;
		free(item->data);
		free(item);
	}
}

static struct change *begin_change(struct sim_store *store, const struct request *request)
{
	struct change *change = calloc(1, sizeof(*change));
	if (!change)
		abort();
	change->before = store->changes;
	change->is_put = request->kind == PUT;
	memcpy(change->key, request->key, sizeof(change->key));
	store->changes = change;
	return change;
}

/* A folder was synced, and with it what the file system had to write before. */
static void sync_changes(struct sim_store *store)
{
	while (store->changes) {
		struct change *change = store->changes;
		store->changes = change->before;
		free_items(&change->old);
		free(change);
	}
}

static void undo_change(struct sim_store *store)
{
	struct change *change = store->changes;
	struct item *made = NULL;
	store->changes = change->before;
	if (change->is_put)
		move_item(place_of(store, change->key), &made);
	free_items(&made);
	while (change->old) {
		struct item *item = change->old;
		change->old = item->next;
		insert_item(store, item);
	}
	free(change);
}

static void make_put(struct sim_store *store, struct request *request)
{
	struct change *change = begin_change(store, request);
	struct item *item = calloc(1, sizeof(*item));
	if (!item)
		abort();
	memcpy(item->key, request->key, sizeof(item->key));
	item->data = request->data;
	item->len = request->len;
	item->version = request->version = ++store->version;
	request->data = NULL;
	if (find_item(store, item->key))
		move_item(place_of(store, item->key), &change->old);
	insert_item(store, item);
}

static void make_remove(struct sim_store *store, const struct request *request)
{
	struct change *change = begin_change(store, request);
	struct item **at = place_of(store, request->key);
	if (request->key[strlen(request->key) - 1] != '/')
		move_item(at, &change->old);
	else
		while (*at && is_below(*at, request->key))
			move_item(at, &change->old);
}

/* Whether a change may be made: TFC_OK, or why not. */
static int check_change(struct sim_store *store, const struct request *request)
{
	const struct item *item = find_item(store, request->key);
	bool is_folder = request->key[strlen(request->key) - 1] == '/';
	if (request->kind == REMOVE)
		return item || is_folder ? TFC_OK : TFC_ENOENT;
	if (request->version != UINT64_MAX && request->version != (item ? item->version : 0))
		return TFC_ESTATE;
	return meets(&store->faults[SIM_DISK_FULL]) ? TFC_ENOSPC : TFC_OK;
}

/* What cannot be read or written fails before anything is changed; only the last sync of a folder
 * fails behind that. */
static void do_request(struct sim_store *store, struct request *request)
{
	bool is_change = request->kind == PUT || request->kind == REMOVE;
	store->code = is_change ? check_change(store, request) : TFC_OK;
	bool fails = store->code == TFC_OK && fails_now(store);
	if (is_change && store->code == TFC_OK && (!fails || sim_draw(3) == 0)) {
		if (request->kind == PUT)
			make_put(store, request);
		else
			make_remove(store, request);
		store->unreported_removals += fails && request->kind == REMOVE;
	}
	if (fails)
		store->code = TFC_ESYS;
	sim.kernel = store->machine;
	sim_note("store: %s %s: %d", kinds[request->kind], request->key, store->code);
	sim.kernel = NULL;
}

/* ---- answers */

static tfc_store_value value_of(const struct item *item)
{
	return (tfc_store_value){.size = sizeof(tfc_store_value),
				 .key = item->key,
				 .data = item->data,
				 .len = item->len,
				 .version = item->version};
}

/* Calls the host back, which may close the store. */
static void answer(struct sim_store *store, int code, const tfc_store_value *values, uint32_t count)
{
	const char *text = code == TFC_ENOSPC  ? "No space left on device"
			   : code == TFC_ESYS  ? "Input/output error"
			   : code == TFC_ELOST ? "the store's helper process ended; whether it "
						 "wrote the record is unknown"
					       : NULL;
	tfc_store_done done = store->done;
	struct sim_host *before = sim.current;
	store->done = NULL;
	if (!store->host || !done)
		return;
	sim_enter(store->host);
	done(store->user, code, values, count, text);
	if (before)
		sim_enter(before);
	else
		sim_leave();
}

static void answer_request(struct sim_store *store, const struct request *request)
{
	uint32_t count = 0, capacity = 1;
	struct item *item = *place_of(store, request->key);
	for (const struct item *one = item; one; one = one->next)
		capacity++;
	tfc_store_value *values = calloc(capacity, sizeof(*values));
	if (!values)
		abort();
	if (request->kind == PUT && store->code == TFC_OK)
		values[count++] = (tfc_store_value){.size = sizeof(*values),
						    .key = request->key,
						    .data = "",
						    .version = request->version};
	if (request->kind == LIST && store->code == TFC_OK)
		for (; item && is_below(item, request->key); item = item->next)
			values[count++] = value_of(item);
	if (request->kind == GET && store->code == TFC_OK) {
		if (find_item(store, request->key))
			values[count++] = value_of(item);
		else
			store->code = TFC_ENOENT;
	}
	answer(store, store->code, values, count);
	free(values);
}

/* ---- the helper */

static void step(void *user, uint64_t process);

static void step_after(struct sim_store *store, uint64_t time)
{
	sim_at(sim.now + time, step, store, store->process);
}

/* How long something that writes takes. */
static uint64_t writing_takes(struct sim_store *store)
{
	uint64_t takes = 200000 + sim_draw(4 * SIM_MS);
	if (sim_draw(64) == 0)
		takes += sim_draw(400 * SIM_MS); /* a disk that is slow for once */
	if (meets(&store->faults[SIM_DISK_SLOW]))
		takes += 300 * SIM_MS + sim_draw(4 * SIM_SECOND);
	if (meets(&store->faults[SIM_DISK_HANGS]))
		takes += store->faults[SIM_DISK_HANGS].until - sim.now;
	return takes;
}

static void start_helper(struct sim_store *store)
{
	store->helper = HELPER_OPENING;
	store->process++;
	step_after(store, SIM_MS + writing_takes(store));
}

static void begin_request(struct sim_store *store)
{
	const struct request *request = store->head;
	store->helper = HELPER_WORKING;
	step_after(store, request->kind == PUT || request->kind == REMOVE
				  ? writing_takes(store)
				  : 50000 + sim_draw(SIM_MS));
}

/* Its host's next request, or its end when that is gone. */
static void go_on(struct sim_store *store)
{
	if (store->head)
		begin_request(store);
	else
		store->helper = store->host ? HELPER_IDLE : HELPER_NONE;
}

static struct request *take_request(struct sim_store *store)
{
	struct request *request = store->head;
	store->head = request->next;
	return request;
}

static void free_request(struct request *request)
{
	free(request->data);
	free(request);
}

static void end_helper(struct sim_store *store, enum helper next)
{
	while (store->head) {
		store->failed_removals += store->head->kind == REMOVE;
		free_request(take_request(store));
	}
	store->helper = next;
	store->process++;
	store->is_still = false;
	if (next == HELPER_DEAD)
		step_after(store, 10000 + sim_draw(SIM_MS));
}

static void open_disk(struct sim_store *store)
{
	store->code = fails_now(store)                       ? TFC_ESYS
		      : meets(&store->faults[SIM_DISK_FULL]) ? TFC_ENOSPC
							     : TFC_OK;
	if (store->code == TFC_OK) {
		store->version = ++store->opens << 32;
		sync_changes(store);
		go_on(store);
		return;
	}
	end_helper(store, HELPER_NONE);
	answer(store, store->code, NULL, 0);
}

/* Kills it with its first request not begun, changed, or synced. */
static void kill_helper(struct sim_store *store)
{
	uint64_t how_far = sim_draw(3);
	bool is_made = store->helper == HELPER_SYNCING;
	if (store->helper == HELPER_WORKING && how_far > 0) {
		do_request(store, store->head);
		is_made = true;
	}
	if (store->helper >= HELPER_WORKING && how_far > 1)
		sync_changes(store);
	if (is_made && store->code == TFC_OK && store->head->kind == REMOVE)
		store->unreported_removals++;
	sim_note("store: the helper is killed");
	end_helper(store, store->host ? HELPER_DEAD : HELPER_NONE);
}

static void finish_request(struct sim_store *store)
{
	struct request *request = take_request(store);
	if (store->code == TFC_OK && (request->kind == PUT || request->kind == REMOVE))
		sync_changes(store);
	if (request->kind == REMOVE && store->code < 0 && store->code != TFC_ENOENT)
		store->failed_removals++;
	go_on(store);
	answer_request(store, request);
	free_request(request);
}

static void step(void *user, uint64_t process)
{
	struct sim_store *store = user;
	if (process != store->process)
		return;
	store->is_still = store->machine->power != SIM_RUNS;
	if (store->is_still)
		return;
	switch (store->helper) {
	case HELPER_NONE:
	case HELPER_IDLE:
		break;
	case HELPER_OPENING:
		open_disk(store);
		break;
	case HELPER_WORKING:
		if (sim.now < store->killer.until && sim_draw(2) && meets(&store->killer)) {
			store->killer.until = sim.now;
			kill_helper(store);
			break;
		}
		do_request(store, store->head);
		store->helper = HELPER_SYNCING;
		step_after(store, 50000 + sim_draw(SIM_MS));
		break;
	case HELPER_SYNCING:
		finish_request(store);
		break;
	case HELPER_DEAD:
		end_helper(store, HELPER_NONE);
		answer(store, TFC_ELOST, NULL, 0);
		break;
	}
}

/* ---- what its host asks */

static void ask(struct sim_store *store, enum kind kind, const char *key, const void *data,
		uint64_t len, uint64_t version, tfc_store_done done, void *user)
{
	struct request *request = calloc(1, sizeof(*request)), **last = &store->head;
	if (!request || (len && !(request->data = malloc(len))))
		abort();
	request->kind = kind;
	request->len = len;
	request->version = version;
	snprintf(request->key, sizeof(request->key), "%s", key);
	if (len)
		memcpy(request->data, data, len);
	while (*last)
		last = &(*last)->next;
	*last = request;
	store->done = done;
	store->user = user;
	if (store->helper == HELPER_NONE)
		start_helper(store);
	else if (store->helper == HELPER_IDLE)
		begin_request(store);
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

/* Lets time go on until that is so, or until then. */
static int wait_until(struct sim_store *store, bool (*is_so)(const struct sim_store *store),
		      uint64_t until)
{
	while (!is_so(store) && sim.now < until)
		sim_wait(until);
	return is_so(store) ? TFC_OK : TFC_ETIMEDOUT;
}

static bool is_answered(const struct sim_store *store)
{
	return !store->done;
}

static int wait_response(void *backend, int timeout_ms)
{
	return wait_until(backend, is_answered, sim.now + (uint64_t)timeout_ms * SIM_MS);
}

static bool is_unlocked(const struct sim_store *store)
{
	return store->helper == HELPER_NONE;
}

static bool is_opened(const struct sim_store *store)
{
	return store->helper != HELPER_OPENING;
}

static void lose_host(struct sim_store *store)
{
	store->host = NULL;
	store->done = NULL;
	if (store->helper == HELPER_IDLE || store->helper == HELPER_DEAD)
		end_helper(store, HELPER_NONE);
}

/* The real one waits until its helper has ended. Here whoever opens the disk next does. */
static void close_store(void *store)
{
	lose_host(store);
}

int tfc__store_open_local(tfc_ctx *ctx, const char *path, tfc_error *error,
			  struct tfc__store **ret_store)
{
	static const tfc_store_ops ops = {.size = sizeof(ops),
					  .get = get,
					  .list = list,
					  .put = put,
					  .remove = remove_keys,
					  .close = close_store};
	struct sim_store *store = sim.kernel->store;
	const struct tfc__store_kind kind = {.seal_key = store->seal_key, .wait = wait_response};
	/* The helper of the incarnation before has the lock until it ends. */
	if (wait_until(store, is_unlocked, sim.now + LOCK_WAIT) < 0)
		return tfc__fail(error, TFC_EBUSY, "store", 0, "state directory %s is in use",
				 path);
	store->host = sim.current;
	start_helper(store);
	if (wait_until(store, is_opened, sim.now + OPEN_WAIT) < 0)
		store->code = TFC_ETIMEDOUT;
	if (store->code < 0) {
		close_store(store);
		return tfc__fail(error, store->code, "store", 0, "state directory %s: %s", path,
				 tfc_err_text(store->code));
	}
	return tfc__store_open(ctx, &ops, store, &kind, error, ret_store);
}

/* ---- what happens to it */

void sim_store_lose_host(struct sim_store *store)
{
	if (!store->host)
		return;
	lose_host(store);
	if (store->helper != HELPER_NONE && sim_draw(2))
		kill_helper(store); /* with its host */
}

void sim_store_lose_power(struct sim_store *store)
{
	uint64_t count = 0;
	lose_host(store);
	if (store->helper == HELPER_WORKING && sim_draw(2))
		do_request(store, store->head);
	end_helper(store, HELPER_NONE);
	for (const struct change *change = store->changes; change; change = change->before)
		count++;
	for (uint64_t lost = sim_draw(count + 1); lost > 0; lost--)
		undo_change(store);
	sync_changes(store);
}

void sim_store_wake(struct sim_store *store)
{
	if (store->is_still)
		step_after(store, sim_draw(SIM_MS));
	store->is_still = false;
}

void sim_store_break(struct sim_store *store, enum sim_disk_fault how, uint64_t until,
		     bool *ret_hit)
{
	store->faults[how] = (struct disk_fault){until, ret_hit};
}

void sim_store_kill_helper(struct sim_store *store, uint64_t until, bool *ret_hit)
{
	store->killer = (struct disk_fault){until, ret_hit};
}

uint64_t sim_store_opens_at(const struct sim_store *store)
{
	bool is_hanging = is_broken(store, SIM_DISK_HANGS);
	return is_hanging ? store->faults[SIM_DISK_HANGS].until : sim.now;
}

static bool was_met_lately(const struct disk_fault *fault)
{
	return fault->until && sim.now < fault->until + OPEN_WAIT;
}

bool sim_store_may_refuse(const struct sim_store *store)
{
	bool may_refuse = was_met_lately(&store->killer);
	for (int how = 0; how < SIM_DISK_FAULTS; how++)
		may_refuse |= was_met_lately(&store->faults[how]);
	return may_refuse;
}

uint32_t sim_store_failed_removals(const struct sim_store *store)
{
	return store->failed_removals;
}

uint32_t sim_store_unreported_removals(const struct sim_store *store)
{
	return store->unreported_removals;
}

uint32_t sim_store_jobs(const struct sim_store *store)
{
	uint32_t count = 0;
	for (const struct item *item = store->items; item; item = item->next) {
		size_t len = strlen(item->key);
		count += len > 7 && strcmp(item->key + len - 7, "/record") == 0;
	}
	return count;
}
