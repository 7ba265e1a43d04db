/*
 * Shared by the files of the gossip membership (gossip.h).
 */
#ifndef TFC_MEMBER_GOSSIP_INTERNAL_H
#define TFC_MEMBER_GOSSIP_INTERNAL_H

#include "base/name_table.h"
#include "member/gossip.h"
#include "member/gossip_core.h"
#include "transport/address.h"
#include "transport/peer.h"
#include "wire/sealed.h"

struct tfc__gossip_seed {
	char *text; /* "HOST:PORT" */
	struct tfc__tcp_host host;
	bool is_numeric;
	struct tfc__resolve *resolve; /* NULL: not being resolved */
	uint64_t resolved_at;         /* when that was begun; 0: never */
	struct tfc__gossip_membership *gossip;
};

struct tfc__gossip_membership {
	tfc_ctx *ctx; /* NULL: not started */
	struct tfc__members *members;
	struct tfc__gossip_membership_options options;
	char *state_dir;

	struct tfc__gossip *core;     /* NULL: not begun */
	struct tfc__sealing *sealing; /* of datagrams */
	struct tfc__datagrams *datagrams;
	struct tfc__datagram_receiver receiver;
	struct tfc__gossip_address address; /* of this node */
	struct tfc__timer wake;
	struct tfc__observer watch; /* of this node's own entry */
	struct tfc__member_evidence evidence;
	struct tfc__buf meta; /* of this node, as the others know it */

	/* The member whose name each row of the table has. */
	struct tfc__link rows; /* struct tfc__gossip_row */
	struct tfc__name_table names;
	struct tfc__name_table ids; /* of the same rows */

	/* Requests that were made here, and the one that is being served. */
	struct tfc__link streams; /* struct gossip_exchange */
	struct tfc__rpc_request *serving;

	struct tfc__gossip_seed *seeds;
	uint32_t seed_count;
	struct tfc__timer join;
	uint32_t join_attempts;
	bool was_accepted;      /* another node has responded to a push-pull */
	uint64_t refused_since; /* when a node first refused this one's name; 0: none does */
	char join_error[400];   /* why the last seed could not be used */
	char join_logged[400];  /* the last text in the log */

	/* Refused datagrams since the last text in the log. */
	uint32_t refused_count;
	uint64_t refused_logged_at; /* 0: never */

	struct tfc__work refusing; /* calls options.refused */
	tfc_error refusal;
	bool was_refused;
	bool is_generation_late; /* one could not be stored, which was logged */

	void (*left)(void *user);
	void *left_user;
	struct tfc__work leaving; /* calls left */
};

/* ---- gossip.c */

/* Passes an event to the state machine and carries out its actions. */
void tfc__gossip_membership_step(struct tfc__gossip_membership *gossip,
				 const struct tfc__gossip_event *event);
/* Another node has refused a push-pull, because this node's name is in use. */
void tfc__gossip_name_refused(struct tfc__gossip_membership *gossip, const tfc_error *why);

/* ---- gossip_rows.c */

static inline bool tfc__gossip_is_gone(uint32_t state)
{
	return state == TFC_MEMBER_DOWN || state == TFC_MEMBER_LEFT;
}

/* A row of the table of members, and the member whose name it has. A name may be that of several
 * ids: a node without a state directory has another id after each start. */
struct tfc__gossip_row {
	struct tfc__link link;
	struct tfc__named named;
	struct tfc__named identified; /* in `ids` */
	struct tfc__gossip_id id;
	char id_text[2 * TFC__GOSSIP_ID_SIZE + 1];
	uint32_t state; /* as the state machine has it */
	/* What this node's connections have shown since the last message from the member: nothing
	 * listens at its address, so it counts as down here; or it did not respond, so it is at
	 * most suspect here, although others may reach it. */
	bool is_refused;
	bool is_unreached;
	char name[TFC__GOSSIP_NAME_MAX + 1];
};

/* The row of that name, or NULL. Borrowed: valid until the next update. */
struct tfc__gossip_row *tfc__gossip_row_find(struct tfc__gossip_membership *gossip,
					     const char *name);
/* Writes the state of the row into the table of members. */
void tfc__gossip_row_show_state(struct tfc__gossip_membership *gossip,
				const struct tfc__gossip_row *row);
/* Writes what has changed of a member into its row and the table of members. */
void tfc__gossip_rows_update(struct tfc__gossip_membership *gossip,
			     const struct tfc__gossip_member *member, uint32_t changes);
/* Whether another member is alive or suspect. */
bool tfc__gossip_membership_has_others(const struct tfc__gossip_membership *gossip);
void tfc__gossip_rows_free(struct tfc__gossip_membership *gossip);

/* ---- gossip_address.c */

/* Addresses of the state machine; false if it is not IPv4 or IPv6. */
bool tfc__gossip_address_from(const struct sockaddr_storage *address,
			      struct tfc__gossip_address *ret_address);
void tfc__gossip_address_to(const struct tfc__gossip_address *address,
			    struct sockaddr_storage *ret_address);
#define TFC__GOSSIP_ADDRESS_TEXT 80
void tfc__gossip_address_write(const struct tfc__gossip_address *address,
			       char text[TFC__GOSSIP_ADDRESS_TEXT]); /* "tcp://..." */
/* As hexadecimal digits: the node id of the member. */
void tfc__gossip_id_write(const struct tfc__gossip_id *id, char hex[2 * TFC__GOSSIP_ID_SIZE + 1]);

/* ---- gossip_join.c */

int tfc__gossip_seeds_set(struct tfc__gossip_membership *gossip, const char *const *seeds,
			  tfc_error *error);
void tfc__gossip_seeds_free(struct tfc__gossip_membership *gossip);
void tfc__gossip_join_begin(struct tfc__gossip_membership *gossip);
void tfc__gossip_join_stop(struct tfc__gossip_membership *gossip);
void tfc__gossip_join_succeeded(struct tfc__gossip_membership *gossip,
				const struct tfc__gossip_address *seed);
/* A request to a seed has failed; error NULL: the seed is this node, or alone. */
void tfc__gossip_join_failed(struct tfc__gossip_membership *gossip,
			     const struct tfc__gossip_address *seed, const tfc_error *error);

/* ---- gossip_stream.c */

/* Makes a request; its response or failure becomes an event in a later turn. */
void tfc__gossip_stream_open(struct tfc__gossip_membership *gossip,
			     const struct tfc__gossip_action *action);
void tfc__gossip_streams_close(struct tfc__gossip_membership *gossip);
/* A request or a response. */
struct tfc__gossip_params {
	char name[TFC__GOSSIP_NAME_MAX + 1]; /* of the sender */
	char node_id[TFC__NODE_ID_SIZE];
	char address[TFC__GOSSIP_ADDRESS_TEXT];
	uint32_t version, generation;
	const void *data; /* a frame of the state machine */
	uint64_t len;
};
/* Reads a request or a response that came over a connection with this identity ("": none is
 * known); its frame becomes that of the event, from this sender. `map` is borrowed by both. Errors:
 * TFC_EPARSE; TFC_EINVAL (not a message of this version); TFC_EACCES (another node's). */
int tfc__gossip_params_read(const msgpack_object *map, const char *node_id, tfc_error *error,
			    struct tfc__gossip_params *ret_params,
			    struct tfc__gossip_event *ret_event);
void tfc__gossip_stream_reply(struct tfc__gossip_membership *gossip,
			      struct tfc__rpc_request *request,
			      const struct tfc__gossip_action *action);

/* ---- gossip_meta.c */

/* Appends what the other nodes need to know. TFC_EINVAL: over TFC__GOSSIP_META_MAX bytes. */
int tfc__gossip_meta_write(const tfc_member_info *info, tfc_error *error, struct tfc__buf *buf);
/* Reads it from a parsed message into `ret_info`, whose labels are owned by the reader. Other
 * fields stay unchanged. */
int tfc__gossip_meta_read(struct tfc__reader *reader, const msgpack_object *meta, tfc_error *error,
			  tfc_member_info *ret_info);

#endif
