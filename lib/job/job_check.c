/*
 * Checks that involve several keys of a job. Each rule is a function that names the key to change.
 */
#include "job/job_apply.h"

#include <ctype.h>
#include <string.h>

#include "base/fail.h"
#include "base/utf8.h"
#include "spec/ranks.h"

#define JOB_NAME_MAX 128
#define MAX_TASKS 100000

struct check {
	const tfc_job *job;
	struct tfc__key_path *where;
	tfc_error *error;
};

/* Sets the error's location to a key of a role ("" is the role itself). */
static void at_role(struct check *c, const struct tfc__role *role, const char *key)
{
	c->where->count = 0;
	tfc__key_path_push(c->where, "roles");
	tfc__key_path_push(c->where, role->name);
	if (*key)
		tfc__key_path_push(c->where, key);
}

static void at_job(struct check *c, const char *key)
{
	c->where->count = 0;
	tfc__key_path_push(c->where, key);
}

#define FAIL(c, ...) tfc__key_fail((c)->where, (c)->error, TFC_EINVAL, __VA_ARGS__)

/* The number of tasks of a role; 0 if the job has no such role. */
static uint32_t role_task_count(const struct check *c, const char *name)
{
	const struct tfc__role *role = tfc__job_role(c->job, name);
	return role ? role->count : 0;
}

static bool is_role(const struct tfc__role *role, const char *name)
{
	return strcmp(role->name, name) == 0;
}

static int check_job_name(struct check *c)
{
	at_job(c, "name");
	const char *name = c->job->name;
	if (strlen(name) > JOB_NAME_MAX)
		return FAIL(c, "is longer than %d bytes", JOB_NAME_MAX);
	if (!tfc__is_plain_text(name) || strchr(name, '/'))
		return FAIL(c, "must not contain '/' or control characters");
	return TFC_OK;
}

static bool is_module_name(const char *name)
{
	bool is_start = true; /* of the name, or of what follows a dot */
	for (; *name; name++) {
		unsigned char c = (unsigned char)*name;
		if (c == '.' ? is_start : c < 0x80 && !isalnum(c) && c != '_' && c != '-')
			return false;
		is_start = c == '.';
	}
	return !is_start;
}

static int check_warm(struct check *c)
{
	const struct tfc__strv *warm = &c->job->warm;
	for (size_t i = 0; i < warm->count; i++) {
		at_job(c, "warm");
		tfc__key_path_push_element(c->where, i);
		if (!is_module_name(warm->items[i]))
			return FAIL(
				c,
				"must be the name of a module, such as tensorflow, not \"%.80s\"",
				warm->items[i]);
	}
	return TFC_OK;
}

/* ---- one role */

static int check_role_count(struct check *c, const struct tfc__role *role)
{
	static const char *const singles[] = {"chief", "evaluator", "tensorboard", "driver"};
	at_role(c, role, "count");
	for (size_t i = 0; i < sizeof(singles) / sizeof(singles[0]); i++)
		if (role->count > 1 && is_role(role, singles[i]))
			return FAIL(c, "a job has at most one %s, not %u", role->name, role->count);
	at_role(c, role, "port");
	if (role->port && role->count && role->port + role->count - 1 > 65535)
		return FAIL(c, "%u tasks with ports from %u on exceed the highest port, 65535",
			    role->count, role->port);
	return TFC_OK;
}

static int check_role_sidecar(struct check *c, const struct tfc__role *role)
{
	at_role(c, role, "sidecar");
	for (const char *const *name = tfc__role_names; role->is_sidecar && *name; name++)
		if (is_role(role, *name))
			return FAIL(c, "%s is not a sidecar; give the sidecar another name", *name);
	return TFC_OK;
}

static int check_role_server(struct check *c, const struct tfc__role *role)
{
	at_role(c, role, "server");
	if (!is_role(role, "chief") && !is_role(role, "worker") && !is_role(role, "ps"))
		return FAIL(c, "only chief, worker and ps can run TensorFlow's server");
	if (c->job->framework != TFC_FRAMEWORK_TENSORFLOW)
		return FAIL(c, "needs \"framework\": \"tensorflow\"");
	if (tfc__job_strategy(c->job) == TFC_STRATEGY_NONE)
		return FAIL(c, "needs a strategy other than none");
	at_role(c, role, "argv");
	if (role->argv.count)
		return FAIL(c, "a role with \"server\": true runs no program of its own");
	return TFC_OK;
}

static int check_role_program(struct check *c, const struct tfc__role *role)
{
	bool is_tensorboard = is_role(role, "tensorboard");
	at_role(c, role, "wrap");
	if (role->wrap.count && !*role->wrap.items[0])
		return FAIL(c, "the first element is empty; it must name the program");
	at_role(c, role, "log_dir");
	if (role->log_dir && !is_tensorboard)
		return FAIL(c, "only the role tensorboard has a log_dir");
	if (role->is_server)
		return check_role_server(c, role);
	at_role(c, role, "");
	if (is_tensorboard && !role->argv.count && !role->log_dir)
		return FAIL(c, "tensorboard needs log_dir, or argv");
	if (is_tensorboard && !role->argv.count)
		return TFC_OK;
	const struct tfc__strv *argv = role->argv.count ? &role->argv : &c->job->argv;
	if (!argv->count)
		return FAIL(c, "no program: set argv%s",
			    is_role(role, "worker") || is_role(role, "ps")
				    ? ", or \"server\": true for TensorFlow's own"
				    : "");
	if (role->argv.count)
		tfc__key_path_push(c->where, "argv");
	else
		at_job(c, "argv");
	if (!*argv->items[0])
		return FAIL(c, "the first element is empty; it must name the program");
	return TFC_OK;
}

/* Checks the form: "name", "name:group" or ids. Whether they exist is checked on the machine that
 * runs the task. */
static int check_role_user(struct check *c, const struct tfc__role *role)
{
	const char *colon = role->user ? strchr(role->user, ':') : NULL;
	at_role(c, role, "user");
	if (!role->user)
		return TFC_OK;
	if (colon == role->user || (colon && (!colon[1] || strchr(colon + 1, ':'))) ||
	    strpbrk(role->user, " \t\n/"))
		return FAIL(c, "must be a user, or user:group, by name or number, not \"%.40s\"",
			    role->user);
	return TFC_OK;
}

static const char *job_framework_name(const struct check *c)
{
	return tfc__framework_name((enum tfc_framework)c->job->framework);
}

/* A framework with ranks has a chief, workers and auxiliary roles only. */
static int check_role_ranks(struct check *c, const struct tfc__role *role)
{
	static const char *const foreign[] = {"ps", "evaluator", "driver"};
	bool is_rank = is_role(role, "chief") || is_role(role, "worker");
	if (!tfc__job_has_ranks(c->job))
		return TFC_OK;
	at_role(c, role, "");
	for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
		if (is_role(role, foreign[i]))
			return FAIL(c,
				    "%s has no %s; make it a worker, or a sidecar of another name",
				    job_framework_name(c), role->name);
	at_role(c, role, "ready");
	if (is_rank && role->ready == TFC__READY_LISTEN)
		return FAIL(c, "only the first rank of %s listens; use started or auto",
			    job_framework_name(c));
	return TFC_OK;
}

static int check_role_scope(struct check *c, const struct tfc__role *role)
{
	enum tfc_strategy strategy = tfc__job_strategy(c->job);
	uint32_t scope = role->restart.scope, given = role->restart_given;
	if (given & tfc__keys_find(&tfc__role_keys, "restart.scope")->given)
		at_role(c, role, "restart");
	else
		at_job(c, "restart");
	tfc__key_path_push(c->where, "scope");
	if (scope == TFC__SCOPE_COORDINATOR && strategy != TFC_STRATEGY_PARAMETER_SERVER)
		return FAIL(c, "coordinator is for the parameter_server strategy only");
	if (scope == TFC__SCOPE_TASK && tfc__job_is_collective(c->job) &&
	    (is_role(role, "chief") || is_role(role, "worker")))
		return FAIL(c, "a %s %s cannot restart alone; use group or auto",
			    tfc__job_has_ranks(c->job) ? job_framework_name(c) : "mirrored",
			    role->name);
	return TFC_OK;
}

static int check_role(struct check *c, const struct tfc__role *role)
{
	int result = check_role_count(c, role);
	if (result < 0 || role->count == 0) /* a role with 0 tasks does not count */
		return result;
	result = check_role_ranks(c, role);
	if (result == TFC_OK)
		result = check_role_sidecar(c, role);
	if (result == TFC_OK)
		result = check_role_program(c, role);
	if (result == TFC_OK)
		result = check_role_user(c, role);
	if (result < 0)
		return result;
	at_role(c, role, "cpus");
	if (role->cpus > 0 && role->cpus < 0.01) /* the smallest share that the kernel supports */
		return FAIL(c, "must be 0 or at least 0.01");
	return check_role_scope(c, role);
}

/* ---- the roles together */

static int check_task_total(struct check *c)
{
	uint64_t total = 0;
	for (uint32_t i = 0; i < c->job->role_count; i++)
		total += c->job->roles[i].count;
	at_job(c, "roles");
	if (c->job->role_count == 0)
		return FAIL(c, "no role is given; for one worker, write \"worker\": {}");
	if (total > MAX_TASKS)
		return FAIL(c, "%llu tasks exceed the limit of %d", (unsigned long long)total,
			    MAX_TASKS);
	if (role_task_count(c, "chief") || role_task_count(c, "worker") ||
	    role_task_count(c, "driver"))
		return TFC_OK;
	const struct tfc__role *worker = tfc__job_role(c->job, "worker");
	if (!worker)
		return FAIL(c,
			    "needs a worker, chief or driver: its end decides the end of the job");
	at_role(c, worker, "count");
	return FAIL(c, "0 workers and no chief; there is nothing to run");
}

static int check_strategy(struct check *c)
{
	uint32_t strategy = c->job->strategy;
	bool is_chosen = strategy == TFC_STRATEGY_MULTI_WORKER_MIRRORED ||
			 strategy == TFC_STRATEGY_PARAMETER_SERVER;
	at_job(c, "strategy");
	if (is_chosen && c->job->framework != TFC_FRAMEWORK_TENSORFLOW)
		return FAIL(c, "needs \"framework\": \"tensorflow\"");
	if (strategy == TFC_STRATEGY_MULTI_WORKER_MIRRORED && role_task_count(c, "ps"))
		return FAIL(c, "multi_worker_mirrored has no ps; remove the role ps, or use "
			       "parameter_server");
	if (strategy == TFC_STRATEGY_PARAMETER_SERVER && !role_task_count(c, "ps"))
		return FAIL(c, "parameter_server needs a ps; add the role ps");
	if (tfc__job_strategy(c->job) == TFC_STRATEGY_PARAMETER_SERVER &&
	    !role_task_count(c, "worker")) {
		at_role(c, tfc__job_role(c->job, "ps"), "");
		return FAIL(c, "a ps needs workers; add the role worker");
	}
	at_job(c, "topology");
	if (c->job->topology == TFC__TOPOLOGY_PARTIAL &&
	    tfc__job_strategy(c->job) != TFC_STRATEGY_PARAMETER_SERVER)
		return FAIL(c, "partial is for the parameter_server strategy only; with others, "
			       "each worker connects to all workers");
	return TFC_OK;
}

/* The role whose completion completes the job must be one that ends. */
static int check_success(struct check *c)
{
	static const char *const names[] = {
		[TFC__SUCCESS_CHIEF] = "chief",
		[TFC__SUCCESS_WORKER0] = "worker",
		[TFC__SUCCESS_ALL_WORKERS] = "worker",
		[TFC__SUCCESS_DRIVER] = "driver",
	};
	const char *name = c->job->success != TFC__SUCCESS_AUTO ? names[c->job->success]
			   : role_task_count(c, "driver")       ? "driver"
			   : role_task_count(c, "chief")        ? "chief"
								: "worker";
	at_job(c, "success");
	if (!role_task_count(c, name))
		return FAIL(c, "the job has no such role");
	const struct tfc__role *role = tfc__job_role(c->job, name);
	at_role(c, role, "server");
	if (role->is_server)
		return FAIL(c,
			    "the job would not end because TensorFlow's server does not; add a "
			    "driver%s",
			    is_role(role, "worker") ? " or chief" : "");
	return TFC_OK;
}

static int check_stall(struct check *c)
{
	bool is_watched = c->job->stall_s > 0;
	for (uint32_t i = 0; i < c->job->role_count; i++)
		is_watched |= c->job->roles[i].stall_s > 0;
	at_job(c, "on_stall");
	if (c->job->on_stall != TFC__STALL_REPORT && !is_watched)
		return FAIL(c, "requires stall_s; set stall_s too");
	return TFC_OK;
}

static void at_placement(struct check *c, const char *key)
{
	at_job(c, "placement");
	tfc__key_path_push(c->where, key);
}

static int check_labels(struct check *c, const struct tfc__strv *labels)
{
	for (size_t i = 0; i < labels->count; i++)
		if (!tfc__is_plain_text(labels->items[i]))
			return FAIL(c, "must not contain control characters, as \"%.80s\" does",
				    labels->items[i]);
	return TFC_OK;
}

#define UPSTREAM_MAX_LEN 80

static int check_placement(struct check *c)
{
	bool follows = c->job->placement == TFC__PLACE_UPSTREAM;
	at_placement(c, "labels");
	int code = check_labels(c, &c->job->labels);
	for (uint32_t i = 0; code == TFC_OK && i < c->job->role_count; i++) {
		at_role(c, &c->job->roles[i], "labels");
		code = check_labels(c, &c->job->roles[i].labels);
	}
	if (code < 0)
		return code;
	at_placement(c, "upstream");
	if (follows && !c->job->upstream)
		return FAIL(c, "policy \"upstream\" requires the name of an upstream");
	if (!follows && c->job->upstream)
		return FAIL(c, "requires policy \"upstream\"; set policy too");
	if (follows && !tfc__is_plain_text(c->job->upstream))
		return FAIL(c, "must not contain control characters");
	if (follows && strlen(c->job->upstream) > UPSTREAM_MAX_LEN)
		return FAIL(c, "is longer than %d bytes", UPSTREAM_MAX_LEN);
	if (follows && !role_task_count(c, "worker"))
		return FAIL(c, "requires the role worker, whose tasks follow it");
	at_placement(c, "on_upstream_change");
	if (!follows && c->job->on_upstream_change != TFC__UPSTREAM_IGNORE)
		return FAIL(c, "requires policy \"upstream\"");
	return TFC_OK;
}

int tfc__job_check(const tfc_job *job, struct tfc__key_path *where, tfc_error *error)
{
	struct check c = {job, where, error};
	int result = check_job_name(&c);
	if (result == TFC_OK)
		result = check_task_total(&c);
	if (result == TFC_OK)
		result = check_strategy(&c);
	for (uint32_t i = 0; result == TFC_OK && i < job->role_count; i++)
		result = check_role(&c, &job->roles[i]);
	if (result == TFC_OK)
		result = check_stall(&c);
	if (result == TFC_OK)
		result = check_placement(&c);
	if (result == TFC_OK)
		result = check_warm(&c);
	return result == TFC_OK ? check_success(&c) : result;
}

int tfc_job_validate(const tfc_job *job, tfc_error *error)
{
	struct tfc__key_path where = {0};
	if (!job)
		return tfc__fail(error, TFC_EINVAL, "job", 0, "tfc_job_validate: job is NULL");
	int result = tfc__job_check_typos(job, &where, error);
	return result == TFC_OK ? tfc__job_check(job, &where, error) : result;
}
