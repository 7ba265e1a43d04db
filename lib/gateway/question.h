/* Questions as they travel: methods "gateway.VERB" with a map (doc/internals/methods.md). */
#ifndef TFC_GATEWAY_QUESTION_H
#define TFC_GATEWAY_QUESTION_H

#include "gateway/gateway.h"
#include "wire/msg.h"

/* "submit"; NULL for an unknown one. */
const char *tfc__verb_name(enum tfc__verb verb);
/* Of "gateway.submit"; 0: no such method. */
enum tfc__verb tfc__verb_of_method(const char *method);
/* "gateway.submit" into `method`. */
#define TFC__METHOD_SIZE 32
void tfc__verb_method(enum tfc__verb verb, char method[TFC__METHOD_SIZE]);

/* Writes the params; out of memory is in buf->is_failed. */
void tfc__question_write(struct tfc__buf *buf, const struct tfc__question *question);

/* Whether its job names an archive by a path, whose hash follows when it is known. */
bool tfc__question_brings_bundle(const struct tfc__question *question);
/* The end of one that submits a job with a bundle: what tfc__question_write leaves to be told. */
void tfc__question_write_bundle(struct tfc__buf *buf, const char *hash);

/* A question that was read, and what its pointers point to. */
struct tfc__heard {
	struct tfc__question question;
	char *texts[4];
	tfc_job *definition;
};

/* TFC_OK, TFC_ENOMEM, TFC_EINVAL (a text with a NUL inside), or what tfc_job_parse says of the
 * definition. Ended in any case by tfc__heard_fini. host_tag is borrowed from params. */
int tfc__question_read(struct tfc__heard *heard, enum tfc__verb verb, const msgpack_object *params,
		       tfc_error *error);
void tfc__heard_fini(struct tfc__heard *heard);

#endif
