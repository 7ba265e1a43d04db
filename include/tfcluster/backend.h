/*
 * For those who bring a part of their own: tables of functions that a host fills in and registers.
 * Each table has a conformance suite in test/conformance that a backend must pass.
 */
#ifndef TFCLUSTER_BACKEND_H
#define TFCLUSTER_BACKEND_H

#include <stddef.h>
#include <stdint.h>
#include <tfcluster/ctx.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- transport: how bytes get from node to node */

typedef struct tfc_transport_ops tfc_transport_ops;

/* ---- membership: which nodes there are */

typedef struct tfc_membership_ops tfc_membership_ops;

/* ---- store: where jobs are kept over the end of a process */

typedef struct tfc_store_ops tfc_store_ops;

#ifdef __cplusplus
}
#endif
#endif
