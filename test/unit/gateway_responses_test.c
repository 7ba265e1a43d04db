/* gateway: the responses of nodes are written as the code before the tables wrote them, except that
 * what is empty is left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gateway/home.h"
#include "gateway/search.h"
#include "golden.h"

static void no_job_matches(void **state)
{
	const struct tfc__matches matches = {.prefixes = 0};
	golden_expect_message(
		&tfc__matches_fields, &matches, "80",
		"85a46e616d65a0ac7375626d69747465645f6e7300a6707265666978a0a8707265666978"
		"657300a3696473a0");
}

static void jobs_match_by_name_and_prefix(void **state)
{
	static const char golden[] =
		"85a46e616d65b030303030303030306465616462656566ac7375626d69747465645f6e73"
		"cf188fcf053de383e8a6707265666978b030303030303030306465616462656566a87072"
		"65666978657302a3696473d922303030303030303064656164626565662c203030303030"
		"3030306465616462656530";
	const struct tfc__matches matches = {
		.by_name = "00000000deadbeef",
		.submitted_ns = 1769860800000001000u,
		.name_node = "not sent",
		.by_prefix = "00000000deadbeef",
		.prefixes = 2,
		.prefix_node = "not sent",
		.ids = "00000000deadbeef, 00000000deadbee0",
	};
	golden_expect_message(&tfc__matches_fields, &matches, golden, golden);
}

static void several_jobs_of_a_name_have_not_ended(void **state)
{
	static const char golden[] =
		"83a46e616d65b030303030303030306465616462656566a56e616d657302a86e616d655f"
		"696473d922303030303030303064656164626565302c2030303030303030306465616462"
		"656566";
	const struct tfc__matches matches = {
		.by_name = "00000000deadbeef",
		.names = 2,
		.name_ids = "00000000deadbee0, 00000000deadbeef",
	};
	golden_expect_message(&tfc__matches_fields, &matches, golden, golden);
}

static void a_node_identifies_itself(void **state)
{
	static const char golden[] =
		"82a76e6f64655f6964d92030313233343536373839616263646566303132333435363738"
		"39616263646566a46e616d65a161";
	const struct tfc__server server = {.node_id = "0123456789abcdef0123456789abcdef",
					   .name = "a"};
	golden_expect_message(&tfc__server_fields, &server, golden, golden);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_job_matches),
		cmocka_unit_test(jobs_match_by_name_and_prefix),
		cmocka_unit_test(several_jobs_of_a_name_have_not_ended),
		cmocka_unit_test(a_node_identifies_itself),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
