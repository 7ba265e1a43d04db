/* gateway: how long a subscription waits, and since when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "gateway/remote_wait.h"

#define PATIENCE (300 * TFC__SECOND)
#define UNKNOWN (20 * TFC__SECOND)
#define SLACK TFC__SECOND /* of a slow machine */

static const tfc_error lost = {.code = TFC_ELOST, .text = "connection lost"};
static const tfc_error unknown = {.code = TFC_ENOENT, .text = "job not found"};

static void lose(struct tfc__remote_wait *wait, const tfc_error *why)
{
	tfc__remote_wait_lose(wait, why, PATIENCE, UNKNOWN);
}

static void assert_waits(const struct tfc__remote_wait *wait, uint64_t from, uint64_t length)
{
	assert_in_range(wait->until, from + length, from + length + SLACK);
}

static void a_lost_connection_is_waited_for_since_it_was_lost(void **state)
{
	struct tfc__remote_wait wait = {.kind = TFC__WAIT_NONE};
	uint64_t now = tfc__now();
	lose(&wait, &lost);
	assert_waits(&wait, now, PATIENCE);
	wait.lost_since -= 60 * TFC__SECOND;
	lose(&wait, &lost);
	assert_waits(&wait, now - 60 * TFC__SECOND, PATIENCE);
}

/* The first node that is back may not have found the others yet. */
static void an_unknown_job_is_waited_for_since_it_was_first_unknown(void **state)
{
	struct tfc__remote_wait wait = {.kind = TFC__WAIT_NONE};
	uint64_t now = tfc__now();
	lose(&wait, &lost);
	wait.lost_since -= 60 * TFC__SECOND;
	lose(&wait, &unknown);
	assert_waits(&wait, now, UNKNOWN);
	wait.unknown_since -= 15 * TFC__SECOND;
	lose(&wait, &unknown);
	assert_waits(&wait, now - 15 * TFC__SECOND, UNKNOWN);
	lose(&wait, &lost);
	assert_waits(&wait, now - 60 * TFC__SECOND, PATIENCE);
	lose(&wait, &unknown);
	assert_waits(&wait, now, UNKNOWN);
}

static void a_job_that_was_found_again_begins_anew(void **state)
{
	struct tfc__remote_wait wait = {.kind = TFC__WAIT_NONE};
	uint64_t now = tfc__now();
	lose(&wait, &unknown);
	wait.lost_since -= 60 * TFC__SECOND;
	wait.unknown_since -= 15 * TFC__SECOND;
	tfc__remote_wait_connect(&wait);
	lose(&wait, &unknown);
	assert_waits(&wait, now, UNKNOWN);
	assert_in_range(wait.lost_since, now, now + SLACK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lost_connection_is_waited_for_since_it_was_lost),
		cmocka_unit_test(an_unknown_job_is_waited_for_since_it_was_first_unknown),
		cmocka_unit_test(a_job_that_was_found_again_begins_anew),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
