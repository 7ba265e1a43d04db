/* A gateway that is connected to a node in another process. */
#ifndef TFC_GATEWAY_REMOTE_H
#define TFC_GATEWAY_REMOTE_H

#include "gateway/gateway.h"

/* options->address is set. Connects with the first request. TFC_EINVAL, the errors of reading the
 * key file, TFC_ENOMEM. */
int tfc__remote_gateway_new(tfc_ctx *ctx, const tfc_gateway_options *options, tfc_error *error,
			    tfc_gateway **ret_gateway);

#endif
