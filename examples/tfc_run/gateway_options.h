/*
 * The gateway to which a command connects, and the key. In this order: --gateway and --key; the
 * context that --context names; TFC_GATEWAY and TFC_KEY; the default context, which counts only if
 * its gateway does; the socket of this machine's node.
 */
#ifndef TFC_RUN_GATEWAY_OPTIONS_H
#define TFC_RUN_GATEWAY_OPTIONS_H

#include "options.h"

struct gateway_options {
	const char *address; /* "unix:PATH" or "tcp://HOST:PORT"; after gateway_options_finish */
	const char *key;     /* a file, or NULL */
	const char *context; /* its name, or NULL */
	/* What address and key point to if they were not given: */
	char *own_address;
	char *own_key;
};

extern const struct option gateway_options[];
extern const size_t gateway_option_count;

/* The table for a command line; `target` is a struct gateway_options. */
#define GATEWAY_OPTION_TABLE(target)                          \
	{                                                     \
		gateway_options, gateway_option_count, target \
	}

/* Fills in defaults. 0, or -1 after an error message. */
int gateway_options_finish(struct gateway_options *options);
void gateway_options_end(struct gateway_options *options);

/* The key file that TFC_KEY names; *ret_path is NULL if it names none. 0, or -1 after an error
 * message if there is no such file. */
int key_of_environment(const char **ret_path);

/* The default state directory of a node: /var/lib/tfcluster for root, else
 * $XDG_STATE_HOME/tfcluster, else ~/.local/state/tfcluster. The caller frees it; NULL after an
 * error message. */
char *default_state_dir(void);

/* The same without the exception for root. The caller frees it; NULL: out of memory. */
char *user_state_dir(void);

/* The path of the file with the contexts. The caller frees it. */
char *config_path(void);

#endif
