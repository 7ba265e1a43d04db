#include "feed/broker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "feed/frame.h"
#include "feed/socket.h"

#define CALLERS_MAX 4096
#define ENDS_MAX 4096
#define PAUSE_NS 100000000u /* until accept is retried after a failure (no free descriptor) */

struct tfc__feed_broker {
	tfc_ctx *ctx;
	char address[TFC__FEED_ADDRESS_SIZE];
	uint32_t *uids;
	uint32_t uid_count;
	struct tfc__noted_fd fd;
	struct tfc__io io;
	struct tfc__timer pause;
	bool cannot_accept; /* since the last connection; logged once */
	struct tfc__link callers;
	uint32_t caller_count;
	struct tfc__link ends; /* struct feed_end */
	uint32_t end_count;
};

/* A producer that has left, because the tasks have consumed all that it had. */
struct feed_end {
	struct tfc__link link;
	char task[128];
	char queue[64];
	char producer[64];
	uint32_t producers;
	uint32_t attempt; /* the last one that knows it */
};

/* A connection from a consumer or a producer. */
struct feed_caller {
	struct tfc__feed_broker *broker;
	struct tfc__link link;
	struct tfc__feed_socket socket;
	/* 0 until its first message; TFC__FEED_REGISTER: a consumer; TFC__FEED_CONNECT: a producer
	 * that waits; TFC__FEED_CONNECTED: one that got its connection, and will leave */
	uint32_t kind;
	char task[128];
	char queue[64];
	uint32_t attempt;
};

void tfc__feed_address(char address[TFC__FEED_ADDRESS_SIZE], const char *id, const char *node)
{
	snprintf(address, TFC__FEED_ADDRESS_SIZE, "@tfcluster/feed/%s/%s", id, node);
}

static void caller_close(struct feed_caller *caller)
{
	caller->broker->caller_count--;
	tfc__list_remove(&caller->link);
	tfc__feed_socket_close(&caller->socket);
	free(caller);
}

static void caller_refuse(struct feed_caller *caller, int code, const char *text)
{
	struct tfc__feed_message message = {.kind = TFC__FEED_REFUSED, .code = code, .text = text};
	tfc__feed_socket_send(&caller->socket, &message, -1);
	caller_close(caller);
}

static struct feed_caller *find_consumer(const struct tfc__feed_broker *broker, const char *task,
					 const char *queue)
{
	TFC__LIST_EACH (link, &broker->callers) {
		struct feed_caller *caller = tfc__container_of(link, struct feed_caller, link);
		if (caller->kind == TFC__FEED_REGISTER && !strcmp(caller->task, task) &&
		    !strcmp(caller->queue, queue))
			return caller;
	}
	return NULL;
}

/* Makes the connection between the two. The producer leaves; without descriptors it is refused. */
static void pair_callers(struct feed_caller *consumer, struct feed_caller *producer)
{
	struct tfc__feed_message message = {.kind = TFC__FEED_CONNECTED};
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0) {
		caller_refuse(producer, TFC_EMFILE,
			      "the node has too many open files; raise its limit (ulimit -n)");
		return;
	}
	if (tfc__feed_socket_send(&consumer->socket, &message, ends[0]) < 0)
		caller_refuse(producer, TFC_ENOMEM, "the node is out of memory");
	else if (tfc__feed_socket_send(&producer->socket, &message, ends[1]) < 0)
		caller_close(producer);
	else
		producer->kind = TFC__FEED_CONNECTED;
	close(ends[0]);
	close(ends[1]);
}

/* ---- producers that have left */

static bool end_is_of(const struct feed_end *end, const char *task, const char *queue,
		      const char *producer)
{
	return !strcmp(end->task, task) && !strcmp(end->queue, queue) &&
	       (!producer || !strcmp(end->producer, producer));
}

static void broker_forget_end(struct tfc__feed_broker *broker, const char *task, const char *queue,
			      const char *producer)
{
	TFC__LIST_EACH (link, &broker->ends) {
		struct feed_end *end = tfc__container_of(link, struct feed_end, link);
		if (!end_is_of(end, task, queue, producer))
			continue;
		tfc__list_remove(link);
		broker->end_count--;
		free(end);
	}
}

/* An attempt learns it once: when it opens the queue again, it waits for the next feed. */
static void caller_send_ends(struct feed_caller *caller)
{
	TFC__LIST_EACH (link, &caller->broker->ends) {
		struct feed_end *end = tfc__container_of(link, struct feed_end, link);
		struct tfc__feed_message message = {.kind = TFC__FEED_OVER,
						    .producer = end->producer,
						    .producers = end->producers};
		if (!end_is_of(end, caller->task, caller->queue, NULL) ||
		    end->attempt >= caller->attempt)
			continue;
		end->attempt = caller->attempt;
		tfc__feed_socket_send(&caller->socket, &message, -1);
	}
}

static void broker_keep_end(struct tfc__feed_broker *broker,
			    const struct tfc__feed_message *message)
{
	broker_forget_end(broker, message->task, message->queue, message->producer);
	struct feed_end *end = broker->end_count < ENDS_MAX ? calloc(1, sizeof(*end)) : NULL;
	if (!end)
		return;
	snprintf(end->task, sizeof(end->task), "%s", message->task);
	snprintf(end->queue, sizeof(end->queue), "%s", message->queue);
	snprintf(end->producer, sizeof(end->producer), "%s", message->producer);
	end->producers = message->producers;
	end->attempt = message->attempt;
	tfc__list_append(&broker->ends, &end->link);
	broker->end_count++;
	struct feed_caller *consumer = find_consumer(broker, end->task, end->queue);
	if (consumer) /* perhaps of an attempt that the producer does not know */
		caller_send_ends(consumer);
}

int tfc__feed_broker_report_over(const struct tfc__feed_connect *over, tfc_error *error)
{
	const struct tfc__feed_message message = {.kind = TFC__FEED_OVER,
						  .version = TFC__FEED_VERSION,
						  .task = over->task,
						  .attempt = over->attempt,
						  .queue = over->queue,
						  .producer = over->producer,
						  .producers = over->producers};
	char address[TFC__FEED_ADDRESS_SIZE];
	struct tfc__buf data = {0};
	int fd;
	tfc__feed_address(address, over->job, over->node);
	int code = tfc__feed_socket_dial(address, error, &fd);
	if (code < 0)
		return code;
	tfc__feed_message_write(&data, &message);
	if (data.is_failed)
		code = tfc__fail_nomem(error, "feed");
	else
		send(fd, data.data, data.len, MSG_DONTWAIT | MSG_NOSIGNAL);
	tfc__buf_fini(&data);
	close(fd);
	return code;
}

/* ---- requests */

static void caller_register(struct feed_caller *caller)
{
	struct tfc__feed_broker *broker = caller->broker;
	struct feed_caller *other = find_consumer(broker, caller->task, caller->queue);
	if (other && other->attempt >= caller->attempt) {
		caller_refuse(caller, TFC_EEXIST, "the queue of this task has a consumer already");
		return;
	}
	if (other)
		caller_refuse(other, TFC_EEXIST, "a later attempt of the task reads the queue");
	caller->kind = TFC__FEED_REGISTER;
	caller_send_ends(caller);
	TFC__LIST_EACH (link, &broker->callers) {
		struct feed_caller *producer = tfc__container_of(link, struct feed_caller, link);
		if (producer->kind == TFC__FEED_CONNECT && !strcmp(producer->task, caller->task) &&
		    !strcmp(producer->queue, caller->queue))
			pair_callers(caller, producer);
	}
}

static void caller_connect(struct feed_caller *caller)
{
	struct feed_caller *consumer = find_consumer(caller->broker, caller->task, caller->queue);
	caller->kind = TFC__FEED_CONNECT;
	if (consumer)
		pair_callers(consumer, caller);
}

static void caller_message(void *user, const struct tfc__feed_message *message, int fd)
{
	struct feed_caller *caller = user;
	if (fd >= 0)
		close(fd);
	if (caller->kind || !message->task || !message->queue ||
	    (message->kind != TFC__FEED_REGISTER && message->kind != TFC__FEED_CONNECT &&
	     (message->kind != TFC__FEED_OVER || !message->producer))) {
		caller_refuse(caller, TFC_EPARSE, "not a request to the feed");
		return;
	}
	if (message->version != TFC__FEED_VERSION) {
		caller_refuse(caller, TFC_ENOTSUP, "the node has another version of the feed");
		return;
	}
	if (message->kind == TFC__FEED_OVER) {
		broker_keep_end(caller->broker, message);
		return;
	}
	snprintf(caller->task, sizeof(caller->task), "%s", message->task);
	snprintf(caller->queue, sizeof(caller->queue), "%s", message->queue);
	caller->attempt = message->attempt;
	if (message->kind == TFC__FEED_REGISTER) {
		caller_register(caller);
		return;
	}
	if (message->producer)
		broker_forget_end(caller->broker, message->task, message->queue, message->producer);
	caller_connect(caller);
}

static void caller_down(void *user, const tfc_error *why)
{
	(void)why;
	caller_close(user);
}

static const struct tfc__feed_socket_ops caller_ops = {caller_message, caller_down, NULL};

static bool is_user_allowed(const struct tfc__feed_broker *broker, int fd)
{
	struct ucred user = {.uid = (uid_t)-1};
	socklen_t len = sizeof(user);
	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &len);
	bool is_allowed = user.uid == 0 || user.uid == geteuid();
	for (uint32_t i = 0; i < broker->uid_count; i++)
		is_allowed |= user.uid == broker->uids[i];
	return is_allowed;
}

static void broker_add_caller(struct tfc__feed_broker *broker, int fd)
{
	struct feed_caller *caller = NULL;
	if (is_user_allowed(broker, fd) && broker->caller_count < CALLERS_MAX)
		caller = calloc(1, sizeof(*caller));
	if (!caller) {
		close(fd);
		return;
	}
	caller->broker = broker;
	if (tfc__feed_socket_open(&caller->socket, broker->ctx, fd, &caller_ops, caller, NULL) <
	    0) {
		free(caller);
		return;
	}
	broker->caller_count++;
	tfc__list_append(&broker->callers, &caller->link);
}

static void broker_accept(struct tfc__io *io, uint32_t events)
{
	struct tfc__feed_broker *broker = tfc__container_of(io, struct tfc__feed_broker, io);
	(void)events;
	tfc_error error = TFC_ERROR_INIT;
	int fd = accept4(broker->fd.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0) {
		broker->cannot_accept = false;
		broker_add_caller(broker, fd);
	} else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
		tfc__fail_errno(&error, "feed", errno, "cannot accept a connection of a feed");
		if (!broker->cannot_accept)
			tfc__log(broker->ctx, TFC_LOG_WARNING, "feed", "", "%s; retrying",
				 error.text);
		broker->cannot_accept = true;
		tfc__io_set(&broker->io, 0);
		tfc__timer_set(&broker->pause, tfc__now() + PAUSE_NS);
	}
}

static void broker_resume(struct tfc__timer *timer)
{
	struct tfc__feed_broker *broker = tfc__container_of(timer, struct tfc__feed_broker, pause);
	tfc__io_set(&broker->io, EPOLLIN);
}

int tfc__feed_broker_open(tfc_ctx *ctx, const char *address, const uint32_t *uids,
			  uint32_t uid_count, tfc_error *error,
			  struct tfc__feed_broker **ret_broker)
{
	int fd;
	int code = tfc__feed_socket_listen(address, error, &fd);
	if (code < 0)
		return code;
	struct tfc__feed_broker *broker = calloc(1, sizeof(*broker));
	uint32_t *copy = calloc(uid_count + 1, sizeof(*copy));
	code = broker && copy ? tfc__io_open(&broker->io, ctx, fd, EPOLLIN, broker_accept)
			      : TFC_ENOMEM;
	if (code < 0) {
		free(broker);
		free(copy);
		close(fd);
		return tfc__fail(error, code, "feed", 0, "cannot serve feed \"%.120s\": %s",
				 address, tfc_err_text(code));
	}
	broker->ctx = ctx;
	broker->uids = copy;
	for (uint32_t i = 0; i < uid_count; i++)
		copy[i] = uids[i];
	broker->uid_count = uid_count;
	snprintf(broker->address, sizeof(broker->address), "%s", address);
	tfc__fd_note(ctx, &broker->fd, fd);
	tfc__timer_init(&broker->pause, ctx, broker_resume);
	tfc__list_init(&broker->callers);
	tfc__list_init(&broker->ends);
	*ret_broker = broker;
	return TFC_OK;
}

const char *tfc__feed_broker_address(const struct tfc__feed_broker *broker)
{
	return broker->address;
}

void tfc__feed_broker_close(struct tfc__feed_broker *broker)
{
	if (!broker)
		return;
	TFC__LIST_EACH (link, &broker->callers)
		caller_close(tfc__container_of(link, struct feed_caller, link));
	TFC__LIST_EACH (end, &broker->ends)
		free(tfc__container_of(end, struct feed_end, link));
	tfc__timer_cancel(&broker->pause);
	tfc__io_close(&broker->io);
	tfc__fd_close(&broker->fd);
	free(broker->uids);
	free(broker);
}
