/* bundle: what a client may not do that offers bundles to a node. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>

#include "base/file.h"
#include "bundle/transfer.h"
#include "leaks.h"
#include "node_run.h"
#include "served.h"

#define HASH_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HASH_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

/* A node, and a client that says what it likes. */
struct place {
	struct node_run run;
	char dir[LEAKS_PATH];
	char state[LEAKS_PATH + 16];
	char cache[LEAKS_PATH + 32];
	struct tfc__peer *peer;
	bool is_up;
};

struct outcome {
	struct tfc__rpc_call *call;
	bool has_item;
	bool is_done;
	int code;
	char text[1024];
};

static void on_up(struct tfc__peer *peer, void *user)
{
	((struct place *)user)->is_up = true;
}

static void on_serve(struct tfc__peer *peer, void *user, struct tfc__rpc_request *request,
		     const char *method, const msgpack_object *params)
{
	fail();
}

static void on_down(struct tfc__peer *peer, void *user, const tfc_error *why)
{
	fail_msg("%s", why->text);
}

static bool is_so(void *user)
{
	return *(const bool *)user;
}

static void run_until(struct place *place, bool *is_met)
{
	node_await(&place->run, is_so, is_met, "an answer");
}

static void begin(struct place *place)
{
	static const struct tfc__peer_ops ops = {on_up, on_serve, on_down};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	tfc_error error = TFC_ERROR_INIT;
	char address[256];
	*place = (struct place){.peer = NULL};
	leaks_make_dir(place->dir);
	snprintf(place->state, sizeof(place->state), "%s/state", place->dir);
	snprintf(place->cache, sizeof(place->cache), "%s/bundles", place->state);
	options.state_dir = place->state;
	node_run_begin(&place->run, &options);
	snprintf(address, sizeof(address), "unix:%s/s", place->run.dir);
	place->run.served = served_begin(place->run.ctx, place->run.node, address, NULL, NULL);
	const struct tfc__dial_options dial = {.address = address};
	if (tfc__peer_dial(place->run.ctx, &dial, &ops, place, &error, &place->peer) < 0)
		fail_msg("%s", error.text);
	run_until(place, &place->is_up);
}

static bool is_empty(void *user)
{
	const struct place *place = user;
	unsigned count = 0;
	DIR *dir = opendir(place->cache);
	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count == 2; /* "." and ".." */
}

static void end(struct place *place)
{
	tfc__peer_close(place->peer);
	node_await(&place->run, is_empty, place, "a cache with nothing in it");
	node_run_end(&place->run);
	assert_int_equal(tfc__remove_tree(place->dir), 0);
}

static void on_item(void *user, const msgpack_object *item)
{
	((struct outcome *)user)->has_item = true;
}

static void on_end(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	struct outcome *outcome = user;
	outcome->call = NULL;
	outcome->is_done = true;
	outcome->code = code;
	snprintf(outcome->text, sizeof(outcome->text), "%s", code < 0 ? error->text : "");
}

static void call(struct place *place, const char *method, struct tfc__buf *params,
		 struct outcome *outcome)
{
	const struct tfc__rpc_options options = {.method = method,
						 .params = params,
						 .credit = 16,
						 .item = on_item,
						 .end = on_end,
						 .user = outcome};
	*outcome = (struct outcome){.call = NULL};
	assert_int_equal(tfc__rpc_call(tfc__peer_rpc(place->peer), &options, NULL, &outcome->call),
			 0);
	tfc__buf_fini(params);
}

static void offer(struct place *place, const char *hash, uint64_t size, struct outcome *outcome)
{
	struct tfc__buf params = {0};
	tfc__msg_map(&params, 2);
	tfc__msg_put_str(&params, "hash", hash);
	tfc__msg_put_u64(&params, "size", size);
	call(place, TFC__BUNDLE_OFFER, &params, outcome);
}

static void send_piece(struct place *place, const char *hash, uint64_t at, const void *data,
		       size_t len, struct outcome *outcome)
{
	struct tfc__buf params = {0};
	tfc__msg_map(&params, 3);
	tfc__msg_put_str(&params, "hash", hash);
	tfc__msg_put_u64(&params, "at", at);
	tfc__msg_put_bin(&params, "data", data, len);
	call(place, TFC__BUNDLE_CHUNK, &params, outcome);
}

static void expect_refusal(struct place *place, struct outcome *outcome, int code,
			   const char *sentence)
{
	run_until(place, &outcome->is_done);
	assert_int_equal(outcome->code, code);
	if (!strstr(outcome->text, sentence))
		fail_msg("%s", outcome->text);
}

/* ---- tests */

static void what_is_not_what_it_was_called_is_removed(void **state)
{
	struct place place;
	struct outcome offered, first, last;
	begin(&place);
	offer(&place, HASH_A, 8, &offered);
	send_piece(&place, HASH_A, 0, "1234", 4, &first);
	send_piece(&place, HASH_A, 4, "5678", 4, &last);
	expect_refusal(&place, &offered, TFC_EARCHIVE, "SHA-256 is ");
	run_until(&place, &last.is_done);
	assert_int_equal(first.code, 0);
	end(&place);
}

static void what_was_not_offered_is_not_taken(void **state)
{
	struct place place;
	struct outcome offered, sent;
	begin(&place);
	send_piece(&place, HASH_A, 0, "1234", 4, &sent);
	expect_refusal(&place, &sent, TFC_ENOENT, "offered");
	offer(&place, HASH_A, 8, &offered);
	send_piece(&place, HASH_B, 0, "1234", 4, &sent);
	expect_refusal(&place, &sent, TFC_ENOENT, "offered");
	assert_true(offered.has_item);
	tfc__rpc_drop(offered.call);
	end(&place);
}

/* More bytes than were announced are not taken; what cannot be an archive's size is refused. */
static void sizes_bind(void **state)
{
	static const uint64_t sizes[] = {0, TFC__OFFER_BYTES_MAX + 1, UINT64_MAX};
	struct place place;
	struct outcome offered, sent;
	begin(&place);
	for (size_t i = 0; i < 3; i++) {
		offer(&place, HASH_A, sizes[i], &offered);
		expect_refusal(&place, &offered, TFC_ETOOBIG, "an archive has");
	}
	offer(&place, HASH_A, 8, &offered);
	send_piece(&place, HASH_A, 0, "123456789", 9, &sent);
	run_until(&place, &sent.is_done);
	assert_int_equal(sent.code, 0); /* it says that it was not taken */
	assert_false(offered.is_done);
	tfc__rpc_drop(offered.call);
	end(&place);
}

static void submit_with(struct place *place, const char *bundle, struct outcome *ret_outcome)
{
	static const char definition[] = "{\"framework\":\"none\",\"argv\":[\"true\"],\"bundle\":"
					 "\"x.zip\",\"roles\":{\"worker\":{}}}";
	struct tfc__buf params = {0};
	tfc__msg_map(&params, 2);
	tfc__msg_put_bin(&params, "definition", definition, strlen(definition));
	tfc__msg_put_str(&params, "bundle", bundle);
	call(place, "gateway.submit", &params, ret_outcome);
}

/* Of each method that takes a hash: nothing is made, and what is not one is not looked for. */
static void a_hash_is_no_path(void **state)
{
	static const char *const paths[] = {
		"",
		"..",
		"../../etc/passwd",
		"/tmp",
		"a/" HASH_A,
		HASH_A "a",
		"../aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"};
	struct place place;
	struct outcome outcome;
	begin(&place);
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		const char *refusal = strlen(paths[i]) < TFC_BUNDLE_HASH_SIZE
					      ? "not the SHA-256"
					      : "hash: must be text of at most 64 bytes";
		offer(&place, paths[i], 8, &outcome);
		expect_refusal(&place, &outcome, TFC_EINVAL, refusal);
		send_piece(&place, paths[i], 0, "12345678", 8, &outcome);
		expect_refusal(&place, &outcome, TFC_EINVAL, refusal);
		submit_with(&place, paths[i], &outcome);
		expect_refusal(&place, &outcome, TFC_EACCES, "name its hash");
	}
	end(&place);
}

/* Else whoever is first would have the others wait for bytes that are never taken. */
static void two_must_report_one_size(void **state)
{
	struct place place;
	struct outcome first, second;
	begin(&place);
	offer(&place, HASH_A, 8, &first);
	offer(&place, HASH_A, 9, &second);
	expect_refusal(&place, &second, TFC_EBUSY, "one of the sizes is wrong");
	assert_false(first.is_done);
	tfc__rpc_drop(first.call);
	end(&place);
}

static void a_piece_of_no_bytes_does_nothing(void **state)
{
	struct place place;
	struct outcome offered, sent;
	begin(&place);
	offer(&place, HASH_A, 8, &offered);
	send_piece(&place, HASH_A, 0, "", 0, &sent);
	run_until(&place, &sent.is_done);
	assert_int_equal(sent.code, 0);
	assert_false(offered.is_done);
	tfc__rpc_drop(offered.call);
	end(&place);
}

static void a_connection_offers_only_so_many(void **state)
{
	struct place place;
	struct outcome offered[TFC__OFFERS_MAX + 1];
	char hash[TFC_BUNDLE_HASH_SIZE] = HASH_A;
	begin(&place);
	for (unsigned i = 0; i <= TFC__OFFERS_MAX; i++) {
		hash[0] = (char)('0' + i);
		offer(&place, hash, 8, &offered[i]);
	}
	expect_refusal(&place, &offered[TFC__OFFERS_MAX], TFC_EBUSY, "try again later");
	for (unsigned i = 0; i < TFC__OFFERS_MAX; i++)
		tfc__rpc_drop(offered[i].call);
	offer(&place, HASH_B, 8, &offered[0]);
	run_until(&place, &offered[0].has_item);
	tfc__rpc_drop(offered[0].call);
	end(&place);
}

/* The node reads no path for a client, whoever it is, and no bundle that nobody brought. */
static void a_job_names_only_what_was_brought(void **state)
{
	static const char *const hashes[] = {NULL, HASH_A};
	static const int codes[] = {TFC_EACCES, TFC_ENOENT};
	static const char *const sentences[] = {"cannot name a path", "is not on this node"};
	struct place place;
	struct outcome submitted;
	begin(&place);
	for (int i = 0; i < 2; i++) {
		struct tfc__buf params = {0};
		char *json = node_json("{'framework':'none','bundle':'/etc/passwd',"
				       "'argv':['true'],'roles':{'worker':{}}}");
		tfc__msg_map(&params, 2);
		tfc__msg_put_str(&params, "definition", json);
		tfc__msg_put_str(&params, "bundle", hashes[i]);
		call(&place, "gateway.submit", &params, &submitted);
		expect_refusal(&place, &submitted, codes[i], sentences[i]);
		free(json);
	}
	end(&place);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_what_it_was_called_is_removed),
		cmocka_unit_test(what_was_not_offered_is_not_taken),
		cmocka_unit_test(sizes_bind),
		cmocka_unit_test(a_hash_is_no_path),
		cmocka_unit_test(two_must_report_one_size),
		cmocka_unit_test(a_piece_of_no_bytes_does_nothing),
		cmocka_unit_test(a_connection_offers_only_so_many),
		cmocka_unit_test(a_job_names_only_what_was_brought),
	};
	return cmocka_run_group_tests_name("bundle_offer", tests, NULL, NULL);
}
