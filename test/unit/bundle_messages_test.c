/* bundle: the messages of a transfer are written as the code before the tables wrote them, except
 * that zeros are left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bundle/transfer.h"
#include "golden.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void an_offer_has_its_bytes(void **state)
{
	const struct tfc__bundle_offer message = {.hash = HASH, .size = 70000};
	golden_expect_message(
		&tfc__bundle_offer_fields, &message,
		"82a468617368d94030313233343536373839616263646566303132333435363738396162"
		"636465663031323334353637383961626364656630313233343536373839616263646566"
		"a473697a65ce00011170",
		"82a468617368d94030313233343536373839616263646566303132333435363738396162"
		"636465663031323334353637383961626364656630313233343536373839616263646566"
		"a473697a65ce00011170");
}

static void an_item_without_bytes_is_an_empty_map(void **state)
{
	const struct tfc__bundle_offer_item message = {.received = 0};
	golden_expect_message(&tfc__bundle_offer_item_fields, &message, "80", "81a2617400");
}

static void an_item_has_the_bytes_that_were_received(void **state)
{
	const struct tfc__bundle_offer_item message = {.received = 5000000000u};
	golden_expect_message(&tfc__bundle_offer_item_fields, &message,
			      "81a26174cf000000012a05f200", "81a26174cf000000012a05f200");
}

static void an_item_says_that_the_bundle_is_ready(void **state)
{
	const struct tfc__bundle_offer_item message = {.is_ready = true};
	golden_expect_message(&tfc__bundle_offer_item_fields, &message, "81a57265616479c3",
			      "81a57265616479c3");
}

static void the_first_chunk_has_its_bytes(void **state)
{
	const struct tfc__bundle_chunk message = {.hash = HASH, .data = "\0PK", .len = 3};
	golden_expect_message(
		&tfc__bundle_chunk_fields, &message,
		"82a468617368d94030313233343536373839616263646566303132333435363738396162"
		"636465663031323334353637383961626364656630313233343536373839616263646566"
		"a464617461c40300504b",
		"83a468617368d94030313233343536373839616263646566303132333435363738396162"
		"636465663031323334353637383961626364656630313233343536373839616263646566"
		"a2617400a464617461c40300504b");
}

static void a_later_chunk_has_its_position(void **state)
{
	const struct tfc__bundle_chunk message = {.hash = HASH,
						  .at = 262144,
						  .data = "\0PK",
						  .len = 3};
	golden_expect_message(
		&tfc__bundle_chunk_fields, &message,
		"83a468617368d94030313233343536373839616263646566303132333435363738396162"
		"636465663031323334353637383961626364656630313233343536373839616263646566"
		"a26174ce00040000a464617461c40300504b",
		"83a468617368d94030313233343536373839616263646566303132333435363738396162"
		"636465663031323334353637383961626364656630313233343536373839616263646566"
		"a26174ce00040000a464617461c40300504b");
}

static void a_chunk_that_was_taken(void **state)
{
	const struct tfc__bundle_chunk_result message = {.is_accepted = true, .received = 262144};
	golden_expect_message(&tfc__bundle_chunk_result_fields, &message,
			      "82a574616b656ec3a26174ce00040000",
			      "83a4646f6e65c2a574616b656ec3a26174ce00040000");
}

static void a_chunk_that_was_not_taken(void **state)
{
	const struct tfc__bundle_chunk_result message = {.received = 0};
	golden_expect_message(&tfc__bundle_chunk_result_fields, &message, "80",
			      "83a4646f6e65c2a574616b656ec2a2617400");
}

static void the_last_chunk(void **state)
{
	const struct tfc__bundle_chunk_result message = {.is_done = true,
							 .is_accepted = true,
							 .received = 300000};
	golden_expect_message(&tfc__bundle_chunk_result_fields, &message,
			      "83a4646f6e65c3a574616b656ec3a26174ce000493e0",
			      "83a4646f6e65c3a574616b656ec3a26174ce000493e0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_offer_has_its_bytes),
		cmocka_unit_test(an_item_without_bytes_is_an_empty_map),
		cmocka_unit_test(an_item_has_the_bytes_that_were_received),
		cmocka_unit_test(an_item_says_that_the_bundle_is_ready),
		cmocka_unit_test(the_first_chunk_has_its_bytes),
		cmocka_unit_test(a_later_chunk_has_its_position),
		cmocka_unit_test(a_chunk_that_was_taken),
		cmocka_unit_test(a_chunk_that_was_not_taken),
		cmocka_unit_test(the_last_chunk),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
