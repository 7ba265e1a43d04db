/*
 * The environment variables of the frameworks that use ranks, as each framework's own launcher sets
 * them:
 *
 *   - pytorch: torchrun, torch/distributed/run.py, "Environment Variables", and the variables that
 *     torch/distributed/elastic/agent/server/local_elastic_agent.py passes on
 *   - jax: jax 0.10.2, jax/_src/distributed.py reads JAX_COORDINATOR_ADDRESS; JAX has no variables
 *     for the number of processes and the process id, so those of
 *     jax/_src/clusters/slurm_cluster.py are set
 *   - horovod: horovod/runner/gloo_run.py, create_slot_env_vars and create_run_envs
 */
#include "base/buf.h"
#include "base/fail.h"
#include "spec/ranks.h"

#include <stdio.h>
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

static void set_number(struct tfc__strv *env, const char *name, uint32_t number)
{
	char text[16];
	snprintf(text, sizeof(text), "%u", number);
	tfc__strv_set_env(env, name, text);
}

static void set_host(struct tfc__strv *env, const char *name, const char *address)
{
	struct tfc__host_name host = tfc__host_name(address);
	struct tfc__buf text = {0};
	tfc__buf_addf(&text, "%s=%.*s", name, host.len, host.text);
	tfc__strv_take(env, tfc__buf_steal(&text));
}

static const char *port_of(const char *address)
{
	return strrchr(address, ':') + 1;
}

/*
 * torchrun's "group" is a host. Its "role" is one name for all ranks of a launch, unlike
 * TensorFlow's task type; all tasks therefore have the same role here.
 */
static void add_pytorch(const struct tfc__ranks *ranks, uint32_t rank, struct tfc__strv *env)
{
	const struct tfc__rank *item = &ranks->items[rank];
	const char *master = ranks->items[0].task->address;
	set_host(env, "MASTER_ADDR", master);
	tfc__strv_set_env(env, "MASTER_PORT", port_of(master));
	set_number(env, "RANK", rank);
	set_number(env, "WORLD_SIZE", ranks->count);
	set_number(env, "LOCAL_RANK", item->local_rank);
	set_number(env, "LOCAL_WORLD_SIZE", ranks->local_sizes[item->host]);
	set_number(env, "GROUP_RANK", item->host);
	set_number(env, "GROUP_WORLD_SIZE", ranks->host_count);
	tfc__strv_add(env, "ROLE_NAME=default");
	set_number(env, "ROLE_RANK", rank);
	set_number(env, "ROLE_WORLD_SIZE", ranks->count);
}

/*
 * JAX detects Slurm only if all five variables are set. It would derive a port from the job id and
 * connect to the first host of the list, but JAX_COORDINATOR_ADDRESS overrides both; the job id can
 * therefore be any number.
 */
static void add_jax(const struct tfc__ranks *ranks, uint32_t rank, struct tfc__strv *env)
{
	const char *coordinator = ranks->items[0].task->address;
	tfc__strv_set_env(env, "JAX_COORDINATOR_ADDRESS", coordinator);
	tfc__strv_set_env(env, "SLURM_JOB_ID", port_of(coordinator));
	tfc__strv_set_env(env, "SLURM_STEP_NODELIST", ranks->hosts);
	set_number(env, "SLURM_NTASKS", ranks->count);
	set_number(env, "SLURM_PROCID", rank);
	set_number(env, "SLURM_LOCALID", ranks->items[rank].local_rank);
}

static void add_horovod(const struct tfc__ranks *ranks, uint32_t rank, struct tfc__strv *env)
{
	const struct tfc__rank *item = &ranks->items[rank];
	const char *rendezvous = ranks->items[0].task->address;
	set_host(env, "HOROVOD_HOSTNAME", item->task->address);
	set_number(env, "HOROVOD_RANK", rank);
	set_number(env, "HOROVOD_SIZE", ranks->count);
	set_number(env, "HOROVOD_LOCAL_RANK", item->local_rank);
	set_number(env, "HOROVOD_LOCAL_SIZE", ranks->local_sizes[item->host]);
	set_number(env, "HOROVOD_CROSS_RANK", item->cross_rank);
	set_number(env, "HOROVOD_CROSS_SIZE", ranks->cross_sizes[item->local_rank]);
	tfc__strv_add(env, "HOROVOD_CONTROLLER=gloo");
	tfc__strv_add(env, "HOROVOD_CPU_OPERATIONS=gloo");
	set_host(env, "HOROVOD_GLOO_RENDEZVOUS_ADDR", rendezvous);
	tfc__strv_set_env(env, "HOROVOD_GLOO_RENDEZVOUS_PORT", port_of(rendezvous));
}

/* The list of hosts is the only variable whose size grows with the job. */
static int check_sizes(const struct tfc__strv *env, const char *task_type, uint32_t task_index,
		       tfc_error *error)
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
	const struct tfc__ranks *ranks = tfc__ranks_of(spec);
	if (!ranks)
		return tfc__fail_nomem(error, "spec");
	const struct tfc__spec_task *task = tfc__spec_find(spec, type, task_index);
	uint32_t chiefs = type == TFC__WORKER ? spec->lists[TFC__CHIEF].count : 0;
	uint32_t rank = chiefs + (uint32_t)(task - spec->lists[type].items);
	if (framework == TFC_FRAMEWORK_PYTORCH)
		add_pytorch(ranks, rank, env);
	else if (framework == TFC_FRAMEWORK_JAX)
		add_jax(ranks, rank, env);
	else
		add_horovod(ranks, rank, env);
	return check_sizes(env, task_type, task_index, error);
}
