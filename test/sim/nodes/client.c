/*
 * Two clients, each on a machine of its own: the first submits the job, both follow it. What they
 * must not lose they write down: the client key, the home of the submit, the id, and the cursor
 * behind what they have seen. A client that is killed goes on from there.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN (500 * SIM_MS)

struct client {
	uint32_t number;
	struct sim_machine *machine;
	struct sim_host *host; /* NULL: it does not run */
	uint32_t incarnation;
	tfc_gateway *gateway;
	tfc_sub *sub;
	bool is_asked; /* a submit is under way */
	/* written down */
	char home[33];
	char job[17];
	char *cursor;
	bool is_ended;
};

static struct client clients[SIM_CLIENTS];
static bool is_careful; /* it chooses a home before it submits, and may be killed while it does */

static void next(void *user, uint64_t incarnation);

static void again(struct client *client)
{
	sim_at(sim.now + AGAIN, next, client, client->incarnation);
}

/* ---- submitting */

static void on_submitted(void *user, const tfc_reply *reply)
{
	struct client *client = user;
	if (!client->is_asked)
		sim_broken("every request is answered once", "a submit was answered twice");
	client->is_asked = false;
	sim_note("submit: %d %s%s, home %s", reply->code, reply->text,
		 reply->code < 0 ? reply->error->text : "", reply->home);
	if (*reply->home && *client->home && strcmp(client->home, reply->home) != 0)
		sim_broken("a submit has one home", "%s, then %s", client->home, reply->home);
	if (*reply->home)
		snprintf(client->home, sizeof(client->home), "%s", reply->home);
	if (reply->code == TFC_OK)
		snprintf(client->job, sizeof(client->job), "%s", reply->text);
	else if (reply->code == TFC_EEXIST || reply->code == TFC_EINVAL)
		sim_broken("a submit with its own key is answered", "%s", reply->error->text);
	again(client);
}

/* A home of its own choice, which it writes down before it submits. */
static void on_members(void *user, const tfc_reply *reply)
{
	struct client *client = user;
	uint64_t which = sim_draw(SIM_NODES);
	const char *at = reply->text;
	client->is_asked = false;
	for (uint64_t i = 0; at && i <= which; i++)
		at = strstr(at + (i > 0), "\"node_id\"");
	if (!at || sscanf(at, "\"node_id\":\"%32[0-9a-f]\"", client->home) != 1)
		client->home[0] = '\0'; /* that node is not known yet */
	sim_note("home is to be \"%s\"", client->home);
	if (*client->home)
		sim_at(sim.now + 1, next, client, client->incarnation);
	else
		again(client);
}

static void ask_members(struct client *client)
{
	client->is_asked = true;
	if (tfc_gateway_members(client->gateway, NULL, on_members, client, NULL) < 0)
		sim_broken("a request is taken", "%s", tfc_ctx_error(client->host->ctx)->text);
}

static void submit(struct client *client)
{
	tfc_submit_options options = TFC_SUBMIT_OPTIONS_INIT;
	tfc_job *job = sim_job_new();
	options.client_key = "0123456789abcdef0123456789abcdef";
	options.home = *client->home ? client->home : NULL;
	client->is_asked = true;
	if (tfc_gateway_submit(client->gateway, job, &options, on_submitted, client, NULL) < 0)
		sim_broken("a submit is taken", "%s", tfc_ctx_error(client->host->ctx)->text);
	tfc_job_free(job);
}

/* ---- following */

static void on_event(void *user, const tfc_event *event)
{
	struct client *client = user;
	if (event->kind == TFC_EVENT_LOST) {
		sim_note("client %u lost its subscription: %s", client->number, event->text);
		/* without a cursor, the name may be ambiguous */
		if (client->cursor &&
		    (event->error_code == TFC_EINVAL || event->error_code == TFC_EPARSE))
			sim_broken("a cursor is good for as long as its job", "%s", event->text);
		again(client);
		return;
	}
	sim_referee_event(client->number, event);
	if (*event->cursor) {
		free(client->cursor);
		client->cursor = strdup(event->cursor);
	}
	if (!*client->job)
		snprintf(client->job, sizeof(client->job), "%s", event->job);
	client->is_ended = event->kind == TFC_EVENT_END;
}

static void follow(struct client *client)
{
	tfc_subscribe_options options = TFC_SUBSCRIBE_OPTIONS_INIT;
	options.cursor = client->cursor;
	tfc_sub_close(client->sub);
	client->sub = NULL;
	const char *job = *client->job ? client->job : "counting";
	if (tfc_gateway_subscribe(client->gateway, job, &options, on_event, client, &client->sub) <
	    0)
		again(client);
}

/* ---- as a process */

static void next(void *user, uint64_t incarnation)
{
	struct client *client = user;
	if (!client->host || incarnation != client->incarnation || client->is_ended)
		return;
	if (client->machine->power != SIM_RUNS) {
		again(client);
		return;
	}
	sim_enter(client->host);
	if (client->number == 0 && !*client->job && is_careful && !*client->home)
		ask_members(client);
	else if (client->number == 0 && !*client->job)
		submit(client);
	else
		follow(client);
	sim_leave();
}

const char *sim_client_job(void)
{
	return clients[0].job;
}

const char *sim_client_cursor(uint64_t client)
{
	return clients[client].cursor;
}

bool sim_client_has_ended(uint64_t client)
{
	return clients[client].is_ended;
}

void sim_client_start(uint32_t number)
{
	struct client *client = &clients[number];
	tfc_gateway_options options = TFC_GATEWAY_OPTIONS_INIT;
	char address[SIM_NODES * 32] = "";
	if (client->host || client->is_ended)
		return;
	if (number == 0 && !client->incarnation)
		is_careful = sim_draw(2);
	client->number = number;
	client->machine = &sim.machines[SIM_NODES + number];
	client->host = client->machine->host = sim_host_new(client->machine);
	client->incarnation++;
	uint32_t first = (uint32_t)sim_draw(SIM_NODES);
	for (uint32_t i = 0; i < SIM_NODES; i++) {
		strcat(address, i ? "," : "");
		strcat(address, sim.machines[(first + i) % SIM_NODES].address);
	}
	options.address = address;
	options.key_file = sim.key_file;
	sim_enter(client->host);
	if (tfc_gateway_open(client->host->ctx, &options, &client->gateway) < 0)
		sim_broken("a gateway can be opened", "%s", tfc_ctx_error(client->host->ctx)->text);
	sim_leave();
	sim_at(sim.now + 1, next, client, client->incarnation);
}

void sim_client_kill(uint32_t number)
{
	struct client *client = &clients[number];
	if (!client->host || (number == 0 && !is_careful && !*client->job))
		return;
	sim_host_kill(client->host);
	client->host = client->machine->host = NULL;
	client->sub = NULL;
	client->is_asked = false;
}

bool sim_clients_are_done(void)
{
	for (uint32_t i = 0; i < SIM_CLIENTS; i++)
		if (!clients[i].is_ended)
			return false;
	return true;
}
