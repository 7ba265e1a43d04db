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
	TFC_MEMBER_SUSPECT = 2, /* it has not answered lately, or not yet */
	TFC_MEMBER_DOWN = 3,    /* it has ended, or not answered for tfc_node_options.down_ms */
	TFC_MEMBER_LEFT = 4,    /* it has left the cluster (tfc_node_leave) */
};

/* One node and its resources. Strings are borrowed: valid as long as the struct. */
typedef struct tfc_member_info {
	uint32_t size;
	uint32_t state;      /* enum tfc_member_state; 0: not known */
	const char *name;    /* unique; letters, digits, '.', '_' and '-', up to 63 bytes */
	const char *address; /* where its node listens: "tcp://HOST:PORT"; NULL: nowhere */
	/* Hash of its static key, 32 hex digits; NULL: not known yet. In tfc_membership_put: the
	 * one that it must have; NULL: any */
	const char *node_id;
	const char *const *labels; /* "NAME=value", NULL-terminated; NULL: none */
	uint64_t memory_bytes;     /* memory that its tasks may reserve in all; 0: no limit */
	uint32_t slots;            /* tasks that it runs at one time; 0: no limit */
	uint32_t gpus;             /* GPUs that its tasks may reserve */
	uint32_t is_self;          /* 1: the node that lists its members */
	uint32_t is_draining;      /* 1: it accepts no new task */
	/* Milliseconds since its last sign of life, at least 1; 0: none yet, or the node itself */
	uint32_t silent_ms;
	uint32_t rtt_us; /* round-trip time to it in microseconds, as last measured; 0: not known */
	uint32_t was_reached; /* 1: it has been ALIVE since it was added. 0 and DOWN: not yet */
} tfc_member_info;

#define TFC_MEMBER_INFO_INIT                                                   \
	{                                                                      \
		sizeof(tfc_member_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_member_info_init(tfc_member_info *info, uint32_t size);

/** "alive", "suspect", "down", "left"; "?" for an unknown one. Static string. Thread: any.
 * Errors: none. */
TFC_API const char *tfc_member_state_name(uint32_t state);

#ifdef __cplusplus
}
#endif
#endif
