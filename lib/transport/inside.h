/*
 * The inside of a channel, shared by channel.c (life), handshake.c (until up), and stream.c (bytes
 * of messages).
 */
#ifndef TFC_TRANSPORT_INSIDE_H
#define TFC_TRANSPORT_INSIDE_H

#include "transport/channel.h"
#include "wire/noise.h"
#include "wire/rpc.h"

enum {
	PREAMBLE = 16,
	HEAD = 4,       /* length of a record, highest byte first */
	EARLY_MAX = 128 /* bytes of a record before up */
};

enum channel_state {
	CONNECTING,      /* dialer: the pipe */
	AWAIT_PREAMBLE,  /* acceptor; dialer without Noise */
	AWAIT_HANDSHAKE, /* Noise: a handshake message */
	AWAIT_WELCOME,   /* dialer with Noise: the acceptor's first record, which is empty */
	UP,
	DOWN,
};

struct tfc__channel {
	tfc_ctx *ctx;
	tfc_pipe *pipe;
	struct tfc__channel_options options;
	const struct tfc__channel_ops *ops;
	void *user;
	enum channel_state state;
	bool is_busy;   /* in a callback: memory goes when it is back */
	bool is_closed; /* by the owner */
	struct tfc__work work;
	tfc_error failure; /* told by work, or at the end of the event */

	/* handshake */
	uint8_t early[HEAD + EARLY_MAX];
	size_t early_len;
	uint8_t preamble[PREAMBLE]; /* the dialer's */
	struct tfc__noise *noise;
	const struct tfc__key *key;
	uint8_t remote[TFC__NOISE_KEY];

	/* messages that come */
	struct tfc__noise_cipher receiving;
	struct tfc__buf in;
	size_t in_at;
	struct tfc__buf partial; /* a message of which not all records have come */
	bool is_unheard;         /* more may have come, while the other end did not read */
	size_t left;             /* plain: bytes that a long message still lacks */
	size_t come;             /* bytes of the message that is coming */
	uint8_t begin[24];       /* the first of them, while it is refused */
	tfc_error refusal;       /* code not 0: there is no room for it, it is read into nowhere */

	/* messages that go */
	struct tfc__noise_cipher sending;
	struct tfc__link queue;
	size_t queued;       /* bytes in it that were not made ready yet */
	size_t held;         /* bytes in it: a message is freed when the last of it was */
	struct tfc__buf out; /* as they go over the pipe */
	size_t out_at;
	bool is_full; /* `room` is owed */

	struct tfc__quota_share *share; /* NULL: no client of a node, or down */
};

/* Fills channel->failure when none was before; returns its code. */
int tfc__channel_fail(struct tfc__channel *channel, int code, const char *format, ...)
	TFC_PRINTF(3, 4);

/* ---- handshake.c: TFC_OK or the code of channel->failure */

int tfc__handshake_begin(struct tfc__channel *channel); /* connected */
int tfc__handshake_read(struct tfc__channel *channel);  /* until up, or nothing is left to read */

/* ---- stream.c */

/* Reads and hands on what has come. */
int tfc__stream_read(struct tfc__channel *channel);
/* Writes what waits, as far as there is room. */
int tfc__stream_write(struct tfc__channel *channel);
/* Counts the bytes that it holds, in both directions. */
void tfc__stream_account(struct tfc__channel *channel);
/* Whether so much waits to be sent that no stream adds to it. */
bool tfc__stream_is_full(const struct tfc__channel *channel);
/* The head of a record. */
static inline void put_length(uint8_t head[HEAD], size_t len)
{
	head[0] = (uint8_t)(len >> 24);
	head[1] = (uint8_t)(len >> 16);
	head[2] = (uint8_t)(len >> 8);
	head[3] = (uint8_t)len;
}

static inline size_t read_length(const uint8_t head[HEAD])
{
	return (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
}

/* Bytes that go as they are (handshake). */
int tfc__stream_put(struct tfc__channel *channel, const void *data, size_t len);
void tfc__stream_queue(struct tfc__channel *channel, struct tfc__buf *message);
void tfc__stream_fini(struct tfc__channel *channel);

#endif
