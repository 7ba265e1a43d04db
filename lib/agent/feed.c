#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <tfcluster/version.h>

#include "agent/internal.h"

char *tfc__agent_find_library(void)
{
	Dl_info info;
	if (!dladdr((void *)(uintptr_t)tfc_version, &info) || !info.dli_fname ||
	    !strstr(info.dli_fname, ".so"))
		return NULL;
	return realpath(info.dli_fname, NULL);
}

/* The users that the job's tasks run as, if not as the node's own. */
static uint32_t feed_users(const struct tfc__agent_job *job, uint32_t *uids)
{
	uint32_t count = 0;
	for (uint32_t i = 0; job->users && i < job->info.job->role_count; i++)
		if (job->users[i].name)
			uids[count++] = job->users[i].uid;
	return count;
}

static void feed_open(struct tfc__agent_job *job)
{
	const struct tfc__agent_feeds *feeds = &job->agent->feeds;
	tfc_error error = TFC_ERROR_INIT;
	uint32_t *uids = calloc(job->info.job->role_count, sizeof(*uids));
	if (uids && feeds->open(feeds->user, job->info.id, uids, feed_users(job, uids), &error,
				&job->feed) < 0)
		tfc__log(job->agent->ctx, TFC_LOG_WARNING, "agent", job->info.id,
			 "tasks cannot be fed: %s", error.text);
	free(uids);
}

void tfc__feed_add_environ(const struct agent_task *task, struct tfc__strv *env)
{
	struct tfc__agent_job *job = task->job;
	const struct tfc__agent *agent = job->agent;
	if (!agent->feeds.open || job->is_plan)
		return;
	if (!job->feed)
		feed_open(job);
	if (job->feed)
		tfc__strv_set_env(env, "TFC_FEED", agent->feeds.address(job->feed));
	if (agent->library)
		tfc__strv_set_env(env, "TFC_LIBRARY", agent->library);
}
