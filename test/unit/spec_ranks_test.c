/*
 * spec: the environments of frameworks that know ranks. The names are those of torchrun's page
 * "Environment Variables", of jax/_src/clusters/slurm_cluster.py and of horovod/runner/gloo_run.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "spec_text.h"
#include <tfcluster/spec.h>

/* Three hosts: a has ranks 0, 2 and 4, b has 1 and 5, the IPv6 host (spelt in two ways) 3 and 6. */
#define HOSTS                                                                                   \
	"{\"chief\":[\"a:1\"],\"worker\":[\"b:1\",\"a:2\",\"[2001:db8::1]:7\",\"A:3\",\"b:2\"," \
	"\"[2001:db8:0::1]:8\"]}"

static void assert_environ(const char *cluster, enum tfc_framework framework, const char *task_type,
			   uint32_t task_index, const char *want)
{
	tfc_spec *spec = spec_of(cluster);
	tfc_error error = TFC_ERROR_INIT;
	char **env = NULL;
	char got[1024] = "";
	if (tfc_spec_environ(spec, framework, TFC_STRATEGY_AUTO, task_type, task_index, &error,
			     &env) < 0)
		fail_msg("%s", error.text);
	for (char **item = env; *item; item++) {
		strcat(got, *item);
		strcat(got, "\n");
	}
	assert_string_equal(got, want);
	tfc_strv_free(env);
	tfc_spec_free(spec);
}

static void pytorch_gets_what_torchrun_documents(void **state)
{
	assert_environ("{\"worker\":[\"127.0.0.1:20000\",\"127.0.0.1:20001\"]}",
		       TFC_FRAMEWORK_PYTORCH, "worker", 1,
		       "MASTER_ADDR=127.0.0.1\nMASTER_PORT=20000\nRANK=1\nWORLD_SIZE=2\n"
		       "LOCAL_RANK=1\nLOCAL_WORLD_SIZE=2\nGROUP_RANK=0\nGROUP_WORLD_SIZE=1\n"
		       "ROLE_NAME=default\nROLE_RANK=1\nROLE_WORLD_SIZE=2\n");
	assert_environ(HOSTS, TFC_FRAMEWORK_PYTORCH, "chief", 0,
		       "MASTER_ADDR=a\nMASTER_PORT=1\nRANK=0\nWORLD_SIZE=7\n"
		       "LOCAL_RANK=0\nLOCAL_WORLD_SIZE=3\nGROUP_RANK=0\nGROUP_WORLD_SIZE=3\n"
		       "ROLE_NAME=default\nROLE_RANK=0\nROLE_WORLD_SIZE=7\n");
	assert_environ(HOSTS, TFC_FRAMEWORK_PYTORCH, "worker", 5,
		       "MASTER_ADDR=a\nMASTER_PORT=1\nRANK=6\nWORLD_SIZE=7\n"
		       "LOCAL_RANK=1\nLOCAL_WORLD_SIZE=2\nGROUP_RANK=2\nGROUP_WORLD_SIZE=3\n"
		       "ROLE_NAME=default\nROLE_RANK=6\nROLE_WORLD_SIZE=7\n");
	assert_environ("{\"worker\":[\"[::1]:9\"]}", TFC_FRAMEWORK_PYTORCH, "worker", 0,
		       "MASTER_ADDR=::1\nMASTER_PORT=9\nRANK=0\nWORLD_SIZE=1\n"
		       "LOCAL_RANK=0\nLOCAL_WORLD_SIZE=1\nGROUP_RANK=0\nGROUP_WORLD_SIZE=1\n"
		       "ROLE_NAME=default\nROLE_RANK=0\nROLE_WORLD_SIZE=1\n");
}

static void jax_gets_its_coordinator_and_what_it_knows_slurm_by(void **state)
{
	assert_environ("{\"worker\":[\"127.0.0.1:20000\",\"127.0.0.1:20001\"]}", TFC_FRAMEWORK_JAX,
		       "worker", 1,
		       "JAX_COORDINATOR_ADDRESS=127.0.0.1:20000\nSLURM_JOB_ID=20000\n"
		       "SLURM_STEP_NODELIST=127.0.0.1\nSLURM_NTASKS=2\nSLURM_PROCID=1\n"
		       "SLURM_LOCALID=1\n");
	assert_environ(HOSTS, TFC_FRAMEWORK_JAX, "worker", 3,
		       "JAX_COORDINATOR_ADDRESS=a:1\nSLURM_JOB_ID=1\n"
		       "SLURM_STEP_NODELIST=a,b,2001:db8::1\nSLURM_NTASKS=7\nSLURM_PROCID=4\n"
		       "SLURM_LOCALID=2\n");
	assert_environ("{\"worker\":[\"[::1]:9\"]}", TFC_FRAMEWORK_JAX, "worker", 0,
		       "JAX_COORDINATOR_ADDRESS=[::1]:9\nSLURM_JOB_ID=9\n"
		       "SLURM_STEP_NODELIST=::1\nSLURM_NTASKS=1\nSLURM_PROCID=0\n"
		       "SLURM_LOCALID=0\n");
}

/* A cross rank counts the hosts that have this local rank: only host a has a third one. */
static void horovod_gets_what_its_launcher_gives_each_slot(void **state)
{
	assert_environ(
		HOSTS, TFC_FRAMEWORK_HOROVOD, "worker", 5,
		"HOROVOD_HOSTNAME=2001:db8:0::1\nHOROVOD_RANK=6\nHOROVOD_SIZE=7\n"
		"HOROVOD_LOCAL_RANK=1\nHOROVOD_LOCAL_SIZE=2\nHOROVOD_CROSS_RANK=2\n"
		"HOROVOD_CROSS_SIZE=3\nHOROVOD_CONTROLLER=gloo\nHOROVOD_CPU_OPERATIONS=gloo\n"
		"HOROVOD_GLOO_RENDEZVOUS_ADDR=a\nHOROVOD_GLOO_RENDEZVOUS_PORT=1\n");
	assert_environ(
		HOSTS, TFC_FRAMEWORK_HOROVOD, "worker", 3,
		"HOROVOD_HOSTNAME=A\nHOROVOD_RANK=4\nHOROVOD_SIZE=7\n"
		"HOROVOD_LOCAL_RANK=2\nHOROVOD_LOCAL_SIZE=3\nHOROVOD_CROSS_RANK=0\n"
		"HOROVOD_CROSS_SIZE=1\nHOROVOD_CONTROLLER=gloo\nHOROVOD_CPU_OPERATIONS=gloo\n"
		"HOROVOD_GLOO_RENDEZVOUS_ADDR=a\nHOROVOD_GLOO_RENDEZVOUS_PORT=1\n");
}

/* What get_host_assignments of Horovod 0.28.1 makes of -H a:3,b:2,c:2. */
static void horovods_hosts_are_numbered_as_its_launcher_numbers_them(void **state)
{
	static const struct {
		const char *host;
		int local_rank, local_size, cross_rank, cross_size;
	} slots[] = {{"a", 0, 3, 0, 3}, {"a", 1, 3, 0, 3}, {"a", 2, 3, 0, 1}, {"b", 0, 2, 1, 3},
		     {"b", 1, 2, 1, 3}, {"c", 0, 2, 2, 3}, {"c", 1, 2, 2, 3}};
	for (uint32_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
		char want[512];
		snprintf(want, sizeof(want),
			 "HOROVOD_HOSTNAME=%s\nHOROVOD_RANK=%u\nHOROVOD_SIZE=7\n"
			 "HOROVOD_LOCAL_RANK=%d\nHOROVOD_LOCAL_SIZE=%d\nHOROVOD_CROSS_RANK=%d\n"
			 "HOROVOD_CROSS_SIZE=%d\nHOROVOD_CONTROLLER=gloo\n"
			 "HOROVOD_CPU_OPERATIONS=gloo\nHOROVOD_GLOO_RENDEZVOUS_ADDR=a\n"
			 "HOROVOD_GLOO_RENDEZVOUS_PORT=1\n",
			 slots[i].host, i, slots[i].local_rank, slots[i].local_size,
			 slots[i].cross_rank, slots[i].cross_size);
		assert_environ("{\"worker\":[\"a:1\",\"a:2\",\"a:3\",\"b:1\",\"b:2\",\"c:1\","
			       "\"c:2\"]}",
			       TFC_FRAMEWORK_HOROVOD, "worker", i, want);
	}
}

/* Ranks are positions: an index that is missing leaves no gap. */
static void ranks_are_dense_and_follow_the_spec_when_it_changes(void **state)
{
	tfc_spec *spec = spec_of("{\"worker\":{\"2\":\"a:2\",\"9\":\"a:9\"}}");
	char **env = NULL;
	for (int round = 0; round < 2; round++) {
		assert_int_equal(tfc_spec_environ(spec, TFC_FRAMEWORK_PYTORCH, TFC_STRATEGY_NONE,
						  "worker", 9, NULL, &env),
				 0);
		assert_string_equal(env[2], round ? "RANK=2" : "RANK=1");
		assert_string_equal(env[3], round ? "WORLD_SIZE=3" : "WORLD_SIZE=2");
		tfc_strv_free(env);
		assert_int_equal(tfc_spec_add(spec, "worker", round ? 10 : 5, round ? "a:3" : "a:5",
					      NULL),
				 0);
	}
	tfc_spec_free(spec);
}

static void a_sidecar_of_ranks_gets_no_variables_of_theirs(void **state)
{
	assert_environ(HOSTS, TFC_FRAMEWORK_PYTORCH, "tensorboard", 0, "");
	assert_environ(HOSTS, TFC_FRAMEWORK_JAX, "helper", 3, "");
	assert_environ(HOSTS, TFC_FRAMEWORK_HOROVOD, "helper", 0, "");
}

static void what_has_no_rank_is_refused(void **state)
{
	static const struct {
		const char *cluster, *task_type;
		uint32_t task_index;
		enum tfc_framework framework;
		const char *want;
	} cases[] = {
		{"{\"worker\":[\"a:1\"],\"ps\":[\"p:1\"]}", "worker", 0, TFC_FRAMEWORK_PYTORCH,
		 "ps/0: pytorch has only ranks, which are the chief and the workers; run this task "
		 "outside the cluster spec"},
		{"{\"worker\":[\"a:1\"],\"evaluator\":[\"e:1\"]}", "helper", 0, TFC_FRAMEWORK_JAX,
		 "evaluator/0: jax has only ranks, which are the chief and the workers; run this "
		 "task outside the cluster spec"},
		{"{\"worker\":[\"a:1\"]}", "worker", 1, TFC_FRAMEWORK_HOROVOD,
		 "worker/1: not among the 1 worker tasks of the cluster (the last is worker/0); "
		 "add it with its address or correct the index"},
		{"{\"worker\":[\"a:1\"]}", "chief", 0, TFC_FRAMEWORK_JAX,
		 "chief/0: the cluster has no chief; add this task with its address"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tfc_spec *spec = spec_of(cases[i].cluster);
		tfc_error error = TFC_ERROR_INIT;
		char *sentinel[] = {NULL}, **env = sentinel;
		assert_int_equal(tfc_spec_environ(spec, cases[i].framework, TFC_STRATEGY_NONE,
						  cases[i].task_type, cases[i].task_index, &error,
						  &env),
				 TFC_ESPEC);
		assert_string_equal(error.text, cases[i].want);
		assert_ptr_equal(env, sentinel);
		tfc_spec_free(spec);
	}
}

/* MAX_ARG_STRLEN: 131072 bytes with name, '=' and NUL. Hosts of 200 bytes, the last one fills up.
 */
static tfc_spec *spec_of_hosts(size_t len)
{
	tfc_spec *spec;
	char address[300];
	assert_int_equal(tfc_spec_new(&spec), 0);
	for (uint32_t i = 0; len; i++) {
		size_t part = len > 300 ? 200 : len > 200 ? len / 2 : len;
		snprintf(address, sizeof(address), "%0*u.y:1", (int)part - 2 - (len != part), i);
		assert_int_equal(tfc_spec_add(spec, "worker", i, address, NULL), 0);
		len -= part;
	}
	return spec;
}

static void a_list_of_hosts_that_execve_refuses_is_refused_with_its_size(void **state)
{
	enum { longest = 131072 - sizeof("SLURM_STEP_NODELIST=") };
	tfc_error error = TFC_ERROR_INIT;
	char **env = NULL;
	tfc_spec *spec = spec_of_hosts(longest);
	assert_int_equal(tfc_spec_environ(spec, TFC_FRAMEWORK_JAX, TFC_STRATEGY_NONE, "worker", 0,
					  &error, &env),
			 0);
	assert_int_equal(strlen(env[2]) + 1, 131072);
	tfc_strv_free(env);
	tfc_spec_free(spec);

	spec = spec_of_hosts(longest + 1);
	env = NULL;
	assert_int_equal(tfc_spec_environ(spec, TFC_FRAMEWORK_JAX, TFC_STRATEGY_NONE, "worker", 3,
					  &error, &env),
			 TFC_ETOOBIG);
	assert_string_equal(error.text,
			    "worker/3: SLURM_STEP_NODELIST has 131052 bytes, more than the 131051 "
			    "that an environment variable can hold; use shorter addresses (IPv4 "
			    "numbers are short) or fewer hosts");
	assert_null(env);
	/* the other frameworks' variables do not grow with the job */
	assert_int_equal(tfc_spec_environ(spec, TFC_FRAMEWORK_PYTORCH, TFC_STRATEGY_NONE, "worker",
					  3, &error, &env),
			 0);
	tfc_strv_free(env);
	assert_int_equal(tfc_spec_environ(spec, TFC_FRAMEWORK_HOROVOD, TFC_STRATEGY_NONE, "worker",
					  3, &error, &env),
			 0);
	tfc_strv_free(env);
	tfc_spec_free(spec);
}

/* ---- a worker's part of a cluster */

static size_t size_of(const tfc_spec *spec, uint32_t worker)
{
	size_t size = 0;
	char **env = NULL;
	tfc_error error = TFC_ERROR_INIT;
	if (tfc_spec_environ(spec, TFC_FRAMEWORK_TENSORFLOW, TFC_STRATEGY_PARAMETER_SERVER,
			     "worker", worker, &error, &env) < 0)
		fail_msg("%s", error.text);
	for (char **item = env; *item; item++)
		size += strlen(*item) + 1;
	tfc_strv_free(env);
	return size;
}

static void a_part_is_chief_ps_and_the_worker_itself(void **state)
{
	tfc_spec *spec = spec_of("{\"chief\":[\"c:1\"],\"worker\":[\"a:1\",\"b:1\",\"d:1\"],"
				 "\"ps\":[\"p:1\",\"q:1\"],\"evaluator\":[\"e:1\"]}");
	tfc_spec *part = NULL;
	char *json = NULL;
	assert_int_equal(tfc_spec_part(spec, 2, NULL, &part), 0);
	assert_int_equal(tfc_spec_tf_config(part, TFC_STRATEGY_PARAMETER_SERVER, "worker", 2, NULL,
					    &json),
			 0);
	assert_string_equal(json, "{\"cluster\":{\"chief\":[\"c:1\"],\"worker\":{\"2\":\"d:1\"},"
				  "\"ps\":[\"p:1\",\"q:1\"]},"
				  "\"task\":{\"type\":\"worker\",\"index\":2}}");
	tfc_free(json);
	tfc_spec_free(part);
	tfc_spec_free(spec);
}

static void a_part_of_a_worker_that_is_not_there_is_refused(void **state)
{
	tfc_spec *spec = spec_of("{\"worker\":[\"a:1\"],\"ps\":[\"p:1\"]}"), *part = spec;
	tfc_error error = TFC_ERROR_INIT;
	assert_int_equal(tfc_spec_part(spec, 1, &error, &part), TFC_ESPEC);
	assert_string_equal(error.text,
			    "worker/1: not among the 1 worker tasks of the cluster (the last is "
			    "worker/0); add it with its address or correct the index");
	assert_int_equal(tfc_spec_part(NULL, 0, &error, &part), TFC_EINVAL);
	assert_int_equal(tfc_spec_part(spec, 0, &error, NULL), TFC_EINVAL);
	assert_ptr_equal(part, spec);
	tfc_spec_free(spec);
}

static void a_part_does_not_grow_with_the_workers(void **state)
{
	tfc_spec *spec, *part = NULL;
	assert_int_equal(tfc_spec_new(&spec), 0);
	assert_int_equal(tfc_spec_add(spec, "chief", 0, "10.0.0.1:20000", NULL), 0);
	for (uint32_t i = 0; i < 20; i++) {
		char address[32];
		snprintf(address, sizeof(address), "10.1.0.%u:20000", i);
		assert_int_equal(tfc_spec_add(spec, "ps", i, address, NULL), 0);
	}
	for (uint32_t i = 0; i < 2000; i++) {
		char address[32];
		snprintf(address, sizeof(address), "10.2.%u.%u:20000", i / 250, i % 250);
		assert_int_equal(tfc_spec_add(spec, "worker", i, address, NULL), 0);
	}
	assert_int_equal(tfc_spec_part(spec, 1999, NULL, &part), 0);
	size_t full = size_of(spec, 1999), partial = size_of(part, 1999);
	print_message("2000 workers, 20 ps: %zu bytes of environment each, partial %zu\n", full,
		      partial);
	assert_true(full > 100000);
	assert_true(partial < 1500);
	tfc_spec_free(part);
	tfc_spec_free(spec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pytorch_gets_what_torchrun_documents),
		cmocka_unit_test(jax_gets_its_coordinator_and_what_it_knows_slurm_by),
		cmocka_unit_test(horovod_gets_what_its_launcher_gives_each_slot),
		cmocka_unit_test(horovods_hosts_are_numbered_as_its_launcher_numbers_them),
		cmocka_unit_test(ranks_are_dense_and_follow_the_spec_when_it_changes),
		cmocka_unit_test(a_sidecar_of_ranks_gets_no_variables_of_theirs),
		cmocka_unit_test(what_has_no_rank_is_refused),
		cmocka_unit_test(a_list_of_hosts_that_execve_refuses_is_refused_with_its_size),
		cmocka_unit_test(a_part_is_chief_ps_and_the_worker_itself),
		cmocka_unit_test(a_part_of_a_worker_that_is_not_there_is_refused),
		cmocka_unit_test(a_part_does_not_grow_with_the_workers),
	};
	return cmocka_run_group_tests_name("spec ranks", tests, NULL, NULL);
}
