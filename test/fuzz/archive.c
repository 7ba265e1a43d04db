/* job: whole archives. What is accepted unpacks to plain files and folders below the directory, as
 * its own directory said; what is refused leaves nothing. */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "bundle/internal.h"
#include "fuzz.h"

static const struct tfc__bundle_limits limits = {32, 200, 1 << 12, 1 << 16};

struct found {
	size_t files;
	uint64_t bytes;
};

/* Takes over fd. */
static void walk(int fd, struct found *found)
{
	struct stat status;
	DIR *dir = fdopendir(fd);
	CHECK(dir);
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		CHECK(fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0);
		CHECK(S_ISREG(status.st_mode) || S_ISDIR(status.st_mode));
		CHECK((status.st_mode & 07022) == 0);
		found->files++;
		if (S_ISREG(status.st_mode)) {
			found->bytes += (uint64_t)status.st_size;
			continue;
		}
		fchmodat(fd, entry->d_name, 0700, 0);
		walk(openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
		     found);
	}
	closedir(dir);
}

static void check_entries(const char *out, const struct tfc__bundle_directory *directory)
{
	struct found found = {0};
	uint64_t bytes = 0;
	for (size_t i = 0; i < directory->count; i++) {
		const struct tfc__bundle_entry *entry = &directory->entries[i];
		struct stat status;
		char *path = tfc__path_join(out, entry->name);
		CHECK(path && lstat(path, &status) == 0);
		CHECK(entry->is_directory == S_ISDIR(status.st_mode));
		CHECK((status.st_mode & 07777) == entry->mode);
		if (!entry->is_directory)
			CHECK((uint64_t)status.st_size == entry->size);
		bytes += entry->size;
		free(path);
	}
	walk(open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC), &found);
	CHECK(found.bytes == bytes && bytes <= limits.bytes);
	CHECK(found.files >= directory->count);
}

static void check_nothing(const char *path, size_t count)
{
	DIR *dir = opendir(path);
	CHECK(dir);
	while (readdir(dir))
		count--;
	closedir(dir);
	CHECK(count == 0);
}

static void check_scan(const char *zip, bool is_unpacked, const char *out)
{
	struct tfc__bundle_directory directory;
	tfc_error error = TFC_ERROR_INIT;
	int fd = open(zip, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	int code = tfc__bundle_scan(fd, &limits, &error, &directory);
	close(fd);
	if (code < 0)
		fuzz_check_error(code, &error);
	CHECK(code == TFC_OK || !is_unpacked);
	if (is_unpacked)
		check_entries(out, &directory);
	if (code == TFC_OK)
		tfc__bundle_scan_fini(&directory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	tfc_error error = TFC_ERROR_INIT;
	char *zip = tfc__path_join(fuzz_dir(), "zip"), *out = tfc__path_join(fuzz_dir(), "out");
	CHECK(zip && out);
	mkdir(out, 0700);
	fuzz_write(zip, data, size);
	int code = tfc__bundle_unpack(zip, out, &limits, &error);
	if (code < 0) {
		CHECK(code == TFC_EARCHIVE || code == TFC_ETOOBIG);
		fuzz_check_error(code, &error);
		check_nothing(out, 2);
	}
	check_scan(zip, code == TFC_OK, out);
	CHECK(tfc__remove_tree(out) == 0);
	check_nothing(fuzz_dir(), 3);
	free(zip);
	free(out);
	return 0;
}
