#include "gateway/cursor.h"

#include <stdio.h>
#include <string.h>

void tfc__cursor_write(char ret_text[TFC__CURSOR_SIZE], const char *task_type, uint32_t task_index,
		       const struct tfc__lines_cursor *cursor)
{
	const struct tfc__told *told = cursor->told;
	snprintf(ret_text, TFC__CURSOR_SIZE, "%s/%u:%llu+%llu,%llu+%llu", task_type, task_index,
		 (unsigned long long)told[0].position, (unsigned long long)told[0].skip,
		 (unsigned long long)told[1].position, (unsigned long long)told[1].skip);
}

/* A number as printf writes it, and the character behind it; moves *at behind both. */
static bool read_number(const char **at, char end, uint64_t max, uint64_t *ret_number)
{
	uint64_t number = 0;
	const char *digit = *at;
	for (; *digit >= '0' && *digit <= '9'; digit++) {
		uint64_t value = (uint64_t)(*digit - '0');
		if (number > (max - value) / 10)
			return false;
		number = number * 10 + value;
	}
	bool is_padded = **at == '0' && digit - *at > 1;
	if (digit == *at || is_padded || *digit != end)
		return false;
	*at = digit + 1;
	*ret_number = number;
	return true;
}

bool tfc__cursor_read(const char *text, char ret_task[TFC__CURSOR_TASK_SIZE],
		      struct tfc__lines_cursor *ret_cursor)
{
	const char *colon = strrchr(text, ':');
	struct tfc__told told[2];
	size_t len = colon ? (size_t)(colon - text) : 0;
	if (!colon || len >= TFC__CURSOR_TASK_SIZE)
		return false;
	const char *slash = memrchr(text, '/', len);
	const char *index = slash ? slash + 1 : colon, *at = colon + 1;
	uint64_t number;
	if (!slash || !read_number(&index, ':', UINT32_MAX, &number) || index != at ||
	    !read_number(&at, '+', UINT64_MAX, &told[0].position) ||
	    !read_number(&at, ',', UINT64_MAX, &told[0].skip) ||
	    !read_number(&at, '+', UINT64_MAX, &told[1].position) ||
	    !read_number(&at, '\0', UINT64_MAX, &told[1].skip))
		return false;
	memcpy(ret_task, text, len);
	ret_task[len] = '\0';
	memcpy(ret_cursor->told, told, sizeof(told));
	return true;
}
