/*
 * Paths in a job. The library takes them as they are and starts tasks in "/": where "here" is, only
 * the program that talks to the shell knows.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tfcluster/spec.h>

#include "options.h"
#include "tfc_run.h"

static int set_path(tfc_job *job, const char *key, const char *path)
{
	tfc_error error = TFC_ERROR_INIT;
	if (tfc_job_set(job, key, path, &error) == TFC_OK)
		return 0;
	complain("%s", error.text);
	return -1;
}

/* `path` as seen from `here`; NULL with a sentence when memory is out. */
static char *absolute(const char *here, const char *path)
{
	char *result = NULL;
	if (asprintf(&result, "%s%s%s", *path == '/' ? "" : here, *path == '/' ? "" : "/", path) <
	    0)
		complain("out of memory");
	return result;
}

static int set_absolute(tfc_job *job, const char *key, const char *here, const char *path)
{
	char *whole = absolute(here, path);
	int result = whole ? set_path(job, key, whole) : -1;
	free(whole);
	return result;
}

static int settle_cwd(tfc_job *job, const char *key, const char *here, const char *path)
{
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || faccessat(fd, ".", X_OK, AT_EACCESS) < 0) {
		complain("%s: %s cannot be entered: %s", key, path, strerror(errno));
		if (fd >= 0)
			close(fd);
		return -1;
	}
	close(fd);
	return set_absolute(job, key, here, path);
}

static int settle(tfc_job *job, const json_t *text, const char *here)
{
	const char *bundle = json_string_value(json_object_get(text, "bundle"));
	const char *cwd = json_string_value(json_object_get(text, "cwd"));
	const char *name;
	json_t *role;
	if (bundle) /* a task's directory is its copy of the bundle, and its cwd is in there */
		return set_absolute(job, "bundle", here, bundle);
	if ((cwd ? settle_cwd(job, "cwd", here, cwd) : set_path(job, "cwd", here)) < 0)
		return -1;
	json_object_foreach(json_object_get(text, "roles"), name, role)
	{
		char key[128];
		const char *role_cwd = json_string_value(json_object_get(role, "cwd"));
		snprintf(key, sizeof(key), "roles.%s.cwd", name);
		if (role_cwd && settle_cwd(job, key, here, role_cwd) < 0)
			return -1;
	}
	return 0;
}

int settle_paths(struct options *options)
{
	char *text = NULL;
	char *here = getcwd(NULL, 0);
	json_t *json = NULL;
	int result = -1;
	if (!here)
		complain("the current directory: %s", strerror(errno));
	else if (tfc_job_json(options->job, 0, &text) < 0 || !(json = json_loads(text, 0, NULL)))
		complain("out of memory");
	else
		result = settle(options->job, json, here);
	if (result == 0 && options->log_dir) {
		options->own_log_dir = absolute(here, options->log_dir);
		options->log_dir = options->own_log_dir;
		result = options->log_dir ? 0 : -1;
	}
	json_decref(json);
	tfc_free(text);
	free(here);
	return result;
}
