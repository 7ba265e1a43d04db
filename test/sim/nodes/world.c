/* One world: three nodes, two clients, and the loop that lets one of them after the other run. */
#include "sim.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define LEASE (10 * SIM_SECOND)
#define RELEASE SIM_SECOND
#define STEPS_MAX 2000000

int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);

static void write_members(void)
{
	char path[SIM_PATH + 16];
	snprintf(path, sizeof(path), "%.100s/members.json", sim.dir);
	FILE *file = fopen(path, "we");
	if (!file)
		abort();
	fprintf(file, "{\"members\": [");
	for (uint32_t i = 0; i < SIM_NODES; i++)
		fprintf(file, "%s{\"name\": \"%c\", \"address\": \"%s\", \"slots\": %u}",
			i ? ", " : "", 'a' + (int)i, sim.machines[i].address,
			SIM_TASKS + (uint32_t)sim_draw(3));
	fprintf(file, "]}");
	fclose(file);
}

void sim_write_upstreams(uint64_t which)
{
	char path[SIM_PATH + 16], temp[SIM_PATH + 16];
	snprintf(path, sizeof(path), "%.100s/upstreams.json", sim.dir);
	snprintf(temp, sizeof(temp), "%.100s/upstreams.new", sim.dir);
	FILE *file = fopen(temp, "we");
	if (!file)
		abort();
	fprintf(file, "{\"grid\": {\"partitions\": {\"0\": \"%c\", \"1\": \"%c\", \"2\": null}, ",
		'a' + (int)(which % SIM_NODES), 'a' + (int)(which / 8 % SIM_NODES));
	fprintf(file, "\"env\": {\"PORT\": \"1\"}, \"nodes\": {\"a\": {\"HOST\": \"h\"}}}}");
	fclose(file);
	if (rename(temp, path) < 0)
		abort();
	sim_note("partitions are on %c and %c", 'a' + (int)(which % SIM_NODES),
		 'a' + (int)(which / 8 % SIM_NODES));
}

void sim_key_file(const char *role, char ret_path[SIM_PATH + 8])
{
	snprintf(ret_path, SIM_PATH + 8, "%.100s/%s.key", sim.dir, role);
}

static void copy_key(const char *role, FILE *to)
{
	char path[SIM_PATH + 8], line[256];
	tfc_error error = TFC_ERROR_INIT;
	sim_key_file(role, path);
	if (tfc_key_generate(path, role, &error) < 0)
		abort();
	FILE *from = fopen(path, "re");
	while (from && fgets(line, sizeof(line), from))
		fputs(line, to);
	fclose(from);
}

/* Each role's own, and all of them for the nodes. */
static void write_keys(void)
{
	FILE *all = fopen(sim.key_file, "we");
	if (!all || chmod(sim.key_file, 0600) < 0)
		abort();
	copy_key("node", all);
	copy_key("submit", all);
	copy_key("read", all);
	fclose(all);
}

void sim_world_begin(const char *dir, uint64_t mask)
{
	sim.random = sim.seed * UINT64_C(0xbf58476d1ce4e5b9) + 0x94d049bb133111eb;
	sim.hash = UINT64_C(0xcbf29ce484222325);
	sim.now = SIM_SECOND / 2;
	snprintf(sim.dir, sizeof(sim.dir), "%.100s/%llu", dir, (unsigned long long)sim.seed);
	snprintf(sim.key_file, sizeof(sim.key_file), "%.100s/key", sim.dir);
	if (mkdir(sim.dir, 0700) < 0)
		abort();
	write_keys();
	for (uint32_t i = 0; i < SIM_MACHINES; i++)
		sim_machine_init(&sim.machines[i], i);
	write_members();
	sim_write_upstreams(sim.seed);
	sim_job_draw();
	sim_faults_begin(mask);
	sim_requests_begin(mask);
	sim.calm_at = sim_faults_over();
	if (sim_requests_over() > sim.calm_at)
		sim.calm_at = sim_requests_over();
	sim_requests_calm();
	sim_bounds_begin();
	for (uint32_t i = 0; i < SIM_NODES; i++)
		sim_machine_start(&sim.machines[i]);
	for (uint32_t i = 0; i < SIM_CLIENTS; i++)
		sim_client_start(i);
}

static bool is_ready(const struct sim_machine *machine)
{
	const struct sim_host *host = machine->host;
	if (!host || machine->power != SIM_RUNS)
		return false;
	if (host->wake && host->wake <= sim_clock(machine, CLOCK_MONOTONIC))
		return true;
	struct pollfd fd = {.fd = tfc_ctx_fd(host->ctx), .events = POLLIN};
	return __real_poll(&fd, 1, 0) > 0;
}

/* One host that has something to do, drawn among all that have. */
static bool step_host(void)
{
	uint32_t ready[SIM_MACHINES], count = 0;
	for (uint32_t i = 0; i < SIM_MACHINES; i++)
		if (is_ready(&sim.machines[i]))
			ready[count++] = i;
	if (!count)
		return false;
	struct sim_machine *machine = &sim.machines[ready[sim_draw(count)]];
	sim_enter(machine->host);
	if (tfc_ctx_dispatch(machine->host->ctx, 0) < 0)
		sim_broken("dispatch works", "%s", tfc_ctx_error(machine->host->ctx)->text);
	sim_leave();
	return true;
}

/* Time goes on to whatever is next. */
static void advance(void)
{
	uint64_t next = sim_next_event();
	for (uint32_t i = 0; i < SIM_MACHINES; i++) {
		const struct sim_machine *machine = &sim.machines[i];
		if (!machine->host || machine->power != SIM_RUNS || !machine->host->wake)
			continue;
		uint64_t at = sim_true_time(machine, CLOCK_MONOTONIC, machine->host->wake);
		next = at < next ? at : next;
	}
	if (next == UINT64_MAX)
		sim_broken("something happens until the job has ended", "nothing is due");
	sim.now = next > sim.now ? next : sim.now + 1000;
}

static void check_calm(void)
{
	uint64_t bound = LEASE * 5 / 4 + sim_job_grace() + sim_job_time() + 60 * SIM_SECOND;
	if (sim.now > sim.calm_at + bound)
		sim_broken("a job ends in calm times", "%.0f s after the last fault it has not",
			   (double)(sim.now - sim.calm_at) / 1e9);
}

/* A machine that stood still when the job ended has time to end what it runs, and each agent to
 * release its ports. */
static bool is_over(void)
{
	static uint64_t ended_at;
	if (!ended_at && sim_clients_are_done())
		ended_at = sim.now;
	if (ended_at && sim.now < ended_at + RELEASE && !sim_referee_ports_are_free())
		return false;
	return sim_clients_are_done() && sim_requests_are_done() &&
	       sim.now > sim.calm_at + LEASE * 5 / 4 + sim_job_grace();
}

void sim_world_run(void)
{
	while (!is_over()) {
		if (++sim.steps > STEPS_MAX)
			sim_broken("nobody is busy for ever", "%d steps", STEPS_MAX);
		sim.now += 1000 + sim_draw(20000); /* what is done takes time */
		bool did = sim_run_event();
		if (sim_guards_are_ready()) {
			sim_guards_step();
			did = true;
		}
		did = step_host() || did;
		if (!did)
			advance();
		if (!sim_clients_are_done() || !sim_requests_are_done())
			check_calm();
	}
	sim_referee_finish();
}
