/*
 * Orders and events of agents as messages (doc/internals/methods.md): maps with named keys, of
 * which unknown ones are ignored.
 *
 * Times of processes travel on the sender's CLOCK_BOOTTIME, since machines do not agree on the
 * time of day; the receiver knows how far its own is ahead.
 */
#ifndef TFC_NODE_AGENT_WIRE_H
#define TFC_NODE_AGENT_WIRE_H

#include "agent/agent_ops.h"
#include "base/names.h"
#include "base/strv.h"
#include "node/agent_link.h"
#include "wire/msg.h"

enum tfc__order_kind {
	TFC__ORDER_END = 1,
	TFC__ORDER_HOLD, /* number */
	TFC__ORDER_RELEASE,
	TFC__ORDER_SPEC,   /* of the launches that follow: generation, spec */
	TFC__ORDER_LAUNCH, /* attempt, generation */
	TFC__ORDER_SIGNAL, /* number: the signal's */
	TFC__ORDER_STOP,   /* number: grace in ms */
	TFC__ORDER_QUERY,  /* number */
	TFC__ORDER_STACKS, /* number: is_ending */
	TFC__ORDER_LOOK,   /* number */
	TFC__ORDER_ENV,    /* of the launches that follow: env */
};

struct tfc__order {
	enum tfc__order_kind kind;
	uint32_t task;
	uint32_t number;
	uint32_t attempt;
	uint32_t generation;
	const tfc_spec *spec;   /* SPEC, when it is written */
	const char *const *env; /* ENV, when it is written */
};

void tfc__order_write(struct tfc__buf *buf, const struct tfc__order *order);
/* A kind that nobody knows stays 0. */
void tfc__order_read(const msgpack_object *object, struct tfc__order *ret_order);
/* The spec of an order. TFC_OK, TFC_ENOMEM, TFC_ESPEC, TFC_EPARSE. The caller owns *ret_spec. */
int tfc__order_read_spec(const msgpack_object *object, tfc_error *error, tfc_spec **ret_spec);

/* The variables of an order. The caller ends it with tfc__strv_fini; is_failed: no memory. */
void tfc__order_read_env(const msgpack_object *object, struct tfc__strv *ret_env);

/* log_tail: NULL-terminated lines that go along, or NULL. */
void tfc__event_write(struct tfc__buf *buf, const struct tfc__agent_event *event,
		      uint32_t task_count, char *const *log_tail);

/* An event that has come, with all that it points to. */
struct tfc__event {
	struct tfc__agent_event event; /* kind 0: nobody knows it */
	tfc_process_event process;
	struct tfc__agent_looked looked[TFC__AGENT_LOOKED_MAX];
	char address[300];
	char text[512];
	char process_text[512];
	char **log_tail; /* or NULL; the caller's, for tfc_strv_free */
};

/* ahead_ns: what the reader's CLOCK_BOOTTIME is ahead of the writer's. TFC_OK, TFC_ENOMEM,
 * TFC_EPARSE (a task or state that the job does not have). */
int tfc__event_read(const msgpack_object *object, uint32_t task_count, int64_t ahead_ns,
		    struct tfc__event *ret_event);

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
