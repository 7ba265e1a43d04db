#include "config.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tfc_run.h"

struct config {
	json_t *root;
	json_t *numbers; /* as text */
};

/* What the option would have been given; NULL: it takes no such value. */
static const char *text_of(struct config *config, const json_t *value)
{
	char text[32];
	if (json_is_string(value))
		return json_string_value(value);
	if (json_is_integer(value))
		snprintf(text, sizeof(text), "%lld", (long long)json_integer_value(value));
	else if (json_is_real(value))
		snprintf(text, sizeof(text), "%.3f", json_real_value(value));
	else
		return NULL;
	json_t *number = json_string(text);
	if (json_array_append_new(config->numbers, number) < 0)
		die_without_memory();
	return json_string_value(number);
}

static int set(struct config *config, const char *path, const struct option *option, void *target,
	       const json_t *value)
{
	const char *text = option->value ? text_of(config, value) : json_is_true(value) ? "" : NULL;
	if (!text)
		return complain("%s: %s: must be %s", path, option->name,
				option->value ? "a string or a number" : "true");
	return option->set(target, option, text);
}

static int apply(const struct command_line *line, const char *path, struct config *config,
		 const char *name, const json_t *value)
{
	void *target;
	size_t i;
	const json_t *item;
	const struct option *option = options_find(line, name, &target);
	if (option && !option->help)
		return complain("%s: %s is not in this version", path, name);
	if (!option || !option->set) {
		const char *near = options_nearest(line, name);
		return complain("%s: %s: unknown key%s%s%s", path, name,
				near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
	}
	if (!json_is_array(value))
		return set(config, path, option, target, value);
	if (option->set != set_texts)
		return complain("%s: %s: must be one value, not a list", path, name);
	json_array_foreach(value, i,
			   item) if (set(config, path, option, target, item) < 0) return -1;
	return 0;
}

int config_apply(const struct command_line *line, const char *path, struct config **ret_config)
{
	json_error_t error;
	const char *name;
	json_t *value;
	struct config *config = *ret_config = calloc(1, sizeof(*config));
	if (!config || !(config->numbers = json_array()))
		return complain("out of memory");
	config->root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
	if (!config->root)
		return error.line > 0 ? complain("%s:%d: %s", path, error.line, error.text)
				      : complain("%s", error.text);
	if (!json_is_object(config->root))
		return complain("%s: must be one object", path);
	json_object_foreach(config->root, name,
			    value) if (apply(line, path, config, name, value) < 0) return -1;
	return 0;
}

void config_free(struct config *config)
{
	if (!config)
		return;
	json_decref(config->root);
	json_decref(config->numbers);
	free(config);
}
