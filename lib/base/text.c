#include "base/text.h"

#include <stdio.h>
#include <string.h>

int tfc__port_read(const char *text)
{
	size_t len = strspn(text, "0123456789");
	int port = 0;
	if (len == 0 || len > 5 || text[len])
		return -1;
	for (; *text; text++)
		port = port * 10 + (*text - '0');
	return port <= 65535 ? port : -1;
}

static size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

size_t tfc__edit_distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t rows[3][TFC__EDITED_MAX + 1];
	size_t *older = rows[0], *previous = rows[1], *row = rows[2];
	if (a_len > TFC__EDITED_MAX || b_len > TFC__EDITED_MAX)
		return SIZE_MAX;
	for (size_t j = 0; j <= b_len; j++)
		previous[j] = j;
	for (size_t i = 1; i <= a_len; i++) {
		row[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			size_t change = previous[j - 1] + (a[i - 1] != b[j - 1]);
			row[j] = min_size(change, min_size(previous[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = min_size(row[j], older[j - 2] + 1);
		}
		size_t *spare = older;
		older = previous;
		previous = row;
		row = spare;
	}
	return previous[b_len];
}

void tfc__memory_text(uint64_t bytes, char ret_text[TFC__MEMORY_TEXT_SIZE])
{
	static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
	double size = (double)bytes;
	size_t unit = 0;
	for (; size >= 1024 && unit < 5; unit++)
		size /= 1024;
	uint64_t tenths = (uint64_t)(size * 10);
	if (tenths % 10)
		snprintf(ret_text, TFC__MEMORY_TEXT_SIZE, "%llu.%llu %s",
			 (unsigned long long)tenths / 10, (unsigned long long)tenths % 10,
			 units[unit]);
	else
		snprintf(ret_text, TFC__MEMORY_TEXT_SIZE, "%llu %s",
			 (unsigned long long)tenths / 10, units[unit]);
}
