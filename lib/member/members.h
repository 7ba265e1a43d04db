/*
 * The inside of the table of members: its life and who looks after it (members.c), its rows
 * (rows.c), who is told of them (tell.c).
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
	bool is_finding; /* its GPUs */

	tfc_membership face;
	tfc_membership_ops ops; /* zeros: none */
	void *user;
	bool is_started;

	struct tfc__probes probes;
	struct tfc__timer timer;
	struct tfc__member_prober *prober;

	struct tfc__observers watches; /* of struct tfc__member_event */
	struct tfc__work telling;
	struct tfc__member_row *told; /* whose change is being told */
	uint32_t busy;                /* callbacks are on the way: memory stays */
	bool is_closed;
};

/* ---- rows.c */

static inline struct tfc__member_row *tfc__member_row_of(struct tfc__link *link)
{
	return tfc__container_of(link, struct tfc__member_row, member.link);
}

/* One of that name, also when it is out; or NULL. */
struct tfc__member_row *tfc__member_row_find(const struct tfc__members *members, const char *name);
/* A new row that nobody looks after and nobody was told of. */
int tfc__member_row_add(struct tfc__members *members, const tfc_member_info *info,
			struct tfc__member_row **ret_row);
/* What the backend says of it, with what is known better: all fields or none. */
int tfc__member_row_set(struct tfc__members *members, struct tfc__member_row *row,
			const tfc_member_info *info);
void tfc__member_row_free(struct tfc__member_row *row);

/* ---- tell.c */

/* From here on `what` is to be told of it, with what is to be told already. */
void tfc__members_note(struct tfc__members *members, struct tfc__member_row *row,
		       enum tfc__member_change what);
void tfc__members_set_state(struct tfc__members *members, struct tfc__member_row *row,
			    uint32_t state);
void tfc__members_tell(struct tfc__work *telling);

/* ---- members.c */

/* While callbacks are on the way the memory stays, whoever closes the table in them. */
void tfc__members_keep(struct tfc__members *members);
void tfc__members_drop(struct tfc__members *members);

#endif
