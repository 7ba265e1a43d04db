/*
 * What clients request besides the job that both follow: a list, drawn before the run as the faults
 * are, by a generator of its own. A request is made by a client, over a gateway at one node or at
 * all, or by the program that a node is part of. Each is answered once, within its deadline.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#define REQUESTS_MAX 32 /* a bit of the mask for each, above those of faults */
#define FIRST_BIT 32
#define BEGIN (SIM_SECOND / 2)
#define SPAN (60 * SIM_SECOND)
#define EARLY (20 * SIM_SECOND)         /* half of them, and all drains */
#define DRAIN_ARRIVES (25 * SIM_SECOND) /* its last byte, behind its deadline */
#define MARGIN SIM_SECOND               /* in which a process that runs answers */
#define LAST_WRITES (6 * SIM_SECOND)    /* of a slow disk, for requests that nobody waits for */
#define PATIENCE (60 * SIM_SECOND)      /* with what has no deadline, in calm times */
#define JOBS_MAX 3
#define FOLLOWERS_MAX (SIM_FOLLOWERS - SIM_CLIENTS)
#define ALL_NODES SIM_NODES
#define SECRET "open sesame"

/* Parts of job files. */
#define STARTED "\"ready\": \"started\""
#define CHIEF \
	"\"framework\": \"none\", \"success\": \"chief\", \"roles\": {\"chief\": {" STARTED "}}"
#define SILENT                                                                              \
	"\"framework\": \"none\", \"success\": \"chief\", \"roles\": {\"chief\": {" STARTED \
	", \"argv\": [\"count\", \"lines\", \"3\", \"pace\", \"3000\"]"
#define RANKS "\"framework\": \"pytorch\", \"roles\": {\"worker\": {\"count\": 2}}"

enum verb {
	LIST,
	JOBS,
	DESCRIBE,
	EXPLAIN,
	SPEC,
	ENVIRON,
	MEMBERS,
	DRAIN,
	SUBMIT,
	STOP,
	FORGET,
	FOLLOW,
	CLOSE, /* of a gateway */
	MOVE,  /* the partitions of an upstream go to other nodes */
	VERBS,
};

static const char *const verbs[VERBS] = {
	"list",  "jobs",   "describe", "explain", "spec",   "environ", "members",
	"drain", "submit", "stop",     "forget",  "follow", "close",   "move",
};

enum role { NODE, SUBMITTER, READER, ROLES };

static const char *const roles[ROLES] = {"node", "submit", "read"};

struct request {
	enum verb verb;
	uint64_t at;
	uint32_t machine; /* who makes it */
	uint32_t over;    /* a client: which node; ALL_NODES: the first that answers */
	enum role role;   /* of a client's key */
	uint32_t timeout_ms;
	uint64_t cancel_after; /* 0: it is not canceled */
	uint64_t which;
	bool is_out; /* by the mask */
	/* once it is made */
	struct sim_host *host;
	tfc_gateway *gateway;
	tfc_op *op;
	uint64_t due; /* its host's monotonic clock; 0: when times are calm */
	bool is_canceled;
	uint32_t answers;
	/* of a subscription */
	tfc_sub *sub;
	uint32_t follower; /* of the main job; 0: none */
	bool is_paused, is_ended;
};

/* A job that one of the requests submits. */
struct extra {
	const struct request *submit;
	char name[16];
	const char *end; /* its state then */
	bool is_made;    /* the submit said so */
	bool is_refused; /* the submit said that there is no job */
	bool may_be_stopped, may_be_forgotten;
};

struct visitor {
	struct sim_host *host;
	uint32_t over;
	enum role role;
	tfc_gateway *gateway;
};

static struct request requests[REQUESTS_MAX];
static uint32_t request_count;
static struct extra extras[JOBS_MAX];
static uint32_t extra_count;
static struct visitor visitors[256];
static uint32_t visitor_count;
static uint32_t last_follower = SIM_CLIENTS - 1;
static bool is_calling;
static uint32_t listed; /* extra jobs that there are at the end */
static bool is_closing; /* no more are made: the jobs are counted */
static bool is_done;

/* ---- the list */

static uint64_t draw(uint64_t *random, uint64_t below)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return (*random >> 11) % below;
}

static uint32_t draw_timeout(uint64_t *random)
{
	const uint32_t of[] = {50, 3000, 30000};
	return draw(random, 3) ? 1 + (uint32_t)draw(random, of[draw(random, 3)]) : 0;
}

static void draw_request(struct request *request, uint64_t *random)
{
	uint64_t verb = draw(random, VERBS + 3);
	bool is_early = draw(random, 2);
	request->verb = verb < VERBS ? (enum verb)verb : SUBMIT;
	request->at = BEGIN + draw(random, is_early || request->verb == DRAIN ? EARLY : SPAN);
	request->machine = (uint32_t)draw(random, SIM_MACHINES);
	request->over = (uint32_t)draw(random, SIM_NODES + 1);
	request->role = draw(random, 4) ? NODE : (enum role)draw(random, ROLES);
	request->timeout_ms = draw_timeout(random);
	request->cancel_after = draw(random, 4) ? 0 : 1 + draw(random, 2 * SIM_SECOND);
	request->which = draw(random, UINT64_C(1) << 40);
	if (request->verb == DRAIN)
		request->timeout_ms = 1 + request->timeout_ms % 5000;
}

static void make(void *user, uint64_t number);

void sim_requests_begin(uint64_t mask)
{
	uint64_t random = sim.seed * UINT64_C(0xd6e8feb86659fd93) + 3;
	draw(&random, 2);
	request_count = (uint32_t)draw(&random, REQUESTS_MAX + 1);
	for (uint32_t i = 0; i < request_count; i++) {
		struct request *request = &requests[i];
		draw_request(request, &random);
		request->is_out = !(mask >> (FIRST_BIT + i) & 1);
		if (!request->is_out)
			sim_at(request->at, make, request, 0);
	}
}

uint64_t sim_requests_over(void)
{
	uint64_t over = 0;
	for (uint32_t i = 0; i < request_count; i++) {
		const struct request *request = &requests[i];
		uint64_t end = request->at + request->timeout_ms * SIM_MS + DRAIN_ARRIVES;
		if (!request->is_out && request->verb == DRAIN && end > over)
			over = end;
	}
	return over;
}

void sim_requests_report(void)
{
	for (uint32_t i = 0; i < request_count; i++) {
		const struct request *request = &requests[i];
		if (!request->is_out)
			fprintf(stderr, "  request %2u at %8.4f: %s by %c over %c, %u ms, %s\n",
				FIRST_BIT + i, (double)request->at / 1e9, verbs[request->verb],
				"abcxy"[request->machine], "abc*"[request->over],
				request -> timeout_ms, request -> answers ? "answered" : "open");
	}
}

/* ---- gateways: opened with the first request, kept for the next */

static bool can_run(const struct sim_host *host)
{
	return host && !host->is_dead && host->machine->power == SIM_RUNS;
}

static struct visitor *find_visitor(const struct sim_host *host, const struct request *request)
{
	bool is_node = request->machine < SIM_NODES;
	for (uint32_t i = 0; i < visitor_count; i++) {
		struct visitor *visitor = &visitors[i];
		if (visitor->gateway && visitor->host == host &&
		    (is_node || (visitor->over == request->over && visitor->role == request->role)))
			return visitor;
	}
	return NULL;
}

static void write_addresses(const struct request *request, char *text)
{
	uint32_t first = request->over == ALL_NODES ? request->which % SIM_NODES : request->over;
	uint32_t count = request->over == ALL_NODES ? SIM_NODES : 1;
	*text = '\0';
	for (uint32_t i = 0; i < count; i++) {
		strcat(text, i ? "," : "");
		strcat(text, sim.machines[(first + i) % SIM_NODES].address);
	}
}

static tfc_gateway *open_gateway(struct sim_host *host, const struct request *request)
{
	tfc_gateway_options options;
	char addresses[SIM_NODES * 32], key_file[SIM_PATH + 8];
	struct visitor *visitor = find_visitor(host, request);
	if (visitor)
		return visitor->gateway;
	if (visitor_count == sizeof(visitors) / sizeof(*visitors))
		abort();
	visitor = &visitors[visitor_count++];
	tfc_gateway_options_init(&options, sizeof(options));
	*visitor = (struct visitor){.host = host, .over = request->over, .role = request->role};
	if (request->machine < SIM_NODES) {
		options.node = host->node;
	} else {
		write_addresses(request, addresses);
		sim_key_file(roles[request->role], key_file);
		options.address = addresses;
		options.key_file = key_file;
	}
	if (tfc_gateway_open(host->ctx, &options, &visitor->gateway) < 0)
		sim_broken("a gateway can be opened", "%s", tfc_ctx_error(host->ctx)->text);
	return visitor->gateway;
}

/* ---- jobs */

static struct extra *find_extra(const char *name)
{
	for (uint32_t i = 0; i < extra_count; i++)
		if (strcmp(extras[i].name, name) == 0)
			return &extras[i];
	return NULL;
}

static struct extra *any_extra(const struct request *request)
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
	 "failed", 0, 0},
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

static uint64_t shape_of(const struct request *request)
{
	return request->which / 1024 % SHAPES;
}

static tfc_job *job_new(const char *name, const struct request *request)
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
static void name_job(const struct request *request, bool is_extra, char text[20])
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

/* ---- answers */

static void judge_submit(const struct request *request, const tfc_reply *reply)
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

static void judge_ended_job(const struct request *request, const tfc_reply *reply)
{
	json_t *job = json_loadb(reply->text, reply->len, 0, NULL);
	const char *name = json_string_value(json_object_get(job, "name"));
	const char *state = json_string_value(json_object_get(job, "state"));
	if (!name || !state)
		sim_broken("a description is JSON", "%.*s", (int)reply->len, reply->text);
	if (request->follower && strcmp(name, "counting") == 0 && strcmp(state, "succeeded") != 0)
		sim_broken("an ended job stays ended", "it is shown as %s", state);
	json_decref(job);
}

static void judge_answer(const struct request *request, const tfc_reply *reply)
{
	bool is_change = request->verb == DRAIN || request->verb == SUBMIT ||
			 request->verb == STOP || request->verb == FORGET;
	bool is_client = request->machine >= SIM_NODES;
	if (request->verb == SUBMIT)
		judge_submit(request, reply);
	if (reply->code < 0)
		return;
	if (is_client && is_change && request->role == READER)
		sim_broken("a read key changes nothing", "%s", verbs[request->verb]);
	if (request->verb == DESCRIBE)
		judge_ended_job(request, reply);
}

/* The value of a secret variable is in no answer and no event. */
static void check_secret(const void *text, size_t len)
{
	if (len && memmem(text, len, SECRET, strlen(SECRET)))
		sim_broken("a secret is shown nowhere", "%.*s", (int)len, (const char *)text);
}

static void on_reply(void *user, const tfc_reply *reply)
{
	struct request *request = user;
	check_secret(reply->text, reply->len);
	sim_note("%s %d is answered: %d, %zu bytes %s", verbs[request->verb],
		 (int)(request - requests), reply->code, reply->len,
		 reply->code < 0 ? reply->error->text : "");
	if (is_calling)
		sim_broken("callbacks run in dispatch alone", "%s", verbs[request->verb]);
	if (request->host->is_dead)
		sim_broken("a closed context calls nobody", "%s", verbs[request->verb]);
	if (request->answers++)
		sim_broken("every request is answered once", "%s %d a second time: %d",
			   verbs[request->verb], (int)(request - requests), reply->code);
	if (reply->code == TFC_ECANCELED && !request->is_canceled)
		sim_broken("what nobody canceled is not canceled", "%s", reply->error->text);
	request->op = NULL;
	judge_answer(request, reply);
}

/* A process that stands still, or has just gone on, answers later. */
static void check_answered(void *user, uint64_t number)
{
	struct request *request = user;
	const struct sim_machine *machine = request->host->machine;
	if (request->host->is_dead || request->answers)
		return;
	uint64_t now = sim_clock(machine, CLOCK_MONOTONIC);
	bool is_early = request->due ? now < request->due + MARGIN
				     : sim.now < sim.calm_at + PATIENCE;
	bool is_late = machine->power == SIM_RUNS && sim.now > machine->thawed + MARGIN &&
		       sim.now > sim.waited_at + MARGIN;
	if (!is_early && is_late)
		sim_broken("every request is answered once", "%s %d is not answered%s",
			   verbs[request->verb], (int)(request - requests),
			   request->is_canceled ? " after it was canceled" : "");
	sim_at(sim.now + MARGIN, check_answered, request, 0);
}

static void cancel(void *user, uint64_t number)
{
	struct request *request = user;
	if (sim.is_waiting) {
		sim_at(sim.now + SIM_MS, cancel, request, number);
		return;
	}
	if (!can_run(request->host) || request->answers)
		return;
	sim_enter(request->host);
	request->is_canceled = is_calling = true;
	request->due = sim_clock(request->host->machine, CLOCK_MONOTONIC);
	tfc_op_cancel(request->op);
	if (request->which & 1)
		tfc_op_cancel(request->op);
	is_calling = false;
	sim_leave();
	sim_at(sim.now + MARGIN, check_answered, request, 0);
}

/* ---- subscriptions */

static void on_event(void *user, const tfc_event *event)
{
	struct request *request = user;
	if (is_calling)
		sim_broken("callbacks run in dispatch alone", "an event");
	if (!request->sub || request->is_paused || request->is_ended || request->host->is_dead)
		sim_broken("no event comes after the end, after close and while paused",
			   "kind %u of %s", event->kind, event->job);
	request->is_ended = event->kind == TFC_EVENT_END || event->kind == TFC_EVENT_LOST;
	check_secret(event->text, strlen(event->text));
	if (event->kind == TFC_EVENT_OUTPUT && request->which & 1)
		sim_broken("no output comes where none is wanted", "%s", event->job);
	sim_referee_json(event);
	if (event->kind == TFC_EVENT_LIVE || event->kind == TFC_EVENT_LOST)
		sim_note("subscription %d: %u %s", (int)(request - requests), event->kind,
			 event->text);
	else if (request->follower)
		sim_referee_event(request->follower, event);
}

enum { PAUSE, RESUME, END };

static void steer(void *user, uint64_t what)
{
	struct request *request = user;
	if (sim.is_waiting) {
		sim_at(sim.now + SIM_MS, steer, request, what);
		return;
	}
	if (!can_run(request->host) || !request->sub)
		return;
	sim_enter(request->host);
	is_calling = true;
	if (what == PAUSE) {
		tfc_sub_pause(request->sub);
	} else if (what == RESUME) {
		tfc_sub_resume(request->sub);
	} else {
		tfc_sub_close(request->sub);
		request->sub = NULL;
	}
	request->is_paused = what == PAUSE;
	is_calling = false;
	sim_leave();
}

static void follow(struct request *request)
{
	tfc_subscribe_options options;
	char job[20] = "counting";
	bool is_main = request->which & 8;
	if (!is_main)
		name_job(request, true, job);
	tfc_subscribe_options_init(&options, sizeof(options));
	options.is_without_output = request->which & 1;
	options.wants_live = request->which >> 1 & 1;
	if (is_main && request->which & 4)
		options.cursor = sim_client_cursor(request->which % SIM_CLIENTS);
	if (is_main && last_follower + 1 < SIM_FOLLOWERS) {
		request->follower = ++last_follower;
		sim_referee_follow(request->follower,
				   options.cursor ? request->which % SIM_CLIENTS : UINT32_MAX);
	}
	is_calling = true;
	int code = tfc_gateway_subscribe(request->gateway, job, &options, on_event, request,
					 &request->sub);
	is_calling = false;
	sim_note("subscription %d to %s: %d", (int)(request - requests), job, code);
	uint64_t at = sim.now + request->which % (5 * SIM_SECOND);
	if (request->which & 16) {
		sim_at(at, steer, request, PAUSE);
		sim_at(at + request->which % (9 * SIM_SECOND), steer, request, RESUME);
	}
	if (request->which & 32)
		sim_at(at + request->which % (11 * SIM_SECOND), steer, request, END);
}

/* ---- making a request */

static void close_gateway(struct visitor *visitor)
{
	for (uint32_t i = 0; i < request_count; i++) {
		struct request *request = &requests[i];
		if (request->gateway != visitor->gateway || request->host != visitor->host)
			continue;
		if (!request->answers && request->op) {
			request->is_canceled = true;
			request->due = sim_clock(visitor->host->machine, CLOCK_MONOTONIC);
			sim_at(sim.now + MARGIN, check_answered, request, 0);
		}
		if (request->which & 2) /* the others after their gateway */
			tfc_sub_close(request->sub);
		if (request->which & 2)
			request->sub = NULL;
	}
	is_calling = true;
	tfc_gateway_close(visitor->gateway);
	is_calling = false;
	for (uint32_t i = 0; i < request_count; i++) {
		struct request *request = &requests[i];
		if (request->gateway != visitor->gateway || request->host != visitor->host)
			continue;
		tfc_sub_close(request->sub);
		request->sub = NULL;
	}
	visitor->gateway = NULL;
}

static int submit(struct request *request)
{
	tfc_submit_options options;
	struct extra *extra = &extras[extra_count++];
	*extra = (struct extra){.submit = request, .end = shapes[shape_of(request)].end};
	snprintf(extra->name, sizeof(extra->name), "extra-%d", (int)(request - requests));
	tfc_submit_options_init(&options, sizeof(options));
	options.timeout_ms = request->timeout_ms;
	options.host_tag = "tag";
	options.host_tag_len = request->which & 1 ? 3 : 0;
	tfc_job *job = job_new(extra->name, request);
	int code = tfc_gateway_submit(request->gateway, job, &options, on_reply, request,
				      &request->op);
	tfc_job_free(job);
	return code;
}

static int stop(struct request *request)
{
	tfc_stop_options options;
	char job[20];
	name_job(request, true, job);
	struct extra *extra = find_extra(job);
	tfc_stop_options_init(&options, sizeof(options));
	options.timeout_ms = request->timeout_ms;
	options.interrupt_ms = request->which % 4 == 1 ? 500 : 0;
	options.is_kill = request->which % 4 == 2;
	if (extra)
		extra->may_be_stopped = true;
	return tfc_gateway_stop(request->gateway, job, &options, on_reply, request, &request->op);
}

static int forget(struct request *request)
{
	char job[20];
	name_job(request, true, job);
	struct extra *extra = find_extra(job);
	if (extra)
		extra->may_be_forgotten = true;
	return tfc_gateway_forget(request->gateway, job, request->timeout_ms, on_reply, request,
				  &request->op);
}

static int explain(struct request *request)
{
	tfc_job *job = job_new("explained", request);
	int code = tfc_gateway_explain(request->gateway, job, request->timeout_ms, on_reply,
				       request, &request->op);
	tfc_job_free(job);
	return code;
}

static int call(struct request *request)
{
	tfc_gateway *gateway = request->gateway;
	uint32_t timeout_ms = request->timeout_ms;
	char job[20], node[2] = {"abcz"[request->which % 4], 0};
	name_job(request, false, job);
	switch (request->verb) {
	case LIST:
		return tfc_gateway_list(gateway, timeout_ms, on_reply, request, &request->op);
	case JOBS:
		return tfc_gateway_jobs(gateway, timeout_ms, on_reply, request, &request->op);
	case DESCRIBE:
		request->follower = sim_referee_has_ended();
		return tfc_gateway_describe(gateway, job, timeout_ms, on_reply, request,
					    &request->op);
	case EXPLAIN:
		return explain(request);
	case SPEC:
		return tfc_gateway_spec(gateway, job, "worker/0", timeout_ms, on_reply, request,
					&request->op);
	case ENVIRON:
		return tfc_gateway_environ(gateway, job, "chief/0", timeout_ms, on_reply, request,
					   &request->op);
	case MEMBERS:
		return tfc_gateway_members(gateway, timeout_ms, on_reply, request, &request->op);
	case DRAIN:
		return tfc_gateway_drain(gateway, node, request->which / 4 % 3 == 0, timeout_ms,
					 on_reply, request, &request->op);
	case SUBMIT:
		return submit(request);
	case STOP:
		return stop(request);
	case FORGET:
		return forget(request);
	case FOLLOW:
	case CLOSE:
	case MOVE:
	case VERBS:
		break;
	}
	return TFC_OK;
}

static void ask(struct request *request)
{
	is_calling = true;
	int code = call(request);
	is_calling = false;
	sim_note("%s %d is asked: %d", verbs[request->verb], (int)(request - requests), code);
	if (code < 0)
		sim_broken("a request is taken", "%s: %s", verbs[request->verb],
			   tfc_ctx_error(request->host->ctx)->text);
	uint64_t timeout = request->timeout_ms * SIM_MS;
	if (timeout)
		request->due = sim_clock(request->host->machine, CLOCK_MONOTONIC) + timeout;
	sim_at(sim.now + timeout + MARGIN, check_answered, request, 0);
	if (request->cancel_after)
		sim_at(sim.now + request->cancel_after, cancel, request, 0);
}

static void make(void *user, uint64_t number)
{
	struct request *request = user;
	struct sim_host *host = sim.machines[request->machine].host;
	bool is_node = request->machine < SIM_NODES;
	if (sim.is_waiting) {
		sim_at(sim.now + SIM_MS, make, request, number);
		return;
	}
	if (is_closing || !can_run(host) || (is_node && !host->node))
		return;
	if (request->verb == SUBMIT && extra_count == JOBS_MAX)
		request->verb = JOBS;
	request->host = host;
	if (request->verb == MOVE) {
		sim_write_upstreams(request->which);
		return;
	}
	sim_enter(host);
	struct visitor *visitor = find_visitor(host, request);
	if (request->verb != CLOSE) {
		request->gateway = open_gateway(host, request);
		if (request->verb == FOLLOW)
			follow(request);
		else
			ask(request);
	} else if (visitor) {
		close_gateway(visitor);
	}
	sim_leave();
}

/* ---- a node that ends in order */

void sim_requests_close(const struct sim_host *host)
{
	for (uint32_t i = 0; i < visitor_count; i++)
		if (visitors[i].gateway && visitors[i].host == host)
			close_gateway(&visitors[i]);
}

void sim_requests_closed(const struct sim_host *host)
{
	for (uint32_t i = 0; i < request_count; i++)
		if (requests[i].host == host && requests[i].op)
			sim_broken("every request is answered once",
				   "%s %d is not answered before its context is freed",
				   verbs[requests[i].verb], (int)i);
}

/* ---- in calm times: all nodes take tasks again, and all jobs end */

static bool is_drained[SIM_NODES];

static void on_undrained(void *user, const tfc_reply *reply)
{
	bool *drained = user;
	*drained = reply->code < 0;
}

static struct request inquiry = {.over = ALL_NODES};

static tfc_gateway *gateway_of_node(uint32_t number)
{
	struct sim_host *host = sim.machines[number].host;
	inquiry.machine = number;
	if (!can_run(host) || !host->node)
		return NULL;
	sim_enter(host);
	return open_gateway(host, &inquiry);
}

static void undrain(void *user, uint64_t number)
{
	const char name[2] = {(char)('a' + (char)number), 0};
	tfc_gateway *gateway = sim.is_waiting ? NULL : gateway_of_node((uint32_t)number);
	is_drained[number] = true;
	if (gateway &&
	    tfc_gateway_drain(gateway, name, 1, 0, on_undrained, &is_drained[number], NULL) < 0)
		sim_broken("a request is taken", "undrain");
	if (gateway)
		sim_leave();
	else
		sim_at(sim.now + SIM_MS, undrain, NULL, number);
}

static void list_jobs(void *user, uint64_t number);

static void judge_extra(struct extra *extra, const char *state)
{
	bool is_stopped = extra->may_be_stopped && strcmp(state, "stopped") == 0;
	listed++;
	if (extra->is_refused)
		sim_broken("a refused submit is no job", "%s is %s", extra->name, state);
	if (strcmp(state, extra->end) != 0 && !is_stopped)
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
	if (!sim.is_waiting && sim_clients_are_done())
		gateway = gateway_of_node((uint32_t)(sim.seed % SIM_NODES));
	if (!gateway) {
		sim_at(sim.now + SIM_SECOND, list_jobs, NULL, 0);
		return;
	}
	is_closing = true;
	if (tfc_gateway_jobs(gateway, 0, on_jobs, NULL, NULL) < 0)
		sim_broken("a request is taken", "jobs");
	sim_leave();
}

void sim_requests_calm(void)
{
	for (uint32_t i = 0; i < SIM_NODES; i++)
		sim_at(sim.calm_at, undrain, NULL, i);
	sim_at(sim.calm_at + LAST_WRITES, list_jobs, NULL, 0);
}

bool sim_requests_are_done(void)
{
	for (uint32_t i = 0; i < request_count; i++) {
		const struct request *request = &requests[i];
		if (request->op && !request->host->is_dead)
			return false;
	}
	return is_done;
}

uint32_t sim_requests_jobs(void)
{
	return listed;
}

void sim_requests_count(uint64_t *ret_made, uint64_t *ret_answered)
{
	for (uint32_t i = 0; i < request_count; i++) {
		*ret_made += requests[i].host && requests[i].verb < FOLLOW;
		*ret_answered += requests[i].answers;
	}
}
