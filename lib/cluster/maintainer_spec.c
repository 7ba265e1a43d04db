#include "base/fail.h"
#include "cluster/maintainer_state.h"

static int add_tasks(const struct tfc__maintainer *maintainer, tfc_spec *spec, tfc_error *error)
{
	const tfc_job *job = maintainer->info.job;
	const struct seen *seen = maintainer->seen;
	for (uint32_t r = 0; r < job->role_count; r++) {
		const struct tfc__role *role = &job->roles[r];
		bool is_in_cluster = tfc__role_is_in_cluster(role->name);
		for (uint32_t i = 0; i < role->count; i++, seen++) {
			if (!is_in_cluster || !seen->address)
				continue;
			int code = tfc_spec_add(spec, role->name, i, seen->address, error);
			if (code < 0)
				return code;
		}
	}
	return TFC_OK;
}

void tfc__maintainer_drop_spec(struct tfc__maintainer *maintainer)
{
	if (!maintainer->spec_generation)
		return;
	maintainer->spec_generation = 0;
	for (uint32_t i = 0; i < maintainer->link_count; i++)
		maintainer->links[i]->spec_generation = 0;
}

int tfc__maintainer_make_spec(struct tfc__maintainer *maintainer, uint32_t generation,
			      tfc_error *error)
{
	tfc_spec *spec;
	if (maintainer->spec && maintainer->spec_generation == generation)
		return TFC_OK;
	if (tfc_spec_new(&spec) < 0)
		return tfc__fail_nomem(error, "cluster");
	int code = add_tasks(maintainer, spec, error);
	if (code < 0) {
		tfc_spec_free(spec);
		return code;
	}
	tfc_spec_free(maintainer->spec);
	maintainer->spec = spec;
	maintainer->spec_generation = generation;
	return TFC_OK;
}
