#include "node/upstream_map.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "job/job_keys.h"
#include "member/watched_file.h"

struct tfc__upstream_map {
	struct tfc__watched_file watched;
	tfc_ctx *ctx;
	json_t *root;                     /* valid */
	uint64_t version;                 /* of the whole file: increases with each change */
	struct tfc__upstreams *upstreams; /* NULL: nobody to notify yet */
};

/* ---- checking */

struct check {
	struct tfc__key_path path;
	tfc_error *error;
};

#define FAIL(c, ...) tfc__key_fail(&(c)->path, (c)->error, TFC_EINVAL, __VA_ARGS__)

/* Checks that all values are strings, or null where that is allowed. */
static int upstream_map_check_texts(struct check *c, json_t *object, bool is_null_allowed)
{
	const char *name;
	json_t *item;
	if (!json_is_object(object))
		return FAIL(c, "must be an object of strings");
	json_object_foreach(object, name, item)
	{
		if (json_is_string(item) || (is_null_allowed && json_is_null(item)))
			continue;
		tfc__key_path_push(&c->path, name);
		return FAIL(c, is_null_allowed ? "must be a member's name or null"
					       : "must be a string");
	}
	return TFC_OK;
}

static int upstream_map_check_nodes(struct check *c, json_t *object)
{
	const char *name;
	json_t *item;
	if (!json_is_object(object))
		return FAIL(c, "must be an object of nodes");
	json_object_foreach(object, name, item)
	{
		tfc__key_path_push(&c->path, name);
		int code = upstream_map_check_texts(c, item, false);
		if (code < 0)
			return code;
		tfc__key_path_pop(&c->path);
	}
	return TFC_OK;
}

static int upstream_map_check_key(struct check *c, const char *name, json_t *value)
{
	if (strcmp(name, "partitions") == 0)
		return upstream_map_check_texts(c, value, true);
	if (strcmp(name, "env") == 0)
		return upstream_map_check_texts(c, value, false);
	if (strcmp(name, "nodes") == 0)
		return upstream_map_check_nodes(c, value);
	return FAIL(c, "unknown key; the keys are partitions, env and nodes");
}

static int upstream_map_check_upstream(struct check *c, json_t *upstream)
{
	const char *name;
	json_t *item;
	if (!json_is_object(upstream))
		return FAIL(c, "must be an object");
	json_object_foreach(upstream, name, item)
	{
		tfc__key_path_push(&c->path, name);
		int code = upstream_map_check_key(c, name, item);
		if (code < 0)
			return code;
		tfc__key_path_pop(&c->path);
	}
	if (!json_object_size(json_object_get(upstream, "partitions")))
		return FAIL(c, "has no partitions");
	return TFC_OK;
}

static int upstream_map_check(struct check *c, json_t *root)
{
	const char *name;
	json_t *item;
	if (!json_is_object(root))
		return FAIL(c, "must be an object of upstreams");
	json_object_foreach(root, name, item)
	{
		tfc__key_path_push(&c->path, name);
		int code = upstream_map_check_upstream(c, item);
		if (code < 0)
			return code;
		tfc__key_path_pop(&c->path);
	}
	return TFC_OK;
}

static int upstream_map_parse(const char *path, const char *text, size_t len, tfc_error *error,
			      json_t **ret_root)
{
	struct check c = {.error = error};
	json_error_t detail;
	json_t *root = NULL;
	int code = tfc__json_load(text, len, JSON_REJECT_DUPLICATES, &detail, &root);
	if (code == TFC_ENOMEM)
		return tfc__fail_nomem(error, "node");
	if (code < 0) {
		tfc__fail(error, code, "node", 0, "%s", detail.text);
		return tfc__fail_prefix(error, code, "%.80s:%d: ", path,
					detail.line > 0 ? detail.line : 1);
	}
	code = upstream_map_check(&c, root);
	if (code < 0 && error)
		error->component = "node";
	if (code < 0) {
		tfc__fail_prefix(error, code, "%.80s:%u: ", path,
				 tfc__key_line(text, len, &c.path));
		json_decref(root);
		return code;
	}
	*ret_root = root;
	return TFC_OK;
}

/* ---- changes */

static void upstream_map_report_changes(struct tfc__upstream_map *map, json_t *older)
{
	const char *name;
	json_t *item;
	json_object_foreach(older, name, item)
	{
		if (!json_equal(item, json_object_get(map->root, name)))
			tfc__upstreams_changed(map->upstreams, name, map->version);
	}
	json_object_foreach(map->root, name, item)
	{
		if (!json_object_get(older, name))
			tfc__upstreams_changed(map->upstreams, name, map->version);
	}
}

static int upstream_map_on_text(struct tfc__watched_file *watched, const char *text, size_t len,
				tfc_error *error)
{
	struct tfc__upstream_map *map = tfc__container_of(watched, struct tfc__upstream_map,
							  watched);
	json_t *root = NULL;
	int code = upstream_map_parse(watched->watch.path, text, len, error, &root);
	if (code < 0)
		return code;
	json_t *older = map->root;
	map->root = root;
	map->version++;
	watched->item_count = (uint32_t)json_object_size(root);
	if (map->upstreams)
		upstream_map_report_changes(map, older);
	json_decref(older);
	return TFC_OK;
}

/* ---- responses */

static int upstream_map_add_env(tfc_upstream_request *request, const char *node, json_t *env)
{
	const char *name;
	json_t *item;
	int code = TFC_OK;
	json_object_foreach(env, name, item)
	{
		if (code == TFC_OK)
			code = tfc_upstream_add_env(request, node, name, json_string_value(item));
	}
	return code;
}

static int upstream_map_add_upstream(tfc_upstream_request *request, json_t *upstream)
{
	const char *name;
	json_t *item;
	int code = upstream_map_add_env(request, NULL, json_object_get(upstream, "env"));
	json_object_foreach(json_object_get(upstream, "partitions"), name, item)
	{
		if (code == TFC_OK)
			code = tfc_upstream_add_partition(request, name, json_string_value(item));
	}
	json_object_foreach(json_object_get(upstream, "nodes"), name, item)
	{
		if (code == TFC_OK)
			code = upstream_map_add_env(request, name, item);
	}
	return code;
}

static void upstream_map_resolve(void *impl, const char *name, tfc_upstream_request *request)
{
	const struct tfc__upstream_map *map = impl;
	json_t *upstream = json_object_get(map->root, name);
	if (!upstream)
		tfc_upstream_fail(request, "it is not in the upstream map");
	else if (upstream_map_add_upstream(request, upstream) < 0)
		tfc_upstream_fail(request, tfc_ctx_error(map->ctx)->text);
	else
		tfc_upstream_complete(request, map->version);
}

/* Every request completes immediately. */
static void upstream_map_cancel(void *impl, tfc_upstream_request *request)
{
}

const tfc_upstream_ops tfc__upstream_map_ops = {
	.size = sizeof(tfc_upstream_ops),
	.resolve = upstream_map_resolve,
	.cancel = upstream_map_cancel,
};

/* ---- open, close */

int tfc__upstream_map_open(tfc_ctx *ctx, const char *path, tfc_error *error,
			   struct tfc__upstream_map **ret_map)
{
	struct tfc__upstream_map *map = calloc(1, sizeof(*map));
	if (!map)
		return tfc__fail_nomem(error, "node");
	map->ctx = ctx;
	map->watched.component = "node";
	map->watched.kept = "upstreams not changed";
	map->watched.items = "upstreams";
	map->watched.fn = upstream_map_on_text;
	int code = tfc__watched_file_init(&map->watched, path, error);
	if (code == TFC_OK)
		code = tfc__watched_file_start(&map->watched, ctx, error);
	if (code < 0) {
		tfc__upstream_map_close(map);
		return code;
	}
	*ret_map = map;
	return TFC_OK;
}

void tfc__upstream_map_report(struct tfc__upstream_map *map, struct tfc__upstreams *upstreams)
{
	map->upstreams = upstreams;
}

void tfc__upstream_map_close(struct tfc__upstream_map *map)
{
	if (!map)
		return;
	tfc__watched_file_stop(&map->watched);
	tfc__watched_file_fini(&map->watched);
	json_decref(map->root);
	free(map);
}
