/*
 * What is promised of ports: a port is its task's alone from the first hold on, the hold outlives
 * the attempt, the next attempt has the same port, a foreign listener is found and named, and in
 * the end no port is held.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TENANTS 16
#define NAME 128                       /* of a task and its job: several jobs have a worker/0 */
#define CONSEQUENCES (30 * SIM_SECOND) /* of a fault: by then a lost task runs elsewhere */
#define AVOIDED_AFTER 3                /* attempts that ended early, */
#define EARLY (600 * SIM_SECOND)       /* before they had run so long */
#define FOUND_AFTER SIM_SECOND         /* a foreign listener; it is looked for every 50 ms */

struct tenant {
	struct sim_process process; /* pid 0: this entry is free */
	char name[NAME];
	uint32_t attempt;
	uint16_t port;
	uint32_t hold;               /* inode */
	const struct sim_host *host; /* that started it */
	int32_t guard;
	bool is_awaited;
	uint64_t started;
	uint64_t stolen_at; /* a foreign program listens on its port since; 0: none does */
};

/* An attempt that found another program on its port. */
struct refused {
	char name[NAME];
	uint32_t attempt;
};

/* The last attempt of a task that had a port. */
struct last {
	struct tenant tenant;
	bool is_by_itself; /* its program has ended so */
	bool was_stolen;
};

static struct tenant tenants[TENANTS];
static struct last lasts[TENANTS];
/* Attempts that ended early and by themselves, one after the other. After the third the node is
 * avoided: the task is placed anew, and may come back with another port (cluster/cooldown.h). */
static uint32_t failed_in_a_row[SIM_NODES];
static struct refused refused[64];
static uint32_t refused_count;

static char letter(const struct sim_machine *machine)
{
	return (char)('a' + (char)machine->number);
}

static struct last *last_of(const char *name)
{
	struct last *free_one = NULL;
	for (int i = 0; i < TENANTS; i++) {
		if (strcmp(lasts[i].tenant.name, name) == 0)
			return &lasts[i];
		if (!*lasts[i].tenant.name)
			free_one = &lasts[i];
	}
	if (!free_one)
		abort();
	return free_one;
}

/* ---- the next attempt has the same port */

/* Whether nothing has happened that could take the port away from its task. */
static bool is_undisturbed(const struct last *last, const struct tenant *next)
{
	const struct tenant *before = &last->tenant;
	return last->is_by_itself && !last->was_stolen && before->attempt + 1 == next->attempt &&
	       before->process.machine == next->process.machine && before->host == next->host &&
	       before->guard == next->guard &&
	       failed_in_a_row[next->process.machine->number] < AVOIDED_AFTER &&
	       before->started > CONSEQUENCES &&
	       sim_faults_are_over_since(before->started - CONSEQUENCES);
}

void sim_referee_port_given(const struct sim_tenant *given)
{
	struct tenant *tenant = NULL;
	for (int i = 0; i < TENANTS && !tenant; i++)
		if (!tenants[i].process.pid)
			tenant = &tenants[i];
	if (!tenant)
		abort();
	*tenant = (struct tenant){
		.process = *given->process,
		.attempt = given->task.attempt,
		.port = given->port,
		.hold = given->hold,
		.host = given->host,
		.guard = given->guard,
		.is_awaited = given->is_awaited,
		.started = sim.now,
	};
	snprintf(tenant->name, sizeof(tenant->name), "%s of %s", given->task.name, given->task.job);
	struct last *last = last_of(tenant->name);
	if (is_undisturbed(last, tenant) && last->tenant.port != tenant->port)
		sim_broken("a restart gets the same port",
			   "%s: attempt %u has port %u on %c, attempt %u had %u", tenant->name,
			   tenant->attempt, tenant->port, letter(tenant->process.machine),
			   last->tenant.attempt, last->tenant.port);
	*last = (struct last){.tenant = *tenant};
}

/* ---- one holder per port */

struct view {
	const struct sim_machine *machine;
	uint16_t port;
	uint32_t holds, hold; /* how many, and one of them */
	struct sim_process listener, stranger;
};

static struct tenant *tenant_of(const struct sim_process *process)
{
	for (int i = 0; i < TENANTS; i++)
		if (process->pid && tenants[i].process.pid == process->pid)
			return &tenants[i];
	return NULL;
}

static void add_to_view(void *user, const struct sim_port *port)
{
	struct view *view = user;
	if (port->port != view->port)
		return;
	if (!port->process) {
		view->holds++;
		view->hold = port->inode;
	} else if (tenant_of(port->process)) {
		view->listener = *port->process;
	} else {
		view->stranger = *port->process;
	}
}

static struct view look_at(const struct sim_machine *machine, uint16_t port)
{
	struct view view = {.machine = machine, .port = port};
	sim_ports_each(machine, add_to_view, &view);
	return view;
}

/*
 * The agent of a machine that runs undisturbed has had the time to end it: the one that started the
 * attempt. Nobody looks at the port of an attempt whose node was killed, nor does the node that is
 * started again, which knows of it no more than its locks: the guard that is left ends it with its
 * grace, and no other attempt starts before, whoever listens.
 */
static void judge_stolen(void *user, uint64_t pid)
{
	const struct tenant *tenant = user;
	const struct sim_machine *machine = tenant->process.machine;
	if (tenant->process.pid != (int32_t)pid || !tenant->stolen_at || !tenant->is_awaited)
		return;
	if (machine->host != tenant->host || !sim_faults_spare(machine, tenant->stolen_at) ||
	    !look_at(machine, tenant->port).stranger.pid)
		return;
	sim_broken("a foreign listener is found", "%s: attempt %u is alive on %c with port %u",
		   tenant->name, tenant->attempt, letter(machine), tenant->port);
}

static void note_stolen(const struct view *view)
{
	for (int i = 0; i < TENANTS; i++) {
		struct tenant *tenant = &tenants[i];
		if (!tenant->process.pid || tenant->process.machine != view->machine ||
		    tenant->port != view->port || tenant->stolen_at)
			continue;
		tenant->stolen_at = sim.now;
		last_of(tenant->name)->was_stolen = true;
		sim_note("port %u of %s is taken", tenant->port, tenant->name);
		sim_at(sim.now + FOUND_AFTER, judge_stolen, tenant, (uint64_t)tenant->process.pid);
	}
}

void sim_referee_bound(const struct sim_machine *machine, uint16_t port)
{
	struct view view = look_at(machine, port);
	const struct tenant *tenant = tenant_of(&view.listener);
	if (view.holds > 1)
		sim_broken("one holder per port", "port %u of %c has %u holds", port,
			   letter(machine), view.holds);
	if (tenant && tenant->port != port)
		sim_broken("one holder per port", "%s listens on port %u of %c, its port is %u",
			   tenant->name, port, letter(machine), tenant->port);
	if (tenant && view.holds && view.hold != tenant->hold)
		sim_broken("one holder per port",
			   "%s, attempt %u, listens on port %u of %c, which is held for another",
			   tenant->name, tenant->attempt, port, letter(machine));
	if (view.stranger.pid)
		note_stolen(&view);
}

/* ---- and is named */

void sim_referee_port_refused(const struct sim_process *process)
{
	const struct tenant *tenant = tenant_of(process);
	if (!tenant || refused_count == 64)
		abort();
	struct refused *one = &refused[refused_count++];
	*one = (struct refused){.attempt = tenant->attempt};
	snprintf(one->name, sizeof(one->name), "%s", tenant->name);
}

static bool was_refused(const tfc_event *event)
{
	char name[NAME];
	snprintf(name, sizeof(name), "%s-%u of %s", event->task_type, event->task_index,
		 event->job);
	for (uint32_t i = 0; i < refused_count; i++)
		if (refused[i].attempt == event->attempt && strcmp(refused[i].name, name) == 0)
			return true;
	return false;
}

static bool is_foreign_there(void)
{
	for (int i = 0; i < SIM_NODES; i++)
		if (sim_faults_have_foreign(&sim.machines[i]))
			return true;
	return false;
}

void sim_referee_port_event(const tfc_event *event)
{
	bool is_blamed = event->kind == TFC_EVENT_TASK && event->task_state == TFC_TASK_FAILED &&
			 event->reason == TFC_END_EXIT;
	if (is_blamed && was_refused(event) && !strstr(event->text, "could not bind"))
		sim_broken("a foreign listener is named", "worker/%u, attempt %u: %s",
			   event->task_index, event->attempt, event->text);
	if (event->kind == TFC_EVENT_JOB && strstr(event->text, "cannot acquire a port") &&
	    !is_foreign_there())
		sim_broken("a released port can be had again", "%s", event->text);
}

/* ---- the hold outlives the attempt */

void sim_referee_port_left(const struct sim_process *process, bool is_by_itself, bool is_held)
{
	struct tenant *tenant = tenant_of(process);
	if (!tenant)
		return;
	struct view view = look_at(process->machine, tenant->port);
	if (is_held && (!view.holds || view.hold != tenant->hold))
		sim_broken("a port is held for as long as its task lives",
			   "%s, attempt %u: port %u of %c is not", tenant->name, tenant->attempt,
			   tenant->port, letter(process->machine));
	uint32_t *failed = &failed_in_a_row[process->machine->number];
	if (is_by_itself)
		*failed = sim.now - tenant->started < EARLY ? *failed + 1 : 0;
	struct last *last = last_of(tenant->name);
	if (last->tenant.process.pid == process->pid)
		last->is_by_itself = is_by_itself;
	tenant->process.pid = 0;
}

/* ---- nothing is held in the end */

static void find_held(void *user, const struct sim_port *port)
{
	const struct sim_port **held = user;
	static struct sim_port found;
	if (port->process && port->process->uid != SIM_UID)
		return;
	found = *port;
	*held = &found;
}

static const struct sim_port *held_port(const struct sim_machine *machine)
{
	const struct sim_port *held = NULL;
	sim_ports_each(machine, find_held, &held);
	return held;
}

bool sim_referee_ports_are_free(void)
{
	for (int i = 0; i < SIM_NODES; i++)
		if (held_port(&sim.machines[i]))
			return false;
	return true;
}

void sim_referee_ports_finish(void)
{
	for (int i = 0; i < SIM_NODES; i++) {
		const struct sim_port *held = held_port(&sim.machines[i]);
		if (held)
			sim_broken("no port is held in the end", "%s has port %u of %c",
				   held->process ? held->process->name : "a hold", held->port,
				   letter(&sim.machines[i]));
	}
}
