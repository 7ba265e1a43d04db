/* agent: the line of a failed program's output that names the reason. The samples are the output of
 * Python 3.11 and TensorFlow 2.21 with Keras 3.15, shortened. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/error_line.h"
#include "base/strv.h"
#include <tfcluster/memory.h>

#define HEADER "Traceback (most recent call last):\n"
#define FRAME                                                 \
	"  File \"/home/me/train.py\", line 9, in <module>\n" \
	"    step(tf.constant([-1.0]))\n"                     \
	"         ^^^^^^^^^^^^^^^^^^^^\n"
#define INFO_ENTRY \
	"I0000 00:00:1795439092.589312    7211 port.cc:153] oneDNN custom operations are on.\n"
#define SHUTDOWN_ENTRY                                                                     \
	"W0000 00:00:1795439100.469393    7211 local_rendezvous.cc:412] Local rendezvous " \
	"is aborting with status: ABORTED: Shutdown\n"

#define SHEBANG_ERROR "/usr/bin/env: 'python3\\r': No such file or directory"
#define SHEBANG_HINT "/usr/bin/env: use -[v]S to pass options in shebang lines"

static const struct {
	const char *name;
	const char *output;
	enum tfc__error_source source;
	const char *line;
} cases[] = {
	{"nothing", "", TFC__ERROR_LAST, ""},
	{"a script with the line ends of Windows", SHEBANG_ERROR "\n" SHEBANG_HINT "\n",
	 TFC__ERROR_LAST, SHEBANG_ERROR},
	{"an exception", HEADER FRAME "KeyError: 'lr'\n", TFC__ERROR_LAST, "KeyError: 'lr'"},
	{"a message of several lines and log entries after it",
	 INFO_ENTRY HEADER FRAME
	 "RuntimeError: bad config\nsecond line: x\n  third\n" SHUTDOWN_ENTRY,
	 TFC__ERROR_LAST, "RuntimeError: bad config"},
	{"a message with notes",
	 HEADER FRAME "ValueError: bad\nException encountered when calling layer\n\nmore\n",
	 TFC__ERROR_LAST, "ValueError: bad"},
	{"chained exceptions",
	 HEADER FRAME "KeyError: 'lr'\n\nThe above exception was the direct cause of the following "
		      "exception:\n\n" HEADER FRAME "RuntimeError: bad config\n",
	 TFC__ERROR_LAST, "RuntimeError: bad config"},
	{"an exception without a message", HEADER FRAME "AssertionError\n", TFC__ERROR_LAST,
	 "AssertionError"},
	{"a class inside a function", HEADER FRAME "__main__.main.<locals>.Stop: enough\n",
	 TFC__ERROR_LAST, "__main__.main.<locals>.Stop: enough"},
	{"an exception group",
	 "  + Exception Group Traceback (most recent call last):\n"
	 "  |   File \"<string>\", line 2, in <module>\n"
	 "  | ExceptionGroup: two (2 sub-exceptions)\n"
	 "  +-+---------------- 1 ----------------\n"
	 "    | ValueError: a\n"
	 "    +------------------------------------\n",
	 TFC__ERROR_LAST, "ExceptionGroup: two (2 sub-exceptions)"},
	{"a syntax error",
	 "  File \"<string>\", line 1\n    x = (1\n        ^\n"
	 "SyntaxError: '(' was never closed\n",
	 TFC__ERROR_LAST, "SyntaxError: '(' was never closed"},
	{"TensorFlow's graph execution error",
	 HEADER FRAME "tensorflow.python.framework.errors_impl.InvalidArgumentError: Graph "
		      "execution error:\n\n"
		      "Detected at node CheckNumerics defined at (most recent call last):\n"
		      "  File \"/home/me/train.py\", line 9, in <module>\n\n"
		      "  File \"/home/me/train.py\", line 7, in inner\n\n"
		      "loss is not finite : Tensor had NaN values\n"
		      "\t [[{{node CheckNumerics}}]] [Op:__inference_step_7]\n" SHUTDOWN_ENTRY,
	 TFC__ERROR_LAST,
	 "tensorflow.python.framework.errors_impl.InvalidArgumentError: loss is not finite : "
	 "Tensor had NaN values"},
	{"Keras 3 under mirrored workers",
	 HEADER "  File \"/home/me/train.py\", line 8, in <module>\n"
		"    m.fit(np.ones((64,8),\"float32\"), np.ones((64,1),\"float32\"))\n"
		"ValueError: Attempt to convert a value (PerReplica:{\n"
		"  0: <tf.Tensor: shape=(8, 8), dtype=float32, numpy=\n"
		"array([[1., 1., 1., 1., 1., 1., 1., 1.],\n"
		"       [1., 1., 1., 1., 1., 1., 1., 1.]], dtype=float32)>\n"
		"}) with an unsupported type (<class 'tensorflow.python.distribute.values."
		"PerReplica'>) to a Tensor.\n",
	 TFC__ERROR_LAST, "ValueError: Attempt to convert a value (PerReplica:{"},
	{"log entries between the frames",
	 HEADER "  File \"/home/me/train.py\", line 9, in <module>\n" SHUTDOWN_ENTRY
		"2026-01-31 12:00:00.123456: E tensorflow/core/x.cc:1] Error: x\n"
		"    step()\n"
		"ValueError: bad\n",
	 TFC__ERROR_LAST, "ValueError: bad"},
	{"torchrun's prefix",
	 "[rank0]: " HEADER "[rank0]:   File \"train.py\", line 3, in <module>\n"
	 "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.\n",
	 TFC__ERROR_LAST, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB."},
	{"an exception that Python ignores at the end",
	 HEADER FRAME
	 "ValueError: bad\nException ignored in: <function Pool.__del__ at 0x7f>\n" HEADER FRAME
	 "OSError: handle is closed\n",
	 TFC__ERROR_LAST, "ValueError: bad"},
	{"a traceback that is cut", HEADER FRAME, TFC__ERROR_RAISED, ""},
	{"faulthandler",
	 "Fatal Python error: Segmentation fault\n\n"
	 "Current thread 0x00007fe98d6a8b80 (most recent call first):\n"
	 "  File \"<string>\", line 1 in <module>\n",
	 TFC__ERROR_FATAL, "Fatal Python error: Segmentation fault"},
	{"a traceback before a crash", HEADER FRAME "ValueError: bad\n", TFC__ERROR_FATAL, ""},
	{"a fatal log entry of absl",
	 INFO_ENTRY "F0000 00:00:1795439100.469393    7211 client.h:77] Terminating process: "
		    "the coordination service is down\n"
		    "*** Check failure stack trace: ***\n    @     0x7f23\n",
	 TFC__ERROR_FATAL, "Terminating process: the coordination service is down"},
	{"a fatal log entry of TensorFlow",
	 "2026-01-31 12:00:00.123456: F tensorflow/core/platform/x.cc:12] Check failed: n > 0 (0 "
	 "vs. 0)\n",
	 TFC__ERROR_FATAL, "Check failed: n > 0 (0 vs. 0)"},
	{"C++", "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  x\n",
	 TFC__ERROR_FATAL, "terminate called after throwing an instance of 'std::bad_alloc'"},
	{"sys.exit with a text", INFO_ENTRY "cannot open data.csv\n" SHUTDOWN_ENTRY,
	 TFC__ERROR_LAST, "cannot open data.csv"},
	{"a shell", "sh: 1: trainx: not found\n", TFC__ERROR_LAST, "sh: 1: trainx: not found"},
	{"argparse", "usage: train.py [-h]\ntrain.py: error: unrecognized arguments: --lrr 3\n",
	 TFC__ERROR_LAST, "train.py: error: unrecognized arguments: --lrr 3"},
	{"only the last line of a stream of several kinds", "loading\n", TFC__ERROR_RAISED, ""},
	{"an error entry at the end",
	 INFO_ENTRY "E0000 00:00:1795439100.469393    7211 x.cc:1] cannot connect to worker/1\n",
	 TFC__ERROR_LAST, "cannot connect to worker/1"},
	{"only noise",
	 INFO_ENTRY "To enable the following instructions: AVX2 FMA, in other operations, rebuild "
		    "TensorFlow with the appropriate compiler flags.\n"
		    "WARNING:tensorflow:slow\nINFO:absl:x\n"
		    "/home/me/a.py:3: UserWarning: old\n  warnings.warn(\n"
		    " 10%|#         | 1/10\n"
		    "E0000 00:00:1.2    7211 cuda_dnn.cc:1] Unable to register cuDNN factory\n",
	 TFC__ERROR_LAST, ""},
	{"control characters and bytes that are not UTF-8", "\033[31mred\033[0m t\xe9o\tx\r\n",
	 TFC__ERROR_LAST, " [31mred [0m t?o x"},
	{"a progress bar that ends in a message", " 10%|#  |\rgave up\n", TFC__ERROR_LAST,
	 "gave up"},
	{"print_exc, then sys.exit with a text",
	 HEADER FRAME "ZeroDivisionError: division by zero\nfatal: cannot open data.csv\n",
	 TFC__ERROR_LAST, "fatal: cannot open data.csv"},
	{"absl's logging.exception, then sys.exit with a text",
	 "E1123 16:08:24.328645 140014292271808 train.py:8] step failed\n" HEADER FRAME
	 "KeyError: 'lr'\nI1123 16:08:24.328989 140014292271808 train.py:9] saving\n"
	 "fatal: gave up\n",
	 TFC__ERROR_LAST, "fatal: gave up"},
	{"the same of a graph execution error, on standard output",
	 "ERROR:absl:step failed\n" HEADER FRAME
	 "tensorflow.python.framework.errors_impl.InvalidArgumentError: Graph execution error:\n\n"
	 "Detected at node CheckNumerics defined at (most recent call last):\n"
	 "  File \"/home/me/train.py\", line 6, in <module>\n\n"
	 "loss is not finite : Tensor had NaN values\n"
	 "\t [[{{node CheckNumerics}}]] [Op:__inference_f_7]\n"
	 "Fatal: step failed 3 times\n" SHUTDOWN_ENTRY,
	 TFC__ERROR_RAISED, "Fatal: step failed 3 times"},
	{"a thread's exception, then argparse",
	 "Exception in thread Thread-1 (f):\n" HEADER FRAME "ValueError: in a thread\n"
	 "usage: train.py [-h]\ntrain.py: error: unrecognized arguments: --lrr 3\n",
	 TFC__ERROR_LAST, "train.py: error: unrecognized arguments: --lrr 3"},
	{"an exception of asyncio that nobody awaited, with -X dev",
	 "Task exception was never retrieved\n"
	 "future: <Task finished name='Task-2' coro=<f() done> exception=ValueError('x')>\n"
	 "source_traceback: Object created at (most recent call last):\n" FRAME HEADER FRAME
	 "ValueError: x\nfatal: lost the worker\n",
	 TFC__ERROR_LAST, "fatal: lost the worker"},
	{"last words, then an exception that ended the program",
	 "error: cannot reach the store\n" HEADER FRAME "ValueError: bad\n", TFC__ERROR_LAST,
	 "ValueError: bad"},
	{"a message whose lines resemble exceptions and entries",
	 HEADER FRAME "ValueError: first line\nsecond: line\nKeyError: not this\nERROR:asyncio:x\n"
		      "wandb: error\n",
	 TFC__ERROR_LAST, "ValueError: first line"},
	{"what is printed after an exception that was printed",
	 HEADER FRAME "ZeroDivisionError: division by zero\nstep 1 loss 0.5\nstep 2 loss 0.4\n",
	 TFC__ERROR_LAST, "ZeroDivisionError: division by zero"},
	{"an exception at exit",
	 HEADER FRAME "ValueError: bad\nException ignored in atexit callback: <function bye at "
		      "0x7f>\n" HEADER FRAME "OSError: cannot remove tmp\n",
	 TFC__ERROR_LAST, "ValueError: bad"},
	{"multiprocessing.Pool",
	 "multiprocessing.pool.RemoteTraceback: \n\"\"\"\n" HEADER FRAME
	 "ValueError: bad row 7\n\"\"\"\n\nThe above exception was the direct cause of the "
	 "following exception:\n\n" HEADER FRAME "ValueError: bad row 7\n",
	 TFC__ERROR_LAST, "ValueError: bad row 7"},
	{"ProcessPoolExecutor, whose own traceback is cut",
	 "concurrent.futures.process._RemoteTraceback: \n\"\"\"\n" HEADER FRAME
	 "ValueError: bad row 7\n\"\"\"\n\nThe above exception was the direct cause of the "
	 "following exception:\n\n" HEADER FRAME,
	 TFC__ERROR_LAST, "ValueError: bad row 7"},
	{"multiprocessing.Process", "Process Process-1:\n" HEADER FRAME "ValueError: bad row 7\n",
	 TFC__ERROR_LAST, "ValueError: bad row 7"},
	{"a TensorFlow operation that names its function first",
	 HEADER FRAME
	 "tensorflow.python.framework.errors_impl.NotFoundError: {{function_node "
	 "__wrapped__IteratorGetNext_output_types_2_device_/job:localhost/replica:0/task:0/"
	 "device:CPU:0}} Failed to get tasks: Unknown iteration client id 3003.\n",
	 TFC__ERROR_LAST,
	 "tensorflow.python.framework.errors_impl.NotFoundError: Failed to get tasks: Unknown "
	 "iteration client id 3003."},
	{"a header alone", HEADER, TFC__ERROR_LAST, ""},
	{"a header alone, after a line", "loading\n" HEADER, TFC__ERROR_LAST, "loading"},
	{"a header alone with torchrun's prefix",
	 "[rank0]: " HEADER "[rank0]:   File \"train.py\", line 3, in <module>\n", TFC__ERROR_LAST,
	 ""},
	{"an exception group's header alone",
	 "  + Exception Group Traceback (most recent call last):\n  |   File \"x.py\", line 1\n",
	 TFC__ERROR_LAST, ""},
	{"an exception group with torchrun's prefix",
	 "[rank0]:   + Exception Group Traceback (most recent call last):\n"
	 "[rank0]:   |   File \"train.py\", line 7, in <module>\n"
	 "[rank0]:   |\n"
	 "[rank0]:   | ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)\n"
	 "[rank0]:   +-+---------------- 1 ----------------\n"
	 "[rank0]:     | Traceback (most recent call last):\n"
	 "[rank0]:     | ValueError: bad 1\n",
	 TFC__ERROR_LAST, "ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)"},
	{"sys.exit with a text, with -X dev and tracemalloc",
	 "fatal: x\nsys:1: ResourceWarning: unclosed file <_io.TextIOWrapper name='/dev/null'>\n"
	 "Object allocated at (most recent call last):\n  File \"x.py\", lineno 2\n",
	 TFC__ERROR_LAST, "fatal: x"},
	{"absl's logging.fatal",
	 "F1123 16:08:23.552853 140019640775360 train.py:3] cannot find data\n"
	 "Fatal Python error: Aborted\n\n"
	 "Current thread 0x00007f58dcf332c0 (most recent call first):\n"
	 "  File \"/home/me/train.py\", line 3 in main\n",
	 TFC__ERROR_FATAL, "cannot find data"},
	{"a check of TensorFlow that fails, with -X dev",
	 "F0000 00:00:1795450077.444548   28461 env.cc:84] Check failed: ret == 0 (11 vs. 0) "
	 "Thread tf_Compute creation via pthread_create() failed.\n"
	 "*** Check failure stack trace: ***\n"
	 "    @     0x7fc83b0ce564  absl::lts_20250814::log_internal::LogMessage::SendToLog()\n"
	 "Fatal Python error: Aborted\n\nThread 0x00007fc7 (most recent call first):\n",
	 TFC__ERROR_FATAL,
	 "Check failed: ret == 0 (11 vs. 0) Thread tf_Compute creation via pthread_create() "
	 "failed."},
	{"os.abort after an exception that was printed",
	 HEADER FRAME "ValueError: bad\nFatal Python error: Aborted\n", TFC__ERROR_LAST,
	 "Fatal Python error: Aborted"},
	{"a flag that absl misses",
	 "FATAL Flags parsing error: flag --data=None: Flag --data must have a value other than "
	 "None.\nPass --helpshort or --helpfull to see help on flags.\n",
	 TFC__ERROR_LAST,
	 "FATAL Flags parsing error: flag --data=None: Flag --data must have a value other than "
	 "None."},
};

static char **split(const char *output)
{
	struct tfc__strv lines = {0};
	char line[1024];
	for (size_t len; *output; output += len + 1) {
		len = strcspn(output, "\n");
		memcpy(line, output, len);
		line[len] = '\0';
		tfc__strv_add(&lines, line);
	}
	char **items = tfc__strv_steal(&lines);
	assert_non_null(items);
	return items;
}

static void line_that_a_person_would_quote_is_found(void **state)
{
	struct tfc__error_line line;
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char **lines = split(cases[i].output);
		bool is_found = tfc__error_line_find(lines, cases[i].source, &line);
		tfc_strv_free(lines);
		if (strcmp(line.text, cases[i].line) != 0 || is_found != !!*cases[i].line)
			fail_msg("%s: \"%s\", not \"%s\"", cases[i].name, line.text, cases[i].line);
	}
}

static void long_line_is_cut_between_characters(void **state)
{
	char text[1200] = "", quote[TFC__ERROR_QUOTE_SIZE];
	char *lines[] = {text, NULL};
	struct tfc__error_line line;
	(void)state;
	while (strlen(text) < 1100)
		strcat(text, "\u20ac");
	assert_true(tfc__error_line_find(lines, TFC__ERROR_LAST, &line));
	assert_int_equal(strlen(line.text), 510);
	assert_memory_equal(line.text, text, 510);
	tfc__error_line_quote(&line, quote);
	assert_int_equal(strlen(quote), 159 + 3);
	assert_memory_equal(quote, text, 159);
	assert_string_equal(quote + 159, "...");
	memset(text, 'a', 511);
	text[511] = '\0';
	assert_true(tfc__error_line_find(lines, TFC__ERROR_LAST, &line));
	assert_string_equal(line.text, text);
}

#define KERAS_FRAME                                                                          \
	"  File \"/venv/lib/python3.11/site-packages/keras/src/utils/traceback_utils.py\", " \
	"line 122, in error_handler\n"                                                       \
	"    raise e.with_traceback(filtered_tb) from None\n"
#define KERAS_HINT                                                                              \
	"; Model.fit of Keras 3 does not support this strategy; set TF_USE_LEGACY_KERAS=1 and " \
	"install tf_keras"
#define MIRRORED_ERROR "ValueError: Attempt to convert a value (PerReplica:{"
#define PS_ERROR                                                             \
	"ValueError: To use this dataset, you need to pass this dataset to " \
	"ClusterCoordinator.create_per_worker_dataset."

static void known_error_has_a_hint(void **state)
{
	static const struct {
		const char *output;
		const char *quote;
	} hinted[] = {
		{HEADER FRAME "KeyError: 'lr'\n", "KeyError: 'lr'"},
		{HEADER KERAS_FRAME MIRRORED_ERROR "\n", MIRRORED_ERROR KERAS_HINT},
		{HEADER KERAS_FRAME PS_ERROR "\n", PS_ERROR KERAS_HINT},
		{SHEBANG_ERROR "\n" SHEBANG_HINT "\n", SHEBANG_ERROR
		 "; the script has the line ends of Windows; convert it, as with dos2unix"},
		{HEADER FRAME PS_ERROR "\n", PS_ERROR}, /* a loop without Keras */
	};
	char quote[TFC__ERROR_QUOTE_SIZE];
	struct tfc__error_line line;
	(void)state;
	for (size_t i = 0; i < sizeof(hinted) / sizeof(hinted[0]); i++) {
		char **lines = split(hinted[i].output);
		assert_true(tfc__error_line_find(lines, TFC__ERROR_LAST, &line));
		tfc_strv_free(lines);
		tfc__error_line_quote(&line, quote);
		assert_string_equal(quote, hinted[i].quote);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(line_that_a_person_would_quote_is_found),
		cmocka_unit_test(long_line_is_cut_between_characters),
		cmocka_unit_test(known_error_has_a_hint),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
