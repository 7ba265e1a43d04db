/* cluster: what the maintainer's core promises, of each of its actions. */
#include "core_world.h"

static bool was_preempted(const struct world *w, const struct tfc__core_action *a)
{
	return w->sim.policy.is_tensorflow && w->slots[a->task].was_ready &&
	       !a->end.is_port_occupied && a->end.reason == TFC_EXIT_CODE &&
	       (a->end.status == 42 || a->end.status == 143);
}

static void check_charge(struct world *w, const struct tfc__core_action *a, uint32_t unit)
{
	const struct tfc__core_role *role = role_of(w, &w->slots[a->task]);
	bool is_loss = strstr(a->text, " losses in ") != NULL;
	uint64_t window = is_loss ? role->loss_window_ns : role->window_ns;
	uint32_t max = is_loss ? role->loss_max : role->restart_max;
	/* What is charged to losses was one, and who may not restart starts only those again. */
	bool is_preempted = was_preempted(w, a);
	bool is_lost = a->end.reason == TFC_EXIT_LOST || a->state < TFC_TASK_EXITED;
	promise(w, !is_loss || is_preempted || is_lost, a);
	promise(w, role->restart_max > 0, a);
	uint32_t spent = 1;
	for (uint32_t i = 0; i < w->charge_count; i++) {
		const struct charge *c = &w->charges[i];
		spent += c->unit == unit && c->is_loss == is_loss && w->sim.now - c->at < window;
	}
	bool is_within_budget = spent <= max;
	promise(w, is_within_budget, a);
	if (w->charge_count < CHARGES_MAX)
		w->charges[w->charge_count++] = (struct charge){w->sim.now, unit, is_loss};
}

static void check_launch(struct world *w, struct slot *slot, const struct tfc__core_action *a)
{
	const struct tfc__task_order *order = &a->order;
	promise(w, slot->hold == HOLD_HELD, a);
	promise(w, slot->proc == PROC_NONE, a);
	promise(w, !slot->is_moving, a);
	promise(w, order->attempt == slot->attempt + 1, a);
	promise(w, slot->attempt == 0 || slot->is_end_reported, a);
	promise(w, order->generation >= w->generation, a);
	w->generation = order->generation;
	for (uint32_t i = 0; i < w->count && is_member(w, slot); i++) {
		const struct slot *other = &w->slots[i];
		bool is_old_generation_dead = !is_member(w, other) || other->proc == PROC_NONE ||
					      other->generation == order->generation;
		promise(w, is_old_generation_dead, a);
	}
	slot->proc = PROC_STARTING;
	slot->attempt = order->attempt;
	slot->generation = order->generation;
	slot->is_frozen = slot->is_stopping = slot->is_signaled = false;
	slot->is_doomed = slot->is_end_reported = slot->is_stacking = slot->was_ready = false;
	slot->saves_until = slot->done_at = 0;
	slot->launched_at = w->sim.now;
	slot->activity = TFC__ACTIVITY_NONE;
}

static uint32_t count_members(struct world *w)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < w->count; i++)
		count += role_of(w, &w->slots[i])->scope == TFC__SCOPE_GROUP;
	return count;
}

static void note_cause(struct world *w, const struct slot *slot, const struct tfc__core_action *a)
{
	bool is_notice = was_preempted(w, a) || a->end.had_notice;
	if (a->reason == TFC_END_CONSEQUENCE) {
		w->is_notice_reported |= is_notice;
	} else if (a->reason != TFC_END_STOPPED) {
		w->cause = a->end;
		w->noticed = is_notice ? slot : NULL;
	}
}

/* Whose name the sentence begins with; NULL: nobody's. */
static const struct slot *find_named(const struct world *w, const char *text)
{
	const struct slot *slot = w->slots;
	for (uint32_t r = 0; r < w->sim.policy.role_count; r++) {
		for (uint32_t i = 0; i < w->sim.roles[r].count; i++, slot++) {
			char name[80];
			int len = snprintf(name, sizeof(name), "%s/%u ", w->sim.roles[r].name, i);
			if (strncmp(text, name, (size_t)len) == 0)
				return slot;
		}
	}
	return NULL;
}

/* Somebody was preempted, and the group goes with it: who is alive may be saving. */
static void note_savers(struct world *w, const struct tfc__core_action *a)
{
	const struct slot *cause = find_named(w, a->text);
	bool is_success = a->reason == TFC_END_EXIT && a->end.status == 0;
	bool is_failure = a->state == TFC_JOB_STOPPING && !is_success &&
			  a->reason != TFC_END_STALLED && a->reason != TFC_END_STOPPED;
	if ((!w->is_notice_reported && w->noticed != cause) || !cause ||
	    role_of(w, cause)->scope != TFC__SCOPE_GROUP ||
	    (a->state != TFC_JOB_RESTARTING && !is_failure))
		return;
	for (uint32_t i = 0; i < w->count; i++) {
		struct slot *slot = &w->slots[i];
		if (slot->proc != PROC_NONE && is_member(w, slot) && !slot->is_stopping)
			slot->saves_until = w->sim.now + w->sim.policy.preempt_grace_ns;
	}
}

static bool is_crash(const struct tfc__attempt_end *death)
{
	static const int signals[] = {6, 7, 9, 11};
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (death->status == signals[i] + (death->reason == TFC_EXIT_CODE ? 128 : 0) &&
		    death->reason <= TFC_EXIT_SIGNAL)
			return true;
	return death->is_oom;
}

/* Who saves gets no TERM, and is killed only when its time is over or a user wants that. Nobody
 * else is killed without a grace, unless a crash has left it in a collective. */
static void check_stop(struct world *w, const struct slot *slot, const struct tfc__core_action *a)
{
	const struct tfc__core_policy *policy = &w->sim.policy;
	bool is_in_collective = policy->is_abort_auto && is_crash(&w->cause) &&
				policy->strategy == TFC_STRATEGY_MULTI_WORKER_MIRRORED;
	if (slot->saves_until) {
		promise(w, a->order.number == 0, a);
		promise(w, w->sim.now >= slot->saves_until || w->is_killed_by_user, a);
	} else {
		promise(w, a->order.number || w->is_killed_by_user || is_in_collective, a);
	}
}

static void check_report(struct world *w, struct slot *slot, const struct tfc__core_action *a)
{
	promise(w, a->attempt == slot->attempt, a);
	if (a->state < TFC_TASK_EXITED) {
		slot->was_ready |= a->state == TFC_TASK_READY;
		promise(w, a->state == TFC_TASK_HOLDING || !slot->is_end_reported, a);
		promise(w, a->reason != TFC_END_STALLED || slot->proc >= PROC_RUNNING, a);
		/* A member of a group is named by evidence alone: a wrong name is worse than none.
		 */
		if (a->reason == TFC_END_STALLED && strstr(a->text, "; restarting the group") &&
		    role_of(w, slot)->scope == TFC__SCOPE_GROUP)
			promise(w,
				slot->activity == TFC__ACTIVITY_OWN_WORK ||
					slot->activity == TFC__ACTIVITY_STOPPED ||
					count_members(w) == 1,
				a);
		if (strstr(a->text, "; restarting "))
			check_charge(w, a,
				     strstr(a->text, "; restarting the group") ? TASKS_MAX
									       : a->task);
		return;
	}
	promise(w, slot->attempt > 0, a);
	promise(w, !slot->is_end_reported, a);
	promise(w, slot->proc == PROC_NONE, a);
	promise(w, a->reason != TFC_END_NONE, a);
	slot->is_end_reported = true;
	slot->end_reason = a->reason;
	if (a->state == TFC_TASK_EXITED && a->reason == TFC_END_EXIT && a->end.status == 0)
		slot->done_at = a->end.time_ns;
	note_cause(w, slot, a);
	bool is_own_failure = a->state == TFC_TASK_FAILED && a->reason != TFC_END_CONSEQUENCE &&
			      a->reason != TFC_END_STALLED;
	if (is_own_failure && role_of(w, slot)->is_replaceable && !strstr(a->text, "; restarting "))
		w->failed = a->task + 1;
	if (strstr(a->text, "; restarting "))
		check_charge(w, a, strstr(a->text, "; restarting the group") ? TASKS_MAX : a->task);
}

/* ---- whose success the job needs */

static bool is_of_rule(const struct world *w, const struct slot *slot)
{
	switch (w->sim.policy.success) {
	case TFC__SUCCESS_DRIVER:
		return is_named(w, slot, "driver");
	case TFC__SUCCESS_CHIEF:
		return is_named(w, slot, "chief");
	case TFC__SUCCESS_WORKER0:
		return is_named(w, slot, "worker") &&
		       (slot == w->slots || slot[-1].role != slot->role);
	default:
		return is_named(w, slot, "worker") || is_named(w, slot, "chief");
	}
}

static bool decides(const struct world *w, const struct slot *slot)
{
	bool has_rule = false;
	for (uint32_t i = 0; i < w->count; i++)
		has_rule |= is_of_rule(w, &w->slots[i]);
	if (has_rule)
		return is_of_rule(w, slot);
	return !is_named(w, slot, "evaluator") && !is_named(w, slot, "tensorboard");
}

/* Whether another task has had, or may still have, the success that the job needs. */
static bool may_do_without(const struct world *w, const struct slot *slot)
{
	bool may = !decides(w, slot);
	for (uint32_t i = 0; i < w->count; i++)
		may |= &w->slots[i] != slot && decides(w, &w->slots[i]) &&
		       !tfc__core_ignored_failure(w->sim.core, i);
	return may;
}

/* That failures are ignored makes no success. */
static void check_success(struct world *w, const struct tfc__core_action *a)
{
	bool is_done = false;
	for (uint32_t i = 0; i < w->count; i++)
		is_done |= decides(w, &w->slots[i]) && w->slots[i].done_at;
	promise(w, is_done, a);
}

static void check_end(struct world *w, const struct tfc__core_action *a)
{
	promise(w, !w->is_ended, a);
	for (uint32_t i = 0; i < w->count; i++) {
		const struct slot *slot = &w->slots[i];
		promise(w, slot->proc == PROC_NONE, a);
		promise(w, slot->hold == HOLD_NONE, a);
		promise(w, slot->attempt == 0 || slot->is_end_reported, a);
	}
	promise(w,
		a->task == UINT32_MAX || a->reason == TFC_END_DEADLINE ||
			a->reason == TFC_END_REFUSED ||
			w->slots[a->task].end_reason != TFC_END_CONSEQUENCE,
		a);
	promise(w, a->state >= TFC_JOB_SUCCEEDED, a);
	promise(w, a->state != TFC_JOB_STOPPED || w->is_stopped_by_user, a);
	promise(w, !w->is_honest || a->state != TFC_JOB_FAILED, a);
	if (a->state == TFC_JOB_SUCCEEDED)
		check_success(w, a);
	w->is_ended = true;
	w->end = *a;
}

/* Of a job in which all programs run and none of the cluster has ever listened nothing is known:
 * it may be training. */
static void check_start_deadline(struct world *w, const struct tfc__core_action *a)
{
	bool is_something_missing = w->has_listened;
	for (uint32_t i = 0; i < w->count; i++) {
		const struct slot *slot = &w->slots[i];
		bool is_running = slot->proc == PROC_RUNNING || slot->proc == PROC_LISTENING;
		bool is_silent_server = slot->proc == PROC_RUNNING &&
					!role_of(w, slot)->is_listening_assumed;
		is_something_missing |= !is_running || slot->is_stopping || is_silent_server;
	}
	promise(w, is_something_missing, a);
}

/* Whether a member of its group had ended with 0 not long before it failed, and it runs still. */
static bool was_left(const struct world *w, const struct slot *slot)
{
	for (uint32_t i = 0; i < w->count; i++) {
		const struct slot *other = &w->slots[i];
		if (other != slot && is_member(w, other) && other->done_at &&
		    other->done_at >= slot->launched_at && other->done_at <= w->cause.time_ns &&
		    w->cause.time_ns - other->done_at <= 60 * SIM_SECOND)
			return true;
	}
	return false;
}

/* A member that leaves with 0 is named with a failure that it may explain. */
static void check_leaver(struct world *w, const struct slot *slot, const struct tfc__core_action *a)
{
	static const int permanent[] = {1, 255, 139};
	bool is_explainable = false;
	for (size_t i = 0; i < sizeof(permanent) / sizeof(permanent[0]); i++)
		is_explainable |= a->reason == TFC_END_EXIT && a->end.status == permanent[i];
	bool is_peer_blamed = strstr(a->text, " is stopped") || strstr(a->text, " is not running");
	if (!is_explainable || is_peer_blamed || role_of(w, slot)->scope != TFC__SCOPE_GROUP)
		return;
	bool is_named = strstr(a->text, " had exited with 0") != NULL;
	promise(w, is_named == was_left(w, slot), a);
}

/* No failure that is to be ignored ends a job, unless there is no success left. */
static void check_cause(struct world *w, const struct slot *slot, const struct tfc__core_action *a)
{
	const struct tfc__core_role *role = role_of(w, slot);
	bool is_success = a->reason == TFC_END_EXIT && a->end.status == 0;
	bool is_ignored = role->is_failure_ignored && !role->is_replaceable &&
			  may_do_without(w, slot);
	promise(w, is_success || a->reason == TFC_END_DEADLINE || !is_ignored, a);
	check_leaver(w, slot, a);
}

static void check_job(struct world *w, const struct tfc__core_action *a)
{
	if (a->state == TFC_JOB_STOPPING && strstr(a->text, "start deadline") &&
	    w->sim.policy.no_listener_ns)
		check_start_deadline(w, a);
	bool is_past_stopping = w->job_state == TFC_JOB_STOPPING && a->state != TFC_JOB_STOPPING;
	promise(w, !is_past_stopping, a);
	promise(w, a->state <= TFC_JOB_STOPPING, a);
	bool is_announced = a->state == TFC_JOB_RUNNING && w->job_state != TFC_JOB_RUNNING;
	w->job_state = a->state;
	if (a->state == TFC_JOB_STOPPING && a->task < w->count)
		check_cause(w, &w->slots[a->task], a);
	note_savers(w, a);
	if (!is_announced)
		return;
	for (uint32_t i = 0; i < w->count; i++) {
		const struct slot *slot = &w->slots[i];
		bool is_ready_or_over = slot->proc != PROC_STARTING && !slot->is_stopping;
		promise(w, is_ready_or_over, a);
	}
}

/* The job goes on without a worker only while another one does its work. */
void world_check_step(struct world *w)
{
	bool is_replaced = false;
	uint32_t failed = w->failed;
	w->failed = 0;
	if (!failed || !tfc__core_ignored_failure(w->sim.core, failed - 1) ||
	    w->job_state == TFC_JOB_STOPPING)
		return;
	for (uint32_t i = 0; i < w->count; i++) {
		const struct slot *slot = &w->slots[i];
		is_replaced |= i + 1 != failed && slot->role == w->slots[failed - 1].role &&
			       slot->proc >= PROC_LISTENING && !slot->is_stopping;
	}
	promise(w, is_replaced, NULL);
}

static void add_hash(struct world *w, const void *data, size_t len)
{
	const unsigned char *bytes = data;
	for (size_t i = 0; i < len; i++)
		w->hash = (w->hash ^ bytes[i]) * 1099511628211ull;
}

static void hash_action(struct world *w, const struct tfc__core_action *a)
{
	/* one by one: the bytes between fields are anything */
	const uint64_t numbers[] = {
		a->kind,
		a->order.kind,
		a->order.task,
		a->order.attempt,
		a->order.generation,
		a->order.number,
		a->task,
		a->attempt,
		a->generation,
		a->number,
		a->state,
		a->reason,
		a->end.reason,
		a->end.time_ns,
		a->end.is_oom,
		a->end.is_port_occupied,
		(uint64_t)a->end.status,
	};
	add_hash(w, numbers, sizeof(numbers));
	add_hash(w, a->text, strlen(a->text));
}

static void take_order(struct world *w, const struct tfc__core_action *a)
{
	const struct tfc__task_order *order = &a->order;
	struct slot *slot = &w->slots[order->task];
	bool is_about_attempt = tfc__core_attempt(w->sim.core, order->task) == slot->attempt &&
				slot->proc != PROC_NONE;
	switch (order->kind) {
	case TFC__ORDER_HOLD:
		promise(w, slot->hold == HOLD_NONE && slot->proc == PROC_NONE, a);
		slot->hold = HOLD_ASKED;
		slot->hold_number = order->number;
		break;
	case TFC__ORDER_LAUNCH:
		check_launch(w, slot, a);
		break;
	case TFC__ORDER_SIGNAL:
		promise(w, is_about_attempt && !slot->saves_until, a);
		slot->is_signaled = true;
		break;
	case TFC__ORDER_STOP:
		promise(w, is_about_attempt, a);
		check_stop(w, slot, a);
		slot->is_stopping = true;
		break;
	case TFC__ORDER_RELEASE:
		promise(w, slot->hold != HOLD_NONE, a);
		promise(w, slot->proc == PROC_NONE, a);
		slot->hold = HOLD_NONE;
		slot->is_moving = false;
		break;
	case TFC__ORDER_QUERY:
		promise(w, order->number > w->last_query, a);
		w->query = w->last_query = order->number;
		break;
	case TFC__ORDER_STACKS:
		promise(w, is_about_attempt && !slot->is_stopping && !slot->is_stacking, a);
		slot->is_stacking = true;
		break;
	case TFC__ORDER_INSPECT:
		promise(w, order->number > w->last_inspect, a);
		w->inspect = w->last_inspect = order->number;
		break;
	default: /* END, SPEC and ENV are the maintainer's */
		promise(w, !"ordered by the core", a);
	}
}

void world_take(struct world *w, const struct tfc__core_action *a)
{
	struct slot *slot = a->task < w->count ? &w->slots[a->task] : NULL;
	promise(w, !w->is_ended, a);
	hash_action(w, a);
	if (w->is_loud) {
		struct tfc__buf line = {0};
		sim_print(&w->sim, a, &line);
		printf("%5llu  %s", (unsigned long long)w->steps, line.data);
		tfc__buf_fini(&line);
	}
	switch (a->kind) {
	case TFC__DO_ORDER:
		take_order(w, a);
		break;
	case TFC__DO_REPORT_TASK:
		check_report(w, slot, a);
		break;
	case TFC__DO_REPORT_JOB:
		check_job(w, a);
		break;
	case TFC__DO_PLACE:
		promise(w, w->place_count < TASKS_MAX, a);
		w->places[w->place_count++] = (struct place){a->task, a->number};
		break;
	case TFC__DO_END:
		check_end(w, a);
		break;
	case TFC__DO_SUSPENDED:
		promise(w, !"suspended", a);
		break;
	}
}
