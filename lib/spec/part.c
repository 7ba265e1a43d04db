/* The part of a cluster that one worker sees with "topology": "partial". */
#include "base/fail.h"
#include "spec/spec.h"

static int copy_task(tfc_spec *part, enum tfc__task_type type, const struct tfc__spec_task *task,
		     tfc_error *error)
{
	return tfc_spec_add(part, tfc__task_type_name(type), task->index, task->address, error);
}

static int copy_list(tfc_spec *part, const tfc_spec *spec, enum tfc__task_type type,
		     tfc_error *error)
{
	int code = 0;
	for (uint32_t i = 0; code == 0 && i < spec->lists[type].count; i++)
		code = copy_task(part, type, &spec->lists[type].items[i], error);
	return code;
}

int tfc_spec_part(const tfc_spec *spec, uint32_t worker_index, tfc_error *error,
		  tfc_spec **ret_part)
{
	tfc_spec *part = NULL;
	if (!spec || !ret_part)
		return tfc__fail(error, TFC_EINVAL, "spec", 0,
				 "tfc_spec_part: spec and ret_part must not be NULL");
	int code = tfc__rules_task(spec, TFC_STRATEGY_NONE, TFC__WORKER, worker_index, error);
	if (code < 0)
		return code;
	if (tfc_spec_new(&part) < 0)
		return tfc__fail_nomem(error, "spec");
	part->is_part = true;
	code = copy_list(part, spec, TFC__CHIEF, error);
	if (code == 0)
		code = copy_task(part, TFC__WORKER, tfc__spec_find(spec, TFC__WORKER, worker_index),
				 error);
	if (code == 0)
		code = copy_list(part, spec, TFC__PS, error);
	if (code < 0) {
		tfc_spec_free(part);
		return code;
	}
	*ret_part = part;
	return 0;
}
