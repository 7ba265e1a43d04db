/* Checks all entries of an archive together: their sizes, places and names. */
#include "bundle/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/text.h"

#define DESCRIPTOR_MAX 24 /* behind an entry's bytes: signature, checksum, Zip64 sizes (4.3.9) */
#define METHOD_STORED 0
#define EMPTY_DEFLATED 2 /* bytes that some packers write for a folder: nothing, compressed */

int tfc__bundle_refuse(tfc_error *error, int code, const char *name, const char *why)
{
	return tfc__fail(error, code, "bundle", 0, "entry %.120s: %s", name, why);
}

/* ---- sizes */

static bool is_bomb(const struct tfc__bundle_limits *limits, uint64_t size, uint64_t packed)
{
	return size > limits->ratio_bytes && size / limits->ratio > packed;
}

static int check_refuse_size(const struct tfc__bundle_entry *entry,
			     const struct tfc__bundle_limits *limits, tfc_error *error)
{
	char why[192], size[TFC__MEMORY_TEXT_SIZE], limit[TFC__MEMORY_TEXT_SIZE];
	tfc__memory_text(entry->size, size);
	tfc__memory_text(limits->bytes, limit);
	snprintf(why, sizeof(why),
		 "with its %s the archive unpacks to more than the limit of "
		 "%s; " TFC__BUNDLE_HINT,
		 size, limit);
	return tfc__bundle_refuse(error, TFC_ETOOBIG, entry->name, why);
}

static int check_entry_sizes(const struct tfc__bundle_directory *directory,
			     const struct tfc__bundle_limits *limits, tfc_error *error)
{
	uint64_t size = 0, packed = 0;
	for (size_t i = 0; i < directory->count; i++) {
		const struct tfc__bundle_entry *entry = &directory->entries[i];
		if (entry->is_directory && (entry->size || entry->packed > EMPTY_DEFLATED))
			return tfc__bundle_refuse(error, TFC_EARCHIVE, entry->name,
						  "a directory with content");
		if (entry->method == METHOD_STORED && entry->size != entry->packed)
			return tfc__bundle_refuse(
				error, TFC_EARCHIVE, entry->name,
				"not compressed, but its packed and unpacked sizes differ");
		if (is_bomb(limits, entry->size, entry->packed))
			return tfc__bundle_refuse(error, TFC_ETOOBIG, entry->name,
						  "unpacks to more than 200 times its packed size; "
						  "store it uncompressed");
		if (entry->size > limits->bytes - size)
			return check_refuse_size(entry, limits, error);
		size += entry->size;
		packed += entry->packed;
	}
	if (is_bomb(limits, size, packed))
		return tfc__fail(error, TFC_ETOOBIG, "bundle", 0,
				 "the archive unpacks to more than 200 times its packed size; "
				 "store its files uncompressed");
	return TFC_OK;
}

/* ---- places */

static int compare_entry_places(const void *left, const void *right)
{
	const struct tfc__bundle_entry *a = *(const struct tfc__bundle_entry *const *)left;
	const struct tfc__bundle_entry *b = *(const struct tfc__bundle_entry *const *)right;
	return a->start < b->start ? -1 : a->start > b->start;
}

/* Checks the gap between the end of one entry (NULL: the file's beginning) and what follows it. */
static int check_entry_gap(const struct tfc__bundle_entry *before, uint64_t next, const char *what,
			   tfc_error *error)
{
	uint64_t end = before ? before->end : 0;
	if (next < end)
		return tfc__fail(error, TFC_EARCHIVE, "bundle", 0,
				 "entry %.80s: overlaps entry %.80s", what, before->name);
	if (next - end > (before && before->has_descriptor ? DESCRIPTOR_MAX : 0))
		return tfc__fail(error, TFC_EARCHIVE, "bundle", 0,
				 "%llu bytes before %.80s belong to no entry of the archive",
				 (unsigned long long)(next - end), what);
	return TFC_OK;
}

/* Entries must follow one another without gaps: another reader might find data hidden in a gap. */
static int check_entry_places(const struct tfc__bundle_directory *directory, tfc_error *error)
{
	const struct tfc__bundle_entry **sorted = calloc(directory->count + 1, sizeof(*sorted));
	const struct tfc__bundle_entry *before = NULL;
	int result = TFC_OK;
	if (!sorted)
		return tfc__fail_nomem(error, "bundle");
	for (size_t i = 0; i < directory->count; i++)
		sorted[i] = &directory->entries[i];
	qsort(sorted, directory->count, sizeof(*sorted), compare_entry_places);
	for (size_t i = 0; i < directory->count && result == TFC_OK; i++) {
		result = check_entry_gap(before, sorted[i]->start, sorted[i]->name, error);
		before = sorted[i];
	}
	if (result == TFC_OK)
		result = check_entry_gap(before, directory->start, "the central directory", error);
	free(sorted);
	return result;
}

/* ---- names */

int tfc__bundle_check(const struct tfc__bundle_directory *directory,
		      const struct tfc__bundle_limits *limits, tfc_error *error)
{
	int result = check_entry_places(directory, error);
	if (result < 0)
		return result;
	struct tfc__bundle_name *names = calloc(directory->count + 1, sizeof(*names));
	if (!names)
		return tfc__fail_nomem(error, "bundle");
	for (size_t i = 0; i < directory->count; i++)
		names[i] = (struct tfc__bundle_name){directory->entries[i].name,
						     directory->entries[i].is_directory};
	result = tfc__bundle_names_check(names, directory->count, error);
	free(names);
	return result == TFC_OK ? check_entry_sizes(directory, limits, error) : result;
}
