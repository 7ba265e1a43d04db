/* Resolves the paths in a job against a directory. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fail.h"
#include "job/job.h"

/* A resolution in progress. */
struct resolve {
	tfc_job *job;
	const char *base_dir;
	tfc_error *error;
};

/* Whether `path` is a directory that can be entered; if not, errno is the reason. */
static bool can_enter(const char *path)
{
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return false;
	bool can = faccessat(fd, ".", X_OK, AT_EACCESS) == 0;
	int saved = errno;
	close(fd);
	errno = saved;
	return can;
}

/* Makes `path` relative to base_dir. */
static int resolve_path(const struct resolve *resolve, const char *key, const char *path,
			bool is_directory)
{
	char *whole;
	int result;
	bool is_absolute = *path == '/';
	if (asprintf(&whole, "%s%s%s", is_absolute ? "" : resolve->base_dir, is_absolute ? "" : "/",
		     path) < 0)
		return tfc__fail_nomem(resolve->error, "job");
	if (is_directory && !can_enter(whole))
		result = tfc__fail_errno(resolve->error, "job", errno,
					 "%s: cannot enter directory \"%s\"", key, path);
	else
		result = tfc_job_set(resolve->job, key, whole, resolve->error);
	free(whole);
	return result;
}

/* With a bundle, a task runs in its own copy of the bundle, and `cwd` is relative to that copy. */
static int resolve_paths(const struct resolve *resolve)
{
	const tfc_job *job = resolve->job;
	if (job->bundle)
		return resolve_path(resolve, "bundle", job->bundle, false);
	int result = job->cwd ? resolve_path(resolve, "cwd", job->cwd, true)
			      : tfc_job_set(resolve->job, "cwd", resolve->base_dir, resolve->error);
	for (uint32_t i = 0; result == TFC_OK && i < job->role_count; i++) {
		char key[128];
		snprintf(key, sizeof(key), "roles.%s.cwd", job->roles[i].name);
		if (job->roles[i].cwd)
			result = resolve_path(resolve, key, job->roles[i].cwd, true);
	}
	return result;
}

int tfc_job_resolve(tfc_job *job, const char *base_dir, tfc_error *error)
{
	if (!job || !base_dir || *base_dir != '/')
		return tfc__fail(error, TFC_EINVAL, "job", 0,
				 "tfc_job_resolve: base_dir must be an absolute path");
	struct resolve resolve = {tfc__job_copy(job), base_dir, error};
	if (!resolve.job)
		return tfc__fail_nomem(error, "job");
	int result = resolve_paths(&resolve);
	if (result == TFC_OK) {
		tfc_job older = *job;
		*job = *resolve.job;
		*resolve.job = older;
	}
	tfc_job_free(resolve.job);
	return result;
}
