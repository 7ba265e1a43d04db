/* The node's last will, as the node's process makes it and gives it to its guard (will.h). */
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <unistd.h>

#include "proc/guard.h"
#include "proc/will.h"

enum {
	AT_LABEL = 16,
	AT_CLUSTER = 32,
	AT_NODE = 40,
	AT_BOOT = 56,
	AT_INCARNATION = 72,
	AT_GUARD = 80,
	AT_SECRET = 88,
	SECRET = 32,
};

static const char preamble[TFC__WILL_PREAMBLE] = {'\x89', 'T', 'F', 'C', 1, TFC__WILL_MODE};

static const char label[AT_CLUSTER - AT_LABEL] = "tfcluster will";

struct tfc__will {
	tfc_ctx *ctx;
	uint8_t message[TFC__WILL_MESSAGE]; /* without the guard's number and the secret */
	struct tfc__will_key key;
	uint64_t guard; /* the number of the guard that was given the will; 0: none */
	struct tfc__will_address addresses[TFC__WILL_ADDRESSES];
	uint32_t address_count;
};

static void write_u64(uint8_t *at, uint64_t value)
{
	for (int i = 7; i >= 0; i--, value >>= 8)
		at[i] = (uint8_t)value;
}

bool tfc__will_is_message(const uint8_t *bytes, size_t len)
{
	return len == TFC__WILL_MESSAGE && memcmp(bytes, preamble, sizeof(preamble)) == 0;
}

void tfc__will_key_of(const uint8_t message[TFC__WILL_MESSAGE], struct tfc__will_key *ret_key)
{
	ret_key->incarnation = 0;
	for (int i = 0; i < 8; i++)
		ret_key->incarnation = ret_key->incarnation << 8 | message[AT_INCARNATION + i];
	crypto_hash_sha256(ret_key->commitment, message + TFC__WILL_PREAMBLE,
			   TFC__WILL_MESSAGE - TFC__WILL_PREAMBLE);
}

void tfc__will_ack(const uint8_t message[TFC__WILL_MESSAGE], uint8_t ret_ack[TFC__WILL_ACK])
{
	memcpy(ret_ack, preamble, 8);
	memcpy(ret_ack + 8, message + TFC__WILL_MESSAGE - 8, 8);
}

/* Zeros if the system does not say it. */
static void read_machine_boot_id(uint8_t ret_id[16])
{
	char text[40] = "", digits[33] = "";
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	size_t count = 0;
	if (fd < 0)
		return;
	if (read(fd, text, sizeof(text) - 1) > 0)
		for (const char *at = text; *at && count < 32; at++)
			if (*at != '-')
				digits[count++] = *at;
	close(fd);
	sodium_hex2bin(ret_id, 16, digits, count, NULL, NULL, NULL);
}

static void will_send_addresses(const struct tfc__will *will, struct tfc__guard *guard)
{
	size_t size = will->address_count * sizeof(will->addresses[0]);
	const struct tfc__command command = {.kind = TFC__MSG_WILL_TO,
					     .value = will->address_count};
	void *copy = malloc(size + 1);
	if (!copy) /* the guard sends the will to fewer addresses, and others wait for the lease */
		return;
	memcpy(copy, will->addresses, size);
	tfc__guard_send(guard, &command, -1, copy, size);
}

/* Draws a secret for this guard. The process keeps only its hash. */
static bool will_give(struct tfc__will *will, struct tfc__guard *guard)
{
	const struct tfc__command command = {.kind = TFC__MSG_WILL};
	struct tfc__will_text *text = malloc(sizeof(*text));
	struct tfc__will_key key;
	if (!text)
		return false;
	memcpy(text->message, will->message, sizeof(text->message));
	write_u64(text->message + AT_GUARD, guard->number);
	randombytes_buf(text->message + AT_SECRET, SECRET);
	tfc__will_ack(text->message, text->ack);
	tfc__will_key_of(text->message, &key);
	if (tfc__guard_send(guard, &command, -1, text, sizeof(*text)) < 0)
		return false;
	will->key = key;
	will->guard = guard->number;
	will_send_addresses(will, guard);
	return true;
}

bool tfc__will_commit(struct tfc__will *will, struct tfc__will_key *ret_key)
{
	const struct tfc__guards *guards = tfc__ctx_slot(will->ctx, TFC__SLOT_GUARDS);
	if (!guards || !guards->current || guards->will != will || guards->has_unseen_end ||
	    !tfc__list_is_empty(&guards->dead))
		return false;
	if (will->guard != guards->current->number && !will_give(will, guards->current))
		return false;
	*ret_key = will->key;
	return true;
}

void tfc__will_send_to(struct tfc__will *will, const struct tfc__will_address *addresses,
		       uint32_t count)
{
	const struct tfc__guards *guards = tfc__ctx_slot(will->ctx, TFC__SLOT_GUARDS);
	will->address_count = count < TFC__WILL_ADDRESSES ? count : TFC__WILL_ADDRESSES;
	memcpy(will->addresses, addresses, will->address_count * sizeof(*addresses));
	if (guards && guards->current && guards->current->number == will->guard)
		will_send_addresses(will, guards->current);
}

int tfc__will_open(tfc_ctx *ctx, const struct tfc__will_options *options,
		   struct tfc__will **ret_will)
{
	struct tfc__guards *guards = NULL;
	int code = tfc__guards_get(ctx, &guards);
	struct tfc__will *will = code == TFC_OK ? calloc(1, sizeof(*will)) : NULL;
	if (!will)
		return tfc__fail_nomem(tfc__ctx_error(ctx), "proc");
	will->ctx = ctx;
	memcpy(will->message, preamble, sizeof(preamble));
	memcpy(will->message + AT_LABEL, label, sizeof(label));
	memcpy(will->message + AT_CLUSTER, options->cluster, sizeof(options->cluster));
	memcpy(will->message + AT_NODE, options->node_id, sizeof(options->node_id));
	read_machine_boot_id(will->message + AT_BOOT);
	write_u64(will->message + AT_INCARNATION, options->incarnation);
	if (!guards->will)
		guards->will = will;
	*ret_will = will;
	return TFC_OK;
}

void tfc__will_close(struct tfc__will *will)
{
	if (!will)
		return;
	const struct tfc__command command = {.kind = TFC__MSG_WILL};
	struct tfc__guards *guards = tfc__ctx_slot(will->ctx, TFC__SLOT_GUARDS);
	if (guards && guards->will == will) {
		guards->will = NULL;
		if (guards->current && guards->current->number == will->guard)
			tfc__guard_send(guards->current, &command, -1, NULL, 0);
	}
	free(will);
}
