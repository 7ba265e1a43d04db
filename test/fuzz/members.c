/* members: whatever a members file holds, it is refused in a sentence, or it is a list by name in
 * which every member may be put into a table. */
#include <string.h>

#include "fuzz.h"
#include "member/static_file.h"

static void check_list(const struct tfc__static_list *list)
{
	CHECK(list->count > 0);
	for (uint32_t i = 0; i < list->count; i++) {
		const tfc_member_info *info = &list->items[i];
		tfc_error error = TFC_ERROR_INIT;
		CHECK(tfc__member_check(info, &error) == TFC_OK);
		CHECK(info->address && info->state == 0 && !info->is_self && !info->is_draining);
		CHECK(i == 0 || strcmp(list->items[i - 1].name, info->name) < 0);
		for (uint32_t j = 0; j < i && list->count < 64; j++)
			CHECK(strcmp(list->items[j].address, info->address) != 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__static_list list;
	int code = tfc__static_parse((const char *)data, size, "m.json", &error, &list);
	if (code == TFC_OK) {
		check_list(&list);
		tfc__static_list_free(&list);
	} else {
		CHECK(!list.items && !list.count);
		CHECK(code == TFC_EPARSE || code == TFC_EINVAL);
		CHECK(strncmp(error.text, "m.json:", 7) == 0);
		fuzz_check_error(code, &error);
	}
	return 0;
}
