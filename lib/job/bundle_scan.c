#include "job/bundle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"

#define END_SIZE 22              /* end of central directory record, without comment */
#define END64_SIZE 56            /* its Zip64 form */
#define LOCATOR_SIZE 20          /* where the Zip64 form is */
#define CENTRAL_SIZE 46          /* one entry of the directory, without names */
#define LOCAL_SIZE 30            /* one entry's header, without names */
#define COMMENT_MAX 65535        /* the archive's comment */
#define DIRECTORY_MAX (64 << 20) /* bytes of directory that are read into memory */

static uint16_t get16(const uint8_t *at)
{
	return (uint16_t)(at[0] | at[1] << 8);
}

static uint32_t get32(const uint8_t *at)
{
	return (uint32_t)get16(at) | (uint32_t)get16(at + 2) << 16;
}

static uint64_t get64(const uint8_t *at)
{
	return (uint64_t)get32(at) | (uint64_t)get32(at + 4) << 32;
}

static int damaged(tfc_error *error, const char *why)
{
	return tfc__fail(error, TFC_EARCHIVE, "bundle", 0, "%s", why);
}

static int read_at(int fd, uint64_t offset, void *data, size_t len, tfc_error *error)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = pread(fd, (char *)data + done, len - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return tfc__fail_errno(error, "bundle", errno, "cannot read the archive");
		if (n == 0)
			return damaged(error, "the archive ends too early");
		done += (size_t)n;
	}
	return TFC_OK;
}

/* Where the directory is. */
struct directory {
	uint64_t offset;
	uint64_t size;
	uint64_t count;
	uint64_t end; /* where the records behind it begin */
};

static int read_end64(int fd, struct directory *dir, tfc_error *error)
{
	uint8_t locator[LOCATOR_SIZE], end[END64_SIZE];
	if (dir->end < LOCATOR_SIZE + END64_SIZE)
		return damaged(error, "the Zip64 record is missing");
	int result = read_at(fd, dir->end - LOCATOR_SIZE, locator, LOCATOR_SIZE, error);
	if (result < 0)
		return result;
	uint64_t at = get64(locator + 8);
	if (get32(locator) != 0x07064b50 || at > dir->end - LOCATOR_SIZE - END64_SIZE)
		return damaged(error, "the Zip64 record is missing");
	result = read_at(fd, at, end, END64_SIZE, error);
	if (result < 0)
		return result;
	if (get32(end) != 0x06064b50)
		return damaged(error, "the Zip64 record is missing");
	*dir = (struct directory){get64(end + 48), get64(end + 40), get64(end + 32), at};
	return TFC_OK;
}

/* Finds the end record: the last one whose comment reaches to the end of the file. */
static int find_directory(int fd, uint64_t size, struct directory *dir, tfc_error *error)
{
	static const char none[] = "not a zip archive";
	size_t len = size < END_SIZE + COMMENT_MAX ? (size_t)size : END_SIZE + COMMENT_MAX;
	uint8_t *tail = malloc(len + 1);
	const uint8_t *end = NULL;
	if (!tail)
		return tfc__fail_nomem(error, "bundle");
	int result = read_at(fd, size - len, tail, len, error);
	for (size_t i = len; result == TFC_OK && !end && i >= END_SIZE; i--) {
		const uint8_t *at = tail + i - END_SIZE;
		if (get32(at) == 0x06054b50 && get16(at + 20) == len - i)
			end = at;
	}
	if (result == TFC_OK && !end)
		result = damaged(error, none);
	if (result == TFC_OK) {
		dir->end = size - len + (uint64_t)(end - tail);
		dir->count = get16(end + 10);
		dir->size = get32(end + 12);
		dir->offset = get32(end + 16);
		if (dir->count == 0xffff || dir->size == 0xffffffff || dir->offset == 0xffffffff)
			result = read_end64(fd, dir, error);
	}
	free(tail);
	if (result == TFC_OK && (dir->offset > dir->end || dir->size != dir->end - dir->offset))
		return damaged(error, "the archive's directory is not where it is said to be");
	return result;
}

/* The bytes that one entry takes. */
struct range {
	uint64_t start, end;
};

static int compare_ranges(const void *left, const void *right)
{
	const struct range *a = left, *b = right;
	return a->start < b->start ? -1 : a->start > b->start;
}

/* The Zip64 values of an entry replace those that do not fit (4.5.3). */
static void read_extra64(const uint8_t *extra, size_t len, uint64_t plain_size, uint64_t *packed,
			 uint64_t *offset)
{
	while (len >= 4) {
		size_t field = get16(extra + 2);
		if (field > len - 4)
			return;
		const uint8_t *at = extra + 4, *end = at + field;
		if (get16(extra) == 1) {
			if (plain_size == 0xffffffff)
				at += 8;
			if (*packed == 0xffffffff && end - at >= 8) {
				*packed = get64(at);
				at += 8;
			}
			if (*offset == 0xffffffff && end - at >= 8)
				*offset = get64(at);
			return;
		}
		extra = end;
		len -= 4 + field;
	}
}

static int check_local(int fd, const struct directory *dir, const uint8_t *name, size_t name_len,
		       uint64_t packed, struct range *range, tfc_error *error)
{
	uint8_t local[LOCAL_SIZE];
	uint8_t local_name[UINT16_MAX];
	if (range->start > dir->offset || dir->offset - range->start < LOCAL_SIZE)
		return damaged(error, "its place is outside the archive");
	int result = read_at(fd, range->start, local, LOCAL_SIZE, error);
	if (result < 0)
		return result;
	uint64_t room = dir->offset - range->start - LOCAL_SIZE;
	uint64_t names = (uint64_t)get16(local + 26) + get16(local + 28);
	if (get32(local) != 0x04034b50 || names > room || packed > room - names)
		return damaged(error, "its place is outside the archive");
	range->end = range->start + LOCAL_SIZE + names + packed;
	if (get16(local + 26) != name_len)
		return damaged(error, "its two names differ");
	result = read_at(fd, range->start + LOCAL_SIZE, local_name, name_len, error);
	if (result == TFC_OK && memcmp(local_name, name, name_len) != 0)
		return damaged(error, "its two names differ");
	return result;
}

/* Reads one entry of the directory; returns the bytes it takes there, or an error. */
static int read_entry(int fd, const struct directory *dir, const uint8_t *at, size_t room,
		      struct range *range, tfc_error *error)
{
	if (room < CENTRAL_SIZE || get32(at) != 0x02014b50)
		return damaged(error, "the archive's directory is damaged");
	size_t name_len = get16(at + 28), extra_len = get16(at + 30);
	size_t len = CENTRAL_SIZE + name_len + extra_len + get16(at + 32);
	if (len > room)
		return damaged(error, "the archive's directory is damaged");
	const uint8_t *name = at + CENTRAL_SIZE;
	uint64_t packed = get32(at + 20);
	range->start = get32(at + 42);
	read_extra64(name + name_len, extra_len, get32(at + 24), &packed, &range->start);
	int result = TFC_OK;
	if (memchr(name, '\0', name_len))
		result = damaged(error, "a NUL in its name");
	else
		result = check_local(fd, dir, name, name_len, packed, range, error);
	if (result < 0)
		return tfc__fail_prefix(error, result,
					"entry %.*s: ", (int)(name_len < 120 ? name_len : 120),
					(const char *)name);
	return (int)len;
}

static int scan(int fd, const struct directory *dir, const uint8_t *bytes, struct range *ranges,
		tfc_error *error)
{
	size_t at = 0;
	for (uint64_t i = 0; i < dir->count; i++) {
		int len = read_entry(fd, dir, bytes + at, (size_t)dir->size - at, &ranges[i],
				     error);
		if (len < 0)
			return len;
		at += (size_t)len;
	}
	if (at != dir->size)
		return damaged(error, "the archive's directory is damaged");
	qsort(ranges, dir->count, sizeof(*ranges), compare_ranges);
	for (uint64_t i = 1; i < dir->count; i++)
		if (ranges[i].start < ranges[i - 1].end)
			return damaged(error, "entries of the archive overlap");
	return TFC_OK;
}

int tfc__bundle_scan(int fd, uint64_t *ret_count, tfc_error *error)
{
	struct stat status;
	struct directory dir = {0};
	if (fstat(fd, &status) < 0)
		return tfc__fail_errno(error, "bundle", errno, "cannot read the archive");
	int result = find_directory(fd, (uint64_t)status.st_size, &dir, error);
	if (result < 0)
		return result;
	if (dir.size > DIRECTORY_MAX || dir.count > dir.size / CENTRAL_SIZE)
		return damaged(error, "the archive's directory is damaged");
	uint8_t *bytes = malloc((size_t)dir.size + 1);
	struct range *ranges = calloc(dir.count + 1, sizeof(*ranges));
	if (!bytes || !ranges)
		result = tfc__fail_nomem(error, "bundle");
	else
		result = read_at(fd, dir.offset, bytes, (size_t)dir.size, error);
	if (result == TFC_OK)
		result = scan(fd, &dir, bytes, ranges, error);
	free(bytes);
	free(ranges);
	if (result == TFC_OK)
		*ret_count = dir.count;
	return result;
}
