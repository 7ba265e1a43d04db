/* gateway: the bundle of a job comes from the client's machine, once, whole and checked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/stat.h>
#include <tfcluster/key.h>
#include <unistd.h>

#include "base/file.h"
#include "bundle/internal.h"
#include "leaks.h"
#include "node/internal.h"
#include "node_run.h"
#include "proc_run.h"
#include "served.h"

#define SMALL 1000
#define LARGE (12 << 20)
#define BACKLOG (512 << 10) /* of bytes for the disk: with more, a piece waits */

/* A node with a place for its archives, its service, and a client that brings a directory. */
struct place {
	struct node_run run;
	char dir[LEAKS_PATH];
	char state[LEAKS_PATH + 16];
	char cache[LEAKS_PATH + 32];
	char program[LEAKS_PATH + 16];
	char data[LEAKS_PATH + 32];
	struct tfc__keyring *keyring;
	uint64_t moved;  /* calls of progress */
	uint64_t sent;   /* bytes, as last reported */
	unsigned resets; /* times that fewer were there than before */
	void (*on_move)(void *user);
};

static void write_data(const struct place *place, size_t bytes, uint32_t random)
{
	FILE *file = fopen(place->data, "we");
	assert_non_null(file);
	for (size_t i = 0; i < bytes / sizeof(random); i++) {
		random = random * 1664525 + 1013904223;
		assert_int_equal(fwrite(&random, sizeof(random), 1, file), 1);
	}
	assert_int_equal(fclose(file), 0);
}

static void open_client(struct place *place, const char *address, const char *key_file)
{
	tfc_gateway_options options = TFC_GATEWAY_OPTIONS_INIT;
	tfc_gateway_close(place->run.gateway);
	options.address = address;
	options.key_file = key_file;
	options.temp_dir = place->run.dir;
	assert_int_equal(tfc_gateway_open(place->run.ctx, &options, &place->run.gateway), 0);
}

static void begin_node(struct place *place)
{
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	options.state_dir = place->state;
	node_run_begin(&place->run, &options);
}

static void make_place(struct place *place)
{
	*place = (struct place){.moved = 0};
	leaks_make_dir(place->dir);
	snprintf(place->state, sizeof(place->state), "%s/state", place->dir);
	snprintf(place->cache, sizeof(place->cache), "%s/bundles", place->state);
	snprintf(place->program, sizeof(place->program), "%s/program", place->dir);
	snprintf(place->data, sizeof(place->data), "%s/data", place->program);
	assert_int_equal(mkdir(place->program, 0755), 0);
}

static void begin_with(struct place *place, const struct tfc__gateway_service_options *options)
{
	char address[256];
	make_place(place);
	begin_node(place);
	snprintf(address, sizeof(address), "unix:%s/s", place->run.dir);
	place->run.served = served_begin(place->run.ctx, place->run.node, address, NULL, options);
	open_client(place, address, NULL);
}

static void begin(struct place *place)
{
	begin_with(place, NULL);
}

static unsigned count_in_cache(const struct place *place, const char *part)
{
	unsigned count = 0;
	DIR *dir = opendir(place->cache);
	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		count += strstr(entry->d_name, part) != NULL;
	closedir(dir);
	return count;
}

static bool is_tidy(void *user)
{
	return count_in_cache(user, ".work-") == 0;
}

static void expect_cached(struct place *place, unsigned archives)
{
	node_await(&place->run, is_tidy, place, "an end of all that is half received");
	assert_int_equal(count_in_cache(place, ".zip"), archives);
}

static void end(struct place *place)
{
	node_run_end(&place->run);
	tfc__keyring_free(place->keyring);
	assert_int_equal(tfc__remove_tree(place->dir), 0);
}

/* ---- submits */

struct submit {
	struct answer answer; /* first: the request's user */
	struct place *place;
};

static void note_progress(void *user, uint64_t sent, uint64_t total)
{
	struct place *place = ((struct submit *)user)->place;
	assert_true(sent <= total);
	place->moved++;
	place->resets += sent < place->sent;
	place->sent = sent;
	if (place->on_move)
		assert_int_equal(tfc_ctx_post(place->run.ctx, place->on_move, place), 0);
}

/* Its tasks end with 0 when they find the data, as large as it was. */
static char *job_of(const struct place *place, size_t bytes)
{
	return node_json("{'framework':'none','bundle':'%s','argv':['/bin/sh','-c',"
			 "'test $(stat -c %%s data) = %zu && id -u'],'restart':{'max':0},"
			 "'roles':{'worker':{'count':2}}}",
			 place->program, bytes);
}

static void begin_submit(struct place *place, const char *json, const char *client_key,
			 struct submit *submit, tfc_op **ret_op)
{
	tfc_submit_options options = TFC_SUBMIT_OPTIONS_INIT;
	tfc_job *job;
	*submit = (struct submit){.place = place};
	options.client_key = client_key;
	options.progress = note_progress;
	assert_int_equal(tfc_job_parse(json, strlen(json), NULL, NULL, &job), 0);
	assert_int_equal(tfc_gateway_submit(place->run.gateway, job, &options, node_answer, submit,
					    ret_op),
			 0);
	tfc_job_free(job);
}

static void submit_and_await(struct place *place, const char *json, const char *client_key,
			     struct submit *submit)
{
	begin_submit(place, json, client_key, submit, NULL);
	node_await_answer(&place->run, &submit->answer);
}

static void expect_success(struct place *place, struct submit *submit, const char *output)
{
	struct follower follower = {0};
	if (submit->answer.code < 0)
		fail_msg("%s", submit->answer.error);
	node_follow(&place->run, submit->answer.text, NULL, &follower);
	const struct seen_event *last = node_await_end(&place->run, &follower);
	if (last->event.job_state != TFC_JOB_SUCCEEDED)
		fail_msg("%s", last->text);
	char *said = node_output(&follower, "worker/1", 0);
	if (output)
		assert_string_equal(said, output);
	free(said);
	node_follow_end(&follower);
	node_answer_clear(&submit->answer);
}

static void expect_refusal(struct submit *submit, int code, const char *sentence)
{
	assert_int_equal(submit->answer.code, code);
	if (!strstr(submit->answer.error, sentence))
		fail_msg("%s", submit->answer.error);
	node_answer_clear(&submit->answer);
}

/* ---- tests */

static void it_is_sent_once(void **state)
{
	struct place place;
	struct submit submit;
	begin(&place);
	write_data(&place, LARGE, 1);
	char *json = job_of(&place, LARGE);
	submit_and_await(&place, json, NULL, &submit);
	assert_true(place.moved > 8);
	expect_success(&place, &submit, NULL);
	place.moved = 0;
	submit_and_await(&place, json, NULL, &submit);
	assert_int_equal(place.moved, 0);
	expect_success(&place, &submit, NULL);
	expect_cached(&place, 1);
	write_data(&place, LARGE, 2);
	submit_and_await(&place, json, NULL, &submit);
	assert_true(place.moved > 8);
	expect_success(&place, &submit, NULL);
	expect_cached(&place, 2);
	free(json);
	end(&place);
}

/* Two at one time over one connection do not disturb each other. */
static void two_may_come_at_once(void **state)
{
	struct place place;
	struct submit first, second;
	begin(&place);
	write_data(&place, LARGE, 1);
	char *json = job_of(&place, LARGE);
	begin_submit(&place, json, NULL, &first, NULL);
	begin_submit(&place, json, NULL, &second, NULL);
	node_await_answer(&place.run, &first.answer);
	node_await_answer(&place.run, &second.answer);
	expect_success(&place, &first, NULL);
	expect_success(&place, &second, NULL);
	expect_cached(&place, 1);
	free(json);
	end(&place);
}

static void who_may_submit_may_bring(void **state)
{
	const struct tfc__peer_id reader = {.role = TFC__KEY_READ, .uid = UINT32_MAX};
	const struct tfc__peer_id user = {.role = TFC__KEY_SUBMIT, .uid = 4711, .gid = 4712};
	struct place place;
	struct submit submit;
	begin(&place);
	write_data(&place, SMALL, 1);
	char *json = job_of(&place, SMALL);
	served_claim(place.run.served, &reader);
	submit_and_await(&place, json, NULL, &submit);
	expect_refusal(&submit, TFC_EACCES, "a read key has no permission to submit");
	assert_int_equal(place.moved, 0);
	expect_cached(&place, 0);
	served_claim(place.run.served, &user);
	if (getuid() == 0) {
		assert_int_equal(chmod(place.run.dir, 0711), 0); /* as /tmp is: others may pass */
		submit_and_await(&place, json, NULL, &submit);
		expect_success(&place, &submit, "4711\n");
	}
	free(json);
	end(&place);
}

/* A node's key file and a client's, over tcp. */
static void a_submit_key_brings_it_over_tcp(void **state)
{
	const struct tfc__gateway_service_options options = {.submit_uid = getuid(),
							     .submit_gid = getgid()};
	struct place place;
	struct submit submit;
	tfc_error error = TFC_ERROR_INIT;
	char key[LEAKS_PATH + 16];
	make_place(&place);
	begin_node(&place);
	snprintf(key, sizeof(key), "%s/key", place.dir);
	assert_int_equal(tfc_key_generate(key, "submit", &error), 0);
	assert_int_equal(tfc__keyring_load(key, &error, &place.keyring), 0);
	place.run.served = served_begin(place.run.ctx, place.run.node, "tcp://127.0.0.1:0",
					place.keyring, &options);
	open_client(&place, served_address(place.run.served), key);
	write_data(&place, LARGE, 1);
	char *json = job_of(&place, LARGE);
	submit_and_await(&place, json, NULL, &submit);
	assert_true(place.moved > 8);
	expect_success(&place, &submit, NULL);
	free(json);
	end(&place);
}

static void cut_once(void *user)
{
	struct place *place = user;
	if (place->on_move && place->sent > LARGE / 4)
		assert_true(served_cut(place->run.served) > 0);
	if (place->sent > LARGE / 4)
		place->on_move = NULL;
}

static void a_connection_that_breaks_is_made_again(void **state)
{
	struct place place;
	struct submit submit;
	begin(&place);
	write_data(&place, LARGE, 1);
	char *json = job_of(&place, LARGE);
	place.on_move = cut_once;
	submit_and_await(&place, json, NULL, &submit);
	assert_null(place.on_move);
	expect_success(&place, &submit, NULL);
	expect_cached(&place, 1);
	free(json);
	end(&place);
}

static void leave(void *user)
{
	struct place *place = user;
	if (!place->on_move)
		return;
	assert_int_equal(count_in_cache(place, ".work-"), 1);
	served_leave(place->run.served);
	place->on_move = NULL;
}

/* The client goes for good: nothing of what it has sent stays. */
static void what_is_half_sent_goes_with_its_connection(void **state)
{
	struct place place;
	struct submit submit;
	begin(&place);
	write_data(&place, LARGE, 1);
	char *json = job_of(&place, LARGE);
	place.on_move = leave;
	begin_submit(&place, json, NULL, &submit, NULL);
	while (place.on_move)
		assert_true(tfc_ctx_run(place.run.ctx, -1) >= 0);
	expect_cached(&place, 0);
	tfc_gateway_close(place.run.gateway);
	place.run.gateway = NULL;
	node_await_answer(&place.run, &submit.answer);
	expect_refusal(&submit, TFC_ECANCELED, "closed");
	free(json);
	end(&place);
}

/* Whenever it comes; a submit that is about to end by then ends as it would have. */
static void canceling_stops_it(void **state)
{
	struct place place;
	struct submit submit;
	tfc_op *op;
	bool is_done = false;
	begin(&place);
	write_data(&place, LARGE, 1);
	char *json = job_of(&place, LARGE);
	for (unsigned turns = 0; turns < 40 && !is_done; turns += 3) {
		begin_submit(&place, json, NULL, &submit, &op);
		for (unsigned i = 0; i < turns && !submit.answer.count; i++)
			assert_true(tfc_ctx_run(place.run.ctx, 20) >= 0);
		if (!submit.answer.count)
			tfc_op_cancel(op);
		node_await_answer(&place.run, &submit.answer);
		is_done = submit.answer.code == TFC_OK;
		if (is_done)
			node_answer_clear(&submit.answer);
		else
			expect_refusal(&submit, TFC_ECANCELED, "canceled");
		node_await(&place.run, is_tidy, &place, "an end of the upload");
	}
	free(json);
	end(&place);
}

static bool is_receiver(pid_t pid)
{
	char path[64], words[LEAKS_PATH * 4] = "";
	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	FILE *file = fopen(path, "re");
	size_t len = file ? fread(words, 1, sizeof(words) - 1, file) : 0;
	if (file)
		fclose(file);
	const char *verb = words + strlen(words) + 1;
	return len && strstr(words, "tfc-bundle") && strcmp(verb, "receive") == 0;
}

/* The process that writes what comes. */
static bool stop_receiver(void *user)
{
	pid_t pids[64];
	size_t count = proc_family(getpid(), pids, 64);
	for (size_t i = 1; i < count; i++) {
		if (!is_receiver(pids[i]))
			continue;
		proc_stop(pids[i]);
		return true;
	}
	return false;
}

static bool has_piece_that_waits(void *user)
{
	const struct place *place = user;
	const struct tfc__agent *agent = tfc__directory_agent(place->run.node->directory);
	TFC__LIST_EACH (link, &tfc__agent_bundles(agent)->all)
		if (tfc__bundle_backlog(tfc__container_of(link, struct tfc__bundle, link)) >
		    BACKLOG)
			return true;
	return false;
}

/* Whether or not the context is dispatched once more. */
static void a_piece_that_waits_for_the_disk_ends_with_its_node(void **state)
{
	for (int is_dispatched = 0; is_dispatched < 2; is_dispatched++) {
		struct place place;
		struct submit submit;
		begin(&place);
		write_data(&place, LARGE, 1);
		char *json = job_of(&place, LARGE);
		begin_submit(&place, json, NULL, &submit, NULL);
		node_await(&place.run, stop_receiver, NULL, "a process that receives");
		node_await(&place.run, has_piece_that_waits, &place, "a piece that waits");
		node_run_close(&place.run);
		if (is_dispatched) {
			node_await_answer(&place.run, &submit.answer);
			expect_refusal(&submit, TFC_ECANCELED, "closed");
		}
		free(json);
		end(&place);
	}
}

static size_t count_jobs(struct place *place)
{
	struct answer answer = {0};
	assert_int_equal(tfc_gateway_jobs(place->run.gateway, NULL, node_answer, &answer, NULL), 0);
	node_await_answer(&place->run, &answer);
	json_t *list = json_loads(answer.text, 0, NULL);
	size_t count = json_array_size(json_object_get(list, "jobs"));
	json_decref(list);
	node_answer_clear(&answer);
	return count;
}

/* Whatever was lost - an offer, a piece, the submit, its reply - there is one job. */
static void a_submit_counts_once_wherever_the_connection_breaks(void **state)
{
	struct place place;
	struct submit submit;
	unsigned cuts = 0;
	begin(&place);
	for (unsigned turns = 0; turns < 24; turns++) {
		write_data(&place, SMALL, turns);
		char *json = job_of(&place, SMALL);
		begin_submit(&place, json, NULL, &submit, NULL);
		for (unsigned i = 0; i < turns && !submit.answer.count; i++)
			assert_true(tfc_ctx_run(place.run.ctx, 20) >= 0);
		cuts += served_cut(place.run.served) > 0;
		node_await_answer(&place.run, &submit.answer);
		expect_success(&place, &submit, NULL);
		assert_int_equal(count_jobs(&place), turns + 1);
		free(json);
	}
	assert_true(cuts > 4);
	end(&place);
}

static void a_client_key_is_for_one_job_and_its_bundle(void **state)
{
	struct place place;
	struct submit submit, again;
	begin(&place);
	write_data(&place, SMALL, 1);
	char *json = job_of(&place, SMALL);
	submit_and_await(&place, json, "mine", &submit);
	submit_and_await(&place, json, "mine", &again);
	assert_int_equal(again.answer.code, 0);
	assert_string_equal(again.answer.text, submit.answer.text);
	node_answer_clear(&again.answer);
	write_data(&place, SMALL, 2);
	submit_and_await(&place, json, "mine", &again);
	expect_refusal(&again, TFC_EEXIST, "mine");
	expect_success(&place, &submit, NULL);
	free(json);
	end(&place);
}

static void what_cannot_be_packed_is_reported(void **state)
{
	struct place place;
	struct submit submit;
	begin(&place);
	char *json = node_json("{'framework':'none','bundle':'%s/nowhere','argv':['true'],"
			       "'roles':{'worker':{}}}",
			       place.dir);
	submit_and_await(&place, json, NULL, &submit);
	expect_refusal(&submit, TFC_EARCHIVE, "/nowhere");
	assert_int_equal(served_count(place.run.served), 0);
	free(json);
	end(&place);
}

static bool are_descriptors_missing;

int __real_tfc__log_tail(const char *dir, const char *name, uint32_t attempt, uint32_t stream,
			 uint32_t lines, char ***ret_lines);
int __wrap_tfc__log_tail(const char *dir, const char *name, uint32_t attempt, uint32_t stream,
			 uint32_t lines, char ***ret_lines);

int __wrap_tfc__log_tail(const char *dir, const char *name, uint32_t attempt, uint32_t stream,
			 uint32_t lines, char ***ret_lines)
{
	return are_descriptors_missing
		       ? TFC_EMFILE
		       : __real_tfc__log_tail(dir, name, attempt, stream, lines, ret_lines);
}

static void a_hash_that_cannot_be_read_is_reported(void **state)
{
	struct place place;
	struct submit submit;
	begin(&place);
	write_data(&place, SMALL, 1);
	char *json = job_of(&place, SMALL);
	are_descriptors_missing = true;
	submit_and_await(&place, json, NULL, &submit);
	are_descriptors_missing = false;
	expect_refusal(&submit, TFC_EMFILE,
		       "bundle: cannot read the output of tfc-bundle: too many open files");
	free(json);
	end(&place);
}

/* The only archive in the cache; `how` is done to it while no node runs. */
static void do_to_archive(const struct place *place, void (*how)(const char *path))
{
	char *path = NULL;
	DIR *dir = opendir(place->cache);
	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		if (strstr(entry->d_name, ".zip"))
			path = tfc__path_join(place->cache, entry->d_name);
	closedir(dir);
	assert_non_null(path);
	how(path);
	free(path);
}

static void leave_alone(const char *path)
{
	assert_int_equal(access(path, R_OK), 0);
}

static void damage(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "damage", 6, 100), 6);
	close(fd);
}

static void lose(const char *path)
{
	assert_int_equal(unlink(path), 0);
}

/* The job goes on with what its node has kept, or ends with a sentence, never with other bytes. */
static void a_job_goes_on_from_the_cache(void **state)
{
	static void (*const hows[])(const char *path) = {leave_alone, damage, lose};
	static const char *const sentences[] = {"", "damaged in the cache",
						"no longer in the cache"};
	for (int i = 0; i < 3; i++) {
		struct place place;
		struct submit submit;
		struct follower follower = {0};
		begin(&place);
		write_data(&place, SMALL, 1);
		char *json = node_json("{'framework':'none','bundle':'%s','argv':['/bin/sh','-c',"
				       "'test -s data || exit 3; [ $TFC_ATTEMPT = 2 ] || exec "
				       "sleep 100'],'roles':{'worker':{}}}",
				       place.program);
		submit_and_await(&place, json, NULL, &submit);
		char *id = strdup(submit.answer.text);
		node_follow(&place.run, id, NULL, &follower);
		node_await_task(&place.run, &follower, "worker/0", TFC_TASK_READY, 1);
		node_follow_end(&follower);
		node_run_end(&place.run);
		do_to_archive(&place, hows[i]);
		assert_int_equal(unlink(place.data), 0);
		begin_node(&place);
		node_follow(&place.run, id, NULL, &follower);
		const struct seen_event *last = node_await_end(&place.run, &follower);
		assert_int_equal(last->event.job_state, i ? TFC_JOB_FAILED : TFC_JOB_SUCCEEDED);
		if (!strstr(last->text, sentences[i]))
			fail_msg("%s", last->text);
		node_follow_end(&follower);
		node_answer_clear(&submit.answer);
		free(id);
		free(json);
		end(&place);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_sent_once),
		cmocka_unit_test(two_may_come_at_once),
		cmocka_unit_test(who_may_submit_may_bring),
		cmocka_unit_test(a_submit_key_brings_it_over_tcp),
		cmocka_unit_test(a_connection_that_breaks_is_made_again),
		cmocka_unit_test(what_is_half_sent_goes_with_its_connection),
		cmocka_unit_test(canceling_stops_it),
		cmocka_unit_test(a_piece_that_waits_for_the_disk_ends_with_its_node),
		cmocka_unit_test(a_submit_counts_once_wherever_the_connection_breaks),
		cmocka_unit_test(a_client_key_is_for_one_job_and_its_bundle),
		cmocka_unit_test(what_cannot_be_packed_is_reported),
		cmocka_unit_test(a_hash_that_cannot_be_read_is_reported),
		cmocka_unit_test(a_job_goes_on_from_the_cache),
	};
	return cmocka_run_group_tests_name("gateway_bundle", tests, NULL, NULL);
}
