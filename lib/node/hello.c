#include "node/hello.h"

#define HELLO(...) TFC__FIELD(struct tfc__hello, __VA_ARGS__)
static const struct tfc__field rows[] = {
	HELLO("protocol", TFC__UINT, protocol, TFC__V0_2),
	HELLO("version", TFC__UINT, version, TFC__V0_2),
	HELLO("name", TFC__TEXT, name, TFC__V0_2),
	HELLO("node_id", TFC__TEXT, node_id, TFC__V0_2),
	HELLO("boot_id", TFC__TEXT, boot_id, TFC__V0_2),
	HELLO("to", TFC__TEXT, to, TFC__V0_3),
	HELLO("slots", TFC__UINT, offer.slots, TFC__V0_2),
	HELLO("memory", TFC__UINT, offer.memory_bytes, TFC__V0_2),
	HELLO("gpus", TFC__UINT, offer.gpus, TFC__V0_2),
	HELLO("draining", TFC__BOOL, offer.is_draining, TFC__V0_2),
	HELLO("labels", TFC__LINES, offer.labels, TFC__V0_2),
};
static const struct tfc__fields fields = TFC__FIELDS(rows, struct tfc__hello, NULL);

void tfc__hello_write(const struct tfc__hello *hello, struct tfc__buf *buf)
{
	tfc__fields_write(buf, &fields, hello);
}

int tfc__hello_read(const msgpack_object *map, tfc_error *error, struct tfc__hello *ret_hello)
{
	*ret_hello = (struct tfc__hello){.offer.size = sizeof(ret_hello->offer)};
	int code = tfc__fields_read(&ret_hello->reader, &fields, map, error, ret_hello);
	if (code < 0)
		return tfc__fail_prefix(error, code, "the hello of a node: ");
	if (!*ret_hello->name || !*ret_hello->node_id || !*ret_hello->boot_id)
		return tfc__fail(error, TFC_EPARSE, "node", 0,
				 "the peer did not send a node's hello");
	return TFC_OK;
}

void tfc__hello_fini(struct tfc__hello *hello)
{
	tfc__reader_fini(&hello->reader);
}

int tfc__hello_check(const struct tfc__hello *own, const struct tfc__hello *other, tfc_error *error)
{
	const struct tfc__hello *old = own->protocol < other->protocol ? own : other;
	if (own->protocol == other->protocol)
		return TFC_OK;
	return tfc__fail(error, TFC_ENOTSUP, "node", 0,
			 "incompatible versions: node \"%s\" has %u.%u.%u and node \"%s\" has "
			 "%u.%u.%u; update \"%s\"",
			 own->name, own->version >> 16, own->version >> 8 & 0xff,
			 own->version & 0xff, other->name, other->version >> 16,
			 other->version >> 8 & 0xff, other->version & 0xff, old->name);
}
