/* cluster: what the host says of its data, and how it is shared out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "cluster/upstream.h"

/* ---- sharing out */

#define MANY 24

static char names[MANY][4];
static struct tfc__upstream_partition partitions[MANY];
static struct tfc__upstream upstream;
static struct tfc__upstream_share *shares;

/* "aabb-": partition 0 is on node a, ..., the last one anywhere. */
static void share(const char *owners, uint32_t workers)
{
	static char node_names[26][2];
	upstream = (struct tfc__upstream){.name = names[0],
					  .partitions = partitions,
					  .count = (uint32_t)strlen(owners)};
	for (uint32_t i = 0; i < upstream.count; i++) {
		char *node = owners[i] == '-' ? NULL : node_names[owners[i] - 'a'];
		snprintf(names[i], sizeof(names[i]), "%u", i);
		if (node)
			node[0] = owners[i];
		partitions[i] = (struct tfc__upstream_partition){names[i], node};
	}
	assert_int_equal(tfc__upstream_share(&upstream, workers, &shares), TFC_OK);
}

static void expect(const char *owners, uint32_t workers, const char *text)
{
	char seen[256] = "";
	share(owners, workers);
	for (uint32_t i = 0; i < workers; i++)
		snprintf(seen + strlen(seen), sizeof(seen) - strlen(seen), "%s%s:%s", i ? " " : "",
			 shares[i].node ? shares[i].node : "-", shares[i].partitions);
	assert_string_equal(seen, text);
	tfc__upstream_shares_free(shares, workers);
}

static void partitions_are_shared_by_where_they_are(void **state)
{
	expect("abc", 3, "a:0 b:1 c:2");
	expect("aabbcc", 3, "a:0,1 b:2,3 c:4,5");
	expect("cbacba", 3, "a:2,5 b:1,4 c:0,3");
	expect("abab", 4, "a:0 a:2 b:1 b:3");
	expect("aaab", 2, "a:0,1,2 b:3");
	expect("aaaab", 3, "a:0,1 a:2,3 b:4");
	expect("aaaaaa", 1, "a:0,1,2,3,4,5");
	expect("ab", 4, "a:0 b:1 -: -:");
	expect("a", 1, "a:0");
	expect("--", 2, "-:0 -:1");
	expect("ab--", 2, "a:0,2 b:1,3");
	expect("aabc", 2, "a:0,1 b:2,3"); /* nobody is at c */
	expect("aabbc", 1, "a:0,1,2,3,4");
}

static uint32_t draw(uint64_t *seed, uint32_t below)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(*seed >> 33) % below;
}

/* How many of the list's names are partitions of that node (NULL: of any), and marks them. */
static uint32_t mark(const char *list, const char *node, uint32_t *marks)
{
	uint32_t here = 0;
	char copy[128], *rest = copy, *name;
	snprintf(copy, sizeof(copy), "%s", list);
	while (*list && (name = strsep(&rest, ","))) {
		uint32_t i = (uint32_t)strtoul(name, NULL, 10);
		marks[i]++;
		here += node && partitions[i].node && strcmp(partitions[i].node, node) == 0;
	}
	return here;
}

static uint32_t count_owners(uint32_t ret_counts[26])
{
	uint32_t owners = 0;
	memset(ret_counts, 0, 26 * sizeof(*ret_counts));
	for (uint32_t i = 0; i < upstream.count; i++)
		if (partitions[i].node)
			owners += ret_counts[partitions[i].node[0] - 'a']++ == 0;
	return owners;
}

static void each_partition_is_one_workers_and_near_it(void **state)
{
	uint64_t seed = 7;
	for (int round = 0; round < 5000; round++) {
		char owners[MANY] = "";
		uint32_t counts[26], at[26] = {0}, marks[MANY] = {0};
		uint32_t count = 1 + draw(&seed, MANY - 2), workers = 1 + draw(&seed, 9);
		uint32_t local = 0, owned = 0;
		for (uint32_t i = 0; i < count; i++)
			owners[i] = draw(&seed, 9) ? (char)('a' + draw(&seed, 5)) : '-';
		share(owners, workers);
		uint32_t owner_count = count_owners(counts);
		for (uint32_t i = 0; i < workers; i++) {
			local += mark(shares[i].partitions, shares[i].node, marks);
			if (shares[i].node)
				at[shares[i].node[0] - 'a']++;
		}
		for (uint32_t i = 0; i < count; i++) {
			assert_int_equal(marks[i], 1);
			owned += partitions[i].node != NULL;
		}
		for (uint32_t i = 0; i < 26; i++)
			assert_true(at[i] <= counts[i]);
		for (uint32_t i = 0; i < 26 && workers >= owner_count; i++)
			assert_true(!counts[i] || at[i]);
		if (workers >= owner_count)
			assert_int_equal(local, owned);
		tfc__upstream_shares_free(shares, workers);
	}
}

static void a_worker_learns_what_it_has(void **state)
{
	char grid[] = "grid", a[] = "a", b[] = "b";
	char port[] = "PORT=1", host_a[] = "HOST=x", host_b[] = "HOST=y";
	struct tfc__upstream_env envs[] = {{b, host_b}, {NULL, port}, {a, host_a}};
	struct tfc__upstream_share one = {.node = "a", .partitions = names[0]};
	struct tfc__upstream answer = {.name = grid, .version = 7, .envs = envs, .env_count = 3};
	struct tfc__strv env = {0};
	snprintf(names[0], sizeof(names[0]), "0,3");
	tfc__upstream_environ(&answer, &one, "a", &env);
	static const char *const wanted[] = {"PORT=1", "HOST=x", "TFC_UPSTREAM=grid",
					     "TFC_UPSTREAM_VERSION=7", "TFC_PARTITIONS=0,3"};
	assert_int_equal(env.count, 5);
	for (size_t i = 0; i < 5; i++)
		assert_string_equal(env.items[i], wanted[i]);
	tfc__strv_fini(&env);
}

/* ---- asking the host */

struct world {
	tfc_ctx *ctx;
	struct tfc__upstreams *upstreams;
	struct tfc__observer watch;
	tfc_upstream_request *question; /* that is open */
	int asked, canceled, news, changes;
	bool is_prompt;   /* answers inside */
	uint64_t version; /* of answers */
};

static struct world w;

static void answer_now(tfc_upstream_request *question)
{
	assert_int_equal(tfc_upstream_add_partition(question, "0", "a"), TFC_OK);
	assert_int_equal(tfc_upstream_add_partition(question, "1", NULL), TFC_OK);
	assert_int_equal(tfc_upstream_add_env(question, "a", "HOST", "h"), TFC_OK);
	assert_int_equal(tfc_upstream_complete(question, w.version), TFC_OK);
}

static void resolve(void *user, const char *name, tfc_upstream_request *question)
{
	assert_string_equal(name, "grid");
	assert_null(w.question);
	w.asked++;
	if (w.is_prompt)
		answer_now(question);
	else
		w.question = question;
}

static void cancel(void *user, tfc_upstream_request *question)
{
	assert_ptr_equal(question, w.question);
	w.question = NULL;
	w.canceled++;
}

static const tfc_upstream_ops ops = {.size = sizeof(ops), .resolve = resolve, .cancel = cancel};

static void on_news(struct tfc__observer *watch, const void *event)
{
	const struct tfc__upstream_event *news = event;
	assert_string_equal(news->name, "grid");
	w.news++;
	w.changes += news->is_changed;
}

static int setup(void **state)
{
	tfc_error error = TFC_ERROR_INIT;
	w = (struct world){.watch.fn = on_news, .version = 1};
	assert_int_equal(tfc_ctx_new(NULL, NULL, &w.ctx), TFC_OK);
	assert_int_equal(tfc__upstreams_open(w.ctx, &ops, &w, &error, &w.upstreams), TFC_OK);
	tfc__upstreams_watch(w.upstreams, &w.watch);
	return 0;
}

static int teardown(void **state)
{
	tfc__upstreams_close(w.upstreams);
	tfc_ctx_free(w.ctx);
	return 0;
}

static void expect_response(uint64_t version)
{
	const struct tfc__upstream *answer = NULL;
	tfc_error error = TFC_ERROR_INIT;
	assert_int_equal(tfc__upstreams_get(w.upstreams, "grid", &error, &answer), TFC_OK);
	assert_int_equal(answer->version, version);
	assert_int_equal(answer->count, 2);
	assert_string_equal(answer->partitions[0].node, "a");
	assert_null(answer->partitions[1].node);
	assert_string_equal(answer->envs[0].text, "HOST=h");
}

static void expect_wait(const char *sentence)
{
	const struct tfc__upstream *answer = NULL;
	tfc_error error = TFC_ERROR_INIT;
	assert_int_equal(tfc__upstreams_get(w.upstreams, "grid", &error, &answer), TFC_EAGAIN);
	assert_string_equal(error.text, sentence);
	assert_null(answer);
}

static void await(const int *count, int wanted)
{
	while (*count < wanted)
		assert_true(tfc_ctx_run(w.ctx, 10000) >= 0);
	assert_int_equal(*count, wanted);
}

static void a_response_may_come_at_once(void **state)
{
	w.is_prompt = true;
	expect_response(1);
	expect_response(1);
	assert_int_equal(w.asked, 1);
}

static void a_response_may_come_later(void **state)
{
	expect_wait("waiting for the host to locate the partitions of \"grid\"");
	expect_wait("waiting for the host to locate the partitions of \"grid\"");
	assert_int_equal(w.asked, 1);
	answer_now(w.question);
	w.question = NULL;
	assert_int_equal(w.news, 0);
	await(&w.news, 1);
	expect_response(1);
	assert_int_equal(w.asked, 1);
}

static void a_refusal_is_the_sentence(void **state)
{
	expect_wait("waiting for the host to locate the partitions of \"grid\"");
	assert_int_equal(tfc_upstream_fail(w.question, "it is closed"), TFC_OK);
	w.question = NULL;
	await(&w.news, 1);
	expect_wait("upstream \"grid\": it is closed");
	assert_int_equal(w.asked, 1);
}

static void what_is_open_is_canceled_at_the_end(void **state)
{
	expect_wait("waiting for the host to locate the partitions of \"grid\"");
	tfc__upstreams_close(w.upstreams);
	w.upstreams = NULL;
	assert_int_equal(w.canceled, 1);
}

/* A waiting task gets the change at once; a running one, when nothing more changes. */
static void a_change_is_reported_twice(void **state)
{
	w.is_prompt = true;
	expect_response(1);
	await(&w.news, 1);
	tfc__upstreams_changed(w.upstreams, "grid", 1); /* known */
	tfc__upstreams_changed(w.upstreams, "other", 9);
	w.version = 2;
	uint64_t before = tfc__now();
	tfc__upstreams_changed(w.upstreams, "grid", 2);
	await(&w.news, 2);
	assert_int_equal(w.changes, 0);
	expect_response(2);
	await(&w.changes, 1);
	assert_true(tfc__now() - before >= TFC__UPSTREAM_SETTLE_MS * TFC__MS);
	expect_response(2);
}

static void a_response_older_than_the_change_does_not_count(void **state)
{
	expect_wait("waiting for the host to locate the partitions of \"grid\"");
	tfc__upstreams_changed(w.upstreams, "grid", 5);
	w.version = 4;
	assert_int_equal(tfc_upstream_add_partition(w.question, "0", "a"), TFC_OK);
	assert_int_equal(tfc_upstream_complete(w.question, 4), TFC_OK);
	w.question = NULL;
	expect_wait("upstream \"grid\": the host's response is older than the reported change");
}

static void what_a_host_gets_wrong_is_reported(void **state)
{
	static const char *const bad[] = {"", "a,b", "a b", "\x01", NULL};
	expect_wait("waiting for the host to locate the partitions of \"grid\"");
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(tfc_upstream_add_partition(w.question, bad[i], "a"), TFC_EINVAL);
	assert_int_equal(tfc_upstream_add_partition(w.question, "0", ""), TFC_EINVAL);
	assert_int_equal(tfc_upstream_add_env(w.question, NULL, "A=B", "c"), TFC_EINVAL);
	assert_int_equal(tfc_upstream_add_env(w.question, NULL, "A", NULL), TFC_EINVAL);
	assert_int_equal(tfc_upstream_add_partition(NULL, "0", "a"), TFC_EINVAL);
	assert_int_equal(tfc_upstream_complete(w.question, 1), TFC_EINVAL);
	w.question = NULL;
	expect_wait("upstream \"grid\": the host's response names no partition");
}

static void a_partition_twice_is_refused(void **state)
{
	expect_wait("waiting for the host to locate the partitions of \"grid\"");
	assert_int_equal(tfc_upstream_add_partition(w.question, "0", "a"), TFC_OK);
	assert_int_equal(tfc_upstream_add_partition(w.question, "0", "b"), TFC_OK);
	assert_int_equal(tfc_upstream_complete(w.question, 1), TFC_EINVAL);
	w.question = NULL;
	expect_wait("upstream \"grid\": the host's response names a partition twice");
}

static void a_node_without_a_resolver_says_so(void **state)
{
	const struct tfc__upstream *answer;
	tfc_error error = TFC_ERROR_INIT;
	tfc_upstream_ops half = ops;
	tfc__upstreams_close(w.upstreams);
	half.cancel = NULL;
	assert_int_equal(tfc__upstreams_open(w.ctx, &half, NULL, &error, &w.upstreams), TFC_EINVAL);
	assert_string_equal(error.text, "tfc_upstream_ops.cancel is NULL");
	assert_int_equal(tfc__upstreams_open(w.ctx, NULL, NULL, &error, &w.upstreams), TFC_OK);
	assert_int_equal(tfc__upstreams_get(w.upstreams, "grid", &error, &answer), TFC_ENOENT);
	assert_string_equal(error.text, "unknown upstream \"grid\": the node has no upstreams "
					"(options upstream_map, upstream)");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(partitions_are_shared_by_where_they_are),
		cmocka_unit_test(each_partition_is_one_workers_and_near_it),
		cmocka_unit_test(a_worker_learns_what_it_has),
		TEST(a_response_may_come_at_once),
		TEST(a_response_may_come_later),
		TEST(a_refusal_is_the_sentence),
		TEST(what_is_open_is_canceled_at_the_end),
		TEST(a_change_is_reported_twice),
		TEST(a_response_older_than_the_change_does_not_count),
		TEST(what_a_host_gets_wrong_is_reported),
		TEST(a_partition_twice_is_refused),
		TEST(a_node_without_a_resolver_says_so),
	};
	return cmocka_run_group_tests_name("cluster_upstream", tests, NULL, NULL);
}
