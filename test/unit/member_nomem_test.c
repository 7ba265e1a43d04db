/* member: whichever allocation fails, the call says so, and the table is as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "failing_malloc.h"
#include "leaks.h"
#include "member/static_file.h"

static const char *const labels[] = {"b=2", "a=1", NULL};
static const tfc_member_info self = {.size = sizeof(self), .name = "a"};
static tfc_ctx *ctx;
static tfc_membership *membership;
static char dir[LEAKS_PATH], path[LEAKS_PATH + 32];

static int start(void *user, tfc_ctx *started, tfc_membership *started_with, tfc_error *error)
{
	membership = started_with;
	return TFC_OK;
}

static void stop(void *user, tfc_membership *stopped)
{
}

static const tfc_membership_ops ops = {.size = sizeof(ops), .start = start, .stop = stop};

static int fill(struct tfc__members *members)
{
	const tfc_member_info b = {.size = sizeof(b),
				   .name = "b",
				   .address = "tcp://h:1",
				   .node_id = "0123456789abcdef",
				   .labels = labels};
	SWEPT(tfc_membership_put);
	SWEPT(tfc_membership_set_state);
	SWEPT(tfc_membership_remove);
	int code = failing_said(tfc_membership_put(membership, &b), tfc_ctx_error(ctx));
	assert_int_equal(tfc__members_count(members), code == TFC_OK ? 2 : 1);
	if (code < 0)
		return code;
	code = failing_said(tfc__members_learn(members, tfc__members_find(members, "b"), &b,
					       tfc__ctx_error(ctx)),
			    tfc_ctx_error(ctx));
	assert_int_equal(tfc_membership_set_state(membership, "b", TFC_MEMBER_DOWN), TFC_ESTATE);
	assert_int_equal(tfc_membership_remove(membership, "b"), TFC_OK);
	return code;
}

static int open_and_fill(void)
{
	const struct tfc__members_options options = {.self = &self, .ops = &ops};
	struct tfc__members *members = NULL;
	tfc_error error = TFC_ERROR_INIT;
	int code = failing_said(tfc__members_open(ctx, &options, &error, &members), &error);
	if (code == TFC_OK)
		code = fill(members);
	tfc__members_close(members);
	return code;
}

static void a_member_is_whole_or_not_there(void **state)
{
	failing_sweep(open_and_fill, 10);
}

static int open_file(void)
{
	struct tfc__members_options options = {.self = &self, .ops = &tfc__static_file_ops};
	struct tfc__members *members = NULL;
	struct tfc__static_file *file = NULL;
	tfc_error error = TFC_ERROR_INIT;
	int code = failing_said(tfc__static_file_new(path, &error, &file), &error);
	options.user = file;
	if (code == TFC_OK)
		code = failing_said(tfc__members_open(ctx, &options, &error, &members), &error);
	assert_true(code == TFC_OK || !members);
	tfc__members_close(members);
	tfc__static_file_free(file);
	return code;
}

static void a_file_is_read_or_out_of_memory_is_said(void **state)
{
	leaks_make_dir(dir);
	snprintf(path, sizeof(path), "%s/members.json", dir);
	FILE *stream = fopen(path, "we");
	assert_non_null(stream);
	fputs("{\"members\":[{\"name\":\"b\",\"address\":\"tcp://h:2\",\"labels\":{\"x\":\"1\"}},"
	      "{\"name\":\"a\",\"address\":\"tcp://h:1\"}]}",
	      stream);
	assert_int_equal(fclose(stream), 0);
	failing_sweep_leaky(open_file, 20);
	tfc__remove_tree(dir);
}

static int new_ctx(void **state)
{
	return tfc_ctx_new(NULL, NULL, &ctx);
}

static int free_ctx(void **state)
{
	tfc_ctx_free(ctx);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_member_is_whole_or_not_there, new_ctx, free_ctx),
		cmocka_unit_test_setup_teardown(a_file_is_read_or_out_of_memory_is_said, new_ctx,
						free_ctx),
	};
	return cmocka_run_group_tests_name("member_nomem", tests, NULL, NULL);
}
