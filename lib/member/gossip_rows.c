/*
 * The rows of the table of members, one for each name. A name may be that of several ids: the state
 * machine reports one of them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "member/gossip_internal.h"

struct tfc__gossip_row *tfc__gossip_row_find(struct tfc__gossip_membership *gossip,
					     const char *name)
{
	struct tfc__named *named = tfc__name_find(&gossip->names, name);
	return named ? tfc__container_of(named, struct tfc__gossip_row, named) : NULL;
}

static struct tfc__gossip_row *gossip_row_add(struct tfc__gossip_membership *gossip,
					      const char *name)
{
	struct tfc__gossip_row *row = calloc(1, sizeof(*row));
	if (!row)
		return NULL;
	snprintf(row->name, sizeof(row->name), "%s", name);
	tfc__list_append(&gossip->rows, &row->link);
	tfc__list_init(&row->identified.link);
	tfc__name_add(&gossip->names, &row->named, row->name);
	return row;
}

static void gossip_row_free(struct tfc__gossip_row *row)
{
	tfc__list_remove(&row->link);
	tfc__name_remove(&row->named);
	tfc__name_remove(&row->identified);
	free(row);
}

/* Writes the member into the table: what it offers has come from itself. */
static int table_write(struct tfc__gossip_membership *gossip, const struct tfc__gossip_member *from,
		       const msgpack_object *meta, const char *address, tfc_error *error)
{
	tfc_member_info info = TFC_MEMBER_INFO_INIT;
	struct tfc__reader reader = {0};
	char id[2 * TFC__GOSSIP_ID_SIZE + 1];
	int code = tfc__gossip_meta_read(&reader, meta, error, &info);
	tfc__gossip_id_write(&from->id, id);
	info.name = from->name;
	info.address = address;
	info.node_id = id;
	if (code == TFC_OK &&
	    (code = tfc_membership_put(tfc__members_face(gossip->members), &info)) < 0)
		*error = *tfc__ctx_error(gossip->ctx);
	if (code == TFC_OK)
		code = tfc__members_learn(gossip->members,
					  tfc__members_find(gossip->members, from->name), &info,
					  error);
	tfc__reader_fini(&reader);
	return code;
}

/* A failure (out of memory, or what another version sent) is logged; the next change of the member
 * writes it again. */
static int table_put(struct tfc__gossip_membership *gossip, const struct tfc__gossip_member *from)
{
	struct tfc__msg meta;
	tfc_error error = TFC_ERROR_INIT;
	char address[TFC__GOSSIP_ADDRESS_TEXT];
	tfc__gossip_address_write(&from->address, address);
	int code = tfc__msg_parse(&meta, from->meta, from->meta_len, NULL, &error);
	if (code == TFC_OK) {
		code = table_write(gossip, from, &meta.root, address, &error);
		tfc__msg_fini(&meta);
	}
	if (code < 0)
		tfc__log(gossip->ctx, TFC_LOG_WARNING, "member", from->name,
			 "cannot add the member at %s: %s", address, error.text);
	return code;
}

void tfc__gossip_row_show_state(struct tfc__gossip_membership *gossip,
				const struct tfc__gossip_row *row)
{
	uint32_t state = row->state;
	if (row->is_refused)
		state = TFC_MEMBER_DOWN;
	else if (row->is_unreached && state == TFC_MEMBER_ALIVE)
		state = TFC_MEMBER_SUSPECT;
	tfc_membership_set_state(tfc__members_face(gossip->members), row->name, state);
}

static void row_show(struct tfc__gossip_membership *gossip, struct tfc__gossip_row *row,
		     const struct tfc__gossip_member *member)
{
	if (!tfc__gossip_id_equal(&row->id, &member->id) || tfc__gossip_is_gone(member->state))
		row->is_refused = row->is_unreached = false;
	row->id = member->id;
	row->state = member->state;
	tfc__name_remove(&row->identified);
	tfc__gossip_id_write(&row->id, row->id_text);
	tfc__name_add(&gossip->ids, &row->identified, row->id_text);
	if (table_put(gossip, member) == TFC_OK)
		tfc__gossip_row_show_state(gossip, row);
}

static void row_remove(struct tfc__gossip_membership *gossip, struct tfc__gossip_row *row)
{
	tfc_membership_remove(tfc__members_face(gossip->members), row->name);
	gossip_row_free(row);
}

/* The row that shows the member, under its present name or an earlier one; or NULL. */
static struct tfc__gossip_row *row_of_id(struct tfc__gossip_membership *gossip,
					 const struct tfc__gossip_id *id)
{
	char text[2 * TFC__GOSSIP_ID_SIZE + 1];
	tfc__gossip_id_write(id, text);
	struct tfc__named *named = tfc__name_find(&gossip->ids, text);
	return named ? tfc__container_of(named, struct tfc__gossip_row, identified) : NULL;
}

void tfc__gossip_rows_update(struct tfc__gossip_membership *gossip,
			     const struct tfc__gossip_member *member, uint32_t changes)
{
	struct tfc__gossip_row *row = row_of_id(gossip, &member->id);
	if (row && (changes & TFC__GOSSIP_REMOVED || strcmp(row->name, member->name) != 0))
		row_remove(gossip, row);
	/* a second node with this node's own name is only a conflict */
	if (changes & TFC__GOSSIP_REMOVED ||
	    strcmp(member->name, tfc__members_self(gossip->members)->name) == 0)
		return;
	row = tfc__gossip_row_find(gossip, member->name);
	if (!row && !(row = gossip_row_add(gossip, member->name))) {
		tfc__log(gossip->ctx, TFC_LOG_ERROR, "member", member->name, "out of memory");
		return;
	}
	if (changes & (TFC__GOSSIP_RESTARTED | TFC__GOSSIP_ADDRESS_CHANGED))
		row->is_refused = row->is_unreached = false;
	row_show(gossip, row, member);
}

bool tfc__gossip_membership_has_others(const struct tfc__gossip_membership *gossip)
{
	TFC__LIST_EACH (link, &gossip->rows)
		if (!tfc__gossip_is_gone(
			    tfc__container_of(link, struct tfc__gossip_row, link)->state))
			return true;
	return false;
}

void tfc__gossip_rows_free(struct tfc__gossip_membership *gossip)
{
	TFC__LIST_EACH (link, &gossip->rows)
		gossip_row_free(tfc__container_of(link, struct tfc__gossip_row, link));
}
