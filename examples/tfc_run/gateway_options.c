#include "gateway_options.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "contexts.h"
#include "tfc_run.h"

const struct option gateway_options[] = {
	{"gateway", "G",
	 "unix:PATH or tcp://HOST:PORT; of several, separated by commas, the first that responds "
	 "is used (TFC_GATEWAY, else the default context, else this machine's node)",
	 TEXT(struct gateway_options, address)},
	{"key", "FILE", "the key file (TFC_KEY)", TEXT(struct gateway_options, key)},
	{"context", "CONTEXT", "gateway and key of a context in ~/.config/tfcluster/config.json",
	 TEXT(struct gateway_options, context)},
};

const size_t gateway_option_count = sizeof(gateway_options) / sizeof(gateway_options[0]);

static const char *environment_variable(const char *name)
{
	const char *value = getenv(name);
	return value && *value ? value : NULL;
}

static const char *home_dir(void)
{
	const char *path = environment_variable("HOME");
	const struct passwd *user = path ? NULL : getpwuid(getuid());
	return user ? user->pw_dir : path;
}

char *user_state_dir(void)
{
	const char *state = environment_variable("XDG_STATE_HOME"), *at_home = home_dir();
	char *path = NULL;
	int len;
	if (state && *state == '/') /* XDG requires that a relative path is ignored */
		len = asprintf(&path, "%s/tfcluster", state);
	else
		len = asprintf(&path, "%s/.local/state/tfcluster", at_home ? at_home : "");
	return len < 0 ? NULL : path;
}

char *default_state_dir(void)
{
	char *path = getuid() == 0 ? strdup("/var/lib/tfcluster") : user_state_dir();
	if (!path)
		complain("out of memory");
	return path;
}

char *config_path(void)
{
	const char *config = environment_variable("XDG_CONFIG_HOME"), *at_home = home_dir();
	char *path = NULL;
	int len = config && *config == '/' ? asprintf(&path, "%s/tfcluster/config.json", config)
					   : asprintf(&path, "%s/.config/tfcluster/config.json",
						      at_home ? at_home : "");
	if (len < 0)
		die_without_memory();
	return path;
}

/* Gateway and key of the context that was named, or of the default one. */
static int read_context(struct gateway_options *options)
{
	struct contexts contexts;
	int result = contexts_open(&contexts);
	if (result == 0)
		result = contexts_find(&contexts, options->context, &options->own_address,
				       &options->own_key);
	contexts_close(&contexts);
	return result;
}

int key_of_environment(const char **ret_path)
{
	const char *path = environment_variable("TFC_KEY");
	if (path && access(path, F_OK) < 0)
		return complain("TFC_KEY names a file that does not exist; set it to the path of a "
				"key file, which \"tfc_run keygen\" makes"); /* it may hold a key */
	*ret_path = path;
	return 0;
}

int gateway_options_finish(struct gateway_options *options)
{
	bool is_named = options->context;
	const char *address = environment_variable("TFC_GATEWAY"), *key = NULL;
	if ((is_named || (!options->address && !address)) && read_context(options) < 0)
		return -1;
	if (!options->address)
		options->address = is_named || !address ? options->own_address : address;
	if (!options->key && !(is_named && options->own_key) && key_of_environment(&key) < 0)
		return -1;
	if (!options->key)
		options->key = key ? key : options->own_key;
	if (options->address)
		return 0;
	char *state = default_state_dir();
	int len = state ? asprintf(&options->own_address, "unix:%s/node.sock", state) : 0;
	free(state);
	if (!state || len < 0) {
		options->own_address = NULL;
		return state ? complain("out of memory") : -1;
	}
	options->address = options->own_address;
	return 0;
}

void gateway_options_end(struct gateway_options *options)
{
	free(options->own_address);
	free(options->own_key);
}
