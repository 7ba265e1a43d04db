/*
 * One connection, made when something is asked for and made again when it is lost while something
 * waits. A question may be put twice: what it asks for is done once all the same, so a lost reply
 * is asked for again. But when a job was forgotten by its name, another one may have the name. And
 * a submit is put to its home alone, which knows it by its client key: directly, or through the
 * node that is connected.
 */
#include "gateway/remote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/names.h"
#include "base/strv.h"
#include "cluster/record.h"
#include "gateway/errand.h"
#include "gateway/question.h"
#include "gateway/remote_sub.h"
#include "job/job.h"
#include "transport/peer.h"

#define RECONNECT_MS 300000
#define DELAY_FIRST (100 * TFC__MS)
#define DELAY_MAX (2 * TFC__SECOND)
#define ROUNDS_MAX 6 /* over all addresses, for one question after the connection was lost */
#define TRIES_MAX 4  /* connections that are lost under one question */
#define TEMP_DIR "/tmp"
#define HELLO_MS 5000 /* where there is another address */

#define NAME_SIZE 64

/* Of a submit under way. */
struct tfc__home {
	char node_id[TFC__NODE_ID_SIZE]; /* "": nothing was sent to anybody */
	char name[NAME_SIZE];            /* "": it was never connected */
	bool is_written;                 /* at the end of the params, which stay as they are */
	bool wants_bundle;               /* it was asked again, and has neither job nor bundle */
	bool is_wait_logged;
	uint64_t waits_since; /* tfc__now: when it could not be asked first */
	uint64_t delay;
	struct tfc__errand *errand;
	struct tfc__timer again;    /* then it is asked again */
	struct tfc__timer patience; /* then it is given up; not set while a bundle goes there */
	tfc_error why;              /* it could not be asked last */
};

struct remote_gateway {
	tfc_gateway base;
	struct tfc__strv addresses;
	size_t at; /* the one that is tried, or used */
	struct tfc__keyring *keyring;
	uint32_t connect_ms;
	uint32_t reconnect_ms;
	struct tfc__peer *peer; /* NULL: neither connected nor connecting */
	bool is_up;
	bool was_up;
	bool is_known; /* who is at the other end: it has answered our hello */
	bool is_old;   /* ... by not knowing it, as 0.2: it has no home, and passes no submit on */
	char node_id[TFC__NODE_ID_SIZE];
	char node_name[NAME_SIZE];
	struct tfc__rpc_call *hello;
	size_t failed; /* addresses tried in vain in this round */
	uint32_t rounds;
	struct tfc__buf tried; /* what came of them */
	struct tfc__timer redial;
	uint64_t delay;
	struct tfc__link errands; /* that wait for a connection */
	struct tfc__route route;
	struct tfc__uploads uploads;
};

static struct remote_gateway *of(tfc_gateway *gateway)
{
	return tfc__container_of(gateway, struct remote_gateway, base);
}

static void dial(struct remote_gateway *gateway);
static void wait_for_connection(struct remote_gateway *gateway, struct tfc__errand *errand);

/* ---- what waits for the connection */

/* A home that is back at once is not worth a line. */
static void note_wait(struct remote_gateway *gateway, struct tfc__home *home, const tfc_error *why)
{
	home->why = *why;
	if (!home->waits_since)
		home->waits_since = tfc__now();
	if (home->is_wait_logged || tfc__now() - home->waits_since < TFC__QUIET_NS)
		return;
	home->is_wait_logged = true;
	tfc__log(gateway->base.ctx, TFC_LOG_WARNING, "gateway", "",
		 "node %s, which may have made the job, cannot be asked; waiting for it (%u s at "
		 "most): %s",
		 home->name[0] ? home->name : home->node_id, gateway->reconnect_ms / 1000,
		 home->why.text);
}

static void fail_waiting(struct remote_gateway *gateway, const tfc_error *error)
{
	bool is_final = !gateway->was_up || error->code == TFC_EACCES ||
			error->code == TFC_ENOTSUP || error->code == TFC_EINVAL ||
			error->code == TFC_EAGAIN || gateway->rounds >= ROUNDS_MAX;
	TFC__LIST_EACH (link, &gateway->errands) {
		struct tfc__errand *errand = tfc__container_of(link, struct tfc__errand, link);
		if (errand->home && errand->home->patience.at)
			note_wait(gateway, errand->home, error);
		else if (is_final)
			tfc__errand_fail(errand, error);
	}
	TFC__LIST_EACH (link, &gateway->base.subs)
		tfc__remote_sub_down(tfc__container_of(link, tfc_sub, link), error);
}

static void serve_waiting(struct remote_gateway *gateway)
{
	struct tfc__rpc *rpc = tfc__peer_rpc(gateway->peer);
	struct tfc__link waiting;
	tfc__list_init(&waiting);
	tfc__list_move(&waiting, &gateway->errands);
	while (!tfc__list_is_empty(&waiting)) {
		struct tfc__link *link = waiting.next;
		tfc__list_remove(link);
		wait_for_connection(gateway, tfc__container_of(link, struct tfc__errand, link));
	}
	TFC__LIST_EACH (link, &gateway->base.subs)
		tfc__remote_sub_kick(tfc__container_of(link, tfc_sub, link), rpc);
}

static void want(struct remote_gateway *gateway)
{
	if (!gateway->peer && !gateway->redial.at)
		dial(gateway);
}

/* ---- the connection */

/* Whoever listens there must be somebody to trust: we, root, or the owner of the directory. */
static int check_server(const struct remote_gateway *gateway, tfc_error *error)
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
	bool is_owner = slash && slash != dir && (*slash = '\0', stat(dir, &status) == 0) &&
			status.st_uid == id->uid;
	free(dir);
	if (is_owner)
		return TFC_OK;
	return tfc__fail(error, TFC_EACCES, "gateway", 0,
			 "the server at %.100s runs as uid %u, who is neither you nor root nor the "
			 "owner of its directory",
			 address, id->uid);
}

static void note_failure(struct remote_gateway *gateway, const tfc_error *why)
{
	const char *address = gateway->addresses.items[gateway->at];
	bool is_named = strstr(why->text, address);
	tfc__buf_addf(&gateway->tried, "%s%s%s%s", gateway->tried.len ? "; " : "",
		      is_named ? "" : address, is_named ? "" : ": ", why->text);
	gateway->at = (gateway->at + 1) % gateway->addresses.count;
	gateway->failed++;
}

static void end_round(struct remote_gateway *gateway, int code)
{
	tfc_error error = TFC_ERROR_INIT;
	uint64_t now = tfc__now();
	/* One that is about to end or to begin closes connections, too: who was let in tries on. */
	bool is_passing = code == TFC_ELOST || code == TFC_ETIMEDOUT ||
			  (code == TFC_EACCES && gateway->was_up);
	tfc__fail(&error, is_passing ? TFC_EUNREACH : code, "gateway", 0,
		  "no answer from a gateway: %s",
		  gateway->tried.data ? gateway->tried.data : "out of memory");
	tfc__buf_clear(&gateway->tried);
	gateway->tried.is_failed = false;
	gateway->failed = 0;
	gateway->rounds++;
	gateway->delay = gateway->delay ? gateway->delay * 2 : DELAY_FIRST;
	if (gateway->delay > DELAY_MAX)
		gateway->delay = DELAY_MAX;
	fail_waiting(gateway, &error);
	if (!tfc__list_is_empty(&gateway->errands))
		tfc__timer_set(&gateway->redial, now + gateway->delay);
}

static void hang_up(struct remote_gateway *gateway)
{
	if (gateway->hello)
		tfc__rpc_drop(gateway->hello);
	gateway->hello = NULL;
	tfc__peer_close(gateway->peer);
	gateway->peer = NULL;
	gateway->is_up = gateway->is_known = false;
}

static void on_down(struct tfc__peer *peer, void *user, const tfc_error *why)
{
	struct remote_gateway *gateway = user;
	tfc_error copy = *why;
	/* A node that has no room for another client says so behind its hello. */
	bool was_up = gateway->is_up && why->code != TFC_EAGAIN;
	hang_up(gateway);
	if (was_up) { /* what was under way says itself that it is lost, and wants another one */
		gateway->rounds = 0;
		if (!tfc__list_is_empty(&gateway->errands))
			tfc__timer_set(&gateway->redial, tfc__now());
		return;
	}
	note_failure(gateway, &copy);
	if (gateway->failed < gateway->addresses.count)
		tfc__timer_set(&gateway->redial, tfc__now());
	else
		end_round(gateway, copy.code);
}

static void on_up(struct tfc__peer *peer, void *user)
{
	struct remote_gateway *gateway = user;
	tfc_error error = TFC_ERROR_INIT;
	if (check_server(gateway, &error) < 0) {
		on_down(peer, gateway, &error);
		return;
	}
	gateway->is_up = gateway->was_up = true;
	gateway->route.patience_ms = gateway->reconnect_ms;
	gateway->delay = 0;
	gateway->failed = 0;
	gateway->rounds = 0;
	tfc__buf_clear(&gateway->tried);
	serve_waiting(gateway);
}

/* A node asks its clients nothing. */
static void on_serve(struct tfc__peer *peer, void *user, struct tfc__rpc_request *request,
		     const char *method, const msgpack_object *params)
{
	tfc_error error = TFC_ERROR_INIT;
	if (!request)
		return;
	tfc__fail(&error, TFC_ENOTSUP, "gateway", 0, "a client answers no calls");
	tfc__rpc_fail(request, &error);
}

static void dial(struct remote_gateway *gateway)
{
	static const struct tfc__peer_ops ops = {on_up, on_serve, on_down};
	const struct tfc__dial_options options = {
		.address = gateway->addresses.items[gateway->at],
		.keyring = gateway->keyring,
		.timeout_ms = gateway->connect_ms,
	};
	tfc_error error = TFC_ERROR_INIT;
	int code = tfc__peer_dial(gateway->base.ctx, &options, &ops, gateway, &gateway->peer,
				  &error);
	if (code == TFC_OK)
		return;
	gateway->peer = NULL;
	note_failure(gateway, &error);
	if (gateway->failed < gateway->addresses.count)
		tfc__timer_set(&gateway->redial, tfc__now());
	else
		end_round(gateway, code);
}

static void on_redial(struct tfc__timer *timer)
{
	struct remote_gateway *gateway = tfc__container_of(timer, struct remote_gateway, redial);
	if (!gateway->peer)
		dial(gateway);
}

/* ---- who is at the other end */

static void on_hello(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	struct remote_gateway *gateway = user;
	const struct tfc__peer_id *id = tfc__peer_id(gateway->peer);
	gateway->hello = NULL;
	if (code < 0 && code != TFC_ENOTSUP) {
		gateway->is_up = false; /* nothing was sent to it: another one may answer */
		on_down(gateway->peer, gateway, error);
		return;
	}
	gateway->is_known = true;
	gateway->is_old =
		code < 0 ||
		!tfc__msg_get_text(result, "node_id", gateway->node_id, sizeof(gateway->node_id)) ||
		!tfc__msg_get_text(result, "name", gateway->node_name, sizeof(gateway->node_name));
	if (gateway->is_old) {
		memcpy(gateway->node_id, id->node_id, sizeof(gateway->node_id));
		gateway->node_name[0] = '\0';
	}
	serve_waiting(gateway);
}

static int say_hello(struct remote_gateway *gateway, tfc_error *error)
{
	const struct tfc__rpc_options call = {
		.method = TFC__METHOD_HELLO,
		.timeout_ms = gateway->addresses.count > 1 ? HELLO_MS : 0,
		.end = on_hello,
		.user = gateway,
	};
	return gateway->hello
		       ? TFC_OK
		       : tfc__rpc_call(tfc__peer_rpc(gateway->peer), &call, &gateway->hello, error);
}

/* ---- the home of a submit */

static void free_home(struct tfc__home *home)
{
	tfc__timer_cancel(&home->again);
	tfc__timer_cancel(&home->patience);
	free(home);
}

static bool is_home(const struct remote_gateway *gateway, const struct tfc__home *home)
{
	return strcmp(home->node_id, gateway->node_id) == 0;
}

static void begin_patience(const struct remote_gateway *gateway, struct tfc__home *home)
{
	if (!home->patience.at)
		tfc__timer_set(&home->patience, tfc__now() + gateway->reconnect_ms * TFC__MS);
}

/* The first byte of it makes this node its home, unless it has one. */
static void on_putting(struct tfc__errand *errand)
{
	struct remote_gateway *gateway = errand->owner;
	struct tfc__home *home = errand->home;
	if (!home->node_id[0]) {
		memcpy(home->node_id, gateway->node_id, sizeof(home->node_id));
		errand->is_once = gateway->is_old;
	}
	if (is_home(gateway, home))
		memcpy(home->name, gateway->node_name, sizeof(home->name));
	if (!home->is_written)
		tfc__question_write_home(&errand->params, home->node_id);
	home->is_written = true;
	memcpy(errand->request->home, home->node_id, sizeof(home->node_id));
	begin_patience(gateway, home);
}

static void on_impatience(struct tfc__timer *timer)
{
	struct tfc__home *home = tfc__container_of(timer, struct tfc__home, patience);
	tfc_error error = TFC_ERROR_INIT;
	tfc__fail(&error, TFC_ELOST, "gateway", 0,
		  "node %s%s%s%s, the home of this submit, does not say whether it has made the "
		  "job: %.600s",
		  home->name, home->name[0] ? " (" : "", home->node_id, home->name[0] ? ")" : "",
		  home->why.code < 0 ? home->why.text : "no answer");
	tfc__errand_fail(home->errand, &error);
}

static void ask_home_again(struct tfc__errand *errand, const tfc_error *why)
{
	struct tfc__home *home = errand->home;
	begin_patience(errand->owner, home);
	note_wait(errand->owner, home, why);
	tfc__timer_set(&home->again, tfc__now() + home->delay);
	home->delay = home->delay ? home->delay * 2 : DELAY_FIRST;
	if (home->delay > DELAY_MAX)
		home->delay = DELAY_MAX;
}

/* Whether nothing but submits that wait for their homes would miss the connection. */
static bool is_idle(const struct remote_gateway *gateway, const struct tfc__errand *asking)
{
	TFC__LIST_EACH (link, &gateway->base.requests) {
		const struct tfc__request *request = tfc__container_of(link, struct tfc__request,
								       link);
		const struct tfc__errand *errand = request->forget ? request->doing : asking;
		if (errand != asking && !(errand->home && errand->home->again.at))
			return false;
	}
	return tfc__list_is_empty(&gateway->base.subs);
}

/* Through this node it could not be asked: the next may be it, or reach it. */
static void on_again(struct tfc__timer *timer)
{
	struct tfc__home *home = tfc__container_of(timer, struct tfc__home, again);
	struct tfc__errand *errand = home->errand;
	struct remote_gateway *gateway = errand->owner;
	if (gateway->is_known && !is_home(gateway, home) && gateway->addresses.count > 1 &&
	    is_idle(gateway, errand)) {
		hang_up(gateway);
		gateway->at = (gateway->at + 1) % gateway->addresses.count;
	}
	wait_for_connection(gateway, errand);
}

/* Whether it goes without its bundle: to a node that passes it on, and to a home that may have the
 * job. */
static bool is_sent(const struct remote_gateway *gateway, const struct tfc__home *home)
{
	return home->node_id[0] &&
	       (!is_home(gateway, home) || (home->is_written && !home->wants_bundle));
}

static void go_to_home(struct remote_gateway *gateway, struct tfc__errand *errand)
{
	struct tfc__home *home = errand->home;
	struct tfc__rpc *rpc = tfc__peer_rpc(gateway->peer);
	tfc_error error = TFC_ERROR_INIT;
	if (home->node_id[0] && gateway->is_old) {
		tfc__fail(&error, TFC_ELOST, "gateway", 0,
			  "%.100s is of an older version, which passes no submit on",
			  gateway->addresses.items[gateway->at]);
		ask_home_again(errand, &error);
	} else if (is_sent(gateway, home)) {
		tfc__errand_put(errand, rpc);
	} else {
		if (errand->upload)
			tfc__timer_cancel(&home->patience);
		tfc__errand_go(errand, rpc);
	}
}

/* A refusal of one that was put before says nothing about what became of it then. And without its
 * bundle (TFC_ENOENT) the job was not looked for in vain: the home wants the bundle, which a node
 * that passes the submit on cannot bring. */
static bool is_open(const struct tfc__errand *errand, int code)
{
	if (code == TFC_ENOENT)
		return errand->upload &&
		       (!errand->home->wants_bundle || !is_home(errand->owner, errand->home));
	return errand->tries > 0 && (code == TFC_EAGAIN || code == TFC_EBUSY || code == TFC_ENOMEM);
}

static bool add_home(struct tfc__errand *errand, const char *node_id)
{
	tfc_ctx *ctx = ((struct remote_gateway *)errand->owner)->base.ctx;
	struct tfc__home *home = calloc(1, sizeof(*home));
	tfc_error error = TFC_ERROR_INIT;
	if (!home) {
		tfc__fail_nomem(&error, "gateway");
		tfc__errand_fail(errand, &error);
		return false;
	}
	snprintf(home->node_id, sizeof(home->node_id), "%s", node_id ? node_id : "");
	home->errand = errand;
	tfc__timer_init(&home->again, ctx, on_again);
	tfc__timer_init(&home->patience, ctx, on_impatience);
	errand->home = home;
	errand->free_home = free_home;
	errand->putting = on_putting;
	errand->is_open = is_open;
	return true;
}

/* ---- questions */

static void wait_for_connection(struct remote_gateway *gateway, struct tfc__errand *errand)
{
	tfc_error error = TFC_ERROR_INIT;
	if (gateway->is_up && !errand->home) {
		tfc__errand_go(errand, tfc__peer_rpc(gateway->peer));
	} else if (gateway->is_up && gateway->is_known) {
		go_to_home(gateway, errand);
	} else {
		tfc__list_append(&gateway->errands, &errand->link);
		if (!gateway->is_up)
			want(gateway);
		else if (say_hello(gateway, &error) < 0 && error.code != TFC_ELOST)
			tfc__errand_fail(errand, &error);
	}
}

static void on_lost(struct tfc__errand *errand, const tfc_error *error)
{
	errand->tries++;
	if (error->code == TFC_ENOENT && is_home(errand->owner, errand->home))
		errand->home->wants_bundle = true;
	if (errand->home && errand->home->node_id[0] && !errand->is_once)
		ask_home_again(errand, error);
	else if (errand->is_once || errand->tries >= TRIES_MAX)
		tfc__errand_fail(errand, error);
	else
		wait_for_connection(errand->owner, errand);
}

static void on_packed(struct tfc__errand *errand)
{
	wait_for_connection(errand->owner, errand);
}

static void ask(tfc_gateway *gateway, const struct tfc__question *question,
		struct tfc__request *request)
{
	struct tfc__question asked = *question;
	char key[33] = "";
	bool is_submit = question->verb == TFC__SUBMIT;
	if (is_submit && !(question->client_key && *question->client_key)) {
		if (tfc__random_hex(key) < 0 || tfc__random_hex(key + 16) < 0) {
			tfc__request_end(request, tfc__fail_errno(&request->error, "gateway", errno,
								  "no random bytes"));
			return;
		}
		asked.client_key = key;
	}
	struct tfc__errand *errand = tfc__errand_new(request, &asked);
	if (!errand)
		return;
	errand->owner = of(gateway);
	errand->lost = on_lost;
	errand->is_once = question->verb == TFC__FORGET && !tfc__is_job_id(question->job);
	errand->packed = on_packed;
	if (is_submit && !add_home(errand, question->home))
		return;
	if (tfc__question_brings_bundle(question))
		tfc__errand_bring(errand, &of(gateway)->uploads, question->definition->bundle);
	else
		wait_for_connection(of(gateway), errand);
}

/* ---- subscriptions */

static void find_route(struct tfc__route *route, struct tfc__remote_sub *sub, const char *job)
{
	struct remote_gateway *gateway = tfc__container_of(route, struct remote_gateway, route);
	if (gateway->is_up)
		tfc__remote_sub_go(sub, tfc__peer_rpc(gateway->peer), job);
	else
		want(gateway);
}

static void forget_route(struct tfc__route *route, struct tfc__remote_sub *sub)
{
}

static int subscribe(tfc_gateway *gateway, const char *job, const tfc_subscribe_options *options,
		     tfc_event_fn fn, void *user, tfc_error *error, tfc_sub **ret_sub)
{
	return tfc__remote_subscribe(gateway->ctx, &gateway->subs, &of(gateway)->route, job,
				     options, false, fn, user, error, ret_sub);
}

/* ---- opening and closing */

static int check(tfc_gateway *gateway, tfc_error *error)
{
	return TFC_OK;
}

static void close_gateway(tfc_gateway *base)
{
	struct remote_gateway *gateway = of(base);
	tfc__timer_cancel(&gateway->redial);
	hang_up(gateway);
	tfc__keyring_free(gateway->keyring);
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
					 "tfc_gateway_options.address: an address is empty");
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
	static const struct tfc__gateway_ops ops = {ask, subscribe, check, close_gateway};
	struct remote_gateway *gateway = calloc(1, sizeof(*gateway));
	if (!gateway)
		return tfc__fail_nomem(error, "gateway");
	tfc__gateway_init(&gateway->base, ctx, &ops);
	tfc__list_init(&gateway->errands);
	tfc__timer_init(&gateway->redial, ctx, on_redial);
	gateway->connect_ms = options->connect_ms;
	gateway->reconnect_ms = options->reconnect_ms ? options->reconnect_ms : RECONNECT_MS;
	gateway->route.find = find_route;
	gateway->route.forget = forget_route;
	int code = split_addresses(&gateway->addresses, options->address, error);
	gateway->uploads.ctx = ctx;
	gateway->uploads.temp_dir = strdup(options->temp_dir ? options->temp_dir : TEMP_DIR);
	if (code == TFC_OK && !gateway->uploads.temp_dir)
		code = tfc__fail_nomem(error, "gateway");
	if (code == TFC_OK && options->key_file)
		code = tfc__keyring_load(options->key_file, error, &gateway->keyring);
	if (code < 0) {
		close_gateway(&gateway->base);
		return code;
	}
	*ret_gateway = &gateway->base;
	return TFC_OK;
}
