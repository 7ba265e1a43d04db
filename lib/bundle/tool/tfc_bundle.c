/*
 * tfc-bundle: the slow operations on bundles as a program. A node runs it as a process of its own,
 * so that no event loop waits for a disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tfcluster/bundle.h>

#include "base/fail.h"
#include "base/file.h"
#include "base/signals.h"

static struct {
	uid_t uid;
	gid_t gid;
} owner;

static int change_entry_owner(const char *path, const struct stat *status, int kind,
			      struct FTW *place)
{
	return lchown(path, owner.uid, owner.gid);
}

/* The directory itself comes last: until then no other user can reach its contents. */
static int change_owners(const char *dir, const char *ids, tfc_error *error)
{
	unsigned uid, gid;
	int end = 0;
	if (sscanf(ids, "%u:%u%n", &uid, &gid, &end) != 2 || ids[end])
		return tfc__fail(error, TFC_EINVAL, "bundle", 0, "\"%s\" is not UID:GID", ids);
	owner.uid = uid;
	owner.gid = gid;
	if (nftw(dir, change_entry_owner, 16, FTW_DEPTH | FTW_PHYS) != 0)
		return tfc__fail_errno(error, "bundle", errno,
				       "cannot change the owner of \"%s\" to %s", dir, ids);
	return TFC_OK;
}

/* ---- archives named by their hash */

static int move_archive(const char *zip, const char *store, const char *hash, tfc_error *error)
{
	char *path;
	if (asprintf(&path, "%s/%s.zip", store, hash) < 0)
		return tfc__fail_nomem(error, "bundle");
	int code = rename(zip, path) < 0 ? tfc__fail_errno(error, "bundle", errno,
							   "cannot create \"%.200s\"", path)
					 : TFC_OK;
	free(path);
	return code;
}

static int add_archive(const char *from, const char *work, const char *store,
		       char hash[TFC_BUNDLE_HASH_SIZE], tfc_error *error)
{
	char *zip = tfc__path_join(work, "bundle.zip");
	int code = zip ? tfc_bundle_pack(from, zip, error) : tfc__fail_nomem(error, "bundle");
	if (code == TFC_OK)
		code = tfc_bundle_hash(zip, error, hash);
	if (code == TFC_OK)
		code = move_archive(zip, store, hash, error);
	free(zip);
	return code;
}

/* The bytes arrive through a named pipe and are hashed while they are written. */
static int copy_and_hash(int from, int to, unsigned long long left,
			 char ret_hash[TFC_BUNDLE_HASH_SIZE], tfc_error *error)
{
	static unsigned char chunk[1 << 18];
	unsigned char hash[crypto_hash_sha256_BYTES];
	crypto_hash_sha256_state state;
	crypto_hash_sha256_init(&state);
	while (left) {
		ssize_t n = read(from, chunk, left < sizeof(chunk) ? left : sizeof(chunk));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return tfc__fail(error, TFC_ELOST, "bundle", 0, "the sender has ended");
		crypto_hash_sha256_update(&state, chunk, (unsigned long long)n);
		if (tfc__write_all(to, chunk, (size_t)n) < 0)
			return tfc__fail_errno(error, "bundle", errno, "cannot write the archive");
		left -= (unsigned long long)n;
	}
	crypto_hash_sha256_final(&state, hash);
	sodium_bin2hex(ret_hash, TFC_BUNDLE_HASH_SIZE, hash, sizeof(hash));
	return TFC_OK;
}

static int compare_hash(const char *hash, const char *expected, tfc_error *error)
{
	return strcmp(hash, expected) == 0
		       ? TFC_OK
		       : tfc__fail(error, TFC_EARCHIVE, "bundle", 0,
				   "SHA-256 is %s, not %.64s; the archive was damaged in transfer",
				   hash, expected);
}

static int receive_archive(const char *work, const char *store, const char *expected,
			   const char *size, tfc_error *error)
{
	char hash[TFC_BUNDLE_HASH_SIZE];
	char *pipe = tfc__path_join(work, "pipe"), *zip = tfc__path_join(work, "bundle.zip");
	int from = pipe ? open(pipe, O_RDONLY | O_CLOEXEC) : -1;
	int to = zip ? open(zip, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
	int code = from < 0 || to < 0
			   ? tfc__fail_errno(error, "bundle", errno, "%.200s", work)
			   : copy_and_hash(from, to, strtoull(size, NULL, 10), hash, error);
	if (code == TFC_OK)
		code = compare_hash(hash, expected, error);
	if (code == TFC_OK)
		code = move_archive(zip, store, hash, error);
	free(pipe);
	free(zip);
	return code;
}

static int check_archive(const char *zip, const char *expected, tfc_error *error)
{
	char hash[TFC_BUNDLE_HASH_SIZE];
	int code = tfc_bundle_hash(zip, error, hash);
	return code < 0 ? code : compare_hash(hash, expected, error);
}

int main(int argc, char **argv)
{
	tfc_error error = TFC_ERROR_INIT;
	char hash[TFC_BUNDLE_HASH_SIZE] = "";
	int result;
	tfc__block_node_signals();
	if (argc == 4 && strcmp(argv[1], "pack") == 0)
		result = tfc_bundle_pack(argv[2], argv[3], &error);
	else if ((argc == 4 || argc == 5) && strcmp(argv[1], "unpack") == 0)
		result = tfc_bundle_unpack(argv[2], argv[3], &error);
	else if (argc == 3 && strcmp(argv[1], "hash") == 0)
		result = tfc_bundle_hash(argv[2], &error, hash);
	else if (argc == 5 && strcmp(argv[1], "add") == 0)
		result = add_archive(argv[2], argv[3], argv[4], hash, &error);
	else if (argc == 6 && strcmp(argv[1], "receive") == 0)
		result = receive_archive(argv[2], argv[3], argv[4], argv[5], &error);
	else if (argc == 4 && strcmp(argv[1], "check") == 0)
		result = check_archive(argv[2], argv[3], &error);
	else if ((argc == 3 || argc == 4) && strcmp(argv[1], "remove") == 0)
		result = (argc == 4 ? tfc__remove_tree_last(argv[2], argv[3])
				    : tfc__remove_tree(argv[2])) < 0
				 ? tfc__fail_errno(&error, "bundle", errno, "cannot remove \"%s\"",
						   argv[2])
				 : TFC_OK;
	else {
		fputs("tfc-bundle: use pack PATH ZIP, unpack ZIP DIR [UID:GID], hash ZIP, remove "
		      "DIR [LAST], add PATH WORK STORE, receive WORK STORE HASH SIZE or check ZIP "
		      "HASH\n",
		      stderr);
		return 1;
	}
	if (result == TFC_OK && argc == 5 && strcmp(argv[1], "unpack") == 0)
		result = change_owners(argv[3], argv[4], &error);
	if (result < 0) {
		fprintf(stderr, "%s\n", error.text);
		return error.code == TFC_ENOSPC ? 2 : 1;
	}
	if (hash[0])
		puts(hash);
	return 0;
}
