/* job: whatever a job file holds, it is refused in a sentence, or it is a job that survives its own
 * JSON. */
#include <string.h>

#include "fuzz.h"
#include "job/job.h"

static char *to_json(const tfc_job *job, uint32_t flags)
{
	char *json = NULL;
	CHECK(tfc_job_json(job, flags, &json) == TFC_OK);
	return json;
}

static tfc_job *from_json(const char *json)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_job *job = NULL;
	if (tfc_job_parse(json, strlen(json), NULL, &error, &job) < 0) {
		fprintf(stderr, "%s\n%s\n", error.text, json);
		abort();
	}
	return job;
}

static void check_same(const tfc_job *job, const char *json)
{
	char *own = to_json(job, TFC_JSON_SECRETS);
	CHECK(strcmp(own, json) == 0);
	tfc_free(own);
}

static void check_job(const tfc_job *job)
{
	tfc_error error = TFC_ERROR_INIT;
	CHECK(tfc_job_validate(job, &error) == TFC_OK);
	char *json = to_json(job, TFC_JSON_SECRETS);
	tfc_job *again = from_json(json);
	check_same(again, json);
	tfc_job_free(again);
	tfc_job *copy = tfc__job_copy(job);
	CHECK(copy);
	check_same(copy, json);
	tfc_job_free(copy);
	tfc_free(json);

	json = to_json(job, 0);
	tfc_job *without_secrets = from_json(json);
	char *twice = to_json(without_secrets, 0);
	CHECK(strcmp(json, twice) == 0);
	tfc_job_free(without_secrets);
	tfc_free(twice);
	tfc_free(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_job *job = NULL;
	int code = tfc_job_parse((const char *)data, size, "job.json", &error, &job);
	if (code == TFC_OK) {
		check_job(job);
	} else {
		CHECK(!job);
		CHECK(code == TFC_EPARSE || code == TFC_EINVAL || code == TFC_ENOTSUP);
		CHECK(strncmp(error.text, "job.json:", 9) == 0);
		fuzz_check_error(code, &error);
	}
	tfc_job_free(job);
	return 0;
}
