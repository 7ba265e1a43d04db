#include "allocation/engine.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/strv.h"

/* The variables of an engine; NULL: it has none. */
struct engine_variables {
	enum tfc_engine engine;
	const char *name;
	const char *rank;
	const char *rank_count[2]; /* the first that is set counts */
	const char *prefix;        /* of `id` */
	const char *id[2];         /* joined by a dot */
	const char *restart;       /* the number of restarts, which makes each run another one */
	const char *launcher[2];
};

/* In the order of precedence: mpirun in an allocation of Slurm starts its daemons through srun. */
static const struct engine_variables engines[] = {
	{
		.engine = TFC_ENGINE_OPEN_MPI,
		.name = "Open MPI",
		.rank = "OMPI_COMM_WORLD_RANK",
		.rank_count = {"OMPI_COMM_WORLD_SIZE"},
		.prefix = "openmpi",
		.id = {"PMIX_NAMESPACE"},
	},
	{
		.engine = TFC_ENGINE_SLURM,
		.name = "Slurm",
		.rank = "SLURM_PROCID",
		.rank_count = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
		.prefix = "slurm",
		.id = {"SLURM_JOB_ID", "SLURM_STEP_ID"},
		.restart = "SLURM_RESTART_COUNT",
		.launcher = {"SLURM_LAUNCH_NODE_IPADDR", "SLURM_SRUN_COMM_HOST"},
	},
	{
		.engine = TFC_ENGINE_KUBERNETES,
		.name = "Kubernetes",
		.rank = "JOB_COMPLETION_INDEX",
		.prefix = "kubernetes",
	},
};

#define ENGINES (sizeof(engines) / sizeof(engines[0]))
#define EACH_ENGINE(at) \
	for (const struct engine_variables *at = engines; at < engines + ENGINES; at++)

const char *tfc_engine_name(uint32_t engine)
{
	EACH_ENGINE(at)
	if (engine == (uint32_t)at->engine)
		return at->name;
	return engine == TFC_ENGINE_NONE ? "no engine" : "?";
}

/* ---- numbers */

static int engine_read_number(const char *const *env, const char *name, tfc_error *error,
			      uint32_t *ret_number)
{
	const char *text = tfc__env_get(env, name);
	char *end;
	errno = 0;
	unsigned long number = text && isdigit((unsigned char)*text) ? strtoul(text, &end, 10) : 0;
	if (!text || !isdigit((unsigned char)*text) || *end || errno || number > INT32_MAX)
		return tfc__fail(error, TFC_EINVAL, "allocation", 0,
				 "variable %s must be a number, not \"%.80s\"", name,
				 text ? text : "");
	*ret_number = (uint32_t)number;
	return TFC_OK;
}

/* The entry for a node in a list such as "2(x3),1": of nodes 0 to 2 it is 2. 0: there is none. */
static uint32_t engine_repeated_entry(const char *list, uint32_t node)
{
	while (list && isdigit((unsigned char)*list)) {
		char *end;
		unsigned long value = strtoul(list, &end, 10), times = 1;
		if (strncmp(end, "(x", 2) == 0) {
			times = strtoul(end + 2, &end, 10);
			end += *end == ')';
		}
		if (node < times)
			return (uint32_t)value;
		node -= (uint32_t)times;
		list = *end == ',' ? end + 1 : end;
	}
	return 0;
}

static uint32_t engine_count_here(const struct engine_variables *at, const char *const *env)
{
	uint32_t here = 0, node = 0;
	if (at->engine == TFC_ENGINE_OPEN_MPI)
		engine_read_number(env, "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, &here);
	else if (at->engine == TFC_ENGINE_SLURM &&
		 engine_read_number(env, "SLURM_NODEID", NULL, &node) == TFC_OK)
		here = engine_repeated_entry(tfc__env_get(env, "SLURM_STEP_TASKS_PER_NODE"), node);
	return here ? here : 1;
}

/* ---- the parts of a place */

/* The id becomes part of a file's name: other characters become '-'. */
static void engine_make_id(const struct engine_variables *at, const char *const *env, char *id)
{
	const char *restart = at->restart ? tfc__env_get(env, at->restart) : NULL;
	size_t len = (size_t)snprintf(id, TFC__ENGINE_ID_SIZE, "%s", at->prefix);
	for (size_t i = 0; i < 2 && at->id[i]; i++) {
		const char *part = tfc__env_get(env, at->id[i]);
		if (part && len < TFC__ENGINE_ID_SIZE)
			len += (size_t)snprintf(id + len, TFC__ENGINE_ID_SIZE - len, "%c%.150s",
						i ? '.' : '-', part);
	}
	if (restart && strcmp(restart, "0") != 0 && len < TFC__ENGINE_ID_SIZE)
		snprintf(id + len, TFC__ENGINE_ID_SIZE - len, ".restart-%.10s", restart);
	for (; *id; id++)
		if (!isalnum((unsigned char)*id) && !strchr(".-_", *id))
			*id = '-';
}

static int engine_find_rank_count(const struct engine_variables *at, const char *const *env,
				  const tfc_allocation_options *options, tfc_error *error,
				  uint32_t *ret_count)
{
	for (size_t i = 0; i < 2 && at->rank_count[i]; i++)
		if (tfc__env_get(env, at->rank_count[i]))
			return engine_read_number(env, at->rank_count[i], error, ret_count);
	if (!options->rank_count)
		return tfc__fail(error, TFC_EINVAL, "allocation", 0,
				 "%s does not state the number of ranks; set rank_count", at->name);
	*ret_count = options->rank_count;
	return TFC_OK;
}

static int engine_check_place(const struct tfc__engine_place *place,
			      const tfc_allocation_options *options, tfc_error *error)
{
	if (options->rank_count > TFC__RANKS_MAX)
		return tfc__fail(error, TFC_EINVAL, "allocation", 0,
				 "rank_count is %u, and may be %u at most", options->rank_count,
				 TFC__RANKS_MAX);
	if (place->rank_count > TFC__RANKS_MAX)
		return tfc__fail(error, TFC_EINVAL, "allocation", 0,
				 "%s has started %u ranks; at most %u can find each other",
				 tfc_engine_name(place->engine), place->rank_count, TFC__RANKS_MAX);
	if (options->rank_count && options->rank_count != place->rank_count)
		return tfc__fail(error, TFC_EINVAL, "allocation", 0,
				 "rank_count is %u, but %s has started %u rank%s",
				 options->rank_count, tfc_engine_name(place->engine),
				 place->rank_count, place->rank_count == 1 ? "" : "s");
	if (!place->rank_count || place->rank >= place->rank_count)
		return tfc__fail(error, TFC_EINVAL, "allocation", 0,
				 "rank is %u, which must be below rank_count, %u", place->rank,
				 place->rank_count);
	if (options->min_ranks > place->rank_count)
		return tfc__fail(error, TFC_EINVAL, "allocation", 0,
				 "min_ranks is %u, but there are only %u ranks", options->min_ranks,
				 place->rank_count);
	return TFC_OK;
}

/* The script of a batch job has the variables of a rank, but is none; a command of salloc has those
 * of the job alone. */
static bool engine_lacks_step(const struct engine_variables *found, const char *const *env)
{
	return (found ? found->engine == TFC_ENGINE_SLURM
		      : tfc__env_get(env, "SLURM_JOB_ID") != NULL) &&
	       !tfc__env_get(env, "SLURM_STEP_ID");
}

int tfc__engine_recognize(const char *const *env, const tfc_allocation_options *options,
			  tfc_error *error, struct tfc__engine_place *ret_place)
{
	struct tfc__engine_place place = {.engine = TFC_ENGINE_NONE, .ranks_here = 1};
	const struct engine_variables *found = NULL;
	int code = TFC_OK;
	EACH_ENGINE(at)
	if (!found && !options->has_rank && tfc__env_get(env, at->rank))
		found = at;
	if (!options->has_rank && engine_lacks_step(found, env))
		return tfc__fail(error, TFC_EINVAL, "allocation", 0,
				 "this process is in a job of Slurm, but not in a step; start it "
				 "on each node with \"srun --ntasks-per-node 1\"");
	if (found) {
		place.engine = found->engine;
		place.ranks_here = engine_count_here(found, env);
		engine_make_id(found, env, place.id);
		for (size_t i = 2; i-- > 0;)
			if (found->launcher[i] && tfc__env_get(env, found->launcher[i]))
				place.launcher = tfc__env_get(env, found->launcher[i]);
		code = engine_read_number(env, found->rank, error, &place.rank);
		if (code == TFC_OK)
			code = engine_find_rank_count(found, env, options, error,
						      &place.rank_count);
	} else if (options->has_rank) {
		place.rank = options->rank;
		place.rank_count = options->rank_count;
		strcpy(place.id, "ranks");
	} else {
		return tfc__fail(error, TFC_ENOENT, "allocation", 0,
				 "not in an allocation: there are no variables of Slurm (srun), "
				 "Open MPI (mpirun) or an indexed job of Kubernetes; set rank, "
				 "rank_count and rendezvous to run without an engine");
	}
	if (code == TFC_OK)
		code = engine_check_place(&place, options, error);
	if (code == TFC_OK)
		*ret_place = place;
	return code;
}

bool tfc__engine_hides(const char *variable)
{
	static const char *const prefixes[] = {"OMPI_", "PMIX_", "PMI_", "PMI2_", "TFC_KEY_DATA="};
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	return false;
}
