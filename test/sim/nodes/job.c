/* The job of a world, and what its programs do. */
#include "sim.h"

#include <stdio.h>
#include <string.h>

#define BACKOFF_S 5 /* at most, before a restart */

/* How a task gets its port, and when it is ready. */
enum ports {
	PORTS_NONE,   /* it has none */
	PORTS_LISTEN, /* of the pool; it is ready when it listens */
	PORTS_FIXED,  /* the same, of its role */
	PORTS_IDLE,   /* of its role; it is ready when it is started, and may listen */
	PORTS_KINDS,
};

static struct {
	uint32_t lines, pace_ms;
	uint32_t save_ms; /* after TERM */
	bool is_stubborn; /* ignores TERM */
	enum ports ports;
	bool is_listening;
	uint32_t listen_ms; /* at most, before it listens */
	uint32_t fails;     /* how many attempts of each task fail */
	uint32_t fail_code;
	uint32_t grace_s, abort_grace_s;
	const char *scope, *placement;
} job;

void sim_job_draw(void)
{
	static const uint32_t codes[] = {1, 3, 137, 143};
	job.lines = 20 + (uint32_t)sim_draw(300);
	job.pace_ms = 20 + (uint32_t)sim_draw(200);
	job.save_ms = (uint32_t)sim_draw(3000);
	job.is_stubborn = sim_draw(4) == 0;
	job.ports = (enum ports)sim_draw(PORTS_KINDS);
	job.is_listening = job.ports != PORTS_NONE && (job.ports != PORTS_IDLE || sim_draw(2));
	job.listen_ms = sim_draw(2) ? 3000 : 50;
	job.fails = sim_draw(2) ? (uint32_t)sim_draw(4) : 0;
	job.fail_code = codes[sim_draw(4)];
	job.grace_s = 1 + (uint32_t)sim_draw(6);
	job.abort_grace_s = 1 + job.grace_s % 6;
	job.scope = sim_draw(3) ? "task" : "group";
	job.placement = sim_draw(3) ? "spread" : "pack";
}

bool sim_job_is_ready_on_listen(void)
{
	return job.ports == PORTS_LISTEN || job.ports == PORTS_FIXED;
}

uint64_t sim_job_grace(void)
{
	return job.grace_s * SIM_SECOND;
}

/* An attempt that fails may do so at its last line. */
uint64_t sim_job_time(void)
{
	uint64_t attempt = job.lines * job.pace_ms * SIM_MS + SIM_SECOND;
	return (job.fails + 1) * attempt + job.fails * BACKOFF_S * SIM_SECOND;
}

static void add_role(FILE *file)
{
	fprintf(file, "{\"count\": %d, \"ready\": \"%s\"", SIM_TASKS,
		sim_job_is_ready_on_listen() ? "listen" : "started");
	if (job.ports == PORTS_FIXED || job.ports == PORTS_IDLE)
		fprintf(file, ", \"port\": 2222");
	fprintf(file, "}");
}

static void add_argv(FILE *file)
{
	fprintf(file, "[\"count\", \"lines\", \"%u\", \"pace\", \"%u\"", job.lines, job.pace_ms);
	fprintf(file, ", \"save\", \"%u\", \"stubborn\", \"%u\"", job.save_ms, job.is_stubborn);
	fprintf(file, ", \"fails\", \"%u\", \"with\", \"%u\"", job.fails, job.fail_code);
	if (job.is_listening)
		fprintf(file, ", \"port\", \"{port}\", \"listen\", \"%u\"", job.listen_ms);
	fprintf(file, "]");
}

tfc_job *sim_job_new(void)
{
	char json[1024];
	tfc_error error = TFC_ERROR_INIT;
	tfc_job *parsed;
	FILE *file = fmemopen(json, sizeof(json), "w");
	fprintf(file, "{\"name\": \"counting\", \"framework\": \"none\", ");
	fprintf(file, "\"success\": \"all_workers\", \"isolation\": \"plain\", \"argv\": ");
	add_argv(file);
	fprintf(file, ", \"grace_s\": %u, \"abort_grace_s\": %u", job.grace_s, job.abort_grace_s);
	fprintf(file, ", \"placement\": {\"policy\": \"%s\"}", job.placement);
	fprintf(file, ", \"restart\": {\"on\": \"failure\", \"scope\": \"%s\", ", job.scope);
	fprintf(file, "\"max\": 1000, \"losses\": 100000, \"backoff_s\": [0, %d]}", BACKOFF_S);
	fprintf(file, ", \"roles\": {\"worker\": ");
	add_role(file);
	fprintf(file, "}}");
	fclose(file);
	if (tfc_job_parse(json, strlen(json), "job.json", &error, &parsed) < 0)
		sim_broken("the job is one", "%s", error.text);
	return parsed;
}
