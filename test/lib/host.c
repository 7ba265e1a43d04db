#include "host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "leaks.h"

#define TURN_MS 30000 /* nothing happens for so long: it never will */

const struct host_calls host_linked = {
#define LINKED(name) .name = tfc_##name,
	HOST_CALLS(LINKED)
#undef LINKED
};

void host_load(void *library, struct host_calls *ret_calls)
{
#define LOADED(name)                                                 \
	*(void **)(&ret_calls->name) = dlsym(library, "tfc_" #name); \
	assert_non_null(*(void **)(&ret_calls->name));
	HOST_CALLS(LOADED)
#undef LOADED
}

static void check(const struct host *host, int code)
{
	if (code < 0)
		fail_msg("%s", host->calls->ctx_error(host->ctx)->text);
}

void host_open(struct host *host, const struct host_calls *calls)
{
	tfc_ctx_options ctx = TFC_CTX_OPTIONS_INIT;
	tfc_node_options node = TFC_NODE_OPTIONS_INIT;
	tfc_gateway_options gateway = TFC_GATEWAY_OPTIONS_INIT;
	*host = (struct host){.calls = calls};
	ctx.helper_dir = getenv("TFC_HELPER_DIR");
	assert_int_equal(calls->ctx_new(&ctx, NULL, &host->ctx), 0);
	node.temp_dir = leaks_temp_dir();
	check(host, calls->node_open(host->ctx, &node, &host->node));
	gateway.node = host->node;
	check(host, calls->gateway_open(host->ctx, &gateway, &host->gateway));
}

static void on_event(void *user, const tfc_event *event)
{
	struct host *host = user;
	size_t at = strlen(host->output);
	if (event->kind == TFC_EVENT_OUTPUT)
		snprintf(host->output + at, sizeof(host->output) - at, "%.*s\n",
			 (int)event->data_len, event->data);
	if (event->kind != TFC_EVENT_END)
		return;
	host->state = event->job_state;
	host->reason = event->reason;
	host->status = event->signal ? event->signal : event->exit_code;
	host->is_over = true;
}

static void on_submitted(void *user, const tfc_reply *reply)
{
	struct host *host = user;
	assert_int_equal(reply->code, 0);
	check(host, host->calls->gateway_subscribe(host->gateway, reply->text, NULL, on_event, host,
						   &host->sub));
}

void host_submit(struct host *host, const char *line)
{
	char text[512];
	tfc_error error = TFC_ERROR_INIT;
	tfc_job *job = NULL;
	host->calls->sub_close(host->sub);
	host->sub = NULL;
	host->is_over = false;
	host->output[0] = '\0';
	snprintf(text, sizeof(text),
		 "{\"argv\": [\"/bin/sh\", \"-c\", \"%s\"], \"roles\": {\"worker\": {}}}", line);
	if (host->calls->job_parse(text, strlen(text), NULL, &error, &job) < 0)
		fail_msg("%s", error.text);
	int code = host->calls->gateway_submit(host->gateway, job, NULL, on_submitted, host, NULL);
	host->calls->job_free(job);
	check(host, code);
}

void host_run(struct host *host)
{
	check(host, host->calls->ctx_run(host->ctx, TURN_MS));
}

void host_await_output(struct host *host, const char *text)
{
	while (!strstr(host->output, text)) {
		assert_false(host->is_over);
		host_run(host);
	}
}

void host_await_end(struct host *host)
{
	while (!host->is_over)
		host_run(host);
}

void host_close(struct host *host)
{
	host->calls->sub_close(host->sub);
	host->calls->gateway_close(host->gateway);
	host->calls->node_close(host->node);
	host->calls->ctx_free(host->ctx);
}
