/*
 * The cluster spec, as a value: the address of each task, and the environment variables from which
 * frameworks read it.
 *
 * A spec maps (task_type, task_index) to an address "host:port". It has no descriptor and needs no
 * context. Thread: one at a time per spec; different specs are independent.
 *
 * Rules checked here are TensorFlow's own: python/distribute/multi_worker_util.py (job names, chief
 * and evaluator counts, index range), python/training/server_lib.py (list and map form) and
 * core/distributed_runtime/rpc/grpc_server_lib.cc (host:port).
 */
#ifndef TFCLUSTER_SPEC_H
#define TFCLUSTER_SPEC_H

#include <stddef.h>
#include <stdint.h>
#include <tfcluster/error.h>
#include <tfcluster/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfc_spec tfc_spec;

enum {
	/* The longest TF_CONFIG value that execve takes, in bytes: MAX_ARG_STRLEN less "TF_CONFIG="
	 * and the NUL. */
	TFC_TF_CONFIG_MAX = 131061,
};

enum tfc_framework {
	TFC_FRAMEWORK_TENSORFLOW = 0,
	TFC_FRAMEWORK_NONE = 1, /* only the library's own variables */
	TFC_FRAMEWORK_PYTORCH = 2,
	TFC_FRAMEWORK_JAX = 3,
	TFC_FRAMEWORK_HOROVOD = 4,
};

enum tfc_strategy {
	TFC_STRATEGY_AUTO = 0, /* parameter_server when there is a ps, else mirrored */
	TFC_STRATEGY_MULTI_WORKER_MIRRORED = 1,
	TFC_STRATEGY_PARAMETER_SERVER = 2,
	TFC_STRATEGY_NONE = 3,
};

/** "auto", ..., as a job file has it; "?" for an unknown one. A static string. Thread: any.
 * Errors: none. */
TFC_API const char *tfc_strategy_name(uint32_t strategy);

/** Makes an empty spec. The caller owns it and frees it with tfc_spec_free. Errors: TFC_ENOMEM. */
TFC_API int tfc_spec_new(tfc_spec **ret_spec);

/**
 * Parses a spec from JSON: either a bare cluster, {"worker":["h:1","h:2"]} (list form) or
 * {"worker":{"0":"h:1","7":"h:2"}} (sparse map form), or a whole TF_CONFIG, whose "cluster" is
 * read. `len` is in bytes. The caller owns *ret_spec. Errors: TFC_EPARSE (not JSON), TFC_ESPEC (a
 * rule; the text names the task), TFC_ENOMEM.
 */
TFC_API int tfc_spec_parse(const char *json, size_t len, tfc_error *error, tfc_spec **ret_spec);

/** Frees a spec. NULL is a no-op. */
TFC_API void tfc_spec_free(tfc_spec *spec);

/**
 * Adds one task. `address` is "host:port" or "[v6]:port"; strings are copied. Task types other than
 * chief, worker, ps and evaluator are refused, as TensorFlow refuses them in a cluster. Errors:
 * TFC_ESPEC (the type, index or address is not valid; the task or the address is in the spec
 * already), TFC_ENOMEM.
 */
TFC_API int tfc_spec_add(tfc_spec *spec, const char *task_type, uint32_t task_index,
			 const char *address, tfc_error *error);

/** Returns the number of tasks of a type; of all types for NULL. Errors: none. */
TFC_API uint32_t tfc_spec_count(const tfc_spec *spec, const char *task_type);

/** Returns the address of a task, or NULL. Borrowed until the spec changes. Errors: none. */
TFC_API const char *tfc_spec_address(const tfc_spec *spec, const char *task_type,
				     uint32_t task_index);

/** Called for each task; a result other than 0 ends the walk, and tfc_spec_each returns it. The
 * strings are borrowed, as from tfc_spec_address. */
typedef int (*tfc_spec_each_fn)(void *user, const char *task_type, uint32_t task_index,
				const char *address);

/**
 * Walks all tasks: chief, worker, ps, evaluator, each by rising index. The spec must not change
 * meanwhile. Returns 0 or what fn returned. Errors: those of fn.
 */
TFC_API int tfc_spec_each(const tfc_spec *spec, tfc_spec_each_fn fn, void *user);

/** Returns 1 if both have the same tasks at the same addresses, else 0. Errors: none. */
TFC_API int tfc_spec_equal(const tfc_spec *a, const tfc_spec *b);

/**
 * Returns the cluster as JSON, deterministic and compact: in list form if the indices are dense
 * from 0, else in map form. It is the cluster of the training tasks, without the evaluator. The
 * caller frees *ret_json with tfc_free. Errors: TFC_ENOMEM.
 */
TFC_API int tfc_spec_json(const tfc_spec *spec, char **ret_json);

/**
 * Returns the TF_CONFIG of one task: {"cluster":{...},"task":{"type":"worker","index":0}}. First it
 * checks TensorFlow's rules for the strategy:
 * - The index is below the number of tasks of the type. With TFC_STRATEGY_NONE it may be any.
 * - Mirrored workers have no ps in their cluster.
 * - The parameter-server strategy has at least one ps and one worker. It needs no chief, because
 *   the coordinator may be a driver outside the cluster.
 *
 * Only the evaluator's own TF_CONFIG lists the evaluator. TensorFlow requires that, but no task
 * connects to the evaluator: if it is not in the spec, its address is "localhost:0".
 *
 * The caller frees *ret_json with tfc_free. The part that all tasks have in common is rendered only
 * once per spec. Errors: TFC_ESPEC (a rule; names the task), TFC_ETOOBIG (over TFC_TF_CONFIG_MAX:
 * use shorter addresses or fewer tasks), TFC_EINVAL, TFC_ENOMEM.
 */
TFC_API int tfc_spec_tf_config(const tfc_spec *spec, enum tfc_strategy strategy,
			       const char *task_type, uint32_t task_index, tfc_error *error,
			       char **ret_json);

/**
 * Makes a spec with the part of a cluster that one worker of a parameter-server job needs: the
 * chief, all ps, and the worker itself under its own index. The TF_CONFIG of the worker then does
 * not grow with the number of workers. TensorFlow's server accepts such a sparse cluster. The
 * coordinator (chief or driver) needs the whole cluster; when it connects to a worker, it sends the
 * worker the other addresses. The caller owns *ret_part. Errors: TFC_ESPEC (no such worker),
 * TFC_EINVAL, TFC_ENOMEM.
 */
TFC_API int tfc_spec_part(const tfc_spec *spec, uint32_t worker_index, tfc_error *error,
			  tfc_spec **ret_part);

/**
 * Returns the variables that describe the cluster to a task's framework, as a NULL-terminated list
 * of "NAME=value". For TFC_FRAMEWORK_NONE the list is empty. For TensorFlow it has:
 * - TF_CONFIG, only for tasks of the cluster. Tasks outside the cluster (tensorboard, driver, a
 *   sidecar) get the other variables alone.
 * - With the parameter-server strategy, GRPC_FAIL_FAST=use_caller, which every coordinator needs, a
 *   driver included.
 * - Apache Ignite's TF_CLUSTER (the cluster without the evaluator), TF_WORKERS
 *   (["/job:worker/task:0"]) and, if there is a chief, TF_CHIEF_SERVER (grpc://host:port). The
 *   first two are left out if they are too long for execve.
 *
 * The other frameworks use ranks: the chief, if there is one, is rank 0, and the workers follow by
 * rising index. A spec with a ps or an evaluator is refused (TFC_ESPEC). Ranks are on the same host
 * if their addresses have the same host; local ranks number the ranks of a host. `strategy` has no
 * effect. A task outside the cluster gets an empty list.
 * - PyTorch: what torchrun documents (torch/distributed/run.py): MASTER_ADDR, MASTER_PORT, RANK,
 *   WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, GROUP_WORLD_SIZE, ROLE_NAME, ROLE_RANK,
 *   ROLE_WORLD_SIZE. All ranks have the one role "default", as torchrun's have.
 * - JAX: JAX_COORDINATOR_ADDRESS. JAX has no variables for the number and id of processes, but
 *   jax.distributed.initialize() detects Slurm (jax/_src/clusters/slurm_cluster.py): SLURM_JOB_ID,
 *   SLURM_STEP_NODELIST, SLURM_NTASKS, SLURM_PROCID, SLURM_LOCALID.
 * - Horovod: what its launcher gives each slot (horovod/runner/gloo_run.py): HOROVOD_HOSTNAME,
 *   HOROVOD_RANK, HOROVOD_SIZE, HOROVOD_LOCAL_RANK, HOROVOD_LOCAL_SIZE, HOROVOD_CROSS_RANK,
 *   HOROVOD_CROSS_SIZE, HOROVOD_CONTROLLER and HOROVOD_CPU_OPERATIONS (gloo),
 *   HOROVOD_GLOO_RENDEZVOUS_ADDR and _PORT: rank 0's address. The program of rank 0 must start a
 *   rendezvous server there.
 *
 * The caller frees *ret_env with tfc_strv_free. Errors: as tfc_spec_tf_config; TFC_ETOOBIG also if
 * another variable, which is not left out, is too long for execve.
 */
TFC_API int tfc_spec_environ(const tfc_spec *spec, enum tfc_framework framework,
			     enum tfc_strategy strategy, const char *task_type, uint32_t task_index,
			     tfc_error *error, char ***ret_env);

#ifdef __cplusplus
}
#endif
#endif
