/*
 * The protocol between the host and its helper tfc-store, over a socket. Both are of the same build
 * and run on the same machine, so the messages are plain structs. A request is a head, the key with
 * its NUL, and the value. A reply is a head, an optional key, and the value or an error message.
 */
#ifndef TFC_STORE_PROTOCOL_H
#define TFC_STORE_PROTOCOL_H

#include <stdint.h>

#define TFC__STORE_PROTOCOL 1

/* The helper's descriptors. */
enum {
	TFC__STORE_SOCKET = 3,
	TFC__STORE_PIDFD = 4,  /* pidfd of the host */
	TFC__STORE_UNSENT = 5, /* a memfd: the requests that were unsent when the host closed */
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
	uint32_t key_size; /* including the NUL */
	uint64_t len;
	uint64_t version;
};

enum tfc__store_reply_kind {
	TFC__STORE_OPENED = 1, /* first reply: code; version: TFC__STORE_PROTOCOL; the seal key */
	TFC__STORE_VALUE,      /* for GET, PUT and LIST; code: TFC_EPARSE if the value is damaged */
	TFC__STORE_DONE,       /* last reply: code, and the error message if code is below 0 */
};

struct tfc__store_reply {
	uint32_t kind;
	int32_t code;
	uint32_t key_size; /* including the NUL; 0: no key */
	uint32_t padding;
	uint64_t len;
	uint64_t version;
};

#endif
