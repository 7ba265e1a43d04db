/*
 * Contexts: named pairs of gateway and key, in the file $XDG_CONFIG_HOME/tfcluster/config.json (or
 * ~/.config/tfcluster/config.json):
 *
 *	{"default": "lab", "contexts": {"lab": {"gateway": "tcp://10.0.0.1:7400", "key":
 *"lab.key"}}}
 *
 * A relative path of a key starts at the directory of the file.
 */
#ifndef TFC_RUN_CONTEXTS_H
#define TFC_RUN_CONTEXTS_H

struct contexts {
	char *file;          /* its path */
	struct json_t *root; /* valid, or NULL: there is no file */
};

/* Reads and checks the file. 0, or -1 after an error message. Call contexts_close in every case. */
int contexts_open(struct contexts *ret_contexts);
void contexts_close(struct contexts *contexts);

/* The name at `index`; NULL after the last one. Borrowed. */
const char *contexts_at(const struct contexts *contexts, unsigned index);

/* The context `name`, or with NULL the default one, to be freed by the caller: ret_key is NULL if
 * it has no key, both are NULL if there is no default. 0, or -1 after an error message. */
int contexts_find(const struct contexts *contexts, const char *name, char **ret_gateway,
		  char **ret_key);

#endif
