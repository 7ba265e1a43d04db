/*
 * The memory that rows travel in: a memfd of the sender, which its receiver maps read-only. It has
 * as many bytes as the receiver grants in flight (the window). The sender allocates a block for
 * each batch; the receiver releases it.
 */
#ifndef TFC_FEED_SEGMENT_H
#define TFC_FEED_SEGMENT_H

#include "base/list.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <tfcluster/error.h>

/* ---- the sender's side */

#define TFC__FEED_BLOCKS_MAX 4096 /* blocks in flight */

struct tfc__feed_block {
	uint64_t at;
	uint64_t bytes; /* 0: free */
	uint32_t next_free;
};

struct tfc__feed_extent {
	uint64_t at;
	uint64_t bytes;
};

/* Zeroed: closed. */
struct tfc__feed_segment {
	int fd;
	uint8_t *base; /* NULL: closed */
	uint64_t size;
	struct tfc__feed_block *blocks;
	uint32_t next_free;
	uint32_t used_count;
	uint64_t free_bytes;
	struct tfc__feed_extent *extents; /* free memory, by address, without neighbors */
	uint32_t extent_count;
};

/* Makes memory of `size` bytes that cannot shrink. TFC_ENOMEM, TFC_ENOSPC, TFC_EMFILE, TFC_ESYS. */
int tfc__feed_memory_make(uint64_t size, tfc_error *error, int *ret_fd);

/* TFC_ENOMEM, TFC_ENOSPC, TFC_EMFILE, TFC_ESYS. */
int tfc__feed_segment_open(struct tfc__feed_segment *segment, uint64_t size, tfc_error *error);
/* Returns false when there is no room. The lowest free address is used first: it is most likely to
 * be in the processor's caches. */
bool tfc__feed_segment_acquire(struct tfc__feed_segment *segment, uint64_t bytes,
			       uint32_t *ret_block);
/* Returns false if there is no such block. */
bool tfc__feed_segment_release(struct tfc__feed_segment *segment, uint32_t block);
void tfc__feed_segment_close(struct tfc__feed_segment *segment);

/* ---- the receiver's side: it outlives the connection as long as batches refer to it */

struct tfc__feed_mapping;

/* Maps the memory behind `fd`, which it acquires. The sender must not be able to shrink it.
 * TFC_EPARSE, TFC_ENOMEM, TFC_ESYS. */
int tfc__feed_mapping_open(int fd, uint64_t size, tfc_error *error,
			   struct tfc__feed_mapping **ret_mapping);
const uint8_t *tfc__feed_mapping_base(const struct tfc__feed_mapping *mapping);
uint64_t tfc__feed_mapping_size(const struct tfc__feed_mapping *mapping);
/* `socket` gets RELEASE messages, until it is -1. `wake`, an eventfd, is written when the kernel
 * has no room for one: call tfc__feed_mapping_flush when there is room. */
void tfc__feed_mapping_set_socket(struct tfc__feed_mapping *mapping, int socket, int wake);
/* Part of each batch. */
struct tfc__feed_held {
	struct tfc__link link;
	uint32_t block;
	void (*free)(struct tfc__feed_held *held);
};
void tfc__feed_mapping_keep(struct tfc__feed_mapping *mapping);
/* Returns the block to its sender, at once if the kernel has room for the message, else in a later
 * flush. `held` is freed. Thread: any. */
void tfc__feed_mapping_return(struct tfc__feed_mapping *mapping, struct tfc__feed_held *held);
/* Returns whether all was sent. */
bool tfc__feed_mapping_flush(struct tfc__feed_mapping *mapping);
void tfc__feed_mapping_release(struct tfc__feed_mapping *mapping);
bool tfc__feed_mapping_is_forked(const struct tfc__feed_mapping *mapping);

#endif
