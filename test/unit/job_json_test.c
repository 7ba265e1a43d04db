/* job: writing a job file, and what is written is what is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "job/job.h"
#include "job/job_keys.h"
#include <tfcluster/job.h>

static tfc_job *parse(const char *json)
{
	tfc_job *job = NULL;
	tfc_error error = TFC_ERROR_INIT;
	if (tfc_job_parse(json, strlen(json), "job.json", &error, &job) < 0)
		fail_msg("%s in %s", error.text, json);
	return job;
}

static char *write(const tfc_job *job, uint32_t flags)
{
	char *json = NULL;
	assert_int_equal(tfc_job_json(job, flags, &json), TFC_OK);
	return json;
}

static bool lists_equal(const struct tfc__strv *a, const struct tfc__strv *b)
{
	for (size_t i = 0; i < a->count && i < b->count; i++)
		if (strcmp(a->items[i], b->items[i]) != 0)
			return false;
	return a->count == b->count;
}

static bool rlimits_equal(const struct tfc__rlimits *a, const struct tfc__rlimits *b)
{
	for (uint32_t i = 0; i < a->count && i < b->count; i++)
		if (a->items[i].resource != b->items[i].resource ||
		    a->items[i].soft != b->items[i].soft || a->items[i].hard != b->items[i].hard)
			return false;
	return a->count == b->count;
}

static bool fields_equal(const struct tfc__json_key *key, const void *a, const void *b)
{
	switch (key->kind) {
	case TFC__KEY_STRING: {
		const char *text_a = *(char *const *)a, *text_b = *(char *const *)b;
		return text_a && text_b ? strcmp(text_a, text_b) == 0 : text_a == text_b;
	}
	case TFC__KEY_BOOL:
		return *(const bool *)a == *(const bool *)b;
	case TFC__KEY_COUNT:
	case TFC__KEY_CHOICE:
		return *(const uint32_t *)a == *(const uint32_t *)b;
	case TFC__KEY_PORT:
		return *(const uint16_t *)a == *(const uint16_t *)b;
	case TFC__KEY_INT:
		return *(const int32_t *)a == *(const int32_t *)b;
	case TFC__KEY_RLIMITS:
		return rlimits_equal(a, b);
	case TFC__KEY_BYTES:
	case TFC__KEY_LIMIT:
		return *(const uint64_t *)a == *(const uint64_t *)b;
	case TFC__KEY_NUMBER:
	case TFC__KEY_SECONDS:
		return *(const double *)a == *(const double *)b;
	case TFC__KEY_BACKOFF:
		return memcmp(a, b, sizeof(double[2])) == 0;
	case TFC__KEY_LIST:
	case TFC__KEY_ENV:
	case TFC__KEY_SECRETS:
		return lists_equal(a, b);
	case TFC__KEY_ROLES:
	case TFC__KEY_LATER:
		return true;
	}
	return false;
}

static void assert_same_keys(const struct tfc__json_keys *keys, const void *a, const void *b)
{
	for (size_t i = 0; i < keys->count; i++) {
		const struct tfc__json_key *key = &keys->items[i];
		if (!fields_equal(key, (const char *)a + key->offset,
				  (const char *)b + key->offset))
			fail_msg("%s differs", key->path);
	}
}

static void assert_same_job(const tfc_job *a, const tfc_job *b)
{
	assert_same_keys(&tfc__job_keys, a, b);
	assert_int_equal(a->role_count, b->role_count);
	for (uint32_t i = 0; i < a->role_count; i++) {
		assert_string_equal(a->roles[i].name, b->roles[i].name);
		assert_int_equal(a->roles[i].restart_given, b->roles[i].restart_given);
		assert_same_keys(&tfc__role_keys, &a->roles[i], &b->roles[i]);
	}
}

/* Every key at a value that is not its default. */
static const char everything[] =
	"{\"name\":\"n \\u00fc "
	"\\\"\",\"framework\":\"tensorflow\",\"strategy\":\"parameter_server\","
	"\"argv\":[\"a\",\"\",\"b\\n\"],\"env\":{\"A\":\"=\",\"B\":\"\"},"
	"\"secret_env\":{\"S\":\"v\",\"T\":null},\"cwd\":\"c\",\"bundle\":\"b\",\"python\":\"p\","
	"\"restart\":{\"on\":\"failure\",\"scope\":\"group\",\"max\":0,\"window_s\":0.1,"
	"\"backoff_s\":[0.3333333333333333,1e9],\"losses\":5,\"losses_window_s\":0.5},\"success\":"
	"\"all_workers\",\"grace_s\":1.5,"
	"\"abort_grace_s\":0,\"preempt_grace_s\":5,\"finish_s\":2,\"pending_deadline_s\":6,"
	"\"start_deadline_s\":3,"
	"\"deadline_s\":4,"
	"\"topology\":\"partial\","
	"\"stall_s\":5,\"on_stall\":\"stacks\",\"reports\":true,"
	"\"isolation\":\"pidns\",\"warm\":[\"tensorflow\",\"sklearn\"],"
	"\"placement\":{\"policy\":\"upstream\",\"labels\":{\"zone\":\"1\"},\"upstream\":\"grid\","
	"\"on_upstream_change\":\"restart\"},"
	"\"roles\":{\"chief\":{\"memory_limit\":false},\"ps\":{\"server\":true},"
	"\"worker\":{\"count\":2,\"argv\":[\"x\"],\"env\":{\"C\":\"1\"},\"secret_env\":{\"U\":"
	"\"w\"},"
	"\"cwd\":\"d\",\"port\":2222,\"port_handover\":\"release\",\"ready\":\"started\","
	"\"restart\":{\"on\":\"never\",\"max\":1},\"on_failure\":\"ignore\",\"finish_s\":0,"
	"\"grace_s\":0.25,\"rlimits\":{\"nofile\":64,\"as\":[1,\"unlimited\"],\"core\":"
	"\"unlimited\"},"
	"\"memory\":1099511627776,\"memory_limit\":1073741824,\"cpus\":1.25,\"nice\":-3,"
	"\"oom_score_adj\":0,\"user\":\"u:g\","
	"\"wrap\":[\"nice\"],\"stall_s\":0.5,\"gpus\":1,\"labels\":{\"disk\":\"ssd\"}},"
	"\"tensorboard\":{"
	"\"log_dir\":\"l\"}}}";

static void what_is_written_reads_back_as_an_equal_job(void **state)
{
	static const char *const cases[] = {
		"{\"argv\":[\"a\"],\"roles\":{\"worker\":{}}}",
		everything,
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tfc_job *job = parse(cases[i]);
		char *json = write(job, TFC_JSON_SECRETS);
		tfc_job *again = parse(json);
		char *json_again = write(again, TFC_JSON_SECRETS);
		assert_same_job(job, again);
		assert_string_equal(json, json_again);
		free(json);
		free(json_again);
		tfc_job_free(job);
		tfc_job_free(again);
	}
}

static void everything_differs_from_the_defaults(void **state)
{
	tfc_job *plain;
	assert_int_equal(tfc_job_new(&plain), TFC_OK);
	tfc_job *job = parse(everything);
	for (size_t i = 0; i < tfc__job_keys.count; i++) {
		const struct tfc__json_key *key = &tfc__job_keys.items[i];
		bool is_field = key->kind != TFC__KEY_ROLES && key->kind != TFC__KEY_LATER;
		if (is_field && strcmp(key->path, "framework") != 0 &&
		    fields_equal(key, (char *)plain + key->offset, (char *)job + key->offset))
			fail_msg("the test job leaves %s at its default", key->path);
	}
	tfc_job_free(plain);
	tfc_job_free(job);
}

static void the_form_is_stable_and_shows_all_defaults(void **state)
{
	static const char expected[] =
		"{\n"
		"  \"name\": \"\",\n"
		"  \"framework\": \"tensorflow\",\n"
		"  \"strategy\": \"auto\",\n"
		"  \"argv\": [\"a\"],\n"
		"  \"env\": {},\n"
		"  \"secret_env\": {},\n"
		"  \"cwd\": null,\n"
		"  \"bundle\": null,\n"
		"  \"python\": null,\n"
		"  \"roles\": {\n"
		"    \"worker\": {\n"
		"      \"count\": 1,\n"
		"      \"argv\": null,\n"
		"      \"env\": {},\n"
		"      \"secret_env\": {},\n"
		"      \"cwd\": null,\n"
		"      \"port\": 0,\n"
		"      \"port_handover\": \"hold\",\n"
		"      \"server\": false,\n"
		"      \"sidecar\": false,\n"
		"      \"ready\": \"auto\",\n"
		"      \"restart\": {\"on\": null, \"scope\": null, \"max\": 5, \"window_s\": "
		"null, \"backoff_s\": null, \"losses\": null, \"losses_window_s\": null},\n"
		"      \"on_failure\": \"auto\",\n"
		"      \"finish_s\": null,\n"
		"      \"grace_s\": null,\n"
		"      \"log_dir\": null,\n"
		"      \"wrap\": [],\n"
		"      \"memory\": 0,\n"
		"      \"memory_limit\": \"auto\",\n"
		"      \"cpus\": 0,\n"
		"      \"rlimits\": {},\n"
		"      \"nice\": 0,\n"
		"      \"oom_score_adj\": null,\n"
		"      \"user\": null,\n"
		"      \"stall_s\": null,\n"
		"      \"gpus\": 0,\n"
		"      \"labels\": {}\n"
		"    }\n"
		"  },\n"
		"  \"restart\": {\"on\": \"retryable\", \"scope\": \"auto\", \"max\": 3, "
		"\"window_s\": 600, \"backoff_s\": [0, 30], \"losses\": 100, \"losses_window_s\": "
		"86400},\n"
		"  \"success\": \"auto\",\n"
		"  \"grace_s\": 10,\n"
		"  \"abort_grace_s\": \"auto\",\n"
		"  \"preempt_grace_s\": 30,\n"
		"  \"finish_s\": 30,\n"
		"  \"pending_deadline_s\": 0,\n"
		"  \"start_deadline_s\": \"auto\",\n"
		"  \"deadline_s\": 0.1,\n"
		"  \"topology\": \"full\",\n"
		"  \"stall_s\": \"auto\",\n"
		"  \"on_stall\": \"report\",\n"
		"  \"reports\": false,\n"
		"  \"isolation\": \"auto\",\n"
		"  \"warm\": [],\n"
		"  \"placement\": {\"policy\": \"spread\", \"labels\": {}, "
		"\"upstream\": null, \"on_upstream_change\": \"ignore\"}\n"
		"}\n";
	tfc_job *job = parse("{\"argv\":[\"a\"],\"deadline_s\":0.1,"
			     "\"roles\":{\"worker\":{\"restart\":{\"max\":5}}}}");
	char *json = write(job, 0);
	assert_string_equal(json, expected);
	free(json);
	tfc_job_free(job);
}

/* The store keeps this form, and a repeated submit is recognized by its digest. */
static void every_value_has_one_form(void **state)
{
	static const char *const parts[] = {
		"{\n"
		"  \"name\": \"n \xc3\xbc \\\"\",\n"
		"  \"framework\": \"tensorflow\",\n"
		"  \"strategy\": \"parameter_server\",\n"
		"  \"argv\": [\"a\", \"\", \"b\\n\"],\n"
		"  \"env\": {\"A\": \"=\", \"B\": \"\"},\n"
		"  \"secret_env\": {\"S\": \"v\", \"T\": null},\n"
		"  \"cwd\": \"c\",\n"
		"  \"bundle\": \"b\",\n"
		"  \"python\": \"p\",\n",
		"    \"worker\": {\n"
		"      \"count\": 2,\n"
		"      \"argv\": [\"x\"],\n"
		"      \"env\": {\"C\": \"1\"},\n"
		"      \"secret_env\": {\"U\": \"w\"},\n"
		"      \"cwd\": \"d\",\n"
		"      \"port\": 2222,\n"
		"      \"port_handover\": \"release\",\n"
		"      \"server\": false,\n"
		"      \"sidecar\": false,\n"
		"      \"ready\": \"started\",\n"
		"      \"restart\": {\"on\": \"never\", \"scope\": null, \"max\": 1, \"window_s\": "
		"null, \"backoff_s\": null, \"losses\": null, \"losses_window_s\": null},\n"
		"      \"on_failure\": \"ignore\",\n"
		"      \"finish_s\": 0,\n"
		"      \"grace_s\": 0.25,\n"
		"      \"log_dir\": null,\n"
		"      \"wrap\": [\"nice\"],\n"
		"      \"memory\": 1099511627776,\n"
		"      \"memory_limit\": 1073741824,\n"
		"      \"cpus\": 1.25,\n"
		"      \"rlimits\": {\"nofile\": 64, \"as\": [1, \"unlimited\"], \"core\": "
		"\"unlimited\"},\n"
		"      \"nice\": -3,\n"
		"      \"oom_score_adj\": 0,\n"
		"      \"user\": \"u:g\",\n"
		"      \"stall_s\": 0.5,\n"
		"      \"gpus\": 1,\n"
		"      \"labels\": {\"disk\": \"ssd\"}\n"
		"    },\n",
		"    }\n"
		"  },\n"
		"  \"restart\": {\"on\": \"failure\", \"scope\": \"group\", \"max\": 0, "
		"\"window_s\": 0.1, \"backoff_s\": [0.3333333333333333, 1000000000], \"losses\": "
		"5, \"losses_window_s\": 0.5},\n"
		"  \"success\": \"all_workers\",\n"
		"  \"grace_s\": 1.5,\n"
		"  \"abort_grace_s\": 0,\n"
		"  \"preempt_grace_s\": 5,\n"
		"  \"finish_s\": 2,\n"
		"  \"pending_deadline_s\": 6,\n"
		"  \"start_deadline_s\": 3,\n"
		"  \"deadline_s\": 4,\n"
		"  \"topology\": \"partial\",\n"
		"  \"stall_s\": 5,\n"
		"  \"on_stall\": \"stacks\",\n"
		"  \"reports\": true,\n"
		"  \"isolation\": \"pidns\",\n"
		"  \"warm\": [\"tensorflow\", \"sklearn\"],\n"
		"  \"placement\": {\"policy\": \"upstream\", \"labels\": {\"zone\": \"1\"}, "
		"\"upstream\": \"grid\", \"on_upstream_change\": \"restart\"}\n"
		"}\n",
	};
	tfc_job *job = parse(everything);
	char *json = write(job, TFC_JSON_SECRETS);
	const char *end = json;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		const char *part = strstr(end, parts[i]);
		if (!part)
			fail_msg("%s lacks %s", json, parts[i]);
		end = part + strlen(parts[i]);
	}
	assert_string_equal(end, "");
	free(json);
	tfc_job_free(job);
}

static void secrets_are_shown_only_when_requested(void **state)
{
	tfc_job *job = parse("{\"argv\":[\"a\"],\"roles\":{\"worker\":{\"secret_env\":"
			     "{\"ROLE\":\"hunter2\"}}},\"secret_env\":{\"JOB\":\"hunter3\"}}");
	char *hidden = write(job, 0), *shown = write(job, TFC_JSON_SECRETS);
	assert_null(strstr(hidden, "hunter"));
	assert_non_null(strstr(hidden, "\"secret_env\": {\"ROLE\": null}"));
	assert_non_null(strstr(hidden, "\"secret_env\": {\"JOB\": null}"));
	assert_non_null(strstr(shown, "\"secret_env\": {\"ROLE\": \"hunter2\"}"));
	assert_non_null(strstr(shown, "\"secret_env\": {\"JOB\": \"hunter3\"}"));
	free(hidden);
	free(shown);
	tfc_job_free(job);
}

static void a_copy_is_equal_and_its_own(void **state)
{
	tfc_job *job = parse(everything);
	tfc_job *copy = tfc__job_copy(job);
	assert_non_null(copy);
	assert_same_job(job, copy);
	assert_int_equal(tfc_job_set(copy, "roles.worker.env.C", "2", NULL), TFC_OK);
	assert_string_equal(tfc__job_role(job, "worker")->env.items[0], "C=1");
	tfc_job_free(job);
	assert_string_equal(tfc__job_role(copy, "worker")->env.items[0], "C=2");
	tfc_job_free(copy);
}

/* A row of the guide's tables begins "| `restart.max` | ". */
static void assert_in_guide(const char *guide, const char *prefix,
			    const struct tfc__json_keys *keys)
{
	for (size_t i = 0; i < keys->count; i++) {
		char row[128];
		bool is_later = keys->items[i].kind == TFC__KEY_LATER;
		snprintf(row, sizeof(row), is_later ? "`%s%s`" : "\n| `%s%s` |", prefix,
			 keys->items[i].path);
		if (!strstr(guide, row))
			fail_msg("doc/guide/job-file.md has no %s", row);
	}
}

/* The guide's text; the caller frees it. */
static char *read_guide(void)
{
	const size_t size = 1 << 16;
	char path[512];
	char *guide = calloc(1, size);
	const char *root = getenv("TFC_SOURCE_ROOT");
	assert_non_null(root);
	assert_non_null(guide);
	snprintf(path, sizeof(path), "%s/doc/guide/job-file.md", root);
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	size_t len = fread(guide, 1, size - 1, file);
	fclose(file);
	assert_in_range(len, 1000, size - 2);
	return guide;
}

static void the_guide_lists_every_key(void **state)
{
	char *guide = read_guide();
	assert_in_guide(guide, "", &tfc__job_keys);
	assert_in_guide(guide, "roles.ROLE.", &tfc__role_keys);
	free(guide);
}

static void the_example_of_the_guide_is_a_job(void **state)
{
	char *guide = read_guide();
	char *start = strstr(guide, "```json\n");
	assert_non_null(start);
	char *end = strstr(start + 8, "```");
	assert_non_null(end);
	*end = '\0';
	tfc_job *job = parse(start + 8);
	assert_string_equal(job->name, "digits");
	assert_int_equal(job->role_count, 5);
	tfc_job_free(job);
	free(guide);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_reads_back_as_an_equal_job),
		cmocka_unit_test(everything_differs_from_the_defaults),
		cmocka_unit_test(the_form_is_stable_and_shows_all_defaults),
		cmocka_unit_test(every_value_has_one_form),
		cmocka_unit_test(secrets_are_shown_only_when_requested),
		cmocka_unit_test(a_copy_is_equal_and_its_own),
		cmocka_unit_test(the_guide_lists_every_key),
		cmocka_unit_test(the_example_of_the_guide_is_a_job),
	};
	return cmocka_run_group_tests_name("job_json", tests, NULL, NULL);
}
