/* Questions as they travel: methods "gateway.VERB" with a map (doc/internals/methods.md). */
#ifndef TFC_GATEWAY_QUESTION_H
#define TFC_GATEWAY_QUESTION_H

#include "bundle/cache.h"
#include "gateway/gateway.h"
#include "wire/fields.h"

/* Of "gateway.submit"; 0: no such method. */
enum tfc_verb tfc__verb_of_method(const char *method);
/* "gateway.submit" into `method`. */
#define TFC__METHOD_SIZE 32
void tfc__verb_method(enum tfc_verb verb, char method[TFC__METHOD_SIZE]);

/* Writes the params; out of memory is in buf->is_failed. */
void tfc__question_write(struct tfc__buf *buf, const struct tfc__question *question);

/* A node's answer to "who are you?": its node_id and name, which a client needs before it submits.
 */
#define TFC__METHOD_HELLO "gateway.hello"

/* Whether its job names an archive by a path, whose hash follows when it is known. */
bool tfc__question_brings_bundle(const struct tfc__question *question);
/* The end of one that submits a job with a bundle: what tfc__question_write leaves to be told. */
void tfc__question_write_bundle(struct tfc__buf *buf, const char *hash);

/* The end of one that submits: where to, which tfc__question_write leaves to be told as well. */
void tfc__question_write_home(struct tfc__buf *buf, const char *node_id);

/* What is submitted, by which it is known again: its definition as it was sent, and its bundle. The
 * host's tag does not count. TFC_ENOMEM. */
int tfc__question_digest(const struct tfc__question *question,
			 uint8_t ret_digest[TFC__SUBMIT_DIGEST_SIZE], tfc_error *error);

/* A question that was read, and what its pointers point to. */
struct tfc__heard {
	struct tfc__question question;
	struct tfc__reader reader; /* has the texts */
	const char *json; /* a definition that came, of a question that may have none; or NULL */
	uint64_t json_len;
	const char *bundle; /* the hash of a bundle that came, or NULL */
	tfc_job *definition;
};

/* All but the definition. TFC_OK, TFC_ENOMEM, TFC_EINVAL (a value that is none of its field). Ended
 * in any case by tfc__heard_fini. host_tag and the definition are borrowed from params. */
int tfc__question_read(struct tfc__heard *heard, enum tfc_verb verb, const msgpack_object *params,
		       tfc_error *error);
/* The definition, of a submit or an explain; of other questions none is looked at. It is the most
 * expensive part of a question, and is read once the asker's permission is known. TFC_ETOOBIG (too
 * many values), or what tfc_job_parse says. */
int tfc__question_read_definition(struct tfc__heard *heard, tfc_error *error);
void tfc__heard_fini(struct tfc__heard *heard);

#endif
