/*
 * What the environment of a task begins with: the host's own, or, for a job that came over the
 * network, as much of it as the operator passes on to strangers.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/internal.h"
#include "base/fail.h"

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define DEFAULT_LANG "C.UTF-8"

/* What programs need to find the libraries and the devices of this machine. */
static const char *const default_pass[] = {"LD_LIBRARY_PATH", "CUDA_*", "NVIDIA_*", NULL};

static bool is_passed(const char *const *names, const char *variable)
{
	size_t len = strcspn(variable, "=");
	for (; *names; names++) {
		size_t named = strlen(*names);
		bool is_prefix = named && (*names)[named - 1] == '*';
		if (is_prefix ? len >= named - 1 && strncmp(*names, variable, named - 1) == 0
			      : len == named && strncmp(*names, variable, len) == 0)
			return true;
	}
	return false;
}

static void set_or(struct tfc__strv *env, const char *name, const char *value, const char *fallback)
{
	tfc__strv_set_env(env, name, value ? value : fallback);
}

/* As the user database knows this process's user; else as its environment does. */
static int add_user(const struct tfc__agent *agent, struct tfc__strv *env)
{
	const char *const *own = (const char *const *)agent->env.items;
	char number[16];
	struct tfc__user user;
	snprintf(number, sizeof(number), "%u", geteuid());
	int code = tfc__user_find(number, TFC__PASSWD_FILE, TFC__GROUP_FILE, &user, NULL);
	bool is_known = code == TFC_OK;
	const char *name = is_known ? user.name : tfc__env_get(own, "USER");
	set_or(env, "HOME", is_known ? user.home : tfc__env_get(own, "HOME"), "/");
	set_or(env, "USER", name, number);
	set_or(env, "LOGNAME", name, number);
	tfc__user_fini(&user);
	return code == TFC_ENOMEM ? code : TFC_OK;
}

int tfc__base_environ_open(struct tfc__agent *agent, const struct tfc__agent_options *options,
			   tfc_error *error)
{
	const char *const *pass = options->pass_env ? options->pass_env : default_pass;
	const char *const *own = (const char *const *)agent->env.items;
	struct tfc__strv *env = &agent->network_env;
	if (options->is_env_for_all) {
		tfc__strv_add_all(env, own);
		return env->is_failed ? tfc__fail_nomem(error, "agent") : TFC_OK;
	}
	set_or(env, "PATH", tfc__env_get(own, "PATH"), DEFAULT_PATH);
	set_or(env, "LANG", tfc__env_get(own, "LANG"), DEFAULT_LANG);
	int code = add_user(agent, env);
	for (size_t i = 0; i < agent->env.count; i++)
		if (is_passed(pass, agent->env.items[i]))
			tfc__strv_add(env, agent->env.items[i]);
	return code < 0 || env->is_failed ? tfc__fail_nomem(error, "agent") : TFC_OK;
}

const struct tfc__strv *tfc__base_environ(const struct agent_task *task)
{
	const struct tfc__agent *agent = task->job->agent;
	return task->job->info.has_minimal_env ? &agent->network_env : &agent->env;
}
