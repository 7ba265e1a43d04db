#include "gateway/question.h"

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
	[TFC_VERB_SUBMIT] = "submit",       [TFC_VERB_STOP] = "stop",
	[TFC_VERB_LIST] = "list",           [TFC_VERB_JOBS] = "jobs",
	[TFC_VERB_DESCRIBE] = "describe",   [TFC_VERB_SPEC] = "spec",
	[TFC_VERB_EXPLAIN] = "explain",     [TFC_VERB_FORGET] = "forget",
	[TFC_VERB_MEMBERS] = "members",     [TFC_VERB_DRAIN] = "drain",
	[TFC_VERB_SUBSCRIBE] = "subscribe", [TFC_VERB_FIND] = "find",
};

#define NAME_BYTES_MAX 255
#define CURSOR_BYTES_MAX (4u << 20) /* of a job of 65,536 tasks it has about 2 MiB */
#define VALUES_MAX 65536            /* of a definition */
#define VERBS (sizeof(names) / sizeof(names[0]))

const char *tfc_verb_name(uint32_t verb)
{
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

static void write_definition(struct tfc__buf *buf, const struct tfc__question *question)
{
	char *json;
	if (question->definition_json) {
		tfc__msg_str(buf, "definition");
		tfc__msg_text(buf, question->definition_json, question->definition_len);
		return;
	}
	if (!question->definition) {
		tfc__msg_put_str(buf, "definition", NULL);
		return;
	}
	if (tfc_job_json(question->definition, TFC_JSON_SECRETS, &json) < 0) {
		buf->is_failed = true;
		return;
	}
	tfc__msg_put_str(buf, "definition", json);
	tfc_free(json);
}

bool tfc__question_brings_bundle(const struct tfc__question *question)
{
	const char *bundle = question->definition ? question->definition->bundle : NULL;
	return question->verb == TFC_VERB_SUBMIT && bundle && !tfc__bundle_named(bundle) &&
	       !question->bundle;
}

void tfc__question_write_bundle(struct tfc__buf *buf, const char *hash)
{
	tfc__msg_put_str(buf, "bundle", hash);
}

void tfc__question_write_home(struct tfc__buf *buf, const char *node_id)
{
	tfc__msg_put_str(buf, "home", node_id);
}

void tfc__question_write(struct tfc__buf *buf, const struct tfc__question *question)
{
	uint32_t later = tfc__question_brings_bundle(question) +
			 (question->verb == TFC_VERB_SUBMIT);
	tfc__msg_map(buf, 13 + later + !!question->bundle + !!question->as);
	tfc__msg_put_str(buf, "job", question->job);
	tfc__msg_put_str(buf, "task", question->task);
	tfc__msg_put_str(buf, "node", question->node);
	tfc__msg_put_str(buf, "key", question->client_key);
	write_definition(buf, question);
	tfc__msg_put_bin(buf, "tag", question->host_tag, question->host_tag_len);
	tfc__msg_put_u64(buf, "interrupt_ms", question->interrupt_ms);
	tfc__msg_put_bool(buf, "kill", question->is_kill);
	tfc__msg_put_bool(buf, "forwarded", question->is_forwarded);
	tfc__msg_put_bool(buf, "off", question->is_off);
	tfc__msg_put_bool(buf, "environ", question->is_environ);
	tfc__msg_put_bool(buf, "without_output", question->skip_output);
	tfc__msg_put_bool(buf, "live", question->wants_live);
	if (question->bundle)
		tfc__question_write_bundle(buf, question->bundle);
	if (question->as)
		tfc__msg_put_str(buf, "as", question->as);
}

/* ---- known again */

static void add_part(crypto_generichash_state *state, const char *text, size_t len)
{
	uint64_t size = htole64(len);
	crypto_generichash_update(state, (const uint8_t *)&size, sizeof(size));
	crypto_generichash_update(state, (const uint8_t *)text, len);
}

int tfc__question_digest(const struct tfc__question *question,
			 uint8_t ret_digest[TFC__SUBMIT_DIGEST_SIZE], tfc_error *error)
{
	const char *bundle = question->bundle ? question->bundle : "";
	crypto_generichash_state state;
	char *own = NULL;
	if (!question->definition_json &&
	    tfc_job_json(question->definition, TFC_JSON_SECRETS, &own) < 0)
		return tfc__fail_nomem(error, "gateway");
	crypto_generichash_init(&state, NULL, 0, TFC__SUBMIT_DIGEST_SIZE);
	if (own)
		add_part(&state, own, strlen(own));
	else
		add_part(&state, question->definition_json, question->definition_len);
	add_part(&state, bundle, strlen(bundle));
	crypto_generichash_final(&state, ret_digest, TFC__SUBMIT_DIGEST_SIZE);
	tfc_free(own);
	return TFC_OK;
}

/* ---- reading */

/* The path was one of the client's machine: here the bundle is called by what it holds. */
static int name_bundle(struct tfc__heard *heard, const msgpack_object *params, tfc_error *error)
{
	tfc_job *definition = heard->definition;
	char *name;
	if (!definition->bundle || tfc__bundle_hash_read(params, "bundle", heard->bundle, NULL) < 0)
		return TFC_OK; /* and a path is refused (rights.c) */
	if (asprintf(&name, TFC__BUNDLE_NAME "%s", heard->bundle) < 0)
		return tfc__fail_nomem(error, "gateway");
	free(definition->bundle);
	definition->bundle = name;
	return TFC_OK;
}

/* A value takes up to a hundred times its bytes of memory while the definition is parsed. */
static int check_values(const char *json, size_t len, tfc_error *error)
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
			 "the job's definition has %zu values, more than a request may have (%d)",
			 values, VALUES_MAX);
}

/* What a submit is known by is what came, not what is made of it here. */
int tfc__question_read_definition(struct tfc__heard *heard, const msgpack_object *params,
				  tfc_error *error)
{
	enum tfc_verb verb = heard->question.verb;
	size_t len;
	const char *json = verb == TFC_VERB_SUBMIT || verb == TFC_VERB_EXPLAIN
				   ? tfc__msg_get_bin(params, "definition", &len)
				   : NULL;
	if (!json)
		return TFC_OK;
	int code = check_values(json, len, error);
	if (code < 0)
		return code;
	code = tfc_job_parse(json, len, NULL, error, &heard->definition);
	if (code < 0)
		return code;
	heard->question.definition = heard->definition;
	code = name_bundle(heard, params, error);
	if (verb == TFC_VERB_SUBMIT) {
		heard->question.definition_json = json;
		heard->question.definition_len = len;
		heard->question.bundle = heard->bundle[0] ? heard->bundle : NULL;
	}
	return code;
}

/* NULL: missing, or no text. */
static int read_text(const msgpack_object *params, const char *key, size_t max, char **ret_text,
		     tfc_error *error)
{
	size_t len;
	const char *bytes = tfc__msg_get_bin(params, key, &len);
	if (!bytes)
		return TFC_OK;
	if (len > max)
		return tfc__fail(error, TFC_EINVAL, "gateway", 0, "%s is longer than %zu bytes",
				 key, max);
	if (memchr(bytes, '\0', len))
		return tfc__fail(error, TFC_EINVAL, "gateway", 0, "%s has a NUL inside", key);
	*ret_text = strndup(bytes, len);
	return *ret_text ? TFC_OK : tfc__fail_nomem(error, "gateway");
}

int tfc__question_read(struct tfc__heard *heard, enum tfc_verb verb, const msgpack_object *params,
		       tfc_error *error)
{
	/* A cursor is a key, too. What names something goes on to other nodes. */
	static const struct {
		const char *key;
		size_t max;
	} texts[TFC__QUESTION_TEXTS] = {{"job", NAME_BYTES_MAX},  {"task", NAME_BYTES_MAX},
					{"node", NAME_BYTES_MAX}, {"key", CURSOR_BYTES_MAX},
					{"home", NAME_BYTES_MAX}, {"as", NAME_BYTES_MAX}};
	struct tfc__question *question = &heard->question;
	size_t tag_len = 0;
	*heard = (struct tfc__heard){.question = {.verb = verb}};
	for (size_t i = 0; i < TFC__QUESTION_TEXTS; i++) {
		int code = read_text(params, texts[i].key, texts[i].max, &heard->texts[i], error);
		if (code < 0)
			return code;
	}
	question->job = heard->texts[0] ? heard->texts[0] : "";
	question->task = heard->texts[1] ? heard->texts[1] : "";
	question->node = heard->texts[2] ? heard->texts[2] : "";
	question->client_key = heard->texts[3];
	question->home = heard->texts[4] && *heard->texts[4] ? heard->texts[4] : NULL;
	question->as = heard->texts[5];
	question->host_tag = tfc__msg_get_bin(params, "tag", &tag_len);
	question->host_tag_len = question->host_tag ? tag_len : 0;
	question->interrupt_ms = (uint32_t)tfc__msg_get_u64(params, "interrupt_ms", 0);
	question->is_kill = tfc__msg_get_bool(params, "kill", false);
	question->is_forwarded = tfc__msg_get_bool(params, "forwarded", false);
	question->is_off = tfc__msg_get_bool(params, "off", false);
	question->is_environ = tfc__msg_get_bool(params, "environ", false);
	question->skip_output = tfc__msg_get_bool(params, "without_output", false);
	question->wants_live = tfc__msg_get_bool(params, "live", false);
	return TFC_OK;
}

void tfc__heard_fini(struct tfc__heard *heard)
{
	for (size_t i = 0; i < TFC__QUESTION_TEXTS; i++)
		free(heard->texts[i]);
	tfc_job_free(heard->definition);
}
