/*
 * One end of a connection, and messages of any kind from the other: each has a byte of length in
 * front. Every call ends once, broken is said once, and what goes out is always a valid message.
 */
#include "wire/rpc.h"
#include "fuzz.h"

enum { CALLS = 3, REQUESTS = 256 };

static tfc_ctx *ctx;

struct end {
	struct tfc__rpc *rpc;
	unsigned ends[CALLS];
	unsigned broken;
	struct tfc__rpc_request *requests[REQUESTS];
	bool is_canceled[REQUESTS];
	unsigned request_count;
};

struct slot {
	struct end *end;
	unsigned number;
};

static struct slot calls[CALLS], slots[REQUESTS];

static void send_out(void *user, struct tfc__buf *message)
{
	const struct tfc__msg_limits limits = {.objects = 262144};
	CHECK(tfc__msg_scan(message->data, message->len, &limits, NULL) == TFC_OK);
	tfc__buf_fini(message);
}

static void on_cancel(void *user)
{
	const struct slot *slot = user;
	CHECK(!slot->end->is_canceled[slot->number]);
	slot->end->is_canceled[slot->number] = true;
	CHECK(tfc__rpc_credit(slot->end->requests[slot->number]) == 0);
}

static void on_credit(void *user)
{
	const struct slot *slot = user;
	CHECK(tfc__rpc_credit(slot->end->requests[slot->number]) > 0);
	tfc__rpc_item(slot->end->requests[slot->number], NULL);
}

/* By its name: kept, refused, or answered, with an item before where there is credit. */
static void serve(void *user, struct tfc__rpc_request *request, const char *method,
		  const msgpack_object *params)
{
	struct end *end = user;
	tfc_error error = TFC_ERROR_INIT;
	if (!request)
		return;
	if (method[0] == 'k' && end->request_count < REQUESTS) {
		struct slot *slot = &slots[end->request_count];
		*slot = (struct slot){end, end->request_count};
		end->is_canceled[slot->number] = false;
		end->requests[end->request_count++] = request;
		tfc__rpc_watch(request, on_credit, on_cancel, slot);
	} else if (method[0] == 'f') {
		tfc__fail(&error, TFC_EBUSY, "port", 0, "no");
		tfc__rpc_fail(request, &error);
	} else {
		bool has_credit = tfc__rpc_credit(request) > 0;
		CHECK((tfc__rpc_item(request, NULL) == TFC_OK) == has_credit);
		tfc__rpc_reply(request, NULL);
	}
}

static void on_broken(void *user, const tfc_error *error)
{
	struct end *end = user;
	fuzz_check_error(error->code, error);
	CHECK(++end->broken == 1);
}

static void on_item(void *user, const msgpack_object *item)
{
	const struct slot *slot = user;
	CHECK(item && !slot->end->ends[slot->number]);
}

static void on_end(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	const struct slot *slot = user;
	CHECK(code == TFC_OK ? result && !error : error && error->code == code);
	CHECK(++slot->end->ends[slot->number] == 1);
}

static void make_calls(struct end *end)
{
	for (unsigned i = 0; i < CALLS; i++) {
		calls[i] = (struct slot){end, i};
		const struct tfc__rpc_options options = {.method = "x",
							 .credit = i,
							 .item = on_item,
							 .end = on_end,
							 .user = &calls[i]};
		CHECK(tfc__rpc_call(end->rpc, &options, NULL, NULL) == TFC_OK);
	}
}

static void run(void)
{
	while (tfc_ctx_run(ctx, 0) > 0)
		;
}

static void finish(struct end *end)
{
	run();
	tfc__rpc_close(end->rpc, NULL);
	run();
	for (unsigned i = 0; i < CALLS; i++)
		CHECK(end->ends[i] == 1);
	for (unsigned i = 0; i < end->request_count; i++) {
		CHECK(end->is_canceled[i]);
		tfc__rpc_reply(end->requests[i], NULL);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct tfc__rpc_ops ops = {send_out, serve, on_broken, NULL, NULL};
	struct fuzz_input input = {data, size};
	struct end end = {0};
	if (!ctx)
		CHECK(tfc_ctx_new(NULL, NULL, &ctx) == TFC_OK);
	CHECK(tfc__rpc_open(ctx, &ops, &end, &end.rpc) == TFC_OK);
	make_calls(&end);
	while (input.len) {
		size_t len = (size_t)fuzz_number(&input, 1);
		const uint8_t *message = fuzz_bytes(&input, len, &len);
		tfc__rpc_feed(end.rpc, message, len);
	}
	finish(&end);
	return 0;
}
