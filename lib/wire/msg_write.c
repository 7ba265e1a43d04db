#include "wire/msg.h"

#include <string.h>

#include "wire/msg_scan.h"

/* Adds the first byte and a number of `width` bytes, most significant byte first. */
static void add_head(struct tfc__buf *buf, uint8_t first, unsigned width, uint64_t number)
{
	char *to = tfc__buf_reserve(buf, 1 + width);
	if (!to)
		return;
	*to = (char)first;
	for (unsigned i = width; i > 0; i--, number >>= 8)
		to[i] = (char)(number & 0xFF);
	tfc__buf_grow(buf, 1 + width);
}

/* Adds a count in the shortest form: in the first byte if it is below `small`, otherwise after one
 * of three first bytes. */
static void add_count(struct tfc__buf *buf, uint8_t fix, uint32_t small, const uint8_t firsts[3],
		      uint32_t count)
{
	if (count < small)
		add_head(buf, (uint8_t)(fix | count), 0, 0);
	else if (count <= UINT8_MAX && firsts[0])
		add_head(buf, firsts[0], 1, count);
	else if (count <= UINT16_MAX)
		add_head(buf, firsts[1], 2, count);
	else
		add_head(buf, firsts[2], 4, count);
}

void tfc__msg_map(struct tfc__buf *buf, uint32_t pairs)
{
	add_count(buf, 0x80, 16, (const uint8_t[]){0, 0xDE, 0xDF}, pairs);
}

void tfc__msg_array(struct tfc__buf *buf, uint32_t items)
{
	add_count(buf, 0x90, 16, (const uint8_t[]){0, 0xDC, 0xDD}, items);
}

void tfc__msg_nil(struct tfc__buf *buf)
{
	add_head(buf, 0xC0, 0, 0);
}

void tfc__msg_bool(struct tfc__buf *buf, bool value)
{
	add_head(buf, value ? 0xC3 : 0xC2, 0, 0);
}

void tfc__msg_u64(struct tfc__buf *buf, uint64_t value)
{
	if (value < 0x80)
		add_head(buf, (uint8_t)value, 0, 0);
	else if (value <= UINT8_MAX)
		add_head(buf, 0xCC, 1, value);
	else if (value <= UINT16_MAX)
		add_head(buf, 0xCD, 2, value);
	else if (value <= UINT32_MAX)
		add_head(buf, 0xCE, 4, value);
	else
		add_head(buf, 0xCF, 8, value);
}

void tfc__msg_i64(struct tfc__buf *buf, int64_t value)
{
	if (value >= 0)
		tfc__msg_u64(buf, (uint64_t)value);
	else if (value >= -32)
		add_head(buf, (uint8_t)value, 0, 0);
	else if (value >= INT8_MIN)
		add_head(buf, 0xD0, 1, (uint64_t)value);
	else if (value >= INT16_MIN)
		add_head(buf, 0xD1, 2, (uint64_t)value);
	else if (value >= INT32_MIN)
		add_head(buf, 0xD2, 4, (uint64_t)value);
	else
		add_head(buf, 0xD3, 8, (uint64_t)value);
}

/* Whether a length fits the 32 bits of a count. */
static bool is_countable(struct tfc__buf *buf, size_t len)
{
	if (len > UINT32_MAX)
		buf->is_failed = true;
	return len <= UINT32_MAX;
}

void tfc__msg_bin(struct tfc__buf *buf, const void *data, size_t len)
{
	if (!is_countable(buf, len))
		return;
	add_count(buf, 0, 0, (const uint8_t[]){0xC4, 0xC5, 0xC6}, (uint32_t)len);
	tfc__buf_add(buf, data, len);
}

void tfc__msg_text(struct tfc__buf *buf, const char *text, size_t len)
{
	if (!tfc__msg_is_utf8(text, len)) {
		tfc__msg_bin(buf, text, len);
		return;
	}
	if (!is_countable(buf, len))
		return;
	add_count(buf, 0xA0, 32, (const uint8_t[]){0xD9, 0xDA, 0xDB}, (uint32_t)len);
	tfc__buf_add(buf, text, len);
}

void tfc__msg_str(struct tfc__buf *buf, const char *text)
{
	if (text)
		tfc__msg_text(buf, text, strlen(text));
	else
		tfc__msg_nil(buf);
}

void tfc__msg_put_bool(struct tfc__buf *buf, const char *key, bool value)
{
	tfc__msg_str(buf, key);
	tfc__msg_bool(buf, value);
}

void tfc__msg_put_u64(struct tfc__buf *buf, const char *key, uint64_t value)
{
	tfc__msg_str(buf, key);
	tfc__msg_u64(buf, value);
}

void tfc__msg_put_i64(struct tfc__buf *buf, const char *key, int64_t value)
{
	tfc__msg_str(buf, key);
	tfc__msg_i64(buf, value);
}

void tfc__msg_put_str(struct tfc__buf *buf, const char *key, const char *text)
{
	tfc__msg_str(buf, key);
	tfc__msg_str(buf, text);
}

void tfc__msg_put_bin(struct tfc__buf *buf, const char *key, const void *data, size_t len)
{
	tfc__msg_str(buf, key);
	tfc__msg_bin(buf, data, len);
}

void tfc__msg_error(struct tfc__buf *buf, const tfc_error *error)
{
	tfc__msg_map(buf, 4);
	tfc__msg_put_i64(buf, "code", error->code);
	tfc__msg_put_i64(buf, "errno", error->sys_errno);
	tfc__msg_put_str(buf, "room", error->component ? error->component : "");
	tfc__msg_put_str(buf, "text", error->text);
}

static int append_packed(void *data, const char *bytes, size_t len)
{
	tfc__buf_add(data, bytes, len);
	return 0;
}

void tfc__msg_object(struct tfc__buf *buf, const msgpack_object *object)
{
	msgpack_packer packer;
	msgpack_packer_init(&packer, buf, append_packed);
	if (msgpack_pack_object(&packer, *object) != 0)
		buf->is_failed = true;
}
