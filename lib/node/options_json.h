/*
 * Options as JSON: {"name": "a", "listen": ["tcp://:7777"], "slots": 4}. Each struct of options has
 * one table of keys, which drives its reader and the suggestion for a mistyped key; tests compare
 * the table with doc/guide/node-options.md and with the options of `tfc_run node`.
 */
#ifndef TFC_NODE_OPTIONS_JSON_H
#define TFC_NODE_OPTIONS_JSON_H

#include "base/strv.h"
#include <stdbool.h>
#include <tfcluster/gateway.h>

/* The type of a key's value, a JSON string or number, and of its field. */
enum tfc__option_kind {
	TFC__OPTION_TEXT,     /* const char *; never empty */
	TFC__OPTION_TEXTS,    /* const char *const *; one value or a list of them */
	TFC__OPTION_PASS_ENV, /* as TEXTS, of names of variables; "none" alone is an empty list */
	TFC__OPTION_GROUPS,   /* groups and group_count of tfc_node_options, by name or number */
	TFC__OPTION_COUNT,    /* uint32_t, at least 1 */
	TFC__OPTION_WHOLE_SECONDS, /* uint32_t, at least 1 */
	TFC__OPTION_SECONDS,       /* uint32_t milliseconds, at least 1 */
	TFC__OPTION_BYTES,         /* uint64_t, at least 1: 8589934592 or "8G" */
	TFC__OPTION_PORTS,         /* uint16_t port_first and port_last: "20000-29999" */
	TFC__OPTION_BASE_ENV,      /* uint32_t: "minimal" or "node" */
	TFC__OPTION_GOSSIP,        /* const char *: "HOST:PORT", or true for "auto" */
	TFC__OPTION_STORE,         /* no field: "local" */
	TFC__OPTION_OF_TOOL,       /* no field: true or false, for tfc_run itself */
};

struct tfc__option_key {
	const char *name; /* the name of tfc_run's option, without the dashes */
	enum tfc__option_kind kind;
	size_t offset; /* of the field */
};

struct tfc__option_keys {
	const char *component;
	const struct tfc__option_key *items;
	size_t count;
};

extern const struct tfc__option_keys tfc__node_keys;    /* of tfc_node_options */
extern const struct tfc__option_keys tfc__gateway_keys; /* of tfc_gateway_options */

/* The memory that the pointers in a struct of options refer to. Zeroed: none. */
struct tfc__option_storage {
	struct tfc__strv texts;
	char **lists[5];
	uint32_t list_count;
	uint32_t *groups;
};

/*
 * Reads JSON into `options`, whose size is set. Errors name the key and its line ("node.json:3:
 * slots: ..."; without a `file` "line 3: ...", and no prefix if the text is one line). With
 * `is_check`, groups are not looked up. End *ret_storage in any case. TFC_EPARSE, TFC_EINVAL,
 * TFC_ENOTSUP, TFC_ENOENT (a group), TFC_ENOMEM.
 */
int tfc__options_read_json(const struct tfc__option_keys *keys, const char *json, size_t len,
			   const char *file, bool is_check, void *options, tfc_error *error,
			   struct tfc__option_storage *ret_storage);
void tfc__option_storage_fini(struct tfc__option_storage *storage);

#endif
