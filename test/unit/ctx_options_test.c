/* ctx: options of older and newer hosts, log, error detail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <limits.h>
#include <sys/resource.h>
#include <unistd.h>

#include "ctx/ctx.h"

struct newer {
	tfc_ctx_options known;
	uint64_t unknown;
};

static int log_count;
static char log_text[1200];
static tfc_log_entry last;

static void keep(void *user, const tfc_log_entry *entry)
{
	assert_ptr_equal(user, &last);
	log_count++;
	last = *entry;
	strcpy(log_text, entry->text);
}

static void an_older_and_shorter_struct_is_taken(void **state)
{
	tfc_ctx *ctx = NULL;
	struct {
		uint32_t size;
		uint32_t log_level;
	} older = {sizeof(older), TFC_LOG_INFO};
	assert_int_equal(tfc_ctx_new((const tfc_ctx_options *)(void *)&older, NULL, &ctx), 0);
	tfc_ctx_free(ctx);
}

static void a_newer_struct_is_taken_while_its_tail_is_zero(void **state)
{
	tfc_ctx *ctx = NULL;
	tfc_error error = TFC_ERROR_INIT;
	struct newer newer = {TFC_CTX_OPTIONS_INIT, 0};
	newer.known.size = sizeof(newer);
	assert_int_equal(tfc_ctx_new(&newer.known, &error, &ctx), 0);
	tfc_ctx_free(ctx);

	ctx = NULL;
	newer.unknown = 1;
	assert_int_equal(tfc_ctx_new(&newer.known, &error, &ctx), TFC_ENOTSUP);
	assert_int_equal(error.code, TFC_ENOTSUP);
	assert_non_null(strstr(error.text, "tfc_ctx_options"));
	assert_null(ctx);
}

static void bad_options_are_refused_by_name(void **state)
{
	tfc_ctx *ctx = NULL;
	tfc_error error = TFC_ERROR_INIT;
	tfc_ctx_options options = {0};
	assert_int_equal(tfc_ctx_new(&options, &error, &ctx), TFC_EINVAL);
	assert_non_null(strstr(error.text, "size"));
	options = (tfc_ctx_options)TFC_CTX_OPTIONS_INIT;
	options.log_level = 5;
	assert_int_equal(tfc_ctx_new(&options, &error, &ctx), TFC_EINVAL);
	assert_non_null(strstr(error.text, "log_level"));
	assert_null(ctx);
	assert_int_equal(tfc_ctx_new(NULL, &error, NULL), TFC_EINVAL);
}

static void init_agrees_with_the_initializer(void **state)
{
	static const tfc_ctx_options expected = TFC_CTX_OPTIONS_INIT;
	tfc_ctx_options options;
	memset(&options, 0xff, sizeof(options));
	assert_int_equal(tfc_ctx_options_init(&options, sizeof(options)), 0);
	assert_memory_equal(&options, &expected, sizeof(options));
	assert_int_equal(tfc_ctx_options_init(NULL, sizeof(options)), TFC_EINVAL);
	assert_int_equal(tfc_ctx_options_init(&options, 3), TFC_EINVAL);
	assert_int_equal(tfc_ctx_options_init(&options, 1u << 30), TFC_ENOTSUP);
}

static void the_helper_directory_is_copied(void **state)
{
	tfc_ctx *ctx;
	char dir[] = "/somewhere";
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	options.helper_dir = dir;
	assert_int_equal(tfc_ctx_new(&options, NULL, &ctx), 0);
	dir[1] = 'x';
	assert_string_equal(tfc__ctx_helper_dir(ctx), "/somewhere");
	tfc_ctx_free(ctx);
}

/* Programs are also started in other directories than that of the process. */
static void a_relative_helper_directory_is_made_absolute(void **state)
{
	tfc_ctx *ctx;
	char expected[PATH_MAX + 16], dir[PATH_MAX];
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	options.helper_dir = "build/lib";
	assert_int_equal(tfc_ctx_new(&options, NULL, &ctx), 0);
	assert_non_null(getcwd(dir, sizeof(dir)));
	snprintf(expected, sizeof(expected), "%s/build/lib", dir);
	assert_string_equal(tfc__ctx_helper_dir(ctx), expected);
	tfc_ctx_free(ctx);
}

static void the_log_gets_what_its_level_lets_through(void **state)
{
	tfc_ctx *ctx;
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	options.log = keep;
	options.log_user = &last;
	options.log_level = TFC_LOG_WARNING;
	assert_int_equal(tfc_ctx_new(&options, NULL, &ctx), 0);
	log_count = 0;
	tfc__log(ctx, TFC_LOG_INFO, "port", "worker/0", "not wanted");
	assert_int_equal(log_count, 0);
	tfc__log(ctx, TFC_LOG_WARNING, "port", "worker/0", "two\nlines\x1b, %d\xc2\x9b\xe2\x80\xae",
		 7);
	assert_int_equal(log_count, 1);
	assert_int_equal(last.size, sizeof(tfc_log_entry));
	assert_int_equal(last.level, TFC_LOG_WARNING);
	assert_string_equal(last.component, "port");
	assert_string_equal(last.subject, "worker/0");
	assert_string_equal(log_text, "two lines , 7?????");
	tfc_ctx_free(ctx);
}

static void a_failure_is_logged_with_its_code_at_the_debug_level(void **state)
{
	tfc_ctx *ctx;
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	options.log = keep;
	options.log_user = &last;
	options.log_level = TFC_LOG_DEBUG;
	assert_int_equal(tfc_ctx_new(&options, NULL, &ctx), 0);
	log_count = 0;
	assert_int_equal(tfc__ctx_fail(ctx, TFC_EBUSY, "port", 98, "port %d is busy", 80),
			 TFC_EBUSY);
	assert_int_equal(log_count, 1);
	assert_int_equal(last.code, TFC_EBUSY);
	assert_int_equal(last.sys_errno, 98);
	assert_string_equal(log_text, "port 80 is busy");
	assert_string_equal(tfc_ctx_error(ctx)->text, "port 80 is busy");
	assert_int_equal(tfc_ctx_error(ctx)->sys_errno, 98);
	tfc_ctx_free(ctx);
}

static void without_a_log_nothing_is_called(void **state)
{
	tfc_ctx *ctx;
	log_count = 0;
	assert_int_equal(tfc_ctx_new(NULL, NULL, &ctx), 0);
	tfc__log(ctx, TFC_LOG_ERROR, "port", NULL, "no listener");
	assert_int_equal(log_count, 0);
	tfc_ctx_free(ctx);
}

static void no_context_is_an_error_and_never_a_crash(void **state)
{
	tfc_ctx_free(NULL);
	tfc_ctx_abandon(NULL);
	assert_int_equal(tfc_ctx_fd(NULL), TFC_EINVAL);
	assert_int_equal(tfc_ctx_dispatch(NULL, 0), TFC_EINVAL);
	assert_int_equal(tfc_ctx_run(NULL, 0), TFC_EINVAL);
	assert_int_equal(tfc_ctx_error(NULL)->code, TFC_EINVAL);
	assert_string_equal(tfc_ctx_error(NULL)->text, "no context");
}

/* For each number of descriptors that are still to be had, from none to enough. */
static void too_few_descriptors_are_reported_and_nothing_leaks(void **state)
{
	struct rlimit old, low;
	tfc_error error = TFC_ERROR_INIT;
	tfc_ctx *ctx = NULL;
	int code = TFC_EMFILE;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	for (rlim_t limit = 3; code == TFC_EMFILE && limit < 64; limit++) {
		low = (struct rlimit){limit, old.rlim_max};
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
		code = tfc_ctx_new(NULL, &error, &ctx);
		if (code < 0)
			assert_null(ctx);
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(code, 0);
	assert_int_equal(error.code, TFC_EMFILE);
	tfc_ctx_free(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_older_and_shorter_struct_is_taken),
		cmocka_unit_test(a_newer_struct_is_taken_while_its_tail_is_zero),
		cmocka_unit_test(bad_options_are_refused_by_name),
		cmocka_unit_test(init_agrees_with_the_initializer),
		cmocka_unit_test(the_helper_directory_is_copied),
		cmocka_unit_test(a_relative_helper_directory_is_made_absolute),
		cmocka_unit_test(the_log_gets_what_its_level_lets_through),
		cmocka_unit_test(a_failure_is_logged_with_its_code_at_the_debug_level),
		cmocka_unit_test(without_a_log_nothing_is_called),
		cmocka_unit_test(no_context_is_an_error_and_never_a_crash),
		cmocka_unit_test(too_few_descriptors_are_reported_and_nothing_leaks),
	};
	return cmocka_run_group_tests_name("ctx options", tests, NULL, NULL);
}
