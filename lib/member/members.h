/*
 * The table of members, as its files share it: opening, probes and backends (members.c), rows
 * and the reports of their changes (rows.c).
 */
#ifndef TFC_MEMBER_MEMBERS_H
#define TFC_MEMBER_MEMBERS_H

#include "base/name_table.h"
#include "member/info.h"

struct tfc_membership {
	char unused; /* a backend uses only its address */
};

struct tfc__member_row {
	struct tfc__member member;
	struct tfc__named named; /* in the table's names */
	/* its link is in the list of probes, or alone when the member is not probed */
	struct tfc__probe probe;
	enum tfc__member_change unreported; /* 0: everything has been reported */
	struct tfc__link in_unreported;
	/* the member has reported its own slots, memory, gpus and labels */
	bool has_reported;
};

struct tfc__members {
	tfc_ctx *ctx;
	struct tfc__link all; /* in the order of their names */
	struct tfc__name_table names;
	uint32_t count;
	struct tfc__member *self;
	/* what this node was given itself; 0: the backend's value; no pointers */
	tfc_member_info own;
	bool has_own_labels;
	bool has_own_gpus;
	bool are_joining; /* the backend searches for the other nodes */
	bool is_finding;  /* the search for its GPUs is running */

	tfc_membership face;
	tfc_membership_ops ops; /* zeros: no backend */
	void *user;
	bool is_started;

	struct tfc__probes probes;
	struct tfc__timer timer;
	struct tfc__member_prober *prober;
	struct tfc__member_evidence *evidence; /* NULL: none */

	struct tfc__observers watches; /* of struct tfc__member_event */
	struct tfc__link unreported; /* rows with a change to report, in the order of the changes */
	struct tfc__work reporting;
	struct tfc__member_row *reported; /* the row whose change is being reported */
	uint32_t busy;                    /* callbacks in progress: memory is not freed */
	bool is_closed;
};

/* ---- rows.c */

static inline struct tfc__member_row *tfc__member_row_of(struct tfc__link *link)
{
	return tfc__container_of(link, struct tfc__member_row, member.link);
}

/* Finds the row of that name, also a removed one; or NULL. */
struct tfc__member_row *tfc__member_row_find(struct tfc__members *members, const char *name);
/* Adds a row that is not probed and not reported yet. */
int tfc__member_row_add(struct tfc__members *members, const tfc_member_info *info,
			struct tfc__member_row **ret_row);
/* Sets the row from the backend's `info`, in which values from better sources replace the
 * backend's. All fields or none. */
int tfc__member_row_set(struct tfc__members *members, struct tfc__member_row *row,
			const tfc_member_info *info);
void tfc__member_row_free(struct tfc__member_row *row);

/* Marks a change of the row to be reported. It is merged with a change that was not reported
 * yet. */
void tfc__members_note(struct tfc__members *members, struct tfc__member_row *row,
		       enum tfc__member_change what);
/* What has changed of the row is reported, or need not be. */
void tfc__member_row_set_reported(struct tfc__member_row *row);
void tfc__members_set_state(struct tfc__members *members, struct tfc__member_row *row,
			    uint32_t state);
void tfc__members_report(struct tfc__work *reporting);

/* ---- members.c */

/* Between keep and drop the memory stays, even if a callback closes the table. */
void tfc__members_keep(struct tfc__members *members);
void tfc__members_drop(struct tfc__members *members);

#endif
