#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "bundle/transfer.h"
#include "node/internal.h"

#define LEASE_MAX_MS (60 * 60 * 1000)

/* ---- sessions */

static struct session *session_find(struct tfc__agent_service *service, uint64_t instance)
{
	TFC__LIST_EACH (link, &service->sessions) {
		struct session *session = tfc__container_of(link, struct session, link);
		if (session->instance == instance && !session->is_over)
			return session;
	}
	return NULL;
}

/* Sessions beyond TFC__WILL_ADDRESSES wait for the lease. */
static void send_will_to(struct tfc__agent_service *service)
{
	struct tfc__will_address addresses[TFC__WILL_ADDRESSES];
	uint32_t count = 0;
	TFC__LIST_EACH (link, &service->sessions) {
		const struct session *session = tfc__container_of(link, struct session, link);
		if (session->address.port && count < TFC__WILL_ADDRESSES)
			addresses[count++] = session->address;
	}
	tfc__will_send_to(service->will, addresses, count);
}

/* The last will is for the node of each session; its address may have changed. */
static void update_address(struct session *session)
{
	struct tfc__agent_service *service = session->service;
	struct tfc__will_address address = {.port = 0};
	if (!service->will ||
	    !service->options.address_of(service->options.user, session->name, &address) ||
	    memcmp(&address, &session->address, sizeof(address)) == 0)
		return;
	session->address = address;
	send_will_to(service);
}

static void session_free(struct session *session)
{
	tfc__session_disconnect(session);
	for (size_t i = 0; i < JOB_BUCKETS; i++)
		TFC__LIST_EACH (link, &session->buckets[i])
			tfc__served_job_free(tfc__container_of(link, struct served_job, link));
	tfc__lease_end(session->lease);
	tfc__work_cancel(&session->end);
	tfc__list_remove(&session->link);
	if (session->address.port && session->service->will)
		send_will_to(session->service);
	free(session);
}

static void session_on_end(struct tfc__work *work)
{
	struct session *session = tfc__container_of(work, struct session, end);
	if (session->is_over && !session->job_count)
		session_free(session);
}

void tfc__session_job_freed(struct session *session)
{
	session->job_count--;
	session->service->job_count--;
	tfc__work_schedule(&session->end);
}

/* ---- the connection of a session: a pending call, whose items are the notifications */

static void session_each_job(struct session *session, void (*fn)(struct served_job *job))
{
	for (size_t i = 0; i < JOB_BUCKETS; i++)
		TFC__LIST_EACH (link, &session->buckets[i])
			fn(tfc__container_of(link, struct served_job, link));
}

int tfc__session_notify(struct session *session, const struct tfc__buf *item)
{
	return session->stay ? tfc__rpc_item(session->stay, item) : TFC_ESTATE;
}

void tfc__session_disconnect(struct session *session)
{
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__rpc_request *stay = session->stay;
	session->stay = NULL;
	session_each_job(session, tfc__served_job_lost);
	if (!stay)
		return;
	tfc__fail(&error, TFC_ESTATE, "node", 0, "this maintainer's lease has expired");
	tfc__rpc_watch(stay, NULL, NULL, NULL);
	tfc__rpc_fail(stay, &error);
}

static void session_on_credit(void *user)
{
	session_each_job(user, tfc__served_job_flush);
}

static void session_on_disconnect(void *user)
{
	tfc__session_disconnect(user);
}

/* The guard has begun to end the session's tasks; the rest is freed when they have ended. */
static void session_on_lease_end(void *user)
{
	struct session *session = user;
	uint32_t running = 0; /* jobs with a running task here; of the others only logs are kept */
	TFC__LIST_EACH (link, &session->service->jobs) {
		const struct served_job *job = tfc__container_of(link, struct served_job, all);
		running += job->session == session && job->launched;
	}
	if (running)
		tfc__log(session->service->ctx, TFC_LOG_WARNING, "node", session->name,
			 "the maintainer on node %s is unreachable; stopping the tasks of %u of "
			 "its jobs",
			 session->name, running);
	session->is_over = true;
	for (size_t i = 0; i < JOB_BUCKETS; i++)
		TFC__LIST_EACH (link, &session->buckets[i])
			tfc__served_job_abort(tfc__container_of(link, struct served_job, link));
	tfc__session_disconnect(session);
	tfc__work_schedule(&session->end);
}

/* False even before the guard has reported the end of the lease: late messages are ignored. */
static bool session_is_alive(const struct session *session)
{
	return session && !session->is_over && session->lease &&
	       tfc__boot_time() < session->deadline_ns;
}

static struct session *session_new(struct tfc__agent_service *service,
				   const struct tfc__agent_renewal *renewal)
{
	struct session *session = calloc(1, sizeof(*session));
	if (!session)
		return NULL;
	session->service = service;
	session->instance = renewal->instance;
	memcpy(session->name, renewal->name, sizeof(session->name));
	tfc__work_init(&session->end, service->ctx, session_on_end);
	for (size_t i = 0; i < JOB_BUCKETS; i++)
		tfc__list_init(&session->buckets[i]);
	tfc__list_append(&service->sessions, &session->link);
	return session;
}

void tfc__agent_service_expire(struct tfc__agent_service *service, const char *node)
{
	TFC__LIST_EACH (link, &service->sessions) {
		struct session *session = tfc__container_of(link, struct session, link);
		if (strcmp(session->name, node) != 0 || !session_is_alive(session))
			continue;
		session->deadline_ns = tfc__boot_time();
		tfc__lease_expire(session->lease);
	}
}

/* ---- requests */

static void serve_stamp(struct tfc__agent_service *service, struct tfc__rpc_request *request)
{
	struct tfc__agent_stamp stamp = {
		.is_alone = tfc__agent_is_alone(service->agent.agent),
		.boot = service->boot,
		.stamp = tfc__boot_time(),
	};
	struct tfc__will_key key;
	if (service->will && tfc__will_commit(service->will, &key))
		memcpy(stamp.will, key.commitment, sizeof(stamp.will));
	tfc__rpc_reply_message(request, &tfc__agent_stamp_fields, &stamp);
}

/* A renewal counts from the time at which this node made its stamp, so delay cannot extend a lease.
 */
static void receive_renewal(struct tfc__agent_service *service, const msgpack_object *params)
{
	struct tfc__agent_renewal renewal;
	if (tfc__params_read(NULL, &tfc__agent_renewal_fields, params, NULL, &renewal) < 0)
		return;
	uint64_t now = tfc__boot_time(), deadline = renewal.stamp + renewal.lease_ms * TFC__MS;
	if (!renewal.instance || renewal.stamp > now || renewal.lease_ms > LEASE_MAX_MS ||
	    deadline <= now)
		return;
	struct session *session = session_find(service, renewal.instance);
	if (session && !session_is_alive(session))
		return; /* the guard is about to report the end of the lease */
	if (!session && !(session = session_new(service, &renewal)))
		return; /* out of memory; the next renewal tries again */
	if (deadline > session->deadline_ns)
		session->deadline_ns = deadline;
	if (session->lease)
		tfc__lease_renew(session->lease, deadline);
	else if (tfc__lease_begin(service->ctx, (uint32_t)renewal.lease_ms, session->deadline_ns,
				  session_on_lease_end, session, &session->lease) < 0) {
		session_free(session);
		return;
	}
	update_address(session);
}

static void fail_without_lease(struct tfc__rpc_request *request)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc__fail(&error, TFC_ESTATE, "node", 0, "this maintainer has no lease");
	tfc__rpc_fail(request, &error);
}

/* Calls need a session, and must come over its current connection. */
static void serve_session(struct session *session, struct tfc__rpc_request *request,
			  const char *method, const struct tfc__agent_target *target,
			  const msgpack_object *params)
{
	tfc_error error = TFC_ERROR_INIT;
	if (strcmp(method, "agent.stay") == 0) {
		tfc__session_disconnect(session);
		session->stay = request;
		tfc__rpc_watch(request, session_on_credit, session_on_disconnect, session);
	} else if (!session->stay || tfc__rpc_of(session->stay) != tfc__rpc_of(request)) {
		fail_without_lease(request);
	} else if (strcmp(method, "agent.open") == 0) {
		tfc__served_job_open(session, request, params);
	} else if (strcmp(method, "agent.drop") == 0) {
		tfc__served_job_drop(session, request, target);
	} else {
		tfc__fail(&error, TFC_ENOTSUP, "node", 0, "unknown job %.64s", method);
		tfc__rpc_fail(request, &error);
	}
}

void tfc__agent_service_serve(struct tfc__agent_service *service, struct tfc__rpc_request *request,
			      const char *method, const msgpack_object *params)
{
	static const struct tfc__bundle_offerer member = {.is_member = true};
	struct tfc__agent_target target;
	tfc_error error = TFC_ERROR_INIT;
	int code = tfc__params_read(NULL, &tfc__agent_target_fields, params, &error, &target);
	struct session *session = session_find(service, target.instance);
	if (request && strcmp(method, TFC__BUNDLE_OFFER) == 0) {
		tfc__bundle_serve_offer(service->bundles, &member, request, params);
	} else if (request && strcmp(method, TFC__BUNDLE_CHUNK) == 0) {
		tfc__bundle_serve_chunk(service->bundles, request, params);
	} else if (request && strcmp(method, "agent.stamp") == 0) {
		serve_stamp(service, request);
	} else if (request && strcmp(method, "agent.log") == 0) {
		tfc__served_logs_serve(service, request, params); /* reading needs no lease */
	} else if (!request && strcmp(method, "agent.forget") == 0) {
		tfc__agent_service_forget(service, params);
	} else if (!request && strcmp(method, "agent.renew") == 0) {
		receive_renewal(service, params);
	} else if (code < 0) {
		if (request)
			tfc__rpc_fail(request, &error);
	} else if (!session_is_alive(session)) {
		if (request)
			fail_without_lease(request);
	} else if (request) {
		serve_session(session, request, method, &target, params);
	} else if (strcmp(method, "agent.msg") == 0) {
		struct served_job *job = tfc__served_job_find(session, target.handle);
		if (job)
			tfc__served_job_receive(job, params);
	}
}

uint32_t tfc__agent_service_jobs(const struct tfc__agent_service *service)
{
	return service->job_count;
}

/* ---- open, close */

/* The first key, whichever is used later: it only tells one cluster's wills from another's. */
static int open_will(struct tfc__agent_service *service)
{
	struct tfc__will_options will = {.incarnation = service->boot};
	const struct tfc__agent_service_options *options = &service->options;
	const struct tfc__key *key = options->keyring
					     ? tfc__keyring_first(options->keyring, TFC__KEY_NODE)
					     : NULL;
	if (!options->address_of)
		return TFC_OK;
	if (key)
		memcpy(will.cluster, key->id, sizeof(will.cluster));
	sodium_hex2bin(will.node_id, sizeof(will.node_id), tfc__identity_id(options->identity),
		       TFC__NODE_ID_SIZE - 1, NULL, NULL, NULL);
	return tfc__will_open(service->ctx, &will, &service->will);
}

int tfc__agent_service_open(tfc_ctx *ctx, const struct tfc__agent_service_options *options,
			    struct tfc__agent_service **ret_service)
{
	struct tfc__agent_service *service = calloc(1, sizeof(*service));
	if (!service)
		return tfc__fail_nomem(tfc__ctx_error(ctx), "node");
	service->ctx = ctx;
	service->options = *options;
	service->agent = (struct tfc__agent_handle){&tfc__local_agent_ops, options->agent};
	service->bundles = tfc__agent_bundles(options->agent);
	do
		randombytes_buf(&service->boot, sizeof(service->boot));
	while (!service->boot);
	tfc__list_init(&service->sessions);
	tfc__list_init(&service->jobs);
	tfc__names_init(&service->job_ids);
	int code = open_will(service);
	if (code < 0) {
		free(service);
		return code;
	}
	*ret_service = service;
	return TFC_OK;
}

void tfc__agent_service_close(struct tfc__agent_service *service)
{
	if (!service)
		return;
	tfc__will_close(service->will); /* first: the sessions that end change its addresses */
	service->will = NULL;
	TFC__LIST_EACH (link, &service->sessions)
		session_free(tfc__container_of(link, struct session, link));
	free(service);
}
