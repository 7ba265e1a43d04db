/* agent: what a dump of Python's faulthandler says of a process. The dumps are of TensorFlow 2.21.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/python_stack.h"

#define PYTHON "  File \"/usr/lib/python3.11/"
#define TENSORFLOW "  File \"/venv/lib/python3.11/site-packages/tensorflow/python/"
#define TORCH "  File \"/usr/lib/python3/dist-packages/torch/"
#define THREAD "Thread 0x00007fb63d79a6c0 (most recent call first):\n"
#define CURRENT "Current thread 0x00007fb6fa7ea2c0 (most recent call first):\n"
#define IN_MAIN                                            \
	"  File \"/home/me/train.py\", line 130 in main\n" \
	"  File \"/home/me/train.py\", line 140 in <module>\n"

#define POOL_THREAD                                                                     \
	THREAD PYTHON "multiprocessing/pool.py\", line 579 in _handle_results\n" PYTHON \
		      "threading.py\", line 975 in run\n" PYTHON                        \
		      "threading.py\", line 995 in _bootstrap\n\n"

#define GENERATOR_THREAD                                                                     \
	THREAD "  File \"/home/me/data.py\", line 93 in examples\n" TENSORFLOW               \
	       "data/ops/from_generator_op.py\", line 198 in generator_py_func\n" TENSORFLOW \
	       "ops/script_ops.py\", line 269 in __call__\n\n"

#define IN_FUNCTION                                                              \
	TENSORFLOW "eager/execute.py\", line 53 in quick_execute\n" TENSORFLOW   \
		   "eager/context.py\", line 1688 in call_function\n" TENSORFLOW \
		   "eager/polymorphic_function/atomic_function.py\", line 251 in call_flat\n"

#define IN_REDUCE                                                         \
	PYTHON "threading.py\", line 320 in wait\n" PYTHON                \
	       "multiprocessing/pool.py\", line 765 in wait\n" TENSORFLOW \
	       "distribute/cross_device_ops.py\", line 1208 in "          \
	       "_all_reduce_per_replica_values\n" TENSORFLOW              \
	       "distribute/input_lib.py\", line 264 in __next__\n"

static void dump_says_what_the_process_does(void **state)
{
	static const struct {
		const char *name;
		const char *dump;
		enum tfc__activity activity;
		const char *place;
	} cases[] = {
		{"nothing", "", TFC__ACTIVITY_NONE, ""},
		{"other output", "step=3\n\nThread of thought\n", TFC__ACTIVITY_NONE, ""},
		{"own code", CURRENT "  File \"/home/me/train.py\", line 63 in spin\n" IN_MAIN,
		 TFC__ACTIVITY_OWN_WORK, "in spin (train.py:63)"},
		{"own code that sleeps in Python's library",
		 CURRENT PYTHON "threading.py\", line 320 in wait\n" IN_MAIN,
		 TFC__ACTIVITY_OWN_WORK, "in main (train.py:130)"},
		{"a library of its own",
		 CURRENT
		 "  File \"/venv/lib/python3.11/site-packages/requests/api.py\", line 59 in "
		 "get\n" IN_MAIN,
		 TFC__ACTIVITY_OWN_WORK, "in get (api.py:59)"},
		{"a program in a directory named like a framework",
		 CURRENT "  File \"/home/me/tensorflow/train.py\", line 5 in <module>\n",
		 TFC__ACTIVITY_OWN_WORK, "in <module> (train.py:5)"},
		{"a tf.function", CURRENT IN_FUNCTION IN_MAIN, TFC__ACTIVITY_WAITING,
		 "in main (train.py:130)"},
		{"an all-reduce in threads", POOL_THREAD CURRENT IN_REDUCE IN_MAIN,
		 TFC__ACTIVITY_WAITING, "in main (train.py:130)"},
		{"an all-reduce of PyTorch",
		 CURRENT TORCH
		 "distributed/distributed_c10d.py\", line 1536 in all_reduce\n" IN_MAIN,
		 TFC__ACTIVITY_WAITING, "in main (train.py:130)"},
		{"an iterator",
		 CURRENT TENSORFLOW
		 "ops/gen_dataset_ops.py\", line 3162 in iterator_get_next_as_optional\n" TENSORFLOW
		 "data/ops/iterator_ops.py\", line 886 in get_next_as_optional\n" IN_MAIN,
		 TFC__ACTIVITY_OWN_WORK, "waits for its input"},
		{"a generator, while the main thread waits",
		 GENERATOR_THREAD CURRENT IN_FUNCTION IN_MAIN, TFC__ACTIVITY_OWN_WORK,
		 "its input in examples (data.py:93)"},
		{"some other operation",
		 CURRENT TENSORFLOW "ops/gen_io_ops.py\", line 1520 in save_v2\n" IN_MAIN,
		 TFC__ACTIVITY_UNKNOWN, "in main (train.py:130)"},
		{"run as a module",
		 CURRENT "  File \"/home/me/train.py\", line 63 in spin\n"
			 "  File \"<frozen runpy>\", line 88 in _run_code\n"
			 "  File \"<frozen runpy>\", line 198 in _run_module_as_main\n",
		 TFC__ACTIVITY_OWN_WORK, "in spin (train.py:63)"},
		{"the handler ran in another thread",
		 CURRENT PYTHON
		 "threading.py\", line 320 in wait\n" PYTHON
		 "threading.py\", line 995 in _bootstrap\n\n" THREAD IN_FUNCTION IN_MAIN,
		 TFC__ACTIVITY_WAITING, "in main (train.py:130)"},
		{"no main thread: the dump is not whole", POOL_THREAD CURRENT IN_FUNCTION,
		 TFC__ACTIVITY_NONE, ""},
		{"other output in the middle", CURRENT IN_FUNCTION "I0000 port.cc\n" IN_MAIN,
		 TFC__ACTIVITY_NONE, ""},
		{"other output around it", "step=3\n" CURRENT IN_FUNCTION IN_MAIN "\nstep=4\n",
		 TFC__ACTIVITY_WAITING, "in main (train.py:130)"},
		{"the last of two dumps",
		 CURRENT IN_FUNCTION IN_MAIN
		 "\n" CURRENT "  File \"/home/me/train.py\", line 63 in spin\n" IN_MAIN,
		 TFC__ACTIVITY_OWN_WORK, "in spin (train.py:63)"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[4096];
		struct tfc__python_stack stack;
		assert_true(strlen(cases[i].dump) < sizeof(text));
		strcpy(text, cases[i].dump);
		tfc__python_stack_read(text, &stack);
		if (stack.activity != cases[i].activity || strcmp(stack.place, cases[i].place) != 0)
			fail_msg("%s: activity %d, place \"%s\"", cases[i].name, stack.activity,
				 stack.place);
	}
}

static void long_names_are_cut(void **state)
{
	char text[2048], name[600];
	struct tfc__python_stack stack;
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	snprintf(text, sizeof(text), CURRENT "  File \"/home/%s.py\", line 7 in %s\n" IN_MAIN, name,
		 name);
	tfc__python_stack_read(text, &stack);
	assert_int_equal(stack.activity, TFC__ACTIVITY_OWN_WORK);
	assert_memory_equal(stack.place, "in xxxx", 7);
	assert_true(strlen(stack.place) < sizeof(stack.place));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dump_says_what_the_process_does),
		cmocka_unit_test(long_names_are_cut),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
