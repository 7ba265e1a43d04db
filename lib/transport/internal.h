/*
 * Shared by the files of this module: the state of a channel and of a peer.
 *
 *   channel.c    a channel from open to close
 *   handshake.c  a channel until it is up
 *   stream.c     messages as bytes
 *   peer.c       one connection: a channel and the calls over it
 *   listener.c   incoming connections
 */
#ifndef TFC_TRANSPORT_INTERNAL_H
#define TFC_TRANSPORT_INTERNAL_H

#include "transport/channel.h"
#include "transport/peer.h"
#include "wire/noise.h"
#include "wire/rpc.h"

/* ==== channels */

enum {
	PREAMBLE = 16,
	HEAD = 4,       /* length of a record, big-endian */
	EARLY_MAX = 128 /* length of a record before `up` */
};

enum channel_state {
	CONNECTING,      /* dialer: the pipe is being connected */
	AWAIT_PREAMBLE,  /* acceptor; dialer without Noise */
	AWAIT_WILL,      /* acceptor: what is behind a preamble with that mode */
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
	bool is_busy;   /* in a callback: memory is freed after it */
	bool is_closed; /* by the owner */
	struct tfc__work work;
	tfc_error failure; /* reported by `work`, or at the end of the event */

	/* handshake */
	uint8_t early[HEAD + EARLY_MAX];
	size_t early_len;
	uint8_t preamble[PREAMBLE]; /* the dialer's */
	struct tfc__noise *noise;
	bool has_key;
	struct tfc__key key; /* without its secret: the keyring may change at any time */
	uint8_t remote[TFC__NOISE_KEY];

	/* receiving */
	struct tfc__noise_cipher receiving;
	struct tfc__buf in;
	size_t in_at;
	struct tfc__buf partial; /* a message of which some records are missing */
	bool has_unread;         /* paused until the other end reads; the pipe may have more */
	size_t left;             /* plain: missing bytes of a long message */
	size_t received;         /* bytes of the current message */
	uint8_t begin[24];       /* its first bytes, if it is refused */
	tfc_error refusal;       /* code not 0: it exceeds the quota; its bytes are dropped */

	/* sending */
	struct tfc__noise_cipher sending;
	struct tfc__link queue;
	size_t queued;       /* bytes in it that are not encoded yet */
	size_t held;         /* bytes in it; a message is freed after its last byte is encoded */
	struct tfc__buf out; /* encoded for the pipe */
	size_t out_at;
	bool is_full; /* `room` must be called later */

	struct tfc__quota_share *share; /* NULL: not a client of a node, or down */
};

/* Sets channel->failure unless it is set already. Returns its code. */
int tfc__channel_fail(struct tfc__channel *channel, int code, const char *format, ...)
	TFC_PRINTF(3, 4);

/* ---- handshake.c: returns TFC_OK or the code of channel->failure */

int tfc__handshake_begin(struct tfc__channel *channel); /* after the pipe has connected */
int tfc__handshake_read(struct tfc__channel *channel);  /* until up, or nothing is left to read */

/* An acceptor reports to the dialer that it refuses it; call it before the connection is closed. */
void tfc__handshake_refuse(struct tfc__channel *channel);

/* ---- stream.c */

/* Reads the pipe and passes on its messages. */
int tfc__stream_read(struct tfc__channel *channel);
/* Writes queued messages, as far as the pipe has room. */
int tfc__stream_write(struct tfc__channel *channel);
/* Counts the bytes that the channel holds, in both directions. */
void tfc__stream_account(struct tfc__channel *channel);
/* Whether so many bytes are queued that no stream may add to them. */
bool tfc__stream_is_full(const struct tfc__channel *channel);
/* The length of a record. */
static inline void write_length(uint8_t head[HEAD], size_t len)
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

/* Writes bytes as they are (handshake). */
int tfc__stream_put(struct tfc__channel *channel, const void *data, size_t len);
void tfc__stream_queue(struct tfc__channel *channel, struct tfc__buf *message);
void tfc__stream_fini(struct tfc__channel *channel);

/* ==== peers */

struct tfc__peer {
	tfc_ctx *ctx;
	struct tfc__channel *channel;    /* NULL: down */
	struct tfc__rpc *rpc;            /* NULL: not up yet, or down */
	const struct tfc__peer_ops *ops; /* NULL: accepted, without an owner yet */
	void *user;
	struct tfc__peer_id id;
	struct tfc__quota_share share;
	bool is_noise;
	bool is_exposed;
	bool is_down;
	bool has_known_will; /* half-open: it has sent one, and it ends for that reason */
	uint32_t timeout_ms;
	struct tfc__timer patience; /* until `up` */
	struct tfc__work checking;
	tfc_error failure;
	struct tfc__keyring *keyring; /* NULL: none */
	struct tfc__key_use key_use;
	char pinned[TFC__NODE_ID_SIZE];
	struct tfc__peer **watch;    /* set to NULL when the peer is closed; or NULL */
	struct tfc__identity *fresh; /* its own identity; NULL: it has a borrowed one */
	char dialed[128];

	struct tfc__peer_listener *listener; /* not NULL: half-open, not authenticated yet */
	struct tfc__link link;               /* in the listener's half_open */
};

struct tfc__peer_listener {
	tfc_ctx *ctx;
	tfc_listener *listener;
	struct tfc__keyring *keyring;
	const struct tfc__identity *identity;
	struct tfc__identity *fresh;
	struct tfc__quota *quota; /* NULL: none */
	bool is_noise;
	bool is_exposed;
	bool is_busy; /* in the owner's callback */
	bool is_closed;
	tfc__accept_fn fn;
	void *user;
	uint32_t *groups;
	uint32_t group_count;
	uint32_t handshake_ms;
	uint32_t half_open_max;
	uint32_t half_open_count;
	struct tfc__link half_open; /* the oldest first */
	tfc__will_fn will;          /* NULL: no will is known */
	void *will_user;

	uint64_t reported_at; /* when the last refusal was logged */
	uint64_t unreported;  /* refusals since then, which were not logged */
};

extern const struct tfc__channel_ops tfc__peer_channel_ops;

struct tfc__peer *tfc__peer_new(tfc_ctx *ctx, uint32_t timeout_ms);
/* Whether connections at that address use Noise. */
int tfc__peer_is_noise(tfc_ctx *ctx, const char *address, const struct tfc__keyring *keyring,
		       tfc_error *error, bool *ret_is_noise);
/* Whether third parties can read the bytes of such a connection. */
bool tfc__peer_is_exposed(const char *address, bool is_noise);
/* Fills in the peer's id. Returns TFC_EACCES if a peer without a key has no permission to
 * connect. */
int tfc__peer_identify(struct tfc__peer *peer, tfc_error *error);

/* ---- listener.c */

void tfc__listener_remove_peer(struct tfc__peer *peer); /* the peer is not half-open any more */
/* A half-open peer is down: logs it and frees it. */
void tfc__listener_lost(struct tfc__peer *peer, const tfc_error *why);
/* A half-open peer has sent a node's last will. Whether it is known. */
bool tfc__listener_receive_will(struct tfc__peer *peer, const uint8_t *message);
/* The peer has authenticated: passes it to the listener's owner, or closes it. */
void tfc__listener_deliver(struct tfc__peer *peer);

#endif
