#include "wire/fields.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"

#define ZONE_BYTES 512 /* bytes of a zone's chunk: enough for most messages */

/* ---- members of a struct, by their size */

static uint64_t field_number(const struct tfc__field *field, const void *at)
{
	switch (field->size) {
	case 1:
		return *(const uint8_t *)at;
	case 2:
		return *(const uint16_t *)at;
	case 4:
		return *(const uint32_t *)at;
	}
	assert(field->size == 8);
	return *(const uint64_t *)at;
}

static int64_t field_signed(const struct tfc__field *field, const void *at)
{
	return field->size == 4 ? *(const int32_t *)at : *(const int64_t *)at;
}

static void field_set_number(const struct tfc__field *field, void *at, uint64_t value)
{
	switch (field->size) {
	case 1:
		*(uint8_t *)at = (uint8_t)value;
		break;
	case 2:
		*(uint16_t *)at = (uint16_t)value;
		break;
	case 4:
		*(uint32_t *)at = (uint32_t)value;
		break;
	default:
		*(uint64_t *)at = value;
	}
}

static const void *field_pointer(const void *at)
{
	return *(const void *const *)at;
}

/* The number of bytes (BYTES) or items (MESSAGES). */
static uint64_t field_count(const struct tfc__field *field, const void *message)
{
	const void *at = (const char *)message + field->count;
	return field->type == TFC__BYTES ? *(const uint64_t *)at : *(const uint32_t *)at;
}

static void field_set_count(const struct tfc__field *field, void *message, uint64_t count)
{
	void *at = (char *)message + field->count;
	if (field->type == TFC__BYTES)
		*(uint64_t *)at = count;
	else
		*(uint32_t *)at = (uint32_t)count;
}

static uint32_t field_count_lines(const char *const *lines)
{
	uint32_t count = 0;
	while (lines && lines[count])
		count++;
	return count;
}

static bool field_is_set(const struct tfc__fields *table, const struct tfc__field *field,
			 const void *message)
{
	static const uint8_t zeros[128];
	const char *at = (const char *)message + field->offset;
	switch (field->type) {
	case TFC__TEXT:
		return *at;
	case TFC__STRING:
		return field_pointer(at) && *(const char *)field_pointer(at);
	case TFC__LINES:
		return field_count_lines(field_pointer(at)) != 0;
	case TFC__BYTES:
	case TFC__MESSAGES:
		return field_pointer(at) && field_count(field, message) != 0;
	case TFC__MESSAGE:
	case TFC__CUSTOM:
		return field_pointer(at);
	case TFC__GROUP:
		return tfc__fields_pairs(field->nested, message) != 0;
	default:
		break;
	}
	assert(field->size <= sizeof(zeros));
	const void *initial = table->initial ? (const char *)table->initial + field->offset
					     : (const char *)zeros;
	return memcmp(at, initial, field->size) != 0;
}

/* ---- writing */

/* Converts a time of CLOCK_REALTIME to CLOCK_BOOTTIME; a time before boot becomes 0. */
static uint64_t boot_time_from_wall(uint64_t wall_ns)
{
	uint64_t ago = tfc__wall() - wall_ns, now = tfc__boot_time();
	return ago < now ? now - ago : now; /* the wall clock may have been set back */
}

static void field_write(struct tfc__buf *buf, const struct tfc__field *field, const void *message)
{
	const void *at = (const char *)message + field->offset;
	uint32_t count;
	switch (field->type) {
	case TFC__BOOL:
		tfc__msg_bool(buf, field_number(field, at) != 0);
		break;
	case TFC__UINT:
		tfc__msg_u64(buf, field_number(field, at));
		break;
	case TFC__INT:
		tfc__msg_i64(buf, field_signed(field, at));
		break;
	case TFC__TIME:
		tfc__msg_u64(buf, boot_time_from_wall(field_number(field, at)));
		break;
	case TFC__TEXT:
		tfc__msg_str(buf, at);
		break;
	case TFC__STRING:
		tfc__msg_str(buf, field_pointer(at));
		break;
	case TFC__LINES:
		count = field_count_lines(field_pointer(at));
		tfc__msg_array(buf, count);
		for (uint32_t i = 0; i < count; i++)
			tfc__msg_str(buf, ((const char *const *)field_pointer(at))[i]);
		break;
	case TFC__BYTES:
		tfc__msg_bin(buf, field_pointer(at), (size_t)field_count(field, message));
		break;
	case TFC__DIGEST:
		tfc__msg_bin(buf, at, field->size);
		break;
	case TFC__MESSAGE:
		tfc__fields_write(buf, field->nested, field_pointer(at));
		break;
	case TFC__GROUP:
		tfc__fields_write(buf, field->nested, message);
		break;
	case TFC__MESSAGES:
		count = (uint32_t)field_count(field, message);
		tfc__msg_array(buf, count);
		for (uint32_t i = 0; i < count; i++)
			tfc__fields_write(buf, field->nested,
					  (const char *)field_pointer(at) +
						  i * field->nested->size);
		break;
	case TFC__CUSTOM:
		field->custom->write(buf, field_pointer(at));
		break;
	}
}

uint32_t tfc__fields_pairs(const struct tfc__fields *table, const void *message)
{
	uint32_t pairs = 0;
	for (uint32_t i = 0; i < table->count; i++)
		pairs += table->fields[i].name && field_is_set(table, &table->fields[i], message);
	return pairs;
}

void tfc__fields_put(struct tfc__buf *buf, const struct tfc__fields *table, const void *message)
{
	for (uint32_t i = 0; i < table->count; i++) {
		const struct tfc__field *field = &table->fields[i];
		if (!field->name || !field_is_set(table, field, message))
			continue;
		tfc__msg_str(buf, field->name);
		field_write(buf, field, message);
	}
}

void tfc__fields_write(struct tfc__buf *buf, const struct tfc__fields *table, const void *message)
{
	tfc__msg_map(buf, tfc__fields_pairs(table, message));
	tfc__fields_put(buf, table, message);
}

/* ---- reading */

static int field_fail(const struct tfc__field *field, tfc_error *error, const char *why)
{
	return tfc__fail(error, TFC_EPARSE, "wire", 0, "%s: %s", field->name, why);
}

static void *reader_allocate(struct tfc__reader *reader, size_t size)
{
	if (!reader->has_zone)
		reader->has_zone = msgpack_zone_init(&reader->zone, ZONE_BYTES);
	return reader->has_zone ? msgpack_zone_malloc(&reader->zone, size) : NULL;
}

static int field_read_number(const struct tfc__field *field, const msgpack_object *object,
			     tfc_error *error, void *at)
{
	uint64_t max = field->size == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * field->size) - 1;
	if (object->type != MSGPACK_OBJECT_POSITIVE_INTEGER || object->via.u64 > max)
		return tfc__fail(error, TFC_EPARSE, "wire", 0,
				 "%s: must be a number from 0 to %llu", field->name,
				 (unsigned long long)max);
	field_set_number(field, at, object->via.u64);
	return TFC_OK;
}

static int field_read_signed(const struct tfc__field *field, const msgpack_object *object,
			     tfc_error *error, void *at)
{
	int64_t value = object->via.i64;
	bool is_number = object->type == MSGPACK_OBJECT_NEGATIVE_INTEGER ||
			 (object->type == MSGPACK_OBJECT_POSITIVE_INTEGER &&
			  object->via.u64 <= INT64_MAX);
	if (!is_number || (field->size == 4 && (value < INT32_MIN || value > INT32_MAX)))
		return tfc__fail(error, TFC_EPARSE, "wire", 0,
				 "%s: must be a whole number of %u bits", field->name,
				 8 * field->size);
	if (field->size == 4)
		*(int32_t *)at = (int32_t)value;
	else
		*(int64_t *)at = value;
	return TFC_OK;
}

static int field_read_bool(const struct tfc__field *field, const msgpack_object *object,
			   tfc_error *error, void *at)
{
	if (object->type == MSGPACK_OBJECT_POSITIVE_INTEGER)
		field_set_number(field, at, object->via.u64 != 0);
	else if (object->type == MSGPACK_OBJECT_BOOLEAN)
		field_set_number(field, at, object->via.boolean);
	else
		return field_fail(field, error, "must be true or false");
	return TFC_OK;
}

/* The number of items, or -1 and an error if the value is not a list or is too long. */
static int64_t field_read_count(const struct tfc__field *field, const msgpack_object *object,
				tfc_error *error)
{
	bool is_list = object->type == MSGPACK_OBJECT_ARRAY;
	if (is_list && (!field->max || object->via.array.size <= field->max))
		return object->via.array.size;
	if (field->max)
		tfc__fail(error, TFC_EPARSE, "wire", 0, "%s: must be a list of at most %u items",
			  field->name, field->max);
	else
		field_fail(field, error, "must be a list");
	return -1;
}

/* Copies a string into the zone and appends a NUL. */
static int field_read_string(struct tfc__reader *reader, const struct tfc__field *field,
			     const msgpack_object *object, tfc_error *error, const char **ret_text)
{
	size_t len;
	const char *bytes = tfc__msg_bytes(object, &len);
	if (!bytes || memchr(bytes, '\0', len))
		return field_fail(field, error, "must be text without a NUL");
	if (field->max && len > field->max)
		return tfc__fail(error, TFC_EPARSE, "wire", 0, "%s: is longer than %u bytes",
				 field->name, field->max);
	char *text = reader_allocate(reader, len + 1);
	if (!text)
		return tfc__fail_nomem(error, "wire");
	memcpy(text, bytes, len);
	text[len] = '\0';
	*ret_text = text;
	return TFC_OK;
}

static int field_read_text(const struct tfc__field *field, const msgpack_object *object,
			   tfc_error *error, char *text)
{
	size_t len;
	const char *bytes = tfc__msg_bytes(object, &len);
	if (!bytes || memchr(bytes, '\0', len) || len >= field->size)
		return tfc__fail(error, TFC_EPARSE, "wire", 0,
				 "%s: must be text of at most %u bytes without a NUL", field->name,
				 field->size - 1);
	memcpy(text, bytes, len);
	text[len] = '\0';
	return TFC_OK;
}

/* Lines may be a program's output and contain any bytes. */
static int field_read_lines(struct tfc__reader *reader, const struct tfc__field *field,
			    const msgpack_object *object, tfc_error *error,
			    const char *const **ret_lines)
{
	int64_t count = field_read_count(field, object, error);
	if (count < 0)
		return TFC_EPARSE;
	const char **lines = reader_allocate(reader, ((size_t)count + 1) * sizeof(*lines));
	if (!lines)
		return tfc__fail_nomem(error, "wire");
	for (int64_t i = 0; i < count; i++) {
		size_t len;
		const char *bytes = tfc__msg_bytes(&object->via.array.ptr[i], &len);
		if (!bytes)
			return field_fail(field, error, "must be a list of texts");
		len = strnlen(bytes, len);
		char *line = reader_allocate(reader, len + 1);
		if (!line)
			return tfc__fail_nomem(error, "wire");
		memcpy(line, bytes, len);
		line[len] = '\0';
		lines[i] = line;
	}
	lines[count] = NULL;
	*ret_lines = lines;
	return TFC_OK;
}

static int field_read_messages(struct tfc__reader *reader, const struct tfc__field *field,
			       const msgpack_object *objects, uint32_t count, tfc_error *error,
			       void **at)
{
	char *messages = reader_allocate(reader, (count ? count : (size_t)1) * field->nested->size);
	if (!messages)
		return tfc__fail_nomem(error, "wire");
	for (uint32_t i = 0; i < count; i++) {
		char *message = messages + i * field->nested->size;
		if (objects[i].type != MSGPACK_OBJECT_MAP)
			return field_fail(field, error, "must be a map");
		if (field->nested->initial)
			memcpy(message, field->nested->initial, field->nested->size);
		else
			memset(message, 0, field->nested->size);
		int code = tfc__fields_read(reader, field->nested, &objects[i], error, message);
		if (code < 0)
			return tfc__fail_prefix(error, code, "%s.", field->name);
	}
	*at = messages;
	return TFC_OK;
}

/* Converts a time to this machine's CLOCK_REALTIME; a time in the future becomes now. */
static int field_read_time(const struct tfc__reader *reader, const struct tfc__field *field,
			   const msgpack_object *object, tfc_error *error, uint64_t *ret_time)
{
	uint64_t boot_time = 0, now = tfc__wall();
	int code = field_read_number(field, object, error, &boot_time);
	if (code < 0)
		return code;
	int64_t ago = (int64_t)(tfc__boot_time() - boot_time - (uint64_t)reader->ahead_ns);
	*ret_time = ago > 0 && (uint64_t)ago < now ? now - (uint64_t)ago : now;
	return TFC_OK;
}

static int field_read(struct tfc__reader *reader, const struct tfc__field *field,
		      const msgpack_object *object, tfc_error *error, void *message)
{
	void *at = (char *)message + field->offset;
	const void *bytes;
	size_t len = 0;
	int64_t count;
	int code;
	switch (field->type) {
	case TFC__BOOL:
		return field_read_bool(field, object, error, at);
	case TFC__UINT:
		return field_read_number(field, object, error, at);
	case TFC__INT:
		return field_read_signed(field, object, error, at);
	case TFC__TIME:
		return field_read_time(reader, field, object, error, at);
	case TFC__TEXT:
		return field_read_text(field, object, error, at);
	case TFC__STRING:
		return field_read_string(reader, field, object, error, at);
	case TFC__LINES:
		return field_read_lines(reader, field, object, error, at);
	case TFC__BYTES:
		if (!(bytes = tfc__msg_bytes(object, &len)))
			return field_fail(field, error, "must be bytes");
		*(const void **)at = bytes;
		field_set_count(field, message, len);
		return TFC_OK;
	case TFC__DIGEST:
		bytes = tfc__msg_bytes(object, &len);
		if (!bytes || len != field->size)
			return tfc__fail(error, TFC_EPARSE, "wire", 0, "%s: must have %u bytes",
					 field->name, field->size);
		memcpy(at, bytes, len);
		return TFC_OK;
	case TFC__MESSAGE:
		return field_read_messages(reader, field, object, 1, error, at);
	case TFC__GROUP:
		if (object->type != MSGPACK_OBJECT_MAP)
			return field_fail(field, error, "must be a map");
		code = tfc__fields_read(reader, field->nested, object, error, message);
		return code < 0 ? tfc__fail_prefix(error, code, "%s.", field->name) : code;
	case TFC__MESSAGES:
		if ((count = field_read_count(field, object, error)) < 0)
			return TFC_EPARSE;
		code = field_read_messages(reader, field, object->via.array.ptr, (uint32_t)count,
					   error, at);
		if (code == TFC_OK)
			field_set_count(field, message, (uint64_t)count);
		return code;
	case TFC__CUSTOM:
		break;
	}
	code = field->custom->read(object, error, at);
	return code < 0 ? tfc__fail_prefix(error, code, "%s: ", field->name) : code;
}

static void fields_set_initial(const struct tfc__fields *table, void *message)
{
	for (uint32_t i = 0; i < table->count; i++) {
		const struct tfc__field *field = &table->fields[i];
		char *at = (char *)message + field->offset;
		if (field->type == TFC__GROUP)
			fields_set_initial(field->nested, message);
		else if (table->initial)
			memcpy(at, (const char *)table->initial + field->offset, field->size);
		else
			memset(at, 0, field->size);
		if (field->type == TFC__BYTES || field->type == TFC__MESSAGES)
			field_set_count(field, message, 0);
	}
}

/* Writers use the order of the table; the search therefore starts after the last field found. */
static const struct tfc__field *find_field(const struct tfc__fields *table, uint32_t *last,
					   const msgpack_object *key)
{
	if (key->type != MSGPACK_OBJECT_STR)
		return NULL;
	for (uint32_t i = 0; i < table->count; i++) {
		uint32_t at = (*last + 1 + i) % table->count;
		const char *name = table->fields[at].name;
		if (name && strlen(name) == key->via.str.size &&
		    memcmp(name, key->via.str.ptr, key->via.str.size) == 0) {
			*last = at;
			return &table->fields[at];
		}
	}
	return NULL;
}

int tfc__fields_read(struct tfc__reader *reader, const struct tfc__fields *table,
		     const msgpack_object *map, tfc_error *error, void *ret_message)
{
	uint32_t last = table->count - 1;
	fields_set_initial(table, ret_message);
	if (!map || map->type != MSGPACK_OBJECT_MAP)
		return tfc__fail(error, TFC_EPARSE, "wire", 0, "must be a map");
	for (uint32_t i = 0; i < map->via.map.size; i++) {
		const msgpack_object_kv *pair = &map->via.map.ptr[i];
		const struct tfc__field *field = find_field(table, &last, &pair->key);
		if (!field || pair->val.type == MSGPACK_OBJECT_NIL)
			continue;
		int code = field_read(reader, field, &pair->val, error, ret_message);
		if (code < 0)
			return code;
	}
	return TFC_OK;
}

int tfc__params_read(struct tfc__reader *reader, const struct tfc__fields *table,
		     const msgpack_object *params, tfc_error *error, void *ret_message)
{
	static const msgpack_object nothing = {.type = MSGPACK_OBJECT_MAP};
	bool is_map = params && params->type == MSGPACK_OBJECT_MAP;
	int code = tfc__fields_read(reader, table, is_map ? params : &nothing, error, ret_message);
	if (code != TFC_EPARSE)
		return code;
	if (error)
		error->code = TFC_EINVAL;
	return TFC_EINVAL;
}

void tfc__reader_clear(struct tfc__reader *reader)
{
	if (reader->has_zone)
		msgpack_zone_clear(&reader->zone);
}

void tfc__reader_fini(struct tfc__reader *reader)
{
	if (reader->has_zone)
		msgpack_zone_destroy(&reader->zone);
	reader->has_zone = false;
}

/* ---- JSON */

void tfc__fields_json_object(struct tfc__json_writer *json, const struct tfc__fields *table,
			     const void *message, uint32_t variant)
{
	if (table->variant_of)
		variant |= table->variant_of(message);
	tfc__json_begin(json, '{');
	tfc__fields_json(json, table, message, variant);
	tfc__json_end(json, '}');
}

void tfc__fields_json_value(struct tfc__json_writer *json, const struct tfc__field *field,
			    const void *message, uint32_t variant)
{
	const void *at = (const char *)message + field->offset;
	uint64_t count;
	if (field->show) {
		field->show(json, field, message);
		return;
	}
	switch (field->type) {
	case TFC__BOOL:
		tfc__json_bool(json, field_number(field, at));
		break;
	case TFC__UINT:
	case TFC__TIME:
		if (field->word)
			tfc__json_text(json, field->word((uint32_t)field_number(field, at)));
		else
			tfc__json_uint(json, field_number(field, at));
		break;
	case TFC__INT:
		if (field->word)
			tfc__json_text(json, field->word((uint32_t)field_signed(field, at)));
		else
			tfc__json_int(json, field_signed(field, at));
		break;
	case TFC__TEXT:
		tfc__json_text(json, at);
		break;
	case TFC__STRING:
		tfc__json_text(json, field_pointer(at));
		break;
	case TFC__LINES:
		tfc__json_begin(json, '[');
		count = field_count_lines(field_pointer(at));
		for (uint64_t i = 0; i < count; i++)
			tfc__json_text(json, ((const char *const *)field_pointer(at))[i]);
		tfc__json_end(json, ']');
		break;
	case TFC__MESSAGE:
		tfc__fields_json_object(json, field->nested, field_pointer(at), variant);
		break;
	case TFC__MESSAGES:
		tfc__json_begin(json, '[');
		count = field_pointer(at) ? field_count(field, message) : 0;
		for (uint64_t i = 0; i < count; i++)
			tfc__fields_json_object(json, field->nested,
						(const char *)field_pointer(at) +
							i * field->nested->size,
						variant);
		tfc__json_end(json, ']');
		break;
	default:
		assert(field->type == TFC__BYTES);
		tfc__json_bytes(json, field_pointer(at), (size_t)field_count(field, message));
	}
}

void tfc__fields_json(struct tfc__json_writer *json, const struct tfc__fields *table,
		      const void *message, uint32_t variant)
{
	for (uint32_t i = 0; i < table->count; i++) {
		const struct tfc__field *field = &table->fields[i];
		bool is_shown = field->shown & variant || (field->shown_if_set & variant &&
							   field_is_set(table, field, message));
		if (!field->json || !is_shown)
			continue;
		tfc__json_name(json, field->json);
		tfc__fields_json_value(json, field, message, variant);
	}
}
