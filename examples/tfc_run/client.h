/*
 * A client of a node's gateway: opens it, asks one thing, waits for the answer. Sentences about
 * what is wrong go to stderr.
 */
#ifndef TFC_RUN_CLIENT_H
#define TFC_RUN_CLIENT_H

#include <jansson.h>
#include <tfcluster/tfcluster.h>

#include "gateway_options.h"
#include "tfc_run.h"

struct client {
	struct gateway_options options; /* filled by the command line */
	tfc_ctx *ctx;
	tfc_gateway *gateway;
	struct output *output; /* where the library's warnings go; NULL: stderr */
};

/* 0, or -1 after a sentence. To be ended in every case. */
int client_open(struct client *client);
void client_end(struct client *client);

/* Reads a command line, which has &client->options among its tables, and opens the gateway. False:
 * the command is over with *ret_status. */
bool client_begin(struct client *client, struct command_line *line, int argc, char **argv,
		  int *ret_status);

/* The answer to one request, for tfc_reply_fn client_answer. */
struct answer {
	bool is_there;
	int code;
	char *text; /* free */
};
void client_answer(void *user, const tfc_reply *reply);

/* Dispatches until the answer is there; `begun` is what the request itself returned. 0, or -1 after
 * a sentence. */
int client_await(struct client *client, int begun, struct answer *answer);

/* An answer as JSON, for people with all its strings printable; NULL: it is none. */
json_t *client_json(const char *text, bool is_for_people);

/* Prints text on stdout, in one piece and printable, of more than one line. The exit status. */
int print_text(const char *text);
int print_line(const char *text); /* and a newline */

#endif
