#include "gateway/home.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "gateway/remote_sub.h"
#include "gateway/request_params.h"

#define DELAY_FIRST (100 * TFC__MS)
#define DELAY_MAX (2 * TFC__SECOND)

struct tfc__home {
	struct tfc__homes *homes;
	char node_id[TFC__NODE_ID_SIZE]; /* "": nothing was sent yet */
	char name[64];                   /* "": it was never connected */
	bool is_written;   /* the home is appended to params, which no longer change */
	bool wants_bundle; /* the submit was repeated, and the home has neither job nor bundle */
	bool is_wait_logged;
	uint64_t waits_since; /* tfc__now when it could first not be reached */
	uint64_t delay;
	struct tfc__remote_request *remote_request;
	struct tfc__timer retry;    /* when the submit is repeated */
	struct tfc__timer patience; /* when the submit fails; not set during an upload */
	tfc_error why;              /* why it could not be reached last */
};

#define SERVER(...) TFC__FIELD(struct tfc__server, __VA_ARGS__)
static const struct tfc__field server_rows[] = {
	SERVER("node_id", TFC__TEXT, node_id, TFC__V0_3),
	SERVER("name", TFC__TEXT, name, TFC__V0_3),
};
const struct tfc__fields tfc__server_fields = TFC__FIELDS(server_rows, struct tfc__server, NULL);

static void home_free(struct tfc__home *home)
{
	tfc__timer_cancel(&home->retry);
	tfc__timer_cancel(&home->patience);
	free(home);
}

static bool home_is_here(const struct tfc__home *home)
{
	return strcmp(home->node_id, home->homes->server.node_id) == 0;
}

/* ---- patience */

static void home_begin_patience(struct tfc__home *home)
{
	if (!home->patience.at)
		tfc__timer_set(&home->patience, tfc__now() + home->homes->patience_ms * TFC__MS);
}

static void home_on_timeout(struct tfc__timer *timer)
{
	struct tfc__home *home = tfc__container_of(timer, struct tfc__home, patience);
	tfc_error error = TFC_ERROR_INIT;
	tfc__fail(&error, TFC_ELOST, "gateway", 0,
		  "cannot determine whether node %s%s%s%s, to which the job was submitted, created "
		  "it: %.600s",
		  home->name, home->name[0] ? " (" : "", home->node_id, home->name[0] ? ")" : "",
		  home->why.code < 0 ? home->why.text : "no response");
	tfc__remote_request_fail(home->remote_request, &error);
}

void tfc__home_note_wait(struct tfc__remote_request *remote_request, const tfc_error *why)
{
	struct tfc__home *home = remote_request->home;
	home->why = *why;
	if (!home->waits_since)
		home->waits_since = tfc__now();
	if (home->is_wait_logged || tfc__now() - home->waits_since < TFC__QUIET_NS)
		return;
	home->is_wait_logged = true;
	tfc__log(home->homes->ctx, TFC_LOG_WARNING, "gateway", "",
		 "cannot reach node %s, which may have created the job; waiting for it (%u s at "
		 "most): %s",
		 home->name[0] ? home->name : home->node_id, home->homes->patience_ms / 1000,
		 home->why.text);
}

static void home_on_retry(struct tfc__timer *timer)
{
	struct tfc__home *home = tfc__container_of(timer, struct tfc__home, retry);
	home->homes->send(home->remote_request);
}

bool tfc__home_retry(struct tfc__remote_request *remote_request, const tfc_error *why)
{
	struct tfc__home *home = remote_request->home;
	if (!home)
		return false;
	if (why->code == TFC_ENOENT && home_is_here(home))
		home->wants_bundle = true;
	if (!home->node_id[0] || remote_request->is_once)
		return false;
	home_begin_patience(home);
	tfc__home_note_wait(remote_request, why);
	tfc__timer_set(&home->retry, tfc__now() + home->delay);
	home->delay = home->delay ? home->delay * 2 : DELAY_FIRST;
	if (home->delay > DELAY_MAX)
		home->delay = DELAY_MAX;
	return true;
}

/* ---- sending the submit */

/* The node to which the submit is first sent becomes its home, unless the host chose one. */
static void home_before_send(struct tfc__remote_request *remote_request)
{
	struct tfc__home *home = remote_request->home;
	const struct tfc__server *server = &home->homes->server;
	if (!home->node_id[0])
		memcpy(home->node_id, server->node_id, sizeof(home->node_id));
	if (home_is_here(home))
		memcpy(home->name, server->name, sizeof(home->name));
	if (!home->is_written)
		tfc__request_params_add_home(&remote_request->params, home->node_id);
	home->is_written = true;
	memcpy(remote_request->request->home, home->node_id, sizeof(home->node_id));
	home_begin_patience(home);
}

void tfc__home_send(struct tfc__remote_request *remote_request, struct tfc__rpc *rpc)
{
	struct tfc__home *home = remote_request->home;
	/* Sent without its bundle: to a node that forwards it, and to a home that may already have
	 * the job. */
	bool is_sent = home->node_id[0] &&
		       (!home_is_here(home) || (home->is_written && !home->wants_bundle));
	if (is_sent) {
		tfc__remote_request_send_alone(remote_request, rpc);
	} else {
		if (remote_request->upload)
			tfc__timer_cancel(&home->patience);
		tfc__remote_request_send(remote_request, rpc);
	}
}

/* A refusal of a repeated submit does not show whether the first one created the job. TFC_ENOENT
 * means that the bundle is missing, not the job: the home needs the bundle, which a node that
 * forwards the submit cannot send. */
static bool home_is_outcome_unknown(const struct tfc__remote_request *remote_request, int code)
{
	const struct tfc__home *home = remote_request->home;
	if (code == TFC_ENOENT)
		return remote_request->upload && (!home->wants_bundle || !home_is_here(home));
	return remote_request->tries > 0 &&
	       (code == TFC_EAGAIN || code == TFC_EBUSY || code == TFC_ENOMEM);
}

bool tfc__home_add(struct tfc__homes *homes, struct tfc__remote_request *remote_request,
		   const char *node_id)
{
	struct tfc__home *home = calloc(1, sizeof(*home));
	tfc_error error = TFC_ERROR_INIT;
	if (!home) {
		tfc__fail_nomem(&error, "gateway");
		tfc__remote_request_fail(remote_request, &error);
		return false;
	}
	snprintf(home->node_id, sizeof(home->node_id), "%s", node_id ? node_id : "");
	home->homes = homes;
	home->remote_request = remote_request;
	tfc__timer_init(&home->retry, homes->ctx, home_on_retry);
	tfc__timer_init(&home->patience, homes->ctx, home_on_timeout);
	remote_request->home = home;
	remote_request->free_home = home_free;
	remote_request->before_send = home_before_send;
	remote_request->is_outcome_unknown = home_is_outcome_unknown;
	return true;
}

/* ---- state */

bool tfc__home_is_queried(const struct tfc__remote_request *remote_request)
{
	return remote_request->home && remote_request->home->patience.at;
}

bool tfc__home_is_paused(const struct tfc__remote_request *remote_request)
{
	return remote_request->home && remote_request->home->retry.at;
}

bool tfc__home_is_here(const struct tfc__remote_request *remote_request)
{
	return remote_request->home && home_is_here(remote_request->home);
}
