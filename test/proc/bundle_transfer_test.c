/* bundle: it goes to another node once, whole and checked, whatever becomes of connections. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent_pair.h"
#include "base/clock.h"
#include "base/file.h"
#include "proc_run.h"

#define LEASE_MS 60000

/* A directory with one big file of bytes that do not repeat, and a small one. */
static char *make_program(struct agent_pair *pair, size_t bytes)
{
	char path[256];
	char *dir = tfc__path_join(pair->dir, "program");
	uint32_t random = 1;
	mkdir(dir, 0700);
	snprintf(path, sizeof(path), "%s/data", dir);
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	for (size_t i = 0; i < bytes / sizeof(random); i++) {
		random = random * 1664525 + 1013904223;
		assert_int_equal(fwrite(&random, sizeof(random), 1, file), 1);
	}
	assert_int_equal(fclose(file), 0);
	return dir;
}

/* Its tasks end with 0 when the file that came with the bundle has its size. */
static void open_bundled(struct agent_pair *pair, struct paired_job *job, const char *id,
			 const char *dir, size_t bytes)
{
	char *json;
	assert_true(
		asprintf(&json,
			 "{'argv': ['/bin/sh', '-c', 'test $(stat -c %%s data) = %zu'], "
			 "'bundle': '%s', 'roles': {'worker': {'count': 2, 'ready': 'started'}}}",
			 bytes, dir) > 0);
	paired_open(pair, job, id, 1, json);
	free(json);
}

static void assert_ends_well(struct paired_job *job, uint32_t task)
{
	const struct received_event *end = paired_await(job, TFC__AGENT_EXITED, task, 1);
	if (end->reason != TFC_EXIT_CODE || end->status != 0)
		fail_msg("task %u: reason %u, status %d", task, end->reason, end->status);
}

static uint32_t count_zips(const char *dir)
{
	uint32_t count = 0;
	DIR *entries = opendir(dir);
	struct dirent *entry;
	assert_non_null(entries);
	while ((entry = readdir(entries)))
		count += strstr(entry->d_name, ".zip") != NULL;
	closedir(entries);
	return count;
}

#define SMALL 300000

static void jobs_share_a_bundle_that_is_sent_once(void **state)
{
	struct agent_pair pair;
	static struct paired_job first, second, third;
	agent_pair_up(&pair, LEASE_MS);
	char *dir = make_program(&pair, SMALL);
	open_bundled(&pair, &first, "0000000000000001", dir, SMALL);
	open_bundled(&pair, &second, "0000000000000002", dir, SMALL);
	paired_start(&first, 2);
	paired_start(&second, 2);
	for (uint32_t i = 0; i < 2; i++) {
		assert_ends_well(&first, i);
		assert_ends_well(&second, i);
	}
	paired_close(&first);
	paired_close(&second);
	agent_pair_await_no_jobs(&pair);
	uint32_t sent = pair.rpc.ends[0].sent;
	open_bundled(&pair, &third, "0000000000000003", dir, SMALL); /* it is cached there */
	paired_start(&third, 2);
	assert_ends_well(&third, 0);
	assert_ends_well(&third, 1);
	assert_true(pair.rpc.ends[0].sent - sent < 40);
	paired_close(&third);
	agent_pair_await_no_jobs(&pair);
	char *cache = tfc__path_join(pair.dir, "cached");
	assert_int_equal(count_zips(cache), 1);
	free(cache);
	free(dir);
	agent_pair_end(&pair);
}

#define LARGE 6000000

static void it_goes_on_where_a_connection_broke(void **state)
{
	struct agent_pair pair;
	static struct paired_job job;
	agent_pair_up(&pair, LEASE_MS);
	char *dir = make_program(&pair, LARGE);
	open_bundled(&pair, &job, "0000000000000001", dir, LARGE);
	paired_start(&job, 2);
	for (int cuts = 0; cuts < 4 && !paired_find(&job, TFC__AGENT_STARTED, 0, 1); cuts++) {
		uint32_t sent = pair.rpc.ends[0].sent;
		for (uint64_t end = tfc__now() + 10 * TFC__SECOND;
		     pair.rpc.ends[0].sent < sent + 8 && tfc__now() < end &&
		     !paired_find(&job, TFC__AGENT_STARTED, 0, 1);)
			assert_true(tfc_ctx_run(pair.ctx, 1) >= 0);
		agent_pair_cut(&pair);
		agent_pair_connect(&pair);
	}
	assert_ends_well(&job, 0);
	assert_ends_well(&job, 1);
	paired_close(&job);
	agent_pair_await_no_jobs(&pair);
	free(dir);
	agent_pair_end(&pair);
}

/* Whichever of the two has offered it. */
static void it_goes_on_when_a_job_that_shares_it_is_closed(void **state)
{
	for (int closed = 0; closed < 2; closed++) {
		struct agent_pair pair;
		static struct paired_job jobs[2];
		agent_pair_up(&pair, LEASE_MS);
		char *dir = make_program(&pair, LARGE);
		open_bundled(&pair, &jobs[0], "0000000000000001", dir, LARGE);
		open_bundled(&pair, &jobs[1], "0000000000000002", dir, LARGE);
		paired_start(&jobs[!closed], 2);
		for (uint32_t sent = pair.rpc.ends[0].sent; pair.rpc.ends[0].sent < sent + 8;)
			assert_true(tfc_ctx_run(pair.ctx, 1) >= 0);
		paired_close(&jobs[closed]);
		assert_ends_well(&jobs[!closed], 0);
		assert_ends_well(&jobs[!closed], 1);
		paired_close(&jobs[!closed]);
		agent_pair_await_no_jobs(&pair);
		free(dir);
		agent_pair_end(&pair);
	}
}

static void a_bundle_that_cannot_be_packed_is_reported(void **state)
{
	struct agent_pair pair;
	static struct paired_job job;
	agent_pair_up(&pair, LEASE_MS);
	open_bundled(&pair, &job, "0000000000000001", "/nonexistent/program", 1);
	paired_start(&job, 2);
	const struct received_event *refused = paired_await(&job, TFC__AGENT_REFUSED, 0, 1);
	assert_non_null(strstr(refused->text, "/nonexistent/program"));
	paired_close(&job);
	agent_pair_await_no_jobs(&pair);
	agent_pair_end(&pair);
}

/* Whatever is in the cache, only what has the hash is unpacked. */
static void damage_and_fetch(bool cuts_short)
{
	struct agent_pair pair;
	static struct paired_job job;
	char path[512];
	struct dirent *entry;
	agent_pair_up(&pair, LEASE_MS);
	char *dir = make_program(&pair, SMALL);
	open_bundled(&pair, &job, "0000000000000001", dir, SMALL);
	paired_start(&job, 2);
	assert_ends_well(&job, 0);
	assert_ends_well(&job, 1);
	paired_close(&job);
	agent_pair_await_no_jobs(&pair);
	agent_pair_reboot(&pair);
	char *cache = tfc__path_join(pair.dir, "cached");
	DIR *entries = opendir(cache);
	assert_non_null(entries);
	while ((entry = readdir(entries)))
		if (strstr(entry->d_name, ".zip")) {
			snprintf(path, sizeof(path), "%s/%s", cache, entry->d_name);
			int fd = open(path, O_WRONLY | O_CLOEXEC);
			assert_int_equal(pwrite(fd, "damage", 6, 1000), 6);
			assert_true(!cuts_short || ftruncate(fd, 1006) == 0);
			close(fd);
		}
	closedir(entries);
	agent_pair_connect(&pair);
	open_bundled(&pair, &job, "0000000000000002", dir, SMALL);
	paired_start(&job, 2);
	assert_ends_well(&job, 0);
	assert_ends_well(&job, 1);
	paired_close(&job);
	agent_pair_await_no_jobs(&pair);
	free(cache);
	free(dir);
	agent_pair_end(&pair);
}

static void a_damaged_archive_in_the_cache_is_fetched_again(void **state)
{
	damage_and_fetch(false);
}

static void an_archive_cut_short_in_the_cache_is_fetched_again(void **state)
{
	damage_and_fetch(true);
}

static void await_ready(struct agent_pair *pair, const struct tfc__bundle *bundle)
{
	for (uint64_t end = tfc__now() + 30 * TFC__SECOND; bundle->state != TFC__BUNDLE_READY;) {
		assert_true(tfc__now() < end && bundle->state != TFC__BUNDLE_FAILED);
		assert_true(tfc_ctx_run(pair->ctx, 1000) >= 0);
	}
}

/* A sender that does not look at the answers fills no memory, also where some bytes always wait. */
static void what_waits_for_the_disk_is_bounded(void **state)
{
	static const uint64_t total = 128 << 20;
	static char piece[8 << 20];
	struct agent_pair pair;
	struct tfc__bundles *bundles;
	struct tfc__bundle *bundle;
	tfc_error error = TFC_ERROR_INIT;
	char hash[TFC_BUNDLE_HASH_SIZE];
	int code = TFC_OK, refused = 0;
	agent_pair_begin(&pair, LEASE_MS);
	char *cache = tfc__path_join(pair.dir, "small");
	memset(hash, 'a', sizeof(hash) - 1);
	hash[sizeof(hash) - 1] = '\0';
	assert_int_equal(tfc__bundles_open(pair.ctx, cache, 0, &error, &bundles), 0);
	assert_int_equal(tfc__bundle_acquire(bundles, hash, total, &error, &bundle), 0);
	while (bundle->received < total) {
		do
			code = tfc__bundle_write(bundle, bundle->received, piece, sizeof(piece),
						 &error);
		while (code == TFC_OK && bundle->received < total);
		if (code < 0) {
			assert_int_equal(code, TFC_ESTATE);
			refused++;
			assert_true(tfc_ctx_run(pair.ctx, 1000) >= 0);
		}
		assert_true(bundle->waiting_capacity <= 24 << 20);
	}
	assert_true(refused > 0);
	tfc__bundle_leave(bundle);
	tfc__bundles_close(bundles);
	free(cache);
	agent_pair_end(&pair);
}

/* In a cache that has room for nothing that nobody uses. */
static void what_a_job_names_stays_as_long_as_it_does(void **state)
{
	struct agent_pair pair;
	struct tfc__bundles *bundles;
	struct tfc__bundle *packed, *named, *gone;
	tfc_error error = TFC_ERROR_INIT;
	char name[TFC_BUNDLE_HASH_SIZE + 8];
	agent_pair_begin(&pair, LEASE_MS);
	char *dir = make_program(&pair, SMALL), *cache = tfc__path_join(pair.dir, "small");
	assert_int_equal(tfc__bundles_open(pair.ctx, cache, 0, &error, &bundles), 0);
	assert_int_equal(tfc__bundle_pack(bundles, "1111", dir, &error, &packed), 0);
	await_ready(&pair, packed);
	snprintf(name, sizeof(name), TFC__BUNDLE_NAME "%s", packed->hash);
	struct tfc__bundle *kept = tfc__bundle_keep(bundles, name);
	assert_ptr_equal(kept, packed);
	tfc__bundle_leave(packed);
	assert_int_equal(tfc__bundle_pack(bundles, "2222", name, &error, &named), 0);
	assert_ptr_equal(named, kept);
	assert_int_equal(named->state, TFC__BUNDLE_READY);
	tfc__bundle_leave(named);
	assert_int_equal(access(kept->path, R_OK), 0);
	tfc__bundle_leave(kept);
	assert_null(tfc__bundle_keep(bundles, name));
	assert_int_equal(tfc__bundle_pack(bundles, "3333", name, &error, &gone), 0);
	assert_int_equal(gone->state, TFC__BUNDLE_FAILED);
	assert_non_null(strstr(gone->error.text, "submit the job again"));
	tfc__bundle_leave(gone);
	tfc__bundles_close(bundles);
	free(dir);
	free(cache);
	agent_pair_end(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jobs_share_a_bundle_that_is_sent_once),
		cmocka_unit_test(it_goes_on_where_a_connection_broke),
		cmocka_unit_test(it_goes_on_when_a_job_that_shares_it_is_closed),
		cmocka_unit_test(a_bundle_that_cannot_be_packed_is_reported),
		cmocka_unit_test(a_damaged_archive_in_the_cache_is_fetched_again),
		cmocka_unit_test(an_archive_cut_short_in_the_cache_is_fetched_again),
		cmocka_unit_test(what_waits_for_the_disk_is_bounded),
		cmocka_unit_test(what_a_job_names_stays_as_long_as_it_does),
	};
	return cmocka_run_group_tests_name("bundle_transfer", tests, NULL, NULL);
}
