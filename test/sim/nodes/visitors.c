/*
 * The gateways over which requests are made: opened with the first request, kept for the next; and
 * the subscriptions over them, which are paused, resumed and closed.
 */
#include "requests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VISITORS_MAX 256

struct visitor {
	struct sim_host *host;
	uint32_t over;
	enum role role;
	tfc_gateway *gateway;
};

static const char *const roles[ROLES] = {"node", "submit", "read"};

static struct visitor visitors[VISITORS_MAX];
static uint32_t visitor_count;
static uint32_t last_follower = SIM_CLIENTS - 1;

/* ---- gateways */

static struct visitor *find_visitor(const struct sim_host *host, const struct sim_request *request)
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

static void write_addresses(const struct sim_request *request, char *text)
{
	uint32_t first = request->over == SIM_ALL_NODES ? request->which % SIM_NODES
							: request->over;
	uint32_t count = request->over == SIM_ALL_NODES ? SIM_NODES : 1;
	*text = '\0';
	for (uint32_t i = 0; i < count; i++) {
		strcat(text, i ? "," : "");
		strcat(text, sim.machines[(first + i) % SIM_NODES].address);
	}
}

tfc_gateway *sim_visit(struct sim_host *host, const struct sim_request *request)
{
	tfc_gateway_options options;
	char addresses[SIM_NODES * 32], key_file[SIM_PATH + 8];
	struct visitor *visitor = find_visitor(host, request);
	if (visitor)
		return visitor->gateway;
	if (visitor_count == VISITORS_MAX)
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

static struct sim_request inquiry = {.over = SIM_ALL_NODES};

tfc_gateway *sim_visit_node(uint32_t number)
{
	struct sim_host *host = sim.machines[number].host;
	inquiry.machine = number;
	if (!sim_can_run(host) || !host->node)
		return NULL;
	sim_enter(host);
	return sim_visit(host, &inquiry);
}

static void close_gateway(struct visitor *visitor)
{
	for (uint32_t i = 0; i < sim_request_count; i++) {
		struct sim_request *request = &sim_requests[i];
		if (request->gateway != visitor->gateway || request->host != visitor->host)
			continue;
		if (!request->answers && request->op) {
			request->is_canceled = true;
			request->due = sim_clock(visitor->host->machine, CLOCK_MONOTONIC);
			sim_at(sim.now + SIM_ANSWER_TIME, sim_request_check_answered, request, 0);
		}
		if (request->which & 2) /* the others after their gateway */
			tfc_sub_close(request->sub);
		if (request->which & 2)
			request->sub = NULL;
	}
	sim_is_calling = true;
	tfc_gateway_close(visitor->gateway);
	sim_is_calling = false;
	for (uint32_t i = 0; i < sim_request_count; i++) {
		struct sim_request *request = &sim_requests[i];
		if (request->gateway != visitor->gateway || request->host != visitor->host)
			continue;
		tfc_sub_close(request->sub);
		request->sub = NULL;
	}
	visitor->gateway = NULL;
}

void sim_visit_end(struct sim_host *host, const struct sim_request *request)
{
	struct visitor *visitor = find_visitor(host, request);
	if (visitor)
		close_gateway(visitor);
}

void sim_requests_close(const struct sim_host *host)
{
	for (uint32_t i = 0; i < visitor_count; i++)
		if (visitors[i].gateway && visitors[i].host == host)
			close_gateway(&visitors[i]);
}

/* ---- subscriptions */

static void on_event(void *user, const tfc_event *event)
{
	struct sim_request *request = user;
	if (sim_is_calling)
		sim_broken("callbacks run in dispatch alone", "an event");
	if (!request->sub || request->is_paused || request->is_ended || request->host->is_dead)
		sim_broken("no event comes after the end, after close and while paused",
			   "kind %u of %s", event->kind, event->job);
	request->is_ended = event->kind == TFC_EVENT_END || event->kind == TFC_EVENT_LOST;
	sim_check_secret(event->text, strlen(event->text));
	if (event->kind == TFC_EVENT_OUTPUT && request->which & 1)
		sim_broken("no output comes where none is wanted", "%s", event->job);
	sim_referee_json(event);
	if (event->kind == TFC_EVENT_LIVE || event->kind == TFC_EVENT_LOST)
		sim_note("subscription %d: %u %s", (int)request->number, event->kind, event->text);
	else if (request->follower)
		sim_referee_event(request->follower, event);
}

enum { PAUSE, RESUME, END };

static void steer(void *user, uint64_t what)
{
	struct sim_request *request = user;
	bool is_late = what == RESUME && request->host->machine->power != SIM_RUNS;
	if (sim.is_waiting || (is_late && !request->host->is_dead)) {
		sim_at(sim.now + SIM_MS, steer, request, what);
		return;
	}
	if (!sim_can_run(request->host) || !request->sub || (what == PAUSE && request->is_resumed))
		return;
	sim_enter(request->host);
	sim_is_calling = true;
	if (what == PAUSE) {
		tfc_sub_pause(request->sub);
	} else if (what == RESUME) {
		tfc_sub_resume(request->sub);
		request->is_resumed = true;
	} else {
		tfc_sub_close(request->sub);
		request->sub = NULL;
	}
	request->is_paused = what == PAUSE;
	sim_is_calling = false;
	sim_leave();
}

void sim_subscribe(struct sim_request *request)
{
	tfc_subscribe_options options;
	char job[20] = "counting";
	bool is_main = request->which & 8;
	if (!is_main)
		sim_name_job(request, true, job);
	tfc_subscribe_options_init(&options, sizeof(options));
	options.skip_output = request->which & 1;
	options.wants_live = request->which >> 1 & 1;
	if (is_main && request->which & 4)
		options.cursor = sim_client_cursor(request->which % SIM_CLIENTS);
	request->is_behind_end = options.cursor &&
				 sim_client_has_ended(request->which % SIM_CLIENTS);
	if (is_main && last_follower + 1 < SIM_FOLLOWERS) {
		request->follower = ++last_follower;
		sim_referee_follow(request->follower,
				   options.cursor ? request->which % SIM_CLIENTS : UINT32_MAX);
	}
	sim_is_calling = true;
	int code = tfc_gateway_subscribe(request->gateway, job, &options, on_event, request,
					 &request->sub);
	sim_is_calling = false;
	sim_note("subscription %d to %s: %d", (int)request->number, job, code);
	uint64_t at = sim.now + request->which % (5 * SIM_SECOND);
	if (request->which & 16) {
		sim_at(at, steer, request, PAUSE);
		sim_at(at + request->which % (9 * SIM_SECOND), steer, request, RESUME);
	}
	if (request->which & 32)
		sim_at(at + request->which % (11 * SIM_SECOND), steer, request, END);
}
