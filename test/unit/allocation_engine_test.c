/* allocation: an environment shows which engine started this process, and which rank it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "allocation/engine.h"

#define ENV(...)                                                 \
	(const char *const[])                                    \
	{                                                        \
		"PATH=/usr/bin", __VA_ARGS__ __VA_OPT__(, ) NULL \
	}

/* As srun of Slurm 22.05 sets them: rank 1 of "srun -N 3 --ntasks-per-node 1 -c 2". */
#define SRUN                                                                                      \
	"SLURMD_NODENAME=n1", "SLURM_CPUS_ON_NODE=2", "SLURM_CPUS_PER_TASK=2", "SLURM_JOB_ID=17", \
		"SLURM_JOB_NODELIST=n[0-2]", "SLURM_LAUNCH_NODE_IPADDR=10.0.0.9",                 \
		"SLURM_LOCALID=0", "SLURM_NODEID=1", "SLURM_NPROCS=3", "SLURM_NTASKS=3",          \
		"SLURM_PROCID=1", "SLURM_SRUN_COMM_HOST=10.0.0.9", "SLURM_STEP_ID=0",             \
		"SLURM_STEP_NUM_TASKS=3", "SLURM_STEP_TASKS_PER_NODE=1(x3)"

/* As mpirun of Open MPI 4.1 sets them: rank 2 of "mpirun -n 3". */
#define MPIRUN                                                                                     \
	"OMPI_COMM_WORLD_LOCAL_RANK=2", "OMPI_COMM_WORLD_LOCAL_SIZE=3",                            \
		"OMPI_COMM_WORLD_NODE_RANK=2", "OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=3", \
		"OMPI_MCA_ess_base_jobid=1879113729", "PMIX_NAMESPACE=1879113729", "PMIX_RANK=2"

static const struct row {
	const char *what;
	const char *const *env;
	tfc_allocation_options options;
	int code;
	struct tfc__engine_place place;
	const char *error; /* part of the message */
} rows[] = {
	{"srun",
	 ENV(SRUN),
	 {0},
	 TFC_OK,
	 {TFC_ENGINE_SLURM, 1, 3, 1, "slurm-17.0", "10.0.0.9"},
	 NULL},
	{"a job of Slurm that was requeued",
	 ENV(SRUN, "SLURM_RESTART_COUNT=2"),
	 {0},
	 TFC_OK,
	 {TFC_ENGINE_SLURM, 1, 3, 1, "slurm-17.0.restart-2", "10.0.0.9"},
	 NULL},
	{"several ranks on a node",
	 ENV("SLURM_PROCID=3", "SLURM_STEP_NUM_TASKS=5", "SLURM_NODEID=2",
	     "SLURM_STEP_TASKS_PER_NODE=1(x2),3", "SLURM_STEP_ID=4", "SLURM_JOB_ID=1"),
	 {0},
	 TFC_OK,
	 {TFC_ENGINE_SLURM, 3, 5, 3, "slurm-1.4", NULL},
	 NULL},
	{"the script of a batch job",
	 ENV("SLURM_PROCID=0", "SLURM_NTASKS=3", "SLURM_JOB_ID=17"),
	 {0},
	 TFC_EINVAL,
	 {0},
	 "start it on each node with \"srun"},
	{"a command of salloc",
	 ENV("SLURM_JOB_ID=17", "SLURM_JOB_NUM_NODES=3", "SLURM_TASKS_PER_NODE=1(x3)"),
	 {0},
	 TFC_EINVAL,
	 {0},
	 "in a job of Slurm, but not in a step; start it on each node with \"srun"},
	{"mpirun",
	 ENV(MPIRUN),
	 {0},
	 TFC_OK,
	 {TFC_ENGINE_OPEN_MPI, 2, 3, 3, "openmpi-1879113729", NULL},
	 NULL},
	{"mpirun in an allocation of Slurm",
	 ENV(SRUN, MPIRUN),
	 {0},
	 TFC_OK,
	 {TFC_ENGINE_OPEN_MPI, 2, 3, 3, "openmpi-1879113729", NULL},
	 NULL},
	{"an indexed job",
	 ENV("JOB_COMPLETION_INDEX=2", "KUBERNETES_SERVICE_HOST=10.96.0.1"),
	 {.rank_count = 4},
	 TFC_OK,
	 {TFC_ENGINE_KUBERNETES, 2, 4, 1, "kubernetes", NULL},
	 NULL},
	{"an indexed job of unknown size",
	 ENV("JOB_COMPLETION_INDEX=2"),
	 {0},
	 TFC_EINVAL,
	 {0},
	 "Kubernetes does not state the number of ranks; set rank_count"},
	{"options",
	 ENV(),
	 {.has_rank = 1, .rank_count = 2},
	 TFC_OK,
	 {TFC_ENGINE_NONE, 0, 2, 1, "ranks", NULL},
	 NULL},
	{"options override an engine",
	 ENV(SRUN),
	 {.has_rank = 1, .rank = 1, .rank_count = 2},
	 TFC_OK,
	 {TFC_ENGINE_NONE, 1, 2, 1, "ranks", NULL},
	 NULL},
	{"nothing", ENV(), {0}, TFC_ENOENT, {0}, "not in an allocation"},
	{"a rank that is no number",
	 ENV("SLURM_PROCID=one", "SLURM_STEP_ID=0"),
	 {0},
	 TFC_EINVAL,
	 {0},
	 "variable SLURM_PROCID must be a number, not \"one\""},
	{"an empty rank",
	 ENV("JOB_COMPLETION_INDEX="),
	 {.rank_count = 1},
	 TFC_EINVAL,
	 {0},
	 "JOB_COMPLETION_INDEX must be a number, not \"\""},
	{"a rank beyond the last",
	 ENV("OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=3"),
	 {0},
	 TFC_EINVAL,
	 {0},
	 "rank is 3, which must be below rank_count, 3"},
	{"another size than the engine's",
	 ENV(SRUN),
	 {.rank_count = 4},
	 TFC_EINVAL,
	 {0},
	 "rank_count is 4, but Slurm has started 3 ranks"},
	{"more ranks than can find each other",
	 ENV(),
	 {.has_rank = 1, .rank_count = 16385},
	 TFC_EINVAL,
	 {0},
	 "rank_count is 16385, and may be 16384 at most"},
	{"as many as can find each other",
	 ENV(),
	 {.has_rank = 1, .rank_count = 16384},
	 TFC_OK,
	 {TFC_ENGINE_NONE, 0, 16384, 1, "ranks", NULL},
	 NULL},
	{"an engine with more ranks than can find each other",
	 ENV("SLURM_PROCID=0", "SLURM_NTASKS=2000000000", "SLURM_STEP_ID=0"),
	 {0},
	 TFC_EINVAL,
	 {0},
	 "Slurm has started 2000000000 ranks; at most 16384 can find each other"},
	{"too many to be required",
	 ENV(SRUN),
	 {.min_ranks = 4},
	 TFC_EINVAL,
	 {0},
	 "min_ranks is 4, but there are only 3 ranks"},
	{"mpirun on a host with a long name",
	 ENV("OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1",
	     "PMIX_NAMESPACE=prterun-ip-10-0-0-1.eu-west-1.compute.internal.example-123456@1"),
	 {0},
	 TFC_OK,
	 {TFC_ENGINE_OPEN_MPI, 0, 1, 1,
	  "openmpi-prterun-ip-10-0-0-1.eu-west-1.compute.internal.example-123456-1", NULL},
	 NULL},
	{"an id with characters of paths",
	 ENV("SLURM_PROCID=0", "SLURM_NTASKS=1", "SLURM_JOB_ID=../x", "SLURM_STEP_ID=0"),
	 {0},
	 TFC_OK,
	 {TFC_ENGINE_SLURM, 0, 1, 1, "slurm-..-x.0", NULL},
	 NULL},
};

static void each_environment_is_recognized(void **state)
{
	for (const struct row *row = rows; row < rows + sizeof(rows) / sizeof(rows[0]); row++) {
		struct tfc__engine_place place = {0};
		tfc_error error = TFC_ERROR_INIT;
		int code = tfc__engine_recognize(row->env, &row->options, &error, &place);
		if (code != row->code)
			fail_msg("%s: %d, \"%s\"", row->what, code, error.text);
		if (row->error && !strstr(error.text, row->error))
			fail_msg("%s: \"%s\"", row->what, error.text);
		if (code < 0)
			continue;
		if (place.engine != row->place.engine || place.rank != row->place.rank ||
		    place.rank_count != row->place.rank_count ||
		    place.ranks_here != row->place.ranks_here)
			fail_msg("%s: engine %d, rank %u of %u, %u here", row->what, place.engine,
				 place.rank, place.rank_count, place.ranks_here);
		assert_string_equal(place.id, row->place.id);
		assert_string_equal(place.launcher ? place.launcher : "",
				    row->place.launcher ? row->place.launcher : "");
	}
}

static void tasks_get_no_variable_of_mpi_and_no_key(void **state)
{
	static const char *const hidden[] = {"OMPI_COMM_WORLD_RANK=1", "PMIX_RANK=0", "PMI_RANK=1",
					     "PMI2_ID=1", "TFC_KEY_DATA=secret"};
	static const char *const shown[] = {"PATH=/bin", "SLURM_JOB_ID=1", "TFC_KEY_DATAS=1",
					    "XPMI_RANK=1"};
	for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
		assert_true(tfc__engine_hides(hidden[i]));
	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
		assert_false(tfc__engine_hides(shown[i]));
}

static void each_engine_has_a_name(void **state)
{
	assert_string_equal(tfc_engine_name(TFC_ENGINE_NONE), "no engine");
	assert_string_equal(tfc_engine_name(TFC_ENGINE_SLURM), "Slurm");
	assert_string_equal(tfc_engine_name(TFC_ENGINE_OPEN_MPI), "Open MPI");
	assert_string_equal(tfc_engine_name(TFC_ENGINE_KUBERNETES), "Kubernetes");
	assert_string_equal(tfc_engine_name(0), "?");
	assert_string_equal(tfc_engine_name(5), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_environment_is_recognized),
		cmocka_unit_test(tasks_get_no_variable_of_mpi_and_no_key),
		cmocka_unit_test(each_engine_has_a_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
