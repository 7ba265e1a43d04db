/*
 * From the first byte to `up`, with Noise
 *
 *     dialer                        acceptor
 *     preamble, [e, psk]     ->
 *                            <-     [e, ee, s, es]
 *     [s, se]                ->
 *                            <-     [] (welcome: an empty transport message)
 *
 * and without
 *
 *     preamble               ->
 *                            <-     preamble
 *
 * or, for a node's last will (proc/will.h), with either
 *
 *     preamble, will         ->
 *                            <-     acknowledgement, if the will is known
 *
 * An acceptor that refuses a dialer's version, key or user sends a preamble and closes the
 * connection. The preamble has the acceptor's version, and the mode REFUSED if the versions are the
 * same. It is the same for each key that the acceptor does not accept, and is sent at the same
 * point: after the first handshake message was read and decrypted, also if the acceptor does not
 * have the key. So a dialer without a key cannot find out which key ids the acceptor has. A
 * connection that is closed without it was not refused: the acceptor has ended.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "proc/will.h"
#include "transport/internal.h"

#define VERSION 1
#define MAGIC "\x89TFC"

enum { MAGIC_LEN = 4, AT_VERSION = 4, AT_MODE = 5, AT_KEY = 8 };
enum { MODE_PLAIN = 0, MODE_NOISE = 1, MODE_REFUSED = 2, MODE_WILL = TFC__WILL_MODE };

static void write_preamble(uint8_t preamble[PREAMBLE], const struct tfc__key *key)
{
	memset(preamble, 0, PREAMBLE);
	memcpy(preamble, MAGIC, MAGIC_LEN);
	preamble[AT_VERSION] = VERSION;
	preamble[AT_MODE] = key ? MODE_NOISE : MODE_PLAIN;
	if (key)
		memcpy(preamble + AT_KEY, key->id, TFC__KEY_ID_SIZE);
}

/* Reads until `early` holds `len` bytes. Returns 1 when it does, 0 when more must be received. */
static int read_early(struct tfc__channel *channel, size_t len)
{
	while (channel->early_len < len) {
		int64_t count = tfc__pipe_read(channel->pipe, channel->early + channel->early_len,
					       len - channel->early_len, &channel->failure);
		if (count <= 0)
			return (int)count;
		channel->early_len += (size_t)count;
	}
	return 1;
}

static int handshake_complete(struct tfc__channel *channel)
{
	channel->state = UP;
	tfc__noise_free(channel->noise);
	channel->noise = NULL;
	channel->ops->up(channel->user);
	return TFC_OK;
}

/* ---- Noise */

/* An acceptor that does not have the dialer's key (NULL) decrypts the message with a random one. */
static int begin_noise(struct tfc__channel *channel, const struct tfc__key *key)
{
	uint8_t unknown[TFC__NOISE_KEY];
	channel->has_key = key;
	if (key) {
		channel->key = *key;
		channel->key.secret = NULL;
	}
	if (getrandom(unknown, sizeof(unknown), 0) != (ssize_t)sizeof(unknown))
		return tfc__channel_fail(channel, TFC_ESYS, "getrandom failed: %s",
					 strerror(errno));
	const struct tfc__noise_options options = {
		.is_initiator = channel->options.is_dialer,
		.static_secret = tfc__identity_secret(channel->options.identity),
		.psk = key ? key->secret : unknown,
		.prologue = channel->preamble,
		.prologue_len = PREAMBLE,
	};
	channel->state = AWAIT_HANDSHAKE;
	return tfc__noise_new(&options, &channel->failure, &channel->noise);
}

static int write_record(struct tfc__channel *channel, const void *data, size_t len)
{
	uint8_t head[HEAD];
	write_length(head, len);
	int code = tfc__stream_put(channel, head, HEAD);
	return code < 0 ? code : tfc__stream_put(channel, data, len);
}

static int write_handshake(struct tfc__channel *channel)
{
	struct tfc__buf message = {0};
	int code = tfc__noise_write(channel->noise, NULL, 0, &message);
	if (code == TFC_OK)
		code = write_record(channel, message.data, message.len);
	else
		tfc__channel_fail(channel, code, "handshake failed: %s", tfc_err_text(code));
	tfc__buf_fini(&message);
	return code;
}

/* One handshake message carries the remote key; the key is known from that message on. */
static int check_remote_key(struct tfc__channel *channel)
{
	const uint8_t *remote = tfc__noise_remote(channel->noise);
	const char *pinned = channel->options.pinned_node_id;
	char id[TFC__NODE_ID_SIZE];
	if (!remote)
		return TFC_OK;
	memcpy(channel->remote, remote, sizeof(channel->remote));
	tfc__node_id(channel->remote, id);
	if (!pinned || strcmp(pinned, id) == 0)
		return TFC_OK;
	return tfc__channel_fail(channel, TFC_EACCES,
				 "node id mismatch: the server has %s, expected %.40s", id, pinned);
}

void tfc__handshake_refuse(struct tfc__channel *channel)
{
	const tfc_error failure = channel->failure;
	uint8_t own[PREAMBLE];
	write_preamble(own, NULL);
	own[AT_MODE] = MODE_REFUSED;
	if (tfc__stream_put(channel, own, PREAMBLE) == TFC_OK)
		tfc__stream_write(channel);
	channel->failure = failure; /* the caller reports the refusal, even if it was not sent */
}

static int on_handshake_message(struct tfc__channel *channel, const void *data, size_t len)
{
	struct tfc__buf payload = {0};
	int code = tfc__noise_read(channel->noise, data, len, &payload);
	tfc__buf_fini(&payload);
	if (code >= 0 && !channel->has_key)
		code = TFC_EACCES; /* nobody can have made it with the random key */
	if (code < 0) {
		if (!channel->options.is_dialer && code != TFC_ENOMEM)
			tfc__handshake_refuse(channel);
		return tfc__channel_fail(channel, code,
					 code == TFC_ENOMEM ? "out of memory"
					 : channel->has_key
						 ? "the peer has a different key"
						 : "the peer's key is not in this side's key file");
	}
	code = check_remote_key(channel);
	if (code == TFC_OK && tfc__noise_is_writing(channel->noise))
		code = write_handshake(channel);
	if (code < 0 || !tfc__noise_is_done(channel->noise))
		return code;

	code = tfc__noise_split(channel->noise, &channel->sending, &channel->receiving);
	if (code < 0)
		return tfc__channel_fail(channel, code,
					 "handshake failed: cannot derive the session keys");
	if (channel->options.is_dialer) {
		channel->state = AWAIT_WELCOME;
		return TFC_OK;
	}
	uint8_t welcome[TFC__NOISE_TAG];
	code = tfc__noise_seal(&channel->sending, "", 0, welcome);
	if (code >= 0)
		code = write_record(channel, welcome, sizeof(welcome));
	return code < 0 ? code : handshake_complete(channel);
}

static int on_welcome(struct tfc__channel *channel, const void *data, size_t len)
{
	uint8_t plain[EARLY_MAX];
	if (len != TFC__NOISE_TAG || tfc__noise_open(&channel->receiving, data, len, plain) < 0)
		return tfc__channel_fail(channel, TFC_EACCES,
					 "a handshake message was altered in transit");
	return handshake_complete(channel);
}

/* ---- preambles */

static int fail_version(struct tfc__channel *channel, unsigned version)
{
	return tfc__channel_fail(channel, TFC_ENOTSUP,
				 "protocol version mismatch: the peer has version %u, this side "
				 "%d; install the same release on both",
				 version, VERSION);
}

static int fail_other_protocol(struct tfc__channel *channel)
{
	return tfc__channel_fail(channel, TFC_EPARSE,
				 "the peer does not speak the libtfcluster protocol");
}

static int check_acceptors_preamble(struct tfc__channel *channel)
{
	const uint8_t *bytes = channel->early;
	if (memcmp(bytes, MAGIC, MAGIC_LEN) != 0)
		return fail_other_protocol(channel);
	if (bytes[AT_VERSION] != VERSION)
		return fail_version(channel, bytes[AT_VERSION]);
	if (bytes[AT_MODE] != MODE_REFUSED)
		return TFC_OK;
	return tfc__channel_fail(channel, TFC_EACCES,
				 channel->has_key
					 ? "the peer refused this key: the peer's key file "
					   "does not have it (it may belong to another "
					   "cluster), or the peer has no key file"
					 : "the peer refused the connection: it requires a "
					   "key (key_file), or this user has no permission "
					   "to connect");
}

static int on_acceptors_preamble(struct tfc__channel *channel)
{
	int code = check_acceptors_preamble(channel);
	if (code == TFC_OK && channel->early[AT_MODE] != MODE_PLAIN)
		code = fail_other_protocol(channel);
	if (code < 0)
		return code;
	channel->early_len = 0;
	return handshake_complete(channel);
}

static int respond_to_preamble(struct tfc__channel *channel)
{
	uint8_t own[PREAMBLE];
	write_preamble(own, NULL);
	return tfc__stream_put(channel, own, PREAMBLE);
}

static int on_dialers_preamble(struct tfc__channel *channel)
{
	const uint8_t *bytes = channel->early;
	static const uint8_t none[TFC__KEY_ID_SIZE];
	uint8_t mode = channel->options.is_noise ? MODE_NOISE : MODE_PLAIN;
	if (memcmp(bytes, MAGIC, MAGIC_LEN) != 0)
		return fail_other_protocol(channel);
	if (bytes[AT_VERSION] != VERSION) {
		if (respond_to_preamble(channel) == TFC_OK)
			tfc__stream_write(channel);
		return fail_version(channel, bytes[AT_VERSION]);
	}
	if (bytes[AT_MODE] == MODE_WILL) {
		channel->state = AWAIT_WILL;
		return TFC_OK;
	}
	if (bytes[AT_MODE] != mode) {
		tfc__handshake_refuse(channel);
		return tfc__channel_fail(channel, TFC_EACCES,
					 mode ? "the peer presented no key, but this side requires "
						"one; set key_file on both or on neither"
					      : "the peer presented a key, but this side has none; "
						"set key_file on both or on neither");
	}
	if (bytes[AT_MODE + 1] || bytes[AT_MODE + 2] ||
	    (!mode && memcmp(bytes + AT_KEY, none, sizeof(none)) != 0))
		return tfc__channel_fail(channel, TFC_EPARSE, "malformed preamble");
	memcpy(channel->preamble, bytes, PREAMBLE);
	channel->early_len = 0;
	if (!mode) {
		int code = respond_to_preamble(channel);
		return code < 0 ? code : handshake_complete(channel);
	}
	return begin_noise(channel,
			   tfc__keyring_find(channel->options.keyring, channel->preamble + AT_KEY));
}

/* ---- receiving */

static int read_preamble(struct tfc__channel *channel)
{
	int code = read_early(channel, PREAMBLE);
	if (code <= 0)
		return code;
	code = channel->options.is_dialer ? on_acceptors_preamble(channel)
					  : on_dialers_preamble(channel);
	return code < 0 ? code : 1;
}

/* The will is behind its preamble in `early`. Whoever sends it proves nothing: the will itself
 * does. No more is sent than was received. */
static int read_will(struct tfc__channel *channel)
{
	uint8_t ack[TFC__WILL_ACK];
	_Static_assert(TFC__WILL_MESSAGE <= sizeof(channel->early), "the buffer holds a will");
	int code = read_early(channel, TFC__WILL_MESSAGE);
	if (code <= 0)
		return code;
	if (!channel->ops->will || !channel->ops->will(channel->user, channel->early))
		return tfc__channel_fail(
			channel, TFC_ENOENT,
			"it sent the last will of a node that has no task of a job "
			"here");
	tfc__will_ack(channel->early, ack);
	if (tfc__stream_put(channel, ack, sizeof(ack)) == TFC_OK)
		tfc__stream_write(channel);
	return tfc__channel_fail(channel, TFC_ELOST, "it sent the last will of a node");
}

/* The length of a record is too large. If its bytes are the magic, they begin the preamble of an
 * acceptor that refuses this side. */
static int on_long_record(struct tfc__channel *channel)
{
	if (!channel->options.is_dialer)
		return tfc__channel_fail(channel, TFC_EPARSE, "handshake message too long");
	if (memcmp(channel->early, MAGIC, MAGIC_LEN) != 0)
		return fail_other_protocol(channel);
	int code = read_early(channel, PREAMBLE);
	if (code <= 0)
		return code;
	code = check_acceptors_preamble(channel);
	return code < 0 ? code : fail_other_protocol(channel);
}

static int read_handshake_record(struct tfc__channel *channel)
{
	const uint8_t *head = channel->early;
	int code = read_early(channel, HEAD);
	if (code <= 0)
		return code;
	size_t len = read_length(head);
	if (len > EARLY_MAX)
		return on_long_record(channel);
	code = read_early(channel, HEAD + len);
	if (code <= 0)
		return code;
	channel->early_len = 0;
	code = channel->state == AWAIT_WELCOME ? on_welcome(channel, head + HEAD, len)
					       : on_handshake_message(channel, head + HEAD, len);
	return code < 0 ? code : 1;
}

int tfc__handshake_begin(struct tfc__channel *channel)
{
	const struct tfc__channel_options *options = &channel->options;
	const struct tfc__key *key = options->is_noise
					     ? tfc__keyring_first(options->keyring, options->role)
					     : NULL;
	if (options->is_noise && !key)
		return tfc__channel_fail(channel, TFC_EACCES,
					 "the key was removed from the key file");
	channel->state = AWAIT_PREAMBLE;
	write_preamble(channel->preamble, key);
	int code = tfc__stream_put(channel, channel->preamble, PREAMBLE);
	if (code < 0 || !key)
		return code;
	code = begin_noise(channel, key);
	return code < 0 ? code : write_handshake(channel);
}

int tfc__handshake_read(struct tfc__channel *channel)
{
	int code = 1;
	while (code == 1 && channel->state != UP && !channel->is_closed)
		code = channel->state == AWAIT_PREAMBLE ? read_preamble(channel)
		       : channel->state == AWAIT_WILL   ? read_will(channel)
							: read_handshake_record(channel);
	if (code >= 0)
		return TFC_OK;
	if (code != TFC_ELOST || !channel->options.is_dialer)
		return code;
	return tfc__fail(&channel->failure, TFC_ELOST, "transport", channel->failure.sys_errno,
			 "the peer closed the connection during the handshake");
}
