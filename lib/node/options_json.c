#include "node/options_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tfcluster/memory.h>

#include "agent/user.h"
#include "base/fail.h"
#include "base/json.h"
#include "ctx/ctx.h"
#include "job/job_keys.h"

#define NODE(name, kind, field)                                             \
	{                                                                   \
		name, TFC__OPTION_##kind, offsetof(tfc_node_options, field) \
	}
#define GATEWAY(name, kind, field)                                             \
	{                                                                      \
		name, TFC__OPTION_##kind, offsetof(tfc_gateway_options, field) \
	}

static const struct tfc__option_key node_keys[] = {
	NODE("name", TEXT, name),
	NODE("listen", TEXTS, listen),
	NODE("advertise", TEXT, host),
	NODE("members", TEXT, members_file),
	NODE("key", TEXT, key_file),
	NODE("state", TEXT, state_dir),
	{"store", TFC__OPTION_STORE, 0},
	NODE("ports", PORTS, port_first),
	NODE("slots", COUNT, slots),
	NODE("memory", BYTES, memory_bytes),
	NODE("zygotes", COUNT, zygotes),
	NODE("gpus", TEXT, gpus),
	NODE("label", TEXTS, labels),
	NODE("submit-user", TEXT, submit_user),
	NODE("base-env", BASE_ENV, base_env),
	NODE("pass-env", PASS_ENV, pass_env),
	NODE("python", TEXT, python),
	NODE("group", GROUPS, groups),
	NODE("client-connections", COUNT, client_connections),
	NODE("key-connections", COUNT, key_connections),
	NODE("client-requests", COUNT, client_requests),
	NODE("key-requests", COUNT, key_requests),
	NODE("connection-requests", COUNT, connection_requests),
	NODE("client-bytes", BYTES, client_bytes),
	NODE("key-bytes", BYTES, key_bytes),
	NODE("connection-bytes", BYTES, connection_bytes),
	NODE("retain-jobs", COUNT, retain_jobs),
	NODE("retain", WHOLE_SECONDS, retain_s),
	NODE("retain-bytes", BYTES, retain_bytes),
	NODE("log-dir", TEXT, log_dir),
	NODE("temp-dir", TEXT, temp_dir),
	NODE("upstream-map", TEXT, upstream_map),
	NODE("lease", SECONDS, lease_ms),
	NODE("probe", SECONDS, probe_ms),
	NODE("suspect", SECONDS, suspect_ms),
	NODE("down", SECONDS, down_ms),
	{"quiet", TFC__OPTION_OF_TOOL, 0},
	{"json", TFC__OPTION_OF_TOOL, 0},
	{"verbose", TFC__OPTION_OF_TOOL, 0},
	NODE("gossip", GOSSIP, gossip),
	NODE("join", TEXTS, join),
};

static const struct tfc__option_key gateway_keys[] = {
	GATEWAY("gateway", TEXT, address),       GATEWAY("key", TEXT, key_file),
	GATEWAY("connect", SECONDS, connect_ms), GATEWAY("reconnect", SECONDS, reconnect_ms),
	GATEWAY("temp-dir", TEXT, temp_dir),
};

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

const struct tfc__option_keys tfc__node_keys = {"node", node_keys, COUNT(node_keys)};
const struct tfc__option_keys tfc__gateway_keys = {"gateway", gateway_keys, COUNT(gateway_keys)};

struct reader {
	const struct tfc__option_keys *keys;
	struct tfc__key_path path; /* the key that an error is about */
	tfc_error *error;
	void *options;
	struct tfc__option_storage *storage;
	bool is_check;
};

#define FAIL(r, ...) tfc__key_fail(&(r)->path, (r)->error, TFC_EINVAL, __VA_ARGS__)

static int option_nomem(struct reader *r)
{
	return tfc__fail_nomem(r->error, r->keys->component);
}

/* ---- values, all read as text */

#define TEXT_SIZE 64

/* The text of a string or number; `buffer` holds that of a number. */
static int option_text(struct reader *r, const json_t *value, char buffer[TEXT_SIZE],
		       const char **ret_text)
{
	if (json_is_string(value)) {
		*ret_text = json_string_value(value);
		return **ret_text ? TFC_OK : FAIL(r, "must not be empty");
	}
	if (!json_is_number(value))
		return FAIL(r, "must be a string or a number");
	size_t len = json_dumpb(value, buffer, TEXT_SIZE - 1,
				JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
	if (!len)
		return option_nomem(r);
	buffer[len < TEXT_SIZE ? len : 0] = '\0';
	*ret_text = buffer;
	return TFC_OK;
}

/* Reads the digits at *at, and advances *at. */
static bool read_digits(const char **at, uint64_t max, uint64_t *ret_number)
{
	const char *start = *at;
	uint64_t number = 0;
	for (; **at >= '0' && **at <= '9'; (*at)++) {
		uint64_t digit = (uint64_t)(**at - '0');
		if (number > (max - digit) / 10)
			return false;
		number = number * 10 + digit;
	}
	*ret_number = number;
	return *at > start;
}

static bool option_read_count(const char *text, uint32_t *ret_count)
{
	uint64_t number;
	bool is_number = read_digits(&text, UINT32_MAX, &number) && !*text && number;
	if (is_number)
		*ret_count = (uint32_t)number;
	return is_number;
}

/* strtod would depend on the locale. */
static bool option_read_seconds(const char *text, uint32_t *ret_ms)
{
	uint64_t seconds, ms = 0;
	if (!read_digits(&text, 1000000, &seconds))
		return false;
	if (*text == '.')
		text++;
	bool has_fraction = false;
	for (uint32_t unit = 100; *text >= '0' && *text <= '9'; unit /= 10, text++) {
		ms += unit * (uint32_t)(*text - '0');
		has_fraction = has_fraction || *text != '0';
	}
	if (*text || (!seconds && !has_fraction))
		return false;
	ms += seconds * 1000;
	*ret_ms = ms ? (uint32_t)ms : 1;
	return true;
}

static bool option_read_bytes(const char *text, uint64_t *ret_bytes)
{
	static const char units[] = "KMGT";
	uint64_t number;
	if (!read_digits(&text, UINT64_MAX, &number) || !number)
		return false;
	const char *unit = *text ? strchr(units, *text) : NULL;
	int shift = unit ? 10 * (int)(unit - units + 1) : 0;
	if ((*text && (!unit || text[1])) || number > UINT64_MAX >> shift)
		return false;
	*ret_bytes = number << shift;
	return true;
}

static int option_read_ports(struct reader *r, const char *text, uint16_t ports[2])
{
	const char *at = text;
	uint64_t first, last;
	if (!read_digits(&at, UINT16_MAX, &first) || *at++ != '-' ||
	    !read_digits(&at, UINT16_MAX, &last) || *at || !first)
		return FAIL(r, "\"%s\" is not a range of ports, such as 20000-29999", text);
	if (first > last)
		return FAIL(r, "\"%s\" is reversed", text);
	ports[0] = (uint16_t)first;
	ports[1] = (uint16_t)last;
	return TFC_OK;
}

static int option_read_text(struct reader *r, const char *text, const char **ret_text)
{
	char *copy = strdup(text);
	tfc__strv_take(&r->storage->texts, copy);
	if (r->storage->texts.is_failed)
		return option_nomem(r);
	*ret_text = copy;
	return TFC_OK;
}

static int option_read_store(struct reader *r, const char *text)
{
	if (strncmp(text, "etcd:", 5) == 0)
		return tfc__key_fail(&r->path, r->error, TFC_ENOTSUP,
				     "etcd is not supported by this version");
	return strcmp(text, "local") == 0 ? TFC_OK
					  : FAIL(r, "unknown store \"%s\"; use \"local\"", text);
}

static int option_read_base_env(struct reader *r, const char *text, uint32_t *ret_base_env)
{
	bool is_node = strcmp(text, "node") == 0;
	if (!is_node && strcmp(text, "minimal") != 0)
		return FAIL(r, "\"%s\" is neither minimal nor node", text);
	*ret_base_env = is_node ? TFC_BASE_ENV_NODE : TFC_BASE_ENV_MINIMAL;
	return TFC_OK;
}

/* ---- lists */

static int check_pass_env(struct reader *r, char **names)
{
	for (char **name = names; *name; name++) {
		size_t len = strcspn(*name, "=");
		if ((*name)[len]) /* not shown: the value may be a secret */
			return FAIL(r,
				    "write only the name \"%.*s\"; its value is taken from the "
				    "node's environment",
				    (int)len, *name);
		if (strcmp(*name, "none") == 0 && (names[1] || name > names))
			return FAIL(r, "\"none\" must be the only value");
	}
	if (names[0] && strcmp(names[0], "none") == 0) {
		free(names[0]);
		names[0] = NULL;
	}
	return TFC_OK;
}

static int find_groups(struct reader *r, char **names)
{
	tfc_node_options *options = r->options;
	uint32_t count = 0;
	while (names[count])
		count++;
	if (r->is_check)
		return TFC_OK;
	r->storage->groups = calloc(count ? count : 1, sizeof(*r->storage->groups));
	if (!r->storage->groups)
		return option_nomem(r);
	for (uint32_t i = 0; i < count; i++) {
		struct tfc__user user;
		char text[256];
		snprintf(text, sizeof(text), "0:%s", names[i]);
		int code = tfc__user_find(text, TFC__PASSWD_FILE, TFC__GROUP_FILE, NULL, &user);
		r->storage->groups[i] = code == TFC_OK ? user.gid : 0;
		tfc__user_fini(&user);
		if (code == TFC_ENOMEM)
			return option_nomem(r);
		if (code < 0)
			return tfc__key_fail(&r->path, r->error, TFC_ENOENT,
					     "group \"%s\" not found", names[i]);
	}
	options->groups = r->storage->groups;
	options->group_count = count;
	return TFC_OK;
}

static int option_read_list(struct reader *r, const struct tfc__option_key *key,
			    const json_t *value)
{
	struct tfc__strv list = {0};
	size_t count = json_is_array(value) ? json_array_size(value) : 1;
	int code = TFC_OK;
	for (size_t i = 0; i < count && code == TFC_OK; i++) {
		char buffer[TEXT_SIZE];
		const char *text = "";
		const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;
		code = option_text(r, item, buffer, &text);
		tfc__strv_add(&list, text);
	}
	char **texts = code == TFC_OK ? tfc__strv_steal(&list) : NULL;
	tfc__strv_fini(&list);
	if (!texts)
		return code < 0 ? code : option_nomem(r);
	r->storage->lists[r->storage->list_count++] = texts; /* fits: each key occurs once */
	if (key->kind == TFC__OPTION_GROUPS)
		return find_groups(r, texts);
	if (key->kind == TFC__OPTION_PASS_ENV && (code = check_pass_env(r, texts)) < 0)
		return code;
	memcpy((char *)r->options + key->offset, &texts, sizeof(texts));
	return TFC_OK;
}

/* ---- keys */

static int option_read_scalar(struct reader *r, const struct tfc__option_key *key,
			      const json_t *value)
{
	void *field = (char *)r->options + key->offset;
	char buffer[TEXT_SIZE];
	const char *text;
	if (json_is_array(value))
		return FAIL(r, "must be one value, not a list");
	int code = option_text(r, value, buffer, &text);
	if (code < 0)
		return code;
	switch (key->kind) {
	case TFC__OPTION_COUNT:
		return option_read_count(text, field)
			       ? TFC_OK
			       : FAIL(r, "\"%s\" is not a whole number of at least 1", text);
	case TFC__OPTION_WHOLE_SECONDS:
		return option_read_count(text, field)
			       ? TFC_OK
			       : FAIL(r, "\"%s\" is not a whole number of seconds above 0", text);
	case TFC__OPTION_SECONDS:
		return option_read_seconds(text, field)
			       ? TFC_OK
			       : FAIL(r, "\"%s\" is not a number of seconds above 0", text);
	case TFC__OPTION_BYTES:
		return option_read_bytes(text, field)
			       ? TFC_OK
			       : FAIL(r,
				      "\"%s\" is not a number of bytes above 0, which may end in "
				      "K, M, G or T (powers of 1024), such as 8G",
				      text);
	case TFC__OPTION_PORTS:
		return option_read_ports(r, text, field);
	case TFC__OPTION_BASE_ENV:
		return option_read_base_env(r, text, field);
	case TFC__OPTION_STORE:
		return option_read_store(r, text);
	default:
		return option_read_text(r, text, field);
	}
}

/* true stands for "auto". */
static int option_read_gossip(struct reader *r, const struct tfc__option_key *key,
			      const json_t *value)
{
	const char **field = (const char **)(void *)((char *)r->options + key->offset);
	if (!json_is_boolean(value))
		return option_read_scalar(r, key, value);
	*field = json_is_true(value) ? "auto" : NULL;
	return TFC_OK;
}

static int option_fail_unknown(struct reader *r, const char *name)
{
	struct tfc__json_key list[64] = {{0}};
	struct tfc__json_keys names = {list, 0};
	char near[64];
	for (size_t i = 0; i < r->keys->count; i++)
		list[names.count++].path = r->keys->items[i].name;
	if (tfc__keys_suggest(&names, "", name, near))
		return FAIL(r, "unknown key; did you mean %s?", near);
	return FAIL(r, "unknown key");
}

static int option_read_key(struct reader *r, const char *name, const json_t *value)
{
	const struct tfc__option_key *key = NULL;
	for (size_t i = 0; i < r->keys->count && !key; i++)
		if (strcmp(r->keys->items[i].name, name) == 0)
			key = &r->keys->items[i];
	if (!key)
		return option_fail_unknown(r, name);
	switch (key->kind) {
	case TFC__OPTION_GOSSIP:
		return option_read_gossip(r, key, value);
	case TFC__OPTION_OF_TOOL:
		return json_is_boolean(value) ? TFC_OK : FAIL(r, "must be true or false");
	case TFC__OPTION_TEXTS:
	case TFC__OPTION_PASS_ENV:
	case TFC__OPTION_GROUPS:
		return option_read_list(r, key, value);
	default:
		return option_read_scalar(r, key, value);
	}
}

static int options_read_object(struct reader *r, json_t *root)
{
	const char *name;
	json_t *value;
	if (!json_is_object(root))
		return FAIL(r, "must be one object");
	json_object_foreach(root, name, value)
	{
		tfc__key_path_push(&r->path, name);
		int code = option_read_key(r, name, value);
		if (code < 0)
			return code;
		tfc__key_path_pop(&r->path);
	}
	return TFC_OK;
}

int tfc__options_read_json(const struct tfc__option_keys *keys, const char *json, size_t len,
			   const char *file, bool is_check, void *options, tfc_error *error,
			   struct tfc__option_storage *ret_storage)
{
	struct reader r = {.keys = keys,
			   .error = error,
			   .options = options,
			   .storage = ret_storage,
			   .is_check = is_check};
	json_error_t detail;
	json_t *root = NULL;
	uint32_t line = 1;
	*ret_storage = (struct tfc__option_storage){0};
	int code = tfc__json_load(json, len, JSON_REJECT_DUPLICATES, &detail, &root);
	if (code == TFC_ENOMEM)
		return option_nomem(&r);
	if (code < 0) {
		tfc__fail(error, code, keys->component, 0, "%s", detail.text);
		line = detail.line > 0 ? (uint32_t)detail.line : 1;
	} else if ((code = options_read_object(&r, root)) < 0 && code != TFC_ENOMEM) {
		line = tfc__key_line(json, len, &r.path);
	}
	json_decref(root); /* the path points into it */
	if (code < 0 && error)
		error->component = keys->component;
	if (code == TFC_OK || code == TFC_ENOMEM)
		return code;
	if (file)
		return tfc__fail_prefix(error, code, "%.80s:%u: ", file, line);
	return memchr(json, '\n', len) ? tfc__fail_prefix(error, code, "line %u: ", line) : code;
}

void tfc__option_storage_fini(struct tfc__option_storage *storage)
{
	for (uint32_t i = 0; i < storage->list_count; i++)
		tfc_strv_free(storage->lists[i]);
	tfc__strv_fini(&storage->texts);
	free(storage->groups);
}

/* ---- opening */

int tfc_node_check_json(const char *json, size_t len, const char *file, tfc_error *error)
{
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	struct tfc__option_storage storage;
	if (!json)
		return tfc__fail(error, TFC_EINVAL, "node", 0, "json is NULL");
	int code = tfc__options_read_json(&tfc__node_keys, json, len, file, true, &options, error,
					  &storage);
	tfc__option_storage_fini(&storage);
	return code;
}

int tfc_node_open_json(tfc_ctx *ctx, const char *json, size_t len, const char *file,
		       const char *const *env, const tfc_node_hooks *hooks, tfc_node **ret_node)
{
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	struct tfc__option_storage storage;
	int code = tfc__ctx_enter(ctx);
	if (code < 0)
		return code;
	if (!json)
		return tfc__ctx_fail(ctx, TFC_EINVAL, "node", 0, "json is NULL");
	options.env = env;
	options.hooks = hooks;
	code = tfc__options_read_json(&tfc__node_keys, json, len, file, false, &options,
				      tfc__ctx_error(ctx), &storage);
	if (code == TFC_OK)
		code = tfc_node_open(ctx, &options, ret_node);
	tfc__option_storage_fini(&storage);
	return code;
}

int tfc_gateway_open_json(tfc_ctx *ctx, tfc_node *node, const char *json, size_t len,
			  const char *file, tfc_gateway **ret_gateway)
{
	tfc_gateway_options options = TFC_GATEWAY_OPTIONS_INIT;
	struct tfc__option_storage storage;
	int code = tfc__ctx_enter(ctx);
	if (code < 0)
		return code;
	if (!json)
		return tfc__ctx_fail(ctx, TFC_EINVAL, "gateway", 0, "json is NULL");
	options.node = node;
	code = tfc__options_read_json(&tfc__gateway_keys, json, len, file, false, &options,
				      tfc__ctx_error(ctx), &storage);
	if (code == TFC_OK)
		code = tfc_gateway_open(ctx, &options, ret_gateway);
	tfc__option_storage_fini(&storage);
	return code;
}
