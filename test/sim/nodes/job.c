/* The job of a world, and what its programs do. */
#include "sim.h"

#include <stdio.h>
#include <string.h>

static struct {
	uint32_t lines, pace_ms;
	uint32_t save_ms; /* after TERM */
	bool is_stubborn; /* ignores TERM */
} program;

void sim_job_draw(void)
{
	program.lines = 20 + (uint32_t)sim_draw(300);
	program.pace_ms = 20 + (uint32_t)sim_draw(200);
	program.save_ms = (uint32_t)sim_draw(3000);
	program.is_stubborn = sim_draw(4) == 0;
}

uint64_t sim_job_time(void)
{
	return program.lines * program.pace_ms * SIM_MS + SIM_SECOND;
}

tfc_job *sim_job_new(void)
{
	char json[1024];
	tfc_error error = TFC_ERROR_INIT;
	tfc_job *job;
	snprintf(json, sizeof(json),
		 "{\"name\": \"counting\", \"framework\": \"none\", \"success\": \"all_workers\", "
		 "\"argv\": [\"count\", \"lines\", \"%u\", \"pace\", \"%u\", \"save\", \"%u\", "
		 "\"stubborn\", \"%u\"], \"grace_s\": 4, \"restart\": {\"on\": \"failure\", "
		 "\"scope\": \"task\", \"max\": 1000, \"losses\": 100000}, \"isolation\": "
		 "\"plain\", \"roles\": {\"worker\": {\"count\": %d, \"ready\": \"started\"}}}",
		 program.lines, program.pace_ms, program.save_ms, program.is_stubborn, SIM_TASKS);
	if (tfc_job_parse(json, strlen(json), "job.json", &error, &job) < 0)
		sim_broken("the job is one", "%s", error.text);
	return job;
}
