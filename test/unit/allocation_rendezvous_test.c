/* allocation: the file in which rank 0 publishes its address and the key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "allocation/rendezvous.h"
#include "leaks.h"

#define KEY "tfcluster-key 1 node 0123456789abcdef 00"

static char dir[LEAKS_PATH], path[LEAKS_PATH + 16];

static int make_dir(void **state)
{
	leaks_make_dir(dir);
	snprintf(path, sizeof(path), "%s/run", dir);
	return 0;
}

/* Nothing but the file is there. */
static int remove_dir(void **state)
{
	unlink(path);
	return rmdir(dir);
}

static void write_text(const char *text, mode_t mode)
{
	unlink(path);
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(path, mode), 0);
}

static void what_is_written_is_read(void **state)
{
	static const struct tfc__rendezvous cases[] = {{"10.0.0.1:7411", KEY},
						       {"[2001:db8::1]:1", KEY},
						       {"node-0.svc:65535", ""}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tfc__rendezvous read;
		tfc_error error = TFC_ERROR_INIT;
		struct stat stat_;
		int lock = -1;
		assert_int_equal(tfc__rendezvous_write(path, &cases[i], &error, &lock), TFC_OK);
		assert_int_equal(stat(path, &stat_), 0);
		assert_int_equal(stat_.st_mode & 07777, 0600);
		assert_int_equal(tfc__rendezvous_read(path, &error, &read), TFC_OK);
		assert_string_equal(read.address, cases[i].address);
		assert_string_equal(read.key, cases[i].key);
		assert_int_equal(close(lock), 0); /* the next one may replace it */
	}
}

static void a_file_that_is_not_there_yet_is_told_apart(void **state)
{
	struct tfc__rendezvous read;
	assert_int_equal(tfc__rendezvous_read(path, NULL, &read), TFC_ENOENT);
}

static void a_file_that_others_can_read_is_refused(void **state)
{
	struct tfc__rendezvous read;
	tfc_error error = TFC_ERROR_INIT;
	write_text("tfcluster-rendezvous 1\naddress 10.0.0.1:7411\n", 0640);
	assert_int_equal(tfc__rendezvous_read(path, &error, &read), TFC_EACCES);
	assert_non_null(strstr(error.text, "chmod 600"));
}

/* Longer than a host's address may be. */
#define LONG_ADDRESS                       \
	"tfcluster-rendezvous 1\naddress " \
	"012345678901234567890123456789012345678901234567890123456789012345:1\n"

static void damaged_files_are_refused(void **state)
{
	static const char *const texts[] = {
		"",
		"tfcluster-rendezvous 1",
		"tfcluster-rendezvous 1\n",
		"tfcluster-rendezvous 2\naddress 10.0.0.1:7411\n",
		"tfcluster-rendezvous 1\naddress 10.0.0.1:7411",
		"tfcluster-rendezvous 1\naddress 10.0.0.1\n",
		"tfcluster-rendezvous 1\naddress \n",
		"tfcluster-rendezvous 1\naddress 10.0.0.1:0\n",
		"tfcluster-rendezvous 1\naddress 10.0.0.1:7411\nkey \n",
		"tfcluster-rendezvous 1\naddress 10.0.0.1:7411\nkey x\nmore\n",
		"tfcluster-rendezvous 1\nkey x\naddress 10.0.0.1:7411\n",
		LONG_ADDRESS,
	};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct tfc__rendezvous read;
		tfc_error error = TFC_ERROR_INIT;
		write_text(texts[i], 0600);
		if (tfc__rendezvous_read(path, &error, &read) != TFC_EPARSE)
			fail_msg("\"%s\" was accepted", texts[i]);
		assert_non_null(strstr(error.text, "is not a rendezvous file"));
	}
}

static void a_file_of_a_later_run_is_not_removed(void **state)
{
	static const struct tfc__rendezvous later = {"10.0.0.2:2", ""};
	struct tfc__rendezvous read;
	int lock = -1;
	assert_int_equal(tfc__rendezvous_write(path, &later, NULL, &lock), TFC_OK);
	assert_int_equal(close(lock), 0);
	tfc__rendezvous_remove(path, "10.0.0.1:1");
	assert_int_equal(tfc__rendezvous_read(path, NULL, &read), TFC_OK);
	tfc__rendezvous_remove(path, "10.0.0.2:2");
	assert_int_equal(tfc__rendezvous_read(path, NULL, &read), TFC_ENOENT);
}

static void the_file_of_a_run_that_lives_is_not_replaced(void **state)
{
	static const struct tfc__rendezvous first = {"10.0.0.1:1", KEY},
					    second = {"10.0.0.2:2", KEY};
	struct tfc__rendezvous read;
	tfc_error error = TFC_ERROR_INIT;
	int lock = -1, none = -1;
	assert_int_equal(tfc__rendezvous_write(path, &first, &error, &lock), TFC_OK);
	assert_int_equal(tfc__rendezvous_write(path, &second, &error, &none), TFC_EBUSY);
	assert_non_null(strstr(error.text, "another run has"));
	assert_int_equal(none, -1);
	assert_int_equal(tfc__rendezvous_read(path, NULL, &read), TFC_OK);
	assert_string_equal(read.address, first.address);
	assert_int_equal(close(lock), 0);
	assert_int_equal(tfc__rendezvous_write(path, &second, &error, &lock), TFC_OK);
	assert_int_equal(tfc__rendezvous_read(path, NULL, &read), TFC_OK);
	assert_string_equal(read.address, second.address);
	assert_int_equal(close(lock), 0);
}

/* Whatever it is, unless it is a directory. */
static void what_is_no_file_of_a_run_is_replaced(void **state)
{
	static const struct tfc__rendezvous own = {"10.0.0.1:1", KEY};
	struct tfc__rendezvous read;
	tfc_error error = TFC_ERROR_INIT;
	int lock = -1;
	for (int i = 0; i < 4; i++) {
		unlink(path);
		if (i == 0)
			write_text("garbage", 0644);
		else if (i == 1)
			assert_int_equal(symlink("/dev/null", path), 0);
		else if (i == 2)
			assert_int_equal(symlink("nowhere", path), 0);
		else
			assert_int_equal(mkfifo(path, 0600), 0);
		assert_int_equal(tfc__rendezvous_write(path, &own, &error, &lock), TFC_OK);
		assert_int_equal(close(lock), 0);
		assert_int_equal(tfc__rendezvous_read(path, &error, &read), TFC_OK);
	}
	unlink(path);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_true(tfc__rendezvous_write(path, &own, &error, &lock) < 0);
	assert_non_null(strstr(error.text, "cannot write"));
	assert_int_equal(rmdir(path), 0);
}

static void addresses_are_told_from_directories(void **state)
{
	static const struct {
		const char *text, *host; /* NULL: no address */
		uint16_t port;
	} cases[] = {
		{"10.0.0.1:7411", "10.0.0.1", 7411},
		{"train-0.train:7411", "train-0.train", 7411},
		{"[::1]:7411", "::1", 7411},
		{"host:0", NULL, 0},
		{"host:65536", NULL, 0},
		{":7411", NULL, 0},
		{"[]:7411", NULL, 0},
		{"host", NULL, 0},
		{"/scratch/a:7411", NULL, 0},
		{"./a:1", NULL, 0},
		{"host:port", NULL, 0},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *host;
		size_t len;
		uint16_t port;
		bool is_address = tfc__rendezvous_is_address(cases[i].text, &host, &len, &port);
		if (is_address != (cases[i].host != NULL))
			fail_msg("\"%s\"", cases[i].text);
		if (!is_address)
			continue;
		assert_int_equal(len, strlen(cases[i].host));
		assert_memory_equal(host, cases[i].host, len);
		assert_int_equal(port, cases[i].port);
	}
}

static void the_loopback_is_reached_from_itself(void **state)
{
	char host[INET6_ADDRSTRLEN];
	tfc__route_source("127.0.0.1", host);
	assert_string_equal(host, "127.0.0.1");
	tfc__route_source("no address", host);
	assert_true(*host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_written_is_read, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(a_file_that_is_not_there_yet_is_told_apart,
						make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(a_file_that_others_can_read_is_refused, make_dir,
						remove_dir),
		cmocka_unit_test_setup_teardown(damaged_files_are_refused, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(a_file_of_a_later_run_is_not_removed, make_dir,
						remove_dir),
		cmocka_unit_test_setup_teardown(the_file_of_a_run_that_lives_is_not_replaced,
						make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(what_is_no_file_of_a_run_is_replaced, make_dir,
						remove_dir),
		cmocka_unit_test(addresses_are_told_from_directories),
		cmocka_unit_test(the_loopback_is_reached_from_itself),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
