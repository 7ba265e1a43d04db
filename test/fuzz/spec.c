/* spec: cluster specs and whole TF_CONFIGs. What is accepted renders to JSON that says the same. */
#include <jansson.h>
#include <string.h>

#include "fuzz.h"
#include "spec/expand.h"
#include <tfcluster/spec.h>

#define RENDERED_MAX 8 /* tasks; rendering all of many would be slow */

struct walk {
	const tfc_spec *spec;
	const tfc_spec *without_evaluator;
	uint32_t count;
};

static tfc_spec *parse(const char *json)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_spec *spec = NULL;
	if (tfc_spec_parse(json, strlen(json), &error, &spec) < 0) {
		fprintf(stderr, "%s\n%s\n", error.text, json);
		abort();
	}
	return spec;
}

/* TF_CONFIG is read by TensorFlow with Python's json: it must be an object in any parser's eyes. */
static void check_tf_config(const struct walk *walk, const char *type, uint32_t index)
{
	tfc_error error = TFC_ERROR_INIT;
	char *json = NULL;
	for (uint32_t strategy = TFC_STRATEGY_AUTO; strategy <= TFC_STRATEGY_NONE; strategy++) {
		int code = tfc_spec_tf_config(walk->spec, (enum tfc_strategy)strategy, type, index,
					      &error, &json);
		if (code < 0) {
			CHECK(code == TFC_ESPEC || code == TFC_ETOOBIG);
			fuzz_check_error(code, &error);
			continue;
		}
		json_t *root = json_loads(json, 0, NULL);
		json_t *task = json_object_get(root, "task");
		CHECK(task);
		CHECK(strcmp(json_string_value(json_object_get(task, "type")), type) == 0);
		CHECK(json_integer_value(json_object_get(task, "index")) == index);
		json_decref(root);
		tfc_spec *again = parse(json);
		CHECK(tfc_spec_equal(again, strcmp(type, "evaluator") == 0
						    ? walk->spec
						    : walk->without_evaluator));
		tfc_spec_free(again);
		tfc_free(json);
		json = NULL;
	}
}

static int visit(void *user, const char *type, uint32_t index, const char *address)
{
	struct walk *walk = user;
	CHECK(strcmp(tfc_spec_address(walk->spec, type, index), address) == 0);
	CHECK(strchr(address, ':'));
	if (walk->count++ < RENDERED_MAX)
		check_tf_config(walk, type, index);
	return 0;
}

static int add_but_evaluator(void *user, const char *type, uint32_t index, const char *address)
{
	tfc_error error = TFC_ERROR_INIT;
	if (strcmp(type, "evaluator") == 0)
		return 0;
	CHECK(tfc_spec_add(user, type, index, address, &error) == TFC_OK);
	return 0;
}

static void check_spec(const tfc_spec *spec)
{
	tfc_spec *rest = NULL;
	char *json = NULL;
	CHECK(tfc_spec_new(&rest) == TFC_OK);
	tfc_spec_each(spec, add_but_evaluator, rest);
	CHECK(tfc_spec_json(spec, &json) == TFC_OK);
	if (tfc_spec_count(rest, NULL)) {
		tfc_spec *again = parse(json);
		CHECK(tfc_spec_equal(again, rest));
		tfc_spec_free(again);
	}
	struct walk walk = {spec, rest, 0};
	CHECK(tfc_spec_each(spec, visit, &walk) == 0);
	CHECK(walk.count == tfc_spec_count(spec, NULL));
	tfc_free(json);
	tfc_spec_free(rest);
}

/* Placeholders: the text outside braces stays, and nothing is read behind its end. */
static void check_expand(const tfc_spec *spec, const uint8_t *data, size_t size)
{
	static const char *const roles[] = {"worker", "reader", NULL}, *const hosts[] = {
									       "reader=r:1", NULL};
	struct tfc__expand values = {spec, hosts, "job-1", "worker", 1, 2, "h:1", TFC__EXPAND_MAX};
	struct tfc__placeholder_typo typo;
	tfc_error error = TFC_ERROR_INIT;
	char *text = strndup((const char *)data, size), *expanded = NULL;
	CHECK(text);
	int code = tfc__expand(&values, text, &error, &expanded);
	CHECK(code == TFC_OK ? expanded != NULL : code == TFC_ETOOBIG && !expanded);
	if (!strchr(text, '{'))
		CHECK(strcmp(text, expanded) == 0);
	if (tfc__expand_find_typo(text, roles, &typo)) {
		CHECK(*typo.name && strstr(text, typo.name));
		CHECK(strcmp(typo.name, typo.near) != 0);
	}
	free(text);
	free(expanded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_spec *spec = NULL;
	int code = tfc_spec_parse((const char *)data, size, &error, &spec);
	if (code == TFC_OK) {
		check_spec(spec);
	} else {
		CHECK(!spec);
		CHECK(code == TFC_EPARSE || code == TFC_ESPEC);
		fuzz_check_error(code, &error);
		CHECK(tfc_spec_new(&spec) == TFC_OK);
	}
	check_expand(spec, data, size);
	tfc_spec_free(spec);
	return 0;
}
