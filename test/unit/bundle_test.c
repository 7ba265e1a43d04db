/* bundle: bundles. What packs unpacks to the same; what is hostile leaves nothing behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "bundle/internal.h"
#include "folder.h"
#include "leaks.h"
#include "raw_zip.h"

#define FILE_MODE (S_IFREG | 0644)

/* Every test has a directory of its own with an empty one, "out", in it. */
struct place {
	char *path;
	char zip[256];
	char out[256];
};

static int make_place(void **state)
{
	struct place *place = calloc(1, sizeof(*place));
	if (!place ||
	    tfc__make_private_dir(leaks_temp_dir(), "tfc-bundle-", "test", NULL, &place->path) < 0)
		return -1;
	snprintf(place->zip, sizeof(place->zip), "%s/a.zip", place->path);
	snprintf(place->out, sizeof(place->out), "%s/out", place->path);
	*state = place;
	return mkdir(place->out, 0700);
}

static int remove_place(void **state)
{
	struct place *place = *state;
	int result = tfc__remove_tree(place->path);
	free(place->path);
	free(place);
	return result;
}

static const char *in(const struct place *place, const char *name)
{
	static char paths[4][512];
	static unsigned next;
	char *path = paths[next++ % 4];
	snprintf(path, sizeof(paths[0]), "%s/%s", place->path, name);
	return path;
}

static void put_file(const char *path, const char *text, mode_t mode)
{
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(path, mode), 0);
}

static void assert_file(const char *path, const char *text, mode_t mode)
{
	char buf[256];
	struct stat status;
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	size_t len = fread(buf, 1, sizeof(buf), file);
	fclose(file);
	assert_int_equal(len, strlen(text));
	assert_memory_equal(buf, text, len);
	assert_int_equal(lstat(path, &status), 0);
	assert_int_equal(status.st_mode, S_IFREG | mode);
}

static void assert_folder(const char *path, mode_t mode)
{
	struct stat status;
	assert_int_equal(lstat(path, &status), 0);
	assert_int_equal(status.st_mode, S_IFDIR | mode);
}

static void pack(const char *path, const char *zip)
{
	tfc_error error = TFC_ERROR_INIT;
	if (tfc_bundle_pack(path, zip, &error) < 0)
		fail_msg("%s", error.text);
}

static void unpack(const char *zip, const char *dir)
{
	tfc_error error = TFC_ERROR_INIT;
	if (tfc_bundle_unpack(zip, dir, &error) < 0)
		fail_msg("%s", error.text);
}

static void make_source(const struct place *place)
{
	mkdir(in(place, "src"), 0755);
	mkdir(in(place, "src/pkg"), 0755);
	mkdir(in(place, "src/pkg/empty"), 0755);
	chmod(in(place, "src/pkg/empty"), 0700);
	chmod(in(place, "src/pkg"), 0555);
	put_file(in(place, "src/train.py"), "print(1)\n", 0775);
	put_file(in(place, "src/secret"), "", 0600);
}

/* ---- packing and back */

static void a_directory_comes_back_with_its_modes(void **state)
{
	struct place *place = *state;
	make_source(place);
	pack(in(place, "src"), place->zip);
	unpack(place->zip, place->out);
	assert_file(in(place, "out/train.py"), "print(1)\n", 0755); /* others may not write */
	assert_file(in(place, "out/secret"), "", 0600);
	assert_folder(in(place, "out/pkg"), 0555);
	assert_folder(in(place, "out/pkg/empty"), 0700);
	assert_int_equal(folder_count(place->out, ""), 3);
}

static void a_single_file_is_packed_under_its_name(void **state)
{
	struct place *place = *state;
	put_file(in(place, "train.py"), "x", 0644);
	pack(in(place, "train.py"), place->zip);
	unpack(place->zip, place->out);
	assert_file(in(place, "out/train.py"), "x", 0644);
	assert_int_equal(folder_count(place->out, ""), 1);
}

static void a_zip_is_taken_as_it_is(void **state)
{
	struct place *place = *state;
	char one[TFC_BUNDLE_HASH_SIZE], two[TFC_BUNDLE_HASH_SIZE];
	const struct raw_entry entries[] = {{.name = "a/b", .mode = FILE_MODE, .data = "x"}};
	raw_zip_write(in(place, "given.zip"), entries, 1);
	pack(in(place, "given.zip"), place->zip);
	assert_int_equal(tfc_bundle_hash(in(place, "given.zip"), NULL, one), TFC_OK);
	assert_int_equal(tfc_bundle_hash(place->zip, NULL, two), TFC_OK);
	assert_string_equal(one, two);
	unpack(place->zip, place->out);
	assert_file(in(place, "out/a/b"), "x", 0644);
}

static void an_empty_directory_packs_and_unpacks(void **state)
{
	struct place *place = *state;
	mkdir(in(place, "src"), 0755);
	pack(in(place, "src"), place->zip);
	unpack(place->zip, place->out);
	assert_int_equal(folder_count(place->out, ""), 0);
}

static void equal_directories_have_equal_hashes(void **state)
{
	struct place *place = *state;
	char one[TFC_BUNDLE_HASH_SIZE], two[TFC_BUNDLE_HASH_SIZE], three[TFC_BUNDLE_HASH_SIZE];
	make_source(place);
	pack(in(place, "src"), in(place, "1.zip"));
	const struct timespec times[2] = {{1000000000, 0}, {1000000000, 0}};
	utimensat(AT_FDCWD, in(place, "src/secret"), times, 0);
	pack(in(place, "src"), in(place, "2.zip"));
	put_file(in(place, "src/secret"), "changed", 0600);
	pack(in(place, "src"), in(place, "3.zip"));
	assert_int_equal(tfc_bundle_hash(in(place, "1.zip"), NULL, one), TFC_OK);
	assert_int_equal(tfc_bundle_hash(in(place, "2.zip"), NULL, two), TFC_OK);
	assert_int_equal(tfc_bundle_hash(in(place, "3.zip"), NULL, three), TFC_OK);
	assert_string_equal(one, two);
	assert_string_not_equal(one, three);
}

static void the_hash_is_sha256_of_the_bytes(void **state)
{
	struct place *place = *state;
	char hash[TFC_BUNDLE_HASH_SIZE];
	put_file(place->zip, "abc", 0600); /* FIPS 180-4's example */
	assert_int_equal(tfc_bundle_hash(place->zip, NULL, hash), TFC_OK);
	assert_string_equal(hash,
			    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static void links_are_followed_inside_the_directory_only(void **state)
{
	struct place *place = *state;
	tfc_error error = TFC_ERROR_INIT;
	make_source(place);
	assert_int_equal(symlink("train.py", in(place, "src/link")), 0);
	pack(in(place, "src"), place->zip);
	unpack(place->zip, place->out);
	assert_file(in(place, "out/link"), "print(1)\n", 0755);

	assert_int_equal(symlink("../out/secret", in(place, "src/outside")), 0);
	assert_int_equal(tfc_bundle_pack(in(place, "src"), in(place, "2.zip"), &error),
			 TFC_EARCHIVE);
	assert_string_equal(error.text,
			    "outside: a link that is broken or leads out of the directory");
	assert_int_equal(access(in(place, "2.zip"), F_OK), -1);
}

static void what_cannot_be_packed_is_named_and_leaves_no_archive(void **state)
{
	struct place *place = *state;
	tfc_error error = TFC_ERROR_INIT;
	char expected[512];
	assert_int_equal(tfc_bundle_pack(in(place, "nothing"), place->zip, &error), TFC_ENOENT);
	snprintf(expected, sizeof(expected), "%s: No such file or directory", in(place, "nothing"));
	assert_string_equal(error.text, expected);
	mkdir(in(place, "src"), 0755);
	mkfifo(in(place, "src/fifo"), 0600);
	assert_int_equal(tfc_bundle_pack(in(place, "src"), place->zip, &error), TFC_EARCHIVE);
	assert_string_equal(error.text, "fifo: neither a file nor a directory");
	unlink(in(place, "src/fifo"));
	put_file(in(place, "src/README"), "", 0644);
	put_file(in(place, "src/readme"), "", 0644);
	assert_int_equal(tfc_bundle_pack(in(place, "src"), place->zip, &error), TFC_EARCHIVE);
	assert_string_equal(error.text, "entries README and readme: names differ only in case");
	assert_int_equal(access(place->zip, F_OK), -1);
	unlink(in(place, "src/readme"));
	put_file(place->zip, "mine", 0600);
	assert_int_equal(tfc_bundle_pack(in(place, "src"), place->zip, &error), TFC_EEXIST);
	assert_file(place->zip, "mine", 0600);
}

static void what_exceeds_a_limit_is_refused_with_the_limit(void **state)
{
	struct place *place = *state;
	tfc_error error = TFC_ERROR_INIT;
	char expected[512], name[32];
	const char *hint = "keep data outside the bundle, where the nodes can read it";
	mkdir(in(place, "src"), 0755);
	put_file(in(place, "src/data"), "", 0644);
	assert_int_equal(truncate(in(place, "src/data"), (off_t)19 << 29), 0);
	assert_int_equal(tfc_bundle_pack(in(place, "src"), place->zip, &error), TFC_ETOOBIG);
	snprintf(expected, sizeof(expected),
		 "data: with this file of 9.5 GiB the bundle exceeds the limit of 8 GiB; %s", hint);
	assert_string_equal(error.text, expected);
	assert_int_equal(truncate(in(place, "src/data"), 0), 0);
	for (int i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "src/%d", i);
		assert_int_equal(link(in(place, "src/data"), in(place, name)), 0);
	}
	assert_int_equal(tfc_bundle_pack(in(place, "src"), place->zip, &error), TFC_ETOOBIG);
	snprintf(expected, sizeof(expected),
		 "%s: a bundle has at most 10000 files and directories, and this has more; %s",
		 in(place, "src"), hint);
	assert_string_equal(error.text, expected);
	assert_int_equal(access(place->zip, F_OK), -1);
}

static void an_archive_in_its_own_directory_is_left_out(void **state)
{
	struct place *place = *state;
	make_source(place);
	pack(in(place, "src"), in(place, "src/self.zip"));
	unpack(in(place, "src/self.zip"), place->out);
	assert_int_equal(folder_count(place->out, ""), 3);
	assert_int_equal(access(in(place, "out/self.zip"), F_OK), -1);
}

/* ---- archives made by hand; bundle_hostile_test.c has those that are out to hurt */

/* What is said about an archive as a whole begins with its path. */
static void assert_sentence(const struct place *place, const tfc_error *error, const char *sentence)
{
	size_t len = strlen(place->zip);
	assert_int_equal(strncmp(error->text, place->zip, len), 0);
	assert_string_equal(error->text + len, sentence);
}

static void quotas_hold(void **state)
{
	struct place *place = *state;
	tfc_error error = TFC_ERROR_INIT;
	const struct raw_entry entries[] = {
		{.name = "a", .mode = FILE_MODE, .data = "12345"},
		{.name = "b", .mode = FILE_MODE, .data = "12345"},
	};
	struct tfc__bundle_limits limits = {1, 200, 1 << 20, 10};
	raw_zip_write(place->zip, entries, 2);
	assert_int_equal(tfc__bundle_unpack(place->zip, place->out, &limits, &error), TFC_ETOOBIG);
	assert_sentence(place, &error,
			": the archive has 2 files and directories; the limit of a bundle is 1; "
			"keep data outside the bundle, where the nodes can read it");
	limits = (struct tfc__bundle_limits){2, 200, 1 << 20, 9};
	assert_int_equal(tfc__bundle_unpack(place->zip, place->out, &limits, &error), TFC_ETOOBIG);
	assert_sentence(place, &error,
			": entry b: with its 5 bytes the archive unpacks to more than the limit of "
			"9 bytes; keep data outside the bundle, where the nodes can read it");
	assert_int_equal(folder_count(place->out, ""), 0);
	limits.bytes = 10;
	assert_int_equal(tfc__bundle_unpack(place->zip, place->out, &limits, &error), TFC_OK);
	assert_file(in(place, "out/b"), "12345", 0644);
}

static void setuid_and_other_bits_are_dropped(void **state)
{
	struct place *place = *state;
	const struct raw_entry entries[] = {
		{.name = "suid", .mode = S_IFREG | 06777, .data = "x"},
		{.name = "dir/", .mode = S_IFDIR | 07777},
		{.name = "plain"}, /* from a system without modes */
	};
	raw_zip_write(place->zip, entries, 3);
	unpack(place->zip, place->out);
	assert_file(in(place, "out/suid"), "x", 0755);
	assert_folder(in(place, "out/dir"), 0755);
	assert_file(in(place, "out/plain"), "", 0644);
}

static void a_directory_that_is_not_empty_is_left_alone(void **state)
{
	struct place *place = *state;
	tfc_error error = TFC_ERROR_INIT;
	const struct raw_entry entry = {.name = "../x", .mode = FILE_MODE};
	raw_zip_write(place->zip, &entry, 1);
	put_file(in(place, "out/mine"), "mine", 0600);
	assert_int_equal(tfc_bundle_unpack(place->zip, place->out, &error), TFC_EEXIST);
	assert_file(in(place, "out/mine"), "mine", 0600);
}

static void every_truncated_archive_is_refused(void **state)
{
	struct place *place = *state;
	const struct raw_entry entries[] = {
		{.name = "dir/a", .mode = FILE_MODE, .data = "12345"},
		{.name = "b", .mode = FILE_MODE, .data = "6789"},
	};
	struct stat status;
	raw_zip_write(place->zip, entries, 2);
	assert_int_equal(stat(place->zip, &status), 0);
	for (off_t size = status.st_size - 1; size >= 0; size--) {
		tfc_error error = TFC_ERROR_INIT;
		assert_int_equal(truncate(place->zip, size), 0);
		assert_int_equal(tfc_bundle_unpack(place->zip, place->out, &error), TFC_EARCHIVE);
		assert_int_equal(folder_count(place->out, ""), 0);
	}
}

/* Whatever a flipped bit does, nothing appears outside and a refusal leaves nothing inside. */
static void flipped_bits_never_write_outside(void **state)
{
	struct place *place = *state;
	const struct raw_entry entries[] = {
		{.name = "dir/", .mode = S_IFDIR | 0755},
		{.name = "dir/a", .mode = FILE_MODE, .data = "12345"},
	};
	char bytes[512];
	raw_zip_write(place->zip, entries, 2);
	FILE *file = fopen(place->zip, "re");
	assert_non_null(file);
	size_t len = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	assert_in_range(len, 100, sizeof(bytes) - 1);
	unsigned refused = 0;
	for (size_t bit = 0; bit < len * 8; bit++) {
		bytes[bit / 8] ^= (char)(1 << bit % 8);
		file = fopen(place->zip, "we");
		assert_non_null(file);
		assert_int_equal(fwrite(bytes, 1, len, file), len);
		fclose(file);
		bytes[bit / 8] ^= (char)(1 << bit % 8);
		if (tfc_bundle_unpack(place->zip, place->out, NULL) < 0) {
			refused++;
			assert_int_equal(folder_count(place->out, ""), 0);
		}
		assert_int_equal(folder_count(place->path, ""), 2);
		assert_int_equal(tfc__remove_tree(place->out), 0);
		assert_int_equal(mkdir(place->out, 0700), 0);
	}
	assert_in_range(refused, len, len * 8);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_place, remove_place)
	const struct CMUnitTest tests[] = {
		TEST(a_directory_comes_back_with_its_modes),
		TEST(a_single_file_is_packed_under_its_name),
		TEST(a_zip_is_taken_as_it_is),
		TEST(an_empty_directory_packs_and_unpacks),
		TEST(equal_directories_have_equal_hashes),
		TEST(the_hash_is_sha256_of_the_bytes),
		TEST(links_are_followed_inside_the_directory_only),
		TEST(what_cannot_be_packed_is_named_and_leaves_no_archive),
		TEST(what_exceeds_a_limit_is_refused_with_the_limit),
		TEST(an_archive_in_its_own_directory_is_left_out),
		TEST(quotas_hold),
		TEST(setuid_and_other_bits_are_dropped),
		TEST(a_directory_that_is_not_empty_is_left_alone),
		TEST(every_truncated_archive_is_refused),
		TEST(flipped_bits_never_write_outside),
	};
	return cmocka_run_group_tests_name("bundle", tests, NULL, NULL);
}
