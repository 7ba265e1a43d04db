/*
 * The options of `tfc_run node`: the object for tfc_node_open_json. The library has the table of
 * keys and checks every value; the command line uses the same names, and adds their help.
 */
#ifndef TFC_RUN_NODE_OPTIONS_H
#define TFC_RUN_NODE_OPTIONS_H

#include <jansson.h>

#include "options.h"

struct node_options {
	json_t *values;   /* name: string, or list of strings */
	char *json;       /* the same as text */
	const char *name; /* the node's */
	bool is_quiet;
	bool is_json;
	bool is_verbose;
};

/* Reads argv[1...] and the file of --config; prints the help or an error message. Call
 * node_options_end in every case. */
enum options_result node_options_read(int argc, char **argv, struct node_options *ret_options);
void node_options_end(struct node_options *options);

#endif
