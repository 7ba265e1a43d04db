/* member: a name whose holder this node cannot show is still the holder's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <tfcluster/tfcluster.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "gossip_member.h"
#include "leaks.h"
#include "member/gossip_internal.h"
#include "wire/keyring.h"

static tfc_ctx *ctx;
static char dir[LEAKS_PATH], key[LEAKS_PATH + 8];

static void start(struct gossip_member *member, unsigned number, const char *name, const char *seed)
{
	char state[LEAKS_PATH + 16], address[64];
	snprintf(state, sizeof(state), "%s/%u", dir, number);
	snprintf(address, sizeof(address), "tcp://%s:%u", gossip_member_host(), 21000 + number);
	const tfc_member_info self = {.size = sizeof(self),
				      .name = name,
				      .address = address,
				      .slots = 1};
	assert_int_equal(mkdir(state, 0700), 0);
	gossip_member_start(member, ctx,
			    &(struct gossip_member_options){.key_file = key,
							    .state_dir = state,
							    .self = &self,
							    .seed = seed,
							    .interval_ns = 100 * TFC__MS});
}

/* As a node of another version, with more GPUs than this one knows. */
static void offer_gpus(struct gossip_member *member, uint32_t gpus)
{
	const tfc_member_info info = {.size = sizeof(info), .slots = 1, .gpus = gpus};
	struct tfc__gossip_event event = {.kind = TFC__GOSSIP_SET_META};
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__buf meta = {0};
	assert_int_equal(tfc__gossip_meta_write(&info, &error, &meta), TFC_OK);
	event.bytes = (const uint8_t *)meta.data;
	event.len = meta.len;
	tfc__gossip_membership_step(member->gossip, &event);
	tfc__buf_fini(&meta);
}

static bool is_known(struct gossip_member *at, struct gossip_member *member)
{
	struct tfc__gossip_member self, found;
	tfc__gossip_at(member->gossip->core, 0, &self);
	return tfc__gossip_find(at->gossip->core, &self.id, &found);
}

static void a_second_node_of_that_name_is_refused(void **state)
{
	struct gossip_member a = {.ctx = NULL}, b = a, second = a;
	uint64_t deadline = tfc__now() + 20 * TFC__SECOND;
	start(&a, 1, "a", NULL);
	start(&b, 2, "b", a.address);
	offer_gpus(&b, 5000);
	while (!is_known(&a, &b)) {
		assert_true(tfc_ctx_run(ctx, 100) >= 0);
		assert_true(tfc__now() < deadline);
	}
	assert_null(tfc__members_find(a.members, "b"));
	start(&second, 3, "b", a.address);
	while (!second.refusal.code) {
		assert_true(tfc_ctx_run(ctx, 100) >= 0);
		assert_true(tfc__now() < deadline);
	}
	assert_non_null(
		strstr(second.refusal.text, "two nodes have the name \"b\": one at tcp://"));
	assert_non_null(strstr(second.refusal.text, b.address));
	assert_non_null(strstr(second.refusal.text, "; give one of them another name"));
	assert_non_null(strstr(second.refusal.text, second.address));
	gossip_member_kill(&second);
	gossip_member_kill(&b);
	gossip_member_kill(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_second_node_of_that_name_is_refused),
	};
	tfc_error error = TFC_ERROR_INIT;
	leaks_make_dir(dir);
	snprintf(key, sizeof(key), "%s/key", dir);
	if (tfc__keyring_generate(key, TFC__KEY_NODE, &error) < 0 ||
	    tfc_ctx_new(NULL, &error, &ctx) < 0)
		return 1;
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	tfc_ctx_free(ctx);
	tfc__remove_tree(dir);
	return failed;
}
