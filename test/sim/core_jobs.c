/* cluster: random jobs for the maintainer's core. */
#include "core_world.h"

static void make_role(struct world *w, const char *name, uint32_t count, uint32_t scope)
{
	struct tfc__core_role *role = sim_role(&w->sim, name, count, scope);
	role->restart_max = w->is_honest ? 100000 : chance(w, 8);
	role->window_ns = w->is_honest ? SIM_SECOND : (1 + chance(w, 60)) * SIM_SECOND;
	role->loss_max = w->is_honest ? 100000 : chance(w, 4);
	role->loss_window_ns = w->is_honest ? SIM_SECOND : 100 * SIM_SECOND;
	role->backoff_min_ns = once_in(w, 3) ? SIM_SECOND : 0;
	role->backoff_max_ns = 5 * SIM_SECOND;
	role->finish_ns = once_in(w, 4) ? 0 : 5 * SIM_SECOND;
	if (w->is_honest)
		return;
	role->restart_on = chance(w, 3);
	role->is_failure_ignored = once_in(w, 8);
	role->is_failure_fatal = !role->is_failure_ignored && once_in(w, 8);
	role->is_listening_assumed = !once_in(w, 4);
}

/* Where scopes are mixed, a task's peers may fail and nobody restarts the group: that is chaos. */
static uint32_t group_or(struct world *w, bool is_all_group, uint32_t scope)
{
	return is_all_group || (!w->is_honest && once_in(w, 8)) ? TFC__SCOPE_GROUP : scope;
}

static void make_mirrored(struct world *w)
{
	bool has_chief = once_in(w, 2);
	sim_init(&w->sim, TFC_STRATEGY_MULTI_WORKER_MIRRORED,
		 has_chief ? TFC__SUCCESS_CHIEF : TFC__SUCCESS_ALL_WORKERS);
	if (has_chief)
		make_role(w, "chief", 1, TFC__SCOPE_GROUP);
	make_role(w, "worker", 1 + chance(w, 5), TFC__SCOPE_GROUP);
}

static void make_parameter_server(struct world *w)
{
	bool has_driver = once_in(w, 4);
	bool is_group = once_in(w, 5);
	sim_init(&w->sim, TFC_STRATEGY_PARAMETER_SERVER,
		 has_driver ? TFC__SUCCESS_DRIVER : TFC__SUCCESS_CHIEF);
	make_role(w, has_driver ? "driver" : "chief", 1,
		  group_or(w, is_group, TFC__SCOPE_COORDINATOR));
	make_role(w, "worker", 1 + chance(w, 4), group_or(w, is_group, TFC__SCOPE_TASK));
	struct tfc__core_role *worker = &w->sim.roles[w->sim.policy.role_count - 1];
	worker->is_replaceable = worker->scope == TFC__SCOPE_TASK;
	if (worker->is_replaceable && !w->is_honest && once_in(w, 2))
		worker->is_failure_ignored = true;
	make_role(w, "ps", 1 + chance(w, 3), group_or(w, is_group, TFC__SCOPE_COORDINATOR));
}

static void make_plain(struct world *w)
{
	sim_init(&w->sim, TFC_STRATEGY_NONE,
		 once_in(w, 2) ? TFC__SUCCESS_ALL_WORKERS : TFC__SUCCESS_WORKER0);
	make_role(w, once_in(w, 2) ? "worker" : "server", 1 + chance(w, 4), TFC__SCOPE_TASK);
}

void world_make_job(struct world *w)
{
	switch (chance(w, 5)) {
	case 0:
	case 1:
		make_mirrored(w);
		break;
	case 2:
		make_plain(w);
		break;
	default:
		make_parameter_server(w);
	}
	if (once_in(w, 3))
		make_role(w, "evaluator", 1, TFC__SCOPE_TASK);
	if (once_in(w, 3))
		make_role(w, "tensorboard", 1, TFC__SCOPE_TASK);
	if (once_in(w, 4))
		make_role(w, "cache", 1 + chance(w, 2), TFC__SCOPE_TASK);
	struct tfc__core_policy *policy = &w->sim.policy;
	policy->seed = w->seed;
	policy->is_abort_auto = once_in(w, 2);
	policy->preempt_grace_ns = (1 + chance(w, 30)) * SIM_SECOND;
	policy->on_stall = chance(w, 3);
	policy->explain_ns = once_in(w, 2) ? 10 * SIM_SECOND : 0;
	if (!w->is_honest && once_in(w, 4))
		policy->start_deadline_ns = 60 * SIM_SECOND;
	if (policy->start_deadline_ns && once_in(w, 2))
		policy->no_listener_ns = 5 * SIM_SECOND;
	if (!w->is_honest && once_in(w, 6))
		policy->pending_deadline_ns = 100 * SIM_SECOND;
	if (!w->is_honest && once_in(w, 6))
		policy->deadline_ns = 300 * SIM_SECOND;
}
