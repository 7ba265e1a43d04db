/* What is promised, one referee each. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

/* ---- one attempt of a task is alive */

#define THAW (100 * SIM_MS)
#define ALIVE_MAX 32

struct alive {
	char name[80];
	char job[17];
	uint32_t attempt;
	const struct sim_machine *machine; /* NULL: none */
	bool is_replaced; /* another attempt has started while its machine stood still */
};

static struct alive alive[ALIVE_MAX];
static bool is_ended; /* somebody was notified of the job's end */
static char ended_job[17];

static char letter(const struct sim_machine *machine)
{
	return (char)('a' + (char)machine->number);
}

/* A machine that stands still runs no task; when it goes on it has a moment to end those whose time
 * is over. */
static bool is_still(const struct sim_machine *machine)
{
	return machine->power != SIM_RUNS || sim.now - machine->thawed <= THAW;
}

void sim_referee_thawed(const struct sim_machine *machine)
{
	for (int i = 0; i < ALIVE_MAX; i++)
		if (alive[i].machine == machine && alive[i].is_replaced && !is_still(machine))
			sim_broken("a frozen machine's tasks end when it thaws",
				   "%s: attempt %u is alive on %c", alive[i].name, alive[i].attempt,
				   letter(machine));
}

static bool is_same(const struct alive *one, const struct sim_task_view *task)
{
	return strcmp(one->name, task->name) == 0 && strcmp(one->job, task->job) == 0;
}

void sim_referee_started(const struct sim_task_view *task)
{
	struct alive *free_one = NULL;
	for (int i = 0; i < ALIVE_MAX; i++) {
		if (!alive[i].machine)
			free_one = &alive[i];
		else if (is_same(&alive[i], task) && is_still(alive[i].machine))
			alive[i].is_replaced = true;
		else if (is_same(&alive[i], task))
			sim_broken("one attempt of a task is alive",
				   "%s: attempt %u starts on %c while attempt %u is alive on %c",
				   task->name, task->attempt, letter(task->machine),
				   alive[i].attempt, letter(alive[i].machine));
	}
	if (is_ended && strcmp(ended_job, task->job) == 0)
		sim_broken("an ended job stays ended", "%s starts attempt %u", task->name,
			   task->attempt);
	if (!free_one)
		abort();
	free_one->machine = task->machine;
	free_one->is_replaced = false;
	free_one->attempt = task->attempt;
	snprintf(free_one->name, sizeof(free_one->name), "%s", task->name);
	snprintf(free_one->job, sizeof(free_one->job), "%s", task->job);
}

void sim_referee_ended(const struct sim_task_view *task)
{
	for (int i = 0; i < ALIVE_MAX; i++)
		if (alive[i].machine == task->machine && alive[i].attempt == task->attempt &&
		    is_same(&alive[i], task))
			alive[i].machine = NULL;
}

/* ---- each line once and in order; a replayed event is what it was */

struct follower {
	/* the last line of each task's attempt */
	uint32_t attempts[SIM_TASKS];
	uint32_t lines[SIM_TASKS]; /* + 1 */
	bool has_gap[SIM_TASKS];   /* since: lines may be missing, none may come twice */
	uint32_t count;            /* of events that are no output */
};

static struct follower followers[SIM_FOLLOWERS];
static char *history[65536];
static uint32_t history_count;

static void check_line(uint32_t number, const tfc_event *event)
{
	struct follower *follower = &followers[number];
	uint32_t task = event->task_index, attempt = 0, line = 0;
	char text[128];
	snprintf(text, sizeof(text), "%.*s", (int)event->data_len, event->data);
	if (sscanf(text, "attempt %u line %u", &attempt, &line) != 2 || attempt != event->attempt)
		sim_broken("a line is what was written", "worker/%u: \"%s\" of attempt %u", task,
			   text, event->attempt);
	bool is_new = attempt > follower->attempts[task];
	bool is_next = attempt == follower->attempts[task] && line == follower->lines[task];
	bool is_late = attempt < follower->attempts[task]; /* of a node that was unreachable */
	bool is_again = attempt == follower->attempts[task] && line < follower->lines[task];
	if (is_again)
		sim_broken("each line comes once",
			   "follower %u, worker/%u, attempt %u: line %u after line %u", number,
			   task, attempt, line, follower->lines[task] - 1);
	if (is_late)
		return;
	if (!follower->has_gap[task] && !is_next && !(is_new && line == 0))
		sim_broken("no line is missing without a gap",
			   "follower %u, worker/%u, attempt %u: line %u, expected %u", number, task,
			   attempt, line, is_new ? 0 : follower->lines[task]);
	follower->attempts[task] = attempt;
	follower->lines[task] = line + 1;
	follower->has_gap[task] = false;
}

/* An event of the journal, as it must be whenever it is told. */
static char *describe(const tfc_event *event)
{
	char text[1024];
	snprintf(text, sizeof(text),
		 "kind %u time %llu state %u generation %u epoch %llu %s/%u attempt %u task state "
		 "%u pid %d node %s reason %u exit %d signal %d error %d: %s",
		 event->kind, (unsigned long long)event->time_ns, event->job_state,
		 event->generation, (unsigned long long)event->epoch, event->task_type,
		 event->task_index, event->attempt, event->task_state, event->pid, event->node,
		 event->reason, event->exit_code, event->signal, event->error_code, event->text);
	return strdup(text);
}

static void check_history(uint32_t number, const tfc_event *event)
{
	char *text = describe(event);
	uint32_t at = followers[number].count++;
	if (at >= 65536)
		abort();
	if (at == history_count) {
		history[history_count++] = text;
		return;
	}
	if (strcmp(history[at], text) != 0)
		sim_broken("a replayed event is what it was",
			   "follower %u, event %u:\n  %s\n  was\n  %s", number, at, text,
			   history[at]);
	free(text);
}

void sim_referee_json(const tfc_event *event)
{
	char *text;
	json_t *json = tfc_event_json(event, &text) == TFC_OK ? json_loads(text, 0, NULL) : NULL;
	if (!json_object_get(json, "event"))
		sim_broken("an event can be shown", "kind %u", event->kind);
	json_decref(json);
	tfc_free(text);
}

void sim_referee_follow(uint32_t number, uint32_t like)
{
	if (like != UINT32_MAX)
		followers[number] = followers[like];
}

bool sim_referee_has_ended(void)
{
	return is_ended;
}

/* It depends on when it is reported, and is no part of the history. */
static bool is_about_store(const tfc_event *event)
{
	static const char waiting[] = "cannot store the job's events: ";
	return event->kind == TFC_EVENT_JOB &&
	       (strncmp(event->text, waiting, sizeof(waiting) - 1) == 0 ||
		strcmp(event->text, "the job's events are stored again") == 0);
}

void sim_referee_event(uint32_t number, const tfc_event *event)
{
	struct follower *follower = &followers[number];
	if (event->kind != TFC_EVENT_OUTPUT || followers[number].lines[event->task_index] % 8 == 0)
		sim_referee_json(event);
	if (event->kind == TFC_EVENT_OUTPUT) {
		check_line(number, event);
		return;
	}
	if (event->kind == TFC_EVENT_GAP) {
		follower->has_gap[event->task_index] = true;
		return;
	}
	char *text = describe(event);
	sim_note("follower %u: %s", number, text);
	free(text);
	if (!is_about_store(event))
		check_history(number, event);
	sim_referee_port_event(event);
	if (event->kind != TFC_EVENT_END)
		return;
	is_ended = true;
	snprintf(ended_job, sizeof(ended_job), "%s", event->job);
	if (event->job_state != TFC_JOB_SUCCEEDED || tfc_event_exit_status(event) != 0)
		sim_broken("faults of machines do not fail a job", "it ended: %s", event->text);
}

/* ---- at the end */

void sim_referee_finish(void)
{
	uint32_t jobs = 0, others = sim_requests_jobs(), left = 0, removed = 0;
	for (uint32_t i = 0; i < SIM_NODES; i++)
		jobs += sim_store_jobs(sim.machines[i].store);
	/* What was forgotten and could not be removed comes back when its node is started. What was
	 * removed, but not reported as removed (the last sync failed, or the helper was killed), is
	 * still listed. */
	for (uint32_t i = 0; i < SIM_NODES; i++) {
		left += sim_store_failed_removals(sim.machines[i].store);
		removed += sim_store_unreported_removals(sim.machines[i].store);
	}
	if (jobs + removed < 1 + others || jobs > 1 + others + left)
		sim_broken("one submit is one job", "%u jobs are stored, and %u others",
			   jobs - others, others);
	if (sim_tasks_alive())
		sim_broken("nothing is left", "%u tasks are alive", sim_tasks_alive());
	sim_referee_ports_finish();
	sim_bounds_finish();
}
