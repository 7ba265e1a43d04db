/*
 * Both ends of a feed in C, for its speed without Python.
 *
 *   feed consume                       the program of a task
 *   feed produce ADDRESS JOB QUEUE     feeds the task of that job of the node at ADDRESS
 *
 * QUEUE is "wide" (784 float32 and an int64), "narrow" (10 float32), or "ping" (as narrow, and each
 * row comes back). The producer reads a number of rows from each line of its standard input, feeds
 * them as one partition, and prints the seconds until the task has consumed all of them. "ping":
 * each line is the number of partitions of one row, which follow one another; it prints the
 * seconds of each in order.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tfcluster/feed.h>
#include <tfcluster/tfcluster.h>

enum {
	SOURCE_BYTES = 64 << 20,
	WIDE = 784,
	NARROW = 10,
};

static void die(const char *what)
{
	fprintf(stderr, "feed: %s\n", what);
	exit(1);
}

static void check(tfc_ctx *ctx, int code)
{
	if (code < 0)
		die(tfc_ctx_error(ctx)->text);
}

static double now_s(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- the producer */

struct source {
	tfc_feed_column columns[2];
	uint32_t column_count;
	uint64_t rows;
};

static void source_init(struct source *source, const char *queue)
{
	int is_wide = strcmp(queue, "wide") == 0;
	uint64_t width = is_wide ? WIDE : NARROW;
	source->rows = SOURCE_BYTES / (width * sizeof(float));
	float *values = malloc(source->rows * width * sizeof(*values));
	int64_t *labels = malloc(source->rows * sizeof(*labels));
	if (!values || !labels)
		die("out of memory");
	for (uint64_t i = 0; i < source->rows * width; i++)
		values[i] = (float)i;
	for (uint64_t i = 0; i < source->rows; i++)
		labels[i] = (int64_t)i;
	tfc_feed_column_init(&source->columns[0], sizeof(source->columns[0]));
	source->columns[0].type = TFC_FEED_TYPE_FLOAT32;
	source->columns[0].name = "x";
	source->columns[0].dimension_count = 1;
	source->columns[0].dimensions[0] = width;
	source->columns[0].values = values;
	tfc_feed_column_init(&source->columns[1], sizeof(source->columns[1]));
	source->columns[1].type = TFC_FEED_TYPE_INT64;
	source->columns[1].name = "y";
	source->columns[1].values = labels;
	source->column_count = is_wide ? 2 : 1;
}

struct producer {
	tfc_ctx *ctx;
	tfc_feed_producer *feed;
	struct source source;
	uint64_t next_partition;
	uint64_t done_count;
	uint64_t result_count;
	int is_open;
	int is_over;
};

static void producer_handle(void *user, const tfc_feed_event *event)
{
	struct producer *producer = user;
	if (event->kind == TFC_FEED_EVENT_END && event->code < 0)
		die(event->error->text);
	producer->is_open |= event->kind == TFC_FEED_EVENT_OPEN;
	producer->is_over |= event->kind == TFC_FEED_EVENT_END;
	producer->done_count += event->kind == TFC_FEED_EVENT_DONE;
	producer->result_count += event->kind == TFC_FEED_EVENT_RESULT;
}

/* Puts rows of the source over and over, as a partition. */
static void producer_put(struct producer *producer, uint64_t rows)
{
	const struct source *source = &producer->source;
	uint64_t partition = producer->next_partition++;
	for (uint64_t offset = 0; offset < rows;) {
		uint64_t begin = offset % source->rows, count = 0;
		uint64_t end = begin + rows - offset;
		int code = tfc_feed_producer_put_columns(producer->feed, partition, offset,
							 source->columns, source->column_count,
							 end < source->rows ? end : source->rows,
							 begin, &count);
		if (code == TFC_EAGAIN)
			code = tfc_ctx_run(producer->ctx, -1);
		check(producer->ctx, code);
		offset += count;
	}
	check(producer->ctx, tfc_feed_producer_finish(producer->feed, partition, rows));
}

static double producer_carry(struct producer *producer, uint64_t rows)
{
	uint64_t wanted = producer->done_count + 1;
	double begin = now_s();
	producer_put(producer, rows);
	while (producer->done_count < wanted)
		check(producer->ctx, tfc_ctx_run(producer->ctx, -1));
	return now_s() - begin;
}

static double producer_ping(struct producer *producer)
{
	uint64_t wanted = producer->result_count + 1;
	double begin = now_s();
	producer_put(producer, 1);
	while (producer->result_count < wanted)
		check(producer->ctx, tfc_ctx_run(producer->ctx, -1));
	return now_s() - begin;
}

static void produce(tfc_ctx *ctx, const char *address, const char *job, const char *queue)
{
	struct producer producer = {.ctx = ctx};
	int is_ping = strcmp(queue, "ping") == 0;
	tfc_gateway *gateway = NULL;
	tfc_gateway_options place = TFC_GATEWAY_OPTIONS_INIT;
	tfc_feed_producer_options options = TFC_FEED_PRODUCER_OPTIONS_INIT;
	place.address = address;
	options.queue = queue;
	options.wants_results = (uint32_t)is_ping;
	source_init(&producer.source, queue);
	check(ctx, tfc_gateway_open(ctx, &place, &gateway));
	check(ctx, tfc_feed_producer_open(gateway, job, &options, producer_handle, &producer,
					  &producer.feed));
	while (!producer.is_open)
		check(ctx, tfc_ctx_run(ctx, -1));
	char line[64];
	while (fgets(line, sizeof(line), stdin)) {
		uint64_t count = strtoull(line, NULL, 10);
		if (!is_ping)
			printf("%.6f", producer_carry(&producer, count));
		for (uint64_t i = 0; is_ping && i < count; i++)
			printf("%s%.7f", i > 0 ? " " : "", producer_ping(&producer));
		printf("\n");
		fflush(stdout);
	}
	check(ctx, tfc_feed_producer_end(producer.feed));
	while (!producer.is_over)
		check(ctx, tfc_ctx_run(ctx, -1));
	tfc_feed_producer_close(producer.feed);
	tfc_gateway_close(gateway);
	free((void *)producer.source.columns[0].values);
	free((void *)producer.source.columns[1].values);
}

/* ---- the consumer */

struct consumer {
	tfc_ctx *ctx;
	tfc_feed_consumer *feed;
	int is_ping;
};

static void consumer_return(struct consumer *consumer, const tfc_feed_batch *batch)
{
	tfc_feed_column column;
	uint64_t count = 0;
	tfc_feed_column_init(&column, sizeof(column));
	check(consumer->ctx, tfc_feed_batch_column(batch, 0, &column));
	check(consumer->ctx,
	      tfc_feed_consumer_put_result_columns(consumer->feed, tfc_feed_batch_partition(batch),
						   tfc_feed_batch_offset(batch), &column, 1,
						   tfc_feed_batch_rows(batch), 0, &count));
}

/* All batches that are there. Returns 0 at the end of the queue. */
static int consumer_drain(struct consumer *consumer)
{
	tfc_feed_batch *batch = NULL;
	int code;
	while ((code = tfc_feed_consumer_next(consumer->feed, &batch)) == 1) {
		if (consumer->is_ping && tfc_feed_batch_rows(batch) > 0)
			consumer_return(consumer, batch);
		check(consumer->ctx,
		      tfc_feed_consumer_done(consumer->feed, tfc_feed_batch_partition(batch),
					     tfc_feed_batch_offset(batch) +
						     tfc_feed_batch_rows(batch)));
		tfc_feed_batch_release(batch);
	}
	if (code != TFC_EAGAIN)
		check(consumer->ctx, code);
	return code != 0;
}

static void consumer_handle(void *user, const tfc_feed_event *event)
{
	(void)user;
	if (event->kind == TFC_FEED_EVENT_END && event->code < 0)
		die(event->error->text);
}

static const char *task_environment(const char *name)
{
	const char *value = getenv(name);
	if (!value)
		die("not in a task");
	return value;
}

static void consume(tfc_ctx *ctx)
{
	static const char *const queues[] = {"wide", "narrow", "ping"};
	struct consumer consumers[3] = {{.is_ping = 0}};
	char task[128];
	tfc_feed_consumer_options options = TFC_FEED_CONSUMER_OPTIONS_INIT;
	snprintf(task, sizeof(task), "%s/%s", task_environment("TFC_TASK_TYPE"),
		 task_environment("TFC_TASK_INDEX"));
	options.address = task_environment("TFC_FEED");
	options.attempt = (uint32_t)strtoul(task_environment("TFC_ATTEMPT"), NULL, 10);
	options.task = task;
	for (int i = 0; i < 3; i++) {
		consumers[i] = (struct consumer){.ctx = ctx, .is_ping = i == 2};
		options.queue = queues[i];
		check(ctx, tfc_feed_consumer_open(ctx, &options, consumer_handle, &consumers[i],
						  &consumers[i].feed));
	}
	for (;;) {
		int is_running = 0;
		for (int i = 0; i < 3; i++)
			is_running |= consumer_drain(&consumers[i]);
		if (!is_running)
			break;
		check(ctx, tfc_ctx_run(ctx, -1));
	}
	for (int i = 0; i < 3; i++)
		tfc_feed_consumer_close(consumers[i].feed);
}

int main(int argc, char **argv)
{
	int is_consumer = argc == 2 && strcmp(argv[1], "consume") == 0;
	tfc_error error = TFC_ERROR_INIT;
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	tfc_ctx *ctx = NULL;
	if (!is_consumer && (argc != 5 || strcmp(argv[1], "produce") != 0))
		die("usage: feed consume | produce ADDRESS JOB QUEUE");
	if (tfc_ctx_new(&options, &error, &ctx) < 0)
		die(error.text);
	if (is_consumer)
		consume(ctx);
	else
		produce(ctx, argv[2], argv[3], argv[4]);
	tfc_ctx_free(ctx);
	return 0;
}
