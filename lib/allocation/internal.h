/*
 * Shared by the files of this module: the handle of an allocation.
 *
 *   allocation.c  the handle: what is reported when, and the end
 *   options.c     what the host and the engine say
 *   rank_node.c   the node of this rank: its key, where it listens, how it finds rank 0
 *   ranks.c       the members of that node, as ranks
 */
#ifndef TFC_ALLOCATION_INTERNAL_H
#define TFC_ALLOCATION_INTERNAL_H

#include <jansson.h>

#include "allocation/engine.h"
#include "allocation/grant.h"
#include "allocation/rendezvous.h"
#include "base/strv.h"
#include "ctx/ctx.h"
#include "node/internal.h"

/* Labels of a rank's node. */
#define LABEL_COMMAND "allocation/command="
#define LABEL_END "allocation/end="
#define END_TEXT_MAX 200 /* bytes; all labels of a node have to fit in a datagram */

/* A rank as the members show it. */
struct tfc__rank {
	enum { RANK_UNSEEN, RANK_ALIVE, RANK_GONE } state;
	uint32_t slots, gpus;
	bool is_unreported; /* its state, since READY */
	bool has_left;      /* and did not die */
	bool disagrees;
};

struct tfc_allocation {
	struct tfc__handle handle;
	tfc_ctx *ctx;
	tfc_allocation_fn fn;
	void *user;
	tfc_allocation_info info;
	struct tfc__engine_place place;
	struct tfc__grant grant;
	uint32_t min_ranks;
	uint32_t needed_slots, needed_gpus;
	struct tfc__strv env;      /* of the node */
	json_t *node_options;      /* as for tfc_node_open_json */
	char *rendezvous;          /* the path of the file; NULL: rank 0 listens at `fixed` */
	char *fixed;               /* "HOST:PORT"; NULL: `rendezvous` has it */
	char *host;                /* NULL: the route's */
	char *key;                 /* the text of a key file; NULL: none yet */
	bool has_given_key;        /* and it is not published */
	struct tfc__rendezvous at; /* where rank 0 is, when it is known */
	int lock;                  /* rank 0: of the file; or -1 */
	char command[17];          /* the hash of the agreement and of rank_count */
	char node_name[24], text[768];
	char *gpus;            /* of the grant */
	bool has_granted_gpus; /* and the node uses them */

	tfc_node *node;             /* NULL: rank 0 is not known yet */
	struct tfc__observer watch; /* of its members */
	struct tfc__rank *ranks;
	uint32_t alive;
	char end[END_TEXT_MAX + 24]; /* "STATUS TEXT" as rank 0 has announced; "": not yet */
	tfc_error refused;           /* the other nodes refuse this one; code 0: they do not */

	enum {
		ALLOCATION_JOINING,
		ALLOCATION_READY,
		ALLOCATION_OVER, /* nothing more is reported */
		ALLOCATION_LEAVING,
		ALLOCATION_LEFT,
	} state;
	struct tfc__timer timer;
	struct tfc__work work; /* something has changed that may have to be reported */
	uint64_t deadline, notice_at, reread_at, farewell_at;
	tfc_allocation_ended_fn ended;
	void *ended_user;
};

/* ---- options.c */

/* Recognizes the engine, and copies the options. */
int tfc__allocation_init(tfc_allocation *allocation, const tfc_allocation_options *options,
			 tfc_error *error);

/* ---- rank_node.c */

/* Rank 0: makes a key, opens the node and publishes its address. */
int tfc__allocation_open_first(tfc_allocation *allocation, tfc_error *error);

/* Other ranks: opens the node when rank 0 has published its address, and again when the address has
 * changed: the file may be of an earlier run. */
int tfc__allocation_find_first(tfc_allocation *allocation, tfc_error *error);

void tfc__allocation_close_node(tfc_allocation *allocation); /* a no-op when it is not open */

/* ---- ranks.c */

/* Lists the ranks in one of the states (bits 1 << RANK_...), up to 8 of them: "rank 1", "ranks 1, 2
 * and 5 more". Returns how many there are. */
#define TFC__RANK_LIST_SIZE 160
uint32_t tfc__allocation_list(const tfc_allocation *allocation, uint32_t states, char *text,
			      size_t size);

/* Notes what a member shows of its rank. */
void tfc__allocation_set_member(tfc_allocation *allocation, const struct tfc__member *entry);
void tfc__allocation_on_member(struct tfc__observer *watch, const void *event);

/* Whether the ranks that are left suffice; else `error` says why they do not. */
bool tfc__allocation_suffices(const tfc_allocation *allocation, tfc_error *error);

#endif
