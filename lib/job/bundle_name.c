#include "job/bundle.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

#define NAME_MAX_LEN 1024
#define PART_MAX_LEN 255 /* NAME_MAX of every Linux file system */
#define DEPTH_MAX 64

static int refuse(tfc_error *error, const char *name, const char *why)
{
	return tfc__fail(error, TFC_EARCHIVE, "bundle", 0, "entry %.120s: %s", name, why);
}

static const char *check_part(const char *part, size_t len)
{
	if (len == 0)
		return "an empty part in the name";
	if (len > PART_MAX_LEN)
		return "a part of the name is longer than 255 bytes";
	if (len <= 2 && strncmp(part, "..", len) == 0)
		return "\".\" and \"..\" are not allowed";
	return NULL;
}

int tfc__bundle_name_check(const char *name, tfc_error *error)
{
	size_t len = strlen(name), depth = 0;
	if (len == 0 || len > NAME_MAX_LEN)
		return refuse(error, name, "the name is empty or longer than 1024 bytes");
	if (name[0] == '/')
		return refuse(error, name, "an absolute name");
	for (const char *s = name; *s; s++)
		if (*s == '\\' || (unsigned char)*s < ' ' || *s == 0x7f)
			return refuse(error, name, "a backslash or control character in the name");
	for (const char *part = name; *part;) {
		size_t part_len = strcspn(part, "/");
		const char *why = check_part(part, part_len);
		if (!why && ++depth > DEPTH_MAX)
			why = "more than 64 folders deep";
		if (why)
			return refuse(error, name, why);
		part += part_len + (part[part_len] == '/');
	}
	return TFC_OK;
}

/* ---- all names together */

/* A name or the name of a folder on the way to one: its first `len` bytes. */
struct prefix {
	const struct tfc__bundle_name *name;
	size_t len;
	bool is_whole; /* an entry of its own */
};

static int fold(char c)
{
	return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : (unsigned char)c;
}

static int compare_folded(const struct prefix *a, const struct prefix *b)
{
	for (size_t i = 0; i < a->len && i < b->len; i++) {
		int difference = fold(a->name->text[i]) - fold(b->name->text[i]);
		if (difference)
			return difference;
	}
	return a->len < b->len ? -1 : a->len > b->len;
}

/* By folded name; of equal ones by exact name, entries of their own first. */
static int compare(const void *left, const void *right)
{
	const struct prefix *a = left, *b = right;
	int difference = compare_folded(a, b);
	if (!difference)
		difference = memcmp(a->name->text, b->name->text, a->len);
	return difference ? difference : (int)b->is_whole - (int)a->is_whole;
}

static size_t count_prefixes(const struct tfc__bundle_name *names, size_t count)
{
	size_t total = 0;
	for (size_t i = 0; i < count; i++)
		for (const char *s = names[i].text; *s; s++)
			total += *s == '/' || !s[1];
	return total;
}

static size_t add_prefixes(const struct tfc__bundle_name *name, struct prefix *prefixes)
{
	size_t count = 0;
	for (const char *s = name->text; *s; s++) {
		size_t len = (size_t)(s - name->text);
		if (*s == '/')
			prefixes[count++] = (struct prefix){name, len, !s[1]};
		else if (!s[1])
			prefixes[count++] = (struct prefix){name, len + 1, true};
	}
	return count;
}

static int check_pair(const struct prefix *a, const struct prefix *b, tfc_error *error)
{
	if (compare_folded(a, b) != 0)
		return TFC_OK;
	if (memcmp(a->name->text, b->name->text, a->len) != 0)
		return tfc__fail(error, TFC_EARCHIVE, "bundle", 0,
				 "entries %.80s and %.80s: names that differ only in case",
				 a->name->text, b->name->text);
	if (a->is_whole && b->is_whole)
		return refuse(error, a->name->text, "there is another one of that name");
	if (a->is_whole && !a->name->is_directory)
		return refuse(error, a->name->text, "it is a file, and a folder of another one");
	return TFC_OK;
}

int tfc__bundle_names_check(const struct tfc__bundle_name *names, size_t count, tfc_error *error)
{
	size_t total = count_prefixes(names, count), filled = 0;
	struct prefix *prefixes = calloc(total + 1, sizeof(*prefixes));
	int result = TFC_OK;
	if (!prefixes)
		return tfc__fail_nomem(error, "bundle");
	for (size_t i = 0; i < count; i++)
		filled += add_prefixes(&names[i], prefixes + filled);
	qsort(prefixes, filled, sizeof(*prefixes), compare);
	for (size_t i = 1; i < filled && result == TFC_OK; i++)
		result = check_pair(&prefixes[i - 1], &prefixes[i], error);
	free(prefixes);
	return result;
}
