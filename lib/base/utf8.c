#include "base/utf8.h"

#include <string.h>

/* RFC 3629, section 4. */
size_t tfc__utf8_len(const char *text, size_t len)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t need;
	unsigned char low = 0x80, high = 0xBF;
	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xC2 && s[0] <= 0xDF)
		need = 2;
	else if (s[0] >= 0xE0 && s[0] <= 0xEF)
		need = 3;
	else if (s[0] >= 0xF0 && s[0] <= 0xF4)
		need = 4;
	else
		return 0;
	if (s[0] == 0xE0)
		low = 0xA0;
	if (s[0] == 0xED)
		high = 0x9F;
	if (s[0] == 0xF0)
		low = 0x90;
	if (s[0] == 0xF4)
		high = 0x8F;
	if (len < need || s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < need; i++)
		if ((s[i] & 0xC0) != 0x80)
			return 0;
	return need;
}

/* RFC 3629, section 3: the number of leading ones in the first byte is the length; each following
 * byte carries six bits. */
uint32_t tfc__utf8_read(const char *text, size_t *ret_len)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t len = s[0] < 0x80 ? 1 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
	uint32_t code = len == 1 ? s[0] : s[0] & (0x7Fu >> len);
	for (size_t i = 1; i < len; i++)
		code = code << 6 | (s[i] & 0x3Fu);
	*ret_len = len;
	return code;
}

size_t tfc__utf8_write(uint32_t code, char *text)
{
	static const unsigned char leads[] = {0, 0, 0xC0, 0xE0, 0xF0};
	size_t len = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
	for (size_t i = len; i-- > 1; code >>= 6)
		text[i] = (char)(0x80 | (code & 0x3F));
	text[0] = (char)(leads[len == 1 ? 0 : len] | code);
	return len;
}

bool tfc__utf8_is_control(uint32_t code)
{
	return code < 0x20 || (code >= 0x7F && code <= 0x9F) || code == 0x061C || code == 0x200E ||
	       code == 0x200F || (code >= 0x202A && code <= 0x202E) ||
	       (code >= 0x2066 && code <= 0x2069);
}

/* Length of the plain character at the start of `left` bytes; 0 if there is none. */
static size_t utf8_plain_len(const char *text, size_t left)
{
	size_t len = tfc__utf8_len(text, left), same;
	return len && !tfc__utf8_is_control(tfc__utf8_read(text, &same)) ? len : 0;
}

bool tfc__is_plain_text(const char *text)
{
	size_t left = strlen(text), len;
	for (; left; text += len, left -= len)
		if (!(len = utf8_plain_len(text, left)))
			return false;
	return true;
}

void tfc__make_plain_text(char *text)
{
	size_t left = strlen(text), len;
	for (; left; text += len, left -= len) {
		if ((len = utf8_plain_len(text, left)))
			continue;
		bool is_ascii = !((unsigned char)*text & 0x80);
		len = tfc__utf8_len(text, left);
		len += !len;
		memset(text, is_ascii ? ' ' : '?', len);
	}
}
