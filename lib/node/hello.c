#include "node/hello.h"

#include <string.h>

void tfc__hello_write(const struct tfc__hello *hello, struct tfc__buf *buf)
{
	const tfc_member_info *offer = &hello->offer;
	uint32_t labels = 0;
	while (offer->labels && offer->labels[labels])
		labels++;
	tfc__msg_map(buf, 11);
	tfc__msg_put_u64(buf, "protocol", hello->protocol);
	tfc__msg_put_u64(buf, "version", hello->version);
	tfc__msg_put_str(buf, "name", hello->name);
	tfc__msg_put_str(buf, "node_id", hello->node_id);
	tfc__msg_put_str(buf, "boot_id", hello->boot_id);
	tfc__msg_put_str(buf, "to", hello->to);
	tfc__msg_put_u64(buf, "slots", offer->slots);
	tfc__msg_put_u64(buf, "memory", offer->memory_bytes);
	tfc__msg_put_u64(buf, "gpus", offer->gpus);
	tfc__msg_put_bool(buf, "draining", offer->is_draining);
	tfc__msg_str(buf, "labels");
	tfc__msg_array(buf, labels);
	for (uint32_t i = 0; i < labels; i++)
		tfc__msg_str(buf, offer->labels[i]);
}

static void read_labels(const msgpack_object *map, struct tfc__hello *hello)
{
	const msgpack_object *items;
	uint32_t count = tfc__msg_get_array(map, "labels", &items);
	for (uint32_t i = 0; i < count; i++) {
		size_t len;
		const char *label = tfc__msg_bytes(&items[i], &len);
		if (label)
			tfc__strv_take(&hello->labels, strndup(label, len));
	}
	hello->offer.labels = (const char *const *)hello->labels.items;
}

int tfc__hello_read(const msgpack_object *map, struct tfc__hello *ret_hello, tfc_error *error)
{
	struct tfc__hello *hello = ret_hello;
	memset(hello, 0, sizeof(*hello));
	hello->offer.size = sizeof(hello->offer);
	hello->protocol = (uint32_t)tfc__msg_get_u64(map, "protocol", 0);
	hello->version = (uint32_t)tfc__msg_get_u64(map, "version", 0);
	hello->offer.slots = (uint32_t)tfc__msg_get_u64(map, "slots", 0);
	hello->offer.memory_bytes = tfc__msg_get_u64(map, "memory", 0);
	hello->offer.gpus = (uint32_t)tfc__msg_get_u64(map, "gpus", 0);
	hello->offer.is_draining = tfc__msg_get_bool(map, "draining", false);
	tfc__msg_get_text(map, "to", hello->to, sizeof(hello->to));
	if (!tfc__msg_get_text(map, "name", hello->name, sizeof(hello->name)) ||
	    !tfc__msg_get_text(map, "node_id", hello->node_id, sizeof(hello->node_id)) ||
	    !tfc__msg_get_text(map, "boot_id", hello->boot_id, sizeof(hello->boot_id)) ||
	    !*hello->name)
		return tfc__fail(error, TFC_EPARSE, "node", 0,
				 "a node that does not say who it is");
	read_labels(map, hello);
	return hello->labels.is_failed ? tfc__fail_nomem(error, "node") : TFC_OK;
}

void tfc__hello_fini(struct tfc__hello *hello)
{
	tfc__strv_fini(&hello->labels);
}

int tfc__hello_check(const struct tfc__hello *own, const struct tfc__hello *other, tfc_error *error)
{
	const struct tfc__hello *old = own->protocol < other->protocol ? own : other;
	if (own->protocol == other->protocol)
		return TFC_OK;
	return tfc__fail(
		error, TFC_ENOTSUP, "node", 0,
		"node \"%s\" runs version %u.%u.%u and node \"%s\" version %u.%u.%u, which "
		"do not work together: bring \"%s\" up to date",
		own->name, own->version >> 16, own->version >> 8 & 0xff, own->version & 0xff,
		other->name, other->version >> 16, other->version >> 8 & 0xff,
		other->version & 0xff, old->name);
}
