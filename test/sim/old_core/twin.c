/*
 * cluster: the maintainer's core and the one that it replaces, side by side. What a test calls by
 * the core's names comes here (linked with --wrap): both get the same events, and their actions and
 * all that can be read of their states must be equal after each step.
 */
#include "cluster/maintainer_core.h"
#include "maintainer_core.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ACTIONS_MAX 8192

struct twin {
	struct twin *next;
	struct tfc__core *core;
	struct old__core *old;
	const struct tfc__core_action *actions[ACTIONS_MAX];
	uint32_t action_count;
	uint32_t action_read;
	uint64_t steps;
};

static struct twin *twins;

struct tfc__core *__real_tfc__core_new(const struct tfc__core_policy *policy);
void __real_tfc__core_free(struct tfc__core *core);
void __real_tfc__core_step(struct tfc__core *core, const struct tfc__core_event *event,
			   uint64_t now);
const struct tfc__core_action *__real_tfc__core_next(struct tfc__core *core);
void __real_tfc__core_resume(struct tfc__core *core, const struct tfc__resume *resume,
			     const uint32_t *nodes);

struct tfc__core *__wrap_tfc__core_new(const struct tfc__core_policy *policy);
void __wrap_tfc__core_free(struct tfc__core *core);
void __wrap_tfc__core_step(struct tfc__core *core, const struct tfc__core_event *event,
			   uint64_t now);
const struct tfc__core_action *__wrap_tfc__core_next(struct tfc__core *core);
void __wrap_tfc__core_resume(struct tfc__core *core, const struct tfc__resume *resume,
			     const uint32_t *nodes);

static struct twin *find(const struct tfc__core *core)
{
	struct twin *t = twins;
	while (t && t->core != core)
		t = t->next;
	return t;
}

struct tfc__core *__wrap_tfc__core_new(const struct tfc__core_policy *policy)
{
	static_assert(sizeof(struct old__core_policy) == sizeof(*policy), "the same fields");
	static_assert(sizeof(struct old__core_role) == sizeof(*policy->roles), "the same fields");
	struct twin *t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->core = __real_tfc__core_new(policy);
	t->old = t->core ? old__core_new((const struct old__core_policy *)policy) : NULL;
	if (!t->old) {
		__real_tfc__core_free(t->core);
		free(t);
		return NULL;
	}
	t->next = twins;
	twins = t;
	return t->core;
}

void __wrap_tfc__core_free(struct tfc__core *core)
{
	for (struct twin **at = &twins; *at; at = &(*at)->next) {
		struct twin *t = *at;
		if (t->core != core)
			continue;
		*at = t->next;
		old__core_free(t->old);
		free(t);
		break;
	}
	__real_tfc__core_free(core);
}

void __wrap_tfc__core_resume(struct tfc__core *core, const struct tfc__resume *resume,
			     const uint32_t *nodes)
{
	static_assert(sizeof(struct old__resume) == sizeof(*resume), "the same fields");
	__real_tfc__core_resume(core, resume, nodes);
	old__core_resume(find(core)->old, (const struct old__resume *)resume, nodes);
}

static void fail(const struct twin *t, const char *what, unsigned long long old,
		 unsigned long long new)
{
	fprintf(stderr, "step %llu: the cores differ in %s: %llu was, %llu is\n",
		(unsigned long long)t->steps, what, old, new);
	abort();
}

#define same(t, what, old, new)                                                              \
	do {                                                                                 \
		if ((old) != (new))                                                          \
			fail(t, what, (unsigned long long)(old), (unsigned long long)(new)); \
	} while (0)

static void compare_death(struct twin *t, const struct old__death *a, const struct tfc__death *b)
{
	same(t, "death.reason", a->reason, b->reason);
	same(t, "death.status", a->status, b->status);
	same(t, "death.is_oom", a->is_oom, b->is_oom);
	same(t, "death.is_stranger", a->is_stranger, b->is_port_occupied);
	same(t, "death.is_crowded_out", a->is_crowded_out, b->is_bind_failed);
	same(t, "death.is_node_bad", a->is_node_bad, b->is_node_bad);
	same(t, "death.had_notice", a->had_notice, b->had_notice);
	same(t, "death.is_with_node", a->is_with_node, b->is_with_node);
	same(t, "death.time", a->time_ns, b->time_ns);
}

static void compare_action(struct twin *t, const struct old__core_action *a,
			   const struct tfc__core_action *b)
{
	same(t, "kind", (uint32_t)a->kind, (uint32_t)b->kind);
	same(t, "task", a->task, b->task);
	same(t, "attempt", a->attempt, b->attempt);
	same(t, "generation", a->generation, b->generation);
	same(t, "node", a->node, b->node);
	same(t, "number", a->number, b->number);
	same(t, "grace", a->grace_ns, b->grace_ns);
	same(t, "state", a->state, b->state);
	same(t, "reason", a->reason, b->reason);
	same(t, "status", a->status, b->status);
	compare_death(t, &a->death, &b->death);
	if (strcmp(a->text, b->text) != 0) {
		fprintf(stderr, "was: %s\nis:  %s\n", a->text, b->text);
		fail(t, "text", 0, 0);
	}
}

static void print(const char *whose, uint64_t kind, uint64_t task, uint64_t attempt, uint64_t state,
		  const char *text)
{
	fprintf(stderr, "  %s kind %llu task %d #%llu state %llu %s\n", whose,
		(unsigned long long)kind, (int)task, (unsigned long long)attempt,
		(unsigned long long)state, text);
}

/* Before the comparison of one of them fails, if asked for: all actions of the step. */
static void print_step(struct twin *t, const struct tfc__core_event *event,
		       const struct old__core_action **old, uint32_t old_count)
{
	fprintf(stderr, "event %u of task %u\n", event->kind, event->task);
	for (uint32_t i = 0; i < old_count; i++)
		print("old", old[i]->kind, old[i]->task, old[i]->attempt, old[i]->state,
		      old[i]->text);
	for (uint32_t i = 0; i < t->action_count; i++) {
		const struct tfc__core_action *a = t->actions[i];
		print("new", a->kind, a->task, a->attempt, a->state, a->text);
	}
}

static bool is_equal(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static void compare_state(struct twin *t)
{
	uint32_t count = tfc__core_task_count(t->core);
	same(t, "job state", old__core_job_state(t->old), tfc__core_job_state(t->core));
	same(t, "job generation", old__core_generation(t->old), tfc__core_generation(t->core));
	same(t, "wake", old__core_wake_at(t->old), tfc__core_wake_at(t->core));
	for (uint32_t i = 0; i < count; i++) {
		same(t, "task state", old__core_task_state(t->old, i),
		     tfc__core_task_state(t->core, i));
		same(t, "task attempt", old__core_attempt(t->old, i),
		     tfc__core_attempt(t->core, i));
		same(t, "task node", old__core_node(t->old, i), tfc__core_node(t->core, i));
		same(t, "wanted place", old__core_wants_place(t->old, i, UINT32_MAX),
		     tfc__core_wants_place(t->core, i, UINT32_MAX));
		if (!is_equal(old__core_ignored_failure(t->old, i),
			      tfc__core_ignored_failure(t->core, i)))
			fail(t, "ignored failure", i, i);
	}
}

void __wrap_tfc__core_step(struct tfc__core *core, const struct tfc__core_event *event,
			   uint64_t now)
{
	static_assert(sizeof(struct old__core_event) == sizeof(*event), "the same fields");
	static const struct old__core_action *old[ACTIONS_MAX];
	struct twin *t = find(core);
	uint32_t old_count = 0;
	t->steps++;
	t->action_count = t->action_read = 0;
	__real_tfc__core_step(core, event, now);
	old__core_step(t->old, (const struct old__core_event *)event, now);
	while (old_count < ACTIONS_MAX && (old[old_count] = old__core_next(t->old)))
		old_count++;
	while (t->action_count < ACTIONS_MAX &&
	       (t->actions[t->action_count] = __real_tfc__core_next(core)))
		t->action_count++;
	if (getenv("TFC_TEST_TWIN_LOUD"))
		print_step(t, event, old, old_count);
	for (uint32_t i = 0; i < old_count && i < t->action_count; i++)
		compare_action(t, old[i], t->actions[i]);
	same(t, "number of actions", old_count, t->action_count);
	compare_state(t);
	for (uint32_t i = 0; i < tfc__core_task_count(core) && t->steps % 16 == 0; i++)
		same(t, "budget", old__core_budget_left(t->old, i, now),
		     tfc__core_budget_left(core, i, now));
}

const struct tfc__core_action *__wrap_tfc__core_next(struct tfc__core *core)
{
	struct twin *t = find(core);
	return t->action_read < t->action_count ? t->actions[t->action_read++] : NULL;
}
