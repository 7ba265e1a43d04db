/*
 * The seeds: nodes through which this one finds all others. One that is not a member is tried again
 * and again, also when others are: nodes that found each other through different seeds come
 * together.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "member/gossip_internal.h"
#include "transport/resolve.h"

#define RETRY_MS 500
#define RETRY_MAX_MS 10000
#define QUIET_ATTEMPTS 2                 /* nodes that start together find no seed at first */
#define RESOLVE_AGAIN (60 * TFC__SECOND) /* of a host name, while there are other nodes */

/* ---- one seed */

/* Whether this node or one that is not gone has the address. */
static bool is_member_at(const struct tfc__gossip_membership *gossip,
			 const struct tfc__gossip_address *address)
{
	uint32_t count = tfc__gossip_count(gossip->core);
	for (uint32_t i = 0; i < count; i++) {
		struct tfc__gossip_member member;
		tfc__gossip_at(gossip->core, i, &member);
		if (!tfc__gossip_is_gone(member.state) &&
		    memcmp(&member.address, address, sizeof(*address)) == 0)
			return true;
	}
	return false;
}

static void seed_join(struct tfc__gossip_seed *seed)
{
	struct tfc__gossip_membership *gossip = seed->gossip;
	struct tfc__gossip_address addresses[TFC__TCP_ADDRESSES];
	struct tfc__gossip_event event = {.kind = TFC__GOSSIP_JOIN, .addresses = addresses};
	for (uint32_t i = 0; i < seed->host.count; i++) {
		struct tfc__gossip_address *next = &addresses[event.count];
		if (!tfc__gossip_address_from(&seed->host.addresses[i], next) ||
		    is_member_at(gossip, next))
			continue;
		event.count++;
	}
	if (event.count)
		tfc__gossip_membership_step(gossip, &event);
}

static void seed_failed(const struct tfc__gossip_seed *seed, const tfc_error *error)
{
	snprintf(seed->gossip->join_error, sizeof(seed->gossip->join_error), "%.80s: %.300s",
		 seed->text, error->text);
}

static void seed_on_resolved(void *user, const tfc_error *error)
{
	struct tfc__gossip_seed *seed = user;
	tfc__resolve_close(seed->resolve);
	seed->resolve = NULL;
	if (error)
		seed_failed(seed, error);
	else
		seed_join(seed);
}

static void seed_try(struct tfc__gossip_seed *seed)
{
	tfc_error error = TFC_ERROR_INIT;
	if (seed->is_numeric) {
		seed_join(seed);
		return;
	}
	if (seed->resolved_at && tfc__now() - seed->resolved_at < RESOLVE_AGAIN &&
	    tfc__gossip_membership_has_others(seed->gossip))
		return;
	tfc__resolve_close(seed->resolve);
	seed->resolve = NULL;
	seed->resolved_at = tfc__now();
	seed->host.count = 0; /* its addresses may have changed */
	if (tfc__resolve_open(seed->gossip->ctx, &seed->host, seed_on_resolved, seed, &error,
			      &seed->resolve) < 0) {
		seed->resolve = NULL;
		seed_failed(seed, &error);
	}
}

int tfc__gossip_seeds_set(struct tfc__gossip_membership *gossip, const char *const *seeds,
			  tfc_error *error)
{
	uint32_t count = 0;
	while (seeds && seeds[count])
		count++;
	gossip->seeds = calloc(count + 1, sizeof(*gossip->seeds));
	if (!gossip->seeds)
		return tfc__fail_nomem(error, "member");
	for (uint32_t i = 0; i < count; i++) {
		struct tfc__gossip_seed *seed = &gossip->seeds[i];
		bool has_scheme = strncmp(seeds[i], "tcp://", 6) == 0;
		char *address = NULL;
		seed->gossip = gossip;
		gossip->seed_count++;
		if (!(seed->text = strdup(seeds[i] + (has_scheme ? 6 : 0))) ||
		    asprintf(&address, "tcp://%s", seed->text) < 0)
			return tfc__fail_nomem(error, "member");
		int code = tfc__tcp_parse(address, error, &seed->host);
		free(address);
		if (code == TFC_OK && !seed->host.port)
			code = tfc__fail(error, TFC_EINVAL, "member", 0,
					 "\"%.80s\": the port must not be 0", seed->text);
		if (code < 0)
			return tfc__fail_prefix(error, code, "join: ");
		seed->is_numeric = seed->host.count > 0;
	}
	return TFC_OK;
}

void tfc__gossip_seeds_free(struct tfc__gossip_membership *gossip)
{
	for (uint32_t i = 0; i < gossip->seed_count; i++)
		free(gossip->seeds[i].text);
	free(gossip->seeds);
}

/* ---- all seeds */

/* Logs why there is no other node, unless it was the last text logged. */
static void join_log(struct tfc__gossip_membership *gossip)
{
	const char *why = *gossip->join_error ? gossip->join_error
					      : "the seeds are this node itself";
	if (strcmp(gossip->join_logged, why) == 0)
		return;
	snprintf(gossip->join_logged, sizeof(gossip->join_logged), "%s", why);
	tfc__log(gossip->ctx, TFC_LOG_WARNING, "member", "",
		 "cannot join the other nodes yet: %s; this node keeps trying", why);
}

static void join_try(struct tfc__gossip_membership *gossip)
{
	uint64_t ms = RETRY_MS, random = tfc__now();
	gossip->join_error[0] = '\0';
	for (uint32_t i = 0; i < gossip->join_attempts && ms < RETRY_MAX_MS; i++)
		ms *= 2;
	ms = ms < RETRY_MAX_MS ? ms : RETRY_MAX_MS;
	ms = ms / 2 + tfc__random_next(&random) % (ms / 2 + 1);
	gossip->join_attempts++;
	tfc__timer_set(&gossip->join, tfc__now() + ms * TFC__MS);
	for (uint32_t i = 0; i < gossip->seed_count; i++)
		seed_try(&gossip->seeds[i]);
}

static void join_on_timer(struct tfc__timer *timer)
{
	struct tfc__gossip_membership *gossip =
		tfc__container_of(timer, struct tfc__gossip_membership, join);
	if (gossip->join_attempts > QUIET_ATTEMPTS && !tfc__gossip_membership_has_others(gossip))
		join_log(gossip);
	join_try(gossip);
}

void tfc__gossip_join_begin(struct tfc__gossip_membership *gossip)
{
	tfc__timer_init(&gossip->join, gossip->ctx, join_on_timer);
	tfc__members_set_joining(gossip->members, gossip->seed_count > 0);
	if (gossip->seed_count)
		join_try(gossip);
}

void tfc__gossip_join_stop(struct tfc__gossip_membership *gossip)
{
	tfc__timer_cancel(&gossip->join);
	for (uint32_t i = 0; i < gossip->seed_count; i++) {
		tfc__resolve_close(gossip->seeds[i].resolve);
		gossip->seeds[i].resolve = NULL;
	}
}

void tfc__gossip_join_succeeded(struct tfc__gossip_membership *gossip,
				const struct tfc__gossip_address *seed)
{
	char text[TFC__GOSSIP_ADDRESS_TEXT];
	if (*gossip->join_logged) {
		tfc__gossip_address_write(seed, text);
		tfc__log(gossip->ctx, TFC_LOG_INFO, "member", "", "joined the other nodes at %s",
			 text);
	}
	gossip->join_logged[0] = gossip->join_error[0] = '\0';
	tfc__members_set_joining(gossip->members, false);
}

void tfc__gossip_join_failed(struct tfc__gossip_membership *gossip,
			     const struct tfc__gossip_address *seed, const tfc_error *error)
{
	char text[TFC__GOSSIP_ADDRESS_TEXT];
	tfc__gossip_address_write(seed, text);
	snprintf(gossip->join_error, sizeof(gossip->join_error), "%.80s: %.300s",
		 text + strlen("tcp://"), error ? error->text : "no other node is there");
}
