/*
 * A task that reads queue "train": feed_task FILE [die-at N] [results] [linger].
 *
 * It appends the ids of the rows, int64 in column "x", to FILE, and reports the rows of a batch as
 * consumed when the next one has come. die-at: the first attempt kills itself after N rows.
 * results: it returns twice the id of each row. linger: the first attempt waits at its end.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tfcluster/feed.h>

static tfc_ctx *ctx;
static tfc_feed_consumer *consumer;
static int file, failure;
static uint64_t seen, die_at;
static bool has_results, lingers;

static void on_event(void *user, const tfc_feed_event *event)
{
	(void)user;
	if (event->kind == TFC_FEED_EVENT_END) {
		fprintf(stderr, "%s\n", event->error->text);
		failure = 1;
	}
}

static void check(int code)
{
	if (code >= 0)
		return;
	fprintf(stderr, "%s\n", tfc_ctx_error(ctx)->text);
	exit(1);
}

static void return_results(const tfc_feed_batch *batch, const int64_t *ids)
{
	tfc_feed_column column = TFC_FEED_COLUMN_INIT;
	uint64_t rows = tfc_feed_batch_rows(batch), begin = 0, done = 0;
	int64_t *twice = calloc(rows, sizeof(*twice));
	for (uint64_t i = 0; i < rows; i++)
		twice[i] = 2 * ids[i];
	column.type = TFC_FEED_TYPE_INT64;
	column.name = "twice";
	column.values = twice;
	for (; begin < rows; begin += done) {
		int code = tfc_feed_consumer_put_result_columns(consumer,
								tfc_feed_batch_partition(batch),
								tfc_feed_batch_offset(batch) +
									begin,
								&column, 1, rows, begin, &done);
		if (code == TFC_EAGAIN)
			check(tfc_ctx_run(ctx, -1));
		else
			check(code);
		done = code < 0 ? 0 : done;
	}
	free(twice);
}

static void read_rows(const tfc_feed_batch *batch)
{
	tfc_feed_column column = TFC_FEED_COLUMN_INIT;
	uint64_t rows = tfc_feed_batch_rows(batch);
	check(tfc_feed_batch_column(batch, 0, &column));
	if (die_at && seen + rows >= die_at)
		rows = die_at - seen;
	if (write(file, column.values, rows * 8) != (ssize_t)(rows * 8))
		exit(2);
	seen += rows;
	if (die_at && seen == die_at)
		kill(getpid(), SIGKILL);
	if (has_results)
		return_results(batch, column.values);
}

static void read_queue(void)
{
	uint64_t partition = 0, consumed = 0;
	tfc_feed_batch *batch = NULL;
	int code;
	while ((code = tfc_feed_consumer_next(consumer, &batch)) != 0 && !failure) {
		if (code == TFC_EAGAIN) {
			check(tfc_ctx_run(ctx, -1));
			continue;
		}
		check(code);
		if (consumed)
			check(tfc_feed_consumer_done(consumer, partition, consumed));
		partition = tfc_feed_batch_partition(batch);
		consumed = tfc_feed_batch_offset(batch) + tfc_feed_batch_rows(batch);
		if (tfc_feed_batch_rows(batch))
			read_rows(batch);
		if (tfc_feed_batch_is_last(batch)) {
			check(tfc_feed_consumer_done(consumer, partition, consumed));
			consumed = 0;
		}
		tfc_feed_batch_release(batch);
	}
}

int main(int argc, char **argv)
{
	tfc_feed_consumer_options options = TFC_FEED_CONSUMER_OPTIONS_INIT;
	char task[64];
	options.attempt = (uint32_t)atoi(getenv("TFC_ATTEMPT"));
	for (int i = 2; i < argc; i++) {
		if (!strcmp(argv[i], "results"))
			has_results = true;
		else if (!strcmp(argv[i], "linger"))
			lingers = options.attempt == 1;
		else if (!strcmp(argv[i], "die-at") && options.attempt == 1)
			die_at = strtoull(argv[i + 1], NULL, 10);
	}
	snprintf(task, sizeof(task), "%s/%s", getenv("TFC_TASK_TYPE"), getenv("TFC_TASK_INDEX"));
	options.address = getenv("TFC_FEED");
	options.task = task;
	file = open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (file < 0 || tfc_ctx_new(NULL, NULL, &ctx) < 0)
		return 2;
	check(tfc_feed_consumer_open(ctx, &options, on_event, NULL, &consumer));
	read_queue();
	while (!failure && tfc_ctx_run(ctx, 0) > 0) /* what was reported goes out */
		;
	if (lingers)
		pause();
	tfc_feed_consumer_close(consumer);
	tfc_ctx_free(ctx);
	return failure;
}
