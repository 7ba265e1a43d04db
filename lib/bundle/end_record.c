/* The records at an archive's end, which locate its central directory (4.3.14 to 4.3.16). */
#include "bundle/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"

#define END_SIZE 22 /* end of central directory record, without comment */
#define END_MAGIC 0x06054b50
#define END64_SIZE 56 /* its Zip64 form */
#define END64_MAGIC 0x06064b50
#define LOCATOR_SIZE 20 /* locates the Zip64 record */
#define LOCATOR_MAGIC 0x07064b50
#define CENTRAL_SIZE 46 /* one entry of the central directory, without names */
#define CENTRAL_MAGIC 0x02014b50
#define COMMENT_MAX 65535      /* the archive's comment */
#define LOCAL_MAGIC 0x04034b50 /* begins an archive that is not empty */

static int archive_fail(tfc_error *error, const char *why)
{
	return tfc__fail(error, TFC_EARCHIVE, "bundle", 0, "%s", why);
}

int tfc__bundle_read_at(int fd, uint64_t offset, void *data, size_t len, tfc_error *error)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = pread(fd, (char *)data + done, len - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return tfc__fail_errno(error, "bundle", errno, "cannot read the archive");
		if (n == 0)
			return archive_fail(error, "the archive is truncated");
		done += (size_t)n;
	}
	return TFC_OK;
}

/* ---- the Zip64 form */

/* A field of the plain record either has no room for the number or contains the same number. */
static bool end_field_agrees(uint64_t plain, uint64_t none, uint64_t number)
{
	return plain == none || plain == number;
}

/*
 * The locator lies directly in front of the end record, and the Zip64 record directly in front of
 * the locator. *at is the position of the end record, and on return that of the Zip64 record, if
 * there is one.
 */
static int read_end64_record(int fd, const uint8_t *plain, uint64_t *at,
			     struct tfc__bundle_end *end, tfc_error *error)
{
	uint8_t locator[LOCATOR_SIZE] = {0}, record[END64_SIZE];
	bool is_needed = end->count == UINT16_MAX || end->size == UINT32_MAX ||
			 end->offset == UINT32_MAX;
	int result = TFC_OK;
	if (*at >= LOCATOR_SIZE + END64_SIZE)
		result = tfc__bundle_read_at(fd, *at - LOCATOR_SIZE, locator, LOCATOR_SIZE, error);
	if (result < 0)
		return result;
	if (tfc__get32(locator) != LOCATOR_MAGIC)
		return is_needed ? archive_fail(error, "the archive has no Zip64 record") : TFC_OK;
	uint64_t place = tfc__get64(locator + 8), before = *at - LOCATOR_SIZE;
	if (place > before - END64_SIZE)
		return archive_fail(error,
				    "the archive's Zip64 record is not at its recorded offset");
	result = tfc__bundle_read_at(fd, place, record, END64_SIZE, error);
	if (result < 0)
		return result;
	if (tfc__get32(record) != END64_MAGIC)
		return archive_fail(error,
				    "the archive's Zip64 record is not at its recorded offset");
	if (tfc__get64(record + 4) != before - place - 12)
		return archive_fail(error, "the archive's Zip64 record has a wrong length");
	*end = (struct tfc__bundle_end){tfc__get64(record + 48), tfc__get64(record + 40),
					tfc__get64(record + 32)};
	if (!end_field_agrees(tfc__get16(plain + 10), UINT16_MAX, end->count) ||
	    !end_field_agrees(tfc__get32(plain + 12), UINT32_MAX, end->size) ||
	    !end_field_agrees(tfc__get32(plain + 16), UINT32_MAX, end->offset))
		return archive_fail(error, "the archive's end record and Zip64 record differ");
	if (tfc__get32(record + 16) || tfc__get32(record + 20) ||
	    tfc__get64(record + 24) != end->count)
		return archive_fail(error, "the archive is one part of several");
	*at = place;
	return TFC_OK;
}

/* ---- the plain record */

/*
 * Finds the end record in the file's tail: its comment must end with the file. Some readers search
 * for the record from the front, some from the back, so the comment must not contain another one.
 */
static int find_end_record(int fd, const uint8_t *tail, size_t len, const uint8_t **ret_record,
			   tfc_error *error)
{
	const uint8_t *found = NULL, *last = NULL;
	for (size_t i = 0; i + 4 <= len; i++) {
		const uint8_t *at = tail + i;
		if (tfc__get32(at) != END_MAGIC)
			continue;
		if (found)
			return archive_fail(error,
					    "the archive's comment contains a second end record");
		last = at;
		if (len - i >= END_SIZE && tfc__get16(at + 20) == len - i - END_SIZE)
			found = at;
	}
	*ret_record = found;
	if (found)
		return TFC_OK;

	size_t left = last ? (size_t)(tail + len - last) : 0;
	if (left >= END_SIZE && tfc__get16(last + 20) < left - END_SIZE)
		return tfc__fail(error, TFC_EARCHIVE, "bundle", 0,
				 "%zu bytes follow the archive's end record",
				 left - END_SIZE - tfc__get16(last + 20));
	uint8_t magic[4];
	bool begins_as_zip = pread(fd, magic, 4, 0) == 4 &&
			     (tfc__get32(magic) == LOCAL_MAGIC || tfc__get32(magic) == END_MAGIC);
	return archive_fail(error, begins_as_zip ? "the archive is truncated: it has no end record"
						 : "not a zip archive");
}

static int read_end_record(int fd, const uint8_t *record, uint64_t at, struct tfc__bundle_end *end,
			   tfc_error *error)
{
	*end = (struct tfc__bundle_end){tfc__get32(record + 16), tfc__get32(record + 12),
					tfc__get16(record + 10)};
	int result = read_end64_record(fd, record, &at, end, error);
	if (result < 0)
		return result;
	bool is_whole = end_field_agrees(tfc__get16(record + 4), UINT16_MAX, 0) &&
			end_field_agrees(tfc__get16(record + 6), UINT16_MAX, 0) &&
			tfc__get16(record + 8) == tfc__get16(record + 10);
	if (!is_whole)
		return archive_fail(error, "the archive is one part of several");
	uint64_t directory = end->size <= at ? at - end->size : 0; /* it ends at the records */
	if (end->size > at || end->offset != directory) {
		/* The directory may be there, with all offsets too low by the same number. */
		uint8_t magic[4];
		if (end->size >= CENTRAL_SIZE && end->offset < directory &&
		    pread(fd, magic, 4, (off_t)directory) == 4 &&
		    tfc__get32(magic) == CENTRAL_MAGIC)
			return tfc__fail(error, TFC_EARCHIVE, "bundle", 0,
					 "%llu bytes precede the archive",
					 (unsigned long long)(directory - end->offset));
		return archive_fail(
			error, "the archive's central directory is not at its recorded offset");
	}
	if (end->count > end->size / CENTRAL_SIZE)
		return tfc__fail(
			error, TFC_EARCHIVE, "bundle", 0,
			"the archive claims %llu entries, more than its central directory can hold",
			(unsigned long long)end->count);
	return TFC_OK;
}

int tfc__bundle_find_end(int fd, uint64_t file_size, tfc_error *error,
			 struct tfc__bundle_end *ret_end)
{
	size_t len = file_size < END_SIZE + COMMENT_MAX ? (size_t)file_size
							: END_SIZE + COMMENT_MAX;
	const uint8_t *record = NULL;
	if (!file_size)
		return archive_fail(error, "the file is empty");
	uint8_t *tail = malloc(len + 1);
	if (!tail)
		return tfc__fail_nomem(error, "bundle");
	int result = tfc__bundle_read_at(fd, file_size - len, tail, len, error);
	if (result == TFC_OK)
		result = find_end_record(fd, tail, len, &record, error);
	if (result == TFC_OK)
		result = read_end_record(fd, record, file_size - len + (uint64_t)(record - tail),
					 ret_end, error);
	free(tail);
	return result;
}
