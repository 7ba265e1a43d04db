/* job: tfc_job_set, line by line "PATH=VALUE". A refusal changes nothing, and what was set can be
 * written down and read again. */
#include <string.h>

#include "fuzz.h"
#include "job/job.h"

#define LINES_MAX 24

static char *to_json(const tfc_job *job)
{
	char *json = NULL;
	CHECK(tfc_job_json(job, TFC_JSON_SECRETS, &json) == TFC_OK);
	return json;
}

/* Sets one key; *json is the job as it is written down, before and after. */
static void set(tfc_job *job, char *line, char **json)
{
	tfc_error error = TFC_ERROR_INIT;
	char *equals = strchr(line, '=');
	if (equals)
		*equals = '\0';
	int code = tfc_job_set(job, line, equals ? equals + 1 : "", &error);
	char *after = to_json(job);
	if (code < 0) {
		CHECK(code == TFC_EINVAL || code == TFC_ENOTSUP);
		CHECK(strcmp(*json, after) == 0);
		fuzz_check_error(code, &error);
	}
	tfc_free(*json);
	*json = after;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = {data, size};
	tfc_error error = TFC_ERROR_INIT;
	tfc_job *job = NULL, *again = NULL;
	char *line;
	CHECK(tfc_job_new(&job) == TFC_OK);
	char *json = to_json(job);
	for (int i = 0; i < LINES_MAX && (line = fuzz_line(&input, '\n')); i++) {
		set(job, line, &json);
		free(line);
	}
	int valid = tfc_job_validate(job, &error);
	int parsed = tfc_job_parse(json, strlen(json), NULL, &error, &again);
	if (parsed < 0 && valid == TFC_OK)
		fprintf(stderr, "%s\n%s\n", error.text, json);
	CHECK(parsed == valid); /* a job that is valid can be read again, and only such a one */
	if (parsed == TFC_OK) {
		char *twice = to_json(again);
		CHECK(strcmp(json, twice) == 0);
		tfc_free(twice);
	}
	tfc_free(json);
	tfc_job_free(again);
	tfc_job_free(job);
	return 0;
}
