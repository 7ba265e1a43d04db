/*
 * The inside of the table of members (members.c).
 */
#ifndef TFC_MEMBER_MEMBERS_H
#define TFC_MEMBER_MEMBERS_H

#include "member/info.h"

struct tfc_membership {
	char unused; /* its address is all that a backend needs */
};

struct tfc__member_row {
	struct tfc__member member;
	struct tfc__probe probe;        /* in the list of probes, or its link is alone */
	enum tfc__member_change untold; /* 0: all has been told */
	bool has_spoken;                /* what it offers is what it said itself */
};

struct tfc__members {
	tfc_ctx *ctx;
	struct tfc__link all; /* by name */
	uint32_t count;
	struct tfc__member *self;
	tfc_member_info own; /* what this node offers itself; 0: as the backend says. No pointers */
	bool has_own_labels;
	bool has_own_gpus;

	tfc_membership face;
	tfc_membership_ops ops; /* zeros: none */
	void *user;
	bool is_started;

	struct tfc__probes probes;
	struct tfc__timer timer;
	struct tfc__member_prober *prober;

	struct tfc__link watches;
	struct tfc__work telling;
	struct tfc__member_row *told; /* whose change is being told */
	uint32_t busy;                /* callbacks are on the way: memory stays */
	bool is_closed;
};

#endif
