/*
 * One connection, established with the first request, and re-established when it is lost while
 * requests or subscriptions wait. A request may be sent twice: it takes effect once, so a request
 * whose response was lost is repeated. The exceptions are STOP and FORGET by name, because another
 * job may have the name by then, and SIGNAL, because another attempt may run by then. A submit is
 * sent to its home only (home.c), directly or through the node that is connected.
 */
#include "gateway/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tfcluster/version.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/names.h"
#include "base/strv.h"
#include "cluster/record.h"
#include "gateway/heartbeat.h"
#include "gateway/home.h"
#include "gateway/remote_request.h"
#include "gateway/remote_sub.h"
#include "gateway/request_params.h"
#include "job/job.h"
#include "transport/peer.h"

#define DELAY_FIRST (100 * TFC__MS)
#define DELAY_MAX (2 * TFC__SECOND)
#define ROUNDS_MAX 6 /* over all addresses, for one request after the connection was lost */
#define TRIES_MAX 4  /* connections lost during one request */
#define TEMP_DIR "/tmp"
#define WINDOW 8      /* items of a subscription in flight or buffered here */
#define HELLO_MS 5000 /* if there is another address to try */

struct remote_gateway {
	tfc_gateway base;
	struct tfc__strv addresses;
	size_t at;      /* the address that is being tried or used */
	char *key_file; /* NULL: none */
	struct tfc__keyring *keyring;
	uint32_t connect_ms;
	uint32_t reconnect_ms;
	struct tfc__peer *peer; /* NULL: neither connected nor connecting */
	bool is_up;
	bool was_up;
	bool is_known; /* the node at the other end has responded to the hello */
	struct tfc__rpc_call *hello;
	struct tfc__heartbeat heartbeat; /* while a subscription is open */
	size_t failed;                   /* addresses that failed in this round */
	uint32_t rounds;
	struct tfc__buf tried; /* their errors */
	struct tfc__timer redial;
	struct tfc__timer silence; /* while it connects: until the address counts as silent */
	uint64_t delay;
	struct tfc__link remote_requests; /* that wait for a connection */
	struct tfc__route route;
	struct tfc__uploads uploads;
	struct tfc__homes homes;
};

static struct remote_gateway *remote_gateway_of(tfc_gateway *gateway)
{
	return tfc__container_of(gateway, struct remote_gateway, base);
}

static void remote_gateway_dial(struct remote_gateway *gateway);
static void send_when_connected(struct remote_gateway *gateway,
				struct tfc__remote_request *remote_request);

/* ---- requests and subscriptions that wait for the connection */

static void fail_waiting(struct remote_gateway *gateway, const tfc_error *error)
{
	bool is_final = !gateway->was_up || error->code == TFC_EACCES ||
			error->code == TFC_ENOTSUP || error->code == TFC_EINVAL ||
			error->code == TFC_EAGAIN || gateway->rounds >= ROUNDS_MAX;
	TFC__LIST_EACH (link, &gateway->remote_requests) {
		struct tfc__remote_request *remote_request =
			tfc__container_of(link, struct tfc__remote_request, link);
		if (tfc__home_is_queried(remote_request))
			tfc__home_note_wait(remote_request, error);
		else if (is_final)
			tfc__remote_request_fail(remote_request, error);
	}
	TFC__LIST_EACH (link, &gateway->base.subs)
		tfc__remote_sub_down(tfc__container_of(link, tfc_sub, link), error);
}

static void begin_heartbeat(struct remote_gateway *gateway)
{
	if (gateway->is_up && !tfc__list_is_empty(&gateway->base.subs))
		tfc__heartbeat_begin(&gateway->heartbeat, tfc__peer_rpc(gateway->peer));
}

static void serve_waiting(struct remote_gateway *gateway)
{
	struct tfc__rpc *rpc = tfc__peer_rpc(gateway->peer);
	struct tfc__link waiting;
	tfc__list_init(&waiting);
	tfc__list_move(&waiting, &gateway->remote_requests);
	while (!tfc__list_is_empty(&waiting)) {
		struct tfc__link *link = waiting.next;
		tfc__list_remove(link);
		send_when_connected(gateway,
				    tfc__container_of(link, struct tfc__remote_request, link));
	}
	TFC__LIST_EACH (link, &gateway->base.subs)
		tfc__remote_sub_up(tfc__container_of(link, tfc_sub, link), rpc);
	begin_heartbeat(gateway);
}

static void remote_gateway_connect(struct remote_gateway *gateway)
{
	if (!gateway->peer && !gateway->redial.at)
		remote_gateway_dial(gateway);
}

/* ---- the connection */

/* The server of a unix socket must be trusted: this user, root, or the owner of the directory. */
static int check_server_user(const struct remote_gateway *gateway, tfc_error *error)
{
	const char *address = gateway->addresses.items[gateway->at];
	const struct tfc__peer_id *id = tfc__peer_id(gateway->peer);
	struct stat status = {.st_uid = 0};
	if (strncmp(address, "unix:", 5) != 0 || id->uid == 0 || id->uid == geteuid())
		return TFC_OK;
	char *dir = strdup(address + 5);
	if (!dir)
		return tfc__fail_nomem(error, "gateway");
	char *slash = strrchr(dir, '/');
	if (slash)
		*slash = '\0';
	bool is_owner = slash && slash != dir && stat(dir, &status) == 0 &&
			status.st_uid == id->uid;
	free(dir);
	if (is_owner)
		return TFC_OK;
	return tfc__fail(error, TFC_EACCES, "gateway", 0,
			 "cannot connect to \"%.100s\": its server runs as user %u, who is neither "
			 "this user, nor root, nor the owner of its directory",
			 address, id->uid);
}

/* Whether the node or the address is wrong. A failure with another code says it by itself. */
static const char *failed_address_hint(const tfc_error *why)
{
	switch (why->code) {
	case TFC_EUNREACH:
		return why->sys_errno == ECONNREFUSED
			       ? " (no node listens on this port: start the node, or correct the "
				 "address)"
			       : " (the host is down or the address is wrong)";
	case TFC_ETIMEDOUT:
		return " (the host or its node is down or stopped, a firewall is in between, or "
		       "the address is wrong)";
	case TFC_EPARSE:
		return " (another program listens on this port: correct the address)";
	default:
		return "";
	}
}

static void use_next_address(struct remote_gateway *gateway)
{
	gateway->at = (gateway->at + 1) % gateway->addresses.count;
}

static void note_failed_address(struct remote_gateway *gateway, const tfc_error *why)
{
	const char *address = gateway->addresses.items[gateway->at];
	bool is_named = strstr(why->text, address), is_tcp = strncmp(address, "tcp:", 4) == 0;
	tfc__buf_addf(&gateway->tried, "%s%s%s%s%s", gateway->tried.len ? "; " : "",
		      is_named ? "" : address, is_named ? "" : ": ", why->text,
		      is_tcp ? failed_address_hint(why) : "");
	use_next_address(gateway);
	gateway->failed++;
}

static void remote_gateway_end_round(struct remote_gateway *gateway, int code)
{
	tfc_error error = TFC_ERROR_INIT;
	uint64_t now = tfc__now();
	/* A node that is shutting down or starting closes connections, too. If this gateway was
	 * connected before, TFC_EACCES is considered temporary. */
	bool is_passing = code == TFC_ELOST || code == TFC_ETIMEDOUT ||
			  (code == TFC_EACCES && gateway->was_up);
	tfc__fail(&error, is_passing ? TFC_EUNREACH : code, "gateway", 0,
		  "cannot reach a gateway: %s",
		  gateway->tried.data ? gateway->tried.data : "out of memory");
	tfc__buf_clear(&gateway->tried);
	gateway->tried.is_failed = false;
	gateway->failed = 0;
	gateway->rounds++;
	gateway->delay = gateway->delay ? gateway->delay * 2 : DELAY_FIRST;
	if (gateway->delay > DELAY_MAX)
		gateway->delay = DELAY_MAX;
	fail_waiting(gateway, &error);
	if (!tfc__list_is_empty(&gateway->remote_requests))
		tfc__timer_set(&gateway->redial, now + gateway->delay);
}

static void remote_gateway_disconnect(struct remote_gateway *gateway)
{
	if (gateway->hello)
		tfc__rpc_drop(gateway->hello);
	gateway->hello = NULL;
	tfc__heartbeat_end(&gateway->heartbeat);
	tfc__timer_cancel(&gateway->silence);
	tfc__peer_close(gateway->peer);
	gateway->peer = NULL;
	gateway->is_up = gateway->is_known = false;
}

static void remote_gateway_on_down(struct tfc__peer *peer, void *user, const tfc_error *why)
{
	struct remote_gateway *gateway = user;
	tfc_error copy = *why;
	/* A node at its limit of clients reports that after the hello has been sent. */
	bool was_up = gateway->is_up && why->code != TFC_EAGAIN;
	remote_gateway_disconnect(gateway);
	if (was_up) { /* pending calls fail by themselves and are repeated */
		gateway->rounds = 0;
		if (!tfc__list_is_empty(&gateway->remote_requests))
			tfc__timer_set(&gateway->redial, tfc__now());
		return;
	}
	note_failed_address(gateway, &copy);
	if (gateway->failed < gateway->addresses.count)
		tfc__timer_set(&gateway->redial, tfc__now());
	else
		remote_gateway_end_round(gateway, copy.code);
}

static void remote_gateway_on_up(struct tfc__peer *peer, void *user)
{
	struct remote_gateway *gateway = user;
	tfc_error error = TFC_ERROR_INIT;
	if (check_server_user(gateway, &error) < 0) {
		remote_gateway_on_down(peer, gateway, &error);
		return;
	}
	tfc__timer_cancel(&gateway->silence);
	gateway->is_up = gateway->was_up = true;
	gateway->route.patience_ms = gateway->reconnect_ms;
	gateway->delay = 0;
	gateway->failed = 0;
	gateway->rounds = 0;
	tfc__buf_clear(&gateway->tried);
	serve_waiting(gateway);
}

/* A node makes no calls to its clients. */
static void remote_gateway_on_serve(struct tfc__peer *peer, void *user,
				    struct tfc__rpc_request *request, const char *method,
				    const msgpack_object *params)
{
	tfc_error error = TFC_ERROR_INIT;
	if (!request)
		return;
	tfc__fail(&error, TFC_ENOTSUP, "gateway", 0, "a client serves no requests");
	tfc__rpc_fail(request, &error);
}

/* The keys may have been replaced since. If they cannot be read, the earlier ones remain. */
static void remote_gateway_reload_keys(struct remote_gateway *gateway)
{
	struct tfc__keyring *ring = NULL;
	tfc_error error = TFC_ERROR_INIT;
	if (gateway->key_file && tfc__keyring_load(gateway->key_file, &error, &ring) == TFC_OK)
		tfc__keyring_replace(gateway->keyring, ring);
}

static void remote_gateway_dial(struct remote_gateway *gateway)
{
	static const struct tfc__peer_ops ops = {remote_gateway_on_up, remote_gateway_on_serve,
						 remote_gateway_on_down};
	const struct tfc__dial_options options = {
		.address = gateway->addresses.items[gateway->at],
		.keyring = gateway->keyring,
		.timeout_ms = gateway->connect_ms,
	};
	tfc_error error = TFC_ERROR_INIT;
	remote_gateway_reload_keys(gateway);
	tfc__timer_set(&gateway->silence, tfc__now() + TFC__SILENT_S * TFC__SECOND);
	int code = tfc__peer_dial(gateway->base.ctx, &options, &ops, gateway, &error,
				  &gateway->peer);
	if (code == TFC_OK)
		return;
	tfc__timer_cancel(&gateway->silence);
	gateway->peer = NULL;
	note_failed_address(gateway, &error);
	if (gateway->failed < gateway->addresses.count)
		tfc__timer_set(&gateway->redial, tfc__now());
	else
		remote_gateway_end_round(gateway, code);
}

static void remote_gateway_on_redial(struct tfc__timer *timer)
{
	struct remote_gateway *gateway = tfc__container_of(timer, struct remote_gateway, redial);
	if (!gateway->peer)
		remote_gateway_dial(gateway);
}

/* ---- heartbeats */

static void set_silent_error(const struct remote_gateway *gateway, tfc_error *error)
{
	const char *node = gateway->heartbeat.node;
	tfc__fail(error, TFC_ETIMEDOUT, "gateway", 0, "no response from %s%s for %u s",
		  node[0] ? "node " : "", node[0] ? node : gateway->addresses.items[gateway->at],
		  TFC__SILENT_S);
}

static void report_silence(struct remote_gateway *gateway)
{
	const char *node = gateway->heartbeat.node;
	tfc_error silent = TFC_ERROR_INIT;
	set_silent_error(gateway, &silent);
	TFC__LIST_EACH (link, &gateway->base.subs)
		tfc__remote_sub_set_silent(tfc__container_of(link, tfc_sub, link), node, &silent);
}

static void remote_gateway_on_silence(struct tfc__timer *timer)
{
	report_silence(tfc__container_of(timer, struct remote_gateway, silence));
}

static bool heartbeat_is_needed(struct tfc__heartbeat *heartbeat)
{
	struct remote_gateway *gateway = tfc__container_of(heartbeat, struct remote_gateway,
							   heartbeat);
	TFC__LIST_EACH (link, &gateway->base.subs)
		if (tfc__remote_sub_rpc(tfc__container_of(link, tfc_sub, link), &gateway->route))
			return true;
	return false;
}

/* Leaves a silent node for the next address. If there is none, the connection is kept: the node may
 * respond again. Both are reported at once: the other nodes may be silent, too. */
static void heartbeat_on_change(struct tfc__heartbeat *heartbeat)
{
	struct remote_gateway *gateway = tfc__container_of(heartbeat, struct remote_gateway,
							   heartbeat);
	if (!heartbeat->is_silent) {
		TFC__LIST_EACH (link, &gateway->base.subs)
			tfc__remote_sub_set_responding(tfc__container_of(link, tfc_sub, link));
		return;
	}
	report_silence(gateway);
	if (gateway->addresses.count > 1) {
		tfc_error silent = TFC_ERROR_INIT;
		set_silent_error(gateway, &silent);
		use_next_address(gateway);
		tfc__peer_end(gateway->peer, &silent);
	}
}

/* ---- hello */

/* Nodes of 0.2 do not know gateway.hello; its requests were others. */
static void set_version_error(const struct remote_gateway *gateway, tfc_error *error)
{
	uint32_t own = tfc_version(), node = tfc__rpc_peer_version(tfc__peer_rpc(gateway->peer));
	tfc__fail(
		error, TFC_ENOTSUP, "gateway", 0,
		"incompatible versions: node \"%.100s\" has %u.%u.%u and the client has %u.%u.%u; "
		"update the node",
		gateway->addresses.items[gateway->at], node >> 16, node >> 8 & 0xff, node & 0xff,
		own >> 16, own >> 8 & 0xff, own & 0xff);
}

static void remote_gateway_on_hello(void *user, int code, const msgpack_object *result,
				    const tfc_error *error)
{
	struct remote_gateway *gateway = user;
	struct tfc__server *server = &gateway->homes.server;
	tfc_error why = error ? *error : (tfc_error)TFC_ERROR_INIT;
	gateway->hello = NULL;
	if (code == TFC_OK)
		code = tfc__fields_read(NULL, &tfc__server_fields, result, &why, server);
	if (code == TFC_ENOTSUP)
		set_version_error(gateway, &why);
	if (code < 0) {
		gateway->is_up = false; /* no request was sent to it: another address may work */
		remote_gateway_on_down(gateway->peer, gateway, &why);
		return;
	}
	gateway->is_known = true;
	serve_waiting(gateway);
}

static int remote_gateway_send_hello(struct remote_gateway *gateway, tfc_error *error)
{
	const struct tfc__rpc_options call = {
		.method = TFC__METHOD_HELLO,
		.timeout_ms = gateway->addresses.count > 1 ? HELLO_MS : 0,
		.end = remote_gateway_on_hello,
		.user = gateway,
	};
	return gateway->hello
		       ? TFC_OK
		       : tfc__rpc_call(tfc__peer_rpc(gateway->peer), &call, error, &gateway->hello);
}

/* ---- repeated submits */

/* Whether closing the connection affects only submits that back off before they are repeated. */
static bool has_only_paused_submits(const struct remote_gateway *gateway,
				    const struct tfc__remote_request *except)
{
	TFC__LIST_EACH (link, &gateway->base.requests) {
		const struct tfc__request *request = tfc__container_of(link, struct tfc__request,
								       link);
		const struct tfc__remote_request *remote_request = request->cancel ? request->impl
										   : except;
		if (remote_request != except && !tfc__home_is_paused(remote_request))
			return false;
	}
	return tfc__list_is_empty(&gateway->base.subs);
}

/* The connected node could not reach the home: the next address may be or reach the home.
 */
static void retry_submit(struct tfc__remote_request *remote_request)
{
	struct remote_gateway *gateway = remote_request->owner;
	if (gateway->is_known && !tfc__home_is_here(remote_request) &&
	    gateway->addresses.count > 1 && has_only_paused_submits(gateway, remote_request)) {
		remote_gateway_disconnect(gateway);
		use_next_address(gateway);
	}
	send_when_connected(gateway, remote_request);
}

/* ---- requests */

static void send_when_connected(struct remote_gateway *gateway,
				struct tfc__remote_request *remote_request)
{
	tfc_error error = TFC_ERROR_INIT;
	if (gateway->is_up && !remote_request->home) {
		tfc__remote_request_send(remote_request, tfc__peer_rpc(gateway->peer));
	} else if (gateway->is_up && gateway->is_known) {
		tfc__home_send(remote_request, tfc__peer_rpc(gateway->peer));
	} else {
		tfc__list_append(&gateway->remote_requests, &remote_request->link);
		if (!gateway->is_up)
			remote_gateway_connect(gateway);
		else if (remote_gateway_send_hello(gateway, &error) < 0 && error.code != TFC_ELOST)
			tfc__remote_request_fail(remote_request, &error);
	}
}

static void on_request_lost(struct tfc__remote_request *remote_request, const tfc_error *error)
{
	remote_request->tries++;
	if (tfc__home_retry(remote_request, error))
		return;
	if (remote_request->is_once || remote_request->tries >= TRIES_MAX)
		tfc__remote_request_fail(remote_request, error);
	else
		send_when_connected(remote_request->owner, remote_request);
}

static void on_request_packed(struct tfc__remote_request *remote_request)
{
	send_when_connected(remote_request->owner, remote_request);
}

static void remote_gateway_handle(tfc_gateway *gateway, const struct tfc__request_params *params,
				  struct tfc__request *request)
{
	struct tfc__request_params own_params = *params;
	char key[33] = "";
	bool is_submit = params->verb == TFC_VERB_SUBMIT;
	if (is_submit && !(params->client_key && *params->client_key)) {
		if (tfc__random_hex(key) < 0 || tfc__random_hex(key + 16) < 0) {
			tfc__request_end(request, tfc__fail_errno(&request->error, "gateway", errno,
								  "cannot get random bytes"));
			return;
		}
		own_params.client_key = key;
	}
	struct tfc__remote_request *remote_request = tfc__remote_request_new(request, &own_params);
	if (!remote_request)
		return;
	remote_request->owner = remote_gateway_of(gateway);
	remote_request->lost = on_request_lost;
	remote_request->is_once = params->verb == TFC_VERB_SIGNAL ||
				  ((params->verb == TFC_VERB_FORGET ||
				    params->verb == TFC_VERB_STOP) &&
				   !tfc__is_job_id(params->job));
	remote_request->packed = on_request_packed;
	if (is_submit &&
	    !tfc__home_add(&remote_gateway_of(gateway)->homes, remote_request, params->home))
		return;
	if (tfc__request_params_brings_bundle(params))
		tfc__remote_request_add_bundle(remote_request, &remote_gateway_of(gateway)->uploads,
					       params->definition->bundle);
	else
		send_when_connected(remote_gateway_of(gateway), remote_request);
}

/* ---- subscriptions */

static void remote_gateway_find_route(struct tfc__route *route, struct tfc__remote_sub *sub,
				      const char *job)
{
	struct remote_gateway *gateway = tfc__container_of(route, struct remote_gateway, route);
	tfc_error silent = TFC_ERROR_INIT;
	if (gateway->is_up)
		tfc__remote_sub_begin(sub, tfc__peer_rpc(gateway->peer), job);
	else
		remote_gateway_connect(gateway);
	begin_heartbeat(gateway);
	if (!gateway->heartbeat.is_silent)
		return;
	set_silent_error(gateway, &silent);
	tfc__remote_sub_set_silent(tfc__remote_sub_base(sub), gateway->heartbeat.node, &silent);
}

static int remote_gateway_subscribe(tfc_gateway *gateway, const char *job,
				    const tfc_subscribe_options *options, tfc_event_fn fn,
				    void *user, tfc_error *error, tfc_sub **ret_sub)
{
	return tfc__remote_subscribe(gateway->ctx, &gateway->subs,
				     &remote_gateway_of(gateway)->route, job, options, false, fn,
				     user, error, ret_sub);
}

static int remote_gateway_watch(tfc_gateway *gateway, const tfc_watch_options *options,
				tfc_event_fn fn, void *user, tfc_error *error, tfc_sub **ret_sub)
{
	const tfc_subscribe_options known = {
		.size = sizeof(known),
		.cursor = options->cursor,
		.wants_live = options->wants_live,
	};
	return tfc__remote_subscribe(gateway->ctx, &gateway->subs,
				     &remote_gateway_of(gateway)->route, NULL, &known, false, fn,
				     user, error, ret_sub);
}

/* ---- calls of other modules */

/* Subscriptions keep the connection. The caller tries again. */
static void remote_gateway_connect_node(tfc_gateway *base, const char *node,
					struct tfc__member_wait *wait)
{
	const struct remote_gateway *gateway = remote_gateway_of(base);
	tfc_error error = TFC_ERROR_INIT;
	(void)node;
	if (gateway->is_up) {
		wait->fn(wait, tfc__peer_rpc(gateway->peer), NULL);
		return;
	}
	tfc__fail(&error, TFC_EAGAIN, "gateway", 0, "the gateway is not connected");
	wait->fn(wait, NULL, &error);
}

/* ---- opening and closing */

static void remote_gateway_close(tfc_gateway *base)
{
	struct remote_gateway *gateway = remote_gateway_of(base);
	tfc__timer_cancel(&gateway->redial);
	remote_gateway_disconnect(gateway);
	tfc__keyring_free(gateway->keyring);
	free(gateway->key_file);
	tfc__strv_fini(&gateway->addresses);
	tfc__buf_fini(&gateway->tried);
	tfc__uploads_fini(&gateway->uploads);
	free(gateway);
}

static int split_addresses(struct tfc__strv *addresses, const char *text, tfc_error *error)
{
	while (*text) {
		size_t len = strcspn(text, ",");
		if (len == 0)
			return tfc__fail(error, TFC_EINVAL, "gateway", 0,
					 "tfc_gateway_options.address contains an empty address");
		tfc__strv_take(addresses, strndup(text, len));
		text += len + (text[len] == ',');
	}
	if (addresses->is_failed)
		return tfc__fail_nomem(error, "gateway");
	if (!addresses->count)
		return tfc__fail(error, TFC_EINVAL, "gateway", 0,
				 "tfc_gateway_options.address is empty");
	return TFC_OK;
}

int tfc__remote_gateway_new(tfc_ctx *ctx, const tfc_gateway_options *options, tfc_error *error,
			    tfc_gateway **ret_gateway)
{
	static const struct tfc__gateway_ops ops = {
		.handle = remote_gateway_handle,
		.subscribe = remote_gateway_subscribe,
		.watch = remote_gateway_watch,
		.connect = remote_gateway_connect_node,
		.close = remote_gateway_close,
	};
	struct remote_gateway *gateway = calloc(1, sizeof(*gateway));
	if (!gateway)
		return tfc__fail_nomem(error, "gateway");
	tfc__gateway_init(&gateway->base, ctx, &ops);
	tfc__list_init(&gateway->remote_requests);
	tfc__timer_init(&gateway->redial, ctx, remote_gateway_on_redial);
	tfc__timer_init(&gateway->silence, ctx, remote_gateway_on_silence);
	tfc__heartbeat_init(&gateway->heartbeat, ctx);
	gateway->heartbeat.is_needed = heartbeat_is_needed;
	gateway->heartbeat.changed = heartbeat_on_change;
	gateway->connect_ms = options->connect_ms;
	gateway->reconnect_ms = options->reconnect_ms ? options->reconnect_ms : TFC__RECONNECT_MS;
	gateway->homes.ctx = ctx;
	gateway->homes.patience_ms = gateway->reconnect_ms;
	gateway->homes.send = retry_submit;
	gateway->route.find = remote_gateway_find_route;
	gateway->route.window = WINDOW;
	int code = split_addresses(&gateway->addresses, options->address, error);
	gateway->uploads.ctx = ctx;
	gateway->uploads.temp_dir = strdup(options->temp_dir ? options->temp_dir : TEMP_DIR);
	if (code == TFC_OK && !gateway->uploads.temp_dir)
		code = tfc__fail_nomem(error, "gateway");
	if (code == TFC_OK && options->key_file) {
		gateway->key_file = strdup(options->key_file);
		code = gateway->key_file
			       ? tfc__keyring_load(options->key_file, error, &gateway->keyring)
			       : tfc__fail_nomem(error, "gateway");
	}
	if (code < 0) {
		remote_gateway_close(&gateway->base);
		return code;
	}
	*ret_gateway = &gateway->base;
	return TFC_OK;
}
