/* bundle: archives that no packer would make (test/lib/hostile_zips.py). Each is refused in its own
 * words, writes nothing anywhere, and leaves nothing behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "bundle/internal.h"
#include "folder.h"
#include "leaks.h"
#include "raw_zip.h"

#define KINDS_MAX 256
#define KINDS_MIN 30
#define FILE_MODE (S_IFREG | 0644)
#define NOBODY 65534

extern char **environ;

static char *place; /* zips/ with the corpus, out/ to unpack into */
static char *out;

static struct kind {
	char name[64];
	char code[32];
	char sentence[256];
} kinds[KINDS_MAX];
static size_t kind_count;

/* Good until the fourth call from here. */
static const char *in_place(const char *folder, const char *name, const char *ending)
{
	static char *paths[4];
	static unsigned next;
	char **path = &paths[next++ % 4];
	free(*path);
	if (asprintf(path, "%s/%s%s%s", place, folder, name, ending) < 0)
		abort();
	return *path;
}

static int make_corpus(const char *folder)
{
	char script[512];
	int status;
	pid_t pid;
	snprintf(script, sizeof(script), "%s/test/lib/hostile_zips.py", getenv("TFC_SOURCE_ROOT"));
	const char *argv[] = {"python3", script, folder, NULL};
	if (posix_spawnp(&pid, "python3", NULL, NULL, (char *const *)argv, environ) != 0 ||
	    waitpid(pid, &status, 0) != pid)
		return -1;
	return status;
}

static int set_up(void **state)
{
	if (tfc__make_private_dir(leaks_temp_dir(), "tfc-hostile-", "test", NULL, &place) < 0 ||
	    !(out = tfc__path_join(place, "out")) || mkdir(out, 0755) < 0 ||
	    mkdir(in_place("zips", "", ""), 0755) < 0 || chmod(place, 0755) < 0 ||
	    make_corpus(in_place("zips", "", "")) != 0)
		return -1;
	FILE *list = fopen(in_place("zips/", "list", ""), "re");
	while (list && kind_count < KINDS_MAX &&
	       fscanf(list, "%63[^\t]\t%31[^\t]\t%255[^\n]\n", kinds[kind_count].name,
		      kinds[kind_count].code, kinds[kind_count].sentence) == 3)
		kind_count++;
	return list ? fclose(list) : -1;
}

static int tear_down(void **state)
{
	int result = tfc__remove_tree(place);
	free(place);
	free(out);
	return result;
}

/* ---- the corpus */

static void refuse(const struct kind *kind)
{
	tfc_error error = TFC_ERROR_INIT;
	const char *zip = in_place("zips/", kind->name, ".zip");
	char with_path[1200];
	int code = tfc_bundle_unpack(zip, out, &error);
	snprintf(with_path, sizeof(with_path), "%.80s: %s", zip, kind->sentence);
	if (code >= 0)
		fail_msg("%s: accepted", kind->name);
	if (strcmp(error.text, kind->sentence) != 0 && strcmp(error.text, with_path) != 0)
		fail_msg("%s: said %s, not %s", kind->name, error.text, kind->sentence);
	assert_string_equal(tfc_err_name(code), kind->code);
	assert_int_equal(folder_count(out, ""), 0);
}

static void every_kind_is_refused_in_its_own_words_and_leaves_nothing(void **state)
{
	size_t files = folder_count(in_place("zips", "", ""), ""), fds = folder_count_fds();
	assert_in_range(kind_count, KINDS_MIN, KINDS_MAX - 1);
	assert_int_equal(files, kind_count + 1); /* and the list */
	for (size_t i = 0; i < kind_count; i++)
		refuse(&kinds[i]);
	assert_int_equal(folder_count_fds(), fds);
	assert_int_equal(folder_count(in_place("zips", "", ""), ""), files);
	assert_int_equal(folder_count(place, ""), 2);
}

static void no_two_kinds_have_the_same_sentence(void **state)
{
	for (size_t i = 0; i < kind_count; i++)
		for (size_t k = 0; k < i; k++)
			if (strcmp(kinds[i].sentence, kinds[k].sentence) == 0)
				fail_msg("%s and %s: %s", kinds[i].name, kinds[k].name,
					 kinds[i].sentence);
}

/* A zip is taken as it is, so what would not unpack is refused when it is packed. Its bytes are
 * not unpacked for that. */
static void packing_refuses_what_the_directory_gives_away(void **state)
{
	size_t packed = 0;
	for (size_t i = 0; i < kind_count; i++) {
		tfc_error error = TFC_ERROR_INIT;
		const char *zip = in_place("zips/", kinds[i].name, ".zip");
		const char *to = in_place("out/", "packed", "");
		struct stat status;
		int code = tfc_bundle_pack(zip, to, &error);
		if (code == TFC_OK) {
			packed++;
			assert_int_equal(unlink(to), 0);
			continue;
		}
		assert_string_equal(tfc_err_name(code), kinds[i].code);
		assert_int_equal(lstat(to, &status), -1);
	}
	assert_in_range(packed, 1, 10); /* wrong in their packed bytes */
}

/* Whoever names a file so means an archive: it is not shipped as a file. Other names are files. */
static void what_is_named_zip_and_is_none_is_refused(void **state)
{
	static const struct {
		const char *name;
		const char *bytes;
		bool is_refused;
	} files[] = {
		{"a.zip", "#!/bin/sh\n", true},
		{"empty.zip", "", true},
		{"A.ZIP", "print()\n", true},
		{".zip", "x", true},
		{"cut.zip", "PK\3\4", true},
		{"begun", "PK\3\4", true},
		{"a.zip.py", "print()\n", false},
		{"zip", "#!/bin/sh\n", false},
		{"empty", "", false},
	};
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		tfc_error error = TFC_ERROR_INIT;
		struct stat status;
		const char *from = in_place("", files[i].name, "");
		const char *to = in_place("out/", "packed", "");
		FILE *file = fopen(from, "we");
		assert_non_null(file);
		fputs(files[i].bytes, file);
		assert_int_equal(fclose(file), 0);
		int code = tfc_bundle_pack(from, to, &error);
		if (code != (files[i].is_refused ? TFC_EARCHIVE : TFC_OK))
			fail_msg("%s: %d %s", files[i].name, code, error.text);
		assert_int_equal(lstat(to, &status), files[i].is_refused ? -1 : 0);
		if (files[i].is_refused)
			assert_non_null(strstr(error.text, files[i].name));
		else
			assert_int_equal(unlink(to), 0);
		assert_int_equal(unlink(from), 0);
	}
}

static void what_is_no_file_is_refused_without_waiting(void **state)
{
	tfc_error error = TFC_ERROR_INIT;
	const char *fifo = in_place("", "fifo", "");
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(tfc_bundle_unpack(fifo, out, &error), TFC_EARCHIVE);
	assert_non_null(strstr(error.text, ": not a regular file"));
	assert_int_equal(unlink(fifo), 0);
	assert_int_equal(tfc_bundle_unpack(out, out, &error), TFC_EARCHIVE);
	assert_non_null(strstr(error.text, ": not a regular file"));
}

/* ---- failures in the middle */

static void write_nested(const char *zip)
{
	static char large[100000];
	memset(large, 'x', sizeof(large) - 1);
	const struct raw_entry entries[] = {
		{.name = "top", .mode = FILE_MODE, .data = "1"},
		{.name = "a/b/c/file", .mode = FILE_MODE, .data = "2"},
		{.name = "large", .mode = FILE_MODE, .data = large},
	};
	raw_zip_write(zip, entries, 3);
}

static int empty_out(void **state)
{
	int fd = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -1 : tfc__empty_dir(fd);
}

static void too_few_descriptors_leave_nothing(void **state)
{
	struct rlimit old, limit;
	const char *zip = in_place("", "nested", ".zip");
	int code = TFC_EMFILE;
	write_nested(zip);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	unsigned failed = 0;
	for (rlim_t spare = 0; code == TFC_EMFILE; spare++) {
		tfc_error error = TFC_ERROR_INIT;
		limit = old;
		limit.rlim_cur = 3 + spare; /* main closed all others */
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
		code = tfc_bundle_unpack(zip, out, &error);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
		if (code < 0) {
			assert_int_equal(code, TFC_EMFILE);
			assert_non_null(strstr(error.text, ": Too many open files"));
			assert_int_equal(folder_count(out, ""), 0);
			failed++;
		}
	}
	assert_int_equal(code, TFC_OK);
	assert_in_range(failed, 2, 20);
	unlink(zip);
}

static void a_limit_of_file_size_leaves_nothing(void **state)
{
	struct rlimit old, limit;
	tfc_error error = TFC_ERROR_INIT;
	const char *zip = in_place("", "nested", ".zip");
	write_nested(zip);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	limit = old;
	limit.rlim_cur = 50000;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	int code = tfc_bundle_unpack(zip, out, &error);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(code, TFC_ESYS);
	assert_string_equal(error.text, "cannot unpack entry large: File too large");
	assert_int_equal(folder_count(out, ""), 0);
	unlink(zip);
}

/* Without a superuser's rights a closed folder is closed to us, too: its mode comes last. */
static void folders_may_be_closed_and_listed_in_any_order(void **state)
{
	static const struct raw_entry entries[] = {
		{.name = "a/b/", .mode = S_IFDIR | 0500},
		{.name = "a/b/file", .mode = FILE_MODE, .data = "1"},
		{.name = "a/", .mode = S_IFDIR | 0000},
		{.name = "bad", .mode = FILE_MODE, .data = "2", .crc_flip = 0},
	};
	struct raw_entry bad[4];
	struct stat status;
	tfc_error error = TFC_ERROR_INIT;
	const char *zip = in_place("", "closed", ".zip");
	memcpy(bad, entries, sizeof(bad));
	bad[3].crc_flip = 1;
	bool is_root = geteuid() == 0;
	assert_int_equal(is_root ? chown(out, NOBODY, (gid_t)-1) : 0, 0);
	for (int i = 0; i < 2; i++) {
		raw_zip_write(zip, i ? entries : bad, 4);
		assert_int_equal(chmod(zip, 0644), 0);
		assert_int_equal(is_root ? seteuid(NOBODY) : 0, 0);
		int code = tfc_bundle_unpack(zip, out, &error);
		assert_int_equal(is_root ? seteuid(0) : 0, 0);
		if (i)
			assert_int_equal(code, TFC_OK);
		else
			assert_int_equal(code, TFC_EARCHIVE);
		assert_int_equal(folder_count(out, ""), i ? 2 : 0);
	}
	assert_int_equal(stat(in_place("out/", "a", ""), &status), 0);
	assert_int_equal(status.st_mode & 07777, 0);
	assert_int_equal(chmod(in_place("out/", "a", ""), 0700), 0);
	assert_int_equal(stat(in_place("out/", "a/b", ""), &status), 0);
	assert_int_equal(status.st_mode & 07777, 0500);
	unlink(zip);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_is_refused_in_its_own_words_and_leaves_nothing),
		cmocka_unit_test(no_two_kinds_have_the_same_sentence),
		cmocka_unit_test(packing_refuses_what_the_directory_gives_away),
		cmocka_unit_test(what_is_named_zip_and_is_none_is_refused),
		cmocka_unit_test(what_is_no_file_is_refused_without_waiting),
		cmocka_unit_test_teardown(too_few_descriptors_leave_nothing, empty_out),
		cmocka_unit_test_teardown(a_limit_of_file_size_leaves_nothing, empty_out),
		cmocka_unit_test_teardown(folders_may_be_closed_and_listed_in_any_order, empty_out),
	};
	close_range(3, UINT_MAX, 0); /* what was inherited */
	return cmocka_run_group_tests_name("bundle_hostile", tests, set_up, tear_down);
}
