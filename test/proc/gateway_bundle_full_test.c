/* gateway: a bundle for which the node's disk has no room is refused by that name. Needs the right
 * to mount a small file system, in a mount namespace of its own; without it the test is skipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "folder.h"
#include "leaks.h"
#include "mounts.h"
#include "node_run.h"
#include "served.h"

#define BYTES 300000

struct place {
	char dir[LEAKS_PATH];
	char state[LEAKS_PATH + 16];
	char cache[LEAKS_PATH + 32];
	char program[LEAKS_PATH + 16];
};

static void make_place(struct place *place)
{
	static char bytes[BYTES];
	leaks_make_dir(place->dir);
	snprintf(place->state, sizeof(place->state), "%s/state", place->dir);
	snprintf(place->cache, sizeof(place->cache), "%s/bundles", place->state);
	snprintf(place->program, sizeof(place->program), "%s/program", place->dir);
	FILE *file = fopen(place->program, "we");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, sizeof(bytes), file), sizeof(bytes));
	assert_int_equal(fclose(file), 0);
	assert_int_equal(mkdir(place->state, 0700), 0);
	assert_int_equal(mkdir(place->cache, 0700), 0);
}

static bool is_empty(void *user)
{
	return folder_count(user, "") == 0;
}

/* Whether it found room. */
static bool bring(struct place *place, const char *mount_options)
{
	struct node_run run;
	struct answer answer = {0};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	tfc_gateway_options gateway = TFC_GATEWAY_OPTIONS_INIT;
	char address[256];
	assert_int_equal(mount("none", place->cache, "tmpfs", 0, mount_options), 0);
	options.state_dir = place->state;
	node_run_begin(&run, &options);
	snprintf(address, sizeof(address), "unix:%s/s", run.dir);
	run.served = served_begin(run.ctx, run.node, address, NULL, NULL);
	tfc_gateway_close(run.gateway);
	gateway.address = address;
	gateway.temp_dir = run.dir;
	assert_int_equal(tfc_gateway_open(run.ctx, &gateway, &run.gateway), 0);
	char *json = node_json("{'framework':'none','bundle':'%s','argv':['true'],"
			       "'roles':{'worker':{}}}",
			       place->program);
	node_submit_for(&run, json, NULL, &answer);
	if (answer.code < 0 &&
	    (answer.code != TFC_ENOSPC || !strstr(answer.error, "No space left on device")))
		fail_msg("%s: %d: %s", mount_options, answer.code, answer.error);
	bool has_room = answer.code == 0;
	if (!has_room)
		node_await(&run, is_empty, place->cache, "an end of what found no room");
	node_answer_clear(&answer);
	free(json);
	node_run_end(&run);
	assert_int_equal(umount2(place->cache, MNT_DETACH), 0);
	return has_room;
}

static void a_full_disk_is_named(void **state)
{
	struct place place;
	char options[32];
	unsigned files = 2;
	make_place(&place);
	assert_false(bring(&place, "size=256k"));
	do /* room for its bytes, not for the files that it needs on its way */
		snprintf(options, sizeof(options), "size=8m,nr_inodes=%u", files);
	while (!bring(&place, options) && files++ < 20);
	assert_in_range(files, 4, 19);
	assert_int_equal(tfc__remove_tree(place.dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_disk_is_named),
	};
	if (!mounts_are_own())
		return MOUNTS_SKIPPED;
	return cmocka_run_group_tests_name("gateway_bundle_full", tests, NULL, NULL);
}
