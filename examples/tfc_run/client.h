/*
 * A client of a node's gateway: opens it, sends one request, waits for the response. Errors are
 * printed on stderr.
 */
#ifndef TFC_RUN_CLIENT_H
#define TFC_RUN_CLIENT_H

#include <tfcluster/tfcluster.h>

#include "gateway_options.h"
#include "tfc_run.h"

struct client {
	struct gateway_options options; /* filled by the command line */
	tfc_ctx *ctx;
	tfc_gateway *gateway;
	struct output *output;   /* receives the library's warnings; NULL: stderr */
	uint64_t quiet_until_ns; /* when client_note_wait prints; 0: it has, or waits for nothing */
};

/* 0, or -1 after an error message. Call client_end in every case. */
int client_open(struct client *client);
void client_end(struct client *client);

/* Reads a command line, which has &client->options among its tables, and opens the gateway. False:
 * the command has ended with *ret_status. */
bool client_begin(struct client *client, struct command_line *line, int argc, char **argv,
		  int *ret_status);

/* The response to one request, for tfc_reply_fn client_on_reply. */
struct response {
	/* Called with a successful response, whose structs are valid during the call only; returns
	 * the exit status. NULL: the text is kept. */
	int (*handle)(void *user, const tfc_reply *reply);
	void *user;
	int status; /* what `handle` returned */
	bool has_arrived;
	int code;
	char *text; /* freed by the caller */
};
void client_on_reply(void *user, const tfc_reply *reply);

/* While a response is awaited: client_note_wait prints once that none has come for 3 s since
 * client_begin_wait. It returns the milliseconds until it has something to print, or -1. */
void client_begin_wait(struct client *client);
int client_note_wait(struct client *client);

/* Dispatches until the response has arrived; `begun` is what the request function returned. 0, or
 * -1 after an error message. */
int client_await(struct client *client, int begun, struct response *response);

bool job_has_ended(const tfc_job_info *job); /* false for a damaged job */

/* Print a text of several lines on stdout, in one write; print_text escapes control characters.
 * They return the exit status. */
int print_verbatim(const char *text);
int print_text(const char *text);
int print_line(const char *text); /* appends a newline */

#endif
