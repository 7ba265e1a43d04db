/* Messages: what the scan lets through can be unpacked, and lies inside; nothing else is. */
#include <string.h>

#include "fuzz.h"
#include "wire/msg.h"

#define OBJECTS_MAX 4096

struct walk {
	const uint8_t *data;
	size_t size;
	uint32_t objects;
};

static void check_inside(const struct walk *walk, const char *bytes, uint32_t len)
{
	const uint8_t *at = (const uint8_t *)bytes;
	CHECK(len == 0 || (at >= walk->data && at + len <= walk->data + walk->size));
}

static void check_value(struct walk *walk, const msgpack_object *value, unsigned depth)
{
	CHECK(++walk->objects <= OBJECTS_MAX);
	CHECK(depth <= 32);
	switch (value->type) {
	case MSGPACK_OBJECT_STR:
		check_inside(walk, value->via.str.ptr, value->via.str.size);
		break;
	case MSGPACK_OBJECT_BIN:
		check_inside(walk, value->via.bin.ptr, value->via.bin.size);
		break;
	case MSGPACK_OBJECT_ARRAY:
		for (uint32_t i = 0; i < value->via.array.size; i++)
			check_value(walk, &value->via.array.ptr[i], depth + 1);
		break;
	case MSGPACK_OBJECT_MAP:
		for (uint32_t i = 0; i < value->via.map.size; i++) {
			check_value(walk, &value->via.map.ptr[i].key, depth + 1);
			check_value(walk, &value->via.map.ptr[i].val, depth + 1);
		}
		break;
	default:
		CHECK(value->type != MSGPACK_OBJECT_EXT);
	}
}

/* Every getter takes every value. */
static void read_all(const msgpack_object *value)
{
	char text[16];
	size_t len;
	const msgpack_object *items;
	tfc_error error = TFC_ERROR_INIT;
	tfc__msg_get_u64(value, "a", 1);
	tfc__msg_get_i64(value, "a", 1);
	if (tfc__msg_get_text(value, "a", text, sizeof(text)))
		CHECK(strlen(text) < sizeof(text));
	tfc__msg_get_bin(value, "a", &len);
	CHECK(!tfc__msg_get_array(value, "a", &items) || items);
	int code = tfc__msg_to_error(value, &error);
	CHECK(code < 0 && error.code == code && error.text[0]);
	CHECK(!strpbrk(error.text, "\n\r"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct tfc__msg_limits limits = {.objects = OBJECTS_MAX};
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__msg msg;
	int code = tfc__msg_scan(data, size, &limits, &error);
	CHECK(code == TFC_OK || code == TFC_EPARSE);
	CHECK(tfc__msg_parse(&msg, data, size, &limits, &error) == code);
	if (code < 0) {
		fuzz_check_error(code, &error);
		return 0;
	}
	struct walk walk = {data, size, 0};
	check_value(&walk, &msg.root, 0);
	read_all(&msg.root);
	tfc__msg_fini(&msg);
	return 0;
}
