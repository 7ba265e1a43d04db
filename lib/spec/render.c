/*
 * Renders a spec. The part that all tasks share is rendered once and kept until the spec changes;
 * each task then costs one copy of it.
 */
#include "base/fail.h"
#include "base/json_writer.h"
#include "base/strv.h"
#include "spec/ranks.h"
#include "spec/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The address of an evaluator that has none. TensorFlow requires the evaluator in its own cluster
 * (multi_worker_util.worker_count raises KeyError), but no task connects to it and it never
 * listens.
 */
#define NO_ADDRESS "localhost:0"

void tfc__spec_common_clear(struct tfc__spec_common *common)
{
	free(common->cluster);
	free(common->workers);
	tfc__ranks_free(common->ranks);
	common->ranks = NULL;
	common->cluster = NULL;
	common->workers = NULL;
	common->cluster_len = 0;
}

/* Task indices without gaps make a list, others an object. */
static void render_tasks(struct tfc__json_writer *json, const struct tfc__spec_list *list)
{
	bool is_dense = tfc__spec_is_dense(list);
	tfc__json_begin(json, is_dense ? '[' : '{');
	for (uint32_t i = 0; i < list->count; i++) {
		if (!is_dense) {
			char index[16];
			snprintf(index, sizeof(index), "%u", list->items[i].index);
			tfc__json_name(json, index);
		}
		tfc__json_text(json, list->items[i].address);
	}
	tfc__json_end(json, is_dense ? ']' : '}');
}

/* The common part, rendered if necessary; NULL when out of memory. */
static const struct tfc__spec_common *render_common(const tfc_spec *spec)
{
	struct tfc__spec_common *common = spec->common;
	if (common->cluster)
		return common;
	const struct tfc__spec_list *list = &spec->lists[TFC__WORKER];
	struct tfc__json_writer cluster = {.depth = 0}, workers = {.depth = 0};
	tfc__json_begin(&cluster, '{');
	for (int type = 0; type < TFC__EVALUATOR; type++) {
		if (!spec->lists[type].count)
			continue;
		tfc__json_name(&cluster, tfc__task_type_name((enum tfc__task_type)type));
		render_tasks(&cluster, &spec->lists[type]);
	}
	tfc__json_end(&cluster, '}');
	tfc__json_begin(&workers, '[');
	for (uint32_t i = 0; i < list->count; i++)
		tfc__json_textf(&workers, "/job:worker/task:%u", list->items[i].index);
	tfc__json_end(&workers, ']');
	if (cluster.buf.is_failed || workers.buf.is_failed) {
		tfc__buf_fini(&cluster.buf);
		tfc__buf_fini(&workers.buf);
		return NULL;
	}
	common->cluster_len = cluster.buf.len;
	common->cluster = tfc__buf_steal(&cluster.buf);
	common->workers = tfc__buf_steal(&workers.buf);
	common->render_count++;
	return common;
}

int tfc_spec_json(const tfc_spec *spec, char **ret_json)
{
	if (!spec || !ret_json)
		return TFC_EINVAL;
	const struct tfc__spec_common *common = render_common(spec);
	char *json = common ? strdup(common->cluster) : NULL;
	if (!json)
		return TFC_ENOMEM;
	*ret_json = json;
	return 0;
}

/* Renders the TF_CONFIG of a task that the rules allow. */
static int render_tf_config(const tfc_spec *spec, enum tfc__task_type type, uint32_t task_index,
			    tfc_error *error, char **ret_json)
{
	const struct tfc__spec_common *common = render_common(spec);
	const char *name = tfc__task_type_name(type);
	struct tfc__json_writer writer = {.depth = 0};
	if (!common)
		return tfc__fail_nomem(error, "spec");
	tfc__json_begin(&writer, '{');
	tfc__json_name(&writer, "cluster");
	if (type == TFC__EVALUATOR) {
		const struct tfc__spec_task *task = tfc__spec_find(spec, TFC__EVALUATOR, 0);
		tfc__json_begin(&writer, '{');
		tfc__json_raw(&writer, common->cluster + 1, common->cluster_len - 2);
		tfc__json_name(&writer, "evaluator");
		tfc__json_begin(&writer, '[');
		tfc__json_text(&writer, task ? task->address : NO_ADDRESS);
		tfc__json_end(&writer, ']');
		tfc__json_end(&writer, '}');
	} else {
		tfc__json_raw(&writer, common->cluster, common->cluster_len);
	}
	tfc__json_name(&writer, "task");
	tfc__json_begin(&writer, '{');
	tfc__json_name(&writer, "type");
	tfc__json_text(&writer, name);
	tfc__json_name(&writer, "index");
	tfc__json_uint(&writer, task_index);
	tfc__json_end(&writer, '}');
	tfc__json_end(&writer, '}');
	size_t len = writer.buf.len;
	char *json = tfc__buf_steal(&writer.buf);
	if (!json)
		return tfc__fail_nomem(error, "spec");
	if (len > TFC_TF_CONFIG_MAX) {
		free(json);
		return tfc__fail(error, TFC_ETOOBIG, "spec", 0,
				 "%s/%u: TF_CONFIG has %zu bytes, more than the %d that an "
				 "environment variable can hold; use shorter addresses (IPv4 "
				 "numbers are short) or fewer tasks",
				 name, task_index, len, TFC_TF_CONFIG_MAX);
	}
	*ret_json = json;
	return 0;
}

int tfc_spec_tf_config(const tfc_spec *spec, enum tfc_strategy strategy, const char *task_type,
		       uint32_t task_index, tfc_error *error, char **ret_json)
{
	enum tfc__task_type type = TFC__TYPE_COUNT;
	if (!spec || !task_type || !ret_json)
		return tfc__fail(error, TFC_EINVAL, "spec", 0,
				 "tfc_spec_tf_config: spec, task_type and ret_json must not be "
				 "NULL");
	int code = tfc__rules_strategy(spec, strategy, error, &strategy);
	if (code == 0)
		code = tfc__rules_type(task_type, task_index, error, &type);
	if (code == 0)
		code = tfc__rules_task(spec, strategy, type, task_index, error);
	if (code == 0)
		code = render_tf_config(spec, type, task_index, error, ret_json);
	return code;
}

/*
 * Adds TF_CONFIG for a task type of the cluster, the variables that the strategy requires in every
 * process, and those of Apache Ignite's TensorFlow integration.
 */
static int environ_add_tensorflow(struct tfc__strv *env, const tfc_spec *spec,
				  enum tfc_strategy strategy, const char *task_type,
				  uint32_t task_index, tfc_error *error)
{
	enum tfc__task_type type = tfc__task_type_find(task_type);
	char *tf_config = NULL;
	int code = type == TFC__TYPE_COUNT
			   ? tfc__rules_cluster(spec, strategy, task_type, task_index, error)
			   : tfc_spec_tf_config(spec, strategy, task_type, task_index, error,
						&tf_config);
	if (code < 0)
		return code;
	if (tf_config)
		tfc__strv_set_env(env, "TF_CONFIG", tf_config);
	free(tf_config);
	if (strategy == TFC_STRATEGY_PARAMETER_SERVER)
		tfc__strv_add(env, "GRPC_FAIL_FAST=use_caller");

	/* Ignite's. A list too long for execve is omitted: it exists for old scripts only and must
	 * not prevent a large job from starting. */
	const struct tfc__spec_common *common = render_common(spec);
	const struct tfc__spec_task *chief = tfc__spec_find(spec, TFC__CHIEF, 0);
	if (!common)
		return tfc__fail_nomem(error, "spec");
	if (sizeof("TF_CLUSTER=") + common->cluster_len <= TFC__ENV_STRING_MAX)
		tfc__strv_set_env(env, "TF_CLUSTER", common->cluster);
	if (sizeof("TF_WORKERS=") + strlen(common->workers) <= TFC__ENV_STRING_MAX)
		tfc__strv_set_env(env, "TF_WORKERS", common->workers);
	if (chief) {
		struct tfc__buf server = {0};
		tfc__buf_addf(&server, "TF_CHIEF_SERVER=grpc://%s", chief->address);
		tfc__strv_take(env, tfc__buf_steal(&server));
	}
	return 0;
}

int tfc_spec_environ(const tfc_spec *spec, enum tfc_framework framework, enum tfc_strategy strategy,
		     const char *task_type, uint32_t task_index, tfc_error *error, char ***ret_env)
{
	struct tfc__strv env = {0};
	if (!spec || !task_type || !ret_env)
		return tfc__fail(error, TFC_EINVAL, "spec", 0,
				 "tfc_spec_environ: spec, task_type and ret_env must not be NULL");
	if (!tfc__framework_name(framework))
		return tfc__fail(error, TFC_EINVAL, "spec", 0,
				 "framework is %d, which is not in enum tfc_framework; use "
				 "TFC_FRAMEWORK_TENSORFLOW",
				 (int)framework);
	int code = tfc__rules_strategy(spec, strategy, error, &strategy);
	if (code == 0 && framework == TFC_FRAMEWORK_TENSORFLOW)
		code = environ_add_tensorflow(&env, spec, strategy, task_type, task_index, error);
	else if (code == 0 && framework != TFC_FRAMEWORK_NONE)
		code = tfc__ranks_environ(spec, framework, task_type, task_index, error, &env);
	if (code < 0) {
		tfc__strv_fini(&env);
		return code;
	}
	char **list = tfc__strv_steal(&env);
	if (!list)
		return tfc__fail_nomem(error, "spec");
	*ret_env = list;
	return 0;
}
