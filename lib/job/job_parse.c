#include "job/job_apply.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/json.h"

/* Prepends "job.json:12: " to the message. */
static int job_fail_at_line(const char *file, uint32_t line, int code, tfc_error *error)
{
	if (!file)
		return tfc__fail_prefix(error, code, "line %u: ", line);
	return tfc__fail_prefix(error, code, "%.80s:%u: ", file, line);
}

static int job_load(const char *json, size_t len, const char *file, tfc_error *error,
		    json_t **ret_root)
{
	json_error_t detail;
	int code = tfc__json_load(json, len, JSON_REJECT_DUPLICATES, &detail, ret_root);
	if (code == TFC_OK)
		return TFC_OK;
	if (code == TFC_ENOMEM)
		return tfc__fail_nomem(error, "job");
	/* The parser quotes the offending token: "... near 'TOKEN'". The token may be the value of
	 * a secret; it is therefore kept only if it is punctuation or a key. */
	char *near = strstr(detail.text, " near '");
	bool is_key = json_error_code(&detail) == json_error_duplicate_key;
	if (near && !is_key && !(ispunct((unsigned char)near[7]) && strcmp(near + 8, "'") == 0))
		*near = '\0';
	tfc__fail(error, TFC_EPARSE, "job", 0, "%s", detail.text);
	return job_fail_at_line(file, detail.line > 0 ? (uint32_t)detail.line : 1, TFC_EPARSE,
				error);
}

static int job_parse(const char *json, size_t len, const char *file, bool is_stored,
		     tfc_error *error, tfc_job **ret_job)
{
	json_t *root = NULL;
	struct tfc__apply apply = {.error = error};
	int result = job_load(json, len, file, error, &root);
	if (result < 0)
		return result;
	result = tfc_job_new(&apply.job);
	if (result < 0) {
		tfc__fail_nomem(error, "job");
		goto done;
	}
	result = tfc__apply_object(&apply, &tfc__job_keys, apply.job, "", root);
	if (result == TFC_OK) {
		tfc__job_inherit(apply.job);
		/* A role that is missing may be a mistyped one. */
		if (!is_stored)
			result = tfc__job_check_typos(apply.job, &apply.path, error);
		if (result == TFC_OK)
			result = tfc__job_check(apply.job, &apply.path, error);
	}
	if (result < 0 && result != TFC_ENOMEM)
		job_fail_at_line(file, tfc__key_line(json, len, &apply.path), result, error);
done:
	/* The path borrows from the tree, so the tree is freed last. */
	json_decref(root);
	if (result < 0) {
		tfc_job_free(apply.job);
		return result;
	}
	*ret_job = apply.job;
	return TFC_OK;
}

int tfc_job_parse(const char *json, size_t len, const char *file, tfc_error *error,
		  tfc_job **ret_job)
{
	if (!json || !ret_job)
		return tfc__fail(error, TFC_EINVAL, "job", 0, "tfc_job_parse: an argument is NULL");
	return job_parse(json, len, file, false, error, ret_job);
}

int tfc__job_parse_stored(const char *json, size_t len, const char *file, tfc_error *error,
			  tfc_job **ret_job)
{
	return job_parse(json, len, file, true, error, ret_job);
}
