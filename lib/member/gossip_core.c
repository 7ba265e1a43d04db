#include "member/gossip_core.h"

#include <stdlib.h>
#include <string.h>
#include <tfcluster/error.h>
#include <tfcluster/member.h>

#include "base/random.h"
#include "member/gossip_state.h"

static const uint64_t gossip_second = UINT64_C(1000000000);

/* ---- chance and numbers */

uint32_t tfc__gossip_random(struct tfc__gossip *g, uint32_t below)
{
	return (uint32_t)((tfc__random_next(&g->random) >> 32) * below >> 32);
}

/* log2 bit by bit, by squaring: no floating point, so that each machine gets the same. */
uint32_t tfc__gossip_log10_milli(uint32_t n)
{
	if (n < 2)
		return 0;
	uint32_t whole = 31 - (uint32_t)__builtin_clz(n);
	uint64_t x = ((uint64_t)n << 31) >> whole; /* 1 to 2, with 31 bits behind the point */
	uint64_t log2 = (uint64_t)whole << 16;
	for (uint32_t bit = 1 << 15; bit; bit >>= 1) {
		x = x * x >> 31;
		if (x >> 32) {
			x >>= 1;
			log2 |= bit;
		}
	}
	return (uint32_t)(log2 * 30103 / 100 >> 16);
}

int tfc__gossip_address_compare(const struct tfc__gossip_address *a,
				const struct tfc__gossip_address *b)
{
	int by_ip = memcmp(a->ip, b->ip, sizeof(a->ip));
	return by_ip ? by_ip : (int)a->port - (int)b->port;
}

/* ---- actions */

struct gossip_action *tfc__gossip_act(struct tfc__gossip *g, enum tfc__gossip_action_kind kind)
{
	if (g->action_count == g->action_capacity) {
		size_t capacity = g->action_capacity ? 2 * g->action_capacity : 16;
		struct gossip_action *grown = realloc(g->actions, capacity * sizeof(*grown));
		if (!grown) {
			g->is_nomem = true;
			return NULL;
		}
		g->actions = grown;
		g->action_capacity = capacity;
	}
	struct gossip_action *a = &g->actions[g->action_count++];
	*a = (struct gossip_action){.kind = kind};
	return a;
}

void tfc__gossip_report(struct tfc__gossip *g, struct gossip_peer *peer, uint32_t changes)
{
	if (peer->is_hidden || peer == g->self)
		return;
	struct gossip_action *a = tfc__gossip_act(g, TFC__GOSSIP_DO_MEMBER);
	if (!a)
		return;
	a->peer = peer;
	a->changes = changes;
}

/* Frees the array when it has grown large, as after a push-pull. */
static void gossip_actions_clear(struct tfc__gossip *g)
{
	g->action_count = g->action_next = 0;
	if (g->action_capacity <= 64)
		return;
	free(g->actions);
	g->actions = NULL;
	g->action_capacity = 0;
}

const struct tfc__gossip_action *tfc__gossip_next(struct tfc__gossip *g)
{
	if (g->action_next == g->action_count) {
		gossip_actions_clear(g);
		return NULL;
	}
	const struct gossip_action *a = &g->actions[g->action_next++];
	g->current = (struct tfc__gossip_action){
		.kind = a->kind,
		.to = a->to,
		.id = a->id,
		.bytes = a->len ? (const uint8_t *)g->out.data + a->offset : NULL,
		.len = a->len,
		.stream = a->stream,
		.changes = a->changes,
		.generation = a->generation,
		.is_self_lost = a->is_self_lost,
		.is_cut_off = a->is_cut_off,
	};
	if (a->peer)
		tfc__gossip_peer_view(a->peer, &g->current.member);
	if (a->other)
		tfc__gossip_peer_view(a->other, &g->current.other);
	if (a->other && a->other == a->peer) { /* one key at two addresses */
		struct tfc__gossip_member *moved = a->is_self_lost ? &g->current.member
								   : &g->current.other;
		moved->address = a->to;
		if (a->len && !g->out.is_failed)
			moved->name = g->out.data + a->offset;
		g->current.bytes = NULL; /* the name is no message */
		g->current.len = 0;
		if (a->generation)
			moved->incarnation = (uint64_t)a->generation << 32;
	}
	return &g->current;
}

/* ---- frames */

void tfc__gossip_frame_begin(struct tfc__gossip *g, size_t max)
{
	g->frame_offset = g->out.len;
	g->frame_max = max;
	uint8_t *to = (uint8_t *)tfc__buf_reserve(&g->out, TFC__GOSSIP_HEADER_SIZE);
	if (!to)
		return;
	tfc__gossip_write_header(to, g->self->incarnation);
	tfc__buf_grow(&g->out, TFC__GOSSIP_HEADER_SIZE);
}

size_t tfc__gossip_frame_len(const struct tfc__gossip *g)
{
	return g->out.len - g->frame_offset;
}

bool tfc__gossip_frame_add(struct tfc__gossip *g, const struct tfc__gossip_message *message)
{
	size_t size = tfc__gossip_message_size(message);
	if (tfc__gossip_frame_len(g) + size > g->frame_max)
		return false;
	uint8_t *to = (uint8_t *)tfc__buf_reserve(&g->out, size);
	if (!to)
		return false;
	tfc__gossip_write(to, message);
	tfc__buf_grow(&g->out, size);
	return true;
}

/* NULL: out of memory, and the frame is dropped. */
static struct gossip_action *gossip_frame_end(struct tfc__gossip *g,
					      enum tfc__gossip_action_kind kind)
{
	struct gossip_action *a = g->out.is_failed ? NULL : tfc__gossip_act(g, kind);
	if (!a) {
		g->is_nomem = true;
		return NULL;
	}
	a->offset = g->frame_offset;
	a->len = tfc__gossip_frame_len(g);
	return a;
}

void tfc__gossip_frame_send(struct tfc__gossip *g, const struct tfc__gossip_address *to,
			    bool with_updates)
{
	if (with_updates)
		tfc__gossip_spread_fill(g);
	struct gossip_action *a = gossip_frame_end(g, TFC__GOSSIP_DO_SEND);
	if (a)
		a->to = *to;
}

void tfc__gossip_frame_reply(struct tfc__gossip *g, uint64_t stream)
{
	struct gossip_action *a = gossip_frame_end(g, TFC__GOSSIP_DO_REPLY);
	if (a)
		a->stream = stream;
}

bool tfc__gossip_frame_request(struct tfc__gossip *g, enum gossip_stream_kind kind,
			       const struct tfc__gossip_address *to,
			       const struct tfc__gossip_id *id)
{
	uint32_t i = 0;
	while (i < GOSSIP_STREAMS && g->streams[i].kind)
		i++;
	if (i == GOSSIP_STREAMS)
		return false;
	struct gossip_action *a = gossip_frame_end(g, TFC__GOSSIP_DO_REQUEST);
	if (!a)
		return false;
	a->to = *to;
	if (id)
		a->id = *id;
	a->stream = ++g->stream_number;
	g->streams[i] = (struct gossip_stream){.kind = kind,
					       .number = a->stream,
					       .deadline = g->now + 30 * gossip_second,
					       .to = *to,
					       .id = a->id};
	return true;
}

/* ---- datagrams */

/* What a datagram asks for. Each kind is answered once, whatever the datagram repeats. */
struct gossip_wants {
	bool is_ping, is_ping_req, is_query;
	bool has_own_record; /* of the sender */
	uint32_t ping_seq;
	struct tfc__gossip_message ping_req;
};

/* A frame is read to its end before any of it is applied. */
static bool gossip_frame_is_valid(const struct tfc__gossip_event *event)
{
	struct tfc__gossip_reader reader = {event->bytes, event->bytes + event->len};
	uint64_t incarnation;
	struct tfc__gossip_message m;
	if (!event->bytes || !tfc__gossip_read_header(&reader, event->generation, &incarnation))
		return false;
	while (tfc__gossip_read(&reader, &m))
		;
	return reader.at == reader.end;
}

static void gossip_datagram_message(struct tfc__gossip *g, const struct tfc__gossip_message *m,
				    struct gossip_origin *origin, struct gossip_wants *wants)
{
	switch (m->type) {
	case TFC__GOSSIP_PING:
		wants->is_ping = true;
		wants->ping_seq = m->seq;
		break;
	case TFC__GOSSIP_ACK:
		tfc__gossip_ack(g, m->seq, &origin->sender);
		break;
	case TFC__GOSSIP_NACK:
		tfc__gossip_nack(g, m->seq);
		break;
	case TFC__GOSSIP_PING_REQ:
		wants->is_ping_req = true;
		wants->ping_req = *m;
		break;
	case TFC__GOSSIP_QUERY:
		wants->is_query = true;
		break;
	case TFC__GOSSIP_RECORD:
		wants->has_own_record |= tfc__gossip_id_equal(&m->id, &origin->sender);
		tfc__gossip_apply(g, m, origin);
		break;
	case TFC__GOSSIP_SUSPECT:
	case TFC__GOSSIP_DOWN:
	case TFC__GOSSIP_LEFT:
		tfc__gossip_apply(g, m, origin);
		break;
	case TFC__GOSSIP_HASHES:
	case TFC__GOSSIP_RANGE:
		break; /* of streams only */
	}
}

/* Sends no more bytes back than `event` has, unless its source is the known address of its sender:
 * whoever replays a datagram may have forged the source. */
static void gossip_respond(struct tfc__gossip *g, const struct gossip_wants *wants,
			   const struct gossip_origin *origin, uint64_t incarnation,
			   const struct tfc__gossip_event *event)
{
	struct tfc__gossip_message m;
	bool is_running = g->mode == GOSSIP_RUNNING;
	bool is_empty = true;
	const struct gossip_peer *sender = tfc__gossip_peer_find(g, &origin->sender);
	bool is_known = tfc__gossip_peer_is_at(sender, &event->from);
	tfc__gossip_frame_begin(g, is_known ? g->options.datagram_max : event->len);
	if (wants->is_ping && (is_running || g->mode == GOSSIP_LEAVING)) {
		m = (struct tfc__gossip_message){.type = TFC__GOSSIP_ACK, .seq = wants->ping_seq};
		is_empty &= !tfc__gossip_frame_add(g, &m);
	}
	if (is_running && (wants->is_query || origin->is_accused)) {
		tfc__gossip_peer_record(g->self, &m);
		is_empty &= !tfc__gossip_frame_add(g, &m);
	}
	/* A record that was not taken (the table is full) would be requested for ever. */
	if (is_running && sender != g->self && !wants->has_own_record &&
	    (!sender || sender->incarnation < incarnation)) {
		m = (struct tfc__gossip_message){.type = TFC__GOSSIP_QUERY};
		is_empty &= !tfc__gossip_frame_add(g, &m);
	} else if (is_running && sender &&
		   (sender->state == TFC_MEMBER_SUSPECT || sender->state == TFC_MEMBER_DOWN)) {
		/* The member itself is the first that must know. */
		tfc__gossip_peer_update(sender, &m);
		is_empty &= !tfc__gossip_frame_add(g, &m);
	}
	if (is_running && origin->correction) {
		tfc__gossip_peer_update(origin->correction, &m);
		is_empty &= !tfc__gossip_frame_add(g, &m);
	}
	if (is_empty)
		g->out.len = g->frame_offset;
	else
		tfc__gossip_frame_send(g, &event->from, wants->is_ping && is_known);
}

static int gossip_datagram(struct tfc__gossip *g, const struct tfc__gossip_event *event)
{
	if (!gossip_frame_is_valid(event))
		return TFC_EPARSE;
	struct tfc__gossip_reader reader = {event->bytes, event->bytes + event->len};
	struct gossip_origin origin = {.sender = event->id};
	struct gossip_wants wants = {0};
	struct tfc__gossip_message m;
	uint64_t incarnation;
	tfc__gossip_read_header(&reader, event->generation, &incarnation);
	if (g->mode == GOSSIP_LEFT)
		return TFC_OK;
	while (tfc__gossip_read(&reader, &m))
		gossip_datagram_message(g, &m, &origin, &wants);
	if (wants.is_ping_req && g->mode == GOSSIP_RUNNING)
		tfc__gossip_ping_for(g, &wants.ping_req, &origin.sender, &event->from);
	gossip_respond(g, &wants, &origin, incarnation, event);
	return TFC_OK;
}

/* ---- this node */

void tfc__gossip_resume(struct tfc__gossip *g, uint64_t incarnation)
{
	g->mode = GOSSIP_RUNNING;
	tfc__gossip_peer_set(g, g->self, incarnation, TFC_MEMBER_ALIVE);
	tfc__gossip_spread(g, g->self);
	tfc__gossip_peer_claim_name(g, g->self);
	tfc__gossip_sync_soon(g);
	g->probe_at = g->now;
}

static int gossip_set_meta(struct tfc__gossip *g, const struct tfc__gossip_event *event)
{
	struct tfc__gossip_message record;
	uint32_t changes;
	if (event->len > TFC__GOSSIP_META_MAX)
		return TFC_EINVAL;
	tfc__gossip_peer_record(g->self, &record);
	record.meta = event->bytes;
	record.meta_len = event->len;
	if (!tfc__gossip_peer_describe(g, g->self, &record, &changes))
		return TFC_ENOMEM;
	if (changes && g->mode == GOSSIP_RUNNING)
		tfc__gossip_self_advance(g, g->self->incarnation);
	return TFC_OK;
}

static void gossip_leave_end(struct tfc__gossip *g)
{
	g->mode = GOSSIP_LEFT;
	tfc__gossip_spread_clear(g);
	tfc__gossip_probe_void(g);
	tfc__gossip_act(g, TFC__GOSSIP_DO_LEFT);
}

static void gossip_leave(struct tfc__gossip *g)
{
	if (g->mode == GOSSIP_LEAVING || g->mode == GOSSIP_LEFT)
		return;
	bool is_silent = g->mode != GOSSIP_RUNNING || g->there < 2;
	tfc__gossip_peer_set(g, g->self, tfc__gossip_incarnation_next(g->self->incarnation),
			     TFC_MEMBER_LEFT);
	if (is_silent) {
		gossip_leave_end(g);
		return;
	}
	g->mode = GOSSIP_LEAVING;
	g->leave_until = g->now + 2 * gossip_second;
	tfc__gossip_probe_void(g);
	tfc__gossip_spread(g, g->self);
}

static void gossip_tick(struct tfc__gossip *g)
{
	if (g->mode == GOSSIP_LEFT)
		return;
	if (g->mode != GOSSIP_LEAVING)
		tfc__gossip_suspicion_tick(g);
	if (g->mode == GOSSIP_RUNNING) {
		tfc__gossip_probe_tick(g);
		tfc__gossip_heal_tick(g);
	}
	tfc__gossip_spread_tick(g);
	if (g->mode == GOSSIP_LEAVING) {
		if (tfc__list_is_empty(&g->self->spread) || g->now >= g->leave_until)
			gossip_leave_end(g);
		return;
	}
	tfc__gossip_sync_tick(g);
	tfc__gossip_check_cut_off(g);
}

static uint64_t gossip_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t gossip_next_wake_at(const struct tfc__gossip *g)
{
	uint64_t at = UINT64_MAX;
	if (g->mode == GOSSIP_LEFT)
		return at;
	if (g->mode == GOSSIP_LEAVING)
		return gossip_min(g->leave_until, g->spread_at);
	if (g->spread_count && g->there > 1)
		at = g->spread_at;
	at = gossip_min(at, g->sync_at);
	if (g->suspects)
		at = gossip_min(at, g->heap[0]->suspicion->deadline);
	if (g->mode != GOSSIP_RUNNING)
		return at;
	at = gossip_min(at, tfc__gossip_probe_wake_at(g));
	if (g->count > g->there)
		at = gossip_min(at, g->heal_at);
	return at > g->now ? at : g->now;
}

uint64_t tfc__gossip_wake_at(const struct tfc__gossip *g)
{
	return g->wake_at;
}

/* This process slept, or was not given a processor: what did not arrive meanwhile says nothing
 * about the others. */
static void gossip_check_stall(struct tfc__gossip *g, uint64_t now)
{
	uint64_t limit = g->options.interval_ns + g->options.interval_ns / 2;
	if (now <= g->wake_at || now - g->wake_at <= limit)
		return;
	tfc__gossip_suspicion_extend(g, now - g->now);
	tfc__gossip_probe_void(g);
	g->probe_at = now + tfc__gossip_random(g, (uint32_t)(g->options.interval_ns >> 8)) *
				    UINT64_C(256);
}

/* ---- steps */

static void gossip_step_begin(struct tfc__gossip *g, uint64_t now)
{
	gossip_actions_clear(g);
	if (g->out.is_failed || g->out.capacity > 16384)
		tfc__buf_fini(&g->out);
	tfc__buf_clear(&g->out);
	g->is_nomem = false;
	TFC__LIST_EACH (link, &g->removed)
		tfc__gossip_peer_free(tfc__container_of(link, struct gossip_peer, spread));
	tfc__list_init(&g->removed);
	if (now < g->now)
		now = g->now;
	gossip_check_stall(g, now);
	g->now = now;
}

static int gossip_handle(struct tfc__gossip *g, const struct tfc__gossip_event *event)
{
	struct gossip_peer *peer;
	bool is_read = true;
	switch (event->kind) {
	case TFC__GOSSIP_TICK:
		gossip_tick(g);
		break;
	case TFC__GOSSIP_DATAGRAM:
		return gossip_datagram(g, event);
	case TFC__GOSSIP_REQUEST:
		is_read = gossip_frame_is_valid(event) && tfc__gossip_request(g, event);
		if (!is_read) {
			struct gossip_action *a = tfc__gossip_act(g, TFC__GOSSIP_DO_REPLY);
			if (a)
				a->stream = event->stream;
		}
		break;
	case TFC__GOSSIP_RESPONSE:
		is_read = gossip_frame_is_valid(event) && tfc__gossip_response(g, event);
		if (!is_read)
			tfc__gossip_stream_failed(g, event->stream);
		break;
	case TFC__GOSSIP_STREAM_FAILED:
		tfc__gossip_stream_failed(g, event->stream);
		break;
	case TFC__GOSSIP_JOIN:
		for (uint32_t i = 0; i < event->count; i++)
			tfc__gossip_join(g, &event->addresses[i]);
		break;
	case TFC__GOSSIP_LEAVE:
		gossip_leave(g);
		break;
	case TFC__GOSSIP_SET_META:
		return gossip_set_meta(g, event);
	case TFC__GOSSIP_CONTACT:
		peer = tfc__gossip_peer_find(g, &event->id);
		if (peer && peer != g->self)
			tfc__gossip_probe_contact(g, peer);
		break;
	case TFC__GOSSIP_BROKEN:
		peer = tfc__gossip_peer_find(g, &event->id);
		if (peer && peer != g->self && g->mode == GOSSIP_RUNNING)
			tfc__gossip_probe_now(g, peer);
		break;
	case TFC__GOSSIP_GENERATION:
		if (g->mode != GOSSIP_LEAVING && g->mode != GOSSIP_LEFT &&
		    event->generation > tfc__gossip_generation(g->self->incarnation) &&
		    event->generation < TFC__GOSSIP_LIMIT)
			tfc__gossip_resume(g, (uint64_t)event->generation << 32);
		break;
	}
	return is_read ? TFC_OK : TFC_EPARSE;
}

int tfc__gossip_step(struct tfc__gossip *g, const struct tfc__gossip_event *event, uint64_t now)
{
	gossip_step_begin(g, now);
	int code = gossip_handle(g, event);
	g->wake_at = gossip_next_wake_at(g);
	g->is_nomem |= g->out.is_failed;
	return code == TFC_OK && g->is_nomem ? TFC_ENOMEM : code;
}

/* ---- life */

static void gossip_fill_defaults(struct tfc__gossip_options *o)
{
	const uint64_t ms = gossip_second / 1000;
	const struct {
		uint64_t *field;
		uint64_t value;
	} times[] = {
		{&o->interval_ns, 500 * ms},
		{&o->spread_ns, 100 * ms},
		{&o->push_pull_ns, 30 * gossip_second},
		{&o->reclaim_ns, 24 * 3600 * gossip_second},
	};
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		if (!*times[i].field)
			*times[i].field = times[i].value;
	if (!o->datagram_max)
		o->datagram_max = 1300;
	if (!o->stream_max)
		o->stream_max = 1 << 20;
	if (!o->member_max)
		o->member_max = 16384;
	if (!o->alpha)
		o->alpha = 5;
	if (!o->beta)
		o->beta = 6;
}

struct tfc__gossip *tfc__gossip_new(const struct tfc__gossip_options *options, uint64_t now)
{
	size_t name_len = options->name ? strlen(options->name) : 0;
	struct tfc__gossip_message record = {
		.id = options->id,
		.incarnation = (uint64_t)options->generation << 32,
		.address = options->address,
		.name = (const uint8_t *)options->name,
		.name_len = name_len,
		.meta = options->meta,
		.meta_len = options->meta_len,
	};
	if (name_len < 1 || name_len > TFC__GOSSIP_NAME_MAX ||
	    options->meta_len > TFC__GOSSIP_META_MAX || options->generation < 1 ||
	    options->generation >= TFC__GOSSIP_LIMIT ||
	    (options->datagram_max && options->datagram_max < TFC__GOSSIP_DATAGRAM_MIN))
		return NULL;
	struct tfc__gossip *g = calloc(1, sizeof(*g));
	if (!g)
		return NULL;
	g->options = *options;
	g->options.name = NULL;
	g->options.meta = NULL;
	gossip_fill_defaults(&g->options);
	g->random = options->seed;
	g->now = now;
	g->mode = GOSSIP_RUNNING;
	g->by_name.is_by_name = true;
	tfc__list_init(&g->removed);
	for (size_t i = 0; i < GOSSIP_SPREAD_QUEUES; i++)
		tfc__list_init(&g->queues[i]);
	g->probe_next = 1;
	g->self = tfc__gossip_peer_add(g, &record);
	if (!g->self) {
		tfc__gossip_free(g);
		return NULL;
	}
	tfc__gossip_peer_claim_name(g, g->self);
	g->seq = (uint32_t)tfc__random_next(&g->random);
	g->probe_at = now + tfc__random_next(&g->random) % g->options.interval_ns;
	g->heal_at = now;
	g->spread_at = now;
	g->sync_at = now + g->options.push_pull_ns;
	g->sync_ns = g->options.push_pull_ns;
	tfc__gossip_spread(g, g->self);
	g->action_count = 0;
	g->wake_at = gossip_next_wake_at(g);
	return g;
}

void tfc__gossip_free(struct tfc__gossip *g)
{
	if (!g)
		return;
	for (uint32_t i = 0; i < g->count; i++)
		tfc__gossip_peer_free(g->order[i]);
	TFC__LIST_EACH (link, &g->removed)
		tfc__gossip_peer_free(tfc__container_of(link, struct gossip_peer, spread));
	free(g->by_id.peers);
	free(g->by_name.peers);
	free(g->order);
	free(g->heap);
	free(g->actions);
	tfc__buf_fini(&g->out);
	free(g);
}

/* ---- queries */

uint32_t tfc__gossip_count(const struct tfc__gossip *g)
{
	return g->count;
}

void tfc__gossip_at(const struct tfc__gossip *g, uint32_t index,
		    struct tfc__gossip_member *ret_member)
{
	tfc__gossip_peer_view(g->order[index], ret_member);
}

bool tfc__gossip_find(const struct tfc__gossip *g, const struct tfc__gossip_id *id,
		      struct tfc__gossip_member *ret_member)
{
	const struct gossip_peer *peer = tfc__gossip_peer_find((struct tfc__gossip *)g, id);
	if (peer)
		tfc__gossip_peer_view(peer, ret_member);
	return peer;
}
