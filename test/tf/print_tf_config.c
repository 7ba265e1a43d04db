/*
 * Prints a table of clusters and, for each of their tasks, the environment that the library
 * renders: one JSON object a line, for spec_test.py to hold against TensorFlow.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tfcluster/spec.h>

struct row {
	const char *name;
	enum tfc_strategy strategy;
	const char *cluster;
	const char *outside; /* a task that is not in the cluster, or NULL */
};

static const struct row rows[] = {
	{"one worker", TFC_STRATEGY_AUTO, "{\"worker\":[\"127.0.0.1:20000\"]}", NULL},
	{"mirrored workers", TFC_STRATEGY_AUTO,
	 "{\"worker\":[\"10.0.0.1:2222\",\"10.0.0.2:2222\",\"host-3.example.com:2222\"]}", NULL},
	{"mirrored with chief and evaluator", TFC_STRATEGY_MULTI_WORKER_MIRRORED,
	 "{\"evaluator\":[\"e:2222\"],\"worker\":[\"a:2222\",\"b:2222\"],\"chief\":[\"c:2222\"]}",
	 "tensorboard"},
	{"mirrored, evaluator without address", TFC_STRATEGY_AUTO,
	 "{\"worker\":[\"a:2222\"],\"chief\":[\"c:2222\"]}", "evaluator"},
	{"mirrored on IPv6", TFC_STRATEGY_AUTO,
	 "{\"worker\":[\"[::1]:20000\",\"[2001:db8::2]:20000\"]}", NULL},
	{"parameter servers", TFC_STRATEGY_AUTO,
	 "{\"ps\":[\"p:1\",\"p:2\"],\"worker\":[\"w:1\",\"w:2\",\"w:3\"],\"chief\":[\"c:1\"],"
	 "\"evaluator\":{\"0\":\"e:1\"}}",
	 NULL},
	{"parameter servers with a driver", TFC_STRATEGY_PARAMETER_SERVER,
	 "{\"ps\":[\"p:1\"],\"worker\":[\"w:1\",\"w:2\"]}", "driver"},
	{"any server, sparse", TFC_STRATEGY_NONE,
	 "{\"ps\":[\"p:1\"],\"worker\":{\"7\":\"w:7\",\"3\":\"w:3\"}}", NULL},
};

/* What is printed is of our own making: names, addresses and JSON; quotes are all to be escaped. */
static void print_string(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		putchar(*text);
	}
	putchar('"');
}

struct walk {
	const struct row *row;
	const tfc_spec *spec;
};

static int print_task(void *user, const char *task_type, uint32_t task_index, const char *address)
{
	const struct walk *walk = user;
	tfc_error error = TFC_ERROR_INIT;
	char **env = NULL;
	int code = tfc_spec_environ(walk->spec, TFC_FRAMEWORK_TENSORFLOW, walk->row->strategy,
				    task_type, task_index, &error, &env);
	if (code < 0) {
		fprintf(stderr, "%s: %s\n", walk->row->name, error.text);
		return code;
	}
	printf("{\"name\":\"%s\",\"given\":%s,\"type\":\"%s\",\"index\":%u,\"address\":",
	       walk->row->name, walk->row->cluster, task_type, task_index);
	print_string(address);
	printf(",\"env\":[");
	for (char **item = env; *item; item++) {
		if (item != env)
			putchar(',');
		print_string(*item);
	}
	printf("]}\n");
	tfc_strv_free(env);
	return 0;
}

int main(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		tfc_error error = TFC_ERROR_INIT;
		tfc_spec *spec = NULL;
		struct walk walk = {&rows[i], NULL};
		if (tfc_spec_parse(rows[i].cluster, strlen(rows[i].cluster), &error, &spec) < 0) {
			fprintf(stderr, "%s: %s\n", rows[i].name, error.text);
			return 1;
		}
		walk.spec = spec;
		int code = tfc_spec_each(spec, print_task, &walk);
		if (code == 0 && rows[i].outside)
			code = print_task(&walk, rows[i].outside, 0, "");
		tfc_spec_free(spec);
		if (code < 0)
			return 1;
	}
	return 0;
}
