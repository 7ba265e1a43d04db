#include "spec/expand.h"
#include "base/buf.h"
#include "spec/spec.h"

#include <string.h>

static void add_hosts(struct tfc__buf *buf, const tfc_spec *spec, enum tfc__task_type type)
{
	const struct tfc__spec_list *list = spec ? &spec->lists[type] : NULL;
	for (uint32_t i = 0; list && i < list->count; i++) {
		if (i)
			tfc__buf_add_char(buf, ',');
		tfc__buf_add_str(buf, list->items[i].address);
	}
}

static void add_task_type(struct tfc__buf *buf, const struct tfc__expand *values)
{
	tfc__buf_add_str(buf, values->task_type);
}

static void add_task_index(struct tfc__buf *buf, const struct tfc__expand *values)
{
	tfc__buf_addf(buf, "%u", values->task_index);
}

static void add_port(struct tfc__buf *buf, const struct tfc__expand *values)
{
	const char *colon = strrchr(values->address, ':');
	if (colon)
		tfc__buf_add_str(buf, colon + 1);
}

static void add_address(struct tfc__buf *buf, const struct tfc__expand *values)
{
	tfc__buf_add_str(buf, values->address);
}

static void add_chief_hosts(struct tfc__buf *buf, const struct tfc__expand *values)
{
	add_hosts(buf, values->spec, TFC__CHIEF);
}

static void add_worker_hosts(struct tfc__buf *buf, const struct tfc__expand *values)
{
	add_hosts(buf, values->spec, TFC__WORKER);
}

static void add_ps_hosts(struct tfc__buf *buf, const struct tfc__expand *values)
{
	add_hosts(buf, values->spec, TFC__PS);
}

static void add_attempt(struct tfc__buf *buf, const struct tfc__expand *values)
{
	tfc__buf_addf(buf, "%u", values->attempt);
}

static void add_job(struct tfc__buf *buf, const struct tfc__expand *values)
{
	tfc__buf_add_str(buf, values->job);
}

struct placeholder {
	const char *name; /* including its braces */
	void (*add)(struct tfc__buf *buf, const struct tfc__expand *values);
};

static const struct placeholder placeholders[] = {
	{"{task_type}", add_task_type},
	{"{task_index}", add_task_index},
	{"{port}", add_port},
	{"{address}", add_address},
	{"{chief_hosts}", add_chief_hosts},
	{"{worker_hosts}", add_worker_hosts},
	{"{ps_hosts}", add_ps_hosts},
	{"{attempt}", add_attempt},
	{"{job}", add_job},
};

/* The placeholder that the text begins with, or NULL. */
static const struct placeholder *find_placeholder(const char *text)
{
	for (size_t i = 0; i < sizeof(placeholders) / sizeof(placeholders[0]); i++)
		if (strncmp(text, placeholders[i].name, strlen(placeholders[i].name)) == 0)
			return &placeholders[i];
	return NULL;
}

char *tfc__expand(const struct tfc__expand *values, const char *text)
{
	struct tfc__buf buf = {0};
	for (;;) {
		size_t plain = strcspn(text, "{");
		tfc__buf_add(&buf, text, plain);
		text += plain;
		if (!*text)
			return tfc__buf_steal(&buf);
		const struct placeholder *found = find_placeholder(text);
		if (found) {
			found->add(&buf, values);
			text += strlen(found->name);
			continue;
		}
		found = find_placeholder(text + 1);
		if (found && text[1 + strlen(found->name)] == '}') { /* "{{name}}" is escaped */
			tfc__buf_add_str(&buf, found->name);
			text += strlen(found->name) + 2;
			continue;
		}
		tfc__buf_add_char(&buf, '{');
		text++;
	}
}
