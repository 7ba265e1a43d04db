#include "feed/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "feed/layout.h"
#include "feed/message.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* ---- the sender's side */

int tfc__feed_memory_make(uint64_t size, tfc_error *error, int *ret_fd)
{
	int fd = memfd_create("tfcluster-feed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return tfc__fail_errno(error, "feed", errno, "cannot make shared memory");
	if (ftruncate(fd, (off_t)size) < 0 || fcntl(fd, F_ADD_SEALS, SEALS) < 0) {
		int code = tfc__fail_errno(error, "feed", errno,
					   "cannot make %llu bytes of shared memory",
					   (unsigned long long)size);
		close(fd);
		return code;
	}
	*ret_fd = fd;
	return TFC_OK;
}

static int segment_make_memory(struct tfc__feed_segment *segment, uint64_t size, tfc_error *error)
{
	int code = tfc__feed_memory_make(size, error, &segment->fd);
	if (code < 0)
		return code;
	void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, segment->fd, 0);
	if (base == MAP_FAILED)
		return tfc__fail_errno(error, "feed", errno,
				       "cannot map %llu bytes of shared memory",
				       (unsigned long long)size);
	segment->base = base;
	segment->size = size;
	return TFC_OK;
}

int tfc__feed_segment_open(struct tfc__feed_segment *segment, uint64_t size, tfc_error *error)
{
	*segment = (struct tfc__feed_segment){.fd = -1};
	int code = segment_make_memory(segment, size, error);
	segment->blocks = calloc(TFC__FEED_BLOCKS_MAX, sizeof(*segment->blocks));
	segment->extents = calloc(TFC__FEED_BLOCKS_MAX + 1, sizeof(*segment->extents));
	if (code == TFC_OK && (!segment->blocks || !segment->extents))
		code = tfc__fail_nomem(error, "feed");
	if (code < 0) {
		tfc__feed_segment_close(segment);
		return code;
	}
	for (uint32_t i = 0; i < TFC__FEED_BLOCKS_MAX; i++)
		segment->blocks[i].next_free = i + 1;
	segment->extents[0] = (struct tfc__feed_extent){0, size};
	segment->extent_count = 1;
	segment->free_bytes = size;
	return TFC_OK;
}

static void segment_remove_extent(struct tfc__feed_segment *segment, uint32_t index)
{
	segment->extent_count--;
	memmove(segment->extents + index, segment->extents + index + 1,
		(segment->extent_count - index) * sizeof(*segment->extents));
}

bool tfc__feed_segment_acquire(struct tfc__feed_segment *segment, uint64_t bytes,
			       uint32_t *ret_block)
{
	uint32_t index = 0, block = segment->next_free;
	if (block == TFC__FEED_BLOCKS_MAX || bytes > segment->size)
		return false;
	bytes = (bytes + TFC__FEED_ALIGN - 1) / TFC__FEED_ALIGN * TFC__FEED_ALIGN;
	bytes = bytes ? bytes : TFC__FEED_ALIGN;
	while (index < segment->extent_count && segment->extents[index].bytes < bytes)
		index++;
	if (index == segment->extent_count)
		return false;
	struct tfc__feed_extent *extent = &segment->extents[index];
	segment->next_free = segment->blocks[block].next_free;
	segment->blocks[block] = (struct tfc__feed_block){.at = extent->at, .bytes = bytes};
	segment->used_count++;
	segment->free_bytes -= bytes;
	extent->at += bytes;
	extent->bytes -= bytes;
	if (!extent->bytes)
		segment_remove_extent(segment, index);
	*ret_block = block;
	return true;
}

bool tfc__feed_segment_release(struct tfc__feed_segment *segment, uint32_t number)
{
	if (!segment->base || number >= TFC__FEED_BLOCKS_MAX || !segment->blocks[number].bytes)
		return false;
	struct tfc__feed_block *block = &segment->blocks[number];
	struct tfc__feed_extent *extents = segment->extents;
	uint32_t next = 0;
	while (next < segment->extent_count && extents[next].at < block->at)
		next++;
	bool joins_next = next < segment->extent_count &&
			  block->at + block->bytes == extents[next].at;
	bool joins_previous = next && extents[next - 1].at + extents[next - 1].bytes == block->at;
	if (joins_previous) {
		extents[next - 1].bytes += block->bytes + (joins_next ? extents[next].bytes : 0);
		if (joins_next)
			segment_remove_extent(segment, next);
	} else if (joins_next) {
		extents[next].at = block->at;
		extents[next].bytes += block->bytes;
	} else {
		memmove(extents + next + 1, extents + next,
			(segment->extent_count++ - next) * sizeof(*extents));
		extents[next] = (struct tfc__feed_extent){block->at, block->bytes};
	}
	segment->free_bytes += block->bytes;
	*block = (struct tfc__feed_block){.next_free = segment->next_free};
	segment->next_free = number;
	segment->used_count--;
	return true;
}

void tfc__feed_segment_close(struct tfc__feed_segment *segment)
{
	if (segment->base)
		munmap(segment->base, segment->size);
	if (segment->fd > 0)
		close(segment->fd);
	free(segment->blocks);
	free(segment->extents);
	*segment = (struct tfc__feed_segment){.fd = -1};
}

/* ---- the receiver's side */

struct tfc__feed_mapping {
	atomic_uint references;
	const uint8_t *base;
	uint64_t size;
	pid_t owner;
	pthread_mutex_t mutex; /* of the following */
	int socket;            /* -1: the connection is closed */
	int wake;
	struct tfc__link unsent;
};

int tfc__feed_mapping_open(int fd, uint64_t size, tfc_error *error,
			   struct tfc__feed_mapping **ret_mapping)
{
	struct stat status;
	struct tfc__feed_mapping *mapping = calloc(1, sizeof(*mapping));
	int code = TFC_OK;
	void *base = MAP_FAILED;
	int seals = fcntl(fd, F_GET_SEALS);
	if (!mapping)
		code = tfc__fail_nomem(error, "feed");
	else if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &status) < 0 || !size ||
		 (uint64_t)status.st_size != size)
		code = tfc__fail(error, TFC_EPARSE, "feed", 0,
				 "the other end of the feed has sent memory that it could shrink, "
				 "or of another size than it says");
	else if ((base = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0)) == MAP_FAILED)
		code = tfc__fail_errno(error, "feed", errno,
				       "cannot map %llu bytes of shared memory",
				       (unsigned long long)size);
	close(fd);
	if (code < 0) {
		free(mapping);
		return code;
	}
	atomic_init(&mapping->references, 1);
	mapping->base = base;
	mapping->size = size;
	mapping->owner = getpid();
	mapping->socket = mapping->wake = -1;
	pthread_mutex_init(&mapping->mutex, NULL);
	tfc__list_init(&mapping->unsent);
	*ret_mapping = mapping;
	return TFC_OK;
}

const uint8_t *tfc__feed_mapping_base(const struct tfc__feed_mapping *mapping)
{
	return mapping->base;
}

uint64_t tfc__feed_mapping_size(const struct tfc__feed_mapping *mapping)
{
	return mapping->size;
}

bool tfc__feed_mapping_is_forked(const struct tfc__feed_mapping *mapping)
{
	return mapping->owner != getpid();
}

/* Returns false when the kernel has no room for the message now. */
static bool mapping_send(int socket, uint32_t block)
{
	struct tfc__feed_message message = {.kind = TFC__FEED_RELEASE, .block = block};
	struct tfc__buf data = {0};
	tfc__feed_message_write(&data, &message);
	ssize_t sent = data.is_failed
			       ? -1
			       : send(socket, data.data, data.len, MSG_DONTWAIT | MSG_NOSIGNAL);
	bool is_later = data.is_failed ||
			(sent < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == EINTR));
	tfc__buf_fini(&data);
	return !is_later;
}

static bool mapping_flush_locked(struct tfc__feed_mapping *mapping)
{
	TFC__LIST_EACH (link, &mapping->unsent) {
		struct tfc__feed_held *held = tfc__container_of(link, struct tfc__feed_held, link);
		if (mapping->socket >= 0 && !mapping_send(mapping->socket, held->block))
			return false;
		tfc__list_remove(link);
		held->free(held);
	}
	return true;
}

bool tfc__feed_mapping_flush(struct tfc__feed_mapping *mapping)
{
	pthread_mutex_lock(&mapping->mutex);
	bool is_empty = mapping_flush_locked(mapping);
	pthread_mutex_unlock(&mapping->mutex);
	return is_empty;
}

void tfc__feed_mapping_set_socket(struct tfc__feed_mapping *mapping, int socket, int wake)
{
	pthread_mutex_lock(&mapping->mutex);
	mapping->socket = socket;
	mapping->wake = wake;
	mapping_flush_locked(mapping);
	pthread_mutex_unlock(&mapping->mutex);
}

void tfc__feed_mapping_return(struct tfc__feed_mapping *mapping, struct tfc__feed_held *held)
{
	pthread_mutex_lock(&mapping->mutex);
	tfc__list_append(&mapping->unsent, &held->link);
	if (!mapping_flush_locked(mapping))
		eventfd_write(mapping->wake, 1);
	pthread_mutex_unlock(&mapping->mutex);
}

void tfc__feed_mapping_keep(struct tfc__feed_mapping *mapping)
{
	atomic_fetch_add(&mapping->references, 1);
}

void tfc__feed_mapping_release(struct tfc__feed_mapping *mapping)
{
	if (!mapping || atomic_fetch_sub(&mapping->references, 1) != 1)
		return;
	mapping_flush_locked(mapping);
	munmap((void *)(uintptr_t)mapping->base, mapping->size);
	pthread_mutex_destroy(&mapping->mutex);
	free(mapping);
}
