/*
 * Orders and events of agents as messages (doc/internals/methods.md): each is a struct and the
 * table of its fields (wire/fields.h).
 */
#ifndef TFC_NODE_AGENT_WIRE_H
#define TFC_NODE_AGENT_WIRE_H

#include "agent/agent_ops.h"
#include "base/names.h"
#include "base/strv.h"
#include "node/agent_link.h"
#include "wire/fields.h"

/* The numbers are on the wire. */
enum tfc__order_kind {
	TFC__ORDER_END = 1,
	TFC__ORDER_HOLD = 2, /* number */
	TFC__ORDER_RELEASE = 3,
	TFC__ORDER_SPEC = 4,   /* of the launches that follow: generation, spec */
	TFC__ORDER_LAUNCH = 5, /* attempt, generation */
	TFC__ORDER_SIGNAL = 6, /* number: the signal's */
	TFC__ORDER_STOP = 7,   /* number: grace in ms */
	TFC__ORDER_QUERY = 8,  /* number */
	TFC__ORDER_STACKS = 9, /* number: is_ending */
	TFC__ORDER_LOOK = 10,  /* number */
	TFC__ORDER_ENV = 11,   /* of the launches that follow: env */
};

struct tfc__order {
	enum tfc__order_kind kind; /* another one: of a later version */
	uint32_t task;
	uint32_t number;
	uint32_t attempt;
	uint32_t generation;
	tfc_spec *spec;         /* SPEC; one that was read is the caller's, in any case */
	const char *const *env; /* ENV: "NAME=value", NULL-terminated; or NULL */
};

void tfc__order_write(struct tfc__buf *buf, const struct tfc__order *order);
/* TFC_OK, TFC_ENOMEM, TFC_EPARSE, TFC_ESPEC. The kind comes first: it is known of most orders that
 * fail. */
int tfc__order_read(struct tfc__reader *reader, const msgpack_object *object, tfc_error *error,
		    struct tfc__order *ret_order);

/* An event with what goes along. */
struct tfc__event {
	struct tfc__agent_event event; /* kind 0: of a later version */
	uint64_t state_count;          /* how many there are: of each task one, or none */
	const char *const *log_tail;   /* EXITED: the last lines, NULL-terminated; or NULL */
};

/* log_tail: NULL-terminated lines that go along, or NULL. */
void tfc__event_write(struct tfc__buf *buf, const struct tfc__agent_event *event,
		      uint32_t task_count, char *const *log_tail);

/* TFC_OK, TFC_ENOMEM, TFC_EPARSE (also: a task or state that the job does not have). What it points
 * to lives as long as the reader and the message. */
int tfc__event_read(struct tfc__reader *reader, const msgpack_object *object, uint32_t task_count,
		    tfc_error *error, struct tfc__event *ret_event);

/* "ids": those of jobs whose logs go, or that are asked about. */
void tfc__ids_write(struct tfc__buf *buf, const struct tfc__strv *ids);
/* A text of a list, copied; false: it is none, or does not fit. */
bool tfc__text_read(const msgpack_object *value, char *text, size_t size);
/* The id of a job, copied; false: it is none. A path of logs and private directories is made of it,
 * so no other way leads from a message to one. */
bool tfc__job_id_read(const msgpack_object *value, char id[TFC__JOB_ID_SIZE]);

/* One message of a link, or, NULL, its acknowledgement alone. `instance` is the maintainer's. */
void tfc__link_write(struct tfc__buf *buf, uint64_t instance, uint64_t handle,
		     struct tfc__agent_link *link, const struct tfc__agent_link_message *message);
/* As tfc__agent_link_take: 1 when the "body" of params is to be delivered. */
int tfc__link_read(struct tfc__agent_link *link, const msgpack_object *params);

#endif
