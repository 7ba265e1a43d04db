/* The state of gossip, and what its files call of each other. gossip_core.h is its face. */
#ifndef TFC_MEMBER_GOSSIP_STATE_H
#define TFC_MEMBER_GOSSIP_STATE_H

#include <string.h>

#include "base/buf.h"
#include "base/list.h"
#include "member/gossip_message.h"

enum {
	GOSSIP_RELAYS = 64,        /* pings on behalf of others that wait for an ack */
	GOSSIP_PROBES = 8,         /* probe 0 is the periodic one; the others begin with BROKEN */
	GOSSIP_STREAMS = 64,       /* requests that wait for a response */
	GOSSIP_INDIRECT = 3,       /* members that are asked to ping */
	GOSSIP_FANOUT = 3,         /* members that a round of gossip goes to */
	GOSSIP_CONFIRMATIONS = 3,  /* other suspectors with which a suspicion lasts its minimum */
	GOSSIP_AWARENESS_MAX = 7,  /* probes take 1 to 8 intervals */
	GOSSIP_SPREAD_FACTOR = 4,  /* an update is sent this often * log10(members), rounded up */
	GOSSIP_SPREAD_QUEUES = 32, /* more than the most often that an update is sent */
	GOSSIP_FAILURES = 4,       /* in a row: this node may be cut off */
	GOSSIP_GENERATION_STEP_MAX = 1 << 20, /* by which a copy of this node can be ahead */
	GOSSIP_RECENT_PARTS = 8, /* of the time in which members that went down are counted */
};

struct gossip_suspicion {
	uint64_t begin;
	uint64_t deadline; /* of the check, then of the suspicion */
	uint64_t min_ns, max_ns;
	bool is_checked;
	uint32_t at;        /* position in the heap */
	uint8_t needed;     /* confirmations for the minimum */
	uint8_t from_count; /* suspectors, the first one included */
	struct tfc__gossip_id from[GOSSIP_CONFIRMATIONS + 1];
};

/* A member, or this node. */
struct gossip_peer {
	struct tfc__link spread; /* in a queue of updates that are to be sent */
	struct tfc__gossip_id id;
	uint64_t incarnation;
	uint64_t since;
	uint64_t received_at;
	struct gossip_suspicion *suspicion; /* while it is suspect */
	char *text;                         /* the name, NUL, the metadata */
	uint32_t rtt_us;
	uint32_t position; /* in `order` */
	struct tfc__gossip_address address;
	uint16_t meta_len;
	uint8_t name_len;
	uint8_t state;         /* enum tfc_member_state */
	uint8_t sent;          /* how often its update was sent */
	bool is_hidden : 1;    /* another member has its name; not reported */
	bool is_contested : 1; /* another member claimed its name while both were there */
	bool is_conflict : 1;  /* a conflict of its key was reported in this generation */
	bool is_in_remote : 1; /* during a push-pull: the other side has the same */
};

/* Members by id, or those that have their names by name: open addressing with linear probing. */
struct gossip_index {
	struct gossip_peer **peers; /* NULL: free */
	uint32_t capacity;          /* a power of two, or 0 */
	uint32_t count;
	bool is_by_name;
};

enum gossip_stage {
	GOSSIP_STAGE_NONE,
	GOSSIP_STAGE_DIRECT,
	GOSSIP_STAGE_INDIRECT,
	GOSSIP_STAGE_STREAM
};

struct gossip_probe {
	enum gossip_stage stage;
	struct gossip_peer *target;
	uint32_t seq; /* of its pings, which only the target may ack; of its requests: one more */
	uint32_t nacks_expected, nacks;
	uint64_t begin;
	uint64_t next_at; /* end of the stage */
	uint64_t end_at;
};

struct gossip_relay {
	uint32_t seq; /* of this node's ping */
	uint32_t asked_seq;
	struct tfc__gossip_id target;
	struct tfc__gossip_address asked_by;
	bool is_asker_known; /* it is at this address */
	uint64_t deadline;
	bool is_done;
};

enum gossip_stream_kind {
	GOSSIP_STREAM_NONE,
	GOSSIP_STREAM_PING,
	GOSSIP_STREAM_SYNC,
	GOSSIP_STREAM_JOIN,
	GOSSIP_STREAM_RECORDS
};

struct gossip_stream {
	enum gossip_stream_kind kind;
	uint64_t number;
	uint64_t deadline; /* the caller should have reported the outcome by then */
	struct tfc__gossip_address to;
	struct tfc__gossip_id id; /* expected there, or zeros */
	uint32_t rest_max;        /* JOIN, SYNC: goes on if fewer buckets than these are left */
};

enum gossip_mode {
	GOSSIP_RUNNING = 1,
	GOSSIP_LEAVING, /* LEFT is being spread */
	GOSSIP_LEFT,
	GOSSIP_WAITING,   /* for GENERATION */
	GOSSIP_LOST_KEY,  /* another process with this key takes part */
	GOSSIP_LOST_NAME, /* another member has this name */
};

struct gossip_action {
	enum tfc__gossip_action_kind kind;
	struct tfc__gossip_address to; /* CONFLICT of a key: of the other process */
	struct tfc__gossip_id id;
	size_t offset; /* in `out`; CONFLICT of a key: of the name of the other process */
	size_t len;
	uint64_t stream;
	struct gossip_peer *peer;
	struct gossip_peer *other; /* CONFLICT; the same as peer: two processes with one key */
	uint32_t changes;
	uint32_t generation;
	bool is_self_lost;
	bool is_cut_off;
};

struct tfc__gossip {
	struct tfc__gossip_options options; /* with the defaults filled in */
	uint64_t random;
	uint64_t now;
	uint64_t wake_at;
	enum gossip_mode mode;
	struct gossip_peer *self; /* position 0 */
	uint32_t generation_seen; /* WAITING, LOST_KEY: the highest of this id */
	struct tfc__gossip_id lost_to;

	/* members: gossip_table.c */
	/* self, then the alive and suspect members in the order in which they are probed, then
	 * those that are down or left */
	struct gossip_peer **order;
	uint32_t count, capacity;
	uint32_t there; /* alive and suspect, with self */
	struct gossip_index by_id, by_name;
	struct tfc__link removed; /* freed at the next step */
	uint64_t full_reported_at;
	bool is_full_reported;

	/* gossip_probe.c */
	struct gossip_probe probes[GOSSIP_PROBES];
	uint32_t probe_next; /* position of the next target */
	uint64_t probe_at;
	uint32_t awareness;
	uint32_t failures; /* periodic probes that failed, one after another */
	uint32_t seq;
	struct gossip_relay relays[GOSSIP_RELAYS];
	uint32_t relay_first, relay_count;

	/* gossip_suspicion.c */
	struct gossip_peer **heap; /* by deadline */
	uint32_t suspects, heap_capacity;
	uint32_t recent[GOSSIP_RECENT_PARTS]; /* members that went down, by part of the time */
	uint64_t recent_part;
	uint32_t recent_total;
	bool is_cut_off;

	/* gossip_spread.c */
	struct tfc__link queues[GOSSIP_SPREAD_QUEUES]; /* by `sent` */
	uint32_t spread_count;
	uint64_t spread_at;
	uint64_t heal_at;
	uint64_t leave_until;

	/* gossip_sync.c */
	uint64_t hashes[TFC__GOSSIP_BUCKETS];
	uint64_t sync_at;
	uint64_t sync_ns; /* between the last push-pull and the next */
	struct gossip_stream streams[GOSSIP_STREAMS];
	uint64_t stream_number;

	/* output of the step */
	struct gossip_action *actions;
	size_t action_count, action_capacity, action_next;
	struct tfc__buf out;
	size_t frame_offset, frame_max;
	bool is_nomem;
	struct tfc__gossip_action current;
};

/* ---- gossip_core.c: chance, actions and frames */

uint32_t tfc__gossip_random(struct tfc__gossip *g, uint32_t below);
/* log10, in thousandths */
uint32_t tfc__gossip_log10_milli(uint32_t n);
static inline bool tfc__gossip_name_equal(const struct gossip_peer *a, const struct gossip_peer *b)
{
	return a->name_len == b->name_len && memcmp(a->text, b->text, a->name_len) == 0;
}
int tfc__gossip_address_compare(const struct tfc__gossip_address *a,
				const struct tfc__gossip_address *b);

/* Appends an action; NULL when out of memory. */
struct gossip_action *tfc__gossip_act(struct tfc__gossip *g, enum tfc__gossip_action_kind kind);
/* Reports changes of a member that is not hidden. */
void tfc__gossip_report(struct tfc__gossip *g, struct gossip_peer *peer, uint32_t changes);

/* One frame is written at a time: begin, add ..., then one of the ends. add returns false when the
 * message does not fit. */
void tfc__gossip_frame_begin(struct tfc__gossip *g, size_t max);
bool tfc__gossip_frame_add(struct tfc__gossip *g, const struct tfc__gossip_message *message);
size_t tfc__gossip_frame_len(const struct tfc__gossip *g);
/* with_updates: fills the datagram with updates that are to be spread */
void tfc__gossip_frame_send(struct tfc__gossip *g, const struct tfc__gossip_address *to,
			    bool with_updates);
void tfc__gossip_frame_reply(struct tfc__gossip *g, uint64_t stream);
/* Returns false when too many requests wait; the frame is dropped. id: expected there, or NULL. */
bool tfc__gossip_frame_request(struct tfc__gossip *g, enum gossip_stream_kind kind,
			       const struct tfc__gossip_address *to,
			       const struct tfc__gossip_id *id);

/* ---- gossip_index.c */

/* Reserves room for one more: tfc__gossip_index_set does not fail then. Returns false when out of
 * memory. */
bool tfc__gossip_index_reserve(const struct tfc__gossip *g, struct gossip_index *index);
/* The member with the id, or the name, of `key`; or NULL. */
struct gossip_peer *tfc__gossip_index_find(const struct tfc__gossip *g,
					   const struct gossip_index *index,
					   const struct gossip_peer *key);
/* Adds the member, or puts it in the place of the one with the same id or name. */
void tfc__gossip_index_set(const struct tfc__gossip *g, struct gossip_index *index,
			   struct gossip_peer *peer);
/* A no-op when another member, or none, is there. */
void tfc__gossip_index_remove(const struct tfc__gossip *g, struct gossip_index *index,
			      const struct gossip_peer *peer);

/* ---- gossip_table.c: members */

struct gossip_peer *tfc__gossip_peer_find(struct tfc__gossip *g, const struct tfc__gossip_id *id);
/* Whether this is the member's address; false if peer is NULL. Only a datagram to such an address
 * has updates, and may be longer than the one that it responds to. */
bool tfc__gossip_peer_is_at(const struct gossip_peer *peer,
			    const struct tfc__gossip_address *address);
/* Adds an alive member. NULL: out of memory, or the table is full. */
struct gossip_peer *tfc__gossip_peer_add(struct tfc__gossip *g,
					 const struct tfc__gossip_message *record);
/* Copies name, metadata and address. Returns false when out of memory. */
bool tfc__gossip_peer_describe(struct tfc__gossip *g, struct gossip_peer *peer,
			       const struct tfc__gossip_message *record, uint32_t *ret_changes);
void tfc__gossip_peer_remove(struct tfc__gossip *g, struct gossip_peer *peer);
void tfc__gossip_peer_free(struct gossip_peer *peer);
/* Changes incarnation and state, and what follows: the order of probes, hashes, suspicion. */
void tfc__gossip_peer_set(struct tfc__gossip *g, struct gossip_peer *peer, uint64_t incarnation,
			  uint32_t state);
/* Makes an alive member the one that is reported under its name, or hides it. */
void tfc__gossip_peer_claim_name(struct tfc__gossip *g, struct gossip_peer *peer);
void tfc__gossip_shuffle(struct tfc__gossip *g);
/* A random member that is alive or suspect; NULL: there is none but self and `not_this`. */
struct gossip_peer *tfc__gossip_peer_random(struct tfc__gossip *g,
					    const struct gossip_peer *not_this);
void tfc__gossip_peer_view(const struct gossip_peer *peer, struct tfc__gossip_member *ret_member);
void tfc__gossip_peer_record(const struct gossip_peer *peer,
			     struct tfc__gossip_message *ret_record);
static inline bool tfc__gossip_is_there(const struct gossip_peer *peer)
{
	return peer->state <= 2; /* alive, suspect */
}

/* ---- gossip_apply.c: what others say about members */

/* Where a message came from. */
struct gossip_origin {
	struct tfc__gossip_id sender;
	bool is_stream;  /* a push-pull: only what the sender says of itself is spread on */
	bool is_accused; /* output: the sender is behind: send it this node's record */
	/* Output: one of the members about whom the sender is behind, or NULL. */
	const struct gossip_peer *correction;
};
void tfc__gossip_apply(struct tfc__gossip *g, const struct tfc__gossip_message *message,
		       struct gossip_origin *origin);
/* Takes part again, with a higher generation or counter. */
void tfc__gossip_resume(struct tfc__gossip *g, uint64_t incarnation);
void tfc__gossip_lose_name(struct tfc__gossip *g, const struct gossip_peer *winner);
/* Requests a generation above generation_seen. */
void tfc__gossip_request_generation(struct tfc__gossip *g);
/* A member is down, has left or is renamed: this node may have lost its name to it. */
void tfc__gossip_check_lost(struct tfc__gossip *g, const struct gossip_peer *peer);
/* The same at the end of the counter: a higher generation must come first. */
static inline uint64_t tfc__gossip_incarnation_next(uint64_t incarnation)
{
	return (uint32_t)incarnation + 1 < TFC__GOSSIP_LIMIT ? incarnation + 1 : incarnation;
}
/* Counts this node's incarnation up, above `seen`. */
void tfc__gossip_self_advance(struct tfc__gossip *g, uint64_t seen);

/* ---- gossip_probe.c */

void tfc__gossip_probe_tick(struct tfc__gossip *g);
uint64_t tfc__gossip_probe_wake_at(const struct tfc__gossip *g);
void tfc__gossip_probe_void(struct tfc__gossip *g); /* after a stall */
void tfc__gossip_probe_forget(struct tfc__gossip *g, const struct gossip_peer *peer);
void tfc__gossip_probe_now(struct tfc__gossip *g, struct gossip_peer *peer);
/* Something came back from the member itself. */
void tfc__gossip_probe_contact(struct tfc__gossip *g, struct gossip_peer *peer);
void tfc__gossip_ack(struct tfc__gossip *g, uint32_t seq, const struct tfc__gossip_id *sender);
void tfc__gossip_nack(struct tfc__gossip *g, uint32_t seq);
void tfc__gossip_ping_for(struct tfc__gossip *g, const struct tfc__gossip_message *request,
			  const struct tfc__gossip_id *sender,
			  const struct tfc__gossip_address *from);
void tfc__gossip_awareness_add(struct tfc__gossip *g, int delta);

/* ---- gossip_suspicion.c */

void tfc__gossip_suspect(struct tfc__gossip *g, struct gossip_peer *peer, uint64_t incarnation,
			 const struct tfc__gossip_id *from);
void tfc__gossip_suspicion_end(struct tfc__gossip *g, struct gossip_peer *peer);
void tfc__gossip_suspicion_tick(struct tfc__gossip *g);
void tfc__gossip_suspicion_extend(struct tfc__gossip *g, uint64_t gap);
void tfc__gossip_count_down(struct tfc__gossip *g);
void tfc__gossip_check_cut_off(struct tfc__gossip *g);

/* ---- gossip_spread.c */

void tfc__gossip_spread(struct tfc__gossip *g, struct gossip_peer *peer);
void tfc__gossip_spread_stop(struct tfc__gossip *g, struct gossip_peer *peer);
void tfc__gossip_spread_clear(struct tfc__gossip *g);
void tfc__gossip_spread_fill(struct tfc__gossip *g);
void tfc__gossip_spread_tick(struct tfc__gossip *g);
void tfc__gossip_heal_tick(struct tfc__gossip *g);
/* The shortest message about the member's state. */
void tfc__gossip_peer_update(const struct gossip_peer *peer,
			     struct tfc__gossip_message *ret_update);

/* ---- gossip_sync.c: push-pull */

void tfc__gossip_hash(struct tfc__gossip *g, const struct gossip_peer *peer); /* in or out */
void tfc__gossip_sync_tick(struct tfc__gossip *g);
void tfc__gossip_sync_soon(struct tfc__gossip *g);
void tfc__gossip_join(struct tfc__gossip *g, const struct tfc__gossip_address *to);
bool tfc__gossip_request(struct tfc__gossip *g, const struct tfc__gossip_event *event);
bool tfc__gossip_response(struct tfc__gossip *g, const struct tfc__gossip_event *event);
void tfc__gossip_stream_failed(struct tfc__gossip *g, uint64_t stream);

#endif
