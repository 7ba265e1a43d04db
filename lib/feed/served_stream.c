/*
 * A stream from a producer on another machine to a task of this node. Frames become messages at
 * once, so that nothing waits here but small messages that the consumer does not read; the caller's
 * credit bounds these.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "feed/broker.h"
#include "feed/relay.h"
#include "feed/served.h"

struct feed_here {
	struct feed_served served;
	struct tfc__feed_socket broker; /* until there is a consumer */
	struct tfc__feed_relay *relay;  /* NULL: none yet */
	struct tfc__work grant;
	uint64_t granting; /* bytes of credit that the caller does not know yet */
	bool is_named;     /* the caller knows the number of the stream */
};

static struct feed_here *here_of(struct feed_served *served)
{
	return tfc__container_of(served, struct feed_here, served);
}

static int here_send_item(struct feed_here *here, const struct tfc__feed_frame *frame)
{
	struct tfc__buf item = {0};
	tfc__feed_frame_write(&item, frame);
	int code = item.is_failed ? TFC_ENOMEM : tfc__rpc_item(here->served.request, &item);
	tfc__buf_fini(&item);
	return code;
}

/* Returns TFC_EAGAIN without credit from the caller. */
static int here_send_grant(struct feed_here *here)
{
	const struct tfc__feed_frame frame = {.stream = here->is_named ? 0 : here->served.number,
					      .credit = here->granting};
	if (!frame.credit)
		return TFC_OK;
	if (!tfc__rpc_credit(here->served.request))
		return TFC_EAGAIN;
	int code = here_send_item(here, &frame);
	if (code < 0)
		return code;
	here->served.credit += frame.credit;
	here->granting = 0;
	here->is_named = true;
	return TFC_OK;
}

/* Returns false if the stream has ended: the caller would wait for the credit for ever. */
static bool here_grant(struct feed_here *here)
{
	tfc_error error = TFC_ERROR_INIT;
	int code = here_send_grant(here);
	if (code == TFC_OK || code == TFC_EAGAIN)
		return true;
	tfc__fail(&error, TFC_EAGAIN, "feed", 0, "cannot send to the producer: %s",
		  tfc_err_text(code));
	tfc__feed_served_end(&here->served, &error);
	return false;
}

/* Once a turn at most. */
static void here_on_grant(struct tfc__work *work)
{
	here_grant(tfc__container_of(work, struct feed_here, grant));
}

static int here_send(void *user, struct tfc__feed_frame *frame)
{
	struct feed_here *here = user;
	int code = here_send_grant(here);
	if (code < 0)
		return code;
	return tfc__rpc_credit(here->served.request) ? here_send_item(here, frame) : TFC_EAGAIN;
}

static void here_handled(void *user, uint64_t cost)
{
	struct feed_here *here = user;
	here->granting += cost;
	tfc__work_schedule(&here->grant);
}

static void here_down(void *user, const tfc_error *why)
{
	struct feed_here *here = user;
	here_send_grant(here); /* so that the producer knows what has arrived */
	tfc__feed_served_end(&here->served, why);
}

static const struct tfc__feed_relay_ops here_relay_ops = {here_send, here_handled, here_down};

static void here_resume(struct feed_served *served)
{
	struct feed_here *here = here_of(served);
	if (here_grant(here) && here->relay)
		tfc__feed_relay_resume(here->relay);
}

static void here_receive(struct feed_served *served, const struct tfc__feed_frame *frame)
{
	tfc__feed_relay_receive(here_of(served)->relay, frame);
}

static void here_free(struct feed_served *served)
{
	struct feed_here *here = here_of(served);
	tfc__work_cancel(&here->grant);
	tfc__feed_socket_close(&here->broker);
	tfc__feed_relay_close(here->relay);
	free(here);
}

static const struct feed_served_ops here_ops = {here_receive, here_resume, here_free};

/* ---- the broker of this node */

static void here_broker_message(void *user, const struct tfc__feed_message *message, int fd)
{
	struct feed_here *here = user;
	tfc_error error = TFC_ERROR_INIT;
	if (message->kind == TFC__FEED_CONNECTED && fd >= 0) {
		tfc__feed_socket_close(&here->broker);
		if (tfc__feed_relay_open(here->served.service->ctx, fd, &here_relay_ops, here,
					 &error, &here->relay) < 0)
			tfc__feed_served_end(&here->served, &error);
		else
			here_handled(here, TFC__FEED_CREDIT);
		return;
	}
	if (fd >= 0)
		close(fd);
	if (message->kind != TFC__FEED_REFUSED)
		return;
	tfc__fail(&error, message->code < 0 ? message->code : TFC_EPARSE, "feed", 0, "%s",
		  message->text ? message->text : "refused");
	tfc__feed_served_end(&here->served, &error);
}

static void here_broker_down(void *user, const tfc_error *why)
{
	here_down(user, why);
}

static const struct tfc__feed_socket_ops here_broker_ops = {here_broker_message, here_broker_down,
							    NULL};

static int here_dial(struct feed_here *here, const struct tfc__feed_connect *connect,
		     tfc_error *error)
{
	char address[TFC__FEED_ADDRESS_SIZE];
	struct tfc__feed_message message = {.kind = TFC__FEED_CONNECT,
					    .version = TFC__FEED_VERSION,
					    .task = connect->task,
					    .queue = connect->queue};
	if (*connect->producer)
		message.producer = connect->producer;
	int fd;
	tfc__feed_address(address, connect->job, connect->node);
	int code = tfc__feed_socket_dial(address, error, &fd);
	if (code == TFC_EUNREACH)
		return tfc__fail(error, TFC_ENOENT, "feed", 0, "job %s has no feed on node %s now",
				 connect->job, connect->node);
	if (code < 0)
		return code;
	code = tfc__feed_socket_open(&here->broker, here->served.service->ctx, fd, &here_broker_ops,
				     here, error);
	if (code < 0)
		return code;
	code = tfc__feed_socket_send(&here->broker, &message, -1);
	return code < 0 ? tfc__fail_nomem(error, "feed") : TFC_OK;
}

int tfc__feed_serve_over(struct tfc__rpc_request *request, const struct tfc__feed_connect *connect,
			 tfc_error *error)
{
	int code = tfc__feed_broker_report_over(connect, error);
	if (code == TFC_OK)
		tfc__rpc_reply(request, NULL);
	return code;
}

int tfc__feed_serve_here(struct tfc__feed_service *service, struct tfc__rpc_request *request,
			 const struct tfc__feed_connect *connect, tfc_error *error)
{
	struct feed_here *here = calloc(1, sizeof(*here));
	if (!here)
		return tfc__fail_nomem(error, "feed");
	tfc__work_init(&here->grant, service->ctx, here_on_grant);
	here->served.service = service;
	int code = here_dial(here, connect, error);
	if (code == TFC_OK)
		code = tfc__feed_served_add(&here->served, service, request, &here_ops, error);
	if (code < 0)
		here_free(&here->served);
	return code;
}
