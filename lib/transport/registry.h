/*
 * The transports of a context, by scheme.
 */
#ifndef TFC_TRANSPORT_REGISTRY_H
#define TFC_TRANSPORT_REGISTRY_H

#include "transport/pipe.h"

struct tfc__transport {
	struct tfc__link link;
	tfc_transport_ops ops;
	void *impl;
	bool is_builtin;
	bool is_level; /* see tfc__builtin_transport */
	char scheme[]; /* what ops.scheme points to */
};

/* Finds the transport of an address. Returns TFC_EINVAL (no scheme, or an unknown one) or
 * TFC_ENOMEM. */
int tfc__transport_find(tfc_ctx *ctx, const char *address, tfc_error *error,
			struct tfc__transport **ret_transport);

#endif
