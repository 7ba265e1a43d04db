/*
 * Params, results and items of the calls between nodes (doc/internals/methods.md), except the hello
 * (hello.h) and orders and events (agent_wire.h). Each is a struct and the table of its fields
 * (wire/fields.h).
 */
#ifndef TFC_NODE_CALLS_H
#define TFC_NODE_CALLS_H

#include "agent/agent_ops.h"
#include "base/names.h"
#include "bundle/transfer.h"
#include "node/agent_link.h"
#include "proc/will.h"
#include "wire/fields.h"

/* The session and the job of a call: agent.drop has all fields, agent.stamp and agent.stay have the
 * instance. */
struct tfc__agent_target {
	uint64_t instance; /* of the maintainer */
	uint64_t handle;   /* the maintainer's number of the job */
	char id[TFC__JOB_ID_SIZE];
};
extern const struct tfc__fields tfc__agent_target_fields;

struct tfc__agent_stamp {
	bool is_alone; /* no task of a previous incarnation is alive */
	uint64_t boot; /* random: identifies the process */
	uint64_t stamp;
	uint8_t will[TFC__WILL_COMMITMENT]; /* commitment to its last will; 0: it has none */
};
extern const struct tfc__fields tfc__agent_stamp_fields;

struct tfc__agent_renewal {
	uint64_t instance;
	char name[256]; /* of the maintainer's node */
	uint64_t stamp;
	uint64_t lease_ms;
};
extern const struct tfc__fields tfc__agent_renewal_fields;

/* The fields after `received` are only sent when the job is opened anew. */
struct tfc__call_open {
	struct tfc__agent_target target;
	uint64_t epoch;
	uint64_t received; /* events up to this number were received */
	const void *job_json;
	uint64_t job_json_len;
	bool has_minimal_env;
	const void *host_tag;
	uint64_t host_tag_len;
	const struct tfc__bundle_offer *bundle;
	const char *bundle_error; /* instead of `bundle`: why it could not be packed */
	const char *refused;      /* why no task of the job can run there */
};
extern const struct tfc__fields tfc__agent_open_fields;

/* The result of agent.open and agent.drop. */
struct tfc__call_opened {
	char state[16];    /* "open", "busy", "fenced", "unknown" */
	uint64_t received; /* orders up to this number were received */
};
extern const struct tfc__fields tfc__agent_opened_fields;

/* agent.msg, and an item of agent.stay. */
struct tfc__agent_message {
	uint64_t instance;
	uint64_t handle;
	uint64_t ack;               /* messages up to this number were received */
	uint64_t number;            /* of the body */
	char gone[16];              /* "fenced", "lost": the job is being ended there */
	const msgpack_object *body; /* NULL: none. tfc__link_write writes it */
};
int tfc__agent_message_read(const msgpack_object *params, tfc_error *error,
			    struct tfc__agent_message *ret_message);
void tfc__agent_message_write(struct tfc__buf *buf, const struct tfc__agent_message *message);

/* Writes one message of a link or, if NULL, only its acknowledgement. `instance` is the
 * maintainer's. */
void tfc__link_write(struct tfc__buf *buf, uint64_t instance, uint64_t handle,
		     struct tfc__agent_link *link, const struct tfc__agent_link_message *message);
/* Sends what is due: the messages that were not sent over this connection, and an acknowledgement.
 * Returns the code of the first `send` that failed; that message is sent again. */
int tfc__link_flush(struct tfc__agent_link *link, uint64_t instance, uint64_t handle,
		    int (*send)(void *user, const struct tfc__buf *params), void *user);
/* As tfc__agent_link_receive: 1 if the body is to be delivered. */
int tfc__link_receive(struct tfc__agent_link *link, const struct tfc__agent_message *message);

struct tfc__agent_log_call {
	char id[TFC__JOB_ID_SIZE];
	uint32_t task;
	char name[TFC__LOG_NAME_SIZE];
	uint64_t position;
};
extern const struct tfc__fields tfc__agent_log_fields;

/* A record of a log is a list, not a map: an item of agent.log has up to a thousand. False: it is
 * not a record. The data of *ret_record is borrowed. */
void tfc__log_record_write(struct tfc__buf *buf, const tfc_log_record *record);
bool tfc__log_record_read(const msgpack_object *object, tfc_log_record *ret_record);

struct tfc__drain_params {
	bool is_off; /* undrain */
};
extern const struct tfc__fields tfc__drain_fields;

/* agent.forget and node.known: ids of jobs, NULL-terminated; NULL: none. A reader must check each
 * with tfc__is_job_id, because paths are derived from it. */
struct tfc__ids {
	const char *const *ids;
};
extern const struct tfc__fields tfc__ids_fields;

#endif
