#include "job/job_apply.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* Writes an object of keys; keys with a common prefix become a nested object. */
struct writer {
	struct tfc__buf buf;
	const tfc_job *job;
	bool shows_secrets;
};

static void add_text(struct writer *w, const char *text)
{
	tfc__buf_add_json(&w->buf, text, strlen(text));
}

static void add_text_or_null(struct writer *w, const char *text)
{
	if (text)
		add_text(w, text);
	else
		tfc__buf_add_str(&w->buf, "null");
}

/* Writes the shortest form that parses back as the same number, with the JSON library, so that the
 * host's locale has no effect. */
static void add_number(struct writer *w, double number)
{
	if (number == (double)(long long)number) {
		tfc__buf_addf(&w->buf, "%lld", (long long)number);
		return;
	}
	bool is_exact = false;
	for (size_t digits = 15; digits <= 17 && !is_exact; digits++) {
		json_t *value = json_real(number);
		char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
		json_decref(value);
		value = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
		is_exact = value && json_number_value(value) == number;
		json_decref(value);
		if (is_exact)
			tfc__buf_add_str(&w->buf, text);
		free(text);
	}
	if (!is_exact) /* 17 digits are always exact: this is out of memory */
		w->buf.is_failed = true;
}

static void add_list(struct writer *w, const struct tfc__strv *list)
{
	tfc__buf_add_char(&w->buf, '[');
	for (size_t i = 0; i < list->count; i++) {
		tfc__buf_add_str(&w->buf, i ? ", " : "");
		add_text(w, list->items[i]);
	}
	tfc__buf_add_char(&w->buf, ']');
}

/* Writes NAME=value as a member; hidden and missing values are written as null. */
static void add_env(struct writer *w, const struct tfc__strv *env, bool shows_values)
{
	tfc__buf_add_char(&w->buf, '{');
	for (size_t i = 0; i < env->count; i++) {
		const char *item = env->items[i];
		size_t name_len = strcspn(item, "=");
		tfc__buf_add_str(&w->buf, i ? ", " : "");
		tfc__buf_add_json(&w->buf, item, name_len);
		tfc__buf_add_str(&w->buf, ": ");
		add_text_or_null(w, shows_values && item[name_len] ? item + name_len + 1 : NULL);
	}
	tfc__buf_add_char(&w->buf, '}');
}

static void add_limit(struct writer *w, uint64_t value)
{
	if (value == UINT64_MAX)
		tfc__buf_add_str(&w->buf, "\"unlimited\"");
	else
		tfc__buf_addf(&w->buf, "%llu", (unsigned long long)value);
}

/* Writes soft and hard limit as one value if they are equal. */
static void add_rlimits(struct writer *w, const struct tfc__rlimits *rlimits)
{
	tfc__buf_add_char(&w->buf, '{');
	for (uint32_t i = 0; i < rlimits->count; i++) {
		const struct tfc__rlimit *rlimit = &rlimits->items[i];
		bool is_pair = rlimit->soft != rlimit->hard;
		tfc__buf_addf(&w->buf, "%s\"%s\": %s", i ? ", " : "",
			      tfc__rlimit_name(rlimit->resource), is_pair ? "[" : "");
		add_limit(w, rlimit->soft);
		if (is_pair) {
			tfc__buf_add_str(&w->buf, ", ");
			add_limit(w, rlimit->hard);
			tfc__buf_add_char(&w->buf, ']');
		}
	}
	tfc__buf_add_char(&w->buf, '}');
}

static void add_keys(struct writer *w, const struct tfc__json_keys *keys, const void *base,
		     int depth);

static void new_line(struct writer *w, bool is_first, int depth)
{
	tfc__buf_addf(&w->buf, "%s\n%*s", is_first ? "" : ",", 2 * depth, "");
}

static void add_roles(struct writer *w, int depth)
{
	tfc__buf_add_char(&w->buf, '{');
	for (uint32_t i = 0; i < w->job->role_count; i++) {
		new_line(w, i == 0, depth + 1);
		add_text(w, w->job->roles[i].name);
		tfc__buf_add_str(&w->buf, ": ");
		add_keys(w, &tfc__role_keys, &w->job->roles[i], depth + 1);
	}
	if (w->job->role_count)
		new_line(w, true, depth);
	tfc__buf_add_char(&w->buf, '}');
}

static void add_value(struct writer *w, const struct tfc__json_key *key, const void *base,
		      int depth)
{
	const void *field = (const char *)base + key->offset;
	switch (key->kind) {
	case TFC__KEY_STRING:
		add_text_or_null(w, *(char *const *)field);
		break;
	case TFC__KEY_BOOL:
		tfc__buf_add_str(&w->buf, *(const bool *)field ? "true" : "false");
		break;
	case TFC__KEY_COUNT:
		tfc__buf_addf(&w->buf, "%u", *(const uint32_t *)field);
		break;
	case TFC__KEY_PORT:
		tfc__buf_addf(&w->buf, "%u", *(const uint16_t *)field);
		break;
	case TFC__KEY_SECONDS:
		if (*(const double *)field < 0)
			tfc__buf_add_str(&w->buf, key->is_auto ? "\"auto\"" : "null");
		else
			add_number(w, *(const double *)field);
		break;
	case TFC__KEY_CHOICE:
		add_text(w, key->names[*(const uint32_t *)field]);
		break;
	case TFC__KEY_LIST:
		if (key->is_nullable && !((const struct tfc__strv *)field)->count)
			tfc__buf_add_str(&w->buf, "null");
		else
			add_list(w, field);
		break;
	case TFC__KEY_ENV:
	case TFC__KEY_SECRETS:
		add_env(w, field, key->kind == TFC__KEY_ENV || w->shows_secrets);
		break;
	case TFC__KEY_BACKOFF:
		tfc__buf_add_char(&w->buf, '[');
		add_number(w, ((const double *)field)[0]);
		tfc__buf_add_str(&w->buf, ", ");
		add_number(w, ((const double *)field)[1]);
		tfc__buf_add_char(&w->buf, ']');
		break;
	case TFC__KEY_BYTES:
		tfc__buf_addf(&w->buf, "%llu", (unsigned long long)*(const uint64_t *)field);
		break;
	case TFC__KEY_NUMBER:
		add_number(w, *(const double *)field);
		break;
	case TFC__KEY_INT:
		if (key->is_nullable && *(const int32_t *)field == INT32_MIN)
			tfc__buf_add_str(&w->buf, "null");
		else
			tfc__buf_addf(&w->buf, "%d", *(const int32_t *)field);
		break;
	case TFC__KEY_RLIMITS:
		add_rlimits(w, field);
		break;
	case TFC__KEY_ROLES:
		add_roles(w, depth);
		break;
	case TFC__KEY_LATER:
		break;
	}
}

/* Closes the open group unless the key belongs to it, opens the key's group, and returns the key's
 * name in it. */
static const char *change_group(struct writer *w, const char *path, const char *group,
				bool *is_first, int depth)
{
	const char *dot = strchr(path, '.');
	size_t len = dot ? (size_t)(dot - path) + 1 : 0;
	bool is_inside = group && len && strncmp(group, path, len) == 0;
	if (group && !is_inside)
		tfc__buf_add_char(&w->buf, '}');
	if (is_inside)
		tfc__buf_add_str(&w->buf, *is_first ? "" : ", ");
	else
		new_line(w, *is_first, depth + 1);
	*is_first = false;
	if (!is_inside && len) {
		tfc__buf_add_json(&w->buf, path, len - 1);
		tfc__buf_add_str(&w->buf, ": {");
	}
	return dot ? path : NULL;
}

static void add_keys(struct writer *w, const struct tfc__json_keys *keys, const void *base,
		     int depth)
{
	const char *group = NULL; /* the path of a key in the open group */
	bool is_first = true;
	tfc__buf_add_char(&w->buf, '{');
	for (size_t i = 0; i < keys->count; i++) {
		const struct tfc__json_key *key = &keys->items[i];
		if (key->kind == TFC__KEY_LATER)
			continue;
		group = change_group(w, key->path, group, &is_first, depth);
		add_text(w, group ? strchr(group, '.') + 1 : key->path);
		tfc__buf_add_str(&w->buf, ": ");
		if (key->given && !(((const struct tfc__role *)base)->restart_given & key->given))
			tfc__buf_add_str(&w->buf, "null");
		else
			add_value(w, key, base, depth + 1);
	}
	tfc__buf_add_str(&w->buf, group ? "}" : "");
	new_line(w, true, depth);
	tfc__buf_add_char(&w->buf, '}');
}

int tfc_job_json(const tfc_job *job, uint32_t flags, char **ret_json)
{
	if (!job || !ret_json || (flags & ~(uint32_t)TFC_JSON_SECRETS))
		return TFC_EINVAL;
	struct writer w = {.job = job, .shows_secrets = flags & TFC_JSON_SECRETS};
	add_keys(&w, &tfc__job_keys, job, 0);
	tfc__buf_add_char(&w.buf, '\n');
	char *json = tfc__buf_steal(&w.buf);
	if (!json)
		return TFC_ENOMEM;
	*ret_json = json;
	return TFC_OK;
}
