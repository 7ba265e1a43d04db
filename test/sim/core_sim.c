#include "core_sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const job_states[] = {"?",         "pending",    "starting",
					 "running",   "restarting", "stopping",
					 "succeeded", "failed",     "stopped"};
static const char *const task_states[] = {"?",     "pending", "holding", "starting", "running",
					  "ready", "exited",  "failed",  "lost",     "stopped"};
static const char *const reasons[] = {"none",         "exit",     "signal",      "deadline",
				      "stopped",      "lost",     "not_found",   "not_executable",
				      "refused",      "stranger", "consequence", "stalled",
				      "unschedulable"};

void sim_init(struct sim *s, uint32_t strategy, uint32_t success)
{
	*s = (struct sim){.now = 1000 * SIM_SECOND};
	s->policy.strategy = strategy;
	s->policy.success = success;
	s->policy.abort_grace_ns = SIM_SECOND;
	s->policy.preempt_grace_ns = 30 * SIM_SECOND;
	s->policy.is_tensorflow = strategy != TFC_STRATEGY_NONE;
	s->policy.seed = 1;
}

struct tfc__core_role *sim_role(struct sim *s, const char *name, uint32_t count, uint32_t scope)
{
	assert_true(s->policy.role_count < SIM_ROLES);
	struct tfc__core_role *role = &s->roles[s->policy.role_count++];
	snprintf(role->name, sizeof(role->name), "%s", name);
	role->count = count;
	role->scope = scope;
	role->restart_max = 3;
	role->window_ns = 600 * SIM_SECOND;
	role->loss_max = 2;
	role->loss_window_ns = 3600 * SIM_SECOND;
	role->backoff_max_ns = 30 * SIM_SECOND;
	role->grace_ns = 10 * SIM_SECOND;
	role->finish_ns = 30 * SIM_SECOND;
	role->is_in_cluster = !strcmp(name, "chief") || !strcmp(name, "worker") ||
			      !strcmp(name, "ps") || !strcmp(name, "evaluator");
	role->has_port = role->is_ready_on_listen = role->is_in_cluster &&
						    strcmp(name, "evaluator") != 0;
	return role;
}

void sim_mirrored(struct sim *s)
{
	sim_init(s, TFC_STRATEGY_MULTI_WORKER_MIRRORED, TFC__SUCCESS_ALL_WORKERS);
	sim_role(s, "worker", 2, TFC__SCOPE_GROUP);
}

void sim_parameter_server(struct sim *s)
{
	sim_init(s, TFC_STRATEGY_PARAMETER_SERVER, TFC__SUCCESS_CHIEF);
	sim_role(s, "chief", 1, TFC__SCOPE_COORDINATOR);
	sim_role(s, "worker", 1, TFC__SCOPE_TASK);
	sim_role(s, "ps", 1, TFC__SCOPE_COORDINATOR);
}

void sim_fini(struct sim *s)
{
	tfc__core_free(s->core);
	tfc__buf_fini(&s->trace);
}

uint32_t sim_task(struct sim *s, const char *name)
{
	uint32_t first = 0;
	for (uint32_t r = 0; r < s->policy.role_count; r++) {
		size_t len = strlen(s->roles[r].name);
		if (!strncmp(name, s->roles[r].name, len) && name[len] == '/')
			return first + (uint32_t)atoi(name + len + 1);
		first += s->roles[r].count;
	}
	fail_msg("no task %s", name);
	return 0;
}

static void add_task(const struct sim *s, uint32_t task, struct tfc__buf *out)
{
	uint32_t role = 0, index = task;
	while (index >= s->roles[role].count)
		index -= s->roles[role++].count;
	tfc__buf_addf(out, "%s/%u", s->roles[role].name, index);
}

static void add_report(const struct sim *s, const struct tfc__core_action *a, struct tfc__buf *out)
{
	tfc__buf_addf(out, "task ");
	add_task(s, a->task, out);
	tfc__buf_addf(out, " #%u %s", a->attempt, task_states[a->state]);
	if (a->state >= TFC_TASK_EXITED)
		tfc__buf_addf(out, " %s %d", reasons[a->reason], a->end.status);
	else if (a->reason)
		tfc__buf_addf(out, " %s", reasons[a->reason]);
	if (a->text[0])
		tfc__buf_addf(out, ": %s", a->text);
}

static void add_end(const struct sim *s, const struct tfc__core_action *a, struct tfc__buf *out)
{
	tfc__buf_addf(out, "end %s %s %d", job_states[a->state], reasons[a->reason], a->end.status);
	if (a->task != UINT32_MAX) {
		tfc__buf_addf(out, " by ");
		add_task(s, a->task, out);
		tfc__buf_addf(out, " #%u", a->attempt);
	}
	tfc__buf_addf(out, ": %s", a->text);
}

static void add_place(const struct sim *s, const struct tfc__core_action *a, struct tfc__buf *out)
{
	if (a->task == UINT32_MAX)
		tfc__buf_addf(out, "place gang");
	else
		tfc__buf_addf(out, "place ");
	if (a->task != UINT32_MAX)
		add_task(s, a->task, out);
	for (uint32_t i = 0; a->task == UINT32_MAX && i < tfc__core_task_count(s->core); i++) {
		if (!tfc__core_wants_place(s->core, i, a->task))
			continue;
		tfc__buf_add_char(out, ' ');
		add_task(s, i, out);
	}
}

static const char *const verbs[] = {"?",      "end",  "hold",  "release", "spec",    "launch",
				    "signal", "stop", "query", "stacks",  "inspect", "env"};

/* "hold worker/0 at node 2", "stop worker/0 #1 2s", "query 1" */
static void add_order(const struct sim *s, const struct tfc__core_action *a, struct tfc__buf *out)
{
	const struct tfc__task_order *order = &a->order;
	bool is_of_node = order->kind == TFC__ORDER_QUERY || order->kind == TFC__ORDER_INSPECT;
	tfc__buf_addf(out, "%s ", verbs[order->kind]);
	if (is_of_node)
		tfc__buf_addf(out, "%u", order->number);
	else
		add_task(s, order->task, out);
	if (s->has_nodes && (is_of_node || order->kind == TFC__ORDER_HOLD))
		tfc__buf_addf(out, " at node %u", a->node);
	if (order->kind == TFC__ORDER_LAUNCH)
		tfc__buf_addf(out, " #%u g%u", order->attempt, order->generation);
	uint32_t attempt = tfc__core_attempt(s->core, order->task);
	if (order->kind == TFC__ORDER_SIGNAL)
		tfc__buf_addf(out, " #%u %u", attempt, order->number);
	if (order->kind == TFC__ORDER_STOP)
		tfc__buf_addf(out, " #%u %gs", attempt, order->number / 1e3);
	if (order->kind == TFC__ORDER_STACKS)
		tfc__buf_addf(out, " #%u%s", attempt, order->number ? " before its end" : "");
}

void sim_print(const struct sim *s, const struct tfc__core_action *a, struct tfc__buf *out)
{
	switch (a->kind) {
	case TFC__DO_ORDER:
		add_order(s, a, out);
		break;
	case TFC__DO_PLACE:
		add_place(s, a, out);
		break;
	case TFC__DO_REPORT_TASK:
		add_report(s, a, out);
		break;
	case TFC__DO_REPORT_JOB:
		tfc__buf_addf(out, "job %s g%u", job_states[a->state], a->generation);
		if (a->text[0])
			tfc__buf_addf(out, ": %s", a->text);
		break;
	case TFC__DO_END:
		add_end(s, a, out);
		break;
	case TFC__DO_SUSPENDED:
		tfc__buf_addf(out, "suspended");
		break;
	}
	tfc__buf_add_char(out, '\n');
}

/* A launch and the tell that the task starts are one line, if they come one after the other. */
static void trace_action(struct sim *s, const struct tfc__core_action *a)
{
	const struct tfc__core_action *launch = &s->launch;
	bool is_launch = launch->kind == TFC__DO_ORDER && launch->order.kind == TFC__ORDER_LAUNCH;
	bool is_its_report = a && is_launch && a->kind == TFC__DO_REPORT_TASK &&
			     a->task == launch->order.task && a->attempt == launch->order.attempt &&
			     a->state == TFC_TASK_STARTING && !a->reason && !a->text[0];
	if (is_launch && !is_its_report) {
		s->trace.len--;
		tfc__buf_addf(&s->trace, ", which is not told\n");
	}
	if (a && !is_its_report)
		sim_print(s, a, &s->trace);
	s->launch = a ? *a : (struct tfc__core_action){0};
}

/* The only node there is has room for all. */
static void place_on_the_one_node(struct sim *s, uint32_t task, uint32_t number)
{
	static const uint32_t nodes[SIM_TASKS];
	assert_true(tfc__core_task_count(s->core) <= SIM_TASKS);
	sim_step(s, &(struct tfc__core_event){.kind = TFC__CORE_PLACED,
					      .task = task,
					      .number = number,
					      .nodes = nodes});
}

static void note_order(struct sim *s, const struct tfc__task_order *order)
{
	if (order->kind == TFC__ORDER_QUERY)
		s->query = order->number;
	if (order->kind == TFC__ORDER_INSPECT)
		s->inspect = order->number;
	if (order->kind == TFC__ORDER_HOLD && order->task < SIM_TASKS) {
		s->holds[order->task] = order->number;
		s->is_held[order->task] = false;
	}
	if (order->kind == TFC__ORDER_RELEASE && order->task < SIM_TASKS)
		s->is_held[order->task] = true;
}

void sim_step(struct sim *s, const struct tfc__core_event *event)
{
	if (event->kind == TFC__CORE_REPORT && event->report->kind == TFC__AGENT_LOST)
		for (uint32_t i = 0; i < tfc__core_task_count(s->core) && i < SIM_TASKS; i++)
			if (!s->is_held[i] && tfc__core_node(s->core, i) == event->node)
				s->is_held[i] = true;
	tfc__core_step(s->core, event, s->now);
	const struct tfc__core_action *a;
	uint32_t tasks[SIM_TASKS], numbers[SIM_TASKS], count = 0;
	while ((a = tfc__core_next(s->core))) {
		if (a->kind == TFC__DO_PLACE && !s->has_nodes) {
			tasks[count] = a->task;
			numbers[count++] = a->number;
			continue;
		}
		if (a->kind == TFC__DO_ORDER)
			note_order(s, &a->order);
		if (a->kind == TFC__DO_PLACE)
			*(a->task < SIM_TASKS ? &s->places[a->task] : &s->gang_place) = a->number;
		if (a->kind == TFC__DO_END)
			s->end = *a;
		trace_action(s, a);
	}
	trace_action(s, NULL);
	for (uint32_t i = 0; i < count; i++)
		place_on_the_one_node(s, tasks[i], numbers[i]);
}

void sim_report(struct sim *s, uint32_t node, const struct tfc__task_event *event)
{
	sim_step(s, &(struct tfc__core_event){.kind = TFC__CORE_REPORT,
					      .node = node,
					      .report = event});
}

void sim_start(struct sim *s)
{
	s->policy.roles = s->roles;
	s->core = tfc__core_new(&s->policy);
	assert_non_null(s->core);
	sim_step(s, &(struct tfc__core_event){.kind = TFC__CORE_START});
}

void sim_placed(struct sim *s, const char *task, const uint32_t *nodes, const char *text)
{
	uint32_t id = task ? sim_task(s, task) : UINT32_MAX;
	sim_step(s, &(struct tfc__core_event){
			    .kind = nodes ? TFC__CORE_PLACED : TFC__CORE_UNPLACED,
			    .task = id,
			    .number = task ? s->places[id] : s->gang_place,
			    .nodes = nodes,
			    .text = text,
		    });
}

void sim_hopeless(struct sim *s, const char *task, const char *text)
{
	uint32_t id = task ? sim_task(s, task) : UINT32_MAX;
	sim_step(s, &(struct tfc__core_event){
			    .kind = TFC__CORE_UNPLACED,
			    .task = id,
			    .number = task ? s->places[id] : s->gang_place,
			    .hopeless = TFC_END_UNSCHEDULABLE,
			    .text = text,
		    });
}

void sim_room(struct sim *s)
{
	sim_step(s, &(struct tfc__core_event){.kind = TFC__CORE_ROOM});
}

void sim_full(struct sim *s, const char *task)
{
	uint32_t id = sim_task(s, task);
	s->is_held[id] = true;
	sim_report(s, 0,
		   &(struct tfc__task_event){.kind = TFC__AGENT_HOLD_FAILED,
					     .task = id,
					     .number = s->holds[id],
					     .is_full = true,
					     .text = "it is full"});
}

void sim_lost(struct sim *s, uint32_t node, const char *text)
{
	sim_report(s, node, &(struct tfc__task_event){.kind = TFC__AGENT_LOST, .text = text});
}

void sim_drain(struct sim *s, uint32_t node, const char *text)
{
	sim_step(s, &(struct tfc__core_event){.kind = TFC__CORE_NODE_DRAIN,
					      .node = node,
					      .text = text});
}

void sim_answer_of(struct sim *s, uint32_t node, const uint8_t *states)
{
	sim_report(s, node,
		   &(struct tfc__task_event){.kind = TFC__AGENT_STATES,
					     .number = s->query,
					     .states = states});
}

static void event_of(struct sim *s, enum tfc__task_event_kind kind, uint32_t task)
{
	if (kind == TFC__AGENT_HELD && task < SIM_TASKS)
		s->is_held[task] = true;
	sim_report(s, 0,
		   &(struct tfc__task_event){.kind = kind,
					     .task = task,
					     .attempt = tfc__core_attempt(s->core, task),
					     .number = task < SIM_TASKS ? s->holds[task] : 0,
					     .pid = 1});
}

void sim_ready_all(struct sim *s)
{
	for (uint32_t i = 0; i < tfc__core_task_count(s->core); i++) {
		if (tfc__core_task_state(s->core, i) != TFC_TASK_STARTING)
			continue;
		event_of(s, TFC__AGENT_STARTED, i);
		if (tfc__core_task_state(s->core, i) == TFC_TASK_RUNNING)
			event_of(s, TFC__AGENT_READY, i);
	}
	s->trace.len = 0;
}

void sim_held_all(struct sim *s)
{
	for (uint32_t i = 0; i < tfc__core_task_count(s->core); i++)
		if (s->holds[i] && !s->is_held[i])
			event_of(s, TFC__AGENT_HELD, i);
}

void sim_up_at(struct sim *s, const uint32_t *nodes)
{
	s->has_nodes = true;
	sim_start(s);
	sim_placed(s, NULL, nodes, NULL);
	sim_held_all(s);
	sim_ready_all(s);
}

void sim_up(struct sim *s)
{
	sim_start(s);
	for (uint32_t i = 0; i < tfc__core_task_count(s->core); i++)
		event_of(s, TFC__AGENT_HELD, i);
	sim_ready_all(s);
}

void sim_mirrored_up(struct sim *s)
{
	sim_mirrored(s);
	sim_up(s);
}

void sim_parameter_server_up(struct sim *s)
{
	sim_parameter_server(s);
	sim_up(s);
}

void sim_mirrored_placed(struct sim *s, const uint32_t *nodes)
{
	sim_mirrored(s);
	s->has_nodes = true;
	sim_start(s);
	sim_placed(s, NULL, nodes, NULL);
}

void sim_event(struct sim *s, enum tfc__task_event_kind kind, const char *task)
{
	event_of(s, kind, sim_task(s, task));
}

void sim_death(struct sim *s, const char *task, struct tfc__attempt_end death, const char *text)
{
	uint32_t id = sim_task(s, task);
	if (death.time_ns == 0)
		death.time_ns = s->now;
	sim_report(s, 0,
		   &(struct tfc__task_event){.kind = TFC__AGENT_EXITED,
					     .task = id,
					     .attempt = tfc__core_attempt(s->core, id),
					     .end = death,
					     .text = text});
}

void sim_exit(struct sim *s, const char *task, int code)
{
	sim_death(s, task, (struct tfc__attempt_end){.reason = TFC_EXIT_CODE, .status = code},
		  NULL);
}

void sim_signal(struct sim *s, const char *task, int signal)
{
	sim_death(s, task, (struct tfc__attempt_end){.reason = TFC_EXIT_SIGNAL, .status = signal},
		  NULL);
}

void sim_answer(struct sim *s, const char *task, enum tfc__proc_state state)
{
	uint8_t states[256];
	memset(states, TFC__PROC_RUNNING, sizeof(states));
	if (task)
		states[sim_task(s, task)] = (uint8_t)state;
	sim_report(s, 0,
		   &(struct tfc__task_event){.kind = TFC__AGENT_STATES,
					     .number = s->query,
					     .states = states});
}

void sim_snapshot(struct sim *s, const char *task, const char *what)
{
	struct tfc__inspected inspected = {.task = task ? sim_task(s, task) : 0};
	snprintf(inspected.text, sizeof(inspected.text), "%s", what ? what : "");
	sim_report(s, 0,
		   &(struct tfc__task_event){.kind = TFC__AGENT_INSPECTED,
					     .number = s->inspect,
					     .inspected = &inspected,
					     .inspected_count = task != NULL});
}

static void about(struct sim *s, enum tfc__task_event_kind kind, const char *task,
		  uint32_t silent_ms, const char *what)
{
	uint32_t id = sim_task(s, task);
	sim_report(s, 0,
		   &(struct tfc__task_event){.kind = kind,
					     .task = id,
					     .attempt = tfc__core_attempt(s->core, id),
					     .silent_ms = silent_ms,
					     .text = what});
}

void sim_stalled(struct sim *s, const char *task, uint32_t silent_ms, const char *what)
{
	about(s, TFC__AGENT_STALLED, task, silent_ms, what);
}

void sim_notice(struct sim *s, const char *task, const char *what)
{
	about(s, TFC__AGENT_NOTICE, task, 0, what);
}

void sim_stacked(struct sim *s, const char *task, const char *what)
{
	about(s, TFC__AGENT_STACKED, task, 0, what);
}

void sim_inspected(struct sim *s, const char *task, enum tfc__activity activity, uint32_t silent_ms,
		   const char *what)
{
	uint32_t id = sim_task(s, task);
	sim_report(s, 0,
		   &(struct tfc__task_event){.kind = TFC__AGENT_STACKED,
					     .task = id,
					     .attempt = tfc__core_attempt(s->core, id),
					     .activity = activity,
					     .silent_ms = silent_ms,
					     .text = what});
}

void sim_stop(struct sim *s, uint64_t interrupt_ns, bool is_kill)
{
	sim_step(s, &(struct tfc__core_event){.kind = TFC__CORE_STOP,
					      .interrupt_ns = interrupt_ns,
					      .is_kill = is_kill});
}

void sim_tick(struct sim *s, uint64_t after_ns)
{
	s->now += after_ns;
	sim_step(s, &(struct tfc__core_event){.kind = TFC__CORE_TICK});
}

void sim_expect_at(struct sim *s, const char *lines, const char *file, int line)
{
	tfc__buf_add(&s->trace, "", 0);
	const char *got = s->trace.len ? s->trace.data : "";
	if (s->trace.len == 0 ? *lines : strcmp(got, lines))
		print_error("expected:\n%sgot:\n%s", lines, got);
	_assert_string_equal(got, lines, file, line);
	s->trace.len = 0;
}
