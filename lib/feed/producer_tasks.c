/*
 * The tasks that a producer feeds: learned from the job's description and its events. The consumer
 * of each is found through its node.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "feed/broker.h"
#include "feed/producer.h"
#include "gateway/gateway.h"

/* A consumer whose queue has ended refuses until it opens the queue again. */
#define RETRY_NS (20 * TFC__MS)
#define RETRY_DOUBLINGS 6
#define SHORTAGES_MAX 7 /* of the node, that last for 2 s or more */
#define RETRY_REMOTE_NS (200 * TFC__MS)
#define UNREACHED_NS (5 * TFC__SECOND) /* until a node counts as one that cannot be reached */
#define OVER_NS (5 * TFC__SECOND)      /* END waits so long for the nodes */
/* Until the same is true of a node that answered, or that others know: the job's events report
 * earlier whether its task is lost. */
#define SILENT_NS (60 * TFC__SECOND)

static void task_dial(struct feed_task *task);

/* ---- the stream to a consumer */

static void task_message(void *user, const struct tfc__feed_message *message)
{
	tfc__feed_task_receive(user, message);
}

static void task_batch(void *user, tfc_feed_batch *batch)
{
	tfc__feed_task_receive_result(user, batch);
}

static void task_room(void *user)
{
	const struct feed_task *task = user;
	tfc__feed_producer_wake(task->producer);
}

/* Returns false if the host has closed the producer: the task is freed. */
static bool task_lose_stream(struct feed_task *task)
{
	tfc__feed_stream_close(task->stream);
	task->stream = NULL;
	if (tfc__feed_remote_has_lost(task->remote)) /* perhaps END */
		task->is_end_sent = false;
	tfc__feed_remote_close(task->remote);
	task->remote = NULL;
	task->is_welcome = false;
	return tfc__feed_task_is_down(task);
}

static void task_retry_later(struct feed_task *task)
{
	tfc__timer_set(&task->retry, tfc__now() + (RETRY_NS << task->retries));
	if (task->retries < RETRY_DOUBLINGS)
		task->retries++;
}

static void task_down(void *user, const tfc_error *why)
{
	struct feed_task *task = user;
	if (why->code == TFC_EPARSE)
		tfc__log(task->producer->ctx, TFC_LOG_WARNING, "feed", task->name, "%s", why->text);
	if (task->is_welcome)
		task->retries = 0;
	if (task->is_running)
		task_retry_later(task);
	task_lose_stream(task);
}

static const struct tfc__feed_stream_ops task_ops = {task_message, task_batch, task_room,
						     task_down};

/* Returns false when out of memory: it is tried again later. */
static bool task_adopt_stream(struct feed_task *task, int fd)
{
	tfc_feed_producer *producer = task->producer;
	tfc__feed_socket_close(&task->broker);
	if (tfc__feed_stream_open(producer->ctx, fd, &task_ops, task, NULL, &task->stream) < 0) {
		task_retry_later(task);
		return false;
	}
	tfc__feed_stream_set_limits(task->stream, &producer->limits);
	return true;
}

/* ---- the node */

static void broker_message(void *user, const struct tfc__feed_message *message, int fd)
{
	struct feed_task *task = user;
	tfc_error error = TFC_ERROR_INIT;
	if (message->kind == TFC__FEED_CONNECTED && fd >= 0) {
		task->shortages = 0;
		task_adopt_stream(task, fd);
		return;
	}
	if (fd >= 0)
		close(fd);
	if (message->kind == TFC__FEED_CONNECTED) {
		tfc__fail(&error, TFC_EMFILE, "feed", 0,
			  "cannot feed %s: this process has too many open files", task->name);
		tfc__feed_socket_close(&task->broker);
		tfc__feed_producer_fail(task->producer, &error);
		return;
	}
	if (message->kind != TFC__FEED_REFUSED)
		return;
	tfc__feed_socket_close(&task->broker);
	bool is_short = message->code == TFC_EMFILE || message->code == TFC_ENOMEM;
	if (is_short && task->shortages++ < SHORTAGES_MAX) {
		task_retry_later(task);
		return;
	}
	tfc__fail(&error, message->code < 0 ? message->code : TFC_EPARSE, "feed", 0,
		  "cannot feed queue \"%s\" of %s: %s", task->producer->queue, task->name,
		  message->text ? message->text : "refused");
	tfc__feed_producer_fail(task->producer, &error);
}

static void broker_down(void *user, const tfc_error *why)
{
	struct feed_task *task = user;
	(void)why;
	tfc__feed_socket_close(&task->broker);
	if (task->is_running)
		task_retry_later(task);
}

static const struct tfc__feed_socket_ops broker_ops = {broker_message, broker_down, NULL};

/* ---- a node of another machine */

static void task_fail(struct feed_task *task, int code, const char *reason)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc__fail(&error, code, "feed", 0, "cannot feed %s on node \"%s\": %s", task->name,
		  task->node, reason);
	tfc__feed_producer_fail(task->producer, &error);
}

/* Whether the task was not reached for so long, always in the same way. */
static bool task_is_unreached(struct feed_task *task, uint64_t limit)
{
	uint64_t now = tfc__now();
	if (!task->unreached_since || task->unreached_limit != limit)
		task->unreached_since = now;
	task->unreached_limit = limit;
	return now - task->unreached_since >= limit;
}

/* Whether the node of the task has answered here before, for this task or for another one. */
static bool node_was_reached(const struct feed_task *task)
{
	TFC__LIST_EACH (link, &task->producer->tasks) {
		const struct feed_task *other = tfc__container_of(link, struct feed_task, link);
		if (other->was_reached && !strcmp(other->node, task->node))
			return true;
	}
	return false;
}

/* Nobody knows the node: it has just ended, and its job's events will say so; or it is on another
 * machine, and there is no way to it. */
static void task_unreached(struct feed_task *task, const tfc_error *why)
{
	tfc_error error = TFC_ERROR_INIT;
	if (!task_is_unreached(task, UNREACHED_NS)) {
		task_retry_later(task);
		return;
	}
	if (why->code == TFC_EMFILE)
		error = *why;
	else if (node_was_reached(task))
		tfc__fail(&error, TFC_ELOST, "feed", 0,
			  "cannot feed %s of job %s: its node \"%s\" has ended", task->name,
			  task->producer->job, task->node);
	else
		tfc__fail(
			&error, TFC_EUNREACH, "feed", 0,
			"cannot feed %s: its node \"%s\" is not on this machine; run the producer "
			"where the task runs",
			task->name, task->node);
	tfc__feed_producer_fail(task->producer, &error);
}

static void task_remote_connected(void *user, int fd)
{
	struct feed_task *task = user;
	task->unreached_since = 0;
	task->is_remote = true;
	if (!task_adopt_stream(task, fd)) {
		tfc__feed_remote_close(task->remote);
		task->remote = NULL;
	}
}

static void task_remote_failed(void *user, const tfc_error *why)
{
	struct feed_task *task = user;
	const tfc_error error = *why;
	tfc__feed_remote_close(task->remote);
	task->remote = NULL;
	if (error.code == TFC_ENOTSUP || error.code == TFC_ENOENT)
		task_unreached(task, &error);
	else if (error.code == TFC_EACCES || error.code == TFC_EINVAL || error.code == TFC_EPARSE)
		task_fail(task, error.code, error.text);
	else if (task_is_unreached(task, SILENT_NS))
		task_fail(task, TFC_EUNREACH, error.text);
	else
		tfc__timer_set(&task->retry, tfc__now() + RETRY_REMOTE_NS);
}

static void task_remote_flushed(void *user)
{
	const struct feed_task *task = user;
	tfc__feed_producer_check_end(task->producer);
}

static const struct tfc__feed_remote_ops remote_ops = {task_remote_connected, task_remote_failed,
						       task_remote_flushed};

static struct tfc__feed_connect task_connect(const struct feed_task *task)
{
	const tfc_feed_producer *producer = task->producer;
	struct tfc__feed_connect connect = {0};
	snprintf(connect.job, sizeof(connect.job), "%.16s", producer->job);
	snprintf(connect.task, sizeof(connect.task), "%s", task->name);
	snprintf(connect.queue, sizeof(connect.queue), "%s", producer->queue);
	snprintf(connect.node, sizeof(connect.node), "%s", task->node);
	snprintf(connect.producer, sizeof(connect.producer), "%s", producer->name);
	return connect;
}

static void task_dial_remote(struct feed_task *task)
{
	const struct tfc__feed_connect connect = task_connect(task);
	if (tfc__feed_remote_open(task->producer->gateway, &connect, &remote_ops, task, NULL,
				  &task->remote) < 0)
		task_retry_later(task);
}

/* ---- the way to the node */

static void task_dial(struct feed_task *task)
{
	char address[TFC__FEED_ADDRESS_SIZE];
	tfc_feed_producer *producer = task->producer;
	tfc_error error = TFC_ERROR_INIT;
	int fd;
	if (task->stream || task->broker.ctx || task->remote || !task->is_running ||
	    producer->is_over || task->is_end_sent)
		return;
	tfc__feed_address(address, producer->job, task->node);
	int code = tfc__feed_socket_dial(address, &error, &fd);
	if (code == TFC_EACCES)
		tfc__feed_producer_fail(producer, &error);
	else if (code == TFC_EUNREACH && !node_was_reached(task))
		task_dial_remote(task);
	else if (code < 0)
		task_unreached(task, &error);
	if (code < 0)
		return;
	task->unreached_since = 0;
	task->was_reached = true;
	task->is_remote = false;
	struct tfc__feed_message message = {.kind = TFC__FEED_CONNECT,
					    .version = TFC__FEED_VERSION,
					    .task = task->name,
					    .queue = producer->queue,
					    .producer = producer->name};
	if (tfc__feed_socket_open(&task->broker, producer->ctx, fd, &broker_ops, task, NULL) < 0) {
		task_retry_later(task);
	} else if (tfc__feed_socket_send(&task->broker, &message, -1) < 0) {
		tfc__feed_socket_close(&task->broker);
		task_retry_later(task);
	}
}

static void task_retry(struct tfc__timer *timer)
{
	task_dial(tfc__container_of(timer, struct feed_task, retry));
}

/* ---- the job */

static struct feed_task *find_fed_task(const tfc_feed_producer *producer, const char *type,
				       uint32_t index)
{
	char name[TFC__FEED_TASK_SIZE];
	snprintf(name, sizeof(name), "%s/%u", type, index);
	TFC__LIST_EACH (link, &producer->tasks) {
		struct feed_task *task = tfc__container_of(link, struct feed_task, link);
		if (!strcmp(task->name, name))
			return task;
	}
	return NULL;
}

/* As task_lose_stream. */
static bool task_has_ended(struct feed_task *task)
{
	task->is_running = false;
	task->unreached_since = 0;
	task->retries = 0;
	tfc__timer_cancel(&task->retry);
	tfc__feed_socket_close(&task->broker);
	if (task->stream) {
		if (!task_lose_stream(task))
			return false;
	} else {
		tfc__feed_remote_close(task->remote);
		task->remote = NULL;
	}
	task->is_end_sent = false;
	return true;
}

static void task_changed(struct feed_task *task, const tfc_event *event)
{
	bool is_running = event->task_state == TFC_TASK_RUNNING ||
			  event->task_state == TFC_TASK_READY;
	if (event->attempt < task->attempt)
		return;
	if ((event->attempt > task->attempt || !is_running) && !task_has_ended(task))
		return;
	task->attempt = event->attempt;
	task->has_exited = event->task_state == TFC_TASK_EXITED;
	if (task->has_exited)
		tfc__feed_producer_check_end(task->producer);
	if (!is_running)
		return;
	task->was_reached &= !strcmp(task->node, event->node);
	snprintf(task->node, sizeof(task->node), "%s", event->node);
	task->is_running = true;
	task_dial(task);
}

static bool has_commits(const tfc_feed_producer *producer)
{
	TFC__LIST_EACH (link, &producer->tasks)
		if (tfc__container_of(link, struct feed_task, link)->is_committing)
			return true;
	return false;
}

static void job_event(void *user, const tfc_event *event)
{
	tfc_feed_producer *producer = user;
	tfc_error error = TFC_ERROR_INIT;
	struct feed_task *task;
	if (producer->is_over)
		return;
	if (event->kind == TFC_EVENT_TASK) {
		task = find_fed_task(producer, event->task_type, event->task_index);
		/* an event without a change of state has a text alone */
		if (task && event->task_state)
			task_changed(task, event);
	} else if (event->kind == TFC_EVENT_END) {
		const char *hint = "";
		if (has_commits(producer))
			hint = "; save a checkpoint after the last batch";
		else if (event->job_state == TFC_JOB_SUCCEEDED)
			hint = "; a task that needs no more rows must terminate the feed";
		tfc__fail(&error, TFC_ELOST, "feed", 0,
			  "job %s has ended (%s) before %s all rows of queue \"%s\"%s",
			  producer->job, tfc_job_state_name(event->job_state),
			  has_commits(producer) ? "a checkpoint had" : "its tasks had consumed",
			  producer->queue, hint);
		tfc__feed_producer_fail(producer, &error);
	} else if (event->kind == TFC_EVENT_LOST) {
		tfc__fail(&error, event->error_code ? event->error_code : TFC_ELOST, "feed", 0,
			  "cannot follow job %s: %s", producer->job, event->text);
		tfc__feed_producer_fail(producer, &error);
	}
}

static int add_task(tfc_feed_producer *producer, const char *name)
{
	struct feed_task *task = calloc(1, sizeof(*task));
	if (!task)
		return TFC_ENOMEM;
	task->producer = producer;
	snprintf(task->name, sizeof(task->name), "%s", name);
	tfc__timer_init(&task->retry, producer->ctx, task_retry);
	tfc__list_append(&producer->tasks, &task->link);
	return TFC_OK;
}

/* The chief of parameter servers reads nothing: it makes the datasets that its workers read. */
static bool is_fed(const tfc_feed_producer *producer, const char *name, const char *type)
{
	if (producer->only_task[0])
		return !strcmp(name, producer->only_task);
	return !strcmp(type, "worker") || (!producer->has_ps && !strcmp(type, "chief"));
}

static int add_tasks(tfc_feed_producer *producer, const tfc_job_info *info, tfc_error *error)
{
	for (uint32_t i = 0; i < info->described_tasks && !producer->only_task[0]; i++)
		producer->has_ps |= !strcmp(tfc_job_info_task(info, i)->task_type, "ps");
	if (producer->has_ps && producer->wants_results)
		return tfc__fail(
			error, TFC_ENOTSUP, "feed", 0,
			"job %s has parameter servers, whose workers return no results; use a job "
			"without them, or let the chief return the results (task \"chief/0\")",
			info->job);
	for (uint32_t i = 0; i < info->described_tasks; i++) {
		const tfc_job_task *one = tfc_job_info_task(info, i);
		char name[TFC__FEED_TASK_SIZE];
		snprintf(name, sizeof(name), "%s/%u", one->task_type, one->task_index);
		if (is_fed(producer, name, one->task_type) && add_task(producer, name) < 0)
			return tfc__fail_nomem(error, "feed");
	}
	if (tfc__list_is_empty(&producer->tasks))
		return tfc__fail(error, TFC_ENOENT, "feed", 0, "job %s has no task %s", info->job,
				 producer->only_task[0] ? producer->only_task : "that trains");
	return TFC_OK;
}

static void job_described(void *user, const tfc_reply *reply)
{
	tfc_feed_producer *producer = user;
	tfc_subscribe_options options = TFC_SUBSCRIBE_OPTIONS_INIT;
	tfc_error error = TFC_ERROR_INIT;
	producer->describing = NULL;
	options.skip_output = 1;
	int code = reply->code;
	if (code < 0) {
		error = *reply->error;
	} else {
		snprintf(producer->job, sizeof(producer->job), "%s", reply->job->job);
		code = add_tasks(producer, reply->job, &error);
	}
	if (code == TFC_OK)
		code = tfc__gateway_check(producer->gateway, &error);
	/* not a handle of the host's, which tfc_ctx_free would close before the producer */
	if (code == TFC_OK)
		code = producer->gateway->ops->subscribe(producer->gateway, producer->job, &options,
							 job_event, producer, &error,
							 &producer->sub);
	if (code < 0) {
		tfc__feed_producer_fail(producer, &error);
		return;
	}
	tfc_feed_event event = {.kind = TFC_FEED_EVENT_OPEN};
	producer->is_open = true;
	if (tfc__feed_producer_report(producer, &event))
		tfc__feed_producer_check_end(producer);
}

static void task_end_over(struct feed_task *task)
{
	tfc__feed_remote_close(task->over);
	task->over = NULL;
	tfc__feed_producer_wake(task->producer);
}

/* A node that does not know the field `over`. */
static void over_connected(void *user, int fd)
{
	close(fd);
	task_end_over(user);
}

/* The response; or the node cannot be reached. */
static void over_failed(void *user, const tfc_error *why)
{
	(void)why;
	task_end_over(user);
}

static void over_flushed(void *user)
{
	(void)user;
}

static const struct tfc__feed_remote_ops over_ops = {over_connected, over_failed, over_flushed};

static void task_report_over(struct feed_task *task)
{
	const tfc_feed_producer *producer = task->producer;
	struct tfc__feed_connect over = task_connect(task);
	over.is_over = true;
	over.producers = producer->producers;
	over.attempt = task->attempt;
	if (task->is_remote)
		tfc__feed_remote_open(producer->gateway, &over, &over_ops, task, NULL, &task->over);
	else
		tfc__feed_broker_report_over(&over, NULL);
}

bool tfc__feed_tasks_await_over(const tfc_feed_producer *producer)
{
	TFC__LIST_EACH (link, &producer->tasks)
		if (tfc__container_of(link, struct feed_task, link)->over)
			return true;
	return false;
}

void tfc__feed_tasks_report_over(tfc_feed_producer *producer)
{
	TFC__LIST_EACH (link, &producer->tasks) {
		struct feed_task *task = tfc__container_of(link, struct feed_task, link);
		if (task->node[0])
			task_report_over(task);
	}
	if (tfc__feed_tasks_await_over(producer))
		tfc__timer_set(&producer->over, tfc__now() + OVER_NS);
}

static void over_is_late(struct tfc__timer *timer)
{
	tfc_feed_producer *producer = tfc__container_of(timer, struct tfc_feed_producer, over);
	TFC__LIST_EACH (link, &producer->tasks)
		task_end_over(tfc__container_of(link, struct feed_task, link));
}

int tfc__feed_tasks_open(tfc_feed_producer *producer, const char *job)
{
	tfc__timer_init(&producer->over, producer->ctx, over_is_late);
	return tfc_gateway_describe(producer->gateway, job, NULL, job_described, producer,
				    &producer->describing);
}

void tfc__feed_tasks_close(tfc_feed_producer *producer)
{
	tfc__timer_cancel(&producer->over);
	tfc_sub_close(producer->sub);
	producer->sub = NULL;
	if (producer->describing)
		tfc__request_abandon(producer->describing);
	producer->describing = NULL;
	TFC__LIST_EACH (link, &producer->tasks) {
		struct feed_task *task = tfc__container_of(link, struct feed_task, link);
		tfc__list_remove(&task->link);
		tfc__timer_cancel(&task->retry);
		tfc__feed_socket_close(&task->broker);
		tfc__feed_stream_close(task->stream);
		tfc__feed_positions_fini(&task->committed);
		tfc__feed_remote_close(task->remote);
		tfc__feed_remote_close(task->over);
		free(task);
	}
}
