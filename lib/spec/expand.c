#include "spec/expand.h"
#include "base/buf.h"
#include "base/fail.h"
#include "base/strv.h"
#include "base/text.h"
#include "spec/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum placeholder_kind {
	PLACEHOLDER_TASK_TYPE,
	PLACEHOLDER_TASK_INDEX,
	PLACEHOLDER_PORT,
	PLACEHOLDER_ADDRESS,
	PLACEHOLDER_ATTEMPT,
	PLACEHOLDER_JOB,
	PLACEHOLDER_NAMED, /* how many have a fixed name */
	PLACEHOLDER_CLUSTER_HOSTS = PLACEHOLDER_NAMED,
	PLACEHOLDER_OTHER_HOSTS,
	PLACEHOLDER_NONE,
};

static const char *const placeholder_names[PLACEHOLDER_NAMED] = {"task_type", "task_index", "port",
								 "address",   "attempt",    "job"};

#define HOSTS "_hosts"

struct placeholder {
	enum placeholder_kind kind;
	size_t len;               /* with its braces */
	enum tfc__task_type type; /* of CLUSTER_HOSTS */
	const char *hosts;        /* of OTHER_HOSTS */
};

/* The length of the name in a {name} that the text begins with; 0 if it does not. */
static size_t braced_name_len(const char *text)
{
	size_t len = *text == '{' ? strspn(text + 1, "abcdefghijklmnopqrstuvwxyz"
						     "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
				  : 0;
	return len && text[1 + len] == '}' && len < TFC__PLACEHOLDER_SIZE ? len : 0;
}

static bool has_hosts_suffix(const char *name, size_t len)
{
	size_t suffix = strlen(HOSTS);
	return len >= suffix && strcmp(name + len - suffix, HOSTS) == 0;
}

static struct placeholder placeholder_at(const struct tfc__expand *values, const char *text)
{
	char name[TFC__PLACEHOLDER_SIZE];
	size_t len = braced_name_len(text);
	struct placeholder found = {.kind = PLACEHOLDER_TASK_TYPE, .len = len + 2};
	memcpy(name, text + (len != 0), len);
	name[len] = '\0';
	while (found.kind < PLACEHOLDER_NAMED && strcmp(name, placeholder_names[found.kind]) != 0)
		found.kind++;
	if (found.kind < PLACEHOLDER_NAMED)
		return found;
	found.kind = PLACEHOLDER_NONE;
	if (!has_hosts_suffix(name, len))
		return found;
	name[len - strlen(HOSTS)] = '\0';
	found.type = tfc__task_type_find(name);
	found.hosts = values->hosts ? tfc__env_get(values->hosts, name) : NULL;
	if (found.type != TFC__TYPE_COUNT)
		found.kind = PLACEHOLDER_CLUSTER_HOSTS;
	else if (found.hosts)
		found.kind = PLACEHOLDER_OTHER_HOSTS;
	return found;
}

static void placeholder_expand(struct tfc__buf *buf, const struct tfc__expand *values,
			       const struct placeholder *placeholder)
{
	const char *colon = strrchr(values->address, ':');
	const struct tfc__spec_list *list;
	switch (placeholder->kind) {
	case PLACEHOLDER_TASK_TYPE:
		tfc__buf_add_str(buf, values->task_type);
		break;
	case PLACEHOLDER_TASK_INDEX:
		tfc__buf_addf(buf, "%u", values->task_index);
		break;
	case PLACEHOLDER_PORT:
		tfc__buf_add_str(buf, colon ? colon + 1 : "");
		break;
	case PLACEHOLDER_ADDRESS:
		tfc__buf_add_str(buf, values->address);
		break;
	case PLACEHOLDER_ATTEMPT:
		tfc__buf_addf(buf, "%u", values->attempt);
		break;
	case PLACEHOLDER_JOB:
		tfc__buf_add_str(buf, values->job);
		break;
	case PLACEHOLDER_CLUSTER_HOSTS:
		list = values->spec ? &values->spec->lists[placeholder->type] : NULL;
		for (uint32_t i = 0; list && i < list->count && buf->len < TFC__ENV_STRING_MAX;
		     i++) {
			if (i)
				tfc__buf_add_char(buf, ',');
			tfc__buf_add_str(buf, list->items[i].address);
		}
		break;
	case PLACEHOLDER_OTHER_HOSTS:
		tfc__buf_add_str(buf, placeholder->hosts);
		break;
	case PLACEHOLDER_NONE:
		break;
	}
}

/* Inserts the value of the placeholder that the text begins with. */
static int placeholder_insert(struct tfc__buf *buf, struct tfc__expand *values, const char *text,
			      const struct placeholder *placeholder, tfc_error *error)
{
	size_t before = buf->len;
	placeholder_expand(buf, values, placeholder);
	if (buf->len >= TFC__ENV_STRING_MAX)
		return tfc__fail(error, TFC_ETOOBIG, "spec", 0,
				 "inserting %.*s makes it longer than %d bytes, the limit of an "
				 "argument or variable; use fewer placeholders, or fewer tasks",
				 (int)placeholder->len, text, TFC__ENV_STRING_MAX - 1);
	if (buf->len - before > values->left)
		return tfc__fail(error, TFC_ETOOBIG, "spec", 0,
				 "inserting %.*s makes the values that placeholders insert into "
				 "arguments and environment longer than %zu MiB, the limit of "
				 "execve; use fewer placeholders, or fewer tasks",
				 (int)placeholder->len, text, TFC__EXPAND_MAX >> 20);
	values->left -= buf->len - before;
	return TFC_OK;
}

int tfc__expand(struct tfc__expand *values, const char *text, tfc_error *error, char **ret_text)
{
	struct tfc__buf buf = {0};
	for (;;) {
		size_t plain = strcspn(text, "{");
		tfc__buf_add(&buf, text, plain);
		text += plain;
		if (!*text)
			break;
		bool is_shell = plain && text[-1] == '$'; /* "${name}" is the program's */
		struct placeholder found = placeholder_at(values, text);
		if (found.kind != PLACEHOLDER_NONE && !is_shell) {
			int code = placeholder_insert(&buf, values, text, &found, error);
			if (code < 0) {
				tfc__buf_fini(&buf);
				return code;
			}
			text += found.len;
			continue;
		}
		found = placeholder_at(values, text + 1);
		if (found.kind != PLACEHOLDER_NONE && text[1 + found.len] == '}') {
			tfc__buf_add(&buf, text + 1, found.len); /* "{{name}}" is escaped */
			text += found.len + 2;
			continue;
		}
		tfc__buf_add_char(&buf, '{');
		text++;
	}
	char *expanded = tfc__buf_steal(&buf);
	if (!expanded)
		return tfc__fail_nomem(error, "spec");
	*ret_text = expanded;
	return TFC_OK;
}

/* ---- typos */

#define TYPO_EDITS 2

/* A search for the placeholder that is most similar to a name. */
struct similar {
	const char *name;
	size_t edits;
	char near[TFC__PLACEHOLDER_SIZE];
};

/* A text may have tens of thousands of names, and a distance is expensive. */
static void similar_try(struct similar *similar, const char *known, const char *suffix)
{
	char whole[TFC__PLACEHOLDER_SIZE];
	int len = snprintf(whole, sizeof(whole), "%s%s", known, suffix);
	int name_len = (int)strlen(similar->name);
	if (similar->edits == 0 || abs(len - name_len) > TYPO_EDITS)
		return;
	size_t edits = tfc__edit_distance(similar->name, (size_t)name_len, whole, (size_t)len);
	if (edits >= similar->edits)
		return;
	similar->edits = edits;
	strcpy(similar->near, whole);
}

/* Whether a name is a typo of the placeholder that is most similar to it. A common suffix says
 * nothing. */
static bool is_placeholder_typo(const struct similar *similar)
{
	size_t len = strlen(similar->name), near = strlen(similar->near);
	size_t longest = len > near ? len : near;
	if (has_hosts_suffix(similar->name, len) && has_hosts_suffix(similar->near, near))
		longest -= strlen(HOSTS);
	return similar->edits <= TYPO_EDITS && 2 * similar->edits <= longest;
}

bool tfc__expand_find_typo(const char *text, const char *const *roles,
			   struct tfc__placeholder_typo *ret_typo)
{
	for (const char *at = strchr(text, '{'); at; at = strchr(at + 1, '{')) {
		char name[TFC__PLACEHOLDER_SIZE];
		struct similar similar = {.name = name, .edits = SIZE_MAX};
		size_t len = braced_name_len(at);
		char before = at > text ? at[-1] : '\0';
		if (!len || before == '$' || (before == '{' && at[len + 2] == '}'))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)len, at + 1);
		for (const char *const *role = roles; *role; role++)
			similar_try(&similar, *role, HOSTS);
		for (size_t i = 0; i < PLACEHOLDER_NAMED; i++)
			similar_try(&similar, placeholder_names[i], "");
		for (int type = 0; type < TFC__TYPE_COUNT; type++)
			similar_try(&similar, tfc__task_type_name((enum tfc__task_type)type),
				    HOSTS);
		bool is_typo = is_placeholder_typo(&similar);
		if (similar.edits == 0 || (!is_typo && !has_hosts_suffix(name, len)))
			continue;
		strcpy(ret_typo->name, name);
		strcpy(ret_typo->near, is_typo ? similar.near : "");
		return true;
	}
	return false;
}
