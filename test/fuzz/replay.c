/*
 * Runs a target over its corpus: replay CORPUS. Each file goes in whole and, when it is small, cut
 * short at every byte, in a buffer of just that size, so that a sanitizer sees a read behind it.
 */
#include <dirent.h>
#include <string.h>

#include "fuzz.h"

#define CUT_MAX 700 /* larger files are not cut: it would take too long */

static void run(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);
	CHECK(copy);
	memcpy(copy, data, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

static void run_file(const char *path)
{
	uint8_t *data = NULL;
	size_t size = 0;
	FILE *file = fopen(path, "re");
	CHECK(file);
	CHECK(fseek(file, 0, SEEK_END) == 0);
	size = (size_t)ftell(file);
	rewind(file);
	data = malloc(size + 1);
	CHECK(data);
	CHECK(fread(data, 1, size, file) == size);
	fclose(file);
	fprintf(stderr, "%s\n", path); /* the last one is the one that fails */
	run(data, size);
	for (size_t cut = 0; size <= CUT_MAX && cut < size; cut++)
		run(data, cut);
	free(data);
}

int main(int argc, char **argv)
{
	unsigned count = 0;
	char path[4096];
	DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
	if (!dir) {
		fprintf(stderr, "replay: there is no corpus\n");
		return 1;
	}
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", argv[1], entry->d_name);
		run_file(path);
		count++;
	}
	closedir(dir);
	printf("%u inputs\n", count);
	return count ? 0 : 1;
}
