/*
 * tfc-bundle: the three blocking calls on bundles as a program, which nodes run as a process of
 * their own so that no host loop waits for a disk.
 */
#include <stdio.h>
#include <string.h>

#include <tfcluster/bundle.h>

static int usage(void)
{
	fputs("tfc-bundle: use pack PATH ZIP, unpack ZIP DIR or hash ZIP\n", stderr);
	return 1;
}

int main(int argc, char **argv)
{
	tfc_error error = TFC_ERROR_INIT;
	char hash[TFC_BUNDLE_HASH_SIZE];
	int result;
	if (argc == 4 && strcmp(argv[1], "pack") == 0)
		result = tfc_bundle_pack(argv[2], argv[3], &error);
	else if (argc == 4 && strcmp(argv[1], "unpack") == 0)
		result = tfc_bundle_unpack(argv[2], argv[3], &error);
	else if (argc == 3 && strcmp(argv[1], "hash") == 0)
		result = tfc_bundle_hash(argv[2], hash, &error);
	else
		return usage();
	if (result < 0) {
		fprintf(stderr, "%s\n", error.text);
		return 1;
	}
	if (argc == 3)
		puts(hash);
	return 0;
}
