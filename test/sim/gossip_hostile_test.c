/* gossip: datagrams that no member of ours would send. They are authenticated, but a defect
 * elsewhere must neither kill a node nor fill its memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "gossip_sim.h"
#include "member/gossip_message.h"
#include "transport/datagram.h"
#include "wire/sealed.h"
#include <tfcluster/error.h>

struct frame {
	struct tfc__gossip_id sender;
	uint32_t generation; /* of the sender */
	uint8_t bytes[4096];
	size_t len;
	size_t ends[64]; /* of the header and of each message */
	size_t count;
};

static void frame_begin(struct frame *f, const struct tfc__gossip_id *sender, uint64_t incarnation)
{
	f->sender = *sender;
	f->generation = tfc__gossip_generation(incarnation);
	f->len = (size_t)(tfc__gossip_write_header(f->bytes, incarnation) - f->bytes);
	f->count = 0;
	f->ends[f->count++] = f->len;
}

static void frame_add(struct frame *f, const struct tfc__gossip_message *m)
{
	f->len = (size_t)(tfc__gossip_write(f->bytes + f->len, m) - f->bytes);
	f->ends[f->count++] = f->len;
}

static struct tfc__gossip_message record(uint32_t node, uint64_t incarnation, const char *name)
{
	static const uint8_t meta[3] = {1, 2, 3};
	struct tfc__gossip_message m = {.type = TFC__GOSSIP_RECORD,
					.id = gossip_sim_id(node),
					.incarnation = incarnation,
					.state = TFC_MEMBER_ALIVE,
					.address = {.ip = {[12] = 11}, .port = 7},
					.name = (const uint8_t *)name,
					.name_len = strlen(name),
					.meta = meta,
					.meta_len = sizeof(meta)};
	return m;
}

static uint64_t incarnation_of(uint32_t generation, uint32_t counter)
{
	return (uint64_t)generation << 32 | counter;
}

static struct gossip_sim *new_world(uint32_t nodes, uint32_t member_max)
{
	struct gossip_sim_options o = {.nodes = nodes, .seed = 1, .is_warm = true};
	o.core.member_max = member_max;
	struct gossip_sim *s = gossip_sim_new(&o);
	gossip_sim_start_all(s, 10 * GS_SECOND);
	return s;
}

/* A frame with each kind of message. */
static void frame_of_all(struct frame *f)
{
	struct tfc__gossip_id id = gossip_sim_id(1), self = gossip_sim_id(0);
	uint8_t hashes[8 * TFC__GOSSIP_BUCKETS] = {0};
	struct tfc__gossip_message m = record(77, incarnation_of(1, 1), "other");
	frame_begin(f, &id, incarnation_of(1, 0));
	frame_add(f, &m);
	m.id = self;
	m.from = id;
	m.hashes = hashes;
	m.seq = 5;
	for (uint32_t type = TFC__GOSSIP_PING; type <= TFC__GOSSIP_RANGE; type++) {
		m.type = (enum tfc__gossip_type)type;
		if (m.type != TFC__GOSSIP_RECORD)
			frame_add(f, &m);
	}
}

static bool is_an_end(const struct frame *f, size_t len)
{
	for (size_t i = 0; i < f->count; i++)
		if (f->ends[i] == len)
			return true;
	return false;
}

static int step_of(struct gossip_sim *s, const struct frame *f, size_t len)
{
	struct tfc__gossip_event e = {.kind = TFC__GOSSIP_DATAGRAM,
				      .from = gossip_sim_address(s, 1),
				      .id = f->sender,
				      .generation = f->generation,
				      .bytes = f->bytes,
				      .len = len};
	return tfc__gossip_step(gossip_sim_core(s, 0), &e, gossip_sim_now(s));
}

static void inject(struct gossip_sim *s, uint32_t node, const struct frame *f)
{
	gossip_sim_inject(s, node, &f->sender, f->generation, f->bytes, f->len);
}

static void what_is_cut_short_changes_nothing(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(3, 0);
	struct frame f;
	frame_of_all(&f);
	for (size_t len = 0; len < f.len; len++) {
		if (is_an_end(&f, len))
			continue;
		assert_int_equal(step_of(s, &f, len), TFC_EPARSE);
		assert_null(tfc__gossip_next(gossip_sim_core(s, 0)));
		assert_int_equal(tfc__gossip_count(gossip_sim_core(s, 0)), 3);
	}
	assert_int_equal(step_of(s, &f, f.len), TFC_OK);
	assert_int_equal(tfc__gossip_count(gossip_sim_core(s, 0)), 4);
	gossip_sim_free(s);
}

static void changed_bytes_are_survived(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(3, 50);
	uint64_t random = 1;
	for (int i = 0; i < 100000; i++) {
		struct frame f;
		frame_of_all(&f);
		for (uint32_t changes = 1 + (uint32_t)i % 4; changes; changes--)
			f.bytes[tfc__random_next(&random) % f.len] = (uint8_t)tfc__random_next(
				&random);
		int code = step_of(s, &f, f.len);
		assert_true(code == TFC_OK || code == TFC_EPARSE);
		assert_true(tfc__gossip_count(gossip_sim_core(s, 0)) <= 50);
	}
	gossip_sim_free(s);
}

static void a_name_or_metadata_beyond_its_limit_is_refused(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(3, 0);
	static const struct {
		size_t name_len, meta_len;
		int code;
	} cases[] = {
		{0, 0, TFC_EPARSE}, {1, 0, TFC_OK},   {63, 0, TFC_OK},      {64, 0, TFC_EPARSE},
		{1, 511, TFC_OK},   {1, 512, TFC_OK}, {1, 513, TFC_EPARSE},
	};
	uint8_t meta[600] = {0};
	char name[64];
	memset(name, 'n', sizeof(name));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tfc__gossip_id id = gossip_sim_id(1);
		struct tfc__gossip_message m = record(100 + (uint32_t)i, incarnation_of(1, 1), "x");
		struct frame f;
		m.name = (const uint8_t *)name;
		m.name_len = cases[i].name_len;
		m.meta = meta;
		m.meta_len = cases[i].meta_len;
		frame_begin(&f, &id, incarnation_of(1, 0));
		frame_add(&f, &m);
		assert_int_equal(step_of(s, &f, f.len), cases[i].code);
		struct tfc__gossip_member found;
		assert_int_equal(tfc__gossip_find(gossip_sim_core(s, 0), &m.id, &found),
				 cases[i].code == TFC_OK);
	}
	/* The longest record fits into the smallest datagram. */
	struct tfc__gossip_message m = record(1, 1, "x");
	m.name_len = TFC__GOSSIP_NAME_MAX;
	m.meta_len = TFC__GOSSIP_META_MAX;
	assert_true(TFC__GOSSIP_HEADER_SIZE + tfc__gossip_message_size(&m) <
		    TFC__GOSSIP_DATAGRAM_MIN);
	gossip_sim_free(s);
}

static void invented_members_fill_no_more_than_the_table(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(5, 1000);
	for (uint32_t i = 0; i < 10000; i++) {
		struct tfc__gossip_id id = gossip_sim_id(1);
		char name[32];
		snprintf(name, sizeof(name), "fake-%u", i);
		struct tfc__gossip_message m = record(1000 + i, incarnation_of(1, 1), name);
		struct frame f;
		frame_begin(&f, &id, incarnation_of(1, 0));
		frame_add(&f, &m);
		inject(s, 0, &f);
	}
	assert_int_equal(tfc__gossip_count(gossip_sim_core(s, 0)), 1000);
	assert_int_equal(gossip_sim_counts(s)->full, 1);
	gossip_sim_run(s, 60 * GS_SECOND);
	assert_true(tfc__gossip_count(gossip_sim_core(s, 4)) <= 1000);
	for (uint32_t i = 0; i < 5; i++)
		for (uint32_t j = 0; j < 5; j++)
			assert_int_equal(gossip_sim_state(s, i, j), TFC_MEMBER_ALIVE);
	gossip_sim_free(s);
}

/* The reports of a step about members, as "+first alive, ~second down". */
static void reports_of(struct tfc__gossip *g, const struct tfc__gossip_message *m, char *text,
		       size_t size)
{
	struct frame f;
	struct tfc__gossip_id sender = gossip_sim_id(1);
	const struct tfc__gossip_action *a;
	frame_begin(&f, &sender, incarnation_of(1, 0));
	frame_add(&f, m);
	struct tfc__gossip_event e = {.kind = TFC__GOSSIP_DATAGRAM,
				      .id = f.sender,
				      .generation = f.generation,
				      .bytes = f.bytes,
				      .len = f.len};
	assert_int_equal(tfc__gossip_step(g, &e, GS_SECOND), TFC_OK);
	size_t len = 0;
	text[0] = '\0';
	while ((a = tfc__gossip_next(g))) {
		struct tfc__gossip_id first = gossip_sim_id(900);
		if (a->kind != TFC__GOSSIP_DO_MEMBER)
			continue;
		bool is_first = memcmp(&a->member.id, &first, sizeof(first)) == 0;
		len += (size_t)snprintf(text + len, size - len, "%s%c%s %s", len ? ", " : "",
					a->changes & TFC__GOSSIP_REMOVED ? '-'
					: a->changes & TFC__GOSSIP_ADDED ? '+'
									 : '~',
					is_first ? "first" : "second",
					tfc_member_state_name(a->member.state));
	}
}

/* Otherwise the second would never be reported again: not even its end. */
static void a_name_passes_on_when_the_member_that_has_it_is_gone(void **state)
{
	(void)state;
	const struct tfc__gossip_options options = {.id = gossip_sim_id(0),
						    .generation = 1,
						    .name = "self",
						    .seed = 1};
	struct tfc__gossip *g = tfc__gossip_new(&options, GS_SECOND);
	struct tfc__gossip_message first = record(900, incarnation_of(2, 1), "twin");
	struct tfc__gossip_message second = record(901, incarnation_of(1, 1), "twin");
	char text[200];
	reports_of(g, &first, text, sizeof(text));
	assert_string_equal(text, "+first alive");
	reports_of(g, &second, text, sizeof(text));
	assert_string_equal(text, "");
	first.type = second.type = TFC__GOSSIP_DOWN;
	reports_of(g, &first, text, sizeof(text));
	assert_string_equal(text, "~first down, -first down, +second alive");
	reports_of(g, &second, text, sizeof(text));
	assert_string_equal(text, "~second down");
	tfc__gossip_free(g);
}

static void accuse(struct gossip_sim *s, uint32_t at, uint32_t member, enum tfc__gossip_type type,
		   uint64_t incarnation)
{
	struct tfc__gossip_id id = gossip_sim_id(1);
	struct tfc__gossip_message m = {.type = type,
					.id = gossip_sim_id(member),
					.incarnation = incarnation,
					.from = id};
	struct frame f;
	frame_begin(&f, &id, incarnation_of(1, 0));
	frame_add(&f, &m);
	inject(s, at, &f);
}

static uint64_t incarnation_at(struct gossip_sim *s, uint32_t observer, uint32_t member)
{
	struct tfc__gossip_member m;
	struct tfc__gossip_id id = gossip_sim_id(member);
	assert_true(tfc__gossip_find(gossip_sim_core(s, observer), &id, &m));
	return m.incarnation;
}

static void an_incarnation_at_its_end_leads_to_the_next_generation(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(4, 0);
	/* Beyond the limit: malformed. */
	accuse(s, 2, 2, TFC__GOSSIP_SUSPECT, incarnation_of(1, TFC__GOSSIP_LIMIT));
	accuse(s, 2, 2, TFC__GOSSIP_SUSPECT, incarnation_of(TFC__GOSSIP_LIMIT, 0));
	accuse(s, 2, 2, TFC__GOSSIP_SUSPECT, UINT64_MAX);
	assert_int_equal(incarnation_at(s, 2, 2), incarnation_of(1, 0));
	accuse(s, 2, 2, TFC__GOSSIP_SUSPECT, incarnation_of(1, TFC__GOSSIP_LIMIT - 3));
	assert_int_equal(incarnation_at(s, 2, 2), incarnation_of(1, TFC__GOSSIP_LIMIT - 2));
	accuse(s, 2, 2, TFC__GOSSIP_DOWN, incarnation_of(1, TFC__GOSSIP_LIMIT - 1));
	assert_int_equal(gossip_sim_counts(s)->generations, 1);
	assert_int_equal(incarnation_at(s, 2, 2), incarnation_of(2, 0));
	gossip_sim_run(s, 5 * GS_SECOND);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(incarnation_at(s, i, 2), incarnation_of(2, 0));
	gossip_sim_free(s);
}

static void a_leave_at_the_end_of_the_counter_is_a_leave(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(4, 0);
	accuse(s, 2, 2, TFC__GOSSIP_SUSPECT, incarnation_of(1, TFC__GOSSIP_LIMIT - 2));
	assert_int_equal(incarnation_at(s, 2, 2), incarnation_of(1, TFC__GOSSIP_LIMIT - 1));
	gossip_sim_run(s, 5 * GS_SECOND);
	gossip_sim_leave(s, 2);
	gossip_sim_run(s, 3 * GS_SECOND);
	for (uint32_t i = 0; i < 4; i++)
		if (i != 2)
			assert_int_equal(gossip_sim_state(s, i, 2), TFC_MEMBER_LEFT);
	gossip_sim_free(s);
}

/* It would be on the disk of the node for ever, and leave it no higher one. */
static void a_generation_that_no_copy_can_have_is_not_stored(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(4, 0);
	accuse(s, 2, 2, TFC__GOSSIP_DOWN, incarnation_of(TFC__GOSSIP_LIMIT - 1, 0));
	assert_int_equal(gossip_sim_counts(s)->generations, 0);
	assert_int_equal(incarnation_at(s, 2, 2), incarnation_of(1, 0));
	accuse(s, 2, 2, TFC__GOSSIP_DOWN, incarnation_of(1 << 20, 0));
	assert_int_equal(gossip_sim_counts(s)->generations, 1);
	gossip_sim_free(s);
}

/* Tables that are full differ for good, by more than a response holds. */
static void full_tables_do_not_multiply_messages(void **state)
{
	(void)state;
	struct gossip_sim_options o = {.nodes = 60, .seed = 3, .meta_len = 500};
	o.core.stream_max = 8192;
	o.core.member_max = 50;
	struct gossip_sim *s = gossip_sim_new(&o);
	for (uint32_t i = 0; i < 60; i++)
		gossip_sim_start(s, i, i ? 0 : UINT32_MAX);
	gossip_sim_run(s, 20 * GS_SECOND);
	*gossip_sim_counts(s) = (struct gossip_sim_counts){0};
	gossip_sim_run(s, 60 * GS_SECOND);
	/* a node begins two push-pulls in this time; an exchange for each of at most 64 buckets */
	assert_in_range(gossip_sim_counts(s)->requests, 1, 60 * 60);
	/* nor does a node send its record for ever to one that has no room for it */
	assert_in_range(gossip_sim_counts(s)->datagrams, 1, 60 * 60 * 30);
	gossip_sim_free(s);
}

/* The records of 60 members that join at once fill the datagrams. */
static void no_datagram_is_longer_than_1400_bytes(void **state)
{
	(void)state;
	struct gossip_sim_options o = {.nodes = 60, .seed = 4, .meta_len = 40};
	o.core.datagram_max = TFC__DATAGRAM_MAX - TFC__SEALED_OVERHEAD; /* as gossip.c has it */
	struct gossip_sim *s = gossip_sim_new(&o);
	for (uint32_t i = 0; i < 60; i++)
		gossip_sim_start(s, i, i ? 0 : UINT32_MAX);
	gossip_sim_run(s, 20 * GS_SECOND);
	gossip_sim_kill(s, 7, true);
	gossip_sim_run(s, 20 * GS_SECOND);
	uint64_t largest = gossip_sim_counts(s)->largest_datagram + TFC__SEALED_OVERHEAD;
	print_message("the longest datagram has %llu bytes\n", (unsigned long long)largest);
	assert_in_range(largest, 1350, 1400);
	gossip_sim_free(s);
}

static void a_helper_that_is_busy_says_so_at_once(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(4, 0);
	struct tfc__gossip_id id = gossip_sim_id(1);
	struct tfc__gossip_message m = {.type = TFC__GOSSIP_PING_REQ,
					.id = gossip_sim_id(3),
					.address = gossip_sim_address(s, 3)};
	struct tfc__gossip *g = gossip_sim_core(s, 0);
	const struct tfc__gossip_action *a;
	uint32_t pings = 0, nacks = 0;
	struct frame f;
	for (m.seq = 1; m.seq <= 70; m.seq++) {
		frame_begin(&f, &id, incarnation_of(1, 0));
		frame_add(&f, &m);
		assert_int_equal(step_of(s, &f, f.len), TFC_OK);
		while ((a = tfc__gossip_next(g))) {
			struct tfc__gossip_reader reader = {a->bytes, a->bytes + a->len};
			struct tfc__gossip_message sent;
			uint64_t incarnation;
			assert_int_equal(a->kind, TFC__GOSSIP_DO_SEND);
			assert_true(tfc__gossip_read_header(&reader, 1, &incarnation));
			while (tfc__gossip_read(&reader, &sent)) {
				pings += sent.type == TFC__GOSSIP_PING;
				nacks += sent.type == TFC__GOSSIP_NACK && sent.seq == m.seq;
			}
		}
	}
	assert_int_equal(pings, 64);
	assert_int_equal(nacks, 6);
	gossip_sim_free(s);
}

/* Known bug of others: a newer "down" of a member that is down was forgotten. */
static void a_late_alive_does_not_revive(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(4, 0);
	struct tfc__gossip_id id = gossip_sim_id(1);
	gossip_sim_kill(s, 3, true);
	accuse(s, 0, 3, TFC__GOSSIP_DOWN, incarnation_of(1, 1));
	assert_int_equal(gossip_sim_state(s, 0, 3), TFC_MEMBER_DOWN);
	accuse(s, 0, 3, TFC__GOSSIP_DOWN, incarnation_of(1, 10));
	struct tfc__gossip_message m = record(3, incarnation_of(1, 2), "node-3");
	m.address = gossip_sim_address(s, 3);
	struct frame f;
	frame_begin(&f, &id, incarnation_of(1, 0));
	frame_add(&f, &m);
	inject(s, 0, &f);
	assert_int_equal(gossip_sim_state(s, 0, 3), TFC_MEMBER_DOWN);
	/* One that is newer does. */
	m.incarnation = incarnation_of(1, 11);
	frame_begin(&f, &id, incarnation_of(1, 0));
	frame_add(&f, &m);
	inject(s, 0, &f);
	assert_int_equal(gossip_sim_state(s, 0, 3), TFC_MEMBER_ALIVE);
	gossip_sim_free(s);
}

static void a_datagram_is_answered_once(void **state)
{
	(void)state;
	struct gossip_sim *s = new_world(4, 0);
	struct tfc__gossip_id id = gossip_sim_id(1);
	struct tfc__gossip_message m = {.type = TFC__GOSSIP_PING, .id = gossip_sim_id(0)};
	struct frame f;
	frame_begin(&f, &id, incarnation_of(1, 0));
	for (int i = 0; i < 40; i++)
		frame_add(&f, &m);
	uint64_t datagrams = gossip_sim_counts(s)->datagrams;
	uint64_t bytes = gossip_sim_counts(s)->datagram_bytes;
	inject(s, 0, &f);
	assert_int_equal(gossip_sim_counts(s)->datagrams - datagrams, 1);
	assert_true(gossip_sim_counts(s)->datagram_bytes - bytes < f.len);
	/* A stranger is asked who it is, in fewer bytes than it sent. */
	id = gossip_sim_id(900);
	m.type = TFC__GOSSIP_QUERY;
	frame_begin(&f, &id, incarnation_of(1, 0));
	m.type = TFC__GOSSIP_NACK;
	frame_add(&f, &m);
	bytes = gossip_sim_counts(s)->datagram_bytes;
	inject(s, 0, &f);
	assert_true(gossip_sim_counts(s)->datagram_bytes - bytes <= f.len);
	gossip_sim_free(s);
}

/* The bytes that a node sends because of the frame, and the longest datagram among them. */
static size_t bytes_sent(struct gossip_sim *s, const struct frame *f,
			 const struct tfc__gossip_address *from, size_t *ret_longest)
{
	const struct tfc__gossip_event e = {.kind = TFC__GOSSIP_DATAGRAM,
					    .id = f->sender,
					    .generation = f->generation,
					    .from = *from,
					    .bytes = f->bytes,
					    .len = f->len};
	struct tfc__gossip *g = gossip_sim_core(s, 0);
	const struct tfc__gossip_action *a;
	size_t all = 0;
	*ret_longest = 0;
	assert_int_equal(tfc__gossip_step(g, &e, gossip_sim_now(s)), TFC_OK);
	while ((a = tfc__gossip_next(g)))
		if (a->kind == TFC__GOSSIP_DO_SEND) {
			all += a->len;
			*ret_longest = a->len > *ret_longest ? a->len : *ret_longest;
		}
	return all;
}

/* A datagram of a member is recorded, and replayed with a forged source. The node has much to tell.
 */
static void a_forged_source_gets_no_more_bytes_than_were_sent(void **state)
{
	(void)state;
	static const enum tfc__gossip_type types[] = {TFC__GOSSIP_PING, TFC__GOSSIP_PING_REQ,
						      TFC__GOSSIP_QUERY, TFC__GOSSIP_SUSPECT};
	struct gossip_sim *s = new_world(40, 0);
	struct tfc__gossip_id id = gossip_sim_id(1);
	struct tfc__gossip_address known = gossip_sim_address(s, 1), forged = known;
	struct frame f;
	size_t longest;
	forged.ip[12] ^= 1;
	for (uint32_t i = 2; i < 40; i++)
		accuse(s, 0, i, TFC__GOSSIP_DOWN, incarnation_of(1, 0));
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		struct tfc__gossip_message m = {.type = types[i],
						.id = gossip_sim_id(
							types[i] == TFC__GOSSIP_SUSPECT ? 0 : 3),
						.from = id,
						.incarnation = incarnation_of(1, 0),
						.address = forged,
						.seq = 5};
		frame_begin(&f, &id, incarnation_of(1, 0));
		frame_add(&f, &m);
		assert_true(bytes_sent(s, &f, &forged, &longest) <= f.len);
	}
	struct tfc__gossip_message ping = {.type = TFC__GOSSIP_PING, .seq = 6};
	frame_begin(&f, &id, incarnation_of(1, 0));
	frame_add(&f, &ping);
	bytes_sent(s, &f, &known, &longest);
	assert_true(longest > 10 * f.len);
	gossip_sim_free(s);
}

static void the_dead_are_forgotten_after_a_time(void **state)
{
	(void)state;
	struct gossip_sim_options o = {.nodes = 5, .seed = 1, .is_warm = true};
	o.core.reclaim_ns = 60 * GS_SECOND;
	struct gossip_sim *s = gossip_sim_new(&o);
	gossip_sim_start_all(s, 10 * GS_SECOND);
	gossip_sim_kill(s, 4, true);
	gossip_sim_run(s, 50 * GS_SECOND);
	assert_int_equal(tfc__gossip_count(gossip_sim_core(s, 0)), 5);
	gossip_sim_run(s, 120 * GS_SECOND); /* and push-pulls do not bring it back */
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(tfc__gossip_count(gossip_sim_core(s, i)), 4);
	gossip_sim_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_cut_short_changes_nothing),
		cmocka_unit_test(changed_bytes_are_survived),
		cmocka_unit_test(a_name_or_metadata_beyond_its_limit_is_refused),
		cmocka_unit_test(invented_members_fill_no_more_than_the_table),
		cmocka_unit_test(a_name_passes_on_when_the_member_that_has_it_is_gone),
		cmocka_unit_test(an_incarnation_at_its_end_leads_to_the_next_generation),
		cmocka_unit_test(a_leave_at_the_end_of_the_counter_is_a_leave),
		cmocka_unit_test(a_generation_that_no_copy_can_have_is_not_stored),
		cmocka_unit_test(full_tables_do_not_multiply_messages),
		cmocka_unit_test(no_datagram_is_longer_than_1400_bytes),
		cmocka_unit_test(a_helper_that_is_busy_says_so_at_once),
		cmocka_unit_test(a_late_alive_does_not_revive),
		cmocka_unit_test(a_datagram_is_answered_once),
		cmocka_unit_test(a_forged_source_gets_no_more_bytes_than_were_sent),
		cmocka_unit_test(the_dead_are_forgotten_after_a_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
