/*
 * The messages of gossip, read and written by one table (gossip_message.c). A frame is what one
 * datagram, request or response holds: a header, then messages up to its end. The header is the
 * counter of the sender's incarnation; the sender's id and generation are authenticated with the
 * frame, outside of it. Numbers are big-endian. doc/internals/gossip.md has the layout.
 */
#ifndef TFC_MEMBER_GOSSIP_MESSAGE_H
#define TFC_MEMBER_GOSSIP_MESSAGE_H

#include "member/gossip_core.h"

enum {
	TFC__GOSSIP_BUCKETS = 64,
	TFC__GOSSIP_HEADER_SIZE = 4,
};

/* The numbers are those on the wire. */
enum tfc__gossip_type {
	TFC__GOSSIP_PING = 1,
	TFC__GOSSIP_ACK = 2,
	TFC__GOSSIP_NACK = 3,
	TFC__GOSSIP_PING_REQ = 4, /* ping this member for me */
	TFC__GOSSIP_RECORD = 5,   /* all about a member */
	TFC__GOSSIP_SUSPECT = 6,
	TFC__GOSSIP_DOWN = 7,
	TFC__GOSSIP_LEFT = 8,
	TFC__GOSSIP_QUERY = 9,   /* send me your record */
	TFC__GOSSIP_HASHES = 10, /* one hash for each bucket of members: respond with RANGE */
	TFC__GOSSIP_RANGE = 11,  /* the records that follow are all that I have of these buckets */
};

struct tfc__gossip_message {
	enum tfc__gossip_type type;
	uint32_t seq;
	struct tfc__gossip_id id;
	uint64_t incarnation;
	uint32_t state; /* enum tfc_member_state */
	struct tfc__gossip_address address;
	struct tfc__gossip_id from; /* who suspects it, or has declared it down */
	const uint8_t *name;        /* not NUL-terminated */
	size_t name_len;
	const uint8_t *meta;
	size_t meta_len;
	const uint8_t *hashes; /* TFC__GOSSIP_BUCKETS numbers of 8 bytes */
	uint64_t buckets;      /* a bit for each */
	uint64_t rest;         /* buckets that differ, too, and did not fit */
};

/* A frame that is read. */
struct tfc__gossip_reader {
	const uint8_t *at;
	const uint8_t *end;
};

/* Reads the header of a sender of this generation. Returns false when it is malformed. */
bool tfc__gossip_read_header(struct tfc__gossip_reader *reader, uint32_t generation,
			     uint64_t *ret_incarnation);
/* Reads the next message; its pointers are into the frame. Returns false at the end, and when the
 * message is malformed: then reader->at is not reader->end. */
bool tfc__gossip_read(struct tfc__gossip_reader *reader, struct tfc__gossip_message *ret_message);

/* Write to `to`, which has room; return the end of what was written. */
uint8_t *tfc__gossip_write_header(uint8_t *to, uint64_t incarnation);
uint8_t *tfc__gossip_write(uint8_t *to, const struct tfc__gossip_message *message);
size_t tfc__gossip_message_size(const struct tfc__gossip_message *message);

uint8_t *tfc__gossip_write_u64(uint8_t *to, uint64_t value);
uint64_t tfc__gossip_read_u64(const uint8_t *from);

#endif
