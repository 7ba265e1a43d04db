#include "contexts.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gateway_options.h"
#include "tfc_run.h"

/* The file while it is checked. Keys are visited in the order of the text, so that the position of
 * each, and thus its line, is found by searching from that of the key before. */
struct reader {
	const char *file;
	const char *text;
	const char *at; /* the key that is checked */
	char key[512];  /* and its path, "contexts.lab.gateway" */
};

static int reader_refuse(const struct reader *reader, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int reader_refuse(const struct reader *reader, const char *format, ...)
{
	unsigned line = 1;
	char why[256];
	va_list args;
	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	for (const char *at = reader->text; at < reader->at; at++)
		line += *at == '\n';
	return complain("%s:%u: %s%s%s", reader->file, line, reader->key, *reader->key ? ": " : "",
			why);
}

/* Moves to the key `name` of the object `parent`, "" or "contexts.lab". */
static void reader_enter(struct reader *reader, const char *parent, const char *name)
{
	size_t len = strlen(name);
	snprintf(reader->key, sizeof(reader->key), "%s%s%s", parent, *parent ? "." : "", name);
	for (const char *at = reader->at; (at = strchr(at, '"')); at++) {
		if (strncmp(at + 1, name, len) != 0 || at[len + 1] != '"')
			continue;
		const char *next = at + len + 2;
		if (next[strspn(next, " \t\r\n")] != ':') /* a value */
			continue;
		reader->at = at;
		return;
	}
}

static int reader_refuse_key(const struct reader *reader, const char *name,
			     const char *const *known, size_t count)
{
	const char *near = nearest(name, known, count, sizeof(*known));
	return near ? reader_refuse(reader, "unknown key; did you mean %s?", near)
		    : reader_refuse(reader, "unknown key");
}

static int check_context_text(const struct reader *reader, const json_t *value)
{
	return json_string_length(value)
		       ? 0
		       : reader_refuse(reader, "must be a text that is not empty");
}

static int check_context(struct reader *reader, const char *parent, json_t *context)
{
	static const char *const keys[] = {"gateway", "key"};
	const char *name;
	json_t *value;
	if (!json_is_object(context))
		return reader_refuse(reader, "must be an object");
	const struct reader at_context = *reader;
	json_object_foreach(context, name, value)
	{
		reader_enter(reader, parent, name);
		if (strcmp(name, keys[0]) != 0 && strcmp(name, keys[1]) != 0)
			return reader_refuse_key(reader, name, keys, 2);
		if (check_context_text(reader, value) < 0)
			return -1;
	}
	if (!json_object_get(context, "gateway"))
		return reader_refuse(&at_context, "has no gateway");
	return 0;
}

static int check_contexts(struct reader *reader, json_t *contexts)
{
	char parent[256];
	const char *name;
	json_t *context;
	if (!json_is_object(contexts))
		return reader_refuse(reader, "must be an object");
	json_object_foreach(contexts, name, context)
	{
		reader_enter(reader, "contexts", name);
		snprintf(parent, sizeof(parent), "contexts.%s", name);
		if (check_context(reader, parent, context) < 0)
			return -1;
	}
	return 0;
}

static int check_contexts_file(struct reader *reader, json_t *root)
{
	static const char *const keys[] = {"contexts", "default"};
	const char *name;
	json_t *value;
	if (!json_is_object(root))
		return reader_refuse(reader, "must be an object");
	json_object_foreach(root, name, value)
	{
		const char *chosen = json_string_value(value);
		reader_enter(reader, "", name);
		if (strcmp(name, "contexts") != 0 && strcmp(name, "default") != 0)
			return reader_refuse_key(reader, name, keys, 2);
		if (strcmp(name, "contexts") == 0 ? check_contexts(reader, value) < 0
						  : check_context_text(reader, value) < 0)
			return -1;
		if (chosen && !json_object_get(json_object_get(root, "contexts"), chosen))
			return reader_refuse(reader, "context \"%s\" not found", chosen);
	}
	return 0;
}

int contexts_open(struct contexts *ret_contexts)
{
	struct contexts *contexts = ret_contexts;
	json_error_t detail;
	char *text = NULL;
	size_t len;
	struct stat status;
	*contexts = (struct contexts){.file = config_path()};
	if (stat(contexts->file, &status) == 0 &&
	    S_ISFIFO(status.st_mode)) /* opening it may wait */
		return complain("\"%s\" is not a regular file", contexts->file);
	int error = read_file(contexts->file, &text, &len), result = -1;
	struct reader reader = {.file = contexts->file, .text = text, .at = text};
	if (error == ENOENT || error == ENOTDIR)
		return 0;
	if (error)
		complain("cannot open \"%s\": %s", contexts->file, strerror(error));
	else if (!(contexts->root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &detail)))
		complain("%s:%d: %s", contexts->file, detail.line, detail.text);
	else
		result = check_contexts_file(&reader, contexts->root);
	free(text);
	return result;
}

void contexts_close(struct contexts *contexts)
{
	json_decref(contexts->root);
	free(contexts->file);
}

const char *contexts_at(const struct contexts *contexts, unsigned index)
{
	void *at = json_object_iter(json_object_get(contexts->root, "contexts"));
	for (; at && index; index--)
		at = json_object_iter_next(json_object_get(contexts->root, "contexts"), at);
	return at ? json_object_iter_key(at) : NULL;
}

static int refuse_context_name(const struct contexts *contexts, const char *name)
{
	const char *names[64];
	unsigned count = 0;
	while (count < 64 && (names[count] = contexts_at(contexts, count)))
		count++;
	const char *near = nearest(name, names, count, sizeof(names[0]));
	if (!contexts->root)
		return complain("context \"%s\" not found: cannot open \"%s\": %s", name,
				contexts->file, strerror(ENOENT));
	if (near)
		return complain("context \"%s\" not found in \"%s\"; did you mean %s?", name,
				contexts->file, near);
	return complain("context \"%s\" not found in \"%s\"", name, contexts->file);
}

int contexts_find(const struct contexts *contexts, const char *name, char **ret_gateway,
		  char **ret_key)
{
	const char *chosen = name ? name
				  : json_string_value(json_object_get(contexts->root, "default"));
	json_t *all = json_object_get(contexts->root, "contexts");
	const json_t *context = chosen ? json_object_get(all, chosen) : NULL;
	const char *gateway = json_string_value(json_object_get(context, "gateway"));
	const char *key = json_string_value(json_object_get(context, "key"));
	int dir_len = (int)(strrchr(contexts->file, '/') - contexts->file);
	if (name && !context)
		return refuse_context_name(contexts, name);
	*ret_gateway = gateway ? strdup(gateway) : NULL;
	*ret_key = NULL;
	if (gateway && !*ret_gateway)
		die_without_memory();
	if (key && asprintf(ret_key, "%.*s%s%s", *key == '/' ? 0 : dir_len, contexts->file,
			    *key == '/' ? "" : "/", key) < 0)
		die_without_memory();
	return 0;
}
