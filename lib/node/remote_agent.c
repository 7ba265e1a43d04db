#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "node/internal.h"

#define STAY_CREDIT 1024 /* notifications in flight */
#define STAY_RETRY (100 * TFC__MS)

static struct remote_job *remote_job_of(struct tfc__link *link)
{
	return tfc__container_of(link, struct remote_job, link);
}

/*
 * How long tasks may be alive after the latest local time from which a renewal can count. A quarter
 * is added because clocks may run at different speeds.
 */
static uint64_t lease_window_ns(const struct remote_job *job)
{
	return ((uint64_t)job->agent->lease_ms + job->grace_ms + TFC__AGENT_MARGIN_MS) * TFC__MS /
	       4 * 5;
}

bool tfc__remote_is_ready(const struct tfc__remote_agent *agent)
{
	return agent->rpc && agent->stay;
}

/* ---- use of the connection */

bool tfc__remote_is_connecting(const struct tfc__remote_agent *agent)
{
	return agent->use && agent->is_used && !agent->rpc && !agent->is_unreachable;
}

void tfc__remote_update_use(struct tfc__remote_agent *agent)
{
	bool is_used = agent->job_count || !tfc__list_is_empty(&agent->logs) ||
		       agent->forgotten.count;
	if (!agent->use || is_used == agent->is_used)
		return;
	agent->is_used = is_used;
	if (!agent->rpc)
		agent->is_unreachable = false;
	agent->use(agent->user, is_used);
}

/* ---- unreachability */

static void set_unreachable(struct tfc__remote_agent *agent, bool is_unreachable)
{
	agent->is_unreachable = is_unreachable;
	TFC__LIST_EACH (link, &agent->jobs)
		if (is_unreachable)
			tfc__remote_set_unreachable(remote_job_of(link), true);
}

/* ---- tasks that are certainly lost */

static uint64_t lease_counts_from(const struct remote_job *job)
{
	bool is_another = job->boot && job->boot != job->agent->boot;
	uint64_t received = is_another ? 0 : job->agent->received_ns;
	return received > job->since_ns ? received : job->since_ns;
}

void tfc__remote_silence(const struct remote_job *job, struct tfc__task_event *event)
{
	uint64_t now = tfc__boot_time(), renewed_at = lease_counts_from(job);
	uint64_t alive_at = job->agent->alive_ns > renewed_at ? job->agent->alive_ns : renewed_at;
	uint64_t lost_at = renewed_at + lease_window_ns(job);
	if (!job->agent->received_ns)
		return;
	event->silent_ms = (uint32_t)((now - alive_at) / TFC__MS);
	event->number = now < lost_at ? (uint32_t)((lost_at - now) / TFC__MS) : 0;
}

static void set_loss_timer(struct tfc__remote_agent *agent)
{
	uint64_t next = 0;
	TFC__LIST_EACH (link, &agent->jobs) {
		uint64_t at = lease_counts_from(remote_job_of(link)) +
			      lease_window_ns(remote_job_of(link));
		if (remote_job_of(link)->state != REMOTE_GONE && (!next || at < next))
			next = at;
	}
	uint64_t now = tfc__boot_time();
	if (next)
		tfc__timer_set(&agent->loss, tfc__now() + (next > now ? next - now : 0));
	else
		tfc__timer_cancel(&agent->loss);
}

/* The timer's clock stops while this machine is suspended, CLOCK_BOOTTIME does not: the timer may
 * fire late. */
static void on_loss(struct tfc__timer *timer)
{
	struct tfc__remote_agent *agent = tfc__container_of(timer, struct tfc__remote_agent, loss);
	uint64_t now = tfc__boot_time();
	char why[400];
	TFC__LIST_EACH (link, &agent->jobs) {
		struct remote_job *job = remote_job_of(link);
		if (job->state == REMOTE_GONE ||
		    now < lease_counts_from(job) + lease_window_ns(job))
			continue;
		snprintf(why, sizeof(why),
			 "it has been unreachable for %.0f s; the job's tasks there have ended",
			 (double)(now - lease_counts_from(job)) / 1e9);
		tfc__remote_lose(job, TFC__AGENT_LOST, why);
	}
	set_loss_timer(agent);
}

/* ---- the node's last will */

/* Events that the node sent before its death may still be in the connection, which ends behind
 * them. */
#define LAST_EVENTS TFC__SECOND

static void lose_willed(struct tfc__remote_agent *agent)
{
	TFC__LIST_EACH (link, &agent->jobs)
		if (remote_job_of(link)->is_will_known)
			tfc__remote_lose(remote_job_of(link), TFC__AGENT_LOST,
					 "its process has died, and its guard has ended the job's "
					 "tasks there");
	set_loss_timer(agent);
}

static void on_will_received(struct tfc__timer *timer)
{
	lose_willed(tfc__container_of(timer, struct tfc__remote_agent, will_received));
}

bool tfc__remote_agent_receive_will(struct tfc__remote_agent *agent,
				    const struct tfc__will_key *key)
{
	bool is_known = false;
	TFC__LIST_EACH (link, &agent->jobs) {
		struct remote_job *job = remote_job_of(link);
		if (job->state == REMOTE_GONE || !tfc__will_key_is_equal(&job->will, key))
			continue;
		is_known = job->is_will_known = true;
	}
	if (!is_known)
		return false;
	bool is_connected = agent->rpc && agent->boot == key->incarnation;
	if (!agent->will_received.at)
		tfc__timer_set(&agent->will_received,
			       tfc__now() + (is_connected ? LAST_EVENTS : 0));
	return true;
}

/* ---- stamps and renewals */

static void request_stamp(struct tfc__remote_agent *agent);

static void on_renewal(struct tfc__timer *timer)
{
	request_stamp(tfc__container_of(timer, struct tfc__remote_agent, renewal));
}

static int send_renewal(const struct tfc__remote_agent *agent, uint64_t stamp)
{
	struct tfc__agent_renewal renewal = {
		.instance = agent->instance,
		.stamp = stamp,
		.lease_ms = agent->lease_ms,
	};
	struct tfc__buf params = {0};
	snprintf(renewal.name, sizeof(renewal.name), "%s", agent->self);
	tfc__fields_write(&params, &tfc__agent_renewal_fields, &renewal);
	int code = tfc__rpc_notify(agent->rpc, "agent.renew", &params);
	tfc__buf_fini(&params);
	return code;
}

static void update_will(struct tfc__remote_agent *agent, const struct tfc__agent_stamp *stamp)
{
	static const uint8_t none[TFC__WILL_COMMITMENT];
	struct tfc__will_key will = {.incarnation = stamp->boot};
	memcpy(will.commitment, stamp->will, sizeof(will.commitment));
	if (memcmp(stamp->will, none, sizeof(none)) == 0)
		will.incarnation = 0;
	if (tfc__will_key_is_equal(&agent->will, &will))
		return;
	agent->will = will;
	TFC__LIST_EACH (link, &agent->jobs)
		tfc__remote_update_will(remote_job_of(link));
}

/* Another boot number means another process: the guard of the previous incarnation has ended its
 * tasks, or is about to. since_ns keeps the time from which that incarnation's lease counts. */
static void update_boot(struct tfc__remote_agent *agent, uint64_t boot)
{
	if (boot == agent->boot)
		return;
	TFC__LIST_EACH (link, &agent->jobs)
		if (remote_job_of(link)->boot == agent->boot &&
		    agent->received_ns > remote_job_of(link)->since_ns)
			remote_job_of(link)->since_ns = agent->received_ns;
	agent->boot = boot;
	if (agent->will_received.at) /* the process that had the earlier connection is dead */
		tfc__timer_set(&agent->will_received, tfc__now());
	TFC__LIST_EACH (link, &agent->jobs)
		tfc__remote_logs_retry(remote_job_of(link),
				       ALL_TASKS); /* its kept logs can be read */
}

/* ---- notifications */

static struct remote_job *remote_agent_find_job(struct tfc__remote_agent *agent, uint64_t handle)
{
	TFC__LIST_EACH (link, &agent->jobs)
		if (remote_job_of(link)->handle == handle)
			return remote_job_of(link);
	return NULL;
}

static void on_stay_item(void *user, const msgpack_object *item)
{
	struct tfc__remote_agent *agent = user;
	struct tfc__agent_message message;
	tfc_error error = TFC_ERROR_INIT;
	int code = tfc__agent_message_read(item, &error, &message);
	agent->alive_ns = tfc__boot_time();
	struct remote_job *job = remote_agent_find_job(agent, message.handle);
	tfc__rpc_more(agent->stay, 1);
	if (!job || job->state == REMOTE_GONE)
		return;
	if (code < 0)
		tfc__remote_give_up(job, error.text);
	else if (!*message.gone)
		tfc__remote_receive(job, &message);
	else if (strcmp(message.gone, "ended") == 0)
		tfc__remote_lose(job, TFC__AGENT_LOST, "the job has ended");
	else if (strcmp(message.gone, "fenced") == 0)
		tfc__remote_lose(job, TFC__AGENT_FENCED, "another maintainer has taken over");
	else
		tfc__remote_retry(job); /* until it has ended */
}

/* The remote service has dropped our session: it is ending our tasks, and the next session learns
 * when that is done. */
static void on_stay_end(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	struct tfc__remote_agent *agent = user;
	agent->stay = NULL;
	TFC__LIST_EACH (link, &agent->jobs)
		remote_job_of(link)->is_up = false;
	if (code != TFC_ELOST)
		tfc__timer_set(&agent->renewal, tfc__now() + STAY_RETRY);
}

static int request_stay(struct tfc__remote_agent *agent)
{
	const struct tfc__agent_target target = {.instance = agent->instance};
	struct tfc__buf params = {0};
	tfc__fields_write(&params, &tfc__agent_target_fields, &target);
	const struct tfc__rpc_options options = {.method = "agent.stay",
						 .params = &params,
						 .credit = STAY_CREDIT,
						 .item = on_stay_item,
						 .end = on_stay_end,
						 .user = agent};
	int code = tfc__rpc_call(agent->rpc, &options, NULL, &agent->stay);
	tfc__buf_fini(&params);
	if (code < 0)
		agent->stay = NULL;
	return code;
}

/* All tasks of the previous incarnation have ended: its guard has removed its last file. */
static void lose_previous_incarnation(struct tfc__remote_agent *agent)
{
	char why[400];
	snprintf(why, sizeof(why), "it has restarted; the job's tasks there have ended");
	TFC__LIST_EACH (link, &agent->jobs) {
		struct remote_job *job = remote_job_of(link);
		if (job->boot && job->boot != agent->boot)
			tfc__remote_lose(job, TFC__AGENT_LOST, why);
	}
}

static void receive_stamp(struct tfc__remote_agent *agent, const struct tfc__agent_stamp *stamp)
{
	uint64_t now = tfc__boot_time();
	update_boot(agent, stamp->boot);
	update_will(agent, stamp);
	if (stamp->is_alone)
		lose_previous_incarnation(agent);
	agent->ahead_ns = (int64_t)(now - stamp->stamp);
	agent->received_ns = agent->alive_ns = now;
	if (send_renewal(agent, stamp->stamp) < 0 || (!agent->stay && request_stay(agent) < 0))
		return; /* out of memory; the next renewal tries again */
	set_unreachable(agent, false);
	TFC__LIST_EACH (link, &agent->jobs)
		tfc__remote_connect(remote_job_of(link));
}

static void on_stamp(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	struct tfc__remote_agent *agent = user;
	struct tfc__agent_stamp stamp;
	agent->stamp_call = NULL;
	if (code == TFC_OK)
		code = tfc__fields_read(NULL, &tfc__agent_stamp_fields, result, NULL, &stamp);
	if (code == TFC_OK)
		receive_stamp(agent, &stamp);
	else if (code == TFC_ETIMEDOUT)
		set_unreachable(agent, true);
	if (code == TFC_ETIMEDOUT && agent->unreached)
		agent->unreached(agent->user);
	set_loss_timer(agent);
	/* A cut can begin just before a renewal: what the tasks survive is the lease without this
	 * pause. After a response that is late the lease has no time for a pause. */
	uint64_t pause = code == TFC_ETIMEDOUT ? 0 : agent->lease_ms * TFC__MS / 10;
	if (agent->rpc && agent->job_count)
		tfc__timer_set(&agent->renewal, tfc__now() + pause);
}

static void request_stamp(struct tfc__remote_agent *agent)
{
	const struct tfc__agent_target target = {.instance = agent->instance};
	struct tfc__buf params = {0};
	if (!agent->rpc || agent->stamp_call || !agent->job_count)
		return;
	tfc__fields_write(&params, &tfc__agent_target_fields, &target);
	const struct tfc__rpc_options options = {.method = "agent.stamp",
						 .params = &params,
						 .timeout_ms = agent->lease_ms / 3 + 1,
						 .end = on_stamp,
						 .user = agent};
	if (tfc__rpc_call(agent->rpc, &options, NULL, &agent->stamp_call) < 0) {
		agent->stamp_call = NULL;
		tfc__timer_set(&agent->renewal, tfc__now() + agent->lease_ms * TFC__MS / 10);
	}
	tfc__buf_fini(&params);
}

void tfc__remote_begin(struct tfc__remote_agent *agent)
{
	set_loss_timer(agent);
	if (!tfc__remote_is_ready(agent) || !agent->renewal.at)
		request_stamp(agent);
}

/* ---- forgotten jobs */

static void send_forgotten(struct tfc__remote_agent *agent)
{
	const struct tfc__ids ids = {(const char *const *)agent->forgotten.items};
	struct tfc__buf params = {0};
	tfc__fields_write(&params, &tfc__ids_fields, &ids);
	if (agent->rpc && agent->forgotten.count)
		tfc__rpc_notify(agent->rpc, "agent.forget", &params);
	tfc__buf_fini(&params);
	tfc__strv_fini(&agent->forgotten);
	agent->forgotten = (struct tfc__strv){0};
	tfc__remote_update_use(agent);
}

/* A node that cannot be notified now queries this node when it is reachable again. */
void tfc__remote_forget(void *user, const char *id)
{
	struct tfc__remote_agent *agent = user;
	tfc__strv_add(&agent->forgotten, id);
	if (!agent->rpc)
		tfc__remote_update_use(agent);
	if (!tfc__remote_is_connecting(agent))
		send_forgotten(agent);
}

/* ---- connections */

void tfc__remote_agent_down(struct tfc__remote_agent *agent)
{
	if (agent->stamp_call)
		tfc__rpc_drop(agent->stamp_call);
	if (agent->stay)
		tfc__rpc_drop(agent->stay);
	agent->stamp_call = agent->stay = NULL;
	agent->rpc = NULL;
	tfc__timer_cancel(&agent->renewal);
	TFC__LIST_EACH (link, &agent->jobs)
		tfc__remote_disconnect(remote_job_of(link));
	set_unreachable(agent, !agent->use || agent->is_used);
	tfc__remote_logs_wake(agent);
	if (agent->forgotten.count)
		send_forgotten(agent);
	if (agent->will_received.at)
		tfc__timer_set(&agent->will_received, tfc__now());
}

void tfc__remote_agent_up(struct tfc__remote_agent *agent, struct tfc__rpc *rpc)
{
	if (agent->rpc)
		tfc__remote_agent_down(agent);
	agent->rpc = rpc;
	tfc__remote_logs_wake(agent);
	request_stamp(agent);
	if (agent->forgotten.count)
		send_forgotten(agent);
}

/* ---- open, close */

int tfc__remote_agent_open(tfc_ctx *ctx, const struct tfc__remote_agent_options *options,
			   struct tfc__remote_agent **ret_agent)
{
	struct tfc__remote_agent *agent = calloc(1, sizeof(*agent));
	if (!agent)
		return tfc__fail_nomem(tfc__ctx_error(ctx), "node");
	agent->ctx = ctx;
	agent->self = strdup(options->self);
	agent->node = strdup(options->node);
	agent->instance = options->instance;
	agent->lease_ms = options->lease_ms ? options->lease_ms : TFC__AGENT_LEASE_MS;
	agent->bundles = options->bundles;
	agent->unreached = options->unreached;
	agent->use = options->use;
	agent->user = options->user;
	tfc__list_init(&agent->jobs);
	tfc__list_init(&agent->logs);
	tfc__timer_init(&agent->renewal, ctx, on_renewal);
	tfc__timer_init(&agent->loss, ctx, on_loss);
	tfc__timer_init(&agent->will_received, ctx, on_will_received);
	if (!agent->self || !agent->node) {
		tfc__remote_agent_close(agent);
		return tfc__fail_nomem(tfc__ctx_error(ctx), "node");
	}
	*ret_agent = agent;
	return TFC_OK;
}

void tfc__remote_agent_close(struct tfc__remote_agent *agent)
{
	if (!agent)
		return;
	if (agent->stamp_call)
		tfc__rpc_drop(agent->stamp_call);
	if (agent->stay)
		tfc__rpc_drop(agent->stay);
	agent->use = NULL;
	tfc__remote_logs_end(agent);
	tfc__strv_fini(&agent->forgotten);
	agent->rpc = NULL; /* nothing is sent any more */
	TFC__LIST_EACH (link, &agent->jobs)
		tfc__remote_free(remote_job_of(link));
	tfc__timer_cancel(&agent->renewal);
	tfc__timer_cancel(&agent->loss);
	tfc__timer_cancel(&agent->will_received);
	free(agent->self);
	free(agent->node);
	free(agent);
}
