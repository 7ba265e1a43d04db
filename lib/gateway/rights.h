/*
 * Who may what of a node's service (service.h says it by role), and as whom tasks run.
 */
#ifndef TFC_GATEWAY_RIGHTS_H
#define TFC_GATEWAY_RIGHTS_H

#include "gateway/service.h"

/* Whether `who` may ask that: by the role of the key, and by the host's say. TFC_EACCES. */
int tfc__rights_check(const struct tfc__gateway_service_options *options,
		      const struct tfc__peer_id *who, const struct tfc__question *question,
		      tfc_error *error);

/*
 * Who submits, as the node that was asked tells the submit's home ("as"): "node", "submit", or
 * "UID:GID" where it knows. What is submitted through another node is as if it had come directly.
 */
#define TFC__SUBMITTER_AS_SIZE 32
void tfc__rights_say(const struct tfc__peer_id *who, char as[TFC__SUBMITTER_AS_SIZE]);
/* `who` is the member that passes it on, and becomes the submitter. TFC_EINVAL. */
int tfc__rights_submitter(const char *as, struct tfc__peer_id *who, tfc_error *error);

/* The user whose client keys those of `who` are: the peer's uid, or the one that its key's tasks
 * run as; never a key or a connection. */
uint32_t tfc__rights_owner(const struct tfc__gateway_service_options *options,
			   const struct tfc__peer_id *who);

/*
 * What a job that `who` submits may have. Its tasks run as who submitted: that is written into it.
 * TFC_EACCES: tasks of another user, or a path that the node would read; TFC_ENOMEM.
 */
int tfc__rights_apply(const struct tfc__gateway_service_options *options,
		      const struct tfc__peer_id *who, tfc_job *job, tfc_error *error);

#endif
