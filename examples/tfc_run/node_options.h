/*
 * What `tfc_run node` was asked to be.
 */
#ifndef TFC_RUN_NODE_OPTIONS_H
#define TFC_RUN_NODE_OPTIONS_H

#include "options.h"

struct node_options {
	const char *name;
	struct texts listen;
	const char *advertise;
	const char *members;
	const char *key;
	const char *state; /* absolute */
	uint16_t ports[2]; /* first and last */
	uint32_t slots;
	uint64_t memory_bytes;
	const char *gpus;
	const char *upstream_map;
	struct texts labels;
	const char *submit_user;
	uint32_t base_env; /* enum tfc_base_env; 0: not given */
	struct texts pass_env;
	struct texts group_names;
	uint32_t groups[32]; /* their ids */
	uint32_t client_connections, key_connections;
	uint32_t client_requests, key_requests, connection_requests;
	uint64_t client_bytes, key_bytes, connection_bytes;
	uint32_t lease_ms, probe_ms, suspect_ms, down_ms;
	bool is_quiet;
	bool is_json;

	char own_name[256]; /* what name points to when it was not given */
	char *own_state;
	struct config *config;
};

/* Reads argv[1...]; prints the help or a sentence about what is wrong. Strings point into argv or
 * into the options themselves. To be ended in every case. */
enum options_result node_options_read(int argc, char **argv, struct node_options *ret_options);
void node_options_end(struct node_options *options);

#endif
