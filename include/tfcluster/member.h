/*
 * The nodes of a cluster, as a node sees them.
 */
#ifndef TFCLUSTER_MEMBER_H
#define TFCLUSTER_MEMBER_H

#include <stdint.h>
#include <tfcluster/export.h>

#ifdef __cplusplus
extern "C" {
#endif

enum tfc_member_state {
	TFC_MEMBER_ALIVE = 1,
	TFC_MEMBER_SUSPECT = 2, /* it has not answered lately */
	TFC_MEMBER_DOWN = 3,
	TFC_MEMBER_LEFT = 4, /* it said goodbye */
};

#ifdef __cplusplus
}
#endif
#endif
