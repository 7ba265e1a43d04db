/* wire: key files and identities: made once, read by their owner alone, refused with a reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include "leaks.h"
#include "wire/keyring.h"

/* Of BLAKE2b, as computed by Python's hashlib from role and bytes. */
#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"
#define ONES "1111111111111111111111111111111111111111111111111111111111111111"
#define NODE_LINE "tfcluster-key 1 node " NODE_ZEROS " " ZEROS "\n"
#define SUBMIT_LINE "tfcluster-key 1 submit " SUBMIT_ONES " " ONES "\n"
#define NODE_ZEROS "7e164fc2f959bd10"
#define SUBMIT_ONES "d77b095d80fb5c32"

static char dir[LEAKS_PATH], path[LEAKS_PATH + 16];

static int make_dir(void **state)
{
	leaks_make_dir(dir);
	snprintf(path, sizeof(path), "%s/key", dir);
	return 0;
}

/* Nothing but `path` is there, no temporary file. */
static int remove_dir(void **state)
{
	unlink(path);
	return rmdir(dir);
}

static void write_file(const char *text, size_t len, mode_t mode)
{
	unlink(path);
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, len, file), len);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(path, mode), 0);
}

static struct tfc__keyring *load(const char *text)
{
	struct tfc__keyring *ring = NULL;
	tfc_error error = TFC_ERROR_INIT;
	write_file(text, strlen(text), 0600);
	if (tfc__keyring_load(path, &error, &ring) < 0)
		fail_msg("%s", error.text);
	return ring;
}

/* ---- key files */

static void a_new_key_is_its_owners_alone(void **state)
{
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__keyring *ring = NULL;
	struct stat stat;
	mode_t old = umask(0277); /* whatever the caller's is */
	int code = tfc__keyring_generate(path, TFC__KEY_SUBMIT, &error);
	umask(old);
	assert_int_equal(code, TFC_OK);
	assert_int_equal(lstat(path, &stat), 0);
	assert_int_equal(stat.st_mode, S_IFREG | 0600);
	assert_int_equal(stat.st_nlink, 1);
	assert_int_equal(tfc__keyring_load(path, &error, &ring), TFC_OK);
	const struct tfc__key *key = tfc__keyring_first(ring, 0);
	assert_int_equal(key->role, TFC__KEY_SUBMIT);
	assert_ptr_equal(tfc__keyring_find(ring, key->id), key);
	assert_null(tfc__keyring_first(ring, TFC__KEY_NODE));
	assert_false(sodium_is_zero(key->secret, TFC__KEY_SIZE));
	tfc__keyring_free(ring);
}

static void nothing_is_ever_replaced(void **state)
{
	tfc_error error = TFC_ERROR_INIT;
	struct stat stat;
	write_file("precious", 8, 0600);
	assert_int_equal(tfc__keyring_generate(path, TFC__KEY_NODE, &error), TFC_EEXIST);
	assert_non_null(strstr(error.text, path));
	assert_int_equal(lstat(path, &stat), 0);
	assert_int_equal(stat.st_size, 8);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("/nowhere", path), 0); /* nor is a link followed */
	assert_int_equal(tfc__keyring_generate(path, TFC__KEY_NODE, &error), TFC_EEXIST);
	assert_int_equal(access("/nowhere", F_OK), -1);
}

static void a_key_needs_its_directory(void **state)
{
	tfc_error error = TFC_ERROR_INIT;
	char missing[LEAKS_PATH + 32];
	snprintf(missing, sizeof(missing), "%s/no/key", dir);
	assert_int_equal(tfc__keyring_generate(missing, TFC__KEY_NODE, &error), TFC_ENOENT);
	struct tfc__keyring *ring = NULL;
	assert_int_equal(tfc__keyring_load(missing, &error, &ring), TFC_ENOENT);
	assert_null(ring);
	assert_non_null(strstr(error.text, missing));
}

static void several_keys_have_several_roles(void **state)
{
	struct tfc__keyring *ring = load("# ours\n\n" SUBMIT_LINE "  " NODE_LINE
					 "\r\n" NODE_LINE /* twice */
					 "\ttfcluster-key\t1  submit " SUBMIT_ONES " " ONES " \r");
	const struct tfc__key *submit = tfc__keyring_first(ring, 0);
	const struct tfc__key *node = tfc__keyring_first(ring, TFC__KEY_NODE);
	uint8_t ones[TFC__KEY_SIZE], none[TFC__KEY_ID_SIZE] = {0};
	memset(ones, 0x11, sizeof(ones));
	assert_int_equal(submit->role, TFC__KEY_SUBMIT);
	assert_memory_equal(submit->secret, ones, sizeof(ones));
	assert_int_equal(node->role, TFC__KEY_NODE);
	assert_true(sodium_is_zero(node->secret, TFC__KEY_SIZE));
	assert_ptr_equal(tfc__keyring_find(ring, node->id), node);
	assert_null(tfc__keyring_find(ring, none));
	assert_null(tfc__keyring_first(ring, TFC__KEY_READ));
	tfc__keyring_free(ring);
}

static void wrong_lines_are_refused_by_number(void **state)
{
	static const struct {
		const char *line, *why;
	} cases[] = {
		{"hello\n", "not a key; a line of a key file, which \"tfc_run keygen\" makes, has "
			    "the form \"tfcluster-key 1 ROLE ID KEY\""},
		{"tfcluster-key\n", "version"},
		{"tfcluster-key 2 node " NODE_ZEROS " " ZEROS "\n", "version"},
		{"tfcluster-key 1\n", "role"},
		{"tfcluster-key 1 king " NODE_ZEROS " " ZEROS "\n", "role"},
		{"tfcluster-key 1 node\n", "16 hexadecimal digits"},
		{"tfcluster-key 1 node 12 " ZEROS "\n", "16 hexadecimal digits"},
		{"tfcluster-key 1 node 000000000000000g " ZEROS "\n", "16 hexadecimal digits"},
		{"tfcluster-key 1 node " NODE_ZEROS "\n", "64 hexadecimal digits"},
		{"tfcluster-key 1 node " NODE_ZEROS " " ZEROS "00\n", "64 hexadecimal digits"},
		{"tfcluster-key 1 node " NODE_ZEROS " 0000\n", "64 hexadecimal digits"},
		{"tfcluster-key 1 node " NODE_ZEROS " " ZEROS " more\n", "after the key"},
		{"tfcluster-key 1 node " NODE_ZEROS " " ONES "\n", "id does not match"},
		{"tfcluster-key 1 submit " NODE_ZEROS " " ZEROS "\n", "id does not match"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[512], place[LEAKS_PATH + 32];
		tfc_error error = TFC_ERROR_INIT;
		struct tfc__keyring *ring = NULL;
		snprintf(text, sizeof(text), "# one\n%s%s", NODE_LINE, cases[i].line);
		snprintf(place, sizeof(place), "%s:3:", path);
		write_file(text, strlen(text), 0600);
		assert_int_equal(tfc__keyring_load(path, &error, &ring), TFC_EPARSE);
		assert_null(ring);
		assert_non_null(strstr(error.text, place));
		assert_non_null(strstr(error.text, cases[i].why));
		assert_null(strstr(error.text, "0000000")); /* no secret in a sentence */
	}
}

static void files_that_hold_no_key_are_refused(void **state)
{
	static const char nul[] = NODE_LINE "\0";
	static char large[70000];
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__keyring *ring = NULL;
	write_file("", 0, 0600);
	assert_int_equal(tfc__keyring_load(path, &error, &ring), TFC_EPARSE);
	write_file("# nothing\n", 10, 0600);
	assert_int_equal(tfc__keyring_load(path, &error, &ring), TFC_EPARSE);
	write_file(nul, sizeof(nul), 0600);
	assert_int_equal(tfc__keyring_load(path, &error, &ring), TFC_EPARSE);
	memset(large, '\n', sizeof(large));
	write_file(large, sizeof(large), 0600);
	assert_int_equal(tfc__keyring_load(path, &error, &ring), TFC_ETOOBIG);
	assert_int_equal(tfc__keyring_load(dir, &error, &ring), TFC_EPARSE);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0); /* does not wait for a writer */
	assert_int_equal(tfc__keyring_load(path, &error, &ring), TFC_EPARSE);
	assert_null(ring);
}

static void files_open_to_others_are_refused(void **state)
{
	static const mode_t modes[] = {0601, 0602, 0604, 0610, 0620, 0640, 0644, 0660};
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		tfc_error error = TFC_ERROR_INIT;
		struct tfc__keyring *ring = NULL;
		struct tfc__identity *identity = NULL;
		write_file(NODE_LINE, strlen(NODE_LINE), modes[i]);
		assert_int_equal(tfc__keyring_load(path, &error, &ring), TFC_EACCES);
		assert_non_null(strstr(error.text, "chmod 600"));
		assert_int_equal(tfc__identity_open(path, &error, &identity), TFC_EACCES);
		assert_null(ring);
		assert_null(identity);
	}
}

static void files_of_another_user_are_refused(void **state)
{
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__keyring *ring = NULL;
	write_file(NODE_LINE, strlen(NODE_LINE), 0600);
	if (geteuid() != 0 || chown(path, 1, 1) < 0)
		skip();
	assert_int_equal(tfc__keyring_load(path, &error, &ring), TFC_EACCES);
	assert_non_null(strstr(error.text, "belongs to user 1"));
}

static void roles_have_names(void **state)
{
	enum tfc__key_role role;
	for (int i = TFC__KEY_NODE; i <= TFC__KEY_READ; i++) {
		assert_true(tfc__key_role_parse(tfc__key_role_name((enum tfc__key_role)i), &role));
		assert_int_equal(role, i);
	}
	assert_false(tfc__key_role_parse("", &role));
	assert_false(tfc__key_role_parse("admin", &role));
	assert_string_equal(tfc__key_role_name((enum tfc__key_role)0), "?");
}

/* ---- identities */

static void an_identity_stays(void **state)
{
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__identity *first = NULL, *second = NULL;
	struct stat stat;
	char id[TFC__NODE_ID_SIZE];
	assert_int_equal(tfc__identity_open(path, &error, &first), TFC_OK);
	assert_int_equal(lstat(path, &stat), 0);
	assert_int_equal(stat.st_mode, S_IFREG | 0600);
	assert_int_equal(tfc__identity_open(path, &error, &second), TFC_OK);
	assert_string_equal(tfc__identity_id(first), tfc__identity_id(second));
	assert_memory_equal(tfc__identity_secret(first), tfc__identity_secret(second), 32);
	assert_memory_equal(tfc__identity_public(first), tfc__identity_public(second), 32);
	assert_int_equal(strlen(tfc__identity_id(first)), 32);
	tfc__node_id(tfc__identity_public(first), id);
	assert_string_equal(id, tfc__identity_id(first));
	tfc__identity_free(first);
	tfc__identity_free(second);
}

static void without_a_file_each_identity_is_new(void **state)
{
	struct tfc__identity *first = NULL, *second = NULL;
	assert_int_equal(tfc__identity_open(NULL, NULL, &first), TFC_OK);
	assert_int_equal(tfc__identity_open(NULL, NULL, &second), TFC_OK);
	assert_string_not_equal(tfc__identity_id(first), tfc__identity_id(second));
	tfc__identity_free(first);
	tfc__identity_free(second);
	tfc__identity_free(NULL);
	tfc__keyring_free(NULL);
}

/* Every byte counts, and every length. */
static void a_damaged_identity_is_refused(void **state)
{
	char text[256];
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__identity *identity = NULL;
	assert_int_equal(tfc__identity_open(path, NULL, &identity), TFC_OK);
	tfc__identity_free(identity);
	identity = NULL;
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	size_t len = fread(text, 1, sizeof(text), file);
	fclose(file);
	assert_int_equal(len, 21 + 33 + 65);
	for (size_t i = 0; i < len; i++) {
		char old = text[i];
		text[i] = old == '7' ? '8' : '7';
		write_file(text, len, 0600);
		assert_int_equal(tfc__identity_open(path, &error, &identity), TFC_EPARSE);
		assert_null(identity);
		text[i] = old;
		write_file(text, i, 0600);
		assert_int_equal(tfc__identity_open(path, &error, &identity), TFC_EPARSE);
	}
	write_file(text, len, 0600);
	assert_int_equal(tfc__identity_open(path, &error, &identity), TFC_OK);
	tfc__identity_free(identity);
}

/* ---- replacing keys */

struct seen_use {
	struct tfc__key_use use;
	unsigned removed;
};

static void on_removed(struct tfc__key_use *use)
{
	tfc__container_of(use, struct seen_use, use)->removed++;
}

static bool begin_use(struct seen_use *seen, struct tfc__keyring *ring, const struct tfc__key *key)
{
	*seen = (struct seen_use){.use = {.removed = on_removed}};
	memcpy(seen->use.id, key->id, sizeof(key->id));
	tfc__list_init(&seen->use.link);
	return tfc__key_use_begin(&seen->use, ring);
}

static void users_of_a_removed_key_are_notified(void **state)
{
	struct seen_use node, submit, ended, late;
	struct tfc__keyring *ring = load(NODE_LINE SUBMIT_LINE);
	const struct tfc__key removed = *tfc__keyring_first(ring, TFC__KEY_SUBMIT);
	assert_true(begin_use(&node, ring, tfc__keyring_first(ring, TFC__KEY_NODE)));
	assert_true(begin_use(&submit, ring, &removed));
	assert_true(begin_use(&ended, ring, &removed));
	tfc__key_use_end(&ended.use);
	assert_false(tfc__keyring_replace(ring, load(NODE_LINE "# the same\n" SUBMIT_LINE)));
	assert_true(tfc__keyring_replace(ring, load(SUBMIT_LINE NODE_LINE)));
	assert_int_equal(tfc__keyring_first(ring, 0)->role, TFC__KEY_SUBMIT);
	assert_int_equal(node.removed + submit.removed, 0);
	assert_true(tfc__keyring_replace(ring, load(NODE_LINE)));
	assert_int_equal(node.removed, 0);
	assert_int_equal(submit.removed, 1);
	assert_int_equal(ended.removed, 0);
	assert_null(tfc__keyring_find(ring, removed.id));
	assert_false(begin_use(&late, ring, &removed));
	tfc__key_use_end(&node.use);
	tfc__key_use_end(&submit.use);
	tfc__key_use_end(&late.use);
	tfc__keyring_free(ring);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_new_key_is_its_owners_alone),
		TEST(nothing_is_ever_replaced),
		TEST(a_key_needs_its_directory),
		TEST(several_keys_have_several_roles),
		TEST(wrong_lines_are_refused_by_number),
		TEST(files_that_hold_no_key_are_refused),
		TEST(files_open_to_others_are_refused),
		TEST(files_of_another_user_are_refused),
		TEST(roles_have_names),
		TEST(users_of_a_removed_key_are_notified),
		TEST(an_identity_stays),
		TEST(without_a_file_each_identity_is_new),
		TEST(a_damaged_identity_is_refused),
	};
	return cmocka_run_group_tests_name("wire keyring", tests, NULL, NULL);
}
