/* Which attempts a zygote can serve, and which of them can share one. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/exec_path.h"
#include "warm/zygotes.h"

/*
 * Variables that act when the interpreter starts or a module is imported: an attempt with another
 * value needs another zygote. A name with a star is a prefix.
 */
static const char *const keyed[] = {
	"ABSL_*",        "ARROW_*",    "AUTOGRAPH_*",    "AZURE_LOG_LEVEL",
	"BLIS_*",        "CUDA_*",     "DISABLE_HOST_*", "DNNL_*",
	"GCS_*",         "GFORTRAN_*", "GLIBC_*",        "GOMP_*",
	"GOTO_*",        "GRPC_*",     "HDF5_*",         "HF_HOME",
	"HF_HUB_*",      "HIP_*",      "HOME",           "JAX_*",
	"JE_ARROW_*",    "JOBLIB_*",   "KERAS_*",        "KMP_*",
	"LANG",          "LANGUAGE",   "LC_*",           "LD_*",
	"LOKY_*",        "MALLOC_*",   "MKL_*",          "MPL*",
	"NCCL_*",        "NPY_*",      "NUMBA_*",        "NUMEXPR_*",
	"NUMPY_*",       "NVIDIA_*",   "NVPL_*",         "OMP_*",
	"ONEDNN_*",      "OPENBLAS_*", "OPENSSL_*",      "PATH",
	"PILLOW_*",      "PROTOCOL_*", "PYTHON*",        "PYTORCH_*",
	"PY_SAX_PARSER", "ROCR_*",     "SCIPY_*",        "SKLEARN_*",
	"SSLKEYLOGFILE", "TCMALLOC_*", "TEMPORARILY_*",  "TF2_*",
	"TF_*",          "TORCH_*",    "TPU_*",          "TRANSFORMERS_*",
	"VIRTUAL_ENV",   "WRAPT_*",    "XDG_*",          "XLA_*",
	"_PYTHON_*",     NULL};

/* Variables of one task that match them, and are read later. */
static const char *const unkeyed[] = {"TF_CONFIG",
				      "TF_CLUSTER",
				      "TF_WORKERS",
				      "TF_CHIEF_SERVER",
				      "GRPC_FAIL_FAST",
				      "TF_GRPC_DEFAULT_OPTIONS",
				      "JAX_COORDINATOR_ADDRESS",
				      NULL};

/* Harmless ones that libraries expect, which the zygote gets from the first attempt. */
static const char *const base[] = {"USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", NULL};

static bool is_named(const char *const *names, const char *variable)
{
	size_t len = strcspn(variable, "=");
	for (; *names; names++) {
		size_t named = strlen(*names);
		bool is_prefix = (*names)[named - 1] == '*';
		if (is_prefix ? strncmp(*names, variable, named - 1) == 0
			      : len == named && strncmp(*names, variable, len) == 0)
			return true;
	}
	return false;
}

static bool is_own_dir(const char *dir, size_t len, const struct tfc__warm_attempt *attempt)
{
	for (size_t i = 0; i < 2; i++) {
		const char *own = attempt->own_dirs[i];
		if (own && strlen(own) == len && strncmp(own, dir, len) == 0)
			return true;
	}
	return false;
}

/*
 * PATH or PYTHONPATH with the directories that a zygote can use: not those of the attempt, and not
 * relative ones, which it would search in "/". The interpreter is in none of them
 * (interpreter_check). NULL: out of memory.
 */
static char *shared_path(const char *variable, const struct tfc__warm_attempt *attempt)
{
	char *copy = strdup(variable), *to = copy;
	const char *from = variable + strcspn(variable, "=") + 1;
	if (!copy)
		return NULL;
	to += from - variable;
	for (bool is_first = true; *from;) {
		size_t len = strcspn(from, ":");
		if (from[0] == '/' && !is_own_dir(from, len, attempt)) {
			if (!is_first)
				*to++ = ':';
			memmove(to, from, len);
			to += len;
			is_first = false;
		}
		from += len + (from[len] == ':');
	}
	*to = '\0';
	return copy;
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool has_directory(const char *name)
{
	return strchr(name, '/') != NULL;
}

static bool is_relative(const char *path)
{
	return path[0] != '/';
}

/* The interpreter of an attempt, as exec finds it in the attempt's working directory. */
struct interpreter {
	char path[PATH_MAX]; /* absolute */
	char name[PATH_MAX]; /* the same file, as exec is called: may be relative */
	struct stat status;  /* all zero: there is no such program */
};

static bool interpreter_exists(const struct interpreter *interpreter)
{
	return interpreter->status.st_mode != 0;
}

/* Sets the path, and the status if it is that of a program. Returns whether it is. */
static bool interpreter_set(struct interpreter *interpreter,
			    const struct tfc__warm_attempt *attempt)
{
	const char *cwd = is_relative(interpreter->name) && attempt->cwd ? attempt->cwd : "";
	struct stat status;
	int len = snprintf(interpreter->path, sizeof(interpreter->path), "%s%s%s", cwd,
			   *cwd ? "/" : "", interpreter->name);
	if (len >= (int)sizeof(interpreter->path) || stat(interpreter->path, &status) < 0 ||
	    !S_ISREG(status.st_mode) ||
	    faccessat(AT_FDCWD, interpreter->path, X_OK, AT_EACCESS) < 0)
		return false;
	interpreter->status = status;
	return true;
}

static void interpreter_find(struct interpreter *interpreter,
			     const struct tfc__warm_attempt *attempt)
{
	const char *name = attempt->argv[0], *path = tfc__env_get(attempt->env, "PATH");
	*interpreter = (struct interpreter){.path = ""};
	if (has_directory(name)) {
		snprintf(interpreter->name, sizeof(interpreter->name), "%s", name);
		interpreter_set(interpreter, attempt);
		return;
	}
	if (!path)
		path = TFC__EXEC_PATH;
	while (path)
		if (tfc__exec_path_next(&path, name, interpreter->name,
					sizeof(interpreter->name)) &&
		    interpreter_set(interpreter, attempt))
			return;
}

char *tfc__warm_interpreter(const struct tfc__warm_attempt *attempt)
{
	const char *name = attempt->argv[0];
	char *path = NULL;
	if (!has_directory(name) || !is_relative(name) || !attempt->cwd)
		return strdup(name);
	return asprintf(&path, "%s/%s", attempt->cwd, name) < 0 ? NULL : path;
}

static void add_keyed(struct tfc__strv *variables, const char *variable,
		      const struct tfc__warm_attempt *attempt)
{
	bool is_python_path = strncmp(variable, "PYTHONPATH=", 11) == 0;
	if (!is_python_path && strncmp(variable, "PATH=", 5) != 0) {
		tfc__strv_add(variables, variable);
		return;
	}
	char *path = shared_path(variable, attempt);
	if (path && is_python_path && !path[11])
		free(path); /* to Python, it is not set */
	else
		tfc__strv_take(variables, path);
}

char *tfc__warm_key(const struct tfc__warm_attempt *attempt, struct tfc__strv *env)
{
	struct tfc__strv variables = {0};
	struct tfc__buf key = {0};
	struct interpreter found;
	for (const char *const *variable = attempt->env; *variable; variable++) {
		if (is_named(base, *variable))
			tfc__strv_add(env, *variable);
		if (!is_named(keyed, *variable) || is_named(unkeyed, *variable))
			continue;
		add_keyed(&variables, *variable, attempt);
	}
	if (variables.count)
		qsort(variables.items, variables.count, sizeof(*variables.items), compare_texts);
	tfc__strv_add_all(env, (const char *const *)variables.items);
	char *interpreter = tfc__warm_interpreter(attempt);
	interpreter_find(&found, attempt);
	tfc__buf_addf(&key, "%s\n%llu %llu %lld.%09ld\n", interpreter ? interpreter : "",
		      (unsigned long long)found.status.st_dev,
		      (unsigned long long)found.status.st_ino,
		      (long long)found.status.st_mtim.tv_sec, found.status.st_mtim.tv_nsec);
	for (size_t i = 0; i < attempt->modules->count; i++)
		tfc__buf_addf(&key, "%s ", attempt->modules->items[i]);
	for (size_t i = 0; i < variables.count; i++)
		tfc__buf_addf(&key, "\n%s", variables.items[i]);
	env->is_failed |= variables.is_failed || !interpreter;
	free(interpreter);
	tfc__strv_fini(&variables);
	return tfc__buf_steal(&key);
}

static bool python_can_run(const char *const *argv)
{
	const char *const *words = argv + 1;
	while (*words && strcmp(*words, "-u") == 0)
		words++;
	const char *program = *words;
	size_t len = program ? strlen(program) : 0;
	if (len == 2 && (strcmp(program, "-m") == 0 || strcmp(program, "-c") == 0))
		return words[1] != NULL;
	return len > 3 && program[0] != '-' && strcmp(program + len - 3, ".py") == 0;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* Each attempt has its own copy of a bundle. */
static bool is_in_own_dir(const char *path, const struct tfc__warm_attempt *attempt)
{
	for (size_t i = 0; i < 2; i++) {
		const char *own = attempt->own_dirs[i];
		size_t len = own ? strlen(own) : 0;
		if (own && strncmp(own, path, len) == 0 && path[len] == '/')
			return true;
	}
	return false;
}

static bool is_script(const char *path)
{
	char start[2] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false; /* a script must be readable */
	ssize_t len = read(fd, start, sizeof(start));
	close(fd);
	return len == 2 && start[0] == '#' && start[1] == '!';
}

/*
 * Refuses an interpreter that may be another one in another working directory. Through a relative
 * directory in PATH, sys.executable of a cold attempt is relative, too.
 */
static void interpreter_check(const struct tfc__warm_attempt *attempt, char *text)
{
	static const char other[] = "which may choose another one in each directory; name "
				    "the interpreter by its own path";
	struct interpreter found;
	char target[PATH_MAX];
	interpreter_find(&found, attempt);
	bool is_found = interpreter_exists(&found);
	if ((has_directory(attempt->argv[0]) || is_found) && is_in_own_dir(found.path, attempt))
		snprintf(text, TFC__WARM_TEXT,
			 "the interpreter \"%.200s\" is in the bundle, of which each attempt has a "
			 "copy",
			 found.name);
	else if (!is_found)
		return; /* the attempt fails for the same reason */
	else if (!has_directory(attempt->argv[0]) && is_relative(found.name))
		snprintf(text, TFC__WARM_TEXT,
			 "the interpreter \"%.200s\" is found through a relative directory in PATH",
			 found.name);
	else if (is_script(found.path))
		snprintf(text, TFC__WARM_TEXT, "the interpreter \"%.200s\" is a script, %s",
			 found.path, other);
	else if (realpath(found.path, target) && !strstr(base_name(target), "python"))
		snprintf(text, TFC__WARM_TEXT,
			 "the interpreter \"%.150s\" is the program \"%.150s\", %s", found.path,
			 target, other);
}

bool tfc__warm_check(const struct tfc__warm_attempt *attempt, char ret_text[TFC__WARM_TEXT])
{
	const tfc_process_limits *limits = attempt->limits;
	ret_text[0] = '\0';
	if (attempt->isolation == TFC_ISOLATION_PIDNS)
		snprintf(ret_text, TFC__WARM_TEXT,
			 "a process cannot be forked into isolation \"pidns\"");
	else if (limits && limits->flags & TFC_LIMIT_USER)
		snprintf(ret_text, TFC__WARM_TEXT,
			 "the task runs as another user than the node (uid %u)", limits->uid);
	else if (strncmp(base_name(attempt->argv[0]), "python", 6) != 0)
		snprintf(ret_text, TFC__WARM_TEXT,
			 "the task runs \"%.200s\", whose name does not begin with \"python\"",
			 attempt->argv[0]);
	else if (!python_can_run(attempt->argv))
		snprintf(
			ret_text, TFC__WARM_TEXT,
			"only python SCRIPT.py, python -m MODULE and python -c CODE can be forked, "
			"with no other option than -u");
	else
		interpreter_check(attempt, ret_text);
	for (uint32_t i = 0; !*ret_text && limits && i < limits->rlimit_count; i++)
		if (limits->rlimits[i].resource == RLIMIT_STACK)
			snprintf(ret_text, TFC__WARM_TEXT,
				 "the limit of the stack acts when Python starts");
	return !*ret_text;
}
