/* Key files: an accepted one has a key that is found by its id; a refusal is one line and no key.
 */
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"
#include "wire/keyring.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[4096];
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__keyring *ring = NULL;
	snprintf(path, sizeof(path), "%s/key", fuzz_dir());
	fuzz_write(path, data, size);
	CHECK(chmod(path, 0600) == 0);
	int code = tfc__keyring_load(path, &error, &ring);
	if (code < 0) {
		CHECK(!ring && (code == TFC_EPARSE || code == TFC_ETOOBIG));
		fuzz_check_error(code, &error);
		CHECK(strstr(error.text, path));
		return 0;
	}
	const struct tfc__key *key = tfc__keyring_first(ring, 0);
	CHECK(key && tfc__keyring_find(ring, key->id) == key);
	tfc__keyring_free(ring);
	return 0;
}
