/* warm: which attempts can be forked, and which of them can share a zygote. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "leaks.h"
#include "warm/zygotes.h"

static const char *const python[] = {"python3", "train.py", NULL};
static char *one_module[] = {(char *)"tensorflow", NULL};
static const struct tfc__strv modules = {.items = one_module, .count = 1};

static struct tfc__warm_attempt attempt_with(const char *const *env)
{
	return (struct tfc__warm_attempt){.modules = &modules, .argv = python, .env = env};
}

/* Whether two attempts share a zygote. */
static bool have_same_key(const struct tfc__warm_attempt *one,
			  const struct tfc__warm_attempt *other)
{
	struct tfc__strv env[2] = {{0}, {0}};
	char *keys[2] = {tfc__warm_key(one, &env[0]), tfc__warm_key(other, &env[1])};
	assert_non_null(keys[0]);
	assert_non_null(keys[1]);
	bool is_same = strcmp(keys[0], keys[1]) == 0;
	for (int i = 0; i < 2; i++) {
		free(keys[i]);
		tfc__strv_fini(&env[i]);
	}
	return is_same;
}

static void variables_that_act_at_import_are_part_of_the_key(void **state)
{
	static const struct {
		const char *variable;
		bool is_keyed;
	} cases[] = {
		{"TF_CPP_MIN_LOG_LEVEL=1", true},
		{"TF_USE_LEGACY_KERAS=1", true},
		{"OMP_NUM_THREADS=1", true},
		{"OPENBLAS_NUM_THREADS=1", true},
		{"LD_LIBRARY_PATH=/x", true},
		{"LD_PRELOAD=/x", true},
		{"PYTHONHASHSEED=1", true},
		{"PYTHONPATH=/x", true},
		{"CUDA_VISIBLE_DEVICES=0", true},
		{"PATH=/x", true},
		{"GRPC_VERBOSITY=debug", true},
		{"GRPC_ENABLE_FORK_SUPPORT=1", true},
		{"GOTO_NUM_THREADS=1", true},
		{"NPY_DISABLE_CPU_FEATURES=AVX2", true},
		{"ARROW_DEFAULT_MEMORY_POOL=system", true},
		{"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python", true},
		{"SCIPY_ARRAY_API=1", true},
		{"HDF5_USE_FILE_LOCKING=FALSE", true},
		{"GCS_READ_CACHE_MAX_SIZE_MB=1", true},
		{"TPU_LIBRARY_PATH=/x", true},
		{"MPLBACKEND=agg", true},
		{"PYTORCH_CUDA_ALLOC_CONF=x", true},
		{"HF_HOME=/x", true},
		{"HF_HUB_OFFLINE=1", true},
		{"HF_TOKEN=x", false},
		{"TF_CONFIG={}", false},
		{"GRPC_FAIL_FAST=use_caller", false},
		{"TF_GRPC_DEFAULT_OPTIONS=grpc.enable_retries=0", false},
		{"JAX_COORDINATOR_ADDRESS=a:1", false},
		{"TF_CONFIGURATION=1", true},
		{"TFC_TASK_INDEX=1", false},
		{"MODEL_DIR=/x", false},
		{"AWS_SECRET_ACCESS_KEY=x", false},
		{"TMPDIR=/x", false},
	};
	const char *none[] = {NULL};
	const struct tfc__warm_attempt without = attempt_with(none);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *env[] = {cases[i].variable, NULL};
		const struct tfc__warm_attempt with = attempt_with(env);
		if (have_same_key(&without, &with) == cases[i].is_keyed)
			fail_msg("%s", cases[i].variable);
	}
}

static void the_order_of_variables_does_not_count(void **state)
{
	const char *env[] = {"TF_A=1", "OMP_B=2", "X=1", NULL};
	const char *other_env[] = {"X=2", "OMP_B=2", "TF_A=1", NULL};
	const struct tfc__warm_attempt one = attempt_with(env), other = attempt_with(other_env);
	assert_true(have_same_key(&one, &other));
}

static void directories_of_the_attempt_itself_do_not_count(void **state)
{
	const char *env[] = {"PYTHONPATH=/stacks:/bundle/0:/shared", NULL};
	const char *other_env[] = {"PYTHONPATH=/bundle/1:/shared", NULL};
	struct tfc__warm_attempt one = attempt_with(env), other = attempt_with(other_env);
	struct tfc__strv zygote_env = {0};
	one.own_dirs[0] = "/stacks";
	one.own_dirs[1] = "/bundle/0";
	other.own_dirs[1] = "/bundle/1";
	assert_true(have_same_key(&one, &other));
	other.own_dirs[1] = "/bundle";
	assert_false(have_same_key(&one, &other));
	free(tfc__warm_key(&one, &zygote_env));
	assert_int_equal(zygote_env.count, 1);
	assert_string_equal(zygote_env.items[0], "PYTHONPATH=/shared");
	tfc__strv_fini(&zygote_env);

	const char *own_env[] = {"PYTHONPATH=/stacks", NULL}, *none[] = {NULL};
	struct tfc__warm_attempt with_own = attempt_with(own_env), without = attempt_with(none);
	with_own.own_dirs[0] = "/stacks";
	assert_true(have_same_key(&with_own, &without));
}

static void no_secret_is_in_the_environment_of_a_zygote(void **state)
{
	const char *env[] = {
		"API_KEY=secret",    "USER=ann", "TF_CONFIG={}", "HOME=/home/ann", "TFC_JOB=1",
		"OMP_NUM_THREADS=2", NULL};
	const struct tfc__warm_attempt attempt = attempt_with(env);
	struct tfc__strv zygote_env = {0};
	char *key = tfc__warm_key(&attempt, &zygote_env);
	assert_null(strstr(key, "secret"));
	free(key);
	assert_int_equal(zygote_env.count, 3);
	assert_string_equal(zygote_env.items[0], "USER=ann");
	assert_string_equal(zygote_env.items[1], "HOME=/home/ann");
	assert_string_equal(zygote_env.items[2], "OMP_NUM_THREADS=2");
	tfc__strv_fini(&zygote_env);
}

static void make_file(const char *path, mode_t mode, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

/* A new file of that name, as an installation makes it. */
static void replace_file(const char *path, mode_t mode)
{
	char other[LEAKS_PATH + 32];
	snprintf(other, sizeof(other), "%s.new", path);
	make_file(other, mode, "");
	assert_int_equal(rename(other, path), 0);
}

static char *key_of(const struct tfc__warm_attempt *attempt)
{
	struct tfc__strv env = {0};
	char *key = tfc__warm_key(attempt, &env);
	assert_non_null(key);
	tfc__strv_fini(&env);
	return key;
}

static void assert_refused(const struct tfc__warm_attempt *attempt, const char *format,
			   const char *path)
{
	char text[TFC__WARM_TEXT], expected[TFC__WARM_TEXT];
	assert_false(tfc__warm_check(attempt, text));
	snprintf(expected, sizeof(expected), format, path);
	assert_string_equal(text, expected);
}

/* Another interpreter of the same name is another key. */
static void a_replaced_interpreter_makes_another_key(void **state)
{
	char dir[LEAKS_PATH], program[LEAKS_PATH + 16];
	leaks_make_dir(dir);
	snprintf(program, sizeof(program), "%s/python3", dir);
	make_file(program, 0700, "");
	const char *argv[] = {program, "train.py", NULL}, *none[] = {NULL};
	struct tfc__warm_attempt attempt = attempt_with(none);
	attempt.argv = argv;
	char *before = key_of(&attempt), *again = key_of(&attempt);
	replace_file(program, 0700);
	char *after = key_of(&attempt);
	assert_string_equal(before, again);
	assert_string_not_equal(before, after);
	free(before);
	free(again);
	free(after);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

/* A directory, and a file that is not executable. */
static void the_interpreter_is_the_first_program_in_path(void **state)
{
	char dir[LEAKS_PATH], path[4 * LEAKS_PATH], file[LEAKS_PATH + 16], last[LEAKS_PATH + 16];
	leaks_make_dir(dir);
	for (const char *name = "abc"; *name; name++) {
		snprintf(file, sizeof(file), "%s/%c", dir, *name);
		assert_int_equal(mkdir(file, 0700), 0);
	}
	snprintf(file, sizeof(file), "%s/a/python3", dir);
	assert_int_equal(mkdir(file, 0700), 0);
	snprintf(file, sizeof(file), "%s/b/python3", dir);
	make_file(file, 0600, "");
	snprintf(last, sizeof(last), "%s/c/python3", dir);
	make_file(last, 0700, "");
	snprintf(path, sizeof(path), "PATH=%s/a:%s/b:%s/c", dir, dir, dir);
	const char *env[] = {path, NULL};
	const struct tfc__warm_attempt attempt = attempt_with(env);
	char *before = key_of(&attempt);
	replace_file(file, 0600);
	char *skipped = key_of(&attempt);
	replace_file(last, 0700);
	char *replaced = key_of(&attempt);
	replace_file(file, 0700);
	char *earlier = key_of(&attempt);
	assert_string_equal(before, skipped);
	assert_string_not_equal(before, replaced);
	assert_string_not_equal(replaced, earlier);
	free(before);
	free(skipped);
	free(replaced);
	free(earlier);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

/* sys.executable is relative then, and the zygote is in another directory. */
static void an_interpreter_in_a_relative_directory_of_path_is_refused(void **state)
{
	static const char *const refused[] = {"PATH=bin:/usr/bin", "PATH=/absent:bin",
					      "PATH=./bin/../bin:/usr/bin"};
	char dir[LEAKS_PATH], bin[LEAKS_PATH + 16], file[LEAKS_PATH + 32], path[LEAKS_PATH + 32];
	leaks_make_dir(dir);
	snprintf(bin, sizeof(bin), "%s/bin", dir);
	snprintf(file, sizeof(file), "%s/python3", bin);
	assert_int_equal(mkdir(bin, 0700), 0);
	make_file(file, 0700, "");
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		const char *env[] = {refused[i], NULL};
		struct tfc__warm_attempt attempt = attempt_with(env);
		attempt.cwd = dir;
		assert_refused(&attempt,
			       "the interpreter \"%s\" is found through a relative directory in "
			       "PATH",
			       i == 2 ? "./bin/../bin/python3" : "bin/python3");
		attempt.own_dirs[1] = dir;
		assert_refused(&attempt,
			       "the interpreter \"%s\" is in the bundle, of which each attempt has "
			       "a copy",
			       i == 2 ? "./bin/../bin/python3" : "bin/python3");
	}
	snprintf(path, sizeof(path), "PATH=:%s", bin);
	const char *env[] = {path, NULL};
	struct tfc__warm_attempt attempt = attempt_with(env);
	attempt.cwd = bin;
	assert_refused(&attempt,
		       "the interpreter \"%s\" is found through a relative directory in PATH",
		       "python3");
	assert_int_equal(tfc__remove_tree(dir), 0);
}

/* The zygote, whose directory is "/", would search it there. */
static void relative_directories_of_path_without_an_interpreter_do_not_count(void **state)
{
	char dir[LEAKS_PATH], file[LEAKS_PATH + 16], path[2][LEAKS_PATH + 32];
	char text[TFC__WARM_TEXT];
	struct tfc__strv zygote_env = {0};
	leaks_make_dir(dir);
	snprintf(file, sizeof(file), "%s/python3", dir);
	make_file(file, 0700, "");
	snprintf(path[0], sizeof(path[0]), "PATH=%s", dir);
	snprintf(path[1], sizeof(path[1]), "PATH=:bin:%s:.", dir);
	const char *env[] = {path[0], NULL}, *other_env[] = {path[1], NULL};
	struct tfc__warm_attempt one = attempt_with(env), other = attempt_with(other_env);
	one.cwd = "/one";
	other.cwd = "/other";
	assert_true(tfc__warm_check(&other, text));
	assert_true(have_same_key(&one, &other));
	free(tfc__warm_key(&other, &zygote_env));
	assert_int_equal(zygote_env.count, 1);
	assert_string_equal(zygote_env.items[0], path[0]);
	tfc__strv_fini(&zygote_env);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

/* As pyenv and mise install them. */
static void a_program_that_chooses_an_interpreter_is_refused(void **state)
{
	char dir[LEAKS_PATH], script[LEAKS_PATH + 16], link[LEAKS_PATH + 16];
	char target[LEAKS_PATH + 16], path[LEAKS_PATH + 16], expected[TFC__WARM_TEXT];
	leaks_make_dir(dir);
	snprintf(path, sizeof(path), "PATH=%s", dir);
	snprintf(script, sizeof(script), "%s/python3", dir);
	snprintf(link, sizeof(link), "%s/python", dir);
	snprintf(target, sizeof(target), "%s/mise", dir);
	make_file(script, 0700, "#!/bin/sh\n");
	make_file(target, 0700, "");
	assert_int_equal(symlink("mise", link), 0);
	const char *argv[] = {"python", "train.py", NULL}, *absolute[] = {script, "train.py", NULL};
	const char *env[] = {path, NULL};
	struct tfc__warm_attempt attempt = attempt_with(env);
	const char *const *by_name[] = {python, absolute};
	for (size_t i = 0; i < 2; i++) {
		attempt.argv = by_name[i];
		assert_refused(&attempt,
			       "the interpreter \"%s\" is a script, which may choose another one "
			       "in each directory; name the interpreter by its own path",
			       script);
	}
	attempt.argv = argv;
	snprintf(expected, sizeof(expected),
		 "the interpreter \"%s\" is the program \"%%s\", which may choose another one in "
		 "each directory; name the interpreter by its own path",
		 link);
	assert_refused(&attempt, expected, target);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

static void only_python_programs_are_forked(void **state)
{
	static const struct {
		const char *argv[5];
		bool can_be_forked;
	} cases[] = {
		{{"python3", "train.py"}, true},
		{{"/venv/bin/python", "-u", "train.py", "-x"}, true},
		{{"python3.11", "-m", "package"}, true},
		{{"python3.11", "-m"}, false},
		{{"python3.11", "-c"}, false},
		{{"python3", "-c", "pass"}, true},
		{{"python3"}, false},
		{{"python3", "-"}, false},
		{{"python3", "-E", "train.py"}, false},
		{{"python3", "-X", "dev", "train.py"}, false},
		{{"python3", "train.pyc"}, false},
		{{"python3", "directory"}, false},
		{{"sh", "train.py"}, false},
		{{"numactl", "python3", "train.py"}, false},
	};
	char text[TFC__WARM_TEXT];
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *none[] = {NULL};
		struct tfc__warm_attempt attempt = attempt_with(none);
		attempt.argv = cases[i].argv;
		if (tfc__warm_check(&attempt, text) != cases[i].can_be_forked)
			fail_msg("%s %s", cases[i].argv[0], cases[i].argv[1]);
		assert_int_equal(*text == '\0', cases[i].can_be_forked);
	}
}

static void a_relative_interpreter_is_that_of_the_working_directory(void **state)
{
	static const char *const relative[] = {"venv/bin/python", "train.py", NULL};
	static const char *const absolute[] = {"/job/venv/bin/python", "train.py", NULL};
	const char *none[] = {NULL};
	struct tfc__warm_attempt one = attempt_with(none), other = attempt_with(none);
	one.argv = relative;
	one.cwd = "/job";
	other.argv = absolute;
	other.cwd = "/";
	assert_true(have_same_key(&one, &other));
	char *interpreter = tfc__warm_interpreter(&one);
	assert_string_equal(interpreter, "/job/venv/bin/python");
	free(interpreter);
	one.cwd = "/other";
	assert_false(have_same_key(&one, &other));
	one.argv = other.argv = python; /* to be found in PATH */
	assert_true(have_same_key(&one, &other));
}

static void an_interpreter_in_the_bundle_is_refused(void **state)
{
	static const char *const relative[] = {"./python", "train.py", NULL};
	const char *none[] = {NULL};
	char text[TFC__WARM_TEXT];
	struct tfc__warm_attempt attempt = attempt_with(none);
	attempt.argv = relative;
	attempt.own_dirs[1] = "/bundle/0";
	attempt.cwd = "/bundle/01";
	assert_true(tfc__warm_check(&attempt, text));
	attempt.cwd = "/bundle/0/sub";
	assert_false(tfc__warm_check(&attempt, text));
	assert_string_equal(text, "the interpreter \"./python\" is in the bundle, of which each "
				  "attempt has a copy");
	attempt.argv = python;
	assert_true(tfc__warm_check(&attempt, text));
}

static void what_a_fork_cannot_have_is_refused(void **state)
{
	const char *none[] = {NULL};
	tfc_rlimit limit = {.resource = RLIMIT_NOFILE, .soft = 100, .hard = 100};
	tfc_process_limits limits = TFC_PROCESS_LIMITS_INIT;
	char text[TFC__WARM_TEXT];
	struct tfc__warm_attempt attempt = attempt_with(none);
	attempt.limits = &limits;
	limits.rlimits = &limit;
	limits.rlimit_count = 1;
	assert_true(tfc__warm_check(&attempt, text));
	limit.resource = RLIMIT_STACK;
	assert_false(tfc__warm_check(&attempt, text));
	assert_string_equal(text, "the limit of the stack acts when Python starts");
	limits.flags = TFC_LIMIT_USER;
	limits.uid = 1234;
	assert_false(tfc__warm_check(&attempt, text));
	assert_string_equal(text, "the task runs as another user than the node (uid 1234)");
	attempt.isolation = TFC_ISOLATION_PIDNS;
	assert_false(tfc__warm_check(&attempt, text));
	assert_string_equal(text, "a process cannot be forked into isolation \"pidns\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(variables_that_act_at_import_are_part_of_the_key),
		cmocka_unit_test(the_order_of_variables_does_not_count),
		cmocka_unit_test(directories_of_the_attempt_itself_do_not_count),
		cmocka_unit_test(no_secret_is_in_the_environment_of_a_zygote),
		cmocka_unit_test(a_replaced_interpreter_makes_another_key),
		cmocka_unit_test(the_interpreter_is_the_first_program_in_path),
		cmocka_unit_test(an_interpreter_in_a_relative_directory_of_path_is_refused),
		cmocka_unit_test(relative_directories_of_path_without_an_interpreter_do_not_count),
		cmocka_unit_test(a_program_that_chooses_an_interpreter_is_refused),
		cmocka_unit_test(a_relative_interpreter_is_that_of_the_working_directory),
		cmocka_unit_test(an_interpreter_in_the_bundle_is_refused),
		cmocka_unit_test(only_python_programs_are_forked),
		cmocka_unit_test(what_a_fork_cannot_have_is_refused),
	};
	return cmocka_run_group_tests_name("warm_key", tests, NULL, NULL);
}
