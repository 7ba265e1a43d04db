#include "transports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "hosted_transport.h"

#define PATIENCE (20 * TFC__SECOND)

const struct transport_kind transport_kinds[TRANSPORT_KINDS] = {
	{"tcp", "tcp", false},
	{"tcp with Noise", "tcp", true},
	{"unix", "unix", false},
	{"memory", "memory", false},
	{"memory with Noise", "memory", true},
	{"a host's", "hosted", false},
	{"a host's with Noise", "hosted", true},
};

bool transport_has_noise(const struct transport_kind *kind)
{
	return kind->is_noise;
}

bool transport_is_socket(const struct transport_kind *kind)
{
	return strcmp(kind->scheme, "memory") != 0;
}

/* ---- running */

static void add_test(struct CMUnitTest *all, char (*names)[128], size_t at,
		     const struct transport_test *test, const struct transport_kind *kind)
{
	snprintf(names[at], sizeof(names[at]), "%s: %s", kind->name, test->name);
	all[at] = (struct CMUnitTest){.name = names[at],
				      .test_func = test->run,
				      .initial_state = (void *)(uintptr_t)kind};
}

int transport_run(const char *group, const struct transport_test *tests, size_t count)
{
	size_t most = count * TRANSPORT_KINDS, len = 0;
	struct CMUnitTest *all = calloc(most, sizeof(*all));
	char(*names)[128] = calloc(most, sizeof(*names));
	if (!all || !names)
		return 1;
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < TRANSPORT_KINDS; j++)
			if (!tests[i].is_for || tests[i].is_for(&transport_kinds[j]))
				add_test(all, names, len++, &tests[i], &transport_kinds[j]);
	int failed = _cmocka_run_group_tests(group, all, len, NULL, NULL);
	free(all);
	free(names);
	return failed;
}

/* ---- the world */

static void note_log(void *user, const tfc_log_entry *entry)
{
	struct world *world = user;
	snprintf(world->log, sizeof(world->log), "%s", entry->text);
	world->logs++;
}

static void choose_address(struct world *world)
{
	const char *scheme = world->kind->scheme;
	if (strcmp(scheme, "tcp") == 0)
		strcpy(world->address, "tcp://127.0.0.1:0");
	else if (strcmp(scheme, "memory") == 0)
		strcpy(world->address, "memory:there");
	else
		snprintf(world->address, sizeof(world->address), "%s:%s/socket", scheme,
			 world->dir);
}

struct tfc__keyring *world_keyring(struct world *world, const char *name, enum tfc__key_role role)
{
	char path[LEAKS_PATH + 32];
	struct tfc__keyring *ring;
	tfc_error error = TFC_ERROR_INIT;
	snprintf(path, sizeof(path), "%s/%s", world->dir, name);
	if (tfc__keyring_generate(path, role, &error) < 0 ||
	    tfc__keyring_load(path, &error, &ring) < 0)
		fail_msg("%s", error.text);
	return ring;
}

static void make_keys(struct world *world)
{
	world->keyring = world_keyring(world, "keys", TFC__KEY_NODE);
	assert_int_equal(tfc__identity_open(NULL, NULL, &world->ours), TFC_OK);
	assert_int_equal(tfc__identity_open(NULL, NULL, &world->theirs), TFC_OK);
}

void world_begin(struct world *world, const struct transport_kind *kind)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	*world = (struct world){.kind = kind};
	options.helper_dir = getenv("TFC_HELPER_DIR");
	options.log = note_log;
	options.log_user = world;
	options.log_level = TFC_LOG_WARNING;
	leaks_make_dir(world->dir);
	if (tfc_ctx_new(&options, &error, &world->ctx) < 0)
		fail_msg("%s", error.text);
	choose_address(world);
	if (kind->is_noise)
		make_keys(world);
	if (strcmp(kind->scheme, "hosted") == 0) {
		world->hosted = hosted_register(world->ctx);
		assert_non_null(world->hosted);
	}
}

void world_end(struct world *world)
{
	tfc_ctx_free(world->ctx);
	tfc__keyring_free(world->keyring);
	tfc__identity_free(world->ours);
	tfc__identity_free(world->theirs);
	tfc__remove_tree(world->dir);
}

void world_turn(struct world *world)
{
	if (world->hosted)
		assert_true(hosted_turn(world->hosted, 50) >= 0);
	else
		assert_true(tfc_ctx_run(world->ctx, 50) >= 0);
}

uint64_t world_deadline(void)
{
	return tfc__now() + PATIENCE;
}

void world_check_deadline(uint64_t deadline, const char *claim, const char *file, int line)
{
	if (tfc__now() > deadline)
		fail_msg("%s:%d: still not true: %s", file, line, claim);
}
