#include "store_kinds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"

void test_store_take(void *user, int code, const tfc_store_value *values, uint32_t count,
		     const tfc_error *error)
{
	struct store_answer *answer = user;
	size_t used = 0;
	assert_false(answer->has_come);
	*answer = (struct store_answer){.has_come = true, .code = code, .count = count};
	if (count)
		answer->version = values[0].version;
	for (uint32_t i = 0; i < count; i++) {
		const char *data = values[i].data;
		if (values[i].len < 200)
			used += (size_t)snprintf(answer->text + used, sizeof(answer->text) - used,
						 "%s=%.*s\n", values[i].key, (int)values[i].len,
						 data ? data : "(damaged)");
	}
	if (code < 0)
		snprintf(answer->text + used, sizeof(answer->text) - used, "%s", error->text);
}

void test_store_await(tfc_ctx *ctx, const struct store_answer *answer)
{
	uint64_t until = tfc__now() + 30 * TFC__SECOND;
	while (!answer->has_come && tfc__now() < until)
		assert_true(tfc_ctx_run(ctx, 1000) >= 0);
	assert_true(answer->has_come);
}

struct store_answer test_store_get(tfc_ctx *ctx, struct tfc__store *store, const char *key)
{
	struct store_answer answer = {0};
	assert_non_null(tfc__store_get(store, key, test_store_take, &answer));
	test_store_await(ctx, &answer);
	return answer;
}

struct store_answer test_store_list(tfc_ctx *ctx, struct tfc__store *store, const char *prefix)
{
	struct store_answer answer = {0};
	assert_non_null(tfc__store_list(store, prefix, test_store_take, &answer));
	test_store_await(ctx, &answer);
	return answer;
}

struct store_answer test_store_put(tfc_ctx *ctx, struct tfc__store *store, const char *key,
				   const char *value, uint64_t version)
{
	struct store_answer answer = {0};
	assert_non_null(tfc__store_put(store, key, value, strlen(value), version, test_store_take,
				       &answer));
	test_store_await(ctx, &answer);
	return answer;
}

struct store_answer test_store_remove(tfc_ctx *ctx, struct tfc__store *store, const char *key)
{
	struct store_answer answer = {0};
	assert_non_null(tfc__store_remove(store, key, test_store_take, &answer));
	test_store_await(ctx, &answer);
	return answer;
}
