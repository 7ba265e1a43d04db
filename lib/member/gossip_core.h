/*
 * Gossip: who is a member and whether it is alive, as a pure function of events.
 *
 *     step(gossip, event, now) -> actions
 *
 * SWIM (Das, Gupta, Motivala, 2002) with the three parts of Lifeguard (Dadgar, Phillips, Currey,
 * 2018), push-pull over streams, and what doc/internals/gossip.md lists as deviations; the same
 * page has the messages to the byte. It knows no descriptor, clock or random source: time comes
 * with the event, chance from a seeded generator in the state. Memory grows with the members, up to
 * member_max. The shipped object and the simulated one are the same.
 *
 * All bytes are plain text: the caller encrypts them, adds this node's id and generation and
 * TFC__GOSSIP_VERSION, and passes only what it has authenticated, with the id and generation of the
 * sender.
 * One thread; no call calls back.
 */
#ifndef TFC_MEMBER_GOSSIP_CORE_H
#define TFC_MEMBER_GOSSIP_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct tfc__gossip;

enum {
	TFC__GOSSIP_VERSION = 1, /* of the messages */
	TFC__GOSSIP_ID_SIZE = 16,
	TFC__GOSSIP_NAME_MAX = 63,
	TFC__GOSSIP_META_MAX = 512,
	TFC__GOSSIP_DATAGRAM_MIN = 700, /* a record with the longest name and metadata fits */
};

struct tfc__gossip_id {
	uint8_t bytes[TFC__GOSSIP_ID_SIZE]; /* hash of the static key */
};

static inline bool tfc__gossip_id_equal(const struct tfc__gossip_id *a,
					const struct tfc__gossip_id *b)
{
	return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

struct tfc__gossip_address {
	uint8_t ip[16]; /* IPv6; an IPv4 address as ::ffff:a.b.c.d */
	uint16_t port;  /* in the host's order */
};

/* An incarnation is generation << 32 | counter. The highest one wins, whatever the state. Both
 * numbers stay below the limit; a message beyond it is malformed. */
#define TFC__GOSSIP_LIMIT UINT32_C(0x7fffffff)
static inline uint32_t tfc__gossip_generation(uint64_t incarnation)
{
	return (uint32_t)(incarnation >> 32);
}

/* A member as this node sees it. Borrowed: valid until the next step. */
struct tfc__gossip_member {
	struct tfc__gossip_id id;
	uint64_t incarnation;
	uint32_t state; /* enum tfc_member_state */
	struct tfc__gossip_address address;
	const char *name; /* up to TFC__GOSSIP_NAME_MAX bytes, without control characters */
	const uint8_t *meta;
	size_t meta_len;      /* up to TFC__GOSSIP_META_MAX */
	uint64_t since;       /* when the state began, in the time of `now` */
	uint64_t received_at; /* when this node last had a response from it; 0: never */
	uint64_t rtt_ns;      /* smoothed round-trip time of pings; 0: not known */
};

/* In each field of time and count 0 is the default. */
struct tfc__gossip_options {
	struct tfc__gossip_id id;
	/* Starts at 1. Higher than in each earlier run of this id, and already on disk. */
	uint32_t generation;
	const char *name;
	struct tfc__gossip_address address; /* where other members reach this one */
	const uint8_t *meta;                /* opaque here */
	size_t meta_len;
	uint64_t seed;         /* unpredictable, and different on each node */
	size_t datagram_max;   /* bytes of plain text; 1,300 */
	size_t stream_max;     /* bytes of one request or response over a stream; 1 MiB */
	uint32_t member_max;   /* 16,384, with this node and those that are down */
	uint64_t interval_ns;  /* between two probes; 0.5 s */
	uint64_t spread_ns;    /* between two rounds of gossip; 0.1 s */
	uint64_t push_pull_ns; /* 30 s */
	uint64_t reclaim_ns;   /* how long a member that is down or left is remembered; 24 h */
	/* A suspicion lasts alpha * log10(members) * interval_ns with confirmations, beta times as
	 * long without; 5 and 6. */
	uint32_t alpha, beta;
};

/* ---- events */

enum tfc__gossip_event_kind {
	TFC__GOSSIP_TICK = 1, /* the time of tfc__gossip_wake_at has come */
	/* The next three have the sender's id and generation: */
	TFC__GOSSIP_DATAGRAM, /* from, bytes, len */
	TFC__GOSSIP_REQUEST,  /* bytes, len: arrived over a stream; respond with REPLY, stream */
	TFC__GOSSIP_RESPONSE, /* bytes, len: response to REQUEST, stream */
	TFC__GOSSIP_STREAM_FAILED, /* no response to REQUEST, stream */
	TFC__GOSSIP_JOIN,          /* addresses, count: push-pull with each of them, once */
	TFC__GOSSIP_LEAVE,         /* announce it; LEFT follows */
	TFC__GOSSIP_SET_META,      /* bytes, len: this node's metadata changed */
	/* Something was received over a connection that `id` has authenticated. */
	TFC__GOSSIP_CONTACT,
	/* A connection to `id` was refused or reset: it is probed at once, by others too. Never
	 * declares it down alone. */
	TFC__GOSSIP_BROKEN,
	TFC__GOSSIP_GENERATION, /* response to DO_GENERATION: generation, already on disk */
};

struct tfc__gossip_event {
	enum tfc__gossip_event_kind kind;
	struct tfc__gossip_address from;
	const uint8_t *bytes;
	size_t len;
	/* REQUEST: the caller's number, in its REPLY. RESPONSE, STREAM_FAILED: that of DO_REQUEST.
	 */
	uint64_t stream;
	const struct tfc__gossip_address *addresses;
	uint32_t count;
	struct tfc__gossip_id id;
	uint32_t generation;
};

/* ---- actions, to be carried out in order */

enum tfc__gossip_action_kind {
	TFC__GOSSIP_DO_SEND = 1, /* a datagram: to, bytes, len */
	/* Open a stream to `to` (or use an open one), send bytes as one request, and report
	 * RESPONSE or STREAM_FAILED with `stream`, in 10 s; after 30 s it counts as failed. id: the
	 * member that is expected there; zeros: any. */
	TFC__GOSSIP_DO_REQUEST,
	TFC__GOSSIP_DO_REPLY,  /* respond to REQUEST `stream`: bytes, len; len 0: close it */
	TFC__GOSSIP_DO_MEMBER, /* member: `changes` of it. Never this node itself */
	/* `member` and `other` are one key at two addresses in one generation, or two keys with one
	 * name. `member` keeps running: its generation is higher (or, when equal, its address or
	 * key). is_self_lost: `other` is this node, which no longer takes part. It resumes by
	 * itself, with a higher generation, when `member` is down or has left. */
	TFC__GOSSIP_DO_CONFLICT,
	/* This id has been seen with `generation`: an earlier state of this node was restored, or
	 * its state was lost. Store a higher generation, then report GENERATION. Until then this
	 * node does not take part, and the action is repeated every few seconds. */
	TFC__GOSSIP_DO_GENERATION,
	TFC__GOSSIP_DO_JOINED,      /* to: a push-pull with this address of JOIN succeeded */
	TFC__GOSSIP_DO_JOIN_FAILED, /* to: it failed, or only this node is there */
	TFC__GOSSIP_DO_LEFT,        /* the leave has been announced */
	/* More than a third of the members, and at least two, became suspect or down within one
	 * suspicion time, or four probes failed in a row (is_cut_off); or no longer so. This node
	 * may be the one that is cut off. Reported only. */
	TFC__GOSSIP_DO_CUT_OFF,
	TFC__GOSSIP_DO_FULL, /* a member was ignored: there are member_max. At most once a minute */
};

enum tfc__gossip_change {
	TFC__GOSSIP_ADDED = 1,
	TFC__GOSSIP_STATE_CHANGED = 2,
	TFC__GOSSIP_META_CHANGED = 4, /* or the name */
	TFC__GOSSIP_ADDRESS_CHANGED = 8,
	TFC__GOSSIP_RESTARTED = 16, /* its generation is higher */
	TFC__GOSSIP_REMOVED = 32,   /* forgotten after reclaim_ns */
};

/* Borrowed until the next step. */
struct tfc__gossip_action {
	enum tfc__gossip_action_kind kind;
	struct tfc__gossip_address to;
	struct tfc__gossip_id id;
	const uint8_t *bytes;
	size_t len;
	uint64_t stream;
	struct tfc__gossip_member member;
	struct tfc__gossip_member other;
	uint32_t changes; /* enum tfc__gossip_change, combined */
	uint32_t generation;
	bool is_self_lost;
	bool is_cut_off;
};

/* ---- the state machine */

/* Makes one with this node as its only member. Returns NULL when out of memory, or when name, meta
 * or generation are outside their limits. The strings are copied. */
struct tfc__gossip *tfc__gossip_new(const struct tfc__gossip_options *options, uint64_t now);
void tfc__gossip_free(struct tfc__gossip *gossip);

/*
 * Handles one event. Returns TFC_OK; TFC_EINVAL for SET_META with more than TFC__GOSSIP_META_MAX
 * bytes; TFC_EPARSE for bytes that are not a message of this protocol, which change nothing; or
 * TFC_ENOMEM: the event was handled as if some of its messages had been lost. `now` is in
 * nanoseconds of a clock that runs while the process is stopped; it never decreases. The caller
 * then reads the actions with tfc__gossip_next until it returns NULL.
 */
int tfc__gossip_step(struct tfc__gossip *gossip, const struct tfc__gossip_event *event,
		     uint64_t now);
const struct tfc__gossip_action *tfc__gossip_next(struct tfc__gossip *gossip);

/* The time at which the gossip needs a TICK. */
uint64_t tfc__gossip_wake_at(const struct tfc__gossip *gossip);

/* ---- queries */

/* Members in no particular order, this node as the first; with those that are down or left. */
uint32_t tfc__gossip_count(const struct tfc__gossip *gossip);
void tfc__gossip_at(const struct tfc__gossip *gossip, uint32_t index,
		    struct tfc__gossip_member *ret_member);
/* Returns false when the member is not known. */
bool tfc__gossip_find(const struct tfc__gossip *gossip, const struct tfc__gossip_id *id,
		      struct tfc__gossip_member *ret_member);

#endif
