/* `tfc_run local --explain`: the node, command and environment of each task. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "tfc_run.h"

static const char *text_of(json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text ? text : "";
}

/* In the form $'...', which bash parses. */
static void print_escaped_word(const char *word)
{
	char *quoted = malloc(2 * strlen(word) + 1), *to = quoted;
	if (!quoted)
		die_without_memory();
	for (; *word; word++) {
		if (*word == '\'' || *word == '\\')
			*to++ = '\\';
		*to++ = *word;
	}
	*to = '\0';
	char *shown = printable(quoted, "");
	printf("$'%s'", shown);
	free(shown);
	free(quoted);
}

/* Quoted for a shell, so that it can be copied. */
static void print_word(const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "_-+./:,=@%";
	if (*word && strspn(word, plain) == strlen(word)) {
		fputs(word, stdout);
		return;
	}
	char *shown = printable(word, "");
	bool is_printable = strcmp(shown, word) == 0;
	free(shown);
	if (!is_printable) {
		print_escaped_word(word);
		return;
	}
	putchar('\'');
	for (; *word; word++) {
		if (*word == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*word);
	}
	putchar('\'');
}

static void print_argv(json_t *argv)
{
	size_t i;
	json_t *word;
	printf("  argv:");
	json_array_foreach(argv, i, word)
	{
		putchar(' ');
		print_word(json_string_value(word));
	}
	putchar('\n');
}

static void print_env(json_t *env)
{
	const char *name;
	json_t *value;
	json_object_foreach(env, name, value)
	{
		char *shown = printable(name, "");
		printf("    %s=", shown);
		free(shown);
		if (json_is_string(value))
			print_word(json_string_value(value));
		else
			printf("(secret)");
		putchar('\n');
	}
}

static void print_task(json_t *task)
{
	const char *address = text_of(task, "address");
	char *cwd = printable(text_of(task, "cwd"), "");
	printf("%s on %s%s%s\n", text_of(task, "task"), text_of(task, "node"),
	       *address ? ", " : ", no port", address);
	printf("  cwd:  %s\n", cwd);
	free(cwd);
	print_argv(json_object_get(task, "argv"));
	printf("  env:  %lld variables as in this environment, and\n",
	       (long long)json_integer_value(json_object_get(task, "inherited")));
	print_env(json_object_get(task, "env"));
}

/* One object per line, like all output of --json. */
static bool print_event(json_t *task)
{
	char time[TIME_SIZE];
	time_text(wall_ns(), time);
	json_t *line = json_pack("{s:s, s:s}", "time", time, "event", "plan");
	char *text = NULL;
	if (line && json_object_update(line, task) == 0)
		text = json_dumps(line, JSON_COMPACT);
	json_decref(line);
	if (!text)
		return false;
	char *shown = printable(text, "");
	puts(shown);
	free(shown);
	free(text);
	return true;
}

int explain_print(const char *plan, bool is_json)
{
	size_t i;
	json_t *task;
	json_t *whole = json_loads(plan, 0, NULL);
	bool is_printed = whole != NULL;
	if (whole && !is_json)
		printf("strategy %s\n", text_of(whole, "strategy"));
	json_array_foreach(json_object_get(whole, "tasks"), i, task)
	{
		if (!is_json)
			print_task(task);
		else if (!print_event(task))
			is_printed = false;
	}
	json_decref(whole);
	if (!is_printed)
		return ENOMEM;
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : errno ? errno : EIO;
}
