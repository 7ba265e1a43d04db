/* `--explain` of `tfc_run local` and `start`: the node, command and environment of each task. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tfcluster/tfcluster.h>

#include "output.h"
#include "table.h"
#include "tfc_run.h"

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

static void print_plan(const tfc_task_plan *plan)
{
	char limit[MEMORY_SIZE], *cwd = printable(plan->cwd, "");
	printf("%s/%u on %s%s%s\n", plan->task_type, plan->task_index, plan->node,
	       *plan->address ? ", " : ", no port", plan->address);
	printf("  cwd:  %s\n  argv:", cwd);
	free(cwd);
	for (const char *const *word = plan->argv; *word; word++) {
		putchar(' ');
		print_word(*word);
	}
	if (plan->stall_ms)
		printf("\n  stall: after %.7g s without output", plan->stall_ms / 1e3);
	if (plan->memory_limit) {
		memory_text(plan->memory_limit, limit);
		printf("\n  memory limit: %s%s", limit,
		       plan->is_memory_limit_required ? "" : ", if the node can enforce it");
	}
	printf("\n  env:  %u variables as in this environment, and\n", plan->inherited_count);
	for (const char *const *pair = plan->env; *pair; pair++) {
		char *shown = printable(*pair, "");
		const char *value = strchr(*pair, '=');
		printf("    %.*s=", (int)strcspn(shown, "="), shown);
		free(shown);
		if (value)
			print_word(value + 1);
		else
			printf("(secret)");
		putchar('\n');
	}
}

/* One object per line, like all output of --json. */
static bool print_plan_json(json_t *task)
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

static bool print_plans_json(const char *text)
{
	size_t i;
	json_t *task, *whole = json_loads(text, 0, NULL);
	bool is_printed = whole != NULL;
	json_array_foreach(json_object_get(whole, "tasks"), i, task)
	{
		is_printed = print_plan_json(task) && is_printed;
	}
	json_decref(whole);
	return is_printed;
}

static void print_plans(const tfc_explanation *explanation)
{
	const tfc_task_plan *plan;
	printf("strategy %s\n", tfc_strategy_name(explanation->strategy));
	for (uint32_t i = 0; (plan = tfc_explanation_task(explanation, i)); i++)
		print_plan(plan);
}

int explain_print(const tfc_reply *reply, bool is_json)
{
	if (!is_json)
		print_plans(reply->explanation);
	else if (!print_plans_json(reply->text))
		return ENOMEM;
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : errno ? errno : EIO;
}
