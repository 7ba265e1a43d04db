/*
 * The jobs that requests submit: what they are, how each ends, and that each is there once. They
 * are judged in calm times, once all have ended.
 */
#include "requests.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#define JOBS_MAX 3
#define LAST_WRITES (6 * SIM_SECOND) /* of a slow disk, for requests that nobody waits for */
#define SECRET "open sesame"

/* Parts of job files. */
#define STARTED "\"ready\": \"started\""
#define CHIEF \
	"\"framework\": \"none\", \"success\": \"chief\", \"roles\": {\"chief\": {" STARTED "}}"
#define SILENT                                                                              \
	"\"framework\": \"none\", \"success\": \"chief\", \"roles\": {\"chief\": {" STARTED \
	", \"argv\": [\"count\", \"lines\", \"3\", \"pace\", \"3000\"]"
#define RANKS "\"framework\": \"pytorch\", \"roles\": {\"worker\": {\"count\": 2}}"

/* A job that one of the requests submits. */
struct extra {
	const struct sim_request *submit;
	char name[16];
	const char *end; /* its state then */
	bool is_made;    /* the submit said so */
	bool is_refused; /* the submit said that there is no job */
	bool may_be_stopped, may_be_forgotten;
};

static struct extra extras[JOBS_MAX];
static uint32_t extra_count;
static uint32_t listed; /* extra jobs that there are at the end */
static bool is_closing; /* no more are made: the jobs are counted */
static bool is_done;

/* ---- what they are */

static struct extra *find_extra(const char *name)
{
	for (uint32_t i = 0; i < extra_count; i++)
		if (strcmp(extras[i].name, name) == 0)
			return &extras[i];
	return NULL;
}

static struct extra *any_extra(const struct sim_request *request)
{
	return extra_count ? &extras[request->which % extra_count] : NULL;
}

/* Workers that go where the partitions are. */
#define UPSTREAM                                                                     \
	RANKS ", \"placement\": {\"policy\": \"upstream\", \"upstream\": \"grid\", " \
	      "\"on_upstream_change\": \""

/* What the extra jobs are, each with the end that it has unless it is stopped. %s: the program. */
static const struct {
	const char *keys;
	const char *end;
	uint32_t lines; /* 0: drawn, up to 100 */
	uint32_t code;
	/* It ends so because it stalls, which no stopped shim notices, nor a node that is frozen or
	 * cut off. */
	bool is_by_stall;
} shapes[] = {
	{CHIEF, "succeeded", 0, 0},
	{CHIEF, "failed", 0, 3},
	{CHIEF ", \"deadline_s\": 2", "failed", 1000, 0},
	{CHIEF ", \"placement\": {\"labels\": {\"zone\": \"1\"}}, \"pending_deadline_s\": 3",
	 "failed", 0, 0},
	{CHIEF ", \"secret_env\": {\"TOKEN\": \"" SECRET
	       "\"}, \"placement\": {\"policy\": \"pack\"}",
	 "succeeded", 0, 0},
	{SILENT "}}, \"stall_s\": 1, \"on_stall\": \"report\"", "succeeded", 0, 0},
	{SILENT ", \"restart\": {\"max\": 1}}}, \"stall_s\": 1, \"on_stall\": \"restart\"",
	 "failed", 0, 0, true},
	{"\"start_deadline_s\": 2, \"roles\": {\"chief\": {}, \"worker\": {}}", "failed", 1000, 0},
	{RANKS, "succeeded", 0, 0},
	{UPSTREAM "ignore\"}", "succeeded", 0, 0},
	{UPSTREAM "restart\"}", "succeeded", 0, 0},
	{RANKS, "failed", 0, 3},
	{"\"framework\": \"pytorch\", \"pending_deadline_s\": 3, \"roles\": {\"worker\": "
	 "{\"count\": "
	 "20}}",
	 "failed", 0, 0},
	{"\"framework\": \"none\", \"pending_deadline_s\": 3, \"success\": \"chief\", \"roles\": "
	 "{\"chief\": {\"gpus\": 1, \"memory\": 1000000, \"ready\": \"started\"}}",
	 "failed", 0, 0},
	{"\"roles\": {\"chief\": {" STARTED "}, \"worker\": {" STARTED "}, \"ps\": {" STARTED
	 ", \"argv\": [\"count\", \"lines\", \"100000\"]}}",
	 "succeeded", 0, 0},
	{"\"roles\": {\"chief\": {" STARTED "}, \"worker\": {" STARTED "}, \"evaluator\": {"
	 "\"finish_s\": 1, \"argv\": [\"count\", \"lines\", \"100000\"]}}",
	 "succeeded", 0, 0},
	{"\"framework\": \"none\", \"success\": \"chief\", \"roles\": {\"chief\": {" STARTED
	 "}, \"helper\": {\"on_failure\": \"ignore\", \"restart\": {\"on\": \"never\"}, "
	 "\"argv\": [\"count\", \"lines\", \"1\", \"exit\", \"4\"]}}",
	 "succeeded", 0, 0},
};

#define SHAPES (sizeof(shapes) / sizeof(*shapes))

static uint64_t shape_of(const struct sim_request *request)
{
	return request->which / 1024 % SHAPES;
}

tfc_job *sim_extra_job_new(const char *name, const struct sim_request *request)
{
	char json[1024];
	tfc_error error = TFC_ERROR_INIT;
	tfc_job *job;
	uint64_t shape = shape_of(request);
	uint32_t lines = shapes[shape].lines;
	snprintf(json, sizeof(json),
		 "{\"name\": \"%s\", \"grace_s\": 2, \"restart\": {\"max\": 1000, \"losses\": "
		 "100000}, \"isolation\": \"plain\", \"argv\": [\"count\", \"lines\", \"%u\", "
		 "\"pace\", \"50\", \"save\", \"100\", \"exit\", \"%u\"], %s}",
		 name, lines ? lines : 1 + (uint32_t)(request->which % 100), shapes[shape].code,
		 shapes[shape].keys);
	if (tfc_job_parse(json, strlen(json), "job.json", &error, &job) < 0)
		sim_broken("the job is one", "%s", error.text);
	return job;
}

/* The name of a job, or the beginning of its id. */
void sim_name_job(const struct sim_request *request, bool is_extra, char text[20])
{
	const struct extra *extra = any_extra(request);
	uint64_t how = request->which / 64 % 8;
	if (how == 0)
		strcpy(text, "nothing");
	else if (extra && (is_extra || how < 4))
		strcpy(text, extra->name);
	else if (is_extra)
		strcpy(text, "extra-");
	else if (how < 6 && *sim_client_job())
		snprintf(text, 20, "%.*s", how == 5 ? 16 : 6, sim_client_job());
	else
		strcpy(text, "counting");
}

/* ---- what may become of them */

bool sim_extra_is_room(void)
{
	return extra_count < JOBS_MAX;
}

const char *sim_extra_submit(const struct sim_request *request)
{
	struct extra *extra = &extras[extra_count++];
	*extra = (struct extra){.submit = request, .end = shapes[shape_of(request)].end};
	snprintf(extra->name, sizeof(extra->name), "extra-%d", (int)request->number);
	return extra->name;
}

void sim_extra_may_be_stopped(const char *name)
{
	struct extra *extra = find_extra(name);
	if (extra)
		extra->may_be_stopped = true;
}

void sim_extra_may_be_forgotten(const char *name)
{
	struct extra *extra = find_extra(name);
	if (extra)
		extra->may_be_forgotten = true;
}

void sim_extra_judge_submit(const struct sim_request *request, const tfc_reply *reply)
{
	for (uint32_t i = 0; i < extra_count; i++) {
		struct extra *extra = &extras[i];
		bool is_open = reply->code == TFC_ELOST || reply->code == TFC_ETIMEDOUT ||
			       reply->code == TFC_ECANCELED;
		if (extra->submit != request)
			continue;
		extra->is_made = reply->code == TFC_OK;
		extra->is_refused = !extra->is_made && (!is_open || !*reply->home);
	}
}

/* The value of a secret variable is in no answer and no event. */
void sim_check_secret(const void *text, size_t len)
{
	if (len && memmem(text, len, SECRET, strlen(SECRET)))
		sim_broken("a secret is shown nowhere", "%.*s", (int)len, (const char *)text);
}

/* ---- how they end */

static void list_jobs(void *user, uint64_t number);

static void judge_extra(struct extra *extra, const char *state)
{
	bool is_stopped = extra->may_be_stopped && strcmp(state, "stopped") == 0;
	bool is_unnoticed = shapes[shape_of(extra->submit)].is_by_stall &&
			    !sim_faults_are_over_since(extra->submit->at) &&
			    strcmp(state, "succeeded") == 0;
	listed++;
	if (extra->is_refused)
		sim_broken("a refused submit is no job", "%s is %s", extra->name, state);
	if (strcmp(state, extra->end) != 0 && !is_stopped && !is_unnoticed)
		sim_broken("a job ends as its tasks do", "%s is %s, not %s", extra->name, state,
			   extra->end);
}

static bool has_ended(const char *state)
{
	return strcmp(state, "succeeded") == 0 || strcmp(state, "failed") == 0 ||
	       strcmp(state, "stopped") == 0;
}

/* All jobs, once no node is missing and the extra ones have ended. */
static bool judge_jobs(const json_t *jobs)
{
	size_t at;
	json_t *job;
	uint32_t seen[JOBS_MAX] = {0};
	listed = 0;
	for (int pass = 0; pass < 2; pass++)
		json_array_foreach(jobs, at, job)
		{
			const char *state = json_string_value(json_object_get(job, "state"));
			struct extra *extra = find_extra(
				json_string_value(json_object_get(job, "name")));
			if (!extra)
				continue;
			if (pass == 0 && !has_ended(state))
				return false;
			if (pass == 1)
				judge_extra(extra, state);
			if (pass == 1 && seen[extra - extras]++)
				sim_broken("one submit is one job", "%s is there twice",
					   extra->name);
		}
	for (uint32_t i = 0; i < extra_count; i++)
		if (extras[i].is_made && !seen[i] && !extras[i].may_be_forgotten)
			sim_broken("a submit that was answered is a job", "%s is not there",
				   extras[i].name);
	return true;
}

static void on_jobs(void *user, const tfc_reply *reply)
{
	json_t *all = json_loadb(reply->text, reply->len, 0, NULL);
	sim_note("jobs at the end: %d %.*s", reply->code, (int)reply->len, reply->text);
	if (reply->code == TFC_OK && !all)
		sim_broken("a list is JSON", "%.*s", (int)reply->len, reply->text);
	if (reply->code == TFC_OK && !json_array_size(json_object_get(all, "not_asked")))
		is_done = judge_jobs(json_object_get(all, "jobs"));
	json_decref(all);
	if (!is_done)
		sim_at(sim.now + SIM_SECOND, list_jobs, NULL, 0);
}

static void list_jobs(void *user, uint64_t number)
{
	tfc_gateway *gateway = NULL;
	is_closing |= !sim.is_waiting && sim_clients_are_done();
	/* An open request may still change the list. */
	if (!sim.is_waiting && is_closing && sim_requests_are_answered())
		gateway = sim_visit_node((uint32_t)(sim.seed % SIM_NODES));
	if (!gateway) {
		sim_at(sim.now + SIM_SECOND, list_jobs, NULL, 0);
		return;
	}
	if (tfc_gateway_jobs(gateway, NULL, on_jobs, NULL, NULL) < 0)
		sim_broken("a request is taken", "jobs");
	sim_leave();
}

void sim_extra_calm(void)
{
	sim_at(sim.calm_at + LAST_WRITES, list_jobs, NULL, 0);
}

bool sim_extra_are_counted(void)
{
	return is_closing;
}

bool sim_extra_are_done(void)
{
	return is_done;
}

uint32_t sim_requests_jobs(void)
{
	return listed;
}
