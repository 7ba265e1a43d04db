/* base: random numbers that need no secrecy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"

/* The outputs of the authors' splitmix64.c (prng.di.unimi.it) for this seed. */
static void numbers_are_those_of_splitmix64(void **state)
{
	static const uint64_t expected[] = {
		UINT64_C(6457827717110365317),  UINT64_C(3203168211198807973),
		UINT64_C(9817491932198370423),  UINT64_C(4593380528125082431),
		UINT64_C(16408922859458223821),
	};
	uint64_t random = 1234567;
	for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++)
		assert_true(tfc__random_next(&random) == expected[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_those_of_splitmix64),
	};
	return cmocka_run_group_tests_name("base_random", tests, NULL, NULL);
}
