/* gossip: any datagram, request or response, as if it were authenticated: a frame is refused as a
 * whole or read to its end, no more members are remembered than the table may hold, and all that
 * goes out can be read. The first byte chooses how the rest arrives: the sender's id and
 * generation, and a frame. */
#include <string.h>
#include <tfcluster/error.h>

#include "fuzz.h"
#include "member/gossip_message.h"

enum { MEMBER_MAX = 8, DATAGRAM_MAX = 1300, GENERATION = 2 };

static void check_frame(const uint8_t *bytes, size_t len)
{
	struct tfc__gossip_reader reader = {bytes, bytes + len};
	struct tfc__gossip_message m;
	uint64_t incarnation;
	CHECK(tfc__gossip_read_header(&reader, GENERATION, &incarnation));
	while (tfc__gossip_read(&reader, &m))
		CHECK(tfc__gossip_message_size(&m) <= len);
	CHECK(reader.at == reader.end);
}

/* Returns the number of a request that was made, or 0. */
static uint64_t step(struct tfc__gossip *g, const struct tfc__gossip_event *event, uint64_t now)
{
	int code = tfc__gossip_step(g, event, now);
	uint64_t request = 0;
	const struct tfc__gossip_action *a;
	CHECK(code == TFC_OK || code == TFC_EPARSE);
	CHECK(tfc__gossip_count(g) <= MEMBER_MAX);
	while ((a = tfc__gossip_next(g))) {
		if (a->kind == TFC__GOSSIP_DO_SEND)
			CHECK(a->len && a->len <= DATAGRAM_MAX);
		if (a->len)
			check_frame(a->bytes, a->len);
		if (a->kind == TFC__GOSSIP_DO_REQUEST)
			request = a->stream;
		if (a->kind == TFC__GOSSIP_DO_MEMBER)
			CHECK(strlen(a->member.name) <= TFC__GOSSIP_NAME_MAX &&
			      a->member.meta_len <= TFC__GOSSIP_META_MAX);
	}
	return request;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tfc__gossip_options options = {.generation = GENERATION,
					      .name = "a",
					      .address = {.port = 1},
					      .seed = 1,
					      .datagram_max = DATAGRAM_MAX,
					      .member_max = MEMBER_MAX};
	const struct tfc__gossip_address seed = {.port = 2};
	uint64_t now = 1;
	struct tfc__gossip *g = tfc__gossip_new(&options, now);
	CHECK(g);
	struct tfc__gossip_event join = {.kind = TFC__GOSSIP_JOIN, .addresses = &seed, .count = 1};
	uint64_t request = step(g, &join, now);
	CHECK(request);
	static const enum tfc__gossip_event_kind kinds[] = {TFC__GOSSIP_DATAGRAM,
							    TFC__GOSSIP_REQUEST,
							    TFC__GOSSIP_RESPONSE};
	struct fuzz_input input = {data, size};
	uint64_t kind = fuzz_number(&input, 1);
	if (input.len > TFC__GOSSIP_ID_SIZE) {
		struct tfc__gossip_event event = {.kind = kinds[kind % 3],
						  .from = seed,
						  .stream = request};
		memcpy(event.id.bytes, input.at, TFC__GOSSIP_ID_SIZE);
		input.at += TFC__GOSSIP_ID_SIZE;
		input.len -= TFC__GOSSIP_ID_SIZE;
		event.generation = (uint32_t)fuzz_number(&input, 4);
		event.bytes = input.at;
		event.len = input.len;
		step(g, &event, now);
		step(g, &event, now + 1);
	}
	struct tfc__gossip_event tick = {.kind = TFC__GOSSIP_TICK};
	for (int i = 0; i < 200; i++) {
		now = tfc__gossip_wake_at(g) > now ? tfc__gossip_wake_at(g) : now + 1;
		step(g, &tick, now);
	}
	tfc__gossip_free(g);
	return 0;
}
