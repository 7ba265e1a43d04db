/*
 * Push-pull, in two exchanges. The members are spread over buckets by their id, and each bucket has
 * a hash. First: hashes -> the records of the buckets that differ. Second, if any did: the records
 * of this side that the other lacks. When both sides know the same, nothing but hashes is sent.
 */
#include <string.h>
#include <tfcluster/member.h>

#include "base/random.h"
#include "member/gossip_state.h"

static uint32_t gossip_bucket(const struct tfc__gossip_id *id)
{
	return id->bytes[0] % TFC__GOSSIP_BUCKETS;
}

/* Alive and suspect members have the same hash: a suspicion spreads by itself. The address is part
 * of it, so that two processes with one key are found. */
void tfc__gossip_hash(struct tfc__gossip *g, const struct gossip_peer *peer)
{
	const uint64_t parts[] = {
		tfc__gossip_read_u64(peer->id.bytes),
		tfc__gossip_read_u64(peer->id.bytes + 8),
		tfc__gossip_read_u64(peer->address.ip),
		tfc__gossip_read_u64(peer->address.ip + 8),
		peer->address.port,
		peer->incarnation,
	};
	uint64_t hash = 0;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		uint64_t state = hash ^ parts[i];
		hash = tfc__random_next(&state);
	}
	g->hashes[gossip_bucket(&peer->id)] ^= hash;
}

/* ---- requests */

static struct gossip_stream *gossip_stream_find(struct tfc__gossip *g, uint64_t number)
{
	for (uint32_t i = 0; i < GOSSIP_STREAMS; i++)
		if (g->streams[i].kind && g->streams[i].number == number)
			return &g->streams[i];
	return NULL;
}

static void gossip_sync_with(struct tfc__gossip *g, enum gossip_stream_kind kind,
			     const struct tfc__gossip_address *to, const struct tfc__gossip_id *id,
			     uint32_t rest_max)
{
	uint8_t hashes[8 * TFC__GOSSIP_BUCKETS];
	struct tfc__gossip_message m = {.type = TFC__GOSSIP_HASHES, .hashes = hashes};
	for (size_t i = 0; i < TFC__GOSSIP_BUCKETS; i++)
		tfc__gossip_write_u64(hashes + 8 * i, g->hashes[i]);
	tfc__gossip_frame_begin(g, g->options.stream_max);
	tfc__gossip_frame_add(g, &m);
	if (tfc__gossip_frame_request(g, kind, to, id)) {
		gossip_stream_find(g, g->stream_number)->rest_max = rest_max;
	} else if (kind == GOSSIP_STREAM_JOIN) {
		struct gossip_action *a = tfc__gossip_act(g, TFC__GOSSIP_DO_JOIN_FAILED);
		if (a)
			a->to = *to;
	}
}

void tfc__gossip_join(struct tfc__gossip *g, const struct tfc__gossip_address *to)
{
	if (g->mode != GOSSIP_LEAVING && g->mode != GOSSIP_LEFT)
		gossip_sync_with(g, GOSSIP_STREAM_JOIN, to, NULL, TFC__GOSSIP_BUCKETS);
}

/* Begins a row of push-pulls: soon, and then less and less often. When half of a cluster returns,
 * one member after the other, only the first of them begins one. */
void tfc__gossip_sync_soon(struct tfc__gossip *g)
{
	uint64_t soon = g->options.push_pull_ns / 32;
	if (g->sync_ns <= 4 * soon)
		return;
	g->sync_ns = soon;
	uint64_t at = g->now + tfc__gossip_random(g, (uint32_t)(g->sync_ns >> 8)) * UINT64_C(256);
	if (at < g->sync_at)
		g->sync_at = at;
}

void tfc__gossip_sync_tick(struct tfc__gossip *g)
{
	if (g->now < g->sync_at)
		return;
	for (uint32_t i = 0; i < GOSSIP_STREAMS; i++)
		if (g->streams[i].kind && g->streams[i].deadline <= g->now)
			tfc__gossip_stream_failed(g, g->streams[i].number);
	if (g->mode == GOSSIP_WAITING) /* the last one could not be stored */
		tfc__gossip_request_generation(g);
	/* A node that waits until it may take part again asks often. */
	uint64_t limit = g->mode == GOSSIP_RUNNING ? g->options.push_pull_ns
						   : 10 * g->options.interval_ns;
	g->sync_ns = g->sync_ns * 2 < limit ? g->sync_ns * 2 : limit;
	g->sync_at = g->now + g->sync_ns * 3 / 4 +
		     tfc__gossip_random(g, (uint32_t)(g->sync_ns >> 9)) * UINT64_C(256);
	const struct gossip_peer *peer = tfc__gossip_peer_random(g, NULL);
	if (peer)
		gossip_sync_with(g, GOSSIP_STREAM_SYNC, &peer->address, &peer->id,
				 TFC__GOSSIP_BUCKETS);
}

/* ---- records */

/* Writes RANGE and the records of these buckets, bucket by bucket from a random one, as many as
 * fit. Records that the other side has are left out. */
static void gossip_add_records(struct tfc__gossip *g, uint64_t buckets)
{
	struct tfc__gossip_message range = {.type = TFC__GOSSIP_RANGE}, m;
	size_t sizes[TFC__GOSSIP_BUCKETS] = {0};
	size_t room = g->frame_max - tfc__gossip_frame_len(g) - tfc__gossip_message_size(&range);
	bool is_passive = g->mode != GOSSIP_RUNNING;
	for (uint32_t i = is_passive; i < g->count; i++) {
		tfc__gossip_peer_record(g->order[i], &m);
		if (!g->order[i]->is_in_remote)
			sizes[gossip_bucket(&m.id)] += tfc__gossip_message_size(&m);
	}
	uint32_t first = tfc__gossip_random(g, TFC__GOSSIP_BUCKETS);
	for (uint32_t i = 0; i < TFC__GOSSIP_BUCKETS; i++) {
		uint32_t bucket = (first + i) % TFC__GOSSIP_BUCKETS;
		uint64_t bit = UINT64_C(1) << bucket;
		if (!(buckets & bit))
			continue;
		if (sizes[bucket] <= room) {
			range.buckets |= bit;
			room -= sizes[bucket];
		} else {
			range.rest |= bit;
		}
	}
	tfc__gossip_frame_add(g, &range);
	for (uint32_t i = is_passive; i < g->count; i++) {
		tfc__gossip_peer_record(g->order[i], &m);
		if (range.buckets >> gossip_bucket(&m.id) & 1 && !g->order[i]->is_in_remote)
			tfc__gossip_frame_add(g, &m);
	}
}

static uint64_t gossip_differing_buckets(const struct tfc__gossip *g, const uint8_t *hashes)
{
	uint64_t buckets = 0;
	for (uint32_t i = 0; i < TFC__GOSSIP_BUCKETS; i++)
		if (tfc__gossip_read_u64(hashes + 8 * (size_t)i) != g->hashes[i])
			buckets |= UINT64_C(1) << i;
	return buckets;
}

struct gossip_frame_content {
	struct tfc__gossip_message range;
	const uint8_t *hashes;
	bool is_ping, is_ack;
	uint32_t seq;
};

static void gossip_sync_record(struct tfc__gossip *g, const struct tfc__gossip_message *m,
			       struct gossip_origin *origin)
{
	tfc__gossip_apply(g, m, origin);
	struct gossip_peer *peer = tfc__gossip_peer_find(g, &m->id);
	if (peer && m->type == TFC__GOSSIP_RECORD)
		peer->is_in_remote = peer->incarnation == m->incarnation &&
				     tfc__gossip_is_there(peer) == (m->state <= TFC_MEMBER_SUSPECT);
}

/* Applies the records of a frame. Returns what its RANGE says, and its last request or response. */
static void gossip_read_frame(struct tfc__gossip *g, const struct tfc__gossip_event *event,
			      struct gossip_frame_content *ret_content)
{
	struct tfc__gossip_reader reader = {event->bytes, event->bytes + event->len};
	struct gossip_origin origin = {.sender = event->id, .is_stream = true};
	struct tfc__gossip_message m;
	uint64_t incarnation;
	tfc__gossip_read_header(&reader, event->generation, &incarnation);
	*ret_content = (struct gossip_frame_content){0};
	while (tfc__gossip_read(&reader, &m)) {
		if (m.type == TFC__GOSSIP_HASHES)
			ret_content->hashes = m.hashes;
		else if (m.type == TFC__GOSSIP_RANGE)
			ret_content->range = m;
		else if (m.type == TFC__GOSSIP_PING || m.type == TFC__GOSSIP_ACK) {
			ret_content->seq = m.seq;
			ret_content->is_ping |= m.type == TFC__GOSSIP_PING;
			ret_content->is_ack |= m.type == TFC__GOSSIP_ACK;
		} else if (m.type >= TFC__GOSSIP_RECORD && m.type <= TFC__GOSSIP_LEFT)
			gossip_sync_record(g, &m, &origin);
	}
}

static void gossip_forget_remote(struct tfc__gossip *g)
{
	for (uint32_t i = 0; i < g->count; i++)
		g->order[i]->is_in_remote = false;
}

/* ---- both sides */

bool tfc__gossip_request(struct tfc__gossip *g, const struct tfc__gossip_event *event)
{
	struct gossip_frame_content content;
	struct tfc__gossip_message m;
	if (g->mode != GOSSIP_RUNNING && g->mode != GOSSIP_LEAVING)
		return false;
	gossip_read_frame(g, event, &content);
	if (content.range.buckets || content.hashes)
		gossip_forget_remote(g);
	tfc__gossip_frame_begin(g, g->options.stream_max);
	if (content.is_ping) {
		m = (struct tfc__gossip_message){.type = TFC__GOSSIP_ACK, .seq = content.seq};
		tfc__gossip_frame_add(g, &m);
		tfc__gossip_peer_update(g->self, &m);
		tfc__gossip_frame_add(g, &m);
	}
	if (content.hashes)
		gossip_add_records(g, gossip_differing_buckets(g, content.hashes));
	tfc__gossip_frame_reply(g, event->stream);
	return true;
}

static void gossip_join_end(struct tfc__gossip *g, const struct gossip_stream *stream,
			    bool is_joined)
{
	if (stream->kind != GOSSIP_STREAM_JOIN)
		return;
	struct gossip_action *a = tfc__gossip_act(g, is_joined ? TFC__GOSSIP_DO_JOINED
							       : TFC__GOSSIP_DO_JOIN_FAILED);
	if (a)
		a->to = stream->to;
}

/* The second exchange: what the other side lacks; and a third where it had more than fits. A
 * difference may be there for good (the table of one side is full): without progress, the rest
 * waits for the next push-pull. */
static void gossip_sync_answer(struct tfc__gossip *g, const struct gossip_stream *stream,
			       const struct tfc__gossip_id *sender,
			       const struct gossip_frame_content *content)
{
	if (content->range.buckets) {
		tfc__gossip_frame_begin(g, g->options.stream_max);
		gossip_add_records(g, content->range.buckets);
		tfc__gossip_frame_request(g, GOSSIP_STREAM_RECORDS, &stream->to, sender);
	}
	uint32_t rest = (uint32_t)__builtin_popcountll(content->range.rest);
	if (rest && content->range.buckets && rest < stream->rest_max)
		gossip_sync_with(g, GOSSIP_STREAM_SYNC, &stream->to, sender, rest);
}

bool tfc__gossip_response(struct tfc__gossip *g, const struct tfc__gossip_event *event)
{
	struct gossip_stream *found = gossip_stream_find(g, event->stream);
	if (!found || g->mode == GOSSIP_LEAVING || g->mode == GOSSIP_LEFT)
		return true;
	struct gossip_stream stream = *found;
	struct gossip_frame_content content;
	found->kind = GOSSIP_STREAM_NONE;
	gossip_read_frame(g, event, &content);
	bool is_self = tfc__gossip_id_equal(&event->id, &g->self->id);
	struct gossip_peer *peer = is_self ? NULL : tfc__gossip_peer_find(g, &event->id);
	if (peer)
		peer->received_at = g->now;
	if (content.is_ack)
		tfc__gossip_ack(g, content.seq, &event->id);
	gossip_join_end(g, &stream, !is_self);
	if (stream.kind == GOSSIP_STREAM_JOIN && !is_self)
		tfc__gossip_sync_soon(g);
	if (!is_self && content.range.type)
		gossip_sync_answer(g, &stream, &event->id, &content);
	gossip_forget_remote(g);
	return true;
}

void tfc__gossip_stream_failed(struct tfc__gossip *g, uint64_t number)
{
	struct gossip_stream *stream = gossip_stream_find(g, number);
	if (!stream)
		return;
	gossip_join_end(g, stream, false);
	stream->kind = GOSSIP_STREAM_NONE;
}
