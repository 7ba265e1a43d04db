#include "output.h"

#include <string.h>

static int set_color(void *target, const struct option *option, const char *value)
{
	static const char *const names[] = {"auto", "always", "never"};
	struct output_options *options = target;
	for (options->color = COLOR_AUTO; options->color <= COLOR_NEVER; options->color++)
		if (strcmp(value, names[options->color]) == 0)
			return 0;
	return bad_value(option, value, "must be auto, always or never");
}

const struct option output_options[] = {
	{"timestamps", NULL, "show the time of each line",
	 FLAG(struct output_options, has_timestamps)},
	{"no-prefix", NULL, "do not begin each line with the task",
	 FLAG(struct output_options, has_no_prefix)},
	{"color", "WHEN", "auto, always or never", set_color, .values = "auto,always,never"},
	{"quiet", NULL, "print only the tasks' lines and errors",
	 FLAG(struct output_options, is_quiet)},
	{"json", NULL, "print one JSON object for each event on stdout",
	 FLAG(struct output_options, is_json)},
};

const size_t output_option_count = sizeof(output_options) / sizeof(output_options[0]);
