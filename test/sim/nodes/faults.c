/*
 * Faults are a list, drawn before the run by a generator of their own: the same list happens
 * whatever is left out of it.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAULTS_MAX 24
#define BEGIN (SIM_SECOND / 2)
#define SPAN (60 * SIM_SECOND) /* in which they begin */
#define EARLY (40 * SIM_MS)    /* some, and many kills among them, while the job is submitted */
#define NODE_AFTER_GUARD (4 * SIM_SECOND) /* at most */

enum kind {
	KILL_NODE,
	KILL_GUARD,
	KILL_BOTH,
	KILL_CLIENT,
	CUT,
	CUT_ONE_WAY,
	FREEZE,
	SUSPEND,
	RESET,
	FULL_DISK,
	POWER_LOSS,
	WALL_JUMP,
	LEAVE,
	CLOSE,
	STOP_GUARD,
	STOP_SHIM,
	KILL_SHIM,
	FAILING_DISK,
	SLOW_DISK,
	HANGING_DISK,
	KILL_STORE,
	FOREIGN, /* a program of somebody else listens on a port */
	SLOW_READER,
	STALL,
	RESET_INSIDE,
	REFUSE,
	LATE,
	DRAWN,                   /* the others; then what becomes of some kills of a guard: */
	GUARD_THEN_NODE = DRAWN, /* within the grace of the tasks that the dead guard has left */
	KINDS,
};

static const char *const names[KINDS] = {
	"kill node",   "kill guard",       "kill both",       "kill client", "cut",
	"cut one way", "freeze",           "suspend",         "reset",       "full disk",
	"power loss",  "wall jump",        "leave",           "close",       "stop guard",
	"stop shim",   "kill shim",        "failing disk",    "slow disk",   "hanging disk",
	"kill store",  "foreign listener", "slow reader",     "stall",       "reset inside",
	"refuse",      "late connection",  "guard then node",
};

struct fault {
	enum kind kind;
	uint64_t at;
	uint64_t lasts; /* until it is undone: the node starts again, the cut heals */
	uint32_t machine, other;
	uint64_t which;
	bool is_out; /* by the mask */
	bool has_hit;
	bool is_under_way; /* of a foreign listener */
};

static struct fault faults[FAULTS_MAX];
static uint32_t fault_count;
static bool is_left_out[KINDS];

static uint64_t draw(uint64_t *random, uint64_t below)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return (*random >> 11) % below;
}

/* Half of them short, some longer than a lease and all its margins. */
static uint64_t draw_length(uint64_t *random)
{
	uint64_t of[] = {200 * SIM_MS, 4 * SIM_SECOND, 40 * SIM_SECOND};
	return SIM_MS + draw(random, of[draw(random, 3)]);
}

/* ---- foreign listeners: each on one port of its machine, as soon as the kernel lets it */

#define FIRST_FOREIGN 100000 /* their pids */

static struct sim_process foreign_program(const struct fault *fault)
{
	return (struct sim_process){.machine = &sim.machines[fault->machine],
				    .pid = FIRST_FOREIGN + (int32_t)(fault - faults),
				    .parent = 1,
				    .uid = SIM_UID + 1,
				    .name = "foreign"};
}

static bool foreign_try(struct fault *fault, uint16_t port)
{
	struct sim_process program = foreign_program(fault);
	if (fault->has_hit || sim_port_listen(&program, port) != 0)
		return false;
	fault->has_hit = true;
	return true;
}

static void foreign_try_later(void *user, uint64_t port)
{
	struct fault *fault = user;
	if (fault->is_under_way)
		foreign_try(fault, (uint16_t)port);
}

/* The ports that are held now, and the next one, which the pool may be about to try. */
static void foreign_try_held(void *user, const struct sim_port *port)
{
	struct fault *fault = user;
	if (!port->process && !foreign_try(fault, port->port) && fault->which % 2)
		foreign_try(fault, (uint16_t)(port->port + 1));
}

static void foreign_begin(struct fault *fault)
{
	fault->is_under_way = true;
	sim_ports_each(&sim.machines[fault->machine], foreign_try_held, fault);
}

static void foreign_end(void *user, uint64_t number)
{
	struct fault *fault = user;
	struct sim_process program = foreign_program(fault);
	fault->is_under_way = false;
	sim_port_close(program.machine, program.pid);
}

/* At once, or before the task has bound it. */
void sim_faults_window_opens(const struct sim_machine *machine, uint16_t port)
{
	for (uint32_t i = 0; i < fault_count; i++) {
		struct fault *fault = &faults[i];
		if (!fault->is_under_way || fault->has_hit || fault->kind != FOREIGN ||
		    &sim.machines[fault->machine] != machine)
			continue;
		if (fault->which % 3 == 0)
			foreign_try(fault, port);
		else
			sim_at(sim.now + fault->which % (40 * SIM_MS), foreign_try_later, fault,
			       port);
	}
}

bool sim_faults_have_foreign(const struct sim_machine *machine)
{
	for (uint32_t i = 0; i < fault_count; i++)
		if (faults[i].kind == FOREIGN && faults[i].has_hit &&
		    &sim.machines[faults[i].machine] == machine)
			return true;
	return false;
}

/* ---- machines and processes */

/* A process waits inside one of its calls: what starts or kills processes comes behind that. */
static bool is_postponed(sim_event_fn fn, void *user, uint64_t number)
{
	if (sim.is_waiting)
		sim_at(sim.now + SIM_MS, fn, user, number);
	return sim.is_waiting;
}

static void restart(void *user, uint64_t number)
{
	if (is_postponed(restart, user, number))
		return;
	sim_machine_start(&sim.machines[number]);
}

static uint64_t node_after_guard(const struct fault *fault)
{
	return fault->which / 2 % NODE_AFTER_GUARD;
}

/* It starts the node again, too: a restart of its own could come before a kill that is postponed.
 */
static void kill_after_guard(void *user, uint64_t number)
{
	const struct fault *fault = user;
	struct sim_machine *machine = &sim.machines[fault->machine];
	if (is_postponed(kill_after_guard, user, number))
		return;
	if (machine->host && machine->power == SIM_RUNS)
		sim_machine_kill(machine);
	sim_at(sim.now + fault->lasts - node_after_guard(fault), restart, NULL, fault->machine);
}

static void restart_client(void *user, uint64_t number)
{
	if (is_postponed(restart_client, user, number))
		return;
	sim_client_start((uint32_t)number);
}

static void heal(void *user, uint64_t number)
{
	const struct fault *fault = user;
	sim.cuts[fault->machine][fault->other] = false;
	if (fault->kind == CUT)
		sim.cuts[fault->other][fault->machine] = false;
}

static void run_again(void *user, uint64_t number)
{
	struct sim_machine *machine = &sim.machines[number];
	if (is_postponed(run_again, user, number))
		return;
	if (machine->power != SIM_RUNS)
		sim_machine_set_power(machine, SIM_RUNS);
	sim_machine_start(machine);
}

/* One that is still leaving is closed. */
static void come_back(void *user, uint64_t number)
{
	struct sim_machine *machine = &sim.machines[number];
	if (is_postponed(come_back, user, number))
		return;
	bool is_ending = machine->host && (machine->host->is_leaving || !machine->host->node);
	if (is_ending && machine->power == SIM_RUNS)
		sim_machine_close(machine);
	if (is_ending || machine->power != SIM_RUNS)
		sim_at(sim.now + 100 * SIM_MS, come_back, user, number);
	else
		sim_machine_start(machine);
}

static const enum sim_disk_fault disk_faults[KINDS] = {[FULL_DISK] = SIM_DISK_FULL,
						       [FAILING_DISK] = SIM_DISK_FAILS,
						       [SLOW_DISK] = SIM_DISK_SLOW,
						       [HANGING_DISK] = SIM_DISK_HANGS};

/* Also while a process waits, which may be for them. */
static void continue_guards(void *user, uint64_t number)
{
	sim_guards_continue(&sim.machines[number]);
}

static void continue_shims(void *user, uint64_t number)
{
	sim_shims_continue(&sim.machines[number]);
}

/* Nobody ends a task whose shim is stopped when its guard cannot either: that is no promise. */
static bool is_guard_needed(const struct sim_machine *machine)
{
	return sim_shims_are_stopped(machine);
}

static void happen(void *user, uint64_t number)
{
	struct fault *fault = user;
	struct sim_machine *machine = &sim.machines[fault->machine];
	uint64_t end = sim.now + fault->lasts;
	bool runs = machine->power == SIM_RUNS;
	if (is_postponed(happen, user, number))
		return;
	sim_note("fault: %s, %c %c, %.3f s", names[fault->kind], 'a' + (int)fault->machine,
		 'a' + (int)fault->other, (double)fault->lasts / 1e9);
	switch (fault->kind) {
	case KILL_NODE:
	case KILL_BOTH:
		fault->has_hit = machine->host && runs &&
				 !(fault->kind == KILL_BOTH && is_guard_needed(machine));
		if (fault->has_hit && fault->kind == KILL_BOTH)
			sim_guards_kill(machine);
		if (fault->has_hit)
			sim_machine_kill(machine);
		sim_at(end, restart, NULL, fault->machine);
		break;
	case KILL_GUARD:
		fault->has_hit = runs && sim_guards_alive(machine) && !is_guard_needed(machine);
		if (fault->has_hit)
			sim_guards_kill(machine);
		break;
	case GUARD_THEN_NODE:
		fault->has_hit = runs && sim_guards_alive(machine) && !is_guard_needed(machine);
		if (!fault->has_hit)
			break;
		sim_guards_kill(machine);
		sim_at(sim.now + node_after_guard(fault), kill_after_guard, fault, 0);
		break;
	case KILL_CLIENT:
		fault->has_hit = true;
		sim_client_kill((uint32_t)fault->which % SIM_CLIENTS);
		sim_at(end, restart_client, NULL, fault->which % SIM_CLIENTS);
		break;
	case CUT:
	case CUT_ONE_WAY:
		fault->has_hit = true;
		sim.cuts[fault->machine][fault->other] = true;
		if (fault->kind == CUT)
			sim.cuts[fault->other][fault->machine] = true;
		sim_at(end, heal, fault, 0);
		break;
	case FREEZE:
	case SUSPEND:
		fault->has_hit = runs;
		if (runs)
			sim_machine_set_power(machine,
					      fault->kind == FREEZE ? SIM_FROZEN : SIM_SUSPENDED);
		if (runs)
			sim_at(end, run_again, NULL, fault->machine);
		break;
	case RESET:
		fault->has_hit = sim_net_reset(fault->which);
		break;
	case SLOW_READER:
		sim_net_break(SIM_NET_SLOW, fault->which, end, &fault->has_hit);
		break;
	case STALL:
		sim_net_break(SIM_NET_STALL, fault->which, end, &fault->has_hit);
		break;
	case RESET_INSIDE:
		sim_net_break(SIM_NET_RESET, fault->which, end, &fault->has_hit);
		break;
	case REFUSE:
		sim_net_refuse(machine, end, &fault->has_hit);
		break;
	case LATE:
		sim_net_delay(machine, end, &fault->has_hit);
		break;
	case FULL_DISK:
	case FAILING_DISK:
	case SLOW_DISK:
	case HANGING_DISK:
		sim_store_break(machine->store, disk_faults[fault->kind], end, &fault->has_hit);
		break;
	case KILL_STORE:
		sim_store_kill_helper(machine->store, end, &fault->has_hit);
		break;
	case POWER_LOSS:
		fault->has_hit = runs;
		if (runs)
			sim_machine_set_power(machine, SIM_OFF);
		if (runs)
			sim_at(end, run_again, NULL, fault->machine);
		break;
	case WALL_JUMP:
		fault->has_hit = true;
		machine->wall_ahead += (int64_t)(fault->which % (20 * SIM_SECOND)) -
				       (int64_t)(10 * SIM_SECOND);
		break;
	case LEAVE:
	case CLOSE:
		fault->has_hit = runs && machine->host && machine->host->node &&
				 !machine->host->is_leaving;
		if (fault->has_hit && fault->kind == LEAVE)
			sim_machine_leave(machine);
		else if (fault->has_hit)
			sim_machine_close(machine);
		sim_at(end, come_back, NULL, fault->machine);
		break;
	case STOP_GUARD:
		fault->has_hit = runs && !is_guard_needed(machine) && sim_guards_stop(machine);
		if (fault->has_hit)
			sim_at(end, continue_guards, NULL, fault->machine);
		break;
	case STOP_SHIM:
		fault->has_hit = runs && sim_shim_stop(machine, fault->which);
		if (fault->has_hit)
			sim_at(end, continue_shims, NULL, fault->machine);
		break;
	case KILL_SHIM:
		fault->has_hit = runs && sim_shim_kill_one(machine, fault->which);
		break;
	case FOREIGN:
		foreign_begin(fault);
		sim_at(end, foreign_end, fault, 0);
		break;
	case KINDS:
		break;
	}
}

_Static_assert((int)KINDS == SIM_FAULT_KINDS, "sim.h knows them, too");

const char *sim_fault_name(int kind)
{
	return names[kind];
}

bool sim_faults_leave_out(const char *name)
{
	for (int i = 0; i < KINDS; i++)
		if (strcmp(names[i], name) == 0)
			return is_left_out[i] = true;
	return false;
}

void sim_faults_begin(uint64_t mask)
{
	uint64_t random = sim.seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	draw(&random, 2);
	fault_count = (uint32_t)draw(&random, FAULTS_MAX);
	for (uint32_t i = 0; i < fault_count; i++) {
		struct fault *fault = &faults[i];
		bool is_early = draw(&random, 3) == 0;
		fault->kind = (enum kind)draw(&random, is_early && draw(&random, 2) ? CUT : DRAWN);
		fault->at = BEGIN + draw(&random, is_early ? EARLY : SPAN);
		fault->lasts = draw_length(&random);
		fault->which = draw(&random, UINT64_C(1) << 40);
		fault->machine = (uint32_t)draw(&random, SIM_NODES);
		fault->other = (uint32_t)draw(&random, SIM_MACHINES - 1);
		fault->other += fault->other >= fault->machine;
		if (fault->kind == KILL_GUARD && fault->which % 2) {
			fault->kind = GUARD_THEN_NODE;
			fault->lasts += node_after_guard(fault);
		}
		fault->is_out = !(mask >> i & 1) || is_left_out[fault->kind];
		if (!fault->is_out)
			sim_at(fault->at, happen, fault, 0);
	}
}

void sim_faults_count(uint64_t counts[SIM_FAULT_KINDS])
{
	for (uint32_t i = 0; i < fault_count; i++)
		counts[faults[i].kind] += faults[i].has_hit;
}

uint64_t sim_faults_over(void)
{
	uint64_t over = SIM_SECOND;
	for (uint32_t i = 0; i < fault_count; i++) {
		uint64_t end = faults[i].at + faults[i].lasts;
		if (!faults[i].is_out && end > over)
			over = end;
	}
	return over;
}

static bool is_under_way_since(const struct fault *fault, uint64_t since)
{
	return !fault->is_out && fault->at <= sim.now && fault->at + fault->lasts >= since;
}

bool sim_faults_are_over_since(uint64_t since)
{
	for (uint32_t i = 0; i < fault_count; i++)
		if (is_under_way_since(&faults[i], since))
			return false;
	return true;
}

bool sim_faults_spare(const struct sim_machine *machine, uint64_t since)
{
	for (uint32_t i = 0; i < fault_count; i++)
		if (&sim.machines[faults[i].machine] == machine && faults[i].kind != FOREIGN &&
		    is_under_way_since(&faults[i], since))
			return false;
	return true;
}

/* The story: what is left after shrinking is short. */
void sim_faults_report(void)
{
	for (uint32_t i = 0; i < fault_count; i++)
		if (!faults[i].is_out)
			fprintf(stderr, "  fault %2u at %8.4f: %s, %c %c, %.4f s%s\n", i,
				(double)faults[i].at / 1e9, names[faults[i].kind],
				'a' + (int)faults[i].machine, 'a' + (int)faults[i].other,
				(double)faults[i].lasts / 1e9,
				faults[i].has_hit ? "" : " (hit nothing)");
}
