#include "gateway_options.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tfc_run.h"

const struct option gateway_options[] = {
	{"gateway", "G",
	 "unix:PATH or tcp://HOST:PORT; of several, separated by commas, the first that responds "
	 "is used (TFC_GATEWAY, else this machine's node)",
	 TEXT(struct gateway_options, address)},
	{"key", "FILE", "the key file (TFC_KEY)", TEXT(struct gateway_options, key)},
};

const size_t gateway_option_count = sizeof(gateway_options) / sizeof(gateway_options[0]);

static const char *variable(const char *name)
{
	const char *value = getenv(name);
	return value && *value ? value : NULL;
}

static const char *home(void)
{
	const char *path = variable("HOME");
	const struct passwd *user = path ? NULL : getpwuid(getuid());
	return user ? user->pw_dir : path;
}

char *default_state_dir(void)
{
	const char *state = variable("XDG_STATE_HOME"), *at_home = home();
	char *path = NULL;
	int len;
	if (getuid() == 0)
		len = asprintf(&path, "/var/lib/tfcluster");
	else if (state && *state == '/') /* XDG requires that a relative path is ignored */
		len = asprintf(&path, "%s/tfcluster", state);
	else
		len = asprintf(&path, "%s/.local/state/tfcluster", at_home ? at_home : "");
	if (len >= 0)
		return path;
	complain("out of memory");
	return NULL;
}

int gateway_options_finish(struct gateway_options *options)
{
	if (!options->address)
		options->address = variable("TFC_GATEWAY");
	if (!options->key)
		options->key = variable("TFC_KEY");
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
}
