/*
 * A file that holds what a command line could: {"name": "a", "listen": ["tcp://..."], "slots": 4}.
 */
#ifndef TFC_RUN_CONFIG_H
#define TFC_RUN_CONFIG_H

#include "options.h"

struct config; /* the strings that options were set to */

/* Sets the options that the file names, as if they stood first on the command line; relative paths
 * in it are meant from the current directory. 0, or -1 after a sentence that names file and key.
 * The caller frees *ret_config, in every case, once the options are no longer used. */
int config_apply(const struct command_line *line, const char *path, struct config **ret_config);
void config_free(struct config *config);

#endif
