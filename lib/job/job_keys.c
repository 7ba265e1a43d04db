#include "job/job_keys.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "job/job.h"
#include "spec/ranks.h"
#include "spec/spec.h"

#define MAX_SECONDS 1e9 /* 31 years */
#define MAX_TASKS 100000
#define MAX_CPUS 100000
#define MAX_GPUS 1024
#define MAX_RESTARTS 1000000

/* The names are in the order of their enum. */
static const char *const topologies[] = {"full", "partial", NULL};
static const char *const restart_ons[] = {"retryable", "failure", "never", NULL};
static const char *const scopes[] = {"auto", "task", "group", "coordinator", NULL};
static const char *const successes[] = {"auto", "chief", "worker0", "all_workers", "driver", NULL};
static const char *const handovers[] = {"hold", "open", "release", NULL};
static const char *const readies[] = {"auto", "listen", "started", NULL};
static const char *const on_stalls[] = {"report", "stacks", "restart", NULL};
static const char *const on_failures[] = {"auto", "fail", "ignore", "restart", NULL};

static const char *const placements[] = {"spread", "pack", "upstream", NULL};
static const char *const on_upstream_changes[] = {"ignore", "restart", NULL};
static const char *const isolations[] = {"auto", "plain", "cgroup", "pidns", NULL};

#define AT(type, field) .offset = offsetof(type, field)
#define TEXT(p, type, field)                                        \
	{                                                           \
		.path = p, .kind = TFC__KEY_STRING, AT(type, field) \
	}
#define TEXT_OR_NULL(p, type, field)                                                     \
	{                                                                                \
		.path = p, .kind = TFC__KEY_STRING, AT(type, field), .is_nullable = true \
	}
#define CHOICE(p, type, field, list)                                               \
	{                                                                          \
		.path = p, .kind = TFC__KEY_CHOICE, AT(type, field), .names = list \
	}
#define SECONDS(p, type, field, first)                                            \
	{                                                                         \
		.path = p, .kind = TFC__KEY_SECONDS, AT(type, field), .min = 0,   \
		.max = MAX_SECONDS, .initial = first, .is_nullable = (first) < 0, \
	}
#define SECONDS_OR_AUTO(p, type, field)                                         \
	{                                                                       \
		.path = p, .kind = TFC__KEY_SECONDS, AT(type, field), .min = 0, \
		.max = MAX_SECONDS, .initial = -1, .is_auto = true,             \
	}
#define LATER(p, values)                                              \
	{                                                             \
		.path = p, .kind = TFC__KEY_LATER, .inactive = values \
	}

/* The keys of "restart": of the job (bits 0), and of a role, which can override each separately. */
#define RESTART(type, field, bits)                                                     \
	{.path = "restart.on",                                                         \
	 .kind = TFC__KEY_CHOICE,                                                      \
	 AT(type, field.on),                                                           \
	 .names = restart_ons,                                                         \
	 .given = (bits)&1},                                                           \
		{.path = "restart.scope",                                              \
		 .kind = TFC__KEY_CHOICE,                                              \
		 AT(type, field.scope),                                                \
		 .names = scopes,                                                      \
		 .given = (bits)&2},                                                   \
		{.path = "restart.max",                                                \
		 .kind = TFC__KEY_COUNT,                                               \
		 AT(type, field.max),                                                  \
		 .max = MAX_RESTARTS,                                                  \
		 .initial = 3,                                                         \
		 .given = (bits)&4},                                                   \
		{.path = "restart.window_s",                                           \
		 .kind = TFC__KEY_SECONDS,                                             \
		 AT(type, field.window_s),                                             \
		 .max = MAX_SECONDS,                                                   \
		 .initial = 600,                                                       \
		 .given = (bits)&8},                                                   \
		{.path = "restart.backoff_s",                                          \
		 .kind = TFC__KEY_BACKOFF,                                             \
		 AT(type, field.backoff_s),                                            \
		 .max = MAX_SECONDS,                                                   \
		 .initial = 30,                                                        \
		 .given = (bits)&16},                                                  \
		{.path = "restart.losses",                                             \
		 .kind = TFC__KEY_COUNT,                                               \
		 AT(type, field.losses),                                               \
		 .max = MAX_RESTARTS,                                                  \
		 .initial = 100,                                                       \
		 .given = (bits)&32},                                                  \
	{                                                                              \
		.path = "restart.losses_window_s", .kind = TFC__KEY_SECONDS,           \
		AT(type, field.losses_window_s), .max = MAX_SECONDS, .initial = 86400, \
		.given = (bits)&64                                                     \
	}

static const struct tfc__json_key job_keys[] = {
	TEXT("name", struct tfc_job, name),
	CHOICE("framework", struct tfc_job, framework, tfc__framework_names),
	CHOICE("strategy", struct tfc_job, strategy, tfc__strategy_names),
	{.path = "argv", .kind = TFC__KEY_LIST, AT(struct tfc_job, argv)},
	{.path = "env", .kind = TFC__KEY_ENV, AT(struct tfc_job, env)},
	{.path = "secret_env", .kind = TFC__KEY_SECRETS, AT(struct tfc_job, secret_env)},
	TEXT_OR_NULL("cwd", struct tfc_job, cwd),
	TEXT_OR_NULL("bundle", struct tfc_job, bundle),
	TEXT_OR_NULL("python", struct tfc_job, python),
	{.path = "roles", .kind = TFC__KEY_ROLES},
	RESTART(struct tfc_job, restart, 0),
	CHOICE("success", struct tfc_job, success, successes),
	SECONDS("grace_s", struct tfc_job, grace_s, 10),
	SECONDS_OR_AUTO("abort_grace_s", struct tfc_job, abort_grace_s),
	SECONDS("preempt_grace_s", struct tfc_job, preempt_grace_s, 30),
	SECONDS("finish_s", struct tfc_job, finish_s, 30),
	SECONDS("pending_deadline_s", struct tfc_job, pending_deadline_s, 0),
	SECONDS_OR_AUTO("start_deadline_s", struct tfc_job, start_deadline_s),
	SECONDS("deadline_s", struct tfc_job, deadline_s, 0),
	CHOICE("topology", struct tfc_job, topology, topologies),
	SECONDS_OR_AUTO("stall_s", struct tfc_job, stall_s),
	CHOICE("on_stall", struct tfc_job, on_stall, on_stalls),
	{.path = "reports", .kind = TFC__KEY_BOOL, AT(struct tfc_job, reports)},
	CHOICE("isolation", struct tfc_job, isolation, isolations),
	{.path = "warm", .kind = TFC__KEY_LIST, AT(struct tfc_job, warm)},
	CHOICE("placement.policy", struct tfc_job, placement, placements),
	{.path = "placement.labels", .kind = TFC__KEY_ENV, AT(struct tfc_job, labels)},
	TEXT_OR_NULL("placement.upstream", struct tfc_job, upstream),
	CHOICE("placement.on_upstream_change", struct tfc_job, on_upstream_change,
	       on_upstream_changes),
};

static const struct tfc__json_key role_keys[] = {
	{.path = "count",
	 .kind = TFC__KEY_COUNT,
	 AT(struct tfc__role, count),
	 .max = MAX_TASKS,
	 .initial = 1,
	 .is_range_later = true},
	{.path = "argv", .kind = TFC__KEY_LIST, AT(struct tfc__role, argv), .is_nullable = true},
	{.path = "env", .kind = TFC__KEY_ENV, AT(struct tfc__role, env)},
	{.path = "secret_env", .kind = TFC__KEY_SECRETS, AT(struct tfc__role, secret_env)},
	TEXT_OR_NULL("cwd", struct tfc__role, cwd),
	{.path = "port", .kind = TFC__KEY_PORT, AT(struct tfc__role, port), .max = 65535},
	CHOICE("port_handover", struct tfc__role, port_handover, handovers),
	{.path = "server", .kind = TFC__KEY_BOOL, AT(struct tfc__role, is_server)},
	{.path = "sidecar", .kind = TFC__KEY_BOOL, AT(struct tfc__role, is_sidecar)},
	CHOICE("ready", struct tfc__role, ready, readies),
	RESTART(struct tfc__role, restart, ~0u),
	CHOICE("on_failure", struct tfc__role, on_failure, on_failures),
	SECONDS("finish_s", struct tfc__role, finish_s, -1),
	SECONDS("grace_s", struct tfc__role, grace_s, -1),
	TEXT_OR_NULL("log_dir", struct tfc__role, log_dir),
	{.path = "wrap", .kind = TFC__KEY_LIST, AT(struct tfc__role, wrap)},
	{.path = "memory", .kind = TFC__KEY_BYTES, AT(struct tfc__role, memory), .max = 1e18},
	{.path = "memory_limit",
	 .kind = TFC__KEY_LIMIT,
	 AT(struct tfc__role, memory_limit),
	 .min = 1,
	 .max = 1e18},
	{.path = "cpus", .kind = TFC__KEY_NUMBER, AT(struct tfc__role, cpus), .max = MAX_CPUS},
	{.path = "rlimits", .kind = TFC__KEY_RLIMITS, AT(struct tfc__role, rlimits)},
	{.path = "nice", .kind = TFC__KEY_INT, AT(struct tfc__role, nice), .min = -40, .max = 40},
	{.path = "oom_score_adj",
	 .kind = TFC__KEY_INT,
	 AT(struct tfc__role, oom_score_adj),
	 .is_nullable = true,
	 .min = -1000,
	 .max = 1000,
	 .initial = INT32_MIN},
	/* "" is usually an unset template variable; it must not mean the host's user, which may be
	 * root */
	{.path = "user",
	 .kind = TFC__KEY_STRING,
	 AT(struct tfc__role, user),
	 .is_nullable = true,
	 .is_never_empty = true},
	SECONDS("stall_s", struct tfc__role, stall_s, -1),
	{.path = "gpus", .kind = TFC__KEY_COUNT, AT(struct tfc__role, gpus), .max = MAX_GPUS},
	{.path = "labels", .kind = TFC__KEY_ENV, AT(struct tfc__role, labels)},
	LATER("spares", "[0]"),
};

_Static_assert(sizeof(job_keys) / sizeof(job_keys[0]) <= 64,
	       "struct tfc_job.given has a bit for each");

const struct tfc__json_keys tfc__job_keys = {job_keys, sizeof(job_keys) / sizeof(job_keys[0])};
const struct tfc__json_keys tfc__role_keys = {role_keys, sizeof(role_keys) / sizeof(role_keys[0])};

const struct tfc__json_key *tfc__keys_find(const struct tfc__json_keys *keys, const char *path)
{
	for (size_t i = 0; i < keys->count; i++)
		if (strcmp(keys->items[i].path, path) == 0)
			return &keys->items[i];
	return NULL;
}

/* The part of a key's path after "group.", or NULL if the key is not in the group. */
static const char *key_path_below(const char *path, const char *group)
{
	size_t len = strlen(group);
	if (len == 0)
		return path;
	return strncmp(path, group, len) == 0 && path[len] == '.' ? path + len + 1 : NULL;
}

bool tfc__keys_have_group(const struct tfc__json_keys *keys, const char *path)
{
	for (size_t i = 0; *path && i < keys->count; i++)
		if (key_path_below(keys->items[i].path, path))
			return true;
	return false;
}

#define NAME_MAX_LEN 63

const char *tfc__keys_suggest(const struct tfc__json_keys *keys, const char *group,
			      const char *name, char ret_name[64])
{
	size_t len = strlen(name);
	size_t best = len / 3 + 2; /* a larger distance makes no useful suggestion */
	bool is_found = false;
	if (len > NAME_MAX_LEN)
		return NULL;
	for (size_t i = 0; i < keys->count; i++) {
		const char *other = key_path_below(keys->items[i].path, group);
		size_t other_len = other ? strcspn(other, ".") : 0;
		if (!other || other_len > NAME_MAX_LEN)
			continue;
		size_t edits = tfc__edit_distance(name, len, other, other_len);
		if (edits >= best || edits >= other_len)
			continue;
		best = edits;
		is_found = true;
		memcpy(ret_name, other, other_len);
		ret_name[other_len] = '\0';
	}
	return is_found ? ret_name : NULL;
}

/* ---- all fields at once */

static bool key_init_field(const struct tfc__json_key *key, void *field)
{
	switch (key->kind) {
	case TFC__KEY_STRING:
		*(char **)field = key->is_nullable ? NULL : strdup("");
		return key->is_nullable || *(char **)field;
	case TFC__KEY_COUNT:
		*(uint32_t *)field = (uint32_t)key->initial;
		return true;
	case TFC__KEY_INT:
		*(int32_t *)field = (int32_t)key->initial;
		return true;
	case TFC__KEY_SECONDS:
		*(double *)field = key->initial;
		return true;
	case TFC__KEY_BACKOFF:
		((double *)field)[1] = key->initial;
		return true;
	default: /* zero is the default */
		return true;
	}
}

bool tfc__keys_init(const struct tfc__json_keys *keys, void *base)
{
	bool is_whole = true;
	for (size_t i = 0; i < keys->count; i++)
		if (!key_init_field(&keys->items[i], tfc__key_field(&keys->items[i], base)))
			is_whole = false;
	return is_whole;
}

static bool key_copy_field(const struct tfc__json_key *key, void *to, const void *from)
{
	switch (key->kind) {
	case TFC__KEY_STRING: {
		const char *text = *(char *const *)from;
		*(char **)to = text ? strdup(text) : NULL;
		return !text || *(char **)to;
	}
	case TFC__KEY_LIST:
	case TFC__KEY_ENV:
	case TFC__KEY_SECRETS: {
		const struct tfc__strv *list = from;
		struct tfc__strv *copy = to;
		*copy = (struct tfc__strv){0};
		tfc__strv_add_all(copy, (const char *const *)list->items);
		return !copy->is_failed;
	}
	default: /* the byte copy is enough */
		return true;
	}
}

bool tfc__keys_copy(const struct tfc__json_keys *keys, void *to, const void *from)
{
	bool is_whole = true;
	for (size_t i = 0; i < keys->count; i++) {
		const struct tfc__json_key *key = &keys->items[i];
		const void *field = (const char *)from + key->offset;
		if (!key_copy_field(key, tfc__key_field(key, to), field))
			is_whole = false;
	}
	return is_whole;
}

void tfc__keys_fini(const struct tfc__json_keys *keys, void *base)
{
	for (size_t i = 0; i < keys->count; i++) {
		const struct tfc__json_key *key = &keys->items[i];
		void *field = tfc__key_field(key, base);
		if (key->kind == TFC__KEY_STRING)
			free(*(char **)field);
		if (key->kind == TFC__KEY_LIST || key->kind == TFC__KEY_ENV ||
		    key->kind == TFC__KEY_SECRETS)
			tfc__strv_fini(field);
	}
}
