/*
 * Orders and events of agents as messages (doc/internals/methods.md): each is a struct and the
 * table of its fields (wire/fields.h).
 */
#ifndef TFC_NODE_AGENT_WIRE_H
#define TFC_NODE_AGENT_WIRE_H

#include "agent/agent_ops.h"
#include "wire/fields.h"

void tfc__order_write(struct tfc__buf *buf, const struct tfc__task_order *order);
/* TFC_OK, TFC_ENOMEM, TFC_EPARSE, TFC_ESPEC. The kind is read first, so it is set for most orders
 * that fail. */
int tfc__order_read(struct tfc__reader *reader, const msgpack_object *object, tfc_error *error,
		    struct tfc__task_order *ret_order);

void tfc__event_write(struct tfc__buf *buf, const struct tfc__task_event *event);

/* TFC_OK, TFC_ENOMEM, TFC_EPARSE (also: a task or state that the job does not have). Kind 0: from a
 * later version. Its pointers are valid as long as the reader and the message. */
int tfc__event_read(struct tfc__reader *reader, const msgpack_object *object, uint32_t task_count,
		    tfc_error *error, struct tfc__task_event *ret_event);

#endif
