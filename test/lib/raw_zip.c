#include "raw_zip.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"

static void put16(struct tfc__buf *buf, uint32_t value)
{
	const char bytes[2] = {(char)(value & 0xff), (char)(value >> 8 & 0xff)};
	tfc__buf_add(buf, bytes, 2);
}

static void put32(struct tfc__buf *buf, uint32_t value)
{
	put16(buf, value & 0xffff);
	put16(buf, value >> 16);
}

static uint32_t crc32_of(const char *data, size_t len)
{
	uint32_t crc = 0xffffffff;
	for (size_t i = 0; i < len; i++) {
		crc ^= (unsigned char)data[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return ~crc;
}

static size_t data_len(const struct raw_entry *entry)
{
	return entry->data ? strlen(entry->data) : 0;
}

/* What both headers hold, from the flags to the length of the name. */
static void put_common(struct tfc__buf *buf, const struct raw_entry *entry)
{
	uint32_t size = (uint32_t)data_len(entry);
	put16(buf, 0); /* no flags, not compressed */
	put16(buf, 0);
	put32(buf, 0x00210000); /* 1 January 1980 */
	put32(buf, crc32_of(entry->data, size) ^ entry->crc_flip);
	put32(buf, size);
	put32(buf, size);
	put16(buf, (uint32_t)strlen(entry->name));
}

static void put_local(struct tfc__buf *buf, const struct raw_entry *entry)
{
	put32(buf, 0x04034b50);
	put16(buf, 20);
	put_common(buf, entry);
	put16(buf, 0);
	tfc__buf_add_str(buf, entry->name);
	tfc__buf_add(buf, entry->data, data_len(entry));
}

static void put_central(struct tfc__buf *buf, const struct raw_entry *entry, uint32_t offset)
{
	put32(buf, 0x02014b50);
	put16(buf, entry->mode ? 3 << 8 | 20 : 20);
	put16(buf, 20);
	put_common(buf, entry);
	put32(buf, 0); /* no extra field, no comment */
	put32(buf, 0); /* first disk, no internal attributes */
	put32(buf, entry->mode << 16);
	put32(buf, offset);
	tfc__buf_add_str(buf, entry->name);
}

void raw_zip_write(const char *path, const struct raw_entry *entries, size_t count)
{
	struct tfc__buf zip = {0}, central = {0};
	for (size_t i = 0; i < count; i++) {
		uint32_t offset = (uint32_t)zip.len;
		put_local(&zip, &entries[i]);
		put_central(&central, &entries[i], offset);
	}
	uint32_t start = (uint32_t)zip.len;
	tfc__buf_add(&zip, central.data, central.len);
	put32(&zip, 0x06054b50);
	put32(&zip, 0);
	put16(&zip, (uint32_t)count);
	put16(&zip, (uint32_t)count);
	put32(&zip, (uint32_t)central.len);
	put32(&zip, start);
	put16(&zip, 0);
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	assert_int_equal(fwrite(zip.data, 1, zip.len, file), zip.len);
	assert_int_equal(fclose(file), 0);
	tfc__buf_fini(&zip);
	tfc__buf_fini(&central);
}
