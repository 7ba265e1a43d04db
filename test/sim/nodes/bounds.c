/*
 * Queues and descriptors are bounded: what a host has open is counted four times a second, and what
 * all of them have allocated. Bounds are a few times what quiet worlds need, and far below what the
 * guide allows a node (doc/guide/keys.md: a descriptor for each connection, two for each log that
 * is read, 64 MiB for all clients): with three jobs and a dozen clients no world comes near.
 */
#include "sim.h"

#include <malloc.h>

#define PAUSE (SIM_SECOND / 4)
#define DESCRIPTORS_MAX 64
#define CONNECTIONS_MAX 64
/* Thirteen, of the context, locks, guard and feeds, and one for each job whose end an agent has not
 * seen. */
#define CALM_DESCRIPTORS_MAX 17
#define CALM_CONNECTIONS_MAX 16             /* listener, two for each node, clients that are left */
#define HEAP_MAX ((size_t)16 * 1024 * 1024) /* of all hosts, and of the simulator */

static void judge(const struct sim_machine *machine, const char *what, uint64_t count,
		  uint64_t most)
{
	if (count > most)
		sim_broken("queues and descriptors are bounded",
			   "%c has %llu %s, expected at most %llu", 'a' + (int)machine->number,
			   (unsigned long long)count, what, (unsigned long long)most);
}

static void check(void *user, uint64_t number)
{
	for (uint32_t i = 0; i < SIM_MACHINES; i++) {
		const struct sim_machine *machine = &sim.machines[i];
		if (!machine->host)
			continue;
		judge(machine, "descriptors", sim_count_fds(machine->host->owner), DESCRIPTORS_MAX);
		judge(machine, "connections", sim_net_count(machine->host), CONNECTIONS_MAX);
	}
	size_t heap = mallinfo2().uordblks; /* 0 under a sanitizer */
	if (heap > HEAP_MAX)
		sim_broken("queues and descriptors are bounded", "%zu bytes are allocated", heap);
	sim_at(sim.now + PAUSE, check, NULL, 0);
}

void sim_bounds_begin(void)
{
	check(NULL, 0);
}

/* All jobs have ended, and nothing was disturbed for a while. */
void sim_bounds_finish(void)
{
	for (uint32_t i = 0; i < SIM_NODES; i++) {
		const struct sim_machine *machine = &sim.machines[i];
		const struct sim_host *host = machine->host;
		if (!host || !host->node)
			continue;
		judge(machine, "descriptors at the end", sim_count_fds(host->owner),
		      CALM_DESCRIPTORS_MAX);
		judge(machine, "connections at the end", sim_net_count(host), CALM_CONNECTIONS_MAX);
	}
}
