/*
 * TensorFlow's rules for a cluster, with an error message for each:
 * python/distribute/multi_worker_util.py (_validate_cluster_spec),
 * python/distribute/parameter_server_strategy_v2.py (_verify_args_and_config), and for ps tasks
 * beside mirrored workers multi_worker_util.py (coordination_leader: it would choose a ps as the
 * leader, and no ps runs the coordination service).
 */
#include "base/fail.h"
#include "base/text.h"
#include "spec/ranks.h"
#include "spec/spec.h"

#include <ctype.h>
#include <string.h>

#define NAME_MAX_LEN 24

const char *tfc__rules_similar_type(const char *name)
{
	static const char *const others[][2] = {
		{"master", "chief"},       {"coordinator", "chief"},    {"parameter_server", "ps"},
		{"parameterserver", "ps"}, {"parameter_servers", "ps"}, {"eval", "evaluator"},
	};
	char lower[NAME_MAX_LEN + 1];
	size_t len = strlen(name);
	if (len > NAME_MAX_LEN)
		return NULL;
	for (size_t i = 0; i <= len; i++)
		lower[i] = (char)tolower((unsigned char)name[i]);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strcmp(lower, others[i][0]) == 0)
			return others[i][1];
	for (int type = 0; type < TFC__TYPE_COUNT; type++) {
		const char *known = tfc__task_type_name((enum tfc__task_type)type);
		size_t known_len = strlen(known);
		if (tfc__edit_distance(lower, len, known, known_len) <= (known_len > 2 ? 2U : 1U))
			return known;
	}
	return NULL;
}

int tfc__rules_type(const char *task_type, uint32_t task_index, tfc_error *error,
		    enum tfc__task_type *ret_type)
{
	enum tfc__task_type type = tfc__task_type_find(task_type);
	if (type != TFC__TYPE_COUNT) {
		*ret_type = type;
		return 0;
	}
	const char *meant = tfc__rules_similar_type(task_type);
	if (meant)
		return tfc__fail(error, TFC_ESPEC, "spec", 0,
				 "%.80s/%u: TensorFlow knows no such task type; did you mean %s?",
				 task_type, task_index, meant);
	return tfc__fail(error, TFC_ESPEC, "spec", 0,
			 "%.80s/%u: TensorFlow takes only chief, worker, ps and evaluator in a "
			 "cluster; run it outside the cluster spec",
			 task_type, task_index);
}

int tfc__rules_index(enum tfc__task_type type, uint32_t task_index, tfc_error *error)
{
	const char *name = tfc__task_type_name(type);
	if ((type == TFC__CHIEF || type == TFC__EVALUATOR) && task_index != 0)
		return tfc__fail(error, TFC_ESPEC, "spec", 0,
				 "%s/%u: TensorFlow takes at most one %s, with index 0; leave this "
				 "one out%s",
				 name, task_index, name,
				 type == TFC__CHIEF ? " or make it a worker" : "");
	if (task_index > TFC__TASK_INDEX_MAX)
		return tfc__fail(error, TFC_ESPEC, "spec", 0,
				 "%s/%u: an index is at most %d; number the tasks from 0", name,
				 task_index, TFC__TASK_INDEX_MAX);
	return 0;
}

const char *const tfc__strategy_names[] = {
	[TFC_STRATEGY_AUTO] = "auto",
	[TFC_STRATEGY_MULTI_WORKER_MIRRORED] = "multi_worker_mirrored",
	[TFC_STRATEGY_PARAMETER_SERVER] = "parameter_server",
	[TFC_STRATEGY_NONE] = "none",
	NULL,
};

const char *tfc_strategy_name(uint32_t strategy)
{
	return strategy <= TFC_STRATEGY_NONE ? tfc__strategy_names[strategy] : "?";
}

int tfc__rules_strategy(const tfc_spec *spec, enum tfc_strategy strategy, tfc_error *error,
			enum tfc_strategy *ret_strategy)
{
	switch (strategy) {
	case TFC_STRATEGY_AUTO:
		*ret_strategy = spec->lists[TFC__PS].count ? TFC_STRATEGY_PARAMETER_SERVER
							   : TFC_STRATEGY_MULTI_WORKER_MIRRORED;
		return 0;
	case TFC_STRATEGY_MULTI_WORKER_MIRRORED:
	case TFC_STRATEGY_PARAMETER_SERVER:
	case TFC_STRATEGY_NONE:
		*ret_strategy = strategy;
		return 0;
	}
	return tfc__fail(error, TFC_EINVAL, "spec", 0,
			 "strategy is %d, which is not in enum tfc_strategy; use TFC_STRATEGY_AUTO",
			 (int)strategy);
}

static int rules_refuse_missing(const char *task_type, uint32_t task_index,
				enum tfc__task_type missing, const char *remedy, tfc_error *error)
{
	return tfc__fail(error, TFC_ESPEC, "spec", 0,
			 "%s/%u: parameter_server needs at least one %s; add %s/0%s", task_type,
			 task_index, tfc__task_type_name(missing), tfc__task_type_name(missing),
			 remedy);
}

int tfc__rules_cluster(const tfc_spec *spec, enum tfc_strategy strategy, const char *task_type,
		       uint32_t task_index, tfc_error *error)
{
	const struct tfc__spec_list *ps = &spec->lists[TFC__PS];
	if (strategy == TFC_STRATEGY_MULTI_WORKER_MIRRORED && ps->count)
		return tfc__fail(error, TFC_ESPEC, "spec", 0,
				 "%s/%u: multi_worker_mirrored takes no ps (its tasks would wait "
				 "for ps/%u for ever); leave the ps out or use parameter_server",
				 task_type, task_index, ps->items[0].index);
	if (strategy == TFC_STRATEGY_PARAMETER_SERVER && !ps->count)
		return rules_refuse_missing(task_type, task_index, TFC__PS,
					    " or use multi_worker_mirrored", error);
	if (strategy == TFC_STRATEGY_PARAMETER_SERVER && !spec->lists[TFC__WORKER].count)
		return rules_refuse_missing(task_type, task_index, TFC__WORKER, "", error);
	return 0;
}

int tfc__rules_ranks(const tfc_spec *spec, enum tfc_framework framework, tfc_error *error)
{
	for (int type = TFC__PS; type <= TFC__EVALUATOR; type++)
		if (spec->lists[type].count)
			return tfc__fail(error, TFC_ESPEC, "spec", 0,
					 "%s/%u: %s has only ranks, which are the chief and the "
					 "workers; run this task outside the cluster spec",
					 tfc__task_type_name((enum tfc__task_type)type),
					 spec->lists[type].items[0].index,
					 tfc__framework_name(framework));
	return 0;
}

int tfc__rules_task(const tfc_spec *spec, enum tfc_strategy strategy, enum tfc__task_type type,
		    uint32_t task_index, tfc_error *error)
{
	const char *name = tfc__task_type_name(type);
	const struct tfc__spec_list *list = &spec->lists[type];
	int code = tfc__rules_index(type, task_index, error);
	if (code < 0)
		return code;
	/* An evaluator may be missing from the cluster that the other tasks see. */
	bool is_missing = type != TFC__EVALUATOR && !tfc__spec_find(spec, type, task_index);
	if (is_missing && !list->count)
		return tfc__fail(error, TFC_ESPEC, "spec", 0,
				 "%s/%u: the cluster has no %s; add this task with its address",
				 name, task_index, name);
	if (is_missing)
		return tfc__fail(error, TFC_ESPEC, "spec", 0,
				 "%s/%u: not among the %u %s tasks of the cluster (the last is "
				 "%s/%u); add it with its address or correct the index",
				 name, task_index, list->count, name, name,
				 list->items[list->count - 1].index);
	code = tfc__rules_cluster(spec, strategy, name, task_index, error);
	if (code < 0 || strategy == TFC_STRATEGY_NONE || type == TFC__EVALUATOR || spec->is_part)
		return code;
	if (task_index >= list->count)
		return tfc__fail(error, TFC_ESPEC, "spec", 0,
				 "%s/%u: the strategy requires an index below %u, the number of %s "
				 "tasks listed; list them without gaps, or use strategy none",
				 name, task_index, list->count, name);
	return 0;
}
