#include "base/names.h"

#include <string.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"
#define HEX_DIGITS DIGITS "abcdef"

static bool is_hex(const char *text, size_t len)
{
	return strlen(text) == len && strspn(text, HEX_DIGITS) == len;
}

bool tfc__is_job_id(const char *text)
{
	return is_hex(text, TFC__JOB_ID_SIZE - 1);
}

bool tfc__is_bundle_hash(const char *text)
{
	return is_hex(text, 64);
}

bool tfc__is_role_name(const char *text)
{
	size_t len = strlen(text);
	return strspn(text, LETTERS) > 0 && len <= TFC__ROLE_NAME_MAX &&
	       strspn(text, LETTERS DIGITS "_") == len;
}

bool tfc__is_log_name(const char *text)
{
	size_t len = strlen(text);
	return len > 0 && len <= TFC__LOG_NAME_MAX && text[0] != '.' && !strchr(text, '/');
}

/* Parts separated by '/'; a '/' after the last part is accepted. */
static bool is_store_path(const char *text)
{
	static const char bytes[] = LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS "._-";
	while (*text) {
		size_t len = strspn(text, bytes);
		if (len == 0 || *text == '.')
			return false;
		text += len;
		text += *text == '/';
	}
	return true;
}

static bool ends_part(const char *text, size_t len)
{
	return len == 0 || text[len - 1] == '/';
}

bool tfc__is_store_key(const char *text)
{
	size_t len = strlen(text);
	return len <= TFC__STORE_KEY_MAX && !ends_part(text, len) && is_store_path(text);
}

bool tfc__is_store_prefix(const char *text)
{
	size_t len = strlen(text);
	return len <= TFC__STORE_KEY_MAX && ends_part(text, len) && is_store_path(text);
}
