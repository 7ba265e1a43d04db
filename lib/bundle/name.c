#include "bundle/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/utf8.h"

#define NAME_MAX_LEN 1024
#define PART_MAX_LEN 255 /* NAME_MAX of every Linux file system */
#define DEPTH_MAX 64
#define FOLDED_GROWTH 2 /* U+023A has two bytes, its folded form three */

static const char *check_name_parts(const char *name)
{
	for (size_t depth = 0; *name; depth++) {
		size_t len = strcspn(name, "/");
		if (len == 0)
			return "its name has an empty part";
		if (len > PART_MAX_LEN)
			return "a part of its name exceeds 255 bytes";
		if (len == 1 && name[0] == '.')
			return "\".\" is a part of its name";
		if (len == 2 && name[0] == '.' && name[1] == '.')
			return "\"..\" is a part of its name";
		if (depth == DEPTH_MAX)
			return "more than 64 directories deep";
		name += len + (name[len] == '/');
	}
	return NULL;
}

static const char *check_name_characters(const char *name, size_t len)
{
	for (size_t n; len; name += n, len -= n) {
		n = tfc__utf8_len(name, len);
		if (!n)
			return "its name is not UTF-8";
		size_t same;
		uint32_t code = tfc__utf8_read(name, &same);
		if (code == '\\')
			return "its name contains a backslash";
		if (tfc__utf8_is_control(code))
			return "its name contains a control character";
	}
	return NULL;
}

int tfc__bundle_name_check(const char *name, tfc_error *error)
{
	size_t len = strlen(name);
	const char *why = NULL;
	if (len == 0)
		return tfc__fail(error, TFC_EARCHIVE, "bundle", 0, "an entry without a name");
	if (len > NAME_MAX_LEN)
		why = "its name exceeds 1024 bytes";
	else if (name[0] == '/')
		why = "its name is absolute";
	why = why ? why : check_name_characters(name, len);
	why = why ? why : check_name_parts(name);
	return why ? tfc__bundle_refuse(error, TFC_EARCHIVE, name, why) : TFC_OK;
}

/* ---- all names together */

/* An entry's name, or the name of one of its parent folders: the first `len` bytes. */
struct prefix {
	const struct tfc__bundle_name *name;
	const char *folded; /* its case-folded form, borrowed */
	size_t len, folded_len;
	bool is_whole; /* the name of an entry itself */
};

struct prefixes {
	struct prefix *items;
	size_t count;
	char *folded; /* all folded names, one after another */
};

static int compare_prefix_bytes(const char *a, size_t a_len, const char *b, size_t b_len)
{
	int difference = memcmp(a, b, a_len < b_len ? a_len : b_len);
	return difference ? difference : a_len < b_len ? -1 : a_len > b_len;
}

/* By folded name, then by exact name, then entries before parent folders. */
static int compare_prefixes(const void *left, const void *right)
{
	const struct prefix *a = left, *b = right;
	int difference = compare_prefix_bytes(a->folded, a->folded_len, b->folded, b->folded_len);
	if (!difference)
		difference = compare_prefix_bytes(a->name->text, a->len, b->name->text, b->len);
	return difference ? difference : (int)b->is_whole - (int)a->is_whole;
}

/* Adds a name and its parent folders; returns the position of the next folded name. */
static char *prefixes_add_name(struct prefixes *prefixes, const struct tfc__bundle_name *name,
			       char *folded)
{
	const char *start = folded, *text = name->text;
	for (size_t n; *text; text += n) {
		uint32_t code = tfc__utf8_read(text, &n);
		if (code == '/')
			prefixes->items[prefixes->count++] =
				(struct prefix){name, start, (size_t)(text - name->text),
						(size_t)(folded - start), !text[1]};
		folded += tfc__utf8_write(tfc__bundle_fold(code), folded);
	}
	if (text > name->text && text[-1] != '/')
		prefixes->items[prefixes->count++] = (struct prefix){name, start,
								     (size_t)(text - name->text),
								     (size_t)(folded - start),
								     true};
	return folded;
}

/* All names have passed tfc__bundle_name_check. */
static bool prefixes_collect(struct prefixes *prefixes, const struct tfc__bundle_name *names,
			     size_t count)
{
	size_t total = 0, bytes = 0;
	for (size_t i = 0; i < count; i++) {
		for (const char *s = names[i].text; *s; s++)
			total += *s == '/' || !s[1];
		bytes += strlen(names[i].text);
	}
	prefixes->items = calloc(total + 1, sizeof(*prefixes->items));
	prefixes->folded = malloc(FOLDED_GROWTH * bytes + 1);
	char *folded = prefixes->folded;
	if (!prefixes->items || !folded)
		return false;
	for (size_t i = 0; i < count; i++)
		folded = prefixes_add_name(prefixes, &names[i], folded);
	return true;
}

/* Checks two neighbors in the order of compare_prefixes(). */
static int check_prefix_pair(const struct prefix *a, const struct prefix *b, tfc_error *error)
{
	const char *a_text = a->name->text, *b_text = b->name->text;
	if (compare_prefix_bytes(a->folded, a->folded_len, b->folded, b->folded_len) != 0)
		return TFC_OK;
	if (compare_prefix_bytes(a_text, a->len, b_text, b->len) != 0)
		return tfc__fail(error, TFC_EARCHIVE, "bundle", 0,
				 "entries %.80s and %.80s: names differ only in case", a_text,
				 b_text);
	if (a->is_whole && b->is_whole && a->name->is_directory == b->name->is_directory)
		return tfc__bundle_refuse(error, TFC_EARCHIVE, a_text, "its name is not unique");
	if (a->is_whole && b->is_whole)
		return tfc__bundle_refuse(error, TFC_EARCHIVE, a_text,
					  "both a file and a directory");
	if (a->is_whole && !a->name->is_directory)
		return tfc__bundle_refuse(error, TFC_EARCHIVE, a_text,
					  "a file, but also the directory of another entry");
	return TFC_OK;
}

int tfc__bundle_names_check(const struct tfc__bundle_name *names, size_t count, tfc_error *error)
{
	struct prefixes prefixes = {0};
	int result = TFC_OK;
	if (!prefixes_collect(&prefixes, names, count))
		result = tfc__fail_nomem(error, "bundle");
	else
		qsort(prefixes.items, prefixes.count, sizeof(*prefixes.items), compare_prefixes);
	for (size_t i = 1; i < prefixes.count && result == TFC_OK; i++)
		result = check_prefix_pair(&prefixes.items[i - 1], &prefixes.items[i], error);
	free(prefixes.items);
	free(prefixes.folded);
	return result;
}
