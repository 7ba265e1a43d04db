#include "bundle/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <unistd.h>

#include "base/fail.h"

#define CHUNK 65536

int tfc_bundle_hash(const char *zip_path, tfc_error *error, char ret_hash[TFC_BUNDLE_HASH_SIZE])
{
	crypto_hash_sha256_state state;
	unsigned char chunk[CHUNK], hash[crypto_hash_sha256_BYTES];
	if (!zip_path || !ret_hash)
		return tfc__fail(error, TFC_EINVAL, "bundle", 0,
				 "tfc_bundle_hash: an argument is NULL");
	int fd = open(zip_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return tfc__fail_errno(error, "bundle", errno, "cannot open \"%.120s\"", zip_path);
	crypto_hash_sha256_init(&state);
	ssize_t n;
	while ((n = read(fd, chunk, sizeof(chunk))) > 0 || (n < 0 && errno == EINTR))
		if (n > 0)
			crypto_hash_sha256_update(&state, chunk, (unsigned long long)n);
	int failed = n < 0 ? errno : 0;
	close(fd);
	if (failed)
		return tfc__fail_errno(error, "bundle", failed, "cannot read \"%.120s\"", zip_path);
	crypto_hash_sha256_final(&state, hash);
	sodium_bin2hex(ret_hash, TFC_BUNDLE_HASH_SIZE, hash, sizeof(hash));
	return TFC_OK;
}
