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
 * What a job that `who` submits may have. Its tasks run as who submitted: that is written into it.
 * TFC_EACCES: tasks of another user, or a path that the node would read; TFC_ENOMEM.
 */
int tfc__rights_apply(const struct tfc__gateway_service_options *options,
		      const struct tfc__peer_id *who, tfc_job *job, tfc_error *error);

#endif
