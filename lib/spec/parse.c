/*
 * Parses clusters from JSON, in the two forms that python/training/server_lib.py (ClusterSpec)
 * accepts. Duplicate keys and non-canonical indices ("01" beside "1"), which Python's json and
 * int() silently accept, are refused.
 */
#include "base/fail.h"
#include "base/json.h"
#include "spec/spec.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static int spec_add_task(tfc_spec *spec, const char *type, uint32_t task_index,
			 const json_t *address, tfc_error *error)
{
	if (!json_is_string(address))
		return tfc__fail(error, TFC_ESPEC, "spec", 0,
				 "%.80s/%u: an address is a string; write \"host:port\"", type,
				 task_index);
	return tfc_spec_add(spec, type, task_index, json_string_value(address), error);
}

struct entry {
	uint32_t index;
	const json_t *address;
};

static int compare_task_indices(const void *a, const void *b)
{
	uint32_t x = ((const struct entry *)a)->index, y = ((const struct entry *)b)->index;
	return (x > y) - (x < y);
}

static int read_task_index(const char *type, const char *key, tfc_error *error, uint32_t *ret_index)
{
	size_t len = strspn(key, "0123456789");
	unsigned long long index = len && len <= 10 ? strtoull(key, NULL, 10) : 0;
	if (len == 0 || len > 10 || key[len] || (key[0] == '0' && len > 1) ||
	    index > TFC__TASK_INDEX_MAX)
		return tfc__fail(error, TFC_ESPEC, "spec", 0,
				 "%.80s: \"%.40s\" is not a task index; use a whole number from 0 "
				 "without sign or leading zeros",
				 type, key);
	*ret_index = (uint32_t)index;
	return 0;
}

static int spec_add_task_map(tfc_spec *spec, const char *type, json_t *tasks, tfc_error *error)
{
	const char *key;
	json_t *address;
	size_t size = json_object_size(tasks), count = 0;
	int code = 0;
	if (!size)
		return 0;
	struct entry *entries = calloc(size, sizeof(*entries));
	if (!entries)
		return tfc__fail_nomem(error, "spec");
	json_object_foreach(tasks, key, address)
	{
		code = read_task_index(type, key, error, &entries[count].index);
		if (code < 0)
			goto done;
		entries[count++].address = address;
	}
	/* Adding tasks by rising index is an append. */
	qsort(entries, count, sizeof(*entries), compare_task_indices);
	for (size_t i = 0; i < count && code == 0; i++)
		code = spec_add_task(spec, type, entries[i].index, entries[i].address, error);
done:
	free(entries);
	return code;
}

static int spec_add_cluster(tfc_spec *spec, json_t *cluster, tfc_error *error)
{
	const char *type;
	json_t *tasks;
	if (!json_is_object(cluster))
		return tfc__fail(error, TFC_ESPEC, "spec", 0,
				 "the cluster must be an object: {\"worker\":[\"host:port\"]}");
	json_object_foreach(cluster, type, tasks)
	{
		enum tfc__task_type known;
		int code = tfc__rules_type(type, 0, error, &known);
		if (code == 0 && json_is_array(tasks))
			for (size_t i = 0; code == 0 && i < json_array_size(tasks); i++)
				code = spec_add_task(spec, type, (uint32_t)i,
						     json_array_get(tasks, i), error);
		else if (code == 0 && json_is_object(tasks))
			code = spec_add_task_map(spec, type, tasks, error);
		else if (code == 0)
			code = tfc__fail(error, TFC_ESPEC, "spec", 0,
					 "%s: tasks are a list of addresses or an object from "
					 "index to address",
					 type);
		if (code < 0)
			return code;
	}
	return 0;
}

int tfc_spec_parse(const char *json, size_t len, tfc_error *error, tfc_spec **ret_spec)
{
	json_t *root = NULL;
	tfc_spec *spec = NULL;
	if (!json || !ret_spec)
		return tfc__fail(error, TFC_EINVAL, "spec", 0,
				 "tfc_spec_parse: json and ret_spec must not be NULL");
	json_error_t reason;
	int code = tfc__json_load(json, len, JSON_REJECT_DUPLICATES, &reason, &root);
	if (code == TFC_ENOMEM)
		return tfc__fail_nomem(error, "spec");
	if (code < 0)
		return tfc__fail(error, TFC_EPARSE, "spec", 0,
				 "line %d, column %d: %s; give the cluster as one JSON object",
				 reason.line, reason.column, reason.text);
	if (tfc_spec_new(&spec) < 0) {
		code = tfc__fail_nomem(error, "spec");
		goto fail;
	}
	/* A TF_CONFIG, which may have no cluster, or a cluster itself. */
	json_t *cluster = json_object_get(root, "cluster");
	if (!cluster && !json_object_get(root, "task"))
		cluster = root;
	code = cluster ? spec_add_cluster(spec, cluster, error) : 0;
	if (code < 0)
		goto fail;
	json_decref(root);
	*ret_spec = spec;
	return 0;
fail:
	tfc_spec_free(spec);
	json_decref(root);
	return code;
}
