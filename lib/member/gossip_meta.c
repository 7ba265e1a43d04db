#include "member/gossip_internal.h"

/* As in a node's hello. */
#define META(...) TFC__FIELD(tfc_member_info, __VA_ARGS__)
static const struct tfc__field meta_rows[] = {
	META("slots", TFC__UINT, slots, TFC__V0_3),
	META("memory", TFC__UINT, memory_bytes, TFC__V0_3),
	META("gpus", TFC__UINT, gpus, TFC__V0_3),
	META("draining", TFC__BOOL, is_draining, TFC__V0_3),
	META("labels", TFC__LINES, labels, TFC__V0_3),
};
static const struct tfc__fields meta_fields = TFC__FIELDS(meta_rows, tfc_member_info, NULL);

int tfc__gossip_meta_write(const tfc_member_info *info, tfc_error *error, struct tfc__buf *buf)
{
	tfc__fields_write(buf, &meta_fields, info);
	if (buf->is_failed)
		return tfc__fail_nomem(error, "member");
	if (buf->len > TFC__GOSSIP_META_MAX)
		return tfc__fail(error, TFC_EINVAL, "member", 0,
				 "labels: with gossip, a node's resources and labels have %d bytes "
				 "at most; they have %zu: remove labels or shorten them",
				 TFC__GOSSIP_META_MAX, buf->len);
	return TFC_OK;
}

int tfc__gossip_meta_read(struct tfc__reader *reader, const msgpack_object *meta, tfc_error *error,
			  tfc_member_info *ret_info)
{
	return tfc__fields_read(reader, &meta_fields, meta, error, ret_info);
}
