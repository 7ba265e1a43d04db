#include "bundle/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <unistd.h>

#include "base/fail.h"

#define CHUNK 65536

static int hash_all(int fd, crypto_hash_sha256_state *state)
{
	unsigned char chunk[CHUNK];
	for (;;) {
		ssize_t n = read(fd, chunk, sizeof(chunk));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return (int)n;
		crypto_hash_sha256_update(state, chunk, (unsigned long long)n);
	}
}

int tfc_bundle_hash(const char *zip_path, char ret_hash[TFC_BUNDLE_HASH_SIZE], tfc_error *error)
{
	crypto_hash_sha256_state state;
	unsigned char hash[crypto_hash_sha256_BYTES];
	if (!zip_path || !ret_hash)
		return tfc__fail(error, TFC_EINVAL, "bundle", 0,
				 "tfc_bundle_hash: an argument is NULL");
	int fd = open(zip_path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return tfc__fail_errno(error, "bundle", errno, "cannot open \"%.120s\"", zip_path);
	crypto_hash_sha256_init(&state);
	int failed = hash_all(fd, &state) < 0 ? errno : 0;
	close(fd);
	if (failed)
		return tfc__fail_errno(error, "bundle", failed, "cannot read \"%.120s\"", zip_path);
	crypto_hash_sha256_final(&state, hash);
	sodium_bin2hex(ret_hash, TFC_BUNDLE_HASH_SIZE, hash, sizeof(hash));
	return TFC_OK;
}
