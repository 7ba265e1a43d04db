#include "member/gossip_message.h"

#include <string.h>
#include <tfcluster/member.h>

/* The fields of a message, in order. */
enum gossip_field {
	FIELD_END,
	FIELD_SEQ,         /* 4 bytes */
	FIELD_ID,          /* 16 */
	FIELD_INCARNATION, /* 8: generation, counter */
	FIELD_STATE,       /* 1 */
	FIELD_ADDRESS,     /* 18: ip, port */
	FIELD_FROM,        /* 16 */
	FIELD_NAME,        /* 1 + length */
	FIELD_META,        /* 2 + length */
	FIELD_HASHES,      /* 8 * TFC__GOSSIP_BUCKETS */
	FIELD_BUCKETS,     /* 8 */
	FIELD_REST,        /* 8 */
};

static const uint8_t gossip_layout[][8] = {
	[TFC__GOSSIP_PING] = {FIELD_SEQ},
	[TFC__GOSSIP_ACK] = {FIELD_SEQ},
	[TFC__GOSSIP_NACK] = {FIELD_SEQ},
	[TFC__GOSSIP_PING_REQ] = {FIELD_SEQ, FIELD_ID, FIELD_ADDRESS},
	[TFC__GOSSIP_RECORD] = {FIELD_ID, FIELD_INCARNATION, FIELD_STATE, FIELD_ADDRESS, FIELD_NAME,
				FIELD_META},
	[TFC__GOSSIP_SUSPECT] = {FIELD_ID, FIELD_INCARNATION, FIELD_FROM},
	[TFC__GOSSIP_DOWN] = {FIELD_ID, FIELD_INCARNATION, FIELD_FROM},
	[TFC__GOSSIP_LEFT] = {FIELD_ID, FIELD_INCARNATION},
	[TFC__GOSSIP_QUERY] = {FIELD_END},
	[TFC__GOSSIP_HASHES] = {FIELD_HASHES},
	[TFC__GOSSIP_RANGE] = {FIELD_BUCKETS, FIELD_REST},
};

enum { GOSSIP_TYPE_COUNT = sizeof(gossip_layout) / sizeof(gossip_layout[0]) };

/* What a field of fixed size takes, or the length in front of one that varies. */
static const uint16_t gossip_field_size[] = {
	[FIELD_SEQ] = 4,     [FIELD_ID] = TFC__GOSSIP_ID_SIZE,
	[FIELD_STATE] = 1,   [FIELD_INCARNATION] = 8,
	[FIELD_NAME] = 1,    [FIELD_ADDRESS] = 18,
	[FIELD_META] = 2,    [FIELD_FROM] = TFC__GOSSIP_ID_SIZE,
	[FIELD_REST] = 8,    [FIELD_HASHES] = 8 * TFC__GOSSIP_BUCKETS,
	[FIELD_BUCKETS] = 8,
};

uint64_t tfc__gossip_read_u64(const uint8_t *from)
{
	uint64_t value = 0;
	for (size_t i = 0; i < 8; i++)
		value = value << 8 | from[i];
	return value;
}

uint8_t *tfc__gossip_write_u64(uint8_t *to, uint64_t value)
{
	for (size_t i = 0; i < 8; i++)
		to[i] = (uint8_t)(value >> (56 - 8 * i));
	return to + 8;
}

static uint32_t gossip_read_u32(const uint8_t *from)
{
	return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
}

static uint8_t *gossip_write_u32(uint8_t *to, uint32_t value)
{
	for (int shift = 24; shift >= 0; shift -= 8)
		*to++ = (uint8_t)(value >> shift);
	return to;
}

static bool gossip_incarnation_is_valid(uint64_t incarnation)
{
	uint32_t generation = tfc__gossip_generation(incarnation);
	return generation >= 1 && generation < TFC__GOSSIP_LIMIT &&
	       (uint32_t)incarnation < TFC__GOSSIP_LIMIT;
}

/* The characters of a node's name. */
static bool gossip_name_is_valid(const uint8_t *name, size_t len)
{
	if (len < 1 || len > TFC__GOSSIP_NAME_MAX)
		return false;
	for (size_t i = 0; i < len; i++) {
		uint8_t c = name[i];
		bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
		if (!is_letter && !(c >= '0' && c <= '9') && c != '.' && c != '_' && c != '-')
			return false;
	}
	return true;
}

bool tfc__gossip_read_header(struct tfc__gossip_reader *reader, uint32_t generation,
			     uint64_t *ret_incarnation)
{
	if (reader->end - reader->at < TFC__GOSSIP_HEADER_SIZE)
		return false;
	*ret_incarnation = (uint64_t)generation << 32 | gossip_read_u32(reader->at);
	reader->at += TFC__GOSSIP_HEADER_SIZE;
	return gossip_incarnation_is_valid(*ret_incarnation);
}

uint8_t *tfc__gossip_write_header(uint8_t *to, uint64_t incarnation)
{
	return gossip_write_u32(to, (uint32_t)incarnation);
}

/* Reads the bytes whose length the field has in front. */
static bool gossip_read_bytes(const uint8_t **at, const uint8_t *end, size_t len_size, size_t max,
			      const uint8_t **ret_bytes, size_t *ret_len)
{
	size_t len = len_size == 1 ? (*at)[0] : (size_t)(*at)[0] << 8 | (*at)[1];
	*at += len_size;
	if (len > max || (size_t)(end - *at) < len)
		return false;
	*ret_bytes = *at;
	*ret_len = len;
	*at += len;
	return true;
}

/* Reads a field of which the fixed part is there. */
static bool gossip_read_field(enum gossip_field field, const uint8_t **at, const uint8_t *end,
			      struct tfc__gossip_message *m)
{
	const uint8_t *from = *at;
	if (field == FIELD_NAME)
		return gossip_read_bytes(at, end, 1, TFC__GOSSIP_NAME_MAX, &m->name,
					 &m->name_len) &&
		       gossip_name_is_valid(m->name, m->name_len);
	if (field == FIELD_META)
		return gossip_read_bytes(at, end, 2, TFC__GOSSIP_META_MAX, &m->meta, &m->meta_len);
	*at += gossip_field_size[field];
	switch (field) {
	case FIELD_SEQ:
		m->seq = gossip_read_u32(from);
		break;
	case FIELD_ID:
		memcpy(m->id.bytes, from, TFC__GOSSIP_ID_SIZE);
		break;
	case FIELD_FROM:
		memcpy(m->from.bytes, from, TFC__GOSSIP_ID_SIZE);
		break;
	case FIELD_INCARNATION:
		m->incarnation = tfc__gossip_read_u64(from);
		return gossip_incarnation_is_valid(m->incarnation);
	case FIELD_STATE:
		m->state = from[0];
		return m->state >= TFC_MEMBER_ALIVE && m->state <= TFC_MEMBER_LEFT;
	case FIELD_ADDRESS:
		memcpy(m->address.ip, from, sizeof(m->address.ip));
		m->address.port = (uint16_t)(from[16] << 8 | from[17]);
		return m->address.port != 0;
	case FIELD_HASHES:
		m->hashes = from;
		break;
	case FIELD_BUCKETS:
		m->buckets = tfc__gossip_read_u64(from);
		break;
	case FIELD_REST:
		m->rest = tfc__gossip_read_u64(from);
		break;
	case FIELD_END:
	case FIELD_NAME:
	case FIELD_META:
		break;
	}
	return true;
}

bool tfc__gossip_read(struct tfc__gossip_reader *reader, struct tfc__gossip_message *ret_message)
{
	const uint8_t *at = reader->at, *end = reader->end;
	if (at == end || *at == 0 || *at >= GOSSIP_TYPE_COUNT)
		return false;
	struct tfc__gossip_message m = {.type = (enum tfc__gossip_type) * at++};
	for (const uint8_t *field = gossip_layout[m.type]; *field; field++)
		if (end - at < gossip_field_size[*field] ||
		    !gossip_read_field((enum gossip_field) * field, &at, end, &m))
			return false;
	reader->at = at;
	*ret_message = m;
	return true;
}

size_t tfc__gossip_message_size(const struct tfc__gossip_message *m)
{
	size_t size = 1;
	for (const uint8_t *field = gossip_layout[m->type]; *field; field++) {
		size += gossip_field_size[*field];
		if (*field == FIELD_NAME)
			size += m->name_len;
		if (*field == FIELD_META)
			size += m->meta_len;
	}
	return size;
}

static uint8_t *gossip_write_field(uint8_t *to, enum gossip_field field,
				   const struct tfc__gossip_message *m)
{
	switch (field) {
	case FIELD_SEQ:
		return gossip_write_u32(to, m->seq);
	case FIELD_ID:
		memcpy(to, m->id.bytes, TFC__GOSSIP_ID_SIZE);
		return to + TFC__GOSSIP_ID_SIZE;
	case FIELD_FROM:
		memcpy(to, m->from.bytes, TFC__GOSSIP_ID_SIZE);
		return to + TFC__GOSSIP_ID_SIZE;
	case FIELD_INCARNATION:
		return tfc__gossip_write_u64(to, m->incarnation);
	case FIELD_STATE:
		*to = (uint8_t)m->state;
		return to + 1;
	case FIELD_ADDRESS:
		memcpy(to, m->address.ip, sizeof(m->address.ip));
		to[16] = (uint8_t)(m->address.port >> 8);
		to[17] = (uint8_t)m->address.port;
		return to + 18;
	case FIELD_NAME:
		*to = (uint8_t)m->name_len;
		memcpy(to + 1, m->name, m->name_len);
		return to + 1 + m->name_len;
	case FIELD_META:
		to[0] = (uint8_t)(m->meta_len >> 8);
		to[1] = (uint8_t)m->meta_len;
		if (m->meta_len)
			memcpy(to + 2, m->meta, m->meta_len);
		return to + 2 + m->meta_len;
	case FIELD_HASHES:
		memcpy(to, m->hashes, 8 * TFC__GOSSIP_BUCKETS);
		return to + 8 * TFC__GOSSIP_BUCKETS;
	case FIELD_BUCKETS:
		return tfc__gossip_write_u64(to, m->buckets);
	case FIELD_REST:
		return tfc__gossip_write_u64(to, m->rest);
	case FIELD_END:
		break;
	}
	return to;
}

uint8_t *tfc__gossip_write(uint8_t *to, const struct tfc__gossip_message *m)
{
	*to++ = (uint8_t)m->type;
	for (const uint8_t *field = gossip_layout[m->type]; *field; field++)
		to = gossip_write_field(to, (enum gossip_field) * field, m);
	return to;
}
