/* job: names in bundles, one a line. What is accepted stays inside, and no two meet. */
#include <string.h>

#include "bundle/internal.h"
#include "fuzz.h"

#define NAMES_MAX 32

/* Walks a name as a file system would: true when it never leaves and every part is real. */
static bool stays_inside(const char *name)
{
	if (*name == '/' || !*name || strchr(name, '\\'))
		return false;
	while (*name) {
		size_t len = strcspn(name, "/");
		if (len == 0 || len > 255 || (len == 1 && name[0] == '.') ||
		    (len == 2 && name[0] == '.' && name[1] == '.'))
			return false;
		name += len + (name[len] == '/');
	}
	return true;
}

static size_t without_slash(const char *name)
{
	size_t len = strlen(name);
	return len && name[len - 1] == '/' ? len - 1 : len;
}

/* Equal but for the case of ASCII letters; and neither is a folder on the way to the other. */
static bool can_live_together(const struct tfc__bundle_name *a, const struct tfc__bundle_name *b)
{
	size_t a_len = without_slash(a->text), b_len = without_slash(b->text);
	if (a_len > b_len)
		return can_live_together(b, a);
	if (strncasecmp(a->text, b->text, a_len) != 0)
		return true;
	if (a_len == b_len)
		return false;
	return b->text[a_len] != '/' || (a->is_directory && strncmp(a->text, b->text, a_len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = {data, size};
	struct tfc__bundle_name names[NAMES_MAX];
	char *lines[NAMES_MAX], *line;
	size_t count = 0;
	tfc_error error = TFC_ERROR_INIT;
	while (count < NAMES_MAX && (line = fuzz_line(&input, '\n'))) {
		int code = tfc__bundle_name_check(line, &error);
		if (code < 0) {
			fuzz_check_error(code, &error);
			free(line);
			continue;
		}
		CHECK(stays_inside(line));
		names[count] = (struct tfc__bundle_name){line, line[strlen(line) - 1] == '/'};
		lines[count++] = line;
	}
	int code = tfc__bundle_names_check(names, count, &error);
	if (code < 0)
		fuzz_check_error(code, &error);
	for (size_t i = 0; code == TFC_OK && i < count; i++)
		for (size_t k = 0; k < i; k++)
			CHECK(can_live_together(&names[i], &names[k]));
	while (count)
		free(lines[--count]);
	return 0;
}
