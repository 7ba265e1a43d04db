#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/internal.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/options.h"
#include "spec/spec.h"

#define DEFAULT_HOST "127.0.0.1"
#define DEFAULT_TEMP_DIR "/tmp"
#define DEFAULT_PYTHON "python3"

static char *copy_or(const char *text, const char *fallback)
{
	return strdup(text ? text : fallback);
}

static int agent_copy_options(struct tfc__agent *agent, const struct tfc__agent_options *options)
{
	agent->name = copy_or(options->name, "local");
	agent->host = copy_or(options->host, DEFAULT_HOST);
	agent->python = copy_or(options->python, DEFAULT_PYTHON);
	tfc__strv_add_all(&agent->env, options->env);
	agent->slots = options->slots;
	agent->memory = options->memory;
	agent->hooks = options->hooks;
	agent->feeds = options->feeds;
	agent->library = tfc__agent_find_library();
	if (options->log_dir && !(agent->log_dir = strdup(options->log_dir)))
		return TFC_ENOMEM;
	if (!agent->name || !agent->host || !agent->python || agent->env.is_failed)
		return TFC_ENOMEM;
	return TFC_OK;
}

/* Every task's address begins with the host, so a bad one is refused here and not with each job. */
static int check_host(const struct tfc__agent *agent, tfc_error *error)
{
	char key[TFC__ADDRESS_SIZE], *address;
	const char *format = strchr(agent->host, ':') ? "[%s]:1" : "%s:1";
	if (asprintf(&address, format, agent->host) < 0)
		return tfc__fail_nomem(error, "agent");
	int code = tfc__address_check("worker", 0, address, NULL, key);
	free(address);
	if (code == TFC_ESPEC)
		return tfc__fail(error, TFC_EINVAL, "agent", 0,
				 "host \"%s\" is not a host name or address; write it without a "
				 "scheme, brackets or a port",
				 agent->host);
	return code;
}

/* The absolute path of an existing file, or of one that could be created; NULL and errno. */
static char *absolute_path(char *path)
{
	char *real = realpath(path, NULL);
	if (real || errno != ENOENT)
		return real;
	for (size_t len = strlen(path); len > 1 && path[len - 1] == '/'; len--)
		path[len - 1] = '\0';
	char *slash = strrchr(path, '/');
	if (!slash)
		slash = path;
	char *folder = slash == path ? strdup(*path == '/' ? "/" : ".")
				     : strndup(path, (size_t)(slash - path));
	char *above = folder ? realpath(folder, NULL) : NULL;
	real = above ? tfc__path_join(above, *slash == '/' ? slash + 1 : slash) : NULL;
	free(folder);
	free(above);
	return real;
}

/*
 * A missing log directory is created with the first job; an existing one must be writable. The path
 * is made absolute because shims and readers have other working directories than the host had at
 * this time.
 */
static int check_log_dir(struct tfc__agent *agent, tfc_error *error)
{
	struct stat status;
	if (!agent->log_dir)
		return TFC_OK;
	char *absolute = absolute_path(agent->log_dir);
	if (!absolute)
		return tfc__fail_errno(error, "agent", errno, "cannot open log directory \"%s\"",
				       agent->log_dir);
	free(agent->log_dir);
	agent->log_dir = absolute;
	if (stat(absolute, &status) < 0)
		return TFC_OK;
	if (!S_ISDIR(status.st_mode))
		return tfc__fail_errno(error, "agent", ENOTDIR, "cannot open log directory \"%s\"",
				       absolute);
	if (access(absolute, W_OK | X_OK) < 0)
		return tfc__fail_errno(error, "agent", errno,
				       "cannot write to log directory \"%s\"", absolute);
	return TFC_OK;
}

static int open_pool(struct tfc__agent *agent, const struct tfc__agent_options *options)
{
	tfc_port_pool_options pool = TFC_PORT_POOL_OPTIONS_INIT;
	pool.first = options->port_first;
	pool.last = options->port_last;
	return tfc__port_pool_open(agent->ctx, &pool, &agent->pool);
}

static int open_run_dir(struct tfc__agent *agent, const char *temp_dir, tfc_error *error)
{
	int code = tfc__private_dir_open(agent->ctx, temp_dir, agent->previous.state, "agent",
					 error, &agent->private_dir);
	if (code < 0)
		return code;
	agent->run_dir = tfc__private_dir_path(agent->private_dir);
	return tfc__stale_dirs_find(agent, temp_dir) < 0 ? tfc__fail_nomem(error, "agent") : TFC_OK;
}

#define CACHE_BYTES (UINT64_C(2) << 30) /* of archives that no job uses */

static int open_bundles(struct tfc__agent *agent, const char *dir, tfc_error *error)
{
	char *own = dir ? strdup(dir) : tfc__path_join(agent->run_dir, "bundles");
	int code = own ? tfc__bundles_open(agent->ctx, own, CACHE_BYTES, error, &agent->bundles)
		       : tfc__fail_nomem(error, "agent");
	free(own);
	return code;
}

struct tfc__bundles *tfc__agent_bundles(const struct tfc__agent *agent)
{
	return agent->bundles;
}

int tfc__agent_open(tfc_ctx *ctx, const struct tfc__agent_options *options,
		    struct tfc__agent **ret_agent)
{
	tfc_error *error = tfc__ctx_error(ctx);
	const char *temp_dir = options->temp_dir ? options->temp_dir : DEFAULT_TEMP_DIR;
	struct tfc__agent *agent = calloc(1, sizeof(*agent));
	if (!agent)
		return tfc__fail_nomem(error, "agent");
	agent->ctx = ctx;
	tfc__list_init(&agent->jobs);
	tfc__list_init(&agent->removals);
	tfc__list_init(&agent->remote_job_logs);
	for (size_t i = 0; i < PORT_BUCKETS; i++)
		tfc__list_init(&agent->by_port[i]);
	tfc__timer_init(&agent->watch_timer, ctx, tfc__agent_watch_tick);
	tfc__list_init(&agent->waiting);
	tfc__incarnation_init(agent);
	tfc__work_init(&agent->guard_is_free, ctx, tfc__waiting_resume);

	int code = agent_copy_options(agent, options);
	if (code < 0) {
		tfc__fail_nomem(error, "agent");
		goto fail;
	}
	if ((code = tfc__base_environ_open(agent, options, error)) < 0 ||
	    (code = check_host(agent, error)) < 0 || (code = check_log_dir(agent, error)) < 0 ||
	    (code = open_pool(agent, options)) < 0 || (code = tfc__guard_start(ctx)) < 0 ||
	    (code = tfc__incarnation_open(agent, options->state_dir, error)) < 0 ||
	    (code = open_run_dir(agent, temp_dir, error)) < 0 ||
	    (code = tfc__incarnation_begin(agent, error)) < 0 ||
	    (code = open_bundles(agent, options->bundle_dir, error)) < 0 ||
	    (code = tfc__gpus_open(agent, options, error)) < 0 ||
	    (code = tfc__warm_open(agent, options, error)) < 0)
		goto fail;
	tfc__remote_job_logs_load(agent);
	tfc__stale_dirs_remove(agent);
	*ret_agent = agent;
	return TFC_OK;
fail:
	tfc__agent_close(agent);
	return code;
}

void tfc__agent_close(struct tfc__agent *agent)
{
	if (!agent)
		return;
	agent->is_closing = true;
	TFC__LIST_EACH (link, &agent->jobs)
		tfc__agent_job_close(tfc__container_of(link, struct tfc__agent_job, link));
	tfc__gpus_close(agent);
	tfc__zygotes_close(agent->zygotes);
	tfc__bundles_close(agent->bundles);
	tfc__removals_close(agent);
	tfc__remote_job_logs_close(agent);
	tfc__private_dir_close(agent->private_dir);
	tfc__incarnation_close(agent);
	tfc__strv_fini(&agent->stale_dirs);
	tfc__timer_cancel(&agent->watch_timer);
	tfc__work_cancel(&agent->guard_is_free);
	tfc_port_pool_close(agent->pool);
	tfc__strv_fini(&agent->env);
	tfc__strv_fini(&agent->network_env);
	free(agent->name);
	free(agent->host);
	free(agent->library);
	free(agent->python);
	free(agent->log_dir);
	free(agent);
}

const char *tfc__agent_name(const struct tfc__agent *agent)
{
	return agent->name;
}
