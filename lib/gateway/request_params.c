#include "gateway/request_params.h"

#include <endian.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "bundle/cache.h"
#include "bundle/transfer.h"
#include "job/job.h"

static const char prefix[] = "gateway.";

static const char *const names[] = {
	[TFC_VERB_SUBMIT] = "submit", [TFC_VERB_STOP] = "stop",
	[TFC_VERB_JOBS] = "jobs",     [TFC_VERB_DESCRIBE] = "describe",
	[TFC_VERB_SPEC] = "spec",     [TFC_VERB_EXPLAIN] = "explain",
	[TFC_VERB_FORGET] = "forget", [TFC_VERB_MEMBERS] = "members",
	[TFC_VERB_DRAIN] = "drain",   [TFC_VERB_SUBSCRIBE] = "subscribe",
	[TFC_VERB_FIND] = "find",     [TFC_VERB_WATCH] = "watch",
	[TFC_VERB_SIGNAL] = "signal", [TFC_VERB_STACKS] = "stacks",
};

#define NAME_BYTES_MAX 255
#define CURSOR_BYTES_MAX (4u << 20) /* a cursor of a job with 65,536 tasks takes about 2 MiB */
#define VALUES_MAX 65536            /* of a definition */
#define VERBS (sizeof(names) / sizeof(names[0]))

const char *tfc_verb_name(uint32_t verb)
{
	if (verb == TFC_VERB_FEED) /* no method of the gateway: see feed/service.h */
		return "feed";
	return verb < VERBS && names[verb] ? names[verb] : "?";
}

enum tfc_verb tfc__verb_of_method(const char *method)
{
	if (strncmp(method, prefix, sizeof(prefix) - 1) != 0)
		return 0;
	for (size_t i = 1; i < VERBS; i++)
		if (strcmp(method + sizeof(prefix) - 1, names[i]) == 0)
			return (enum tfc_verb)i;
	return 0;
}

void tfc__verb_method(enum tfc_verb verb, char method[TFC__METHOD_SIZE])
{
	snprintf(method, TFC__METHOD_SIZE, "%s%s", prefix, names[verb]);
}

/* ---- writing */

#define PARAM(...) TFC__FIELD(struct tfc__request_params, __VA_ARGS__)
static const struct tfc__field rows[] = {
	PARAM("job", TFC__STRING, job, TFC__V0_2, .max = NAME_BYTES_MAX),
	PARAM("task", TFC__STRING, task, TFC__V0_2, .max = NAME_BYTES_MAX),
	PARAM("node", TFC__STRING, node, TFC__V0_2, .max = NAME_BYTES_MAX),
	PARAM("key", TFC__STRING, client_key, TFC__V0_2, .max = CURSOR_BYTES_MAX),
	PARAM("definition", TFC__BYTES, definition_json, TFC__V0_2,
	      .count = offsetof(struct tfc__request_params, definition_len)),
	PARAM("tag", TFC__BYTES, host_tag, TFC__V0_2,
	      .count = offsetof(struct tfc__request_params, host_tag_len)),
	PARAM("interrupt_ms", TFC__UINT, interrupt_ms, TFC__V0_2),
	PARAM("signal", TFC__UINT, signal, TFC__V0_3),
	PARAM("kill", TFC__BOOL, is_kill, TFC__V0_2),
	PARAM("forwarded", TFC__BOOL, is_forwarded, TFC__V0_2),
	PARAM("off", TFC__BOOL, is_off, TFC__V0_2),
	PARAM("environ", TFC__BOOL, is_environ, TFC__V0_2),
	PARAM("without_output", TFC__BOOL, skip_output, TFC__V0_2),
	PARAM("live", TFC__BOOL, wants_live, TFC__V0_2),
	PARAM("patience_ms", TFC__UINT, patience_ms, TFC__V0_3),
	PARAM("progress", TFC__BOOL, wants_progress, TFC__V0_3),
	PARAM("reports", TFC__BOOL, wants_reports, TFC__V0_3),
	PARAM("bundle", TFC__STRING, bundle, TFC__V0_2, .max = NAME_BYTES_MAX),
	PARAM("home", TFC__STRING, home, TFC__V0_3, .max = NAME_BYTES_MAX),
	PARAM("as", TFC__STRING, as, TFC__V0_3, .max = NAME_BYTES_MAX),
};
static const struct tfc__request_params no_params = {.job = "", .task = "", .node = ""};
static const struct tfc__fields fields = TFC__FIELDS(rows, struct tfc__request_params, &no_params);

bool tfc__request_params_brings_bundle(const struct tfc__request_params *params)
{
	const char *bundle = params->definition ? params->definition->bundle : NULL;
	return params->verb == TFC_VERB_SUBMIT && bundle && !tfc__bundle_named(bundle) &&
	       !params->bundle;
}

void tfc__request_params_add_bundle(struct tfc__buf *buf, const char *hash)
{
	tfc__msg_put_str(buf, "bundle", hash);
}

void tfc__request_params_add_home(struct tfc__buf *buf, const char *node_id)
{
	tfc__msg_put_str(buf, "home", node_id);
}

void tfc__request_params_write(struct tfc__buf *buf, const struct tfc__request_params *params)
{
	uint32_t later = tfc__request_params_brings_bundle(params) +
			 (params->verb == TFC_VERB_SUBMIT);
	struct tfc__request_params sent = *params;
	char *json = NULL;
	sent.home = NULL; /* tfc__request_params_add_home appends it */
	if (!sent.definition_json && sent.definition) {
		if (tfc_job_json(sent.definition, TFC_JSON_SECRETS, &json) < 0) {
			buf->is_failed = true;
			return;
		}
		sent.definition_json = json;
		sent.definition_len = strlen(json);
	}
	tfc__msg_map(buf, tfc__fields_pairs(&fields, &sent) + later);
	tfc__fields_put(buf, &fields, &sent);
	tfc_free(json);
}

/* ---- digest */

static void digest_add(crypto_generichash_state *state, const char *text, size_t len)
{
	uint64_t size = htole64(len);
	crypto_generichash_update(state, (const uint8_t *)&size, sizeof(size));
	crypto_generichash_update(state, (const uint8_t *)text, len);
}

int tfc__request_params_digest(const struct tfc__request_params *params, tfc_error *error,
			       uint8_t ret_digest[TFC__SUBMIT_DIGEST_SIZE])
{
	const char *bundle = params->bundle ? params->bundle : "";
	crypto_generichash_state state;
	char *own = NULL;
	if (!params->definition_json &&
	    tfc_job_json(params->definition, TFC_JSON_SECRETS, &own) < 0)
		return tfc__fail_nomem(error, "gateway");
	crypto_generichash_init(&state, NULL, 0, TFC__SUBMIT_DIGEST_SIZE);
	if (own)
		digest_add(&state, own, strlen(own));
	else
		digest_add(&state, params->definition_json, params->definition_len);
	digest_add(&state, bundle, strlen(bundle));
	crypto_generichash_final(&state, ret_digest, TFC__SUBMIT_DIGEST_SIZE);
	tfc_free(own);
	return TFC_OK;
}

/* ---- reading */

/* The path is one of the client's machine: on this node the bundle is named by its hash. */
static int set_bundle_name(struct tfc__received *received, tfc_error *error)
{
	tfc_job *definition = received->definition;
	char *name;
	if (!definition->bundle || !received->bundle)
		return TFC_OK; /* rights.c refuses a path */
	if (asprintf(&name, TFC__BUNDLE_NAME "%s", received->bundle) < 0)
		return tfc__fail_nomem(error, "gateway");
	free(definition->bundle);
	definition->bundle = name;
	return TFC_OK;
}

/* A JSON value takes up to a hundred times its size in memory while the definition is parsed. */
static int check_value_count(const char *json, size_t len, tfc_error *error)
{
	size_t values = 1;
	bool is_string = false;
	for (size_t i = 0; i < len; i++) {
		if (json[i] == '"')
			is_string = !is_string;
		else if (is_string)
			i += json[i] == '\\';
		else
			values += json[i] == ',' || json[i] == '[' || json[i] == '{';
	}
	if (values <= VALUES_MAX)
		return TFC_OK;
	return tfc__fail(error, TFC_ETOOBIG, "gateway", 0,
			 "job definition has %zu values, more than a request may have (%d)", values,
			 VALUES_MAX);
}

/* A submit is recognized by the definition as received, not by the parsed job. */
int tfc__request_params_read_definition(struct tfc__received *received, tfc_error *error)
{
	enum tfc_verb verb = received->params.verb;
	const char *json = received->json;
	size_t len = (size_t)received->json_len;
	if (!json || (verb != TFC_VERB_SUBMIT && verb != TFC_VERB_EXPLAIN))
		return TFC_OK;
	int code = check_value_count(json, len, error);
	if (code < 0)
		return code;
	code = tfc_job_parse(json, len, NULL, error, &received->definition);
	if (code < 0)
		return code;
	received->params.definition = received->definition;
	if (verb == TFC_VERB_SUBMIT) {
		received->params.definition_json = json;
		received->params.definition_len = len;
		received->params.bundle = received->definition->bundle ? received->bundle : NULL;
	}
	return set_bundle_name(received, error);
}

/* The definition and the bundle become part of the request in tfc__request_params_read_definition.
 */
int tfc__request_params_read(struct tfc__received *received, enum tfc_verb verb,
			     const msgpack_object *map, tfc_error *error)
{
	struct tfc__request_params *params = &received->params;
	*received = (struct tfc__received){.params = {.verb = verb}};
	int code = tfc__params_read(&received->reader, &fields, map, error, params);
	if (code == TFC_EINVAL)
		return code;
	received->json = params->definition_json;
	received->json_len = params->definition_len;
	received->bundle = params->bundle && tfc__is_bundle_hash(params->bundle) ? params->bundle
										 : NULL;
	params->definition_json = NULL;
	params->definition_len = 0;
	params->bundle = NULL;
	if (params->home && !*params->home)
		params->home = NULL;
	return code;
}

void tfc__received_fini(struct tfc__received *received)
{
	tfc__reader_fini(&received->reader);
	tfc_job_free(received->definition);
}
