/*
 * Orders and events of agents as messages (doc/internals/methods.md): each is a struct and the
 * table of its fields (wire/fields.h).
 */
#ifndef TFC_NODE_AGENT_WIRE_H
#define TFC_NODE_AGENT_WIRE_H

#include "agent/agent_ops.h"
#include "wire/fields.h"

/* The numbers are part of the wire format. */
enum tfc__order_kind {
	TFC__ORDER_END = 1,
	TFC__ORDER_HOLD = 2, /* number */
	TFC__ORDER_RELEASE = 3,
	TFC__ORDER_SPEC = 4,     /* for the launches that follow: generation, spec */
	TFC__ORDER_LAUNCH = 5,   /* attempt, generation */
	TFC__ORDER_SIGNAL = 6,   /* number: the signal's */
	TFC__ORDER_STOP = 7,     /* number: grace in ms */
	TFC__ORDER_QUERY = 8,    /* number */
	TFC__ORDER_STACKS = 9,   /* number: is_ending */
	TFC__ORDER_INSPECT = 10, /* number */
	TFC__ORDER_ENV = 11,     /* for the launches that follow: env */
};

struct tfc__order {
	enum tfc__order_kind kind; /* unknown values: from a later version */
	uint32_t task;
	uint32_t number;
	uint32_t attempt;
	uint32_t generation;
	tfc_spec *spec;         /* SPEC. After a read the caller owns it, in any case */
	const char *const *env; /* ENV: "NAME=value", NULL-terminated; or NULL */
};

void tfc__order_write(struct tfc__buf *buf, const struct tfc__order *order);
/* TFC_OK, TFC_ENOMEM, TFC_EPARSE, TFC_ESPEC. The kind is read first, so it is set for most orders
 * that fail. */
int tfc__order_read(struct tfc__reader *reader, const msgpack_object *object, tfc_error *error,
		    struct tfc__order *ret_order);

void tfc__event_write(struct tfc__buf *buf, const struct tfc__task_event *event);

/* TFC_OK, TFC_ENOMEM, TFC_EPARSE (also: a task or state that the job does not have). Kind 0: from a
 * later version. Its pointers are valid as long as the reader and the message. */
int tfc__event_read(struct tfc__reader *reader, const msgpack_object *object, uint32_t task_count,
		    tfc_error *error, struct tfc__task_event *ret_event);

#endif
