#include "wire/msg.h"

#include <stdlib.h>
#include <string.h>

#include "wire/msg_scan.h"

/* The scan yields the tree's size, so the tree is one allocation, including alignment. */
int tfc__msg_parse(struct tfc__msg *msg, const void *data, size_t len,
		   const struct tfc__msg_limits *limits, tfc_error *error)
{
	uint32_t objects;
	size_t offset = 0;
	int code = tfc__msg_scan_count(data, len, limits, error, &objects);
	if (code < 0)
		return code;
	if (!msgpack_zone_init(&msg->zone, objects * sizeof(msgpack_object) + 64))
		return tfc__fail_nomem(error, "wire");
	switch (msgpack_unpack(data, len, &offset, &msg->zone, &msg->root)) {
	case MSGPACK_UNPACK_SUCCESS:
		return TFC_OK;
	case MSGPACK_UNPACK_NOMEM_ERROR:
		code = tfc__fail_nomem(error, "wire");
		break;
	default: /* the scan accepts well-formed data only */
		code = tfc__fail(error, TFC_EPARSE, "wire", 0, "invalid message");
	}
	msgpack_zone_destroy(&msg->zone);
	return code;
}

void tfc__msg_fini(struct tfc__msg *msg)
{
	msgpack_zone_destroy(&msg->zone);
}

const msgpack_object *tfc__msg_get(const msgpack_object *map, const char *key)
{
	size_t len = strlen(key);
	if (!map || map->type != MSGPACK_OBJECT_MAP)
		return NULL;
	for (uint32_t i = 0; i < map->via.map.size; i++) {
		const msgpack_object_kv *pair = &map->via.map.ptr[i];
		if (pair->key.type == MSGPACK_OBJECT_STR && pair->key.via.str.size == len &&
		    memcmp(pair->key.via.str.ptr, key, len) == 0)
			return &pair->val;
	}
	return NULL;
}

uint64_t tfc__msg_get_u64(const msgpack_object *map, const char *key, uint64_t otherwise)
{
	const msgpack_object *value = tfc__msg_get(map, key);
	return value && value->type == MSGPACK_OBJECT_POSITIVE_INTEGER ? value->via.u64 : otherwise;
}

int64_t tfc__msg_get_i64(const msgpack_object *map, const char *key, int64_t otherwise)
{
	const msgpack_object *value = tfc__msg_get(map, key);
	if (value && value->type == MSGPACK_OBJECT_NEGATIVE_INTEGER)
		return value->via.i64;
	uint64_t number = tfc__msg_get_u64(map, key, UINT64_MAX);
	return number <= INT64_MAX ? (int64_t)number : otherwise;
}

/* msgpack-c has a NULL pointer for empty data; return a valid one. */
const void *tfc__msg_bytes(const msgpack_object *value, size_t *ret_len)
{
	if (!value || (value->type != MSGPACK_OBJECT_STR && value->type != MSGPACK_OBJECT_BIN))
		return NULL;
	bool is_str = value->type == MSGPACK_OBJECT_STR;
	*ret_len = is_str ? value->via.str.size : value->via.bin.size;
	if (!*ret_len)
		return "";
	return is_str ? value->via.str.ptr : value->via.bin.ptr;
}

const void *tfc__msg_get_bin(const msgpack_object *map, const char *key, size_t *ret_len)
{
	return tfc__msg_bytes(tfc__msg_get(map, key), ret_len);
}

bool tfc__msg_get_text(const msgpack_object *map, const char *key, char *text, size_t size)
{
	size_t len;
	const char *from = tfc__msg_get_bin(map, key, &len);
	text[0] = '\0';
	if (!from || len >= size || memchr(from, '\0', len))
		return false;
	memcpy(text, from, len);
	text[len] = '\0';
	return true;
}

uint32_t tfc__msg_get_array(const msgpack_object *map, const char *key,
			    const msgpack_object **ret_items)
{
	const msgpack_object *value = tfc__msg_get(map, key);
	bool is_array = value && value->type == MSGPACK_OBJECT_ARRAY;
	*ret_items = is_array ? value->via.array.ptr : NULL;
	return is_array ? value->via.array.size : 0;
}

/* tfc_error.component is a static string: a known component or a common name for all others. */
static const char *known_component(const char *name)
{
	static const char *const components[] = {"ctx",   "spec",   "job",       "port",    "proc",
						 "agent", "wire",   "transport", "member",  "store",
						 "node",  "bundle", "cluster",   "gateway", "log"};
	for (size_t i = 0; i < sizeof(components) / sizeof(components[0]); i++)
		if (strcmp(components[i], name) == 0)
			return components[i];
	return "remote";
}

int tfc__msg_to_error(const msgpack_object *object, tfc_error *error)
{
	char component[16], text[sizeof(error->text)];
	int64_t code = tfc__msg_get_i64(object, "code", 0);
	int64_t sys_errno = tfc__msg_get_i64(object, "errno", 0);
	if (code >= 0 || code < INT32_MIN)
		return tfc__fail(error, TFC_EPARSE, "wire", 0,
				 "the peer reported a failure without details");
	tfc__msg_get_text(object, "room", component, sizeof(component));
	if (!tfc__msg_get_text(object, "text", text, sizeof(text)))
		strcpy(text, tfc_err_text((int)code));
	return tfc__fail(error, (int)code, known_component(component),
			 sys_errno > 0 && sys_errno <= INT32_MAX ? (int)sys_errno : 0, "%s", text);
}
