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
static bool can_enter_directory(const char *path)
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
	if (is_directory && !can_enter_directory(whole))
		result = tfc__fail_errno(resolve->error, "job", errno,
					 "%s: cannot enter directory \"%s\"", key, path);
	else
		result = tfc_job_set(resolve->job, key, whole, resolve->error);
	free(whole);
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
	const tfc_job *copy = resolve.job;
	int result;
	/* With a bundle, a task runs in its own copy of the bundle, and `cwd` is relative to it. */
	if (copy->bundle)
		result = resolve_path(&resolve, "bundle", copy->bundle, false);
	else if (copy->cwd)
		result = resolve_path(&resolve, "cwd", copy->cwd, true);
	else
		result = tfc_job_set(resolve.job, "cwd", base_dir, error);
	for (uint32_t i = 0; result == TFC_OK && !copy->bundle && i < copy->role_count; i++) {
		char key[128];
		snprintf(key, sizeof(key), "roles.%s.cwd", copy->roles[i].name);
		if (copy->roles[i].cwd)
			result = resolve_path(&resolve, key, copy->roles[i].cwd, true);
	}
	if (result == TFC_OK) {
		tfc_job older = *job;
		*job = *resolve.job;
		*resolve.job = older;
	}
	tfc_job_free(resolve.job);
	return result;
}
