/* upstream_map: whatever the file of tfc_run node --upstream-map holds, it is refused in a sentence
 * that names it, or it is a map. */
#include <string.h>

#include "fuzz.h"
#include "node/upstream_map.h"

static tfc_ctx *shared_ctx(void)
{
	static tfc_ctx *ctx;
	if (!ctx)
		CHECK(tfc_ctx_new(NULL, NULL, &ctx) == TFC_OK);
	return ctx;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[4096];
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__upstream_map *map = NULL;
	snprintf(path, sizeof(path), "%s/m", fuzz_dir());
	fuzz_write(path, data, size);
	int code = tfc__upstream_map_open(shared_ctx(), path, &error, &map);
	if (code < 0) {
		CHECK(!map && (code == TFC_EPARSE || code == TFC_EINVAL));
		CHECK(strncmp(error.text, path, strlen(path)) == 0);
		fuzz_check_error(code, &error);
	}
	tfc__upstream_map_close(map);
	return 0;
}
