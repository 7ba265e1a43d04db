/*
 * Sealed datagrams, changed on the way by the input: how many bytes are cut off, then what is added
 * to the bytes one by one, then what follows. Only what was not changed is opened, and only once.
 */
#include <string.h>

#include "fuzz.h"
#include "wire/sealed.h"

enum { TEXT = 5, SIZE = TFC__SEALED_OVERHEAD + TEXT, MOST = 2000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t magic[4] = {'T', 'F', 'G', 1},
			     ids[2][TFC__SEALED_ID_SIZE] = {{1}, {2}};
	struct fuzz_input input = {data, size};
	struct tfc__sealing *from = NULL, *to = NULL;
	struct tfc__sealed_sender sender;
	uint8_t sealed[MOST], text[MOST];
	CHECK(tfc__sealing_new(NULL, magic, ids[0], 1, NULL, &from) == TFC_OK);
	CHECK(tfc__sealing_new(NULL, magic, ids[1], 1, NULL, &to) == TFC_OK);
	tfc__seal(from, "hello", TEXT, sealed);
	size_t cut = (size_t)fuzz_number(&input, 1), len = cut < SIZE ? SIZE - cut : 0;
	bool is_changed = cut > 0;
	for (size_t i = 0; i < len && input.len; i++) {
		uint8_t delta = (uint8_t)fuzz_number(&input, 1);
		is_changed |= delta != 0;
		sealed[i] ^= delta;
	}
	if (input.len) {
		size_t more = input.len < MOST - len ? input.len : MOST - len;
		memcpy(sealed + len, input.at, more);
		len += more;
		is_changed = true;
	}
	int code = tfc__unseal(to, sealed, len, text, &sender);
	if (is_changed) {
		CHECK(code == TFC_EPARSE || code == TFC_ENOENT || code == TFC_EACCES);
		CHECK(tfc__sealing_senders(to) == 0);
	} else {
		CHECK(code == TEXT && memcmp(text, "hello", TEXT) == 0 && sender.number == 1);
		CHECK(tfc__unseal(to, sealed, len, text, &sender) == TFC_EEXIST);
	}
	tfc__sealing_free(from);
	tfc__sealing_free(to);
	return 0;
}
