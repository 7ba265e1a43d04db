#include "job/job_apply.h"

#include <string.h>

#include "base/json_writer.h"

static void json_add_list(struct tfc__json_writer *json, const struct tfc__strv *list)
{
	tfc__json_begin(json, '[');
	for (size_t i = 0; i < list->count; i++)
		tfc__json_text(json, list->items[i]);
	tfc__json_end(json, ']');
}

/* Writes NAME=value as a member; hidden and missing values are written as null. */
static void json_add_env(struct tfc__json_writer *json, const struct tfc__strv *env,
			 bool shows_values)
{
	tfc__json_begin(json, '{');
	for (size_t i = 0; i < env->count; i++) {
		const char *item = env->items[i];
		size_t name_len = strcspn(item, "=");
		tfc__json_name_bytes(json, item, name_len);
		tfc__json_text(json, shows_values && item[name_len] ? item + name_len + 1 : NULL);
	}
	tfc__json_end(json, '}');
}

static void json_add_limit(struct tfc__json_writer *json, uint64_t value)
{
	if (value == UINT64_MAX)
		tfc__json_text(json, "unlimited");
	else
		tfc__json_uint(json, value);
}

/* Writes soft and hard limit as one value if they are equal. */
static void json_add_rlimits(struct tfc__json_writer *json, const struct tfc__rlimits *rlimits)
{
	tfc__json_begin(json, '{');
	for (uint32_t i = 0; i < rlimits->count; i++) {
		const struct tfc__rlimit *rlimit = &rlimits->items[i];
		tfc__json_name(json, tfc__rlimit_name(rlimit->resource));
		if (rlimit->soft == rlimit->hard) {
			json_add_limit(json, rlimit->soft);
			continue;
		}
		tfc__json_begin(json, '[');
		json_add_limit(json, rlimit->soft);
		json_add_limit(json, rlimit->hard);
		tfc__json_end(json, ']');
	}
	tfc__json_end(json, '}');
}

static void json_add_value(struct tfc__json_writer *json, const struct tfc__json_key *key,
			   const void *field, bool shows_secrets)
{
	switch (key->kind) {
	case TFC__KEY_STRING:
		tfc__json_text(json, *(char *const *)field);
		break;
	case TFC__KEY_BOOL:
		tfc__json_bool(json, *(const bool *)field);
		break;
	case TFC__KEY_COUNT:
		tfc__json_uint(json, *(const uint32_t *)field);
		break;
	case TFC__KEY_PORT:
		tfc__json_uint(json, *(const uint16_t *)field);
		break;
	case TFC__KEY_SECONDS:
		if (*(const double *)field >= 0)
			tfc__json_real(json, *(const double *)field);
		else
			tfc__json_text(json, key->is_auto ? "auto" : NULL);
		break;
	case TFC__KEY_CHOICE:
		tfc__json_text(json, key->names[*(const uint32_t *)field]);
		break;
	case TFC__KEY_LIST:
		if (key->is_nullable && !((const struct tfc__strv *)field)->count)
			tfc__json_null(json);
		else
			json_add_list(json, field);
		break;
	case TFC__KEY_ENV:
		json_add_env(json, field, true);
		break;
	case TFC__KEY_SECRETS:
		json_add_env(json, field, shows_secrets);
		break;
	case TFC__KEY_BACKOFF:
		tfc__json_begin(json, '[');
		tfc__json_real(json, ((const double *)field)[0]);
		tfc__json_real(json, ((const double *)field)[1]);
		tfc__json_end(json, ']');
		break;
	case TFC__KEY_BYTES:
		tfc__json_uint(json, *(const uint64_t *)field);
		break;
	case TFC__KEY_LIMIT:
		if (*(const uint64_t *)field == TFC__NO_LIMIT)
			tfc__json_bool(json, false);
		else if (*(const uint64_t *)field == 0)
			tfc__json_text(json, "auto");
		else
			tfc__json_uint(json, *(const uint64_t *)field);
		break;
	case TFC__KEY_NUMBER:
		tfc__json_real(json, *(const double *)field);
		break;
	case TFC__KEY_INT:
		if (key->is_nullable && *(const int32_t *)field == INT32_MIN)
			tfc__json_null(json);
		else
			tfc__json_int(json, *(const int32_t *)field);
		break;
	case TFC__KEY_RLIMITS:
		json_add_rlimits(json, field);
		break;
	case TFC__KEY_ROLES:
	case TFC__KEY_LATER:
		break;
	}
}

/* Writes the object of a job or a role. Keys with a common prefix become a nested object. */
static void json_add_keys(struct tfc__json_writer *json, const struct tfc__json_keys *keys,
			  const void *base, bool shows_secrets)
{
	const char *group = ""; /* the prefix of the open nested object, or none */
	size_t group_len = 0;
	tfc__json_begin_block(json);
	for (size_t i = 0; i < keys->count; i++) {
		const struct tfc__json_key *key = &keys->items[i];
		const char *dot = strchr(key->path, '.');
		size_t len = dot ? (size_t)(dot + 1 - key->path) : 0;
		if (key->kind == TFC__KEY_LATER)
			continue;
		if (len != group_len || strncmp(group, key->path, len) != 0) {
			if (group_len)
				tfc__json_end(json, '}');
			if (len) {
				tfc__json_name_bytes(json, key->path, len - 1);
				tfc__json_begin(json, '{');
			}
			group = key->path;
			group_len = len;
		}
		tfc__json_name(json, key->path + len);
		if (key->given && !(((const struct tfc__role *)base)->restart_given & key->given)) {
			tfc__json_null(json);
		} else if (key->kind == TFC__KEY_ROLES) {
			const tfc_job *job = base;
			tfc__json_begin_block(json);
			for (uint32_t k = 0; k < job->role_count; k++) {
				tfc__json_name(json, job->roles[k].name);
				json_add_keys(json, &tfc__role_keys, &job->roles[k], shows_secrets);
			}
			tfc__json_end(json, '}');
		} else {
			json_add_value(json, key, (const char *)base + key->offset, shows_secrets);
		}
	}
	if (group_len)
		tfc__json_end(json, '}');
	tfc__json_end(json, '}');
}

int tfc_job_json(const tfc_job *job, uint32_t flags, char **ret_json)
{
	if (!job || !ret_json || (flags & ~(uint32_t)TFC_JSON_SECRETS))
		return TFC_EINVAL;
	struct tfc__json_writer writer = {.is_spaced = true};
	json_add_keys(&writer, &tfc__job_keys, job, flags & TFC_JSON_SECRETS);
	tfc__buf_add_char(&writer.buf, '\n');
	char *json = tfc__buf_steal(&writer.buf);
	if (!json)
		return TFC_ENOMEM;
	*ret_json = json;
	return TFC_OK;
}
