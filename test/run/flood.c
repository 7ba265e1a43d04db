/*
 * A client of a node that takes what it can: flood ADDRESS KEY-FILE ROLE MODE COUNT ...
 *
 *     idle COUNT                   connections that do nothing
 *     unread COUNT STREAMS JOB [CURSOR]  that subscribe, and do not read
 *     answers COUNT REQUESTS JOB   that ask for long answers, and do not read
 *     explain COUNT REQUESTS JOB   that want a job explained, as JSON, and do not read
 *     offers COUNT REQUESTS        that offer bundles of 1 GiB, and send nothing of them
 *     partial COUNT KIB            that send but the beginning of a message
 *
 * It says "up N refused N" when all are there and have sent what they send. For each line that it
 * reads it reads all that comes until nothing does for a second, and says how its calls ended:
 * "ok N again N lost N other N items N", and the text of the last refusal. It ends with
 * its input.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/internal.h"
#include "wire/rpc.h"

#define CREDIT UINT32_C(0x80000000)
#define QUIET_NS TFC__SECOND
#define PATIENCE_NS (60 * TFC__SECOND)

/* In a context of its own, so that it can be left unread alone. */
struct client {
	tfc_ctx *ctx;
	struct tfc__peer *peer;
	bool is_up;
	bool is_down;
};

static uint32_t ok, again, lost, other, open_calls;
static uint64_t items, output_bytes, happened_at;
static tfc_error said;

static void fail(const char *what, const tfc_error *error)
{
	fprintf(stderr, "flood: %s: %s\n", what, error->text);
	exit(1);
}

/* ---- what comes */

static void on_item(void *user, const msgpack_object *item)
{
	size_t len;
	items++;
	for (uint32_t i = 0; item->type == MSGPACK_OBJECT_ARRAY && i < item->via.array.size; i++) {
		const msgpack_object *text = tfc__msg_get(&item->via.array.ptr[i], "d");
		output_bytes += text && tfc__msg_bytes(text, &len) ? len : 0;
	}
	happened_at = tfc__now();
}

static void on_end(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	open_calls--;
	happened_at = tfc__now();
	if (code == TFC_OK)
		ok++;
	else if (code == TFC_EAGAIN)
		again++;
	else if (code == TFC_ELOST)
		lost++;
	else
		other++;
	if (code == TFC_EAGAIN)
		said = *error;
}

static void on_up(struct tfc__peer *peer, void *user)
{
	((struct client *)user)->is_up = true;
}

static void on_down(struct tfc__peer *peer, void *user, const tfc_error *why)
{
	((struct client *)user)->is_down = true;
	said = *why;
	happened_at = tfc__now();
}

static const struct tfc__peer_ops ops = {.up = on_up, .down = on_down};

/* ---- turns */

static void turn(struct client *client)
{
	while (tfc_ctx_dispatch(client->ctx, 0) > 0)
		;
}

static void wait_for(struct client *client, uint64_t deadline)
{
	struct pollfd fd = {.fd = tfc_ctx_fd(client->ctx), .events = POLLIN};
	if (tfc__now() > deadline) {
		fprintf(stderr, "flood: the node never answers\n");
		exit(1);
	}
	poll(&fd, 1, 10);
	turn(client);
}

/* Its hello has come, and no refusal with it. */
static void connect_to(struct client *client, const struct tfc__dial_options *options)
{
	tfc_error error = TFC_ERROR_INIT;
	uint64_t deadline = tfc__now() + PATIENCE_NS;
	if (tfc_ctx_new(NULL, &error, &client->ctx) < 0 ||
	    tfc__peer_dial(client->ctx, options, &ops, client, &error, &client->peer) < 0)
		fail("dial", &error);
	while (!client->is_up && !client->is_down)
		wait_for(client, deadline);
}

/* A question that is answered at once, behind which all that came before has been seen. */
static void await_response(struct client *client)
{
	const struct tfc__rpc_options call = {.method = "nobody.knows", .end = on_end};
	tfc_error error = TFC_ERROR_INIT;
	uint64_t deadline = tfc__now() + PATIENCE_NS;
	uint32_t before = open_calls++;
	if (client->is_down ||
	    tfc__rpc_call(tfc__peer_rpc(client->peer), &call, &error, NULL) < 0) {
		open_calls--;
		return;
	}
	while (open_calls > before && !client->is_down)
		wait_for(client, deadline);
	other -= other > 0; /* it is not known, or was refused as any other */
}

/* ---- what it does */

static void ask(struct client *client, const char *method, const char *job, size_t len,
		const char *cursor, uint32_t credit)
{
	const char *key = strcmp(method, "gateway.explain") == 0 ? "definition" : "job";
	struct tfc__buf params = {0};
	struct tfc__rpc *rpc = tfc__peer_rpc(client->peer);
	const struct tfc__rpc_options call = {
		.method = method,
		.params = &params,
		.credit = credit,
		.item = on_item,
		.end = on_end,
	};
	tfc_error error = TFC_ERROR_INIT;
	tfc__msg_map(&params, 2);
	tfc__msg_str(&params, key);
	tfc__msg_text(&params, job, len);
	tfc__msg_put_str(&params, "key", cursor);
	if (client->is_down || !rpc || tfc__rpc_call(rpc, &call, &error, NULL) < 0)
		lost++;
	else
		open_calls++;
	tfc__buf_fini(&params);
}

static void offer(struct client *client, uint32_t number)
{
	struct tfc__buf params = {0};
	char hash[65];
	const struct tfc__rpc_options call = {
		.method = "bundle.offer",
		.params = &params,
		.credit = CREDIT,
		.item = on_item,
		.end = on_end,
	};
	snprintf(hash, sizeof(hash), "%08x%056x", getpid(), number);
	tfc__msg_map(&params, 2);
	tfc__msg_put_str(&params, "hash", hash);
	tfc__msg_put_u64(&params, "size", 1 << 30);
	open_calls++;
	if (tfc__rpc_call(tfc__peer_rpc(client->peer), &call, NULL, NULL) < 0)
		exit(1);
	tfc__buf_fini(&params);
}

/* What was asked is on its way; from then on nothing is read. */
static void send_all(struct client *client)
{
	uint64_t deadline = tfc__now() + PATIENCE_NS;
	while (!client->is_down && tfc__channel_backlog(client->peer->channel))
		wait_for(client, deadline);
}

static void ask_often(struct client *client, const char *method, uint32_t count, const char *job,
		      const char *cursor, uint32_t credit)
{
	for (uint32_t i = 0; i < count; i++)
		ask(client, method, job, strlen(job), cursor, credit);
	send_all(client);
}

/* A message of 16 MiB, of which so much goes; the rest never does. Writing is in turns. */
static void send_part(struct client *client, uint32_t kib)
{
	static char *text;
	const size_t len = (15u << 20) + (900u << 10);
	uint64_t sent = 0, deadline = tfc__now() + PATIENCE_NS;
	if (!text && !(text = malloc(len)))
		exit(1);
	memset(text, 'x', len);
	ask(client, "gateway.describe", text, len, NULL, 0);
	while (sent < (uint64_t)kib << 10 && !client->is_down && tfc__now() < deadline) {
		size_t before = tfc__channel_backlog(client->peer->channel);
		if (tfc_ctx_dispatch(client->ctx, 1) <= 0)
			wait_for(client, deadline);
		if (!client->is_down)
			sent += before - tfc__channel_backlog(client->peer->channel);
	}
}

/* ---- the whole */

static void read_all(struct client *clients, uint32_t count)
{
	happened_at = tfc__now();
	while (tfc__now() - happened_at < QUIET_NS) {
		uint64_t before = happened_at;
		for (uint32_t i = 0; i < count; i++)
			turn(&clients[i]);
		if (happened_at == before)
			poll(NULL, 0, 5);
	}
	printf("ok %u again %u lost %u other %u items %llu bytes %llu: %s\n", ok, again, lost,
	       other, (unsigned long long)items, (unsigned long long)output_bytes, said.text);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__keyring *keyring = NULL;
	char line[16];
	if (argc < 6)
		return 2;
	const char *mode = argv[4], *job = argc > 7 ? argv[7] : "";
	const char *cursor = argc > 8 ? argv[8] : NULL;
	uint32_t count = (uint32_t)atoi(argv[5]), amount = argc > 6 ? (uint32_t)atoi(argv[6]) : 0;
	struct client *clients = calloc(count, sizeof(*clients));
	if (!clients || tfc__keyring_load(argv[2], &error, &keyring) < 0)
		fail(argv[2], &error);
	const struct tfc__dial_options options = {
		.address = argv[1],
		.keyring = keyring,
		.role = strcmp(argv[3], "read") == 0 ? TFC__KEY_READ : TFC__KEY_SUBMIT,
		.timeout_ms = 30000,
	};
	uint32_t refused = 0;
	for (uint32_t i = 0; i < count; i++) {
		connect_to(&clients[i], &options);
		await_response(&clients[i]);
		refused += clients[i].is_down;
	}
	ok = again = lost = other = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (strcmp(mode, "unread") == 0)
			ask_often(&clients[i], "gateway.subscribe", amount, job, cursor, CREDIT);
		else if (strcmp(mode, "answers") == 0)
			ask_often(&clients[i], "gateway.describe", amount, job, NULL, 0);
		else if (strcmp(mode, "explain") == 0)
			ask_often(&clients[i], "gateway.explain", amount, job, NULL, 0);
		else if (strcmp(mode, "offers") == 0)
			for (uint32_t j = 0; j < amount; j++)
				offer(&clients[i], i * amount + j);
		else if (strcmp(mode, "partial") == 0)
			send_part(&clients[i], amount);
	}
	printf("up %u refused %u: %s\n", count - refused, refused, said.text);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		read_all(clients, count);
	_exit(0);
}
