/* feed: a producer and the tasks of a job that runs: rows, results, and what is put again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "feed/producer.h"
#include "node_run.h"

#define PARTITIONS_MAX 8
#define ROWS_MAX 40000
#define WINDOW 65536

struct fed {
	uint64_t rows;   /* in all */
	uint64_t offset; /* of the next one that is put */
	bool is_finished;
	bool is_done;
};

/* A producer whose partitions are put as there is room; ids count through all of them. */
struct feeding {
	struct node_run run;
	struct follower follower;
	tfc_feed_producer *producer;
	char path[300];
	struct fed partitions[PARTITIONS_MAX];
	uint32_t count;
	bool is_open, is_ended, closes_in_replay;
	int code;
	char text[200]; /* of the error that ended it */
	uint32_t replays, results;
	uint64_t lowest_replay;
};

static void check_result(struct feeding *feeding, const tfc_feed_event *event)
{
	tfc_feed_column column = TFC_FEED_COLUMN_INIT;
	uint64_t first = event->offset, rows = tfc_feed_batch_rows(event->batch);
	assert_int_equal(event->offset, tfc_feed_batch_offset(event->batch));
	assert_int_equal(tfc_feed_batch_column(event->batch, 0, &column), TFC_OK);
	assert_string_equal(column.name, "twice");
	for (uint64_t i = 0; i < event->partition; i++)
		first += feeding->partitions[i].rows;
	for (uint64_t i = 0; i < rows; i++)
		assert_int_equal(((const int64_t *)column.values)[i], 2 * (first + i));
	feeding->results += (uint32_t)rows;
}

static void on_feed_event(void *user, const tfc_feed_event *event)
{
	struct feeding *feeding = user;
	struct fed *fed = &feeding->partitions[event->partition];
	switch (event->kind) {
	case TFC_FEED_EVENT_OPEN:
		feeding->is_open = true;
		break;
	case TFC_FEED_EVENT_DONE:
		assert_false(fed->is_done);
		fed->is_done = true;
		break;
	case TFC_FEED_EVENT_REPLAY:
		assert_true(event->offset <= fed->offset);
		feeding->replays++;
		feeding->lowest_replay = event->offset;
		fed->offset = event->offset;
		fed->is_finished = false;
		if (feeding->closes_in_replay) {
			tfc_feed_producer_close(feeding->producer);
			feeding->producer = NULL;
		}
		break;
	case TFC_FEED_EVENT_RESULT:
		check_result(feeding, event);
		break;
	case TFC_FEED_EVENT_END:
		feeding->is_ended = true;
		feeding->code = event->code;
		if (event->code < 0)
			snprintf(feeding->text, sizeof(feeding->text), "%.199s",
				 event->error->text);
		break;
	default:
		break;
	}
}

/* Starts the job. */
static void feeding_begin(struct feeding *feeding, const char *arguments)
{
	*feeding = (struct feeding){.lowest_replay = UINT64_MAX};
	node_run_begin(&feeding->run, NULL);
	snprintf(feeding->path, sizeof(feeding->path), "%s/ids", feeding->run.dir);
	char *json =
		node_json("{'framework':'none','argv':['%s','%s'%s],'restart':{'scope':'task'},"
			  "'roles':{'worker':{'count':1}}}",
			  getenv("TFC_TEST_FEED_TASK"), feeding->path, arguments);
	node_start(&feeding->run, json, &feeding->follower);
	free(json);
}

static void feeding_open(struct feeding *feeding, uint32_t wants_results)
{
	tfc_feed_producer_options options = TFC_FEED_PRODUCER_OPTIONS_INIT;
	options.window_bytes = WINDOW;
	options.wants_results = wants_results;
	assert_int_equal(tfc_feed_producer_open(feeding->run.gateway, feeding->follower.job,
						&options, on_feed_event, feeding,
						&feeding->producer),
			 TFC_OK);
}

static void feeding_add(struct feeding *feeding, uint64_t rows)
{
	feeding->partitions[feeding->count++].rows = rows;
}

/* Puts what there is room for of a partition, up to `until`. Returns whether all is put. */
static bool put_rows(struct feeding *feeding, uint32_t number, uint64_t until)
{
	static int64_t ids[ROWS_MAX];
	struct fed *fed = &feeding->partitions[number];
	tfc_feed_column column = TFC_FEED_COLUMN_INIT;
	uint64_t first = 0, rows = 0;
	for (uint32_t i = 0; i < number; i++)
		first += feeding->partitions[i].rows;
	for (uint64_t i = 0; i < until; i++)
		ids[i] = (int64_t)(first + i);
	column.type = TFC_FEED_TYPE_INT64;
	column.name = "x";
	column.values = ids;
	while (feeding->producer && fed->offset < until) {
		int code = tfc_feed_producer_put_columns(feeding->producer, number, fed->offset,
							 &column, 1, until, fed->offset, &rows);
		if (code == TFC_EAGAIN)
			return false;
		if (code < 0)
			fail_msg("%s", tfc_ctx_error(feeding->run.ctx)->text);
		fed->offset += rows;
	}
	return feeding->producer;
}

static void feed_all(struct feeding *feeding)
{
	if (!feeding->is_open || !feeding->producer || feeding->is_ended)
		return;
	for (uint32_t i = 0; i < feeding->count; i++) {
		struct fed *fed = &feeding->partitions[i];
		if (fed->is_finished)
			continue;
		if (!put_rows(feeding, i, fed->rows))
			return;
		int code = tfc_feed_producer_finish(feeding->producer, i, fed->rows);
		if (code == TFC_EAGAIN)
			return;
		assert_int_equal(code, TFC_OK);
		fed->is_finished = true;
	}
	assert_int_equal(tfc_feed_producer_end(feeding->producer), TFC_OK);
}

static bool is_fed(void *user)
{
	struct feeding *feeding = user;
	feed_all(feeding);
	return feeding->is_ended;
}

static bool is_closed(void *user)
{
	struct feeding *feeding = user;
	feed_all(feeding);
	return !feeding->producer;
}

static bool is_open(void *user)
{
	return ((const struct feeding *)user)->is_open;
}

/* How often each row was read; returns all of them together. */
static uint64_t count_rows(const struct feeding *feeding, uint8_t counts[ROWS_MAX])
{
	int64_t id;
	uint64_t rows = 0;
	memset(counts, 0, ROWS_MAX);
	FILE *file = fopen(feeding->path, "re");
	assert_non_null(file);
	for (; fread(&id, sizeof(id), 1, file) == 1; rows++) {
		assert_in_range(id, 0, ROWS_MAX - 1);
		counts[id]++;
	}
	fclose(file);
	return rows;
}

/* Feeds to the end. Returns how many rows were read more than once. */
static uint64_t feed_to_the_end(struct feeding *feeding)
{
	uint8_t counts[ROWS_MAX];
	uint64_t rows = 0;
	node_await(&feeding->run, is_fed, feeding, "the end of the feed");
	if (feeding->code)
		fail_msg("%s", feeding->text);
	const struct seen_event *end = node_await_end(&feeding->run, &feeding->follower);
	if (end->event.job_state != TFC_JOB_SUCCEEDED)
		fail_msg("%s %s", end->text, end->tail);
	for (uint32_t i = 0; i < feeding->count; i++) {
		assert_true(feeding->partitions[i].is_done);
		rows += feeding->partitions[i].rows;
	}
	uint64_t read = count_rows(feeding, counts);
	for (uint64_t i = 0; i < rows; i++)
		if (!counts[i])
			fail_msg("row %llu was not read", (unsigned long long)i);
	return read - rows;
}

static void feeding_end(struct feeding *feeding)
{
	tfc_feed_producer_close(feeding->producer);
	unlink(feeding->path);
	node_follow_end(&feeding->follower);
	node_run_end(&feeding->run);
}

static void rows_of_all_partitions_are_read_once(void **state)
{
	struct feeding feeding;
	feeding_begin(&feeding, "");
	feeding_open(&feeding, 0);
	feeding_add(&feeding, 10);
	feeding_add(&feeding, 0);
	feeding_add(&feeding, 20000); /* more than the window */
	feeding_add(&feeding, 1);
	assert_int_equal(feed_to_the_end(&feeding), 0);
	assert_int_equal(feeding.replays, 0);
	feeding_end(&feeding);
}

static void rows_of_a_killed_task_are_put_again(void **state)
{
	struct feeding feeding;
	feeding_begin(&feeding, ",'die-at','9000'");
	feeding_open(&feeding, 0);
	feeding_add(&feeding, 5000);
	feeding_add(&feeding, 20000);
	feeding_add(&feeding, 100);
	uint64_t again = feed_to_the_end(&feeding);
	assert_true(feeding.replays > 0);
	/* the batch that it was killed in, and the one before, which it had not reported */
	assert_true(feeding.lowest_replay <= 4000);
	assert_in_range(again, 1, 2 * WINDOW / 4 / 8);
	feeding_end(&feeding);
}

static void results_come_with_their_rows(void **state)
{
	struct feeding feeding;
	feeding_begin(&feeding, ",'results'");
	feeding_open(&feeding, 1);
	feeding_add(&feeding, 5000);
	feeding_add(&feeding, 0);
	feeding_add(&feeding, 12000);
	assert_int_equal(feed_to_the_end(&feeding), 0);
	assert_int_equal(feeding.results, 17000);
	feeding_end(&feeding);
}

static void a_producer_may_be_closed_when_rows_are_to_be_put_again(void **state)
{
	struct feeding feeding;
	feeding_begin(&feeding, ",'die-at','5000'");
	feeding_open(&feeding, 0);
	feeding.closes_in_replay = true;
	for (int i = 0; i < 4; i++) /* several are put again: the first REPLAY closes it */
		feeding_add(&feeding, 1500);
	node_await(&feeding.run, is_closed, &feeding, "the first row to be put again");
	assert_int_equal(feeding.replays, 1);
	assert_false(feeding.is_ended);
	node_stop(&feeding.run, feeding.follower.job, true);
	node_await_end(&feeding.run, &feeding.follower);
	feeding_end(&feeding);
}

/* Its next attempt reads a queue whose producer has left. */
static void a_task_that_is_killed_after_the_end_ends(void **state)
{
	struct feeding feeding;
	feeding_begin(&feeding, ",'linger'");
	feeding_open(&feeding, 0);
	feeding_add(&feeding, 1000);
	node_await(&feeding.run, is_fed, &feeding, "the end of the feed");
	assert_int_equal(feeding.code, 0);
	tfc_feed_producer_close(feeding.producer);
	feeding.producer = NULL;
	const struct seen_event *ready = node_await_task(&feeding.run, &feeding.follower,
							 "worker/0", TFC_TASK_READY, 1);
	assert_int_equal(kill((pid_t)ready->event.pid, SIGKILL), 0);
	const struct seen_event *end = node_await_end(&feeding.run, &feeding.follower);
	assert_int_equal(end->event.job_state, TFC_JOB_SUCCEEDED);
	feeding_end(&feeding);
}

/* ---- a connection that breaks, though both of its ends live */

/* The socket pairs that have a peer of another process, and no address. */
static int count_streams(int fds[1024])
{
	int count = 0;
	for (int fd = 0; fd < 1024; fd++) {
		int type = 0;
		socklen_t len = sizeof(type);
		struct sockaddr_un name;
		socklen_t name_len = sizeof(name);
		if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0 ||
		    type != SOCK_SEQPACKET ||
		    getsockname(fd, (struct sockaddr *)&name, &name_len) < 0 ||
		    name.sun_family != AF_UNIX || name_len > sizeof(sa_family_t))
			continue;
		fds[count++] = fd;
	}
	return count;
}

static bool is_replaying(void *user)
{
	return ((const struct feeding *)user)->replays > 0;
}

static bool is_put_and_partly_consumed(void *user)
{
	struct feeding *feeding = user;
	if (!put_rows(feeding, 0, 6000))
		return false;
	const struct feed_partition *partition =
		tfc__feed_table_find(&feeding->producer->partitions, 0);
	return partition && partition->done > 0;
}

static void a_connection_that_breaks_is_made_again(void **state)
{
	for (int is_ending = 0; is_ending < 2; is_ending++) {
		struct feeding feeding;
		int before[1024], after[1024], kept = 0, broken = 0;
		feeding_begin(&feeding, "");
		feeding_add(&feeding, 12000);
		const struct seen_event *ready = node_await_task(&feeding.run, &feeding.follower,
								 "worker/0", TFC_TASK_READY, 1);
		pid_t pid = (pid_t)ready->event.pid;
		int count = count_streams(before);
		feeding_open(&feeding, 0);
		node_await(&feeding.run, is_open, &feeding, "the tasks");
		node_await(&feeding.run, is_put_and_partly_consumed, &feeding, "rows consumed");
		assert_int_equal(kill(pid, SIGSTOP), 0);
		if (is_ending) { /* the host has put all that it had */
			feeding.partitions[0].rows = 6000;
			feed_all(&feeding);
		}
		int more = count_streams(after);
		for (int i = 0; i < more; i++) {
			while (kept < count && before[kept] < after[i])
				kept++;
			if (kept < count && before[kept] == after[i])
				continue; /* that of a guard */
			assert_int_equal(shutdown(after[i], SHUT_RDWR), 0);
			broken++;
		}
		assert_true(broken > 0);
		node_await(&feeding.run, is_replaying, &feeding, "rows to be put again");
		assert_int_equal(kill(pid, SIGCONT), 0);
		assert_int_equal(feed_to_the_end(&feeding), 0); /* no row was lost or read twice */
		feeding_end(&feeding);
	}
}

/* ---- a node that has no descriptors left */

static bool are_descriptors_missing;

int __real_socketpair(int domain, int type, int protocol, int ends[2]);
int __wrap_socketpair(int domain, int type, int protocol, int ends[2]);

int __wrap_socketpair(int domain, int type, int protocol, int ends[2])
{
	if (!are_descriptors_missing)
		return __real_socketpair(domain, type, protocol, ends);
	errno = EMFILE;
	return -1;
}

static bool is_refused(void *user)
{
	const struct tfc__link *tasks = &((const struct feeding *)user)->producer->tasks;
	return !tfc__list_is_empty(tasks) &&
	       tfc__container_of(tasks->next, struct feed_task, link)->shortages > 0;
}

static bool is_ended(void *user)
{
	return ((const struct feeding *)user)->is_ended;
}

static void a_node_that_is_short_of_descriptors_is_waited_for_and_then_named(void **state)
{
	for (int is_for_good = 0; is_for_good < 2; is_for_good++) {
		struct feeding feeding;
		feeding_begin(&feeding, "");
		feeding_add(&feeding, 100);
		node_await_task(&feeding.run, &feeding.follower, "worker/0", TFC_TASK_READY, 1);
		feeding_open(&feeding, 0);
		are_descriptors_missing = true;
		node_await(&feeding.run, is_refused, &feeding, "a refusal");
		are_descriptors_missing = is_for_good;
		if (!is_for_good) {
			assert_int_equal(feed_to_the_end(&feeding), 0);
			feeding_end(&feeding);
			continue;
		}
		node_await(&feeding.run, is_ended, &feeding, "the error");
		are_descriptors_missing = false;
		assert_int_equal(feeding.code, TFC_EMFILE);
		assert_string_equal(feeding.text, "cannot feed queue \"train\" of worker/0: the "
						  "node has too many open files; raise its limit "
						  "(ulimit -n)");
		node_stop(&feeding.run, feeding.follower.job, true);
		node_await_end(&feeding.run, &feeding.follower);
		feeding_end(&feeding);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_of_all_partitions_are_read_once),
		cmocka_unit_test(rows_of_a_killed_task_are_put_again),
		cmocka_unit_test(results_come_with_their_rows),
		cmocka_unit_test(a_producer_may_be_closed_when_rows_are_to_be_put_again),
		cmocka_unit_test(a_task_that_is_killed_after_the_end_ends),
		cmocka_unit_test(a_connection_that_breaks_is_made_again),
		cmocka_unit_test(a_node_that_is_short_of_descriptors_is_waited_for_and_then_named),
	};
	return cmocka_run_group_tests_name("feed_producer", tests, NULL, NULL);
}
