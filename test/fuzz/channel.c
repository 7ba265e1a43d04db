/* transport: what comes over a pipe before the other end has shown its key. Whatever it is: with
 * Noise, no peer comes up, no more than the handshake's own messages go back, and the end is
 * reported once. */
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"
#include "transport/channel.h"

#define ADDRESS "memory:fuzz"
#define PREAMBLE 16
#define SECOND 100 /* the acceptor's answer to a first message that opens */

/* So that a first message of the corpus opens. */
#define KEY                        \
	"tfcluster-key 1 node %s " \
	"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"
#define KEY_ID "035f9fe89339c9aa"

static tfc_ctx *ctx;
static struct tfc__keyring *keyring;
static struct tfc__identity *identity;

struct end {
	struct tfc__channel *channel;
	unsigned ups, downs;
	tfc_pipe *raw; /* the other end of its pipe, which is the fuzzer's */
	bool is_noise, is_dialer;
	size_t answered; /* bytes that came back */
	uint8_t answer[512];
};

static void on_up(void *user)
{
	((struct end *)user)->ups++;
}

static void on_message(void *user, const void *data, size_t len)
{
	struct end *end = user;
	uint8_t sum = 0;
	CHECK(end->ups == 1 && !end->downs && !end->is_noise);
	for (size_t i = 0; i < len; i++) /* a sanitizer looks whether it is all there */
		sum = (uint8_t)(sum + ((const uint8_t *)data)[i]);
	(void)sum;
}

static void on_down(void *user, const tfc_error *why)
{
	struct end *end = user;
	end->downs++;
	fuzz_check_error(why->code, why);
}

static const struct tfc__channel_ops ops = {on_up, on_message, NULL, NULL, on_down};

static void on_raw(void *user, uint32_t events)
{
}

static struct tfc__channel_options options_of(const struct end *end)
{
	return (struct tfc__channel_options){
		.is_dialer = end->is_dialer,
		.is_noise = end->is_noise,
		.keyring = keyring,
		.identity = identity,
	};
}

static int on_pipe(void *user, tfc_pipe *pipe)
{
	struct end *end = user;
	const struct tfc__channel_options options = options_of(end);
	if (!end->is_dialer)
		return tfc__channel_accept(ctx, pipe, &options, &ops, end, &end->channel);
	end->raw = pipe;
	tfc__pipe_set_owner(pipe, on_raw, end);
	return TFC_OK;
}

static void turn(void)
{
	while (tfc_ctx_dispatch(ctx, 0) > 0)
		;
}

static void begin(struct end *end, tfc_listener **ret_listener)
{
	const struct tfc__channel_options options = options_of(end);
	CHECK(tfc__listener_open(ctx, ADDRESS, 0, on_pipe, end, NULL, ret_listener) == TFC_OK);
	int code = end->is_dialer ? tfc__channel_dial(ctx, ADDRESS, 0, &options, &ops, end, NULL,
						      &end->channel)
				  : tfc__pipe_dial(ctx, ADDRESS, 0, on_raw, end, NULL, &end->raw);
	CHECK(code == TFC_OK);
	CHECK(end->channel && end->raw);
	turn();
}

static void receive(struct end *end)
{
	tfc_error error = TFC_ERROR_INIT;
	size_t room = sizeof(end->answer) - end->answered;
	int64_t count = tfc__pipe_read(end->raw, end->answer + end->answered, room, &error);
	CHECK(count < (int64_t)room);
	end->answered += count > 0 ? (size_t)count : 0;
}

static void say(struct end *end, struct fuzz_input *input)
{
	tfc_error error = TFC_ERROR_INIT;
	size_t len, wanted = (size_t)fuzz_number(input, 1) + 1;
	const uint8_t *bytes = fuzz_bytes(input, wanted, &len);
	if (len && tfc__pipe_write(end->raw, bytes, len, &error) < 0)
		CHECK(end->downs == 1);
	turn();
	receive(end);
}

/* What an end says that is not up, or just up. */
static void check_response(const struct end *end)
{
	CHECK(end->ups <= 1 && end->downs <= 1);
	if (end->is_noise) {
		CHECK(!end->ups);
		CHECK(end->is_dialer ? end->answered == PREAMBLE + 4 + 48
				     : end->answered == 0 || end->answered == PREAMBLE ||
					       end->answered == SECOND ||
					       end->answered == SECOND + PREAMBLE);
	} else {
		CHECK(end->answered == PREAMBLE || (!end->is_dialer && !end->answered));
		CHECK(end->ups || end->downs || end->is_dialer || !end->answered);
	}
	if (end->answered && end->answered <= PREAMBLE)
		CHECK(memcmp(end->answer, "\x89TFC\x01", 5) == 0);
}

static void set_up(void)
{
	char path[512];
	FILE *file;
	snprintf(path, sizeof(path), "%s/keys", fuzz_dir());
	CHECK((file = fopen(path, "we")) && fchmod(fileno(file), 0600) == 0);
	fprintf(file, KEY, KEY_ID);
	fclose(file);
	CHECK(tfc__keyring_load(path, NULL, &keyring) == TFC_OK);
	CHECK(tfc__identity_open(NULL, NULL, &identity) == TFC_OK);
	CHECK(tfc_ctx_new(NULL, NULL, &ctx) == TFC_OK);
}

static void __attribute__((destructor)) tear_down(void)
{
	tfc__keyring_free(keyring);
	tfc__identity_free(identity);
	tfc_ctx_free(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = {data, size};
	tfc_listener *listener;
	struct end end = {0};
	if (!ctx)
		set_up();
	uint8_t kind = (uint8_t)fuzz_number(&input, 1);
	end.is_noise = kind & 1;
	end.is_dialer = kind & 2;
	begin(&end, &listener);
	receive(&end);
	while (input.len)
		say(&end, &input);
	check_response(&end);
	tfc__pipe_close(end.raw);
	turn();
	CHECK(end.downs == 1);
	tfc__channel_close(end.channel);
	tfc__listener_close(listener);
	turn();
	return 0;
}
