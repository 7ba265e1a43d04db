/* A queue of a task whose process has no descriptor left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "feed_queue.h"

/* The memory of the producer takes the last descriptor of this process. */
static void a_consumer_without_descriptors_has_an_error(void **state)
{
	struct queue_consumer consumer;
	struct queue_producer producer;
	struct rlimit before, limit;
	tfc_feed_batch *batch;
	queue_consumer_open(&consumer, 1, 0);
	queue_producer_open(&producer, "a", 1);
	RUN_UNTIL(true);
	int next = memfd_create("test", MFD_CLOEXEC);
	assert_true(next >= 0 && close(next) == 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	limit = before;
	limit.rlim_cur = (rlim_t)next + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	queue_put(&producer, 1, 0, 1);
	RUN_UNTIL(consumer.code == TFC_EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(tfc_feed_consumer_next(consumer.feed, &batch), TFC_EMFILE);
	assert_string_equal(
		tfc_ctx_error(queue_ctx)->text,
		"cannot read queue \"train\" of worker/0: cannot receive shared memory: "
		"Too many open files");
	tfc_feed_consumer_close(consumer.feed);
	queue_producer_close(&producer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_consumer_without_descriptors_has_an_error,
						queue_setup, queue_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
