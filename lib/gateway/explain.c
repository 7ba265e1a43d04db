/* EXPLAIN: where the tasks of a job would be placed now, and what they would run with. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "cluster/nodes.h"
#include "gateway/gateway.h"
#include "gateway/internal.h"
#include "gateway/results.h"

/* Paths and variables that contain the job's id have this one. */
static const char no_id[] = "0000000000000000";

/* The host of "tcp://HOST:PORT", without the brackets of an IPv6 address. */
static void member_copy_host(const char *address, char *ret_host, size_t size)
{
	const char *begin = address ? strstr(address, "://") : NULL;
	const char *end = begin ? strrchr(begin, ':') : NULL;
	ret_host[0] = '\0';
	if (!begin || end < begin + 3)
		return;
	begin += 3;
	if (*begin == '[' && end[-1] == ']') {
		begin++;
		end--;
	}
	snprintf(ret_host, size, "%.*s", (int)(end - begin), begin);
}

static int explain_choose_nodes(struct tfc__nodes *nodes, const tfc_job *job,
				struct tfc__node_entry **ret_chosen, tfc_error *error)
{
	struct tfc__link refusals;
	uint32_t count = tfc__job_task_count(job), *tasks = malloc(count * sizeof(*tasks));
	if (!tasks)
		return tfc__fail_nomem(error, "gateway");
	for (uint32_t i = 0; i < count; i++)
		tasks[i] = i;
	tfc__list_init(&refusals);
	const struct tfc__nodes_request request = {
		.job = job,
		.id = no_id,
		.tasks = tasks,
		.count = count,
		.refusals = &refusals,
	};
	tfc_error why = TFC_ERROR_INIT;
	int code = tfc__nodes_place(nodes, &request, &why, ret_chosen);
	free(tasks);
	if (code == TFC_EAGAIN)
		return tfc__fail(error, TFC_EEXHAUSTED, "gateway", 0, "the job would wait: %s",
				 why.text);
	if (code < 0)
		*error = why;
	return code;
}

/* The place of each task; *ret_places stays NULL if all are on this node, whose capacity is not
 * known before its GPUs are. */
static int explain_find_places(struct tfc__nodes *nodes, const tfc_job *job, tfc_error *error,
			       struct tfc__agent_place **ret_places)
{
	uint32_t count = tfc__job_task_count(job);
	bool is_alone = tfc__nodes_alone(nodes) != NULL;
	if (is_alone && (job->upstream || tfc__nodes_are_finding_gpus(nodes)))
		return TFC_OK;
	if (job->upstream)
		return tfc__fail(error, TFC_ENOTSUP, "gateway", 0,
				 "cannot explain the placement of a job that follows upstream "
				 "\"%.60s\": its nodes are chosen when it starts",
				 job->upstream);
	struct tfc__node_entry **chosen = calloc(count, sizeof(struct tfc__node_entry *));
	struct tfc__agent_place *places = calloc(count, sizeof(*places));
	int code = chosen && places ? explain_choose_nodes(nodes, job, chosen, error)
				    : tfc__fail_nomem(error, "gateway");
	for (uint32_t i = 0; i < count && code == TFC_OK; i++) {
		if (chosen[i]->member->is_self)
			continue;
		places[i].node = chosen[i]->name;
		member_copy_host(chosen[i]->member->address, places[i].host,
				 sizeof(places[i].host));
	}
	free(chosen);
	if (code == TFC_OK)
		*ret_places = places;
	else
		free(places);
	return code;
}

static int explain_add_plan(void *user, const tfc_task_plan *plan)
{
	struct tfc__request *request = user;
	tfc__task_plan_write(&request->text, plan);
	return tfc__request_reserve(request, 0);
}

int tfc__explain(struct tfc__directory *directory, const struct tfc__request_params *params,
		 struct tfc__request *request)
{
	const tfc_job *job = params->definition;
	const struct tfc__agent_job_info info = {.id = no_id,
						 .job = job,
						 .epoch = 1,
						 .has_minimal_env = params->has_minimal_env};
	const tfc_explanation explanation = {.strategy = tfc__job_strategy(job),
					     .name = job->name,
					     .task_count = tfc__job_task_count(job)};
	struct tfc__agent_place *places = NULL;
	int code = explain_find_places(tfc__directory_nodes(directory), job, &request->error,
				       &places);
	tfc__explanation_write_head(&request->text, &explanation);
	if (code == TFC_OK)
		code = tfc__agent_explain(tfc__directory_agent(directory), &info, places,
					  explain_add_plan, request, &request->error);
	free(places);
	return code;
}
