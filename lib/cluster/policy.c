#include "cluster/maintainer_core.h"

#include "job/job_keys.h"
#include <stdio.h>
#include <string.h>

/* A start that takes less time is not explained. */
#define EXPLAIN_NS (10ull * 1000000000ull)

/* start_deadline_s "auto": the deadline, and the time after which a job without listeners counts as
 * running. TensorFlow listens after 3 to 10 s, on a loaded machine after several times that. */
#define START_DEADLINE_S 600
#define NO_LISTENER_NS (30ull * 1000000000ull)

#define MS_NS 1000000ull

static uint64_t seconds_ns(double seconds)
{
	return seconds > 0 ? (uint64_t)(seconds * 1e9) : 0;
}

static bool role_is_named(const struct tfc__role *role, const char *name)
{
	return strcmp(role->name, name) == 0;
}

/* With parameter servers the chief coordinates, or else the driver. */
static bool role_is_coordinator(const tfc_job *job, const struct tfc__role *role)
{
	if (role_is_named(role, "chief"))
		return true;
	return role_is_named(role, "driver") && !tfc__job_role(job, "chief");
}

static uint32_t role_default_scope(const tfc_job *job, const struct tfc__role *role)
{
	if (tfc__job_strategy(job) == TFC_STRATEGY_PARAMETER_SERVER)
		return role_is_coordinator(job, role) || role_is_named(role, "ps")
			       ? TFC__SCOPE_COORDINATOR
			       : TFC__SCOPE_TASK;
	if (tfc__job_is_collective(job))
		return role_is_named(role, "chief") || role_is_named(role, "worker")
			       ? TFC__SCOPE_GROUP
			       : TFC__SCOPE_TASK;
	return TFC__SCOPE_TASK;
}

/*
 * A role's own setting applies as it is. The job's setting applies to the cluster: an evaluator, a
 * TensorBoard or a sidecar restarts alone, and so does a worker if the scope is "coordinator".
 */
static uint32_t role_scope(const tfc_job *job, const struct tfc__role *role)
{
	uint32_t scope = role->restart.scope;
	if (scope == TFC__SCOPE_AUTO)
		return role_default_scope(job, role);
	bool is_own = role->restart_given && scope != job->restart.scope;
	if (is_own || scope == TFC__SCOPE_TASK)
		return scope;
	bool is_coordinating = role_is_coordinator(job, role) || role_is_named(role, "ps");
	bool is_of_cluster = is_coordinating || role_is_named(role, "worker");
	if (scope == TFC__SCOPE_COORDINATOR)
		return is_coordinating ? scope : TFC__SCOPE_TASK;
	return is_of_cluster ? scope : TFC__SCOPE_TASK;
}

/* Whether the role is a worker that receives its work, step by step, from a coordinator. */
static bool role_is_handed_work(const tfc_job *job, const struct tfc__role *role)
{
	return role_is_named(role, "worker") && role_scope(job, role) == TFC__SCOPE_TASK &&
	       tfc__job_strategy(job) == TFC_STRATEGY_PARAMETER_SERVER;
}

static uint32_t job_success(const tfc_job *job)
{
	if (job->success != TFC__SUCCESS_AUTO)
		return job->success;
	if (tfc__job_role(job, "driver"))
		return TFC__SUCCESS_DRIVER;
	return tfc__job_role(job, "chief") ? TFC__SUCCESS_CHIEF : TFC__SUCCESS_ALL_WORKERS;
}

/* on_failure "auto": an evaluator only observes the training. If a worker that is TensorFlow's own
 * server fails, the coordinator assigns its work to another worker. */
static bool role_is_failure_ignored(const tfc_job *job, const struct tfc__role *role)
{
	if (role->on_failure != TFC__ON_FAILURE_AUTO)
		return role->on_failure == TFC__ON_FAILURE_IGNORE;
	if (role_is_named(role, "evaluator"))
		return role_scope(job, role) == TFC__SCOPE_TASK;
	return role_is_handed_work(job, role) && role->is_server;
}

/* An evaluator may fail because of what it reads: it is retried before its failure is final. */
static uint32_t role_restart_on(const tfc_job *job, const struct tfc__role *role)
{
	bool is_own = role->restart_given & tfc__keys_find(&tfc__role_keys, "restart.on")->given;
	bool is_retried = role_is_named(role, "evaluator") &&
			  role->on_failure == TFC__ON_FAILURE_AUTO && !is_own &&
			  role->restart.on == TFC__RESTART_RETRYABLE;
	return is_retried ? TFC__RESTART_FAILURE : role->restart.on;
}

static void policy_init_role(const tfc_job *job, const struct tfc__role *role,
			     struct tfc__core_role *out)
{
	*out = (struct tfc__core_role){
		.count = role->count,
		.scope = role_scope(job, role),
		.restart_on = role_restart_on(job, role),
		.restart_max = role->restart.max,
		.window_ns = seconds_ns(role->restart.window_s),
		.loss_max = role->restart.losses,
		.loss_window_ns = seconds_ns(role->restart.losses_window_s),
		.backoff_min_ns = seconds_ns(role->restart.backoff_s[0]),
		.backoff_max_ns = seconds_ns(role->restart.backoff_s[1]),
		.grace_ns = seconds_ns(role->grace_s >= 0 ? role->grace_s : job->grace_s),
		.finish_ns = seconds_ns(role->finish_s >= 0 ? role->finish_s : job->finish_s),
		.has_port = tfc__role_has_port(job, role),
		.is_in_cluster = tfc__role_is_in_cluster(role->name),
		.is_failure_fatal = role->on_failure == TFC__ON_FAILURE_FAIL ||
				    role->on_failure == TFC__ON_FAILURE_RESTART,
		.is_failure_ignored = role_is_failure_ignored(job, role),
		.is_replaceable = role_is_handed_work(job, role),
		.is_ready_on_listen = tfc__role_is_ready_on_listen(job, role),
		.is_listening_assumed = role->ready == TFC__READY_AUTO && !role->is_server,
		.port = role->port,
	};
	snprintf(out->name, sizeof(out->name), "%s", role->name);
	/* TensorFlow's server never ends by itself: there is nothing to wait for. */
	if (role->is_server)
		out->finish_ns = 0;
}

void tfc__core_policy_from_job(const tfc_job *job, struct tfc__core_role *roles,
			       struct tfc__core_policy *policy)
{
	bool is_start_auto = job->start_deadline_s < 0;
	for (uint32_t i = 0; i < job->role_count; i++)
		policy_init_role(job, &job->roles[i], &roles[i]);
	*policy = (struct tfc__core_policy){
		.roles = roles,
		.role_count = job->role_count,
		.strategy = tfc__job_strategy(job),
		.is_tensorflow = job->framework == TFC_FRAMEWORK_TENSORFLOW,
		.success = job_success(job),
		.abort_grace_ns = tfc__job_abort_grace_ms(job) * MS_NS,
		.is_abort_auto = job->abort_grace_s < 0,
		.preempt_grace_ns = seconds_ns(job->preempt_grace_s),
		.start_deadline_ns = seconds_ns(is_start_auto ? START_DEADLINE_S
							      : job->start_deadline_s),
		.no_listener_ns = is_start_auto ? NO_LISTENER_NS : 0,
		.deadline_ns = seconds_ns(job->deadline_s),
		.pending_deadline_ns = seconds_ns(job->pending_deadline_s),
		.on_stall = job->on_stall,
		.explain_ns = EXPLAIN_NS,
	};
}
