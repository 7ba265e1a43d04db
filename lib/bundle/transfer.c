#include "bundle/transfer.h"

#define OFFER(...) TFC__FIELD(struct tfc__bundle_offer, __VA_ARGS__)
static const struct tfc__field offer_rows[] = {
	OFFER("hash", TFC__TEXT, hash, TFC__V0_2),
	OFFER("size", TFC__UINT, size, TFC__V0_2),
};
const struct tfc__fields tfc__bundle_offer_fields = TFC__FIELDS(offer_rows,
								struct tfc__bundle_offer, NULL);

#define ITEM(...) TFC__FIELD(struct tfc__bundle_offer_item, __VA_ARGS__)
static const struct tfc__field item_rows[] = {
	ITEM("ready", TFC__BOOL, is_ready, TFC__V0_2),
	ITEM("at", TFC__UINT, received, TFC__V0_2),
};
const struct tfc__fields tfc__bundle_offer_item_fields =
	TFC__FIELDS(item_rows, struct tfc__bundle_offer_item, NULL);

#define CHUNK(...) TFC__FIELD(struct tfc__bundle_chunk, __VA_ARGS__)
static const struct tfc__field chunk_rows[] = {
	CHUNK("hash", TFC__TEXT, hash, TFC__V0_2),
	CHUNK("at", TFC__UINT, at, TFC__V0_2),
	CHUNK("data", TFC__BYTES, data, TFC__V0_2,
	      .count = offsetof(struct tfc__bundle_chunk, len)),
};
const struct tfc__fields tfc__bundle_chunk_fields = TFC__FIELDS(chunk_rows,
								struct tfc__bundle_chunk, NULL);

#define RESULT(...) TFC__FIELD(struct tfc__bundle_chunk_result, __VA_ARGS__)
static const struct tfc__field result_rows[] = {
	RESULT("done", TFC__BOOL, is_done, TFC__V0_2),
	RESULT("taken", TFC__BOOL, is_accepted, TFC__V0_2),
	RESULT("at", TFC__UINT, received, TFC__V0_2),
};
const struct tfc__fields tfc__bundle_chunk_result_fields =
	TFC__FIELDS(result_rows, struct tfc__bundle_chunk_result, NULL);
