/*
 * What the host and its helper tfc-store say to each other, over a socket: both are of one build
 * and one machine, so these are plain structs. A request is a head, the key with its NUL, and the
 * value; a reply is a head, the key or nothing, and the value or a sentence.
 */
#ifndef TFC_STORE_PROTOCOL_H
#define TFC_STORE_PROTOCOL_H

#include <stdint.h>

#define TFC__STORE_PROTOCOL 1

/* The helper's descriptors. */
enum {
	TFC__STORE_SOCKET = 3,
	TFC__STORE_PIDFD = 4, /* of the host */
	TFC__STORE_REST = 5,  /* a memfd: what the host had not sent yet when it closed */
	TFC__STORE_RESERVED = 6,
};

enum tfc__store_request_kind {
	TFC__STORE_GET = 1,
	TFC__STORE_LIST,
	TFC__STORE_PUT,
	TFC__STORE_REMOVE,
};

struct tfc__store_request {
	uint32_t kind;
	uint32_t key_size; /* with the NUL */
	uint64_t len;
	uint64_t version;
};

enum tfc__store_reply_kind {
	TFC__STORE_OPENED = 1, /* the first one: code; version: TFC__STORE_PROTOCOL; the seal key */
	TFC__STORE_VALUE,      /* of a GET, PUT or LIST; code: TFC_EPARSE when it is damaged */
	TFC__STORE_DONE,       /* code, and the sentence when it is below 0 */
};

struct tfc__store_reply {
	uint32_t kind;
	int32_t code;
	uint32_t key_size; /* with the NUL; 0: none */
	uint32_t padding;
	uint64_t len;
	uint64_t version;
};

#endif
