#include "client.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"

#define QUIET_MS 3000 /* then a command says what it waits for */

static void client_on_log(void *user, const tfc_log_entry *entry)
{
	struct client *client = user;
	client->quiet_until_ns = 0; /* the entry says what is waited for */
	if (client->output)
		output_message(client->output, ERROR, "%s", entry->text);
	else
		complain("%s", entry->text);
}

int client_open(struct client *client)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_ctx_options ctx = TFC_CTX_OPTIONS_INIT;
	tfc_gateway_options gateway = TFC_GATEWAY_OPTIONS_INIT;
	if (gateway_options_finish(&client->options) < 0)
		return -1;
	ctx.helper_dir = getenv("TFC_HELPER_DIR");
	ctx.log = client_on_log;
	ctx.log_user = client;
	ctx.log_level = TFC_LOG_WARNING;
	if (tfc_ctx_new(&ctx, &error, &client->ctx) < 0)
		return complain("%s", error.text);
	const char *temp_dir = getenv("TMPDIR");
	gateway.temp_dir = temp_dir && *temp_dir == '/' ? temp_dir : NULL;
	gateway.address = client->options.address;
	gateway.key_file = client->options.key;
	if (tfc_gateway_open(client->ctx, &gateway, &client->gateway) < 0)
		return complain("%s", tfc_ctx_error(client->ctx)->text);
	return 0;
}

bool client_begin(struct client *client, struct command_line *line, int argc, char **argv,
		  int *ret_status)
{
	enum options_result result = options_parse(line, argc, argv);
	*ret_status = result == OPTIONS_HELP ? 0 : RUN_FAILED;
	return result == OPTIONS_OK && client_open(client) == 0;
}

void client_end(struct client *client)
{
	tfc_gateway_close(client->gateway);
	tfc_ctx_free(client->ctx);
	gateway_options_end(&client->options);
}

void client_on_reply(void *user, const tfc_reply *reply)
{
	struct response *response = user;
	response->has_arrived = true;
	response->code = reply->code;
	if (reply->code < 0)
		complain("%s", reply->error->text);
	else if (response->handle)
		response->status = response->handle(response->user, reply);
	else if (!(response->text = strdup(reply->text)))
		die_without_memory();
}

void client_begin_wait(struct client *client)
{
	client->quiet_until_ns = now_ns() + QUIET_MS * 1000000ull;
}

int client_note_wait(struct client *client)
{
	uint64_t now = now_ns();
	if (!client->quiet_until_ns)
		return -1;
	if (now < client->quiet_until_ns)
		return (int)((client->quiet_until_ns - now) / 1000000) + 1;
	if (strchr(client->options.address, ','))
		complain("no response for %u s; still waiting; addresses are tried in turn: %s",
			 QUIET_MS / 1000, client->options.address);
	else
		complain("no response from %s for %u s; still waiting", client->options.address,
			 QUIET_MS / 1000);
	client->quiet_until_ns = 0;
	return -1;
}

int client_await(struct client *client, int begun, struct response *response)
{
	if (begun < 0)
		return complain("%s", tfc_ctx_error(client->ctx)->text);
	client_begin_wait(client);
	while (!response->has_arrived)
		if (tfc_ctx_run(client->ctx, client_note_wait(client)) < 0)
			return complain("%s", tfc_ctx_error(client->ctx)->text);
	return response->code < 0 ? -1 : 0;
}

bool job_has_ended(const tfc_job_info *job)
{
	return job->state >= TFC_JOB_SUCCEEDED && job->state <= TFC_JOB_STOPPED;
}

int print_verbatim(const char *text)
{
	signal(SIGPIPE, SIG_IGN);
	if (fputs(text, stdout) >= 0 && fflush(stdout) == 0)
		return 0;
	if (errno == EPIPE) /* the exit status of a process killed by SIGPIPE */
		return 128 + SIGPIPE;
	complain("cannot write to standard output: %s", strerror(errno));
	return RUN_FAILED;
}

int print_text(const char *text)
{
	char *lines = printable(text, "\n");
	int status = print_verbatim(lines);
	free(lines);
	return status;
}

int print_line(const char *text)
{
	char *line;
	if (asprintf(&line, "%s\n", text) < 0)
		die_without_memory();
	int status = print_text(line);
	free(line);
	return status;
}
