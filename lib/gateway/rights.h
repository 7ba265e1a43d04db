/*
 * Permissions of the users of a node's service (service.h lists them by role), and the user as whom
 * tasks run.
 */
#ifndef TFC_GATEWAY_RIGHTS_H
#define TFC_GATEWAY_RIGHTS_H

#include "gateway/service.h"

/* Whether `requester` may make this request: by the role of the key, and by the host's authorize
 * hook. TFC_EACCES. */
int tfc__rights_check(const struct tfc__gateway_service_options *options,
		      const struct tfc__peer_id *requester,
		      const struct tfc__request_params *params, tfc_error *error);

/*
 * The submitter, as the node that receives a submit names it to the submit's home ("as"): "node",
 * "submit", or "UID:GID" where it is known. A forwarded submit has the same permissions as a direct
 * one.
 */
#define TFC__SUBMITTER_AS_SIZE 32
void tfc__rights_write_submitter(const struct tfc__peer_id *requester,
				 char as[TFC__SUBMITTER_AS_SIZE]);
/* `requester` is the member that forwards the submit; it is replaced by the submitter. TFC_EINVAL.
 */
int tfc__rights_submitter(const char *as, struct tfc__peer_id *requester, tfc_error *error);

/* The user to whom the client keys of `requester` belong: the peer's uid, or the uid as which the
 * tasks of its key run; never a key or a connection. */
uint32_t tfc__rights_owner(const struct tfc__gateway_service_options *options,
			   const struct tfc__peer_id *requester);

/*
 * Checks and completes a job that `requester` submits. Its tasks run as the submitter, which is
 * written into the job. TFC_EACCES: tasks of another user, or a path that the node would read;
 * TFC_ENOMEM.
 */
int tfc__rights_apply(const struct tfc__gateway_service_options *options,
		      const struct tfc__peer_id *requester, tfc_job *job, tfc_error *error);

#endif
