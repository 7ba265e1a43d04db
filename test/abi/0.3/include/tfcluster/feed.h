/*
 * The feed: a host's data into the tasks of a job, and results back.
 *
 * A task has named queues. A producer feeds one queue of the tasks of a job; a consumer in the task
 * reads it. What they exchange are batches: rows of typed columns, in memory that the producer and
 * the task share. The producer copies each row once; the consumer copies nothing.
 *
 * Batches come and go through the Arrow C Data Interface (its specification is at
 * https://arrow.apache.org/docs/format/CDataInterface.html), or as plain buffers. No Arrow library
 * is needed. Supported column types, with their Arrow formats: bool (b), int8 to int64 (c s i l),
 * uint8 to uint64 (C S I L), float16, float32 and float64 (e f g), utf8 (u U vu), binary (z Z vz,
 * and w:N of fixed size), lists (+l +L) and fixed-size lists (+w:N) of these, and the extension
 * types "arrow.fixed_shape_tensor" and "tfcluster.bfloat16" (over w:2). Each may have a validity
 * bitmap.
 *
 * Rows belong to partitions, which the producer numbers. A row's position is its partition and its
 * offset, the number of rows before it in the partition. All rows of a partition go to one task, in
 * order.
 */
#ifndef TFCLUSTER_FEED_H
#define TFCLUSTER_FEED_H

#include <stdint.h>
#include <tfcluster/ctx.h>
#include <tfcluster/gateway.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The structs of the Arrow C Data Interface, as its specification has them. */
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
	const char *format;
	const char *name;
	const char *metadata;
	int64_t flags;
	int64_t n_children;
	struct ArrowSchema **children;
	struct ArrowSchema *dictionary;
	void (*release)(struct ArrowSchema *);
	void *private_data;
};

struct ArrowArray {
	int64_t length;
	int64_t null_count;
	int64_t offset;
	int64_t n_buffers;
	int64_t n_children;
	const void **buffers;
	struct ArrowArray **children;
	struct ArrowArray *dictionary;
	void (*release)(struct ArrowArray *);
	void *private_data;
};

#endif /* ARROW_C_DATA_INTERFACE */

/* ---- columns as plain buffers */

/* The numbers are on the wire. */
enum tfc_feed_type {
	TFC_FEED_TYPE_BOOL = 1, /* a byte each, 0 or 1, in plain buffers; a bit each in Arrow */
	TFC_FEED_TYPE_INT8 = 2,
	TFC_FEED_TYPE_INT16 = 3,
	TFC_FEED_TYPE_INT32 = 4,
	TFC_FEED_TYPE_INT64 = 5,
	TFC_FEED_TYPE_UINT8 = 6,
	TFC_FEED_TYPE_UINT16 = 7,
	TFC_FEED_TYPE_UINT32 = 8,
	TFC_FEED_TYPE_UINT64 = 9,
	TFC_FEED_TYPE_FLOAT16 = 10,
	TFC_FEED_TYPE_FLOAT32 = 11,
	TFC_FEED_TYPE_FLOAT64 = 12,
	TFC_FEED_TYPE_BFLOAT16 = 13,
	TFC_FEED_TYPE_UTF8 = 14,
	TFC_FEED_TYPE_BINARY = 15,
	TFC_FEED_TYPE_LIST = 16, /* of any length; its values are a column of their own */
};

enum {
	TFC_FEED_DIMENSIONS_MAX = 8,
};

/*
 * A column as plain buffers. Of a type of fixed width, each row is a tensor of the shape
 * dimensions[0 .. dimension_count - 1], in row-major order; 0 dimensions: a scalar. `values` then
 * has rows * (product of the dimensions) values without gaps. Of UTF8, BINARY and LIST, row i has
 * the bytes or items offsets[i] to offsets[i + 1] - 1 of `values` or of `items`, and there are no
 * dimensions.
 */
typedef struct tfc_feed_column {
	uint32_t size;
	uint32_t type;                                /* enum tfc_feed_type */
	const char *name;                             /* at most 255 bytes */
	uint32_t dimension_count;                     /* of each row; 0: a scalar */
	uint32_t reserved;                            /* 0 */
	uint64_t dimensions[TFC_FEED_DIMENSIONS_MAX]; /* the shape of each row */
	const void *values;                           /* see above */
	const int64_t *offsets;                       /* rows + 1 of them, from 0; else NULL */
	const uint8_t *validity; /* a bit per row, the lowest first; 0: null. NULL: no nulls */
	const struct tfc_feed_column *items; /* of a LIST; else NULL */
	uint64_t item_count;                 /* of a LIST: rows of `items` */
} tfc_feed_column;

#define TFC_FEED_COLUMN_INIT                                                                 \
	{                                                                                    \
		sizeof(tfc_feed_column), 0, 0, 0, 0, {0, 0, 0, 0, 0, 0, 0, 0}, 0, 0, 0, 0, 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_feed_column_init(tfc_feed_column *column, uint32_t size);

/* ---- batches that were received */

/*
 * Consecutive rows of one partition, or the end of a partition: a batch without rows and columns,
 * for which tfc_feed_batch_is_last returns 1. The memory, which is read-only, is shared with the
 * sender, whose window it occupies until the last reference is released. A batch may outlive the
 * consumer, the producer and the context.
 */
typedef struct tfc_feed_batch tfc_feed_batch;

/** The number of rows. Thread: any. Errors: none. */
TFC_API uint64_t tfc_feed_batch_rows(const tfc_feed_batch *batch);
/** The partition of the rows. Thread: any. Errors: none. */
TFC_API uint64_t tfc_feed_batch_partition(const tfc_feed_batch *batch);
/** The offset of the first row in its partition; of the end of a partition, the number of its rows.
 * Thread: any. Errors: none. */
TFC_API uint64_t tfc_feed_batch_offset(const tfc_feed_batch *batch);
/** 1 of the end of a partition, which comes after its last row, else 0. Thread: any. Errors: none.
 */
TFC_API int tfc_feed_batch_is_last(const tfc_feed_batch *batch);
/** The bytes that the batch occupies of its sender's window. Thread: any. Errors: none. */
TFC_API uint64_t tfc_feed_batch_bytes(const tfc_feed_batch *batch);
/** The bytes of its sender's window: a consumer that keeps batches of so many bytes gets no more. A
 * row needs bytes without a gap: batches that are kept may leave none for a large row. 0 of the end
 * of a partition. Thread: any. Errors: none. */
TFC_API uint64_t tfc_feed_batch_window_bytes(const tfc_feed_batch *batch);
/** The number of columns. Thread: any. Errors: none. */
TFC_API uint32_t tfc_feed_batch_column_count(const tfc_feed_batch *batch);

/**
 * Describes a column, from 0. Its pointers are borrowed from the batch; `values`, `offsets` and
 * `validity` are aligned to 64 bytes. A column of bool is as in Arrow: a bit per value, the lowest
 * first. Thread: any. Errors: TFC_EINVAL, TFC_ENOENT (no such column).
 */
TFC_API int tfc_feed_batch_column(const tfc_feed_batch *batch, uint32_t index,
				  tfc_feed_column *ret_column);

/**
 * Exports the batch as a struct array of the Arrow C Data Interface, without a copy. The array
 * has a reference to the batch of its own, which its release callback releases. The caller owns
 * both structs. Thread: any. Errors: TFC_EINVAL, TFC_ENOMEM.
 */
TFC_API int tfc_feed_batch_export(tfc_feed_batch *batch, struct ArrowSchema *ret_schema,
				  struct ArrowArray *ret_array);

/** Adds a reference and returns `batch`. Borrowed: valid until tfc_feed_batch_release. Thread: any.
 * Errors: none. */
TFC_API tfc_feed_batch *tfc_feed_batch_keep(tfc_feed_batch *batch);
/**
 * Releases a reference. With the last one the sender may use the memory again. Does nothing in a
 * forked child. NULL is a no-op. Thread: any, also beside other calls. Errors: none. */
TFC_API void tfc_feed_batch_release(tfc_feed_batch *batch);

/* ---- the producer */

typedef struct tfc_feed_producer tfc_feed_producer;

enum tfc_feed_event_kind {
	/* Producer: the tasks are known, and rows can be put. */
	TFC_FEED_EVENT_OPEN = 1,
	/* Producer: there may be room again, after TFC_EAGAIN. Consumer: there is a batch, or the
	 * end of the queue, after TFC_EAGAIN. */
	TFC_FEED_EVENT_READY = 2,
	/* Producer: `partition` was consumed; its rows are not needed any more. */
	TFC_FEED_EVENT_DONE = 3,
	/* Producer: the task that had `partition` ended before it had consumed all of it. Put the
	 * partition again, from `offset` on. */
	TFC_FEED_EVENT_REPLAY = 4,
	/* Producer: `batch` is a result, whose partition and offset are those of the rows that it
	 * is the result of. */
	TFC_FEED_EVENT_RESULT = 5,
	/* Producer: no consumer needs more rows; puts are accepted and dropped. If only some need
	 * no more, the same is true of their partitions, for which DONE is reported. */
	TFC_FEED_EVENT_TERMINATED = 6,
	/* The last event. code 0: producer: all partitions are done, after tfc_feed_producer_end.
	 * Otherwise an error: TFC_ELOST (the job has ended, or a producer has died), ... */
	TFC_FEED_EVENT_END = 7,
};

/* Borrowed: valid during the callback. */
typedef struct tfc_feed_event {
	uint32_t size;
	uint32_t kind; /* enum tfc_feed_event_kind */
	int32_t code;  /* END: 0 or enum tfc_err */
	uint32_t reserved;
	const tfc_error *error; /* the failure, if code is below 0; never NULL */
	uint64_t partition;     /* DONE, REPLAY, RESULT */
	uint64_t offset;        /* REPLAY, RESULT: rows */
	tfc_feed_batch *batch;  /* RESULT; tfc_feed_batch_keep keeps it */
	const char *task;       /* RESULT, DONE, REPLAY: "worker/0"; else "" */
} tfc_feed_event;

/** Receives the events, in dispatch. `event` is borrowed: valid during the callback. */
typedef void (*tfc_feed_fn)(void *user, const tfc_feed_event *event);

/* Options of a producer. */
typedef struct tfc_feed_producer_options {
	uint32_t size;
	uint32_t producers;     /* how many producers feed the queue, which ends when all of them
				   have ended; 0: 1 */
	const char *queue;      /* 1 to 63 of [A-Za-z0-9._-]; NULL: "train"; copied */
	const char *task;       /* "worker/0": one task; NULL: all that train, chief and workers, or
				   with parameter servers the workers; copied */
	const char *producer;   /* names this one of the producers, as `queue`; a producer that is
				   restarted with the same name takes its place; NULL: "0"; copied */
	uint64_t window_bytes;  /* bytes in flight to each task; 0: 16 MiB */
	uint64_t chunk_bytes;   /* a batch has about this many bytes; 0: 1 MiB */
	uint32_t wants_results; /* 1: the consumers return one result for each row */
	uint32_t is_replayable; /* 1: a producer that begins again puts the same rows in the same
				   partitions; those that a checkpoint has are not sent. 0: they end
				   the feed with TFC_ESTATE */
} tfc_feed_producer_options;

#define TFC_FEED_PRODUCER_OPTIONS_INIT                                    \
	{                                                                 \
		sizeof(tfc_feed_producer_options), 0, 0, 0, 0, 0, 0, 0, 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_feed_producer_options_init(tfc_feed_producer_options *options, uint32_t size);

/**
 * Opens a producer of a queue of the job's tasks. Tasks on other machines are fed through the
 * gateway, which must stay open. `job` is as in gateway.h. `fn` may close the producer. The caller
 * owns *ret_producer. Thread: the context's. Errors: TFC_EINVAL (an option), TFC_ENOTSUP,
 * TFC_ENOMEM, TFC_ESTATE, TFC_EFORK; in the END event: those of tfc_gateway_subscribe, TFC_ENOENT
 * (the job has no such task), TFC_EUNREACH (the node of a task cannot be reached: it has not
 * answered for 60 s, or it or the gateway's node has a version without remote feeds), TFC_EACCES
 * (another user's node, or a key without the permission to submit), TFC_ELOST (the job has ended).
 */
TFC_API int tfc_feed_producer_open(tfc_gateway *gateway, const char *job,
				   const tfc_feed_producer_options *options, tfc_feed_fn fn,
				   void *user, tfc_feed_producer **ret_producer);

/**
 * Puts rows of a partition: those of `array`, a struct array without nulls of its own, from row
 * `begin` on. Copies as many rows as there is room for and sets *ret_rows to their number. The
 * offset of row `begin` in its partition is `offset`, which must be the number of rows that were
 * put before. All partitions of a feed have the same schema. `schema` and `array` stay the
 * caller's. Returns 0 if at least one row was put, or if there is no row from `begin` on. Thread:
 * the context's. Errors: TFC_EAGAIN (no room; the event READY follows), TFC_EINVAL (the schema is
 * not that of earlier rows, a column does not fit it, or the offset is another one; the text names
 * the column), TFC_ENOTSUP (a type), TFC_ETOOBIG (a row is larger than the window), TFC_ESTATE
 * (after tfc_feed_producer_finish of the partition, tfc_feed_producer_end, or the event END; a
 * checkpoint has rows of the partition that this producer has not put, see is_replayable),
 * TFC_ENOMEM, TFC_ENOSPC (no memory for the window), TFC_EFORK.
 */
TFC_API int tfc_feed_producer_put(tfc_feed_producer *producer, uint64_t partition, uint64_t offset,
				  const struct ArrowSchema *schema, const struct ArrowArray *array,
				  uint64_t begin, uint64_t *ret_rows);

/** As tfc_feed_producer_put, from plain buffers of `rows` rows. Thread: the context's. Errors: the
 * same. */
TFC_API int tfc_feed_producer_put_columns(tfc_feed_producer *producer, uint64_t partition,
					  uint64_t offset, const tfc_feed_column *columns,
					  uint32_t column_count, uint64_t rows, uint64_t begin,
					  uint64_t *ret_rows);

/**
 * Ends a partition: it has `rows` rows, all of which were put. The event DONE follows. Thread: the
 * context's. Errors: TFC_EAGAIN (no task reads the queue, or the window is full; the event READY
 * follows), TFC_EINVAL (another number of rows was put, or a checkpoint has another number of the
 * partition), TFC_ESTATE, TFC_ENOMEM, TFC_EFORK.
 */
TFC_API int tfc_feed_producer_finish(tfc_feed_producer *producer, uint64_t partition,
				     uint64_t rows);

/**
 * No more partitions follow. The event END follows when all are done. Partitions may still be put
 * again. Again: no-op. Thread: the context's. Errors: TFC_ESTATE (a partition is not finished),
 * TFC_EFORK.
 */
TFC_API int tfc_feed_producer_end(tfc_feed_producer *producer);

/**
 * Closes the producer at once. Before the event END the consumers see that it is gone. Legal inside
 * a callback. NULL is a no-op. Thread: the context's.
 */
TFC_API void tfc_feed_producer_close(tfc_feed_producer *producer);

/* ---- the consumer, in a task */

typedef struct tfc_feed_consumer tfc_feed_consumer;

/* Options of a consumer. */
typedef struct tfc_feed_consumer_options {
	uint32_t size;
	uint32_t attempt;       /* TFC_ATTEMPT of the task's environment */
	const char *address;    /* TFC_FEED of the task's environment; copied */
	const char *task;       /* TFC_TASK_TYPE, '/', TFC_TASK_INDEX; copied */
	const char *queue;      /* as tfc_feed_producer_options.queue; copied */
	uint64_t window_bytes;  /* at most so many bytes of rows in flight from each producer, and
				   of results to it; 0: what the producer allows, and 16 MiB */
	uint32_t rows_multiple; /* producers cut batches at multiples of this many rows where they
				   can; 0: 1 */
	/* 1: the steps of all tasks that are fed are granted together, see
	 * tfc_feed_consumer_report */
	uint32_t is_in_step;
} tfc_feed_consumer_options;

#define TFC_FEED_CONSUMER_OPTIONS_INIT                                 \
	{                                                              \
		sizeof(tfc_feed_consumer_options), 0, 0, 0, 0, 0, 0, 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_feed_consumer_options_init(tfc_feed_consumer_options *options, uint32_t size);

/**
 * Opens the consumer of a queue. A queue of a task has one consumer at a time. `fn` receives READY
 * and END, and may close the consumer. The caller owns *ret_consumer. Thread: the context's.
 * Errors: TFC_EINVAL (an option), TFC_ENOTSUP, TFC_EUNREACH (nobody listens at `address`),
 * TFC_EACCES (another user does), TFC_ENOMEM, TFC_EMFILE, TFC_ESYS, TFC_EFORK; in the END event:
 * TFC_EEXIST (the queue has a consumer already), TFC_ELOST (a producer has died before it ended, or
 * the node is gone).
 */
TFC_API int tfc_feed_consumer_open(tfc_ctx *ctx, const tfc_feed_consumer_options *options,
				   tfc_feed_fn fn, void *user, tfc_feed_consumer **ret_consumer);

/**
 * The next batch. Returns 1 and *ret_batch, which the caller owns and ends with
 * tfc_feed_batch_release; 0 at the end of the queue, when all producers have ended. If this task
 * got no row, but others did, a batch of no rows comes before the end: it has the columns of the
 * queue, tfc_feed_batch_is_last returns 0, and it belongs to no partition, so that
 * tfc_feed_consumer_done refuses it. Thread: the context's. Errors: TFC_EAGAIN (none now; the event
 * READY follows), TFC_EINVAL, the code of the END event, TFC_EFORK.
 */
TFC_API int tfc_feed_consumer_next(tfc_feed_consumer *consumer, tfc_feed_batch **ret_batch);

/** 1 if the producers want results (tfc_feed_producer_options.wants_results), 0 if not. Known with
 * the first batch. Thread: the context's. Errors: TFC_EAGAIN (not known yet), TFC_EFORK. */
TFC_API int tfc_feed_consumer_wants_results(tfc_feed_consumer *consumer);

/**
 * Returns the results of consecutive rows of a partition, one row for each, as
 * tfc_feed_producer_put; `offset` is that of the first of those rows. Thread: the context's.
 * Errors: as tfc_feed_producer_put; TFC_EINVAL also: the partition is not being consumed.
 */
TFC_API int tfc_feed_consumer_put_results(tfc_feed_consumer *consumer, uint64_t partition,
					  uint64_t offset, const struct ArrowSchema *schema,
					  const struct ArrowArray *array, uint64_t begin,
					  uint64_t *ret_rows);

/** As tfc_feed_consumer_put_results, from plain buffers of `rows` rows. Thread: the context's.
 * Errors: the same. */
TFC_API int tfc_feed_consumer_put_result_columns(tfc_feed_consumer *consumer, uint64_t partition,
						 uint64_t offset, const tfc_feed_column *columns,
						 uint32_t column_count, uint64_t rows,
						 uint64_t begin, uint64_t *ret_rows);

/**
 * Reports to the producers that `rows` rows of a partition have been consumed in all, so that a
 * later attempt is not fed them again. A partition is done when all its rows are. Thread: the
 * context's. Errors: TFC_EINVAL (no such partition, or more rows than were received), TFC_ENOMEM,
 * TFC_EFORK.
 */
TFC_API int tfc_feed_consumer_done(tfc_feed_consumer *consumer, uint64_t partition, uint64_t rows);

/* Rows of which a checkpoint has the effect. */
typedef struct tfc_feed_position {
	uint64_t partition;  /* the first one */
	uint64_t partitions; /* how many consecutive partitions, from `partition` on; 1 if the
				position is not whole */
	uint64_t rows;       /* the first so many rows of each */
	uint32_t is_whole;   /* 1: each has `rows` rows in all */
	uint32_t reserved;   /* 0 */
} tfc_feed_position;

/**
 * Reports which rows of the queue are committed: a checkpoint has their effect, and whoever resumes
 * from it must not be fed them again. Use it in place of tfc_feed_consumer_done: right after
 * tfc_feed_consumer_open, before the first dispatch, with the positions of the checkpoint that was
 * restored, and after each checkpoint that was written, with all positions in it, in ascending
 * order. They may include partitions of other tasks that share the checkpoint. `positions` is
 * copied. Thread: the context's. Errors: TFC_EINVAL (a position, or their order), TFC_ENOMEM,
 * TFC_EFORK.
 */
TFC_API int tfc_feed_consumer_commit(tfc_feed_consumer *consumer,
				     const tfc_feed_position *positions, uint32_t count);

/**
 * For tasks that train in step (is_in_step): reports that this task has `steps` steps' worth of
 * rows since it was opened, and, with is_end 1, that no more will follow. Thread: the context's.
 * Errors: TFC_EINVAL (fewer than before), TFC_ENOMEM, TFC_EFORK.
 */
TFC_API int tfc_feed_consumer_report(tfc_feed_consumer *consumer, uint64_t steps, uint32_t is_end);

/**
 * The number of steps that all tasks can take. *ret_padded_steps is the number for a task that has
 * reported its end: it takes the steps for which it has no rows with rows of weight zero. Returns 1
 * when no further steps will be granted, else 0; READY follows each change. Thread: the context's.
 * Errors: TFC_EINVAL, TFC_EFORK.
 */
TFC_API int tfc_feed_consumer_granted(tfc_feed_consumer *consumer, uint64_t *ret_steps,
				      uint64_t *ret_padded_steps);

/**
 * Reports to the producers that no more rows are needed. Batches that arrived are dropped. Thread:
 * the context's. Errors: TFC_ENOMEM, TFC_EFORK.
 */
TFC_API int tfc_feed_consumer_terminate(tfc_feed_consumer *consumer);

/**
 * Returns 1 if all that was reported to the producers is on its way: it arrives even if this
 * process ends. 0: some of it waits for room in the kernel; dispatch sends it. Thread: the
 * context's. Errors: TFC_EFORK.
 */
TFC_API int tfc_feed_consumer_is_flushed(tfc_feed_consumer *consumer);

/** Closes the consumer at once. Reports that are not flushed are lost. Batches stay valid. Legal
 * inside a callback. NULL is a no-op. Thread: the context's. */
TFC_API void tfc_feed_consumer_close(tfc_feed_consumer *consumer);

#ifdef __cplusplus
}
#endif
#endif
