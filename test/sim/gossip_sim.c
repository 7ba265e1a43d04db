#include "gossip_sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tfcluster/error.h>

#include <cmocka.h>

#include "base/random.h"
#include "member/gossip_message.h"

enum event_kind { EV_TICK, EV_DATAGRAM, EV_REQUEST, EV_RESPONSE, EV_FAILED, EV_WAKE, EV_JOIN };

struct event {
	uint64_t time, order;
	enum event_kind kind;
	uint32_t node, from;
	uint32_t life;       /* of the node's process; TICK: number of the tick */
	uint32_t generation; /* of the sender, when it sent this */
	struct tfc__gossip_id sender;
	uint64_t stream;
	uint32_t len;
	uint8_t *bytes;
};

struct node {
	struct tfc__gossip *core;
	struct tfc__gossip_id id;
	char name[64];
	uint32_t generation, life, port, seed;
	uint64_t drift_ppm;
	int64_t ahead_ns; /* of its clock */
	uint64_t tick_at; /* when a TICK is in the queue for; UINT64_MAX: none */
	uint32_t tick;
	bool is_silent; /* dead, and its host with it */
	uint64_t stalled_until, excused_until;
	bool is_draining, is_suspended;
	uint32_t push_pulls;
	struct event *inbox; /* while it is stalled */
	uint32_t inbox_count, inbox_capacity;
	uint32_t group;
	uint64_t killed_at;
	uint64_t *detections;
	uint32_t detection_count;
};

struct gossip_sim {
	struct gossip_sim_options options;
	struct node *nodes;
	uint64_t now, random, order, hash;
	struct event *heap;
	size_t count, capacity;
	uint8_t *cuts; /* nodes * nodes, when there are any */
	struct gossip_sim_counts counts;
	uint64_t stream_next;
	uint32_t last_behind; /* the node that was not converged when last asked */
	struct stream {
		uint64_t core_stream; /* of the asker */
		uint32_t asker, life;
	} * streams;
	size_t stream_capacity;
};

/* ---- chance, time */

uint32_t gossip_sim_random(struct gossip_sim *s, uint32_t below)
{
	return (uint32_t)((tfc__random_next(&s->random) >> 32) * below >> 32);
}

static bool is_chance(struct gossip_sim *s, uint32_t ppm)
{
	return ppm && gossip_sim_random(s, 1000000) < ppm;
}

uint64_t gossip_sim_now(const struct gossip_sim *s)
{
	return s->now;
}

/* The node's own clock. */
static uint64_t clock_of(const struct node *n, uint64_t time)
{
	return time + time / 1000000 * n->drift_ppm + (uint64_t)n->ahead_ns;
}

static uint64_t time_of(const struct node *n, uint64_t local)
{
	return (local - (uint64_t)n->ahead_ns) / (1000000 + n->drift_ppm) * 1000000 + 1000000;
}

static void hash_add(struct gossip_sim *s, uint64_t value)
{
	uint64_t state = s->hash ^ value;
	s->hash = tfc__random_next(&state);
}

/* ---- the queue */

static bool is_earlier(const struct event *a, const struct event *b)
{
	return a->time != b->time ? a->time < b->time : a->order < b->order;
}

static void push(struct gossip_sim *s, struct event e)
{
	if (s->count == s->capacity) {
		s->capacity = s->capacity ? 2 * s->capacity : 1024;
		s->heap = realloc(s->heap, s->capacity * sizeof(*s->heap));
		assert_non_null(s->heap);
	}
	e.order = ++s->order;
	size_t at = s->count++;
	while (at && is_earlier(&e, &s->heap[(at - 1) / 2])) {
		s->heap[at] = s->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	s->heap[at] = e;
}

static struct event pop(struct gossip_sim *s)
{
	struct event first = s->heap[0], last = s->heap[--s->count];
	size_t at = 0;
	for (;;) {
		size_t child = 2 * at + 1;
		if (child >= s->count)
			break;
		if (child + 1 < s->count && is_earlier(&s->heap[child + 1], &s->heap[child]))
			child++;
		if (!is_earlier(&s->heap[child], &last))
			break;
		s->heap[at] = s->heap[child];
		at = child;
	}
	if (s->count)
		s->heap[at] = last;
	return first;
}

/* ---- the network */

struct tfc__gossip_id gossip_sim_id(uint32_t node)
{
	struct tfc__gossip_id id;
	uint64_t state = node + 1;
	for (int i = 0; i < 2; i++) {
		uint64_t part = tfc__random_next(&state);
		memcpy(id.bytes + 8 * i, &part, 8);
	}
	return id;
}

struct tfc__gossip_address gossip_sim_address(const struct gossip_sim *s, uint32_t node)
{
	struct tfc__gossip_address a = {.port = (uint16_t)s->nodes[node].port};
	a.ip[10] = a.ip[11] = 0xff;
	a.ip[12] = 10;
	a.ip[13] = (uint8_t)(node >> 16);
	a.ip[14] = (uint8_t)(node >> 8);
	a.ip[15] = (uint8_t)node;
	return a;
}

/* UINT32_MAX: nothing is there */
static uint32_t node_at(const struct gossip_sim *s, const struct tfc__gossip_address *a)
{
	uint32_t node = (uint32_t)a->ip[13] << 16 | (uint32_t)a->ip[14] << 8 | a->ip[15];
	bool is_ours = node < s->options.nodes && a->ip[12] == 10;
	return is_ours && s->nodes[node].port == a->port ? node : UINT32_MAX;
}

static bool is_cut(const struct gossip_sim *s, uint32_t from, uint32_t to)
{
	return s->nodes[from].group != s->nodes[to].group ||
	       (s->cuts && s->cuts[(size_t)from * s->options.nodes + to]);
}

static uint64_t delay(struct gossip_sim *s)
{
	return s->options.delay_ns + gossip_sim_random(s, (uint32_t)s->options.jitter_ns + 1);
}

/* Of one segment of a stream, sent again until it arrives. */
static uint64_t stream_delay(struct gossip_sim *s)
{
	uint64_t time = delay(s);
	for (uint64_t again = 200 * GS_MS; is_chance(s, s->options.loss_ppm); again *= 2)
		time += again;
	return time;
}

static uint8_t *copy_bytes(const uint8_t *bytes, size_t len)
{
	uint8_t *copy = malloc(len ? len : 1);
	assert_non_null(copy);
	if (len)
		memcpy(copy, bytes, len);
	return copy;
}

static uint32_t generation_of(const struct gossip_sim *s, uint32_t node)
{
	struct tfc__gossip_member self;
	tfc__gossip_at(s->nodes[node].core, 0, &self);
	return tfc__gossip_generation(self.incarnation);
}

static void send_datagram(struct gossip_sim *s, uint32_t from, const struct tfc__gossip_action *a)
{
	uint32_t to = node_at(s, &a->to);
	s->counts.datagrams++;
	s->counts.datagram_bytes += a->len;
	if (a->len > s->counts.largest_datagram)
		s->counts.largest_datagram = a->len;
	if (to == UINT32_MAX || is_cut(s, from, to))
		return;
	for (int copies = 1 + is_chance(s, s->options.duplicate_ppm); copies; copies--)
		if (!is_chance(s, s->options.loss_ppm))
			push(s, (struct event){.time = s->now + delay(s),
					       .kind = EV_DATAGRAM,
					       .node = to,
					       .from = from,
					       .sender = s->nodes[from].id,
					       .generation = generation_of(s, from),
					       .life = s->nodes[to].life,
					       .len = (uint32_t)a->len,
					       .bytes = copy_bytes(a->bytes, a->len)});
}

static void fail_request(struct gossip_sim *s, uint32_t node, uint64_t stream, uint64_t after)
{
	push(s, (struct event){.time = s->now + after,
			       .kind = EV_FAILED,
			       .node = node,
			       .life = s->nodes[node].life,
			       .stream = stream});
}

static bool is_push_pull(const struct tfc__gossip_action *a, uint32_t generation)
{
	struct tfc__gossip_reader reader = {a->bytes, a->bytes + a->len};
	struct tfc__gossip_message first;
	uint64_t incarnation;
	return tfc__gossip_read_header(&reader, generation, &incarnation) &&
	       tfc__gossip_read(&reader, &first) && first.type == TFC__GOSSIP_HASHES;
}

static void send_request(struct gossip_sim *s, uint32_t from, const struct tfc__gossip_action *a)
{
	uint32_t to = node_at(s, &a->to);
	bool is_reached = to != UINT32_MAX && !is_cut(s, from, to) && !is_cut(s, to, from);
	s->counts.requests++;
	s->counts.stream_bytes += a->len;
	s->nodes[from].push_pulls += is_push_pull(a, generation_of(s, from));
	/* The core forgets a stream that has failed: what comes later is ignored. */
	if (!is_reached || !s->nodes[to].core) {
		bool is_refused = is_reached && !s->nodes[to].is_silent;
		fail_request(s, from, a->stream, is_refused ? 2 * delay(s) : 10 * GS_SECOND);
		return;
	}
	fail_request(s, from, a->stream, 10 * GS_SECOND);
	uint64_t number = s->stream_next++;
	if (number >= s->stream_capacity) {
		s->stream_capacity = s->stream_capacity ? 2 * s->stream_capacity : 1024;
		s->streams = realloc(s->streams, s->stream_capacity * sizeof(*s->streams));
		assert_non_null(s->streams);
	}
	s->streams[number] = (struct stream){a->stream, from, s->nodes[from].life};
	uint64_t time = s->now; /* a handshake of three messages goes before */
	for (int i = 0; i < 4; i++)
		time += stream_delay(s);
	push(s, (struct event){.time = time,
			       .kind = EV_REQUEST,
			       .node = to,
			       .from = from,
			       .sender = s->nodes[from].id,
			       .generation = generation_of(s, from),
			       .life = s->nodes[to].life,
			       .stream = number,
			       .len = (uint32_t)a->len,
			       .bytes = copy_bytes(a->bytes, a->len)});
}

static void send_reply(struct gossip_sim *s, uint32_t from, const struct tfc__gossip_action *a)
{
	const struct stream *stream = &s->streams[a->stream];
	s->counts.stream_bytes += a->len;
	if (is_cut(s, from, stream->asker))
		return;
	push(s, (struct event){.time = s->now + stream_delay(s),
			       .kind = a->len ? EV_RESPONSE : EV_FAILED,
			       .node = stream->asker,
			       .from = from,
			       .sender = s->nodes[from].id,
			       .generation = generation_of(s, from),
			       .life = stream->life,
			       .stream = stream->core_stream,
			       .len = (uint32_t)a->len,
			       .bytes = copy_bytes(a->bytes, a->len)});
}

/* ---- what the cores report */

static bool is_judge(const struct gossip_sim *s, uint32_t node)
{
	const struct node *n = &s->nodes[node];
	return n->core && n->stalled_until <= s->now && n->excused_until <= s->now;
}

/* What was believed of a sleeper is still on its way when it wakes. */
static bool is_healthy(const struct gossip_sim *s, uint32_t node)
{
	const struct node *n = &s->nodes[node];
	return is_judge(s, node) && (!n->stalled_until || n->stalled_until + GS_SECOND <= s->now);
}

static void report_member(struct gossip_sim *s, uint32_t observer,
			  const struct tfc__gossip_action *a)
{
	uint32_t member = node_at(s, &a->member.address);
	hash_add(s, s->now);
	hash_add(s, (uint64_t)observer << 32 | member);
	hash_add(s, a->member.incarnation ^ (uint64_t)a->member.state << 60 ^
			    (uint64_t)a->changes << 50);
	if (!(a->changes & TFC__GOSSIP_STATE_CHANGED) || member == UINT32_MAX)
		return;
	struct node *n = &s->nodes[member];
	bool is_down = a->member.state == TFC_MEMBER_DOWN;
	s->counts.downs += is_down;
	if (is_down && !n->core && n->killed_at && n->detection_count < s->options.nodes)
		n->detections[n->detection_count++] = s->now - n->killed_at;
	if (!is_judge(s, observer) || !n->core)
		return;
	if (is_healthy(s, member)) {
		s->counts.false_downs += is_down;
		s->counts.false_suspects += a->member.state == TFC_MEMBER_SUSPECT;
	} else {
		s->counts.stalled_downs += is_down;
	}
	if (getenv("GOSSIP_LOUD") && is_down)
		fprintf(stderr, "%.3f: %u says %u is down%s\n", (double)s->now / 1e9, observer,
			member, is_healthy(s, member) ? ", which is false" : "");
}

static void step(struct gossip_sim *s, uint32_t node, const struct tfc__gossip_event *event);

static void carry_out(struct gossip_sim *s, uint32_t node, const struct tfc__gossip_action *a)
{
	struct node *n = &s->nodes[node];
	switch (a->kind) {
	case TFC__GOSSIP_DO_SEND:
		send_datagram(s, node, a);
		return;
	case TFC__GOSSIP_DO_REQUEST:
		send_request(s, node, a);
		return;
	case TFC__GOSSIP_DO_REPLY:
		send_reply(s, node, a);
		return;
	case TFC__GOSSIP_DO_MEMBER:
		report_member(s, node, a);
		return;
	case TFC__GOSSIP_DO_CONFLICT:
		s->counts.conflicts++;
		s->counts.self_lost += a->is_self_lost;
		break;
	case TFC__GOSSIP_DO_GENERATION:
		s->counts.generations++;
		n->generation = a->generation + 1; /* reported in gossip_sim_run: after the step */
		break;
	case TFC__GOSSIP_DO_JOINED:
		s->counts.joined++;
		break;
	case TFC__GOSSIP_DO_JOIN_FAILED:
		s->counts.join_failed++;
		push(s, (struct event){.time = s->now + GS_SECOND,
				       .kind = EV_JOIN,
				       .node = node,
				       .life = n->life});
		break;
	case TFC__GOSSIP_DO_LEFT:
		s->counts.left++;
		break;
	case TFC__GOSSIP_DO_CUT_OFF:
		s->counts.cut_offs += a->is_cut_off;
		s->counts.cut_off_ends += !a->is_cut_off;
		break;
	case TFC__GOSSIP_DO_FULL:
		s->counts.full++;
		break;
	}
	hash_add(s, s->now ^ (uint64_t)a->kind << 56 ^ (uint64_t)node << 32);
}

static void plan_tick(struct gossip_sim *s, uint32_t node)
{
	struct node *n = &s->nodes[node];
	uint64_t at = tfc__gossip_wake_at(n->core);
	if (at == UINT64_MAX)
		return;
	at = time_of(n, at);
	if (at <= s->now)
		at = s->now + 1000;
	if (at >= n->tick_at && n->tick_at > s->now)
		return; /* a tick comes before; it plans the next */
	n->tick_at = at;
	push(s, (struct event){.time = at,
			       .kind = EV_TICK,
			       .node = node,
			       .life = n->life,
			       .from = ++n->tick});
}

static void step(struct gossip_sim *s, uint32_t node, const struct tfc__gossip_event *event)
{
	struct node *n = &s->nodes[node];
	uint32_t generation = n->generation;
	int code = tfc__gossip_step(n->core, event, clock_of(n, s->now));
	assert_true(code == TFC_OK || code == TFC_EPARSE);
	const struct tfc__gossip_action *a;
	while ((a = tfc__gossip_next(n->core)))
		carry_out(s, node, a);
	if (n->generation != generation) {
		struct tfc__gossip_event stored = {.kind = TFC__GOSSIP_GENERATION,
						   .generation = n->generation};
		step(s, node, &stored);
		return;
	}
	plan_tick(s, node);
}

void gossip_sim_event(struct gossip_sim *s, uint32_t node, const struct tfc__gossip_event *event)
{
	step(s, node, event);
}

void gossip_sim_inject(struct gossip_sim *s, uint32_t node, const struct tfc__gossip_id *sender,
		       uint32_t generation, const uint8_t *bytes, size_t len)
{
	struct tfc__gossip_event e = {.kind = TFC__GOSSIP_DATAGRAM,
				      .from = gossip_sim_address(s, 0),
				      .id = *sender,
				      .generation = generation,
				      .bytes = bytes,
				      .len = len};
	step(s, node, &e);
}

/* ---- running */

static void join_seed(struct gossip_sim *s, uint32_t node)
{
	struct tfc__gossip_address to = gossip_sim_address(s, s->nodes[node].seed);
	struct tfc__gossip_event join = {.kind = TFC__GOSSIP_JOIN, .addresses = &to, .count = 1};
	step(s, node, &join);
}

static void deliver(struct gossip_sim *s, const struct event *e)
{
	static const enum tfc__gossip_event_kind kinds[] = {
		[EV_TICK] = TFC__GOSSIP_TICK,
		[EV_DATAGRAM] = TFC__GOSSIP_DATAGRAM,
		[EV_REQUEST] = TFC__GOSSIP_REQUEST,
		[EV_RESPONSE] = TFC__GOSSIP_RESPONSE,
		[EV_FAILED] = TFC__GOSSIP_STREAM_FAILED,
	};
	struct tfc__gossip_event event = {.kind = kinds[e->kind],
					  .id = e->sender,
					  .generation = e->generation,
					  .bytes = e->bytes,
					  .len = e->len,
					  .stream = e->stream};
	if (e->kind == EV_DATAGRAM)
		event.from = gossip_sim_address(s, e->from);
	step(s, e->node, &event);
}

static void inbox_add(struct node *n, const struct event *e)
{
	if (n->inbox_count == n->inbox_capacity) {
		n->inbox_capacity = n->inbox_capacity ? 2 * n->inbox_capacity : 16;
		n->inbox = realloc(n->inbox, n->inbox_capacity * sizeof(*n->inbox));
		assert_non_null(n->inbox);
	}
	n->inbox[n->inbox_count++] = *e;
}

static void wake(struct gossip_sim *s, uint32_t node)
{
	struct node *n = &s->nodes[node];
	struct tfc__gossip_event tick = {.kind = TFC__GOSSIP_TICK};
	if (n->stalled_until > s->now)
		return; /* it was stalled again meanwhile */
	if (!n->is_draining)
		step(s, node, &tick);
	for (uint32_t i = 0; i < n->inbox_count; i++) {
		deliver(s, &n->inbox[i]);
		free(n->inbox[i].bytes);
	}
	n->inbox_count = 0;
	step(s, node, &tick);
}

static void handle(struct gossip_sim *s, const struct event *e)
{
	struct node *n = &s->nodes[e->node];
	if (!n->core || e->life != n->life) {
		free(e->bytes);
		return;
	}
	if (e->kind == EV_WAKE) {
		wake(s, e->node);
		return;
	}
	if (e->kind == EV_JOIN && n->seed != UINT32_MAX) {
		join_seed(s, e->node); /* the host tries again until somebody is there */
		return;
	}
	if (e->kind == EV_TICK) {
		if (e->from != n->tick)
			return;
		n->tick_at = UINT64_MAX;
		if (n->stalled_until <= s->now)
			deliver(s, e);
		return;
	}
	bool is_sent_to_it = e->kind == EV_DATAGRAM || e->kind == EV_REQUEST ||
			     e->kind == EV_RESPONSE;
	if (n->stalled_until > s->now && n->is_suspended && is_sent_to_it) {
		free(e->bytes);
		return;
	}
	if (n->stalled_until > s->now) {
		inbox_add(n, e);
		return;
	}
	deliver(s, e);
	free(e->bytes);
}

void gossip_sim_run(struct gossip_sim *s, uint64_t length)
{
	uint64_t end = s->now + length;
	while (s->count && s->heap[0].time <= end) {
		struct event e = pop(s);
		s->now = e.time;
		handle(s, &e);
	}
	s->now = end;
}

bool gossip_sim_run_until(struct gossip_sim *s, uint64_t limit_ns,
			  bool (*is_true)(struct gossip_sim *s, void *user), void *user)
{
	uint64_t end = s->now + limit_ns;
	while (!is_true(s, user)) {
		if (s->now >= end)
			return false;
		gossip_sim_run(s, 10 * GS_MS);
	}
	return true;
}

/* ---- what happens to nodes */

void gossip_sim_disguise(struct gossip_sim *s, uint32_t node, const struct tfc__gossip_id *id,
			 const uint32_t *generation, const char *name, bool is_moved)
{
	struct node *n = &s->nodes[node];
	if (id)
		n->id = *id;
	if (generation)
		n->generation = *generation - 1;
	if (name)
		snprintf(n->name, sizeof(n->name), "%s", name);
	n->port += is_moved;
}

void gossip_sim_start(struct gossip_sim *s, uint32_t node, uint32_t seed)
{
	struct node *n = &s->nodes[node];
	uint8_t meta[TFC__GOSSIP_META_MAX] = {0};
	assert_null(n->core);
	struct tfc__gossip_options o = s->options.core;
	o.id = n->id;
	o.generation = ++n->generation;
	o.name = n->name;
	o.address = gossip_sim_address(s, node);
	o.meta = meta;
	o.meta_len = s->options.meta_len;
	o.seed = tfc__random_next(&s->random);
	n->life++;
	n->tick_at = UINT64_MAX;
	n->is_silent = false;
	n->stalled_until = 0;
	n->core = tfc__gossip_new(&o, clock_of(n, s->now));
	assert_non_null(n->core);
	plan_tick(s, node);
	n->seed = seed;
	if (seed != UINT32_MAX)
		join_seed(s, node);
}

void gossip_sim_kill(struct gossip_sim *s, uint32_t node, bool is_silent)
{
	struct node *n = &s->nodes[node];
	tfc__gossip_free(n->core);
	n->core = NULL;
	n->is_silent = is_silent;
	n->killed_at = s->now;
	n->detection_count = 0;
	if (!n->detections)
		n->detections = calloc(s->options.nodes, sizeof(uint64_t));
	assert_non_null(n->detections);
	for (uint32_t i = 0; i < n->inbox_count; i++)
		free(n->inbox[i].bytes);
	n->inbox_count = 0;
}

void gossip_sim_leave(struct gossip_sim *s, uint32_t node)
{
	struct tfc__gossip_event leave = {.kind = TFC__GOSSIP_LEAVE};
	step(s, node, &leave);
}

void gossip_sim_stall(struct gossip_sim *s, uint32_t node, uint64_t length, bool is_draining)
{
	struct node *n = &s->nodes[node];
	n->stalled_until = s->now + length;
	n->is_draining = is_draining;
	n->is_suspended = false;
	push(s, (struct event){
			.time = n->stalled_until, .kind = EV_WAKE, .node = node, .life = n->life});
}

void gossip_sim_suspend(struct gossip_sim *s, uint32_t node, uint64_t length, bool does_clock_stop)
{
	struct node *n = &s->nodes[node];
	gossip_sim_stall(s, node, length, false);
	n->is_suspended = true;
	if (does_clock_stop)
		n->ahead_ns -= (int64_t)length;
}

void gossip_sim_jump(struct gossip_sim *s, uint32_t node, uint64_t length)
{
	s->nodes[node].ahead_ns += (int64_t)length;
	plan_tick(s, node);
}

void gossip_sim_cut(struct gossip_sim *s, uint32_t from, uint32_t to, bool is_cut_now)
{
	if (!s->cuts)
		s->cuts = calloc(s->options.nodes, s->options.nodes);
	assert_non_null(s->cuts);
	s->cuts[(size_t)from * s->options.nodes + to] = is_cut_now;
}

void gossip_sim_group(struct gossip_sim *s, uint32_t node, uint32_t group)
{
	s->nodes[node].group = group;
}

void gossip_sim_excuse(struct gossip_sim *s, uint32_t node, uint64_t until)
{
	s->nodes[node].excused_until = until;
}

void gossip_sim_set_loss(struct gossip_sim *s, uint32_t loss_ppm)
{
	s->options.loss_ppm = loss_ppm;
}

/* ---- queries */

uint64_t gossip_sim_hash(const struct gossip_sim *s)
{
	return s->hash;
}

struct gossip_sim_counts *gossip_sim_counts(struct gossip_sim *s)
{
	return &s->counts;
}

struct tfc__gossip *gossip_sim_core(struct gossip_sim *s, uint32_t node)
{
	return s->nodes[node].core;
}

bool gossip_sim_is_running(const struct gossip_sim *s, uint32_t node)
{
	return s->nodes[node].core;
}

uint32_t gossip_sim_state(struct gossip_sim *s, uint32_t observer, uint32_t member)
{
	struct tfc__gossip_member m;
	return tfc__gossip_find(s->nodes[observer].core, &s->nodes[member].id, &m) ? m.state : 0;
}

bool gossip_sim_is_converged(struct gossip_sim *s, void *unused)
{
	(void)unused;
	uint32_t running = 0;
	for (uint32_t i = 0; i < s->options.nodes; i++)
		running += s->nodes[i].core != NULL;
	for (uint32_t k = 0; k < s->options.nodes; k++) {
		uint32_t i = (s->last_behind + k) % s->options.nodes;
		struct tfc__gossip *g = s->nodes[i].core;
		if (!g)
			continue;
		s->last_behind = i;
		if (tfc__gossip_count(g) < running)
			return false;
		uint32_t alive = 0;
		for (uint32_t j = 0; j < tfc__gossip_count(g); j++) {
			struct tfc__gossip_member m;
			tfc__gossip_at(g, j, &m);
			uint32_t node = node_at(s, &m.address);
			bool is_running = node != UINT32_MAX && s->nodes[node].core;
			bool is_there = m.state == TFC_MEMBER_ALIVE ||
					m.state == TFC_MEMBER_SUSPECT;
			if (is_there != is_running)
				return false;
			alive += is_there;
		}
		if (alive != running)
			return false;
	}
	return true;
}

struct gossip_sim_push_pulls gossip_sim_push_pulls(const struct gossip_sim *s)
{
	struct gossip_sim_push_pulls p = {.fewest = UINT32_MAX};
	for (uint32_t i = 0; i < s->options.nodes; i++) {
		const struct node *n = &s->nodes[i];
		if (!n->core)
			continue;
		p.fewest = n->push_pulls < p.fewest ? n->push_pulls : p.fewest;
		p.most = n->push_pulls > p.most ? n->push_pulls : p.most;
	}
	return p;
}

void gossip_sim_push_pulls_clear(struct gossip_sim *s)
{
	for (uint32_t i = 0; i < s->options.nodes; i++)
		s->nodes[i].push_pulls = 0;
}

static int compare_times(const void *a, const void *b)
{
	uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
	return (first > second) - (first < second);
}

uint32_t gossip_sim_detections(struct gossip_sim *s, uint32_t member, const uint64_t **ret_times)
{
	struct node *n = &s->nodes[member];
	qsort(n->detections, n->detection_count, sizeof(uint64_t), compare_times);
	*ret_times = n->detections;
	return n->detection_count;
}

/* ---- life */

/* As if all had joined long ago: each gets the records of all in a response to its join. */
static void start_warm(struct gossip_sim *s)
{
	uint32_t count = s->options.nodes;
	uint8_t *bytes = malloc(64 + (size_t)count * 700), meta[TFC__GOSSIP_META_MAX] = {0};
	assert_non_null(bytes);
	struct tfc__gossip_message m = {.type = TFC__GOSSIP_RANGE};
	for (uint32_t i = 0; i < count; i++)
		gossip_sim_start(s, i, UINT32_MAX);
	uint8_t *end = tfc__gossip_write_header(bytes, UINT64_C(1) << 32);
	end = tfc__gossip_write(end, &m);
	for (uint32_t i = 0; i < count; i++) {
		const struct node *n = &s->nodes[i];
		m = (struct tfc__gossip_message){.type = TFC__GOSSIP_RECORD,
						 .id = n->id,
						 .incarnation = (uint64_t)n->generation << 32,
						 .state = TFC_MEMBER_ALIVE,
						 .address = gossip_sim_address(s, i),
						 .name = (const uint8_t *)n->name,
						 .name_len = strlen(n->name),
						 .meta = meta,
						 .meta_len = s->options.meta_len};
		end = tfc__gossip_write(end, &m);
	}
	struct tfc__gossip_event e = {.kind = TFC__GOSSIP_RESPONSE,
				      .id = s->nodes[0].id,
				      .generation = 1,
				      .bytes = bytes,
				      .len = (size_t)(end - bytes),
				      .stream = 1};
	for (uint32_t i = 1; i < count; i++) {
		struct tfc__gossip_address to = gossip_sim_address(s, 0);
		struct tfc__gossip_event join = {.kind = TFC__GOSSIP_JOIN,
						 .addresses = &to,
						 .count = 1};
		assert_int_equal(tfc__gossip_step(s->nodes[i].core, &join, s->now), TFC_OK);
		step(s, i, &e);
	}
	e.kind = TFC__GOSSIP_JOIN;
	struct tfc__gossip_address to = gossip_sim_address(s, 1);
	e.addresses = &to;
	e.count = count > 1;
	step(s, 0, &e);
	free(bytes);
}

uint64_t gossip_sim_start_all(struct gossip_sim *s, uint64_t limit_ns)
{
	if (s->options.is_warm)
		start_warm(s);
	for (uint32_t i = 0; i < s->options.nodes; i++) {
		gossip_sim_excuse(s, i, UINT64_MAX);
		if (!s->nodes[i].core)
			gossip_sim_start(s, i, i ? 0 : UINT32_MAX);
	}
	assert_true(gossip_sim_run_until(s, limit_ns, gossip_sim_is_converged, NULL));
	uint64_t converged = s->now;
	gossip_sim_run(s, 5 * GS_SECOND);
	for (uint32_t i = 0; i < s->options.nodes; i++)
		gossip_sim_excuse(s, i, 0);
	s->counts = (struct gossip_sim_counts){0};
	return converged;
}

struct gossip_sim *gossip_sim_new(const struct gossip_sim_options *options)
{
	struct gossip_sim *s = calloc(1, sizeof(*s));
	assert_non_null(s);
	s->options = *options;
	if (!s->options.delay_ns)
		s->options.delay_ns = GS_MS / 5;
	if (!s->options.jitter_ns)
		s->options.jitter_ns = GS_MS / 2;
	s->random = options->seed;
	s->now = GS_SECOND;
	s->nodes = calloc(options->nodes, sizeof(*s->nodes));
	assert_non_null(s->nodes);
	for (uint32_t i = 0; i < options->nodes; i++) {
		struct node *n = &s->nodes[i];
		n->id = gossip_sim_id(i);
		n->port = 22200;
		snprintf(n->name, sizeof(n->name), "node-%u", i);
		if (options->drift_ppm)
			n->drift_ppm = gossip_sim_random(s, options->drift_ppm);
	}
	return s;
}

void gossip_sim_free(struct gossip_sim *s)
{
	for (uint32_t i = 0; i < s->options.nodes; i++) {
		struct node *n = &s->nodes[i];
		tfc__gossip_free(n->core);
		for (uint32_t j = 0; j < n->inbox_count; j++)
			free(n->inbox[j].bytes);
		free(n->inbox);
		free(n->detections);
	}
	for (size_t i = 0; i < s->count; i++)
		free(s->heap[i].bytes);
	free(s->heap);
	free(s->streams);
	free(s->cuts);
	free(s->nodes);
	free(s);
}
