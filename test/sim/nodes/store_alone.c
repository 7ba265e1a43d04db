#include "store_alone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

struct place {
	struct place *next;
	char path[SIM_PATH];
	struct sim_machine machine;
	struct sim_host host;
};

static struct place *places;

static struct place *find_place(const char *path)
{
	struct place *place = places;
	while (place && strcmp(place->path, path) != 0)
		place = place->next;
	if (place)
		return place;
	place = calloc(1, sizeof(*place));
	if (!place)
		abort();
	snprintf(place->path, sizeof(place->path), "%s", path);
	place->machine.store = sim_store_new(&place->machine);
	place->host.machine = &place->machine;
	place->next = places;
	places = place;
	return place;
}

static uint64_t stop_at = UINT64_MAX;

void store_alone_stop_at(uint64_t at)
{
	stop_at = at;
}

static void drive(void *user)
{
	struct place *place = user;
	uint64_t next = sim_next_event();
	if (next < stop_at) {
		sim.now = next > sim.now ? next : sim.now;
		sim_run_event();
	}
	tfc_ctx_post(place->host.ctx, drive, place);
}

struct sim_store *store_alone_at(const char *place)
{
	return find_place(place)->machine.store;
}

int store_alone_open(tfc_ctx *ctx, const char *path, tfc_error *error,
		     struct tfc__store **ret_store)
{
	struct place *place = find_place(path);
	if (!sim.random)
		sim.random = 1;
	if (place->host.ctx != ctx)
		tfc_ctx_post(ctx, drive, place);
	place->host.ctx = ctx;
	sim_enter(&place->host);
	return tfc__store_open_local(ctx, path, error, ret_store);
}

/* ---- what the store and the queue of events need of the rest */

void sim_enter(struct sim_host *host)
{
	sim.current = host;
	sim.kernel = host->machine;
}

void sim_leave(void)
{
	sim.current = NULL;
	sim.kernel = NULL;
}

bool sim_guards_are_ready(void)
{
	return false;
}

void sim_guards_step(void)
{
}

void sim_faults_report(void)
{
}

void sim_requests_report(void)
{
}
