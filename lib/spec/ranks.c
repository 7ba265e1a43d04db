/*
 * Ranks, and the environment variables of the frameworks that use ranks, as each framework's own
 * launcher sets them:
 *
 *   - pytorch: torchrun, torch/distributed/run.py, "Environment Variables", and the variables that
 *     torch/distributed/elastic/agent/server/local_elastic_agent.py passes on
 *   - jax: jax 0.10.2, jax/_src/distributed.py reads JAX_COORDINATOR_ADDRESS; JAX has no variables
 *     for the number of processes and the process id, so those of
 *     jax/_src/clusters/slurm_cluster.py are set
 *   - horovod: horovod/runner/gloo_run.py, create_slot_env_vars and create_run_envs
 */
#include "spec/ranks.h"
#include "base/buf.h"
#include "base/fail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const tfc__framework_names[] = {
	[TFC_FRAMEWORK_TENSORFLOW] = "tensorflow", [TFC_FRAMEWORK_NONE] = "none",
	[TFC_FRAMEWORK_PYTORCH] = "pytorch",       [TFC_FRAMEWORK_JAX] = "jax",
	[TFC_FRAMEWORK_HOROVOD] = "horovod",       [TFC_FRAMEWORK_HOROVOD + 1] = NULL,
};

const char *tfc__framework_name(enum tfc_framework framework)
{
	size_t count = sizeof(tfc__framework_names) / sizeof(tfc__framework_names[0]);
	return (unsigned)framework < count ? tfc__framework_names[framework] : NULL;
}

/* ---- ranks */

struct rank {
	const struct tfc__spec_task *task; /* borrowed from the spec */
	uint32_t host;                     /* number of its host, in the order of first ranks */
	uint32_t local_rank;               /* its number among the ranks of its host */
	uint32_t cross_rank;               /* its number among equal local ranks, by host */
};

struct tfc__ranks {
	struct rank *items;    /* by rank */
	uint32_t *local_sizes; /* by host */
	uint32_t *cross_sizes; /* by local rank */
	uint32_t count;
	uint32_t host_count;
	char *hosts; /* the hosts' names, comma-separated */
};

/* The host part of an address, without port and brackets. Borrowed. */
struct host_name {
	const char *text; /* not NUL-terminated */
	int len;
};

static struct host_name address_host(const char *address)
{
	const char *colon = strrchr(address, ':');
	int len = (int)(colon - address);
	if (address[0] == '[')
		return (struct host_name){address + 1, len - 2};
	return (struct host_name){address, len};
}

/* The keys are in canonical form, so equal hosts have equal texts. */
static int compare_rank_hosts(const struct rank *a, const struct rank *b)
{
	struct host_name x = address_host(a->task->key), y = address_host(b->task->key);
	int order = memcmp(x.text, y.text, (size_t)(x.len < y.len ? x.len : y.len));
	return order ? order : x.len - y.len;
}

/* A rank in `items`, sorted by host, then by rank. */
struct entry {
	const struct rank *items;
	uint32_t rank;
};

static int compare_ranks_by_host(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int order = compare_rank_hosts(&x->items[x->rank], &y->items[y->rank]);
	return order ? order : x->rank < y->rank ? -1 : 1;
}

static void ranks_add(struct tfc__ranks *ranks, const struct tfc__spec_list *list)
{
	for (uint32_t i = 0; i < list->count; i++)
		ranks->items[ranks->count++].task = &list->items[i];
}

/* Sets each item's `host` to the first rank on its host. */
static int ranks_find_hosts(struct tfc__ranks *ranks)
{
	struct entry *entries = calloc(ranks->count + 1, sizeof(*entries));
	if (!entries)
		return TFC_ENOMEM;
	for (uint32_t rank = 0; rank < ranks->count; rank++)
		entries[rank] = (struct entry){ranks->items, rank};
	qsort(entries, ranks->count, sizeof(*entries), compare_ranks_by_host);
	uint32_t first = 0;
	for (uint32_t i = 0; i < ranks->count; i++) {
		struct rank *item = &ranks->items[entries[i].rank];
		if (i == 0 || compare_rank_hosts(item, &ranks->items[first]) != 0)
			first = entries[i].rank;
		item->host = first;
	}
	free(entries);
	return 0;
}

/* Numbers the hosts by their first ranks, and the ranks of each host. */
static void ranks_number_hosts(struct tfc__ranks *ranks, struct tfc__buf *hosts)
{
	for (uint32_t rank = 0; rank < ranks->count; rank++) {
		struct rank *item = &ranks->items[rank];
		if (item->host == rank) {
			struct host_name name = address_host(item->task->address);
			tfc__buf_addf(hosts, "%s%.*s", ranks->host_count ? "," : "", name.len,
				      name.text);
			item->host = ranks->host_count++;
		} else {
			item->host = ranks->items[item->host].host;
		}
		item->local_rank = ranks->local_sizes[item->host]++;
	}
}

/* Counts the ranks with each local rank, host by host: local rank l exists on each host with more
 * than l ranks. */
static int ranks_number_across(struct tfc__ranks *ranks)
{
	uint32_t *by_host = calloc(ranks->count + 1, sizeof(*by_host));
	uint32_t *starts = calloc(ranks->host_count + 1, sizeof(*starts));
	if (by_host && starts) {
		for (uint32_t host = 0; host < ranks->host_count; host++)
			starts[host + 1] = starts[host] + ranks->local_sizes[host];
		for (uint32_t rank = 0; rank < ranks->count; rank++) {
			const struct rank *item = &ranks->items[rank];
			by_host[starts[item->host] + item->local_rank] = rank;
		}
		for (uint32_t i = 0; i < ranks->count; i++) {
			struct rank *item = &ranks->items[by_host[i]];
			item->cross_rank = ranks->cross_sizes[item->local_rank]++;
		}
	}
	bool is_done = by_host && starts;
	free(by_host);
	free(starts);
	return is_done ? 0 : TFC_ENOMEM;
}

static const struct tfc__ranks *spec_ranks(const tfc_spec *spec)
{
	uint32_t count = spec->lists[TFC__CHIEF].count + spec->lists[TFC__WORKER].count;
	struct tfc__buf hosts = {0};
	if (spec->common->ranks)
		return spec->common->ranks;
	struct tfc__ranks *ranks = calloc(1, sizeof(*ranks));
	if (!ranks)
		return NULL;
	ranks->items = calloc(count + 1, sizeof(*ranks->items));
	ranks->local_sizes = calloc(count + 1, sizeof(*ranks->local_sizes));
	ranks->cross_sizes = calloc(count + 1, sizeof(*ranks->cross_sizes));
	if (!ranks->items || !ranks->local_sizes || !ranks->cross_sizes)
		goto fail;
	ranks_add(ranks, &spec->lists[TFC__CHIEF]);
	ranks_add(ranks, &spec->lists[TFC__WORKER]);
	if (ranks_find_hosts(ranks) < 0)
		goto fail;
	ranks_number_hosts(ranks, &hosts);
	ranks->hosts = tfc__buf_steal(&hosts);
	if (!ranks->hosts || ranks_number_across(ranks) < 0)
		goto fail;
	spec->common->ranks = ranks;
	return ranks;
fail:
	tfc__ranks_free(ranks);
	return NULL;
}

void tfc__ranks_free(struct tfc__ranks *ranks)
{
	if (!ranks)
		return;
	free(ranks->items);
	free(ranks->local_sizes);
	free(ranks->cross_sizes);
	free(ranks->hosts);
	free(ranks);
}

/* ---- environments */

static void environ_set_number(struct tfc__strv *env, const char *name, uint32_t number)
{
	char text[16];
	snprintf(text, sizeof(text), "%u", number);
	tfc__strv_set_env(env, name, text);
}

static void environ_set_host(struct tfc__strv *env, const char *name, const char *address)
{
	struct host_name host = address_host(address);
	struct tfc__buf text = {0};
	tfc__buf_addf(&text, "%s=%.*s", name, host.len, host.text);
	tfc__strv_take(env, tfc__buf_steal(&text));
}

static const char *address_port(const char *address)
{
	return strrchr(address, ':') + 1;
}

/*
 * torchrun's "group" is a host. Its "role" is one name for all ranks of a launch, unlike
 * TensorFlow's task type; all tasks therefore have the same role here.
 */
static void environ_add_pytorch(const struct tfc__ranks *ranks, uint32_t rank,
				struct tfc__strv *env)
{
	const struct rank *item = &ranks->items[rank];
	const char *master = ranks->items[0].task->address;
	environ_set_host(env, "MASTER_ADDR", master);
	tfc__strv_set_env(env, "MASTER_PORT", address_port(master));
	environ_set_number(env, "RANK", rank);
	environ_set_number(env, "WORLD_SIZE", ranks->count);
	environ_set_number(env, "LOCAL_RANK", item->local_rank);
	environ_set_number(env, "LOCAL_WORLD_SIZE", ranks->local_sizes[item->host]);
	environ_set_number(env, "GROUP_RANK", item->host);
	environ_set_number(env, "GROUP_WORLD_SIZE", ranks->host_count);
	tfc__strv_add(env, "ROLE_NAME=default");
	environ_set_number(env, "ROLE_RANK", rank);
	environ_set_number(env, "ROLE_WORLD_SIZE", ranks->count);
}

/*
 * JAX detects Slurm only if all five variables are set. It would derive a port from the job id and
 * connect to the first host of the list, but JAX_COORDINATOR_ADDRESS overrides both; the job id can
 * therefore be any number.
 */
static void environ_add_jax(const struct tfc__ranks *ranks, uint32_t rank, struct tfc__strv *env)
{
	const char *coordinator = ranks->items[0].task->address;
	tfc__strv_set_env(env, "JAX_COORDINATOR_ADDRESS", coordinator);
	tfc__strv_set_env(env, "SLURM_JOB_ID", address_port(coordinator));
	tfc__strv_set_env(env, "SLURM_STEP_NODELIST", ranks->hosts);
	environ_set_number(env, "SLURM_NTASKS", ranks->count);
	environ_set_number(env, "SLURM_PROCID", rank);
	environ_set_number(env, "SLURM_LOCALID", ranks->items[rank].local_rank);
}

static void environ_add_horovod(const struct tfc__ranks *ranks, uint32_t rank,
				struct tfc__strv *env)
{
	const struct rank *item = &ranks->items[rank];
	const char *rendezvous = ranks->items[0].task->address;
	environ_set_host(env, "HOROVOD_HOSTNAME", item->task->address);
	environ_set_number(env, "HOROVOD_RANK", rank);
	environ_set_number(env, "HOROVOD_SIZE", ranks->count);
	environ_set_number(env, "HOROVOD_LOCAL_RANK", item->local_rank);
	environ_set_number(env, "HOROVOD_LOCAL_SIZE", ranks->local_sizes[item->host]);
	environ_set_number(env, "HOROVOD_CROSS_RANK", item->cross_rank);
	environ_set_number(env, "HOROVOD_CROSS_SIZE", ranks->cross_sizes[item->local_rank]);
	tfc__strv_add(env, "HOROVOD_CONTROLLER=gloo");
	tfc__strv_add(env, "HOROVOD_CPU_OPERATIONS=gloo");
	environ_set_host(env, "HOROVOD_GLOO_RENDEZVOUS_ADDR", rendezvous);
	tfc__strv_set_env(env, "HOROVOD_GLOO_RENDEZVOUS_PORT", address_port(rendezvous));
}

/* The list of hosts is the only variable whose size grows with the job. */
static int environ_check_sizes(const struct tfc__strv *env, const char *task_type,
			       uint32_t task_index, tfc_error *error)
{
	for (size_t i = 0; i < env->count; i++) {
		size_t len = strlen(env->items[i]), name = strcspn(env->items[i], "=");
		if (len + 1 <= TFC__ENV_STRING_MAX)
			continue;
		return tfc__fail(error, TFC_ETOOBIG, "spec", 0,
				 "%s/%u: %.*s has %zu bytes, more than the %zu that an environment "
				 "variable can hold; use shorter addresses (IPv4 numbers are "
				 "short) or fewer hosts",
				 task_type, task_index, (int)name, env->items[i], len - name - 1,
				 TFC__ENV_STRING_MAX - name - 2);
	}
	return 0;
}

int tfc__ranks_environ(const tfc_spec *spec, enum tfc_framework framework, const char *task_type,
		       uint32_t task_index, tfc_error *error, struct tfc__strv *env)
{
	enum tfc__task_type type = tfc__task_type_find(task_type);
	int code = tfc__rules_ranks(spec, framework, error);
	if (code == 0 && type != TFC__TYPE_COUNT)
		code = tfc__rules_task(spec, TFC_STRATEGY_NONE, type, task_index, error);
	if (code < 0 || type == TFC__TYPE_COUNT)
		return code;
	const struct tfc__ranks *ranks = spec_ranks(spec);
	if (!ranks)
		return tfc__fail_nomem(error, "spec");
	const struct tfc__spec_task *task = tfc__spec_find(spec, type, task_index);
	uint32_t chiefs = type == TFC__WORKER ? spec->lists[TFC__CHIEF].count : 0;
	uint32_t rank = chiefs + (uint32_t)(task - spec->lists[type].items);
	if (framework == TFC_FRAMEWORK_PYTORCH)
		environ_add_pytorch(ranks, rank, env);
	else if (framework == TFC_FRAMEWORK_JAX)
		environ_add_jax(ranks, rank, env);
	else
		environ_add_horovod(ranks, rank, env);
	return environ_check_sizes(env, task_type, task_index, error);
}
