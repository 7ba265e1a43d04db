/* options: whatever the JSON of a node or a gateway holds, it is refused with a message that names
 * the file and a line, or it sets options. */
#include <string.h>

#include "fuzz.h"
#include "node/options_json.h"

static void read_options(const struct tfc__option_keys *keys, const uint8_t *data, size_t size,
			 void *options)
{
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__option_storage storage;
	int code = tfc__options_read_json(keys, (const char *)data, size, "n.json", true, options,
					  &error, &storage);
	if (code < 0) {
		CHECK(code == TFC_EPARSE || code == TFC_EINVAL || code == TFC_ENOTSUP);
		CHECK(strncmp(error.text, "n.json:", 7) == 0);
		fuzz_check_error(code, &error);
	}
	tfc__option_storage_fini(&storage);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	tfc_node_options node = TFC_NODE_OPTIONS_INIT;
	tfc_gateway_options gateway = TFC_GATEWAY_OPTIONS_INIT;
	read_options(&tfc__node_keys, data, size, &node);
	CHECK(node.port_first <= node.port_last);
	read_options(&tfc__gateway_keys, data, size, &gateway);
	return 0;
}
