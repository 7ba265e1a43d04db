/*
 * Validates every byte before the data is unpacked: github.com/msgpack/msgpack, spec.md, "Formats".
 */
#include "wire/msg_scan.h"

#include <string.h>

#include "base/utf8.h"
#include "wire/msg.h"

enum {
	DEPTH_DEFAULT = 32,
	DEPTH_MAX = 32, /* msgpack-c's own limit (MSGPACK_EMBED_STACK_SIZE) */
	OBJECTS_DEFAULT = 65536,
};

enum value_kind { REFUSED, SCALAR, STR, BIN, ARRAY, MAP };

/* The head of a value. */
struct head {
	enum value_kind kind;
	uint32_t size;  /* bytes of the head; for a scalar, of the whole value */
	uint32_t count; /* bytes of a string, items of a list, pairs of a map */
};

/* The first bytes 0xc0 to 0xdf. `width`: number of bytes that follow, which are the value of a
 * scalar, otherwise the count. */
static const struct {
	uint8_t kind, width;
} leads[32] = {
	{SCALAR, 0},  {REFUSED, 0}, {SCALAR, 0},  {SCALAR, 0}, {BIN, 1},    {BIN, 2},
	{BIN, 4},     {REFUSED, 0}, {REFUSED, 0}, /* extensions */
	{REFUSED, 0}, {SCALAR, 4},  {SCALAR, 8},  {SCALAR, 1}, {SCALAR, 2}, {SCALAR, 4},
	{SCALAR, 8},  {SCALAR, 1},  {SCALAR, 2},  {SCALAR, 4}, {SCALAR, 8}, {REFUSED, 0},
	{REFUSED, 0}, {REFUSED, 0}, {REFUSED, 0}, /* extensions of fixed size */
	{REFUSED, 0}, {STR, 1},     {STR, 2},     {STR, 4},    {ARRAY, 2},  {ARRAY, 4},
	{MAP, 2},     {MAP, 4},
};

struct scan {
	const uint8_t *at;
	size_t left;
	uint64_t owed;    /* values announced by heads but not yet read */
	uint64_t objects; /* values read */
	uint32_t objects_max;
	uint32_t depth, depth_max;
	uint64_t open[DEPTH_MAX]; /* remaining values of each open list or map */
	tfc_error *error;
};

static int scan_fail(struct scan *scan, const char *why)
{
	tfc__fail(scan->error, TFC_EPARSE, "wire", 0, "invalid message: %s", why);
	return TFC_EPARSE;
}

static int scan_long_head(struct scan *scan, struct head *ret_head)
{
	unsigned lead = scan->at[0] & 0x1F, width = leads[lead].width;
	if (leads[lead].kind == REFUSED)
		return scan_fail(scan, "unsupported type");
	if (scan->left < 1 + width)
		return scan_fail(scan, "truncated");
	*ret_head = (struct head){(enum value_kind)leads[lead].kind, 1 + width, 0};
	for (unsigned i = 1; ret_head->kind != SCALAR && i <= width; i++)
		ret_head->count = ret_head->count << 8 | scan->at[i];
	return TFC_OK;
}

static int scan_head(struct scan *scan, struct head *ret_head)
{
	if (!scan->left)
		return scan_fail(scan, "truncated");
	uint8_t first = scan->at[0];
	if (first < 0x80 || first >= 0xE0)
		*ret_head = (struct head){SCALAR, 1, 0};
	else if (first < 0x90)
		*ret_head = (struct head){MAP, 1, first & 0x0F};
	else if (first < 0xA0)
		*ret_head = (struct head){ARRAY, 1, first & 0x0F};
	else if (first < 0xC0)
		*ret_head = (struct head){STR, 1, first & 0x1F};
	else
		return scan_long_head(scan, ret_head);
	return TFC_OK;
}

bool tfc__msg_is_utf8(const void *data, size_t len)
{
	const char *text = data;
	while (len) {
		uint64_t word;
		if (len >= sizeof(word)) {
			memcpy(&word, text, sizeof(word));
			if (!(word & UINT64_C(0x8080808080808080))) { /* eight bytes of ASCII */
				text += sizeof(word);
				len -= sizeof(word);
				continue;
			}
		}
		size_t n = tfc__utf8_len(text, len);
		if (!n)
			return false;
		text += n;
		len -= n;
	}
	return true;
}

static int scan_string(struct scan *scan, const struct head *head)
{
	if (head->count > scan->left)
		return scan_fail(scan, "string longer than the message");
	if (head->kind == STR && !tfc__msg_is_utf8(scan->at, head->count))
		return scan_fail(scan, "string is not UTF-8");
	scan->at += head->count;
	scan->left -= head->count;
	return TFC_OK;
}

/* Each value needs at least one byte, so a count without enough bytes is detected at once. */
static int scan_list(struct scan *scan, const struct head *head)
{
	uint64_t values = (uint64_t)head->count * (head->kind == MAP ? 2 : 1);
	if (scan->depth == scan->depth_max)
		return scan_fail(scan, "nested too deeply");
	scan->owed += values;
	if (scan->owed > scan->left)
		return scan_fail(scan, "count larger than the message");
	if (scan->objects + scan->owed > scan->objects_max)
		return scan_fail(scan, "too many values");
	scan->open[scan->depth++] = values;
	return TFC_OK;
}

/* Reads one value, or the head of a list or map. */
static int scan_value(struct scan *scan)
{
	struct head head = {0};
	int code = scan_head(scan, &head);
	if (code < 0)
		return code;
	if (scan->objects == scan->objects_max)
		return scan_fail(scan, "too many values");
	scan->at += head.size;
	scan->left -= head.size;
	scan->objects++;
	scan->owed--;
	if (scan->depth)
		scan->open[scan->depth - 1]--;
	switch (head.kind) {
	case STR:
	case BIN:
		return scan_string(scan, &head);
	case ARRAY:
	case MAP:
		return scan_list(scan, &head);
	default:
		return TFC_OK;
	}
}

int tfc__msg_scan_count(const void *data, size_t len, const struct tfc__msg_limits *limits,
			tfc_error *error, uint32_t *ret_objects)
{
	struct scan scan = {.at = data, .left = len, .owed = 1, .error = error};
	scan.objects_max = limits && limits->objects ? limits->objects : OBJECTS_DEFAULT;
	scan.depth_max = limits && limits->depth ? limits->depth : DEPTH_DEFAULT;
	if (scan.depth_max > DEPTH_MAX)
		scan.depth_max = DEPTH_MAX;
	do {
		int code = scan_value(&scan);
		if (code < 0)
			return code;
		while (scan.depth && !scan.open[scan.depth - 1])
			scan.depth--;
	} while (scan.depth);
	if (scan.left)
		return scan_fail(&scan, "trailing bytes");
	*ret_objects = (uint32_t)scan.objects;
	return TFC_OK;
}

int tfc__msg_scan(const void *data, size_t len, const struct tfc__msg_limits *limits,
		  tfc_error *error)
{
	uint32_t objects;
	return tfc__msg_scan_count(data, len, limits, error, &objects);
}
