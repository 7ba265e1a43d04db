/* Machines and the hosts on them: starting, killing, freezing. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void log_line(void *user, const tfc_log_entry *entry)
{
	sim_note("log %u %s %s: %s", entry->level, entry->component, entry->subject, entry->text);
}

void sim_enter(struct sim_host *host)
{
	sim.current = host;
	sim.kernel = host->machine;
	sim_set_owner(host->owner);
}

void sim_leave(void)
{
	sim.current = NULL;
	sim.kernel = NULL;
	sim_set_owner(0);
}

struct sim_host *sim_host_new(struct sim_machine *machine)
{
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	struct sim_host *host = calloc(1, sizeof(*host));
	if (!host)
		abort();
	options.log = log_line;
	options.log_level = sim.is_loud ? TFC_LOG_DEBUG : TFC_LOG_INFO;
	options.helper_dir = "/";
	host->machine = machine;
	host->owner = sim_new_owner();
	sim_enter(host);
	tfc_error error = TFC_ERROR_INIT;
	if (tfc_ctx_new(&options, &error, &host->ctx) < 0)
		sim_broken("a context can be made", "%s", error.text);
	sim_leave();
	return host;
}

/* Its memory stays: what is left of it must not be touched, and a sanitizer would tell. */
void sim_host_kill(struct sim_host *host)
{
	host->is_dead = true;
	sim_net_lose_host(host, host->machine->power != SIM_OFF);
	sim_enter(host);
	tfc_ctx_abandon(host->ctx);
	sim_leave();
	sim_close_all(host->owner);
}

void sim_machine_init(struct sim_machine *machine, uint32_t number)
{
	machine->number = number;
	machine->started = (1 + sim_draw(1000)) * SIM_SECOND;
	machine->drift_ppm = (int32_t)sim_draw(401) - 200;
	machine->wall_ahead = (int64_t)(sim_draw(2 * SIM_SECOND)) - (int64_t)SIM_SECOND;
	snprintf(machine->dir, sizeof(machine->dir), "%.100s/%c", sim.dir, 'a' + (int)number);
	snprintf(machine->address, sizeof(machine->address), "tcp://10.0.0.%u:7400", number + 1);
	char temp[SIM_PATH + 8];
	snprintf(temp, sizeof(temp), "%s/tmp", machine->dir);
	if (mkdir(machine->dir, 0700) < 0 || mkdir(temp, 0700) < 0)
		abort();
	machine->store = sim_store_new(machine);
}

static void on_member(void *user, uint32_t change, const tfc_member_info *member)
{
	sim_note("member %s: %u, state %u", member->name, change, member->state);
	if (strlen(member->name) != 1 || !strchr("abc", *member->name))
		sim_broken("members are those of the file", "%s", member->name);
}

/* What a program does with the node that it has opened. */
static void use_node(struct sim_host *host)
{
	const char *address = tfc_node_address(host->node, 0);
	if (!address || strcmp(address, host->machine->address) != 0)
		sim_broken("a node listens where it was told to", "%s",
			   address ? address : "nowhere");
	if (tfc_member_list(host->node, on_member, host) < 0 ||
	    tfc_member_watch_open(host->node, on_member, host, &host->watch) < 0)
		sim_broken("members can be watched", "%s", tfc_ctx_error(host->ctx)->text);
}

/* Its program ends in order. */
static void free_host(struct sim_host *host)
{
	sim_enter(host);
	tfc_ctx_free(host->ctx);
	sim_note("the program ends");
	sim_leave();
	host->is_dead = true;
	host->machine->host = NULL;
	if (sim_count_fds(host->owner))
		sim_broken("what is closed leaves nothing open", "%u descriptors of %c",
			   sim_count_fds(host->owner), 'a' + (int)host->machine->number);
}

#define START_AGAIN SIM_SECOND /* what starts a node starts one that could not, again */

static void start_again(void *user, uint64_t number)
{
	if (sim.is_waiting)
		sim_at(sim.now + SIM_MS, start_again, user, number);
	else
		sim_machine_start(&sim.machines[number]);
}

/* A node may be refused by its disk alone. */
static void fail_start(struct sim_machine *machine)
{
	const tfc_error *why = tfc_ctx_error(machine->host->ctx);
	if (!sim_store_may_refuse(machine->store))
		sim_broken("a node can be started again", "%s", why->text);
	sim_note("node does not start: %s", why->text);
	sim_leave();
	free_host(machine->host);
	sim_at(sim.now + START_AGAIN, start_again, NULL, machine->number);
}

void sim_machine_start(struct sim_machine *machine)
{
	static const char *const env[] = {"PATH=/bin", NULL};
	tfc_node_options options;
	char name[2] = {(char)('a' + (char)machine->number), 0};
	char temp[SIM_PATH + 8], state[SIM_PATH + 8], members[SIM_PATH + 16];
	char upstreams[SIM_PATH + 16];
	const char *const listen[] = {machine->address, NULL};
	uint64_t opens_at = sim_store_opens_at(machine->store);
	if (machine->host || machine->power != SIM_RUNS)
		return;
	if (opens_at > sim.now) { /* it would wait until then, and all others with it */
		sim_at(opens_at + 1, start_again, NULL, machine->number);
		return;
	}
	snprintf(temp, sizeof(temp), "%s/tmp", machine->dir);
	snprintf(state, sizeof(state), "%s/state", machine->dir);
	snprintf(members, sizeof(members), "%.100s/members.json", sim.dir);
	snprintf(upstreams, sizeof(upstreams), "%.100s/upstreams.json", sim.dir);
	tfc_node_options_init(&options, sizeof(options));
	options.name = name;
	options.upstream_map = upstreams;
	options.env = env;
	options.temp_dir = temp;
	options.state_dir = state;
	options.listen = listen;
	options.key_file = sim.key_file;
	options.members_file = members;
	options.gpus = "none";
	struct sim_host *host = sim_host_new(machine);
	machine->host = host;
	machine->incarnations++;
	sim_enter(host);
	sim_note("node starts, incarnation %u", machine->incarnations);
	if (tfc_node_open(host->ctx, &options, &host->node) < 0) {
		fail_start(machine);
		return;
	}
	use_node(host);
	sim_leave();
}

void sim_machine_kill(struct sim_machine *machine)
{
	struct sim_host *host = machine->host;
	if (!host)
		return;
	machine->host = NULL;
	sim_store_lose_host(machine->store);
	sim_host_kill(host);
}

/* ---- in order */

static void end_program(void *user, uint64_t number)
{
	struct sim_host *host = user;
	struct sim_machine *machine = host->machine;
	if (host->is_dead)
		return;
	if (sim.is_waiting || machine->power != SIM_RUNS) {
		sim_at(sim.now + SIM_MS, end_program, host, number);
		return;
	}
	sim_enter(host);
	sim_requests_close(host);
	tfc_member_watch_close(host->watch);
	while (tfc_ctx_dispatch(host->ctx, 0) > 0)
		continue;
	sim_requests_closed(host);
	sim_leave();
	free_host(host);
}

void sim_machine_close(struct sim_machine *machine)
{
	struct sim_host *host = machine->host;
	if (!host || !host->node)
		return;
	sim_enter(host);
	sim_note("node is closed");
	tfc_node_close(host->node);
	sim_leave();
	host->node = NULL;
	sim_at(sim.now + 50 * SIM_MS, end_program, host, 0);
}

static void close_left(void *user, uint64_t number)
{
	struct sim_host *host = user;
	if (host->is_dead)
		return;
	if (sim.is_waiting || host->machine->power != SIM_RUNS)
		sim_at(sim.now + SIM_MS, close_left, host, number);
	else
		sim_machine_close(host->machine);
}

static void on_left(void *user)
{
	sim_note("node has left");
	sim_at(sim.now + 1, close_left, user, 0);
}

void sim_machine_leave(struct sim_machine *machine)
{
	struct sim_host *host = machine->host;
	sim_enter(host);
	host->is_leaving = true;
	if (tfc_node_leave(host->node, on_left, host) < 0)
		sim_broken("a node can leave", "%s", tfc_ctx_error(host->ctx)->text);
	sim_leave();
}

/* ---- power */

static void judge_thaw(void *user, uint64_t number)
{
	sim_referee_thawed(&sim.machines[number]);
}

void sim_machine_set_power(struct sim_machine *machine, enum sim_power power)
{
	if (machine->power == SIM_SUSPENDED && power != SIM_SUSPENDED)
		machine->suspended += sim.now - machine->asleep_since;
	if (power == SIM_SUSPENDED)
		machine->asleep_since = sim.now;
	bool is_waking = power == SIM_RUNS && machine->power != SIM_RUNS;
	machine->power = power;
	if (power == SIM_OFF) {
		sim_machine_kill(machine);
		sim_store_lose_power(machine->store);
		sim_guards_lose_power(machine);
		sim_ports_lose_power(machine);
	}
	if (is_waking) {
		machine->thawed = sim.now;
		sim_at(sim.now + 101 * SIM_MS, judge_thaw, NULL, machine->number);
		sim_guards_wake(machine);
		sim_store_wake(machine->store);
	}
}
