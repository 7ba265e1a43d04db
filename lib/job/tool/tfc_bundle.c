/*
 * tfc-bundle: what is done with bundles and may take long, as a program, which nodes run as a
 * process of their own so that no host loop waits for a disk.
 */
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tfcluster/bundle.h>

#include "base/fail.h"
#include "base/file.h"

static int remove_dir(const char *dir, tfc_error *error)
{
	if (tfc__remove_tree(dir) < 0)
		return tfc__fail_errno(error, "job", errno, "%s cannot be removed", dir);
	return TFC_OK;
}

static struct {
	uid_t uid;
	gid_t gid;
} owner;

static int give(const char *path, const struct stat *status, int kind, struct FTW *place)
{
	return lchown(path, owner.uid, owner.gid);
}

/* The directory itself comes last: until then nobody else can reach what is in it. */
static int give_away(const char *dir, const char *ids, tfc_error *error)
{
	unsigned uid, gid;
	int end = 0;
	if (sscanf(ids, "%u:%u%n", &uid, &gid, &end) != 2 || ids[end])
		return tfc__fail(error, TFC_EINVAL, "job", 0, "%s is not UID:GID", ids);
	owner.uid = uid;
	owner.gid = gid;
	if (nftw(dir, give, 16, FTW_DEPTH | FTW_PHYS) != 0)
		return tfc__fail_errno(error, "job", errno, "%s cannot be given to %s", dir, ids);
	return TFC_OK;
}

static int usage(void)
{
	fputs("tfc-bundle: use pack PATH ZIP, unpack ZIP DIR [UID:GID], hash ZIP or remove DIR\n",
	      stderr);
	return 1;
}

int main(int argc, char **argv)
{
	tfc_error error = TFC_ERROR_INIT;
	char hash[TFC_BUNDLE_HASH_SIZE] = "";
	int result;
	if (argc == 4 && strcmp(argv[1], "pack") == 0)
		result = tfc_bundle_pack(argv[2], argv[3], &error);
	else if ((argc == 4 || argc == 5) && strcmp(argv[1], "unpack") == 0)
		result = tfc_bundle_unpack(argv[2], argv[3], &error);
	else if (argc == 3 && strcmp(argv[1], "hash") == 0)
		result = tfc_bundle_hash(argv[2], hash, &error);
	else if (argc == 3 && strcmp(argv[1], "remove") == 0)
		result = remove_dir(argv[2], &error);
	else
		return usage();
	if (result == TFC_OK && argc == 5)
		result = give_away(argv[3], argv[4], &error);
	if (result < 0) {
		fprintf(stderr, "%s\n", error.text);
		return 1;
	}
	if (hash[0])
		puts(hash);
	return 0;
}
