/* Requests on the wire: methods "gateway.VERB" with a map of parameters (doc/internals/methods.md).
 */
#ifndef TFC_GATEWAY_REQUEST_PARAMS_H
#define TFC_GATEWAY_REQUEST_PARAMS_H

#include "bundle/cache.h"
#include "gateway/gateway.h"
#include "wire/fields.h"

/* The verb of a method ("gateway.submit"); 0: no such method. */
enum tfc_verb tfc__verb_of_method(const char *method);
/* Writes the method's name ("gateway.submit"). */
#define TFC__METHOD_SIZE 32
void tfc__verb_method(enum tfc_verb verb, char method[TFC__METHOD_SIZE]);

/* Writes the params; out of memory is in buf->is_failed. */
void tfc__request_params_write(struct tfc__buf *buf, const struct tfc__request_params *params);

/* Whether the request is a submit whose bundle is a path; its hash is appended once it is known. */
bool tfc__request_params_brings_bundle(const struct tfc__request_params *params);
/* Appends the bundle's hash, which tfc__request_params_write leaves out of a submit that brings a
 * bundle. */
void tfc__request_params_add_bundle(struct tfc__buf *buf, const char *hash);

/* Appends the home, which tfc__request_params_write leaves out of a submit. */
void tfc__request_params_add_home(struct tfc__buf *buf, const char *node_id);

/* The digest by which a repeated submit is recognized: of the definition as it was sent, and of the
 * bundle's hash. The host's tag is not included. TFC_ENOMEM. */
int tfc__request_params_digest(const struct tfc__request_params *params, tfc_error *error,
			       uint8_t ret_digest[TFC__SUBMIT_DIGEST_SIZE]);

/* A request that was read, and the memory that its pointers refer to. */
struct tfc__received {
	struct tfc__request_params params;
	struct tfc__reader reader; /* owns the strings */
	/* The received definition; NULL: none. */
	const char *json;
	uint64_t json_len;
	const char *bundle; /* hash of the received bundle, or NULL */
	tfc_job *definition;
};

/* Reads all but the definition. TFC_OK, TFC_ENOMEM, TFC_EINVAL (a value is invalid for its field).
 * Call tfc__received_fini in any case. host_tag and the definition are borrowed from the map. */
int tfc__request_params_read(struct tfc__received *received, enum tfc_verb verb,
			     const msgpack_object *map, tfc_error *error);
/* Parses the definition of a submit or an explain; ignores that of other requests. Parsing is the
 * most expensive part of a request, so call it after the requester's permission was checked.
 * TFC_ETOOBIG (too many values), or the errors of tfc_job_parse. */
int tfc__request_params_read_definition(struct tfc__received *received, tfc_error *error);
void tfc__received_fini(struct tfc__received *received);

#endif
