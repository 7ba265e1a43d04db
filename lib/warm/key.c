/* Which attempts a zygote can serve, and which of them can share one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/buf.h"
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

/* PYTHONPATH without the attempt's own directories, or NULL: out of memory. */
static char *shared_path(const char *variable, const struct tfc__warm_attempt *attempt)
{
	char *copy = strdup(variable), *to = copy;
	const char *from = variable + strcspn(variable, "=") + 1;
	if (!copy)
		return NULL;
	to += from - variable;
	for (bool is_first = true; *from;) {
		size_t len = strcspn(from, ":");
		if (!is_own_dir(from, len, attempt)) {
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

/* To the working directory, and not to be searched for in PATH. */
static bool is_relative(const char *name)
{
	return has_directory(name) && name[0] != '/';
}

/* The file that exec would find; false: none. */
static bool find_program(const char *name, const char *const *env, struct stat *ret_status)
{
	const char *path = tfc__env_get(env, "PATH");
	char file[4096];
	if (has_directory(name) || !path)
		return stat(name, ret_status) == 0;
	for (; *path; path += strcspn(path, ":"), path += *path == ':') {
		int len = snprintf(file, sizeof(file), "%.*s/%s", (int)strcspn(path, ":"), path,
				   name);
		if (len < (int)sizeof(file) && stat(file, ret_status) == 0 &&
		    S_ISREG(ret_status->st_mode))
			return true;
	}
	return false;
}

char *tfc__warm_interpreter(const struct tfc__warm_attempt *attempt)
{
	const char *name = attempt->argv[0];
	char *path = NULL;
	if (!is_relative(name) || !attempt->cwd)
		return strdup(name);
	return asprintf(&path, "%s/%s", attempt->cwd, name) < 0 ? NULL : path;
}

char *tfc__warm_key(const struct tfc__warm_attempt *attempt, struct tfc__strv *env)
{
	struct tfc__strv variables = {0};
	struct tfc__buf key = {0};
	struct stat status = {0};
	for (const char *const *variable = attempt->env; *variable; variable++) {
		if (is_named(base, *variable))
			tfc__strv_add(env, *variable);
		if (!is_named(keyed, *variable) || is_named(unkeyed, *variable))
			continue;
		if (strncmp(*variable, "PYTHONPATH=", 11) == 0)
			tfc__strv_take(&variables, shared_path(*variable, attempt));
		else
			tfc__strv_add(&variables, *variable);
	}
	if (variables.count)
		qsort(variables.items, variables.count, sizeof(*variables.items), compare_texts);
	tfc__strv_add_all(env, (const char *const *)variables.items);
	char *interpreter = tfc__warm_interpreter(attempt);
	if (interpreter)
		find_program(interpreter, attempt->env, &status);
	tfc__buf_addf(&key, "%s\n%llu %llu %lld.%09ld\n", interpreter ? interpreter : "",
		      (unsigned long long)status.st_dev, (unsigned long long)status.st_ino,
		      (long long)status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
	for (size_t i = 0; i < attempt->modules->count; i++)
		tfc__buf_addf(&key, "%s ", attempt->modules->items[i]);
	for (size_t i = 0; i < variables.count; i++)
		tfc__buf_addf(&key, "\n%s", variables.items[i]);
	env->is_failed |= variables.is_failed || !interpreter;
	free(interpreter);
	tfc__strv_fini(&variables);
	return tfc__buf_steal(&key);
}

/* The first word that is the program, or an option that a zygote cannot have. */
static const char *python_program(const char *const *argv)
{
	argv++;
	while (*argv && strcmp(*argv, "-u") == 0)
		argv++;
	return *argv;
}

static bool python_can_run(const char *const *argv)
{
	const char *program = python_program(argv);
	size_t len = program ? strlen(program) : 0;
	if (len == 2 && (strcmp(program, "-m") == 0 || strcmp(program, "-c") == 0))
		return true;
	return len > 3 && program[0] != '-' && strcmp(program + len - 3, ".py") == 0;
}

static bool is_python(const char *program)
{
	const char *slash = strrchr(program, '/');
	return strncmp(slash ? slash + 1 : program, "python", 6) == 0;
}

/* Each attempt has its own copy of a bundle. */
static bool is_in_own_dir(const char *cwd, const struct tfc__warm_attempt *attempt)
{
	for (size_t i = 0; i < 2 && cwd; i++) {
		const char *own = attempt->own_dirs[i];
		size_t len = own ? strlen(own) : 0;
		if (own && strncmp(own, cwd, len) == 0 && (!cwd[len] || cwd[len] == '/'))
			return true;
	}
	return false;
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
	else if (!is_python(attempt->argv[0]))
		snprintf(ret_text, TFC__WARM_TEXT, "the task runs \"%.200s\" and not Python",
			 attempt->argv[0]);
	else if (!python_can_run(attempt->argv))
		snprintf(
			ret_text, TFC__WARM_TEXT,
			"only python SCRIPT.py, python -m MODULE and python -c CODE, without other "
			"options, can be forked");
	else if (is_relative(attempt->argv[0]) && is_in_own_dir(attempt->cwd, attempt))
		snprintf(ret_text, TFC__WARM_TEXT,
			 "the interpreter \"%.200s\" is in the bundle, of which each attempt has a "
			 "copy",
			 attempt->argv[0]);
	for (uint32_t i = 0; !*ret_text && limits && i < limits->rlimit_count; i++)
		if (limits->rlimits[i].resource == RLIMIT_STACK)
			snprintf(ret_text, TFC__WARM_TEXT,
				 "the limit of the stack acts when Python starts");
	return !*ret_text;
}
