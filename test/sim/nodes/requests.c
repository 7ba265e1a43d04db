/*
 * What clients request besides the job that both follow: a list, drawn before the run as the faults
 * are, by a generator of its own. A request is made by a client, over a gateway at one node or at
 * all, or by the program that a node is part of. Each is answered once, within its deadline.
 */
#include "requests.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#define FIRST_BIT 32
#define BEGIN (SIM_SECOND / 2)
#define SPAN (60 * SIM_SECOND)
#define EARLY (20 * SIM_SECOND)         /* half of them, and all drains */
#define DRAIN_ARRIVES (25 * SIM_SECOND) /* its last byte, behind its deadline */
#define PATIENCE (60 * SIM_SECOND)      /* with what has no deadline, in calm times */

static const char *const verbs[VERBS] = {
	"jobs",   "describe", "explain", "spec",   "environ", "members", "drain",
	"submit", "stop",     "forget",  "follow", "close",   "move",
};

struct sim_request sim_requests[SIM_REQUESTS];
uint32_t sim_request_count;
bool sim_is_calling;

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

static void draw_request(struct sim_request *request, uint64_t *random)
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
	sim_request_count = (uint32_t)draw(&random, SIM_REQUESTS + 1);
	for (uint32_t i = 0; i < sim_request_count; i++) {
		struct sim_request *request = &sim_requests[i];
		request->number = i;
		draw_request(request, &random);
		request->is_out = !(mask >> (FIRST_BIT + i) & 1);
		if (!request->is_out)
			sim_at(request->at, make, request, 0);
	}
}

uint64_t sim_requests_over(void)
{
	uint64_t over = 0;
	for (uint32_t i = 0; i < sim_request_count; i++) {
		const struct sim_request *request = &sim_requests[i];
		uint64_t end = request->at + request->timeout_ms * SIM_MS + DRAIN_ARRIVES;
		if (!request->is_out && request->verb == DRAIN && end > over)
			over = end;
	}
	return over;
}

void sim_requests_report(void)
{
	for (uint32_t i = 0; i < sim_request_count; i++) {
		const struct sim_request *request = &sim_requests[i];
		if (!request->is_out)
			fprintf(stderr, "  request %2u at %8.4f: %s by %c over %c, %u ms, %s\n",
				FIRST_BIT + i, (double)request->at / 1e9, verbs[request->verb],
				"abcxy"[request->machine], "abc*"[request->over],
				request -> timeout_ms, request -> answers ? "answered" : "open");
	}
}

bool sim_can_run(const struct sim_host *host)
{
	return host && !host->is_dead && host->machine->power == SIM_RUNS;
}

/* ---- answers */

static void judge_ended_job(const struct sim_request *request, const tfc_reply *reply)
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

static void judge_response(const struct sim_request *request, const tfc_reply *reply)
{
	bool is_change = request->verb == DRAIN || request->verb == SUBMIT ||
			 request->verb == STOP || request->verb == FORGET;
	bool is_client = request->machine >= SIM_NODES;
	if (request->verb == SUBMIT)
		sim_extra_judge_submit(request, reply);
	if (reply->code < 0)
		return;
	if (is_client && is_change && request->role == READER)
		sim_broken("a read key changes nothing", "%s", verbs[request->verb]);
	if (request->verb == DESCRIBE)
		judge_ended_job(request, reply);
}

static void on_reply(void *user, const tfc_reply *reply)
{
	struct sim_request *request = user;
	sim_check_secret(reply->text, reply->len);
	sim_note("%s %d is answered: %d, %zu bytes %s", verbs[request->verb], (int)request->number,
		 reply->code, reply->len, reply->code < 0 ? reply->error->text : "");
	if (sim_is_calling)
		sim_broken("callbacks run in dispatch alone", "%s", verbs[request->verb]);
	if (request->host->is_dead)
		sim_broken("a closed context calls nobody", "%s", verbs[request->verb]);
	if (request->answers++)
		sim_broken("every request is answered once", "%s %d a second time: %d",
			   verbs[request->verb], (int)request->number, reply->code);
	if (reply->code == TFC_ECANCELED && !request->is_canceled)
		sim_broken("what nobody canceled is not canceled", "%s", reply->error->text);
	request->op = NULL;
	judge_response(request, reply);
}

/* A process that stands still, or has just gone on, answers later. */
void sim_request_check_answered(void *user, uint64_t number)
{
	struct sim_request *request = user;
	const struct sim_machine *machine = request->host->machine;
	if (request->host->is_dead || request->answers)
		return;
	uint64_t now = sim_clock(machine, CLOCK_MONOTONIC);
	bool is_early = request->due ? now < request->due + SIM_ANSWER_TIME
				     : sim.now < sim.calm_at + PATIENCE;
	bool is_late = machine->power == SIM_RUNS && sim.now > machine->thawed + SIM_ANSWER_TIME &&
		       sim.now > sim.waited_at + SIM_ANSWER_TIME;
	if (!is_early && is_late)
		sim_broken("every request is answered once", "%s %d is not answered%s",
			   verbs[request->verb], (int)request->number,
			   request->is_canceled ? " after it was canceled" : "");
	sim_at(sim.now + SIM_ANSWER_TIME, sim_request_check_answered, request, 0);
}

static void cancel(void *user, uint64_t number)
{
	struct sim_request *request = user;
	if (sim.is_waiting) {
		sim_at(sim.now + SIM_MS, cancel, request, number);
		return;
	}
	if (!sim_can_run(request->host) || request->answers)
		return;
	sim_enter(request->host);
	request->is_canceled = sim_is_calling = true;
	request->due = sim_clock(request->host->machine, CLOCK_MONOTONIC);
	tfc_op_cancel(request->op);
	if (request->which & 1)
		tfc_op_cancel(request->op);
	sim_is_calling = false;
	sim_leave();
	sim_at(sim.now + SIM_ANSWER_TIME, sim_request_check_answered, request, 0);
}

/* ---- making a request */

static int submit(struct sim_request *request)
{
	tfc_submit_options options;
	tfc_submit_options_init(&options, sizeof(options));
	options.timeout_ms = request->timeout_ms;
	options.host_tag = "tag";
	options.host_tag_len = request->which & 1 ? 3 : 0;
	tfc_job *job = sim_extra_job_new(sim_extra_submit(request), request);
	int code = tfc_gateway_submit(request->gateway, job, &options, on_reply, request,
				      &request->op);
	tfc_job_free(job);
	return code;
}

static int stop(struct sim_request *request)
{
	tfc_stop_options options;
	char job[20];
	sim_name_job(request, true, job);
	tfc_stop_options_init(&options, sizeof(options));
	options.timeout_ms = request->timeout_ms;
	options.interrupt_ms = request->which % 4 == 1 ? 500 : 0;
	options.is_kill = request->which % 4 == 2;
	sim_extra_may_be_stopped(job);
	return tfc_gateway_stop(request->gateway, job, &options, on_reply, request, &request->op);
}

static int forget(struct sim_request *request)
{
	const tfc_request_options options = {sizeof(options), request->timeout_ms};
	char job[20];
	sim_name_job(request, true, job);
	sim_extra_may_be_forgotten(job);
	return tfc_gateway_forget(request->gateway, job, &options, on_reply, request, &request->op);
}

static int explain(struct sim_request *request)
{
	const tfc_request_options options = {sizeof(options), request->timeout_ms};
	tfc_job *job = sim_extra_job_new("explained", request);
	int code = tfc_gateway_explain(request->gateway, job, &options, on_reply, request,
				       &request->op);
	tfc_job_free(job);
	return code;
}

static int call(struct sim_request *request)
{
	tfc_gateway *gateway = request->gateway;
	const tfc_request_options options = {sizeof(options), request->timeout_ms};
	char job[20], node[2] = {"abcz"[request->which % 4], 0};
	sim_name_job(request, false, job);
	switch (request->verb) {
	case JOBS:
		return tfc_gateway_jobs(gateway, &options, on_reply, request, &request->op);
	case DESCRIBE:
		request->follower = sim_referee_has_ended();
		return tfc_gateway_describe(gateway, job, &options, on_reply, request,
					    &request->op);
	case EXPLAIN:
		return explain(request);
	case SPEC:
		return tfc_gateway_tf_config(gateway, job, "worker/0", &options, on_reply, request,
					     &request->op);
	case ENVIRON:
		return tfc_gateway_environ(gateway, job, "chief/0", &options, on_reply, request,
					   &request->op);
	case MEMBERS:
		return tfc_gateway_members(gateway, &options, on_reply, request, &request->op);
	case DRAIN:
		return (request->which / 4 % 3 == 0 ? tfc_gateway_undrain
						    : tfc_gateway_drain)(gateway, node, &options,
									 on_reply, request,
									 &request->op);
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

static void ask(struct sim_request *request)
{
	sim_is_calling = true;
	int code = call(request);
	sim_is_calling = false;
	sim_note("%s %d is asked: %d", verbs[request->verb], (int)request->number, code);
	if (code < 0)
		sim_broken("a request is taken", "%s: %s", verbs[request->verb],
			   tfc_ctx_error(request->host->ctx)->text);
	uint64_t timeout = request->timeout_ms * SIM_MS;
	if (timeout)
		request->due = sim_clock(request->host->machine, CLOCK_MONOTONIC) + timeout;
	sim_at(sim.now + timeout + SIM_ANSWER_TIME, sim_request_check_answered, request, 0);
	if (request->cancel_after)
		sim_at(sim.now + request->cancel_after, cancel, request, 0);
}

static void make(void *user, uint64_t number)
{
	struct sim_request *request = user;
	struct sim_host *host = sim.machines[request->machine].host;
	bool is_node = request->machine < SIM_NODES;
	if (sim.is_waiting) {
		sim_at(sim.now + SIM_MS, make, request, number);
		return;
	}
	if (sim_extra_are_counted() || !sim_can_run(host) || (is_node && !host->node))
		return;
	if (request->verb == SUBMIT && !sim_extra_is_room())
		request->verb = JOBS;
	request->host = host;
	if (request->verb == MOVE) {
		sim_write_upstreams(request->which);
		return;
	}
	sim_enter(host);
	if (request->verb != CLOSE) {
		request->gateway = sim_visit(host, request);
		if (request->verb == FOLLOW)
			sim_subscribe(request);
		else
			ask(request);
	} else {
		sim_visit_end(host, request);
	}
	sim_leave();
}

/* ---- a node that ends in order */

void sim_requests_closed(const struct sim_host *host)
{
	for (uint32_t i = 0; i < sim_request_count; i++)
		if (sim_requests[i].host == host && sim_requests[i].op)
			sim_broken("every request is answered once",
				   "%s %d is not answered before its context is freed",
				   verbs[sim_requests[i].verb], (int)i);
}

/* ---- in calm times: all nodes take tasks again, and all jobs end */

static bool is_drained[SIM_NODES];

static void on_undrained(void *user, const tfc_reply *reply)
{
	bool *drained = user;
	*drained = reply->code < 0;
}

static void undrain(void *user, uint64_t number)
{
	const char name[2] = {(char)('a' + (char)number), 0};
	tfc_gateway *gateway = sim.is_waiting ? NULL : sim_visit_node((uint32_t)number);
	is_drained[number] = true;
	if (gateway &&
	    tfc_gateway_undrain(gateway, name, NULL, on_undrained, &is_drained[number], NULL) < 0)
		sim_broken("a request is taken", "undrain");
	if (gateway)
		sim_leave();
	else
		sim_at(sim.now + SIM_MS, undrain, NULL, number);
}

void sim_requests_calm(void)
{
	for (uint32_t i = 0; i < SIM_NODES; i++)
		sim_at(sim.calm_at, undrain, NULL, i);
	sim_extra_calm();
}

bool sim_requests_are_answered(void)
{
	for (uint32_t i = 0; i < sim_request_count; i++)
		if (sim_requests[i].op && !sim_requests[i].host->is_dead)
			return false;
	return true;
}

bool sim_requests_are_done(void)
{
	for (uint32_t i = 0; i < sim_request_count; i++) {
		const struct sim_request *request = &sim_requests[i];
		/* one that is paused keeps logs open until it has read them */
		bool is_following = request->sub && !request->is_ended && !request->is_behind_end;
		if (is_following && !request->host->is_dead)
			return false;
	}
	return sim_requests_are_answered() && sim_extra_are_done();
}

void sim_requests_count(uint64_t *ret_made, uint64_t *ret_answered)
{
	for (uint32_t i = 0; i < sim_request_count; i++) {
		*ret_made += sim_requests[i].host && sim_requests[i].verb < FOLLOW;
		*ret_answered += sim_requests[i].answers;
	}
}
