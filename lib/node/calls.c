#include "node/calls.h"

#define TARGET(...) TFC__FIELD(struct tfc__agent_target, __VA_ARGS__)
static const struct tfc__field target_rows[] = {
	TARGET("instance", TFC__UINT, instance, TFC__V0_2),
	TARGET("handle", TFC__UINT, handle, TFC__V0_2),
	TARGET("id", TFC__TEXT, id, TFC__V0_2),
};
const struct tfc__fields tfc__agent_target_fields = TFC__FIELDS(target_rows,
								struct tfc__agent_target, NULL);

#define STAMP(...) TFC__FIELD(struct tfc__agent_stamp, __VA_ARGS__)
static const struct tfc__field stamp_rows[] = {
	STAMP("alone", TFC__BOOL, is_alone, TFC__V0_2),
	STAMP("boot", TFC__UINT, boot, TFC__V0_2),
	STAMP("stamp", TFC__UINT, stamp, TFC__V0_2),
	STAMP("will", TFC__DIGEST, will, TFC__V0_3),
};
const struct tfc__fields tfc__agent_stamp_fields = TFC__FIELDS(stamp_rows, struct tfc__agent_stamp,
							       NULL);

#define RENEWAL(...) TFC__FIELD(struct tfc__agent_renewal, __VA_ARGS__)
static const struct tfc__field renewal_rows[] = {
	RENEWAL("instance", TFC__UINT, instance, TFC__V0_2),
	RENEWAL("name", TFC__TEXT, name, TFC__V0_2),
	RENEWAL("stamp", TFC__UINT, stamp, TFC__V0_2),
	RENEWAL("lease_ms", TFC__UINT, lease_ms, TFC__V0_2),
};
const struct tfc__fields tfc__agent_renewal_fields = TFC__FIELDS(renewal_rows,
								 struct tfc__agent_renewal, NULL);

#define OPEN(...) TFC__FIELD(struct tfc__call_open, __VA_ARGS__)
static const struct tfc__field open_rows[] = {
	OPEN("instance", TFC__UINT, target.instance, TFC__V0_2),
	OPEN("handle", TFC__UINT, target.handle, TFC__V0_2),
	OPEN("id", TFC__TEXT, target.id, TFC__V0_2),
	OPEN("epoch", TFC__UINT, epoch, TFC__V0_2),
	OPEN("received", TFC__UINT, received, TFC__V0_2),
	OPEN("job", TFC__BYTES, job_json, TFC__V0_2,
	     .count = offsetof(struct tfc__call_open, job_json_len)),
	OPEN("minimal_env", TFC__BOOL, has_minimal_env, TFC__V0_3),
	OPEN("tag", TFC__BYTES, host_tag, TFC__V0_2,
	     .count = offsetof(struct tfc__call_open, host_tag_len)),
	OPEN("bundle", TFC__MESSAGE, bundle, TFC__V0_2, .nested = &tfc__bundle_offer_fields),
	OPEN("bundle_error", TFC__STRING, bundle_error, TFC__V0_2),
	OPEN("refused", TFC__STRING, refused, TFC__V0_3),
};
static const struct tfc__call_open no_open = {.has_minimal_env = true};
const struct tfc__fields tfc__agent_open_fields = TFC__FIELDS(open_rows, struct tfc__call_open,
							      &no_open);

#define OPENED(...) TFC__FIELD(struct tfc__call_opened, __VA_ARGS__)
static const struct tfc__field opened_rows[] = {
	OPENED("state", TFC__TEXT, state, TFC__V0_2),
	OPENED("received", TFC__UINT, received, TFC__V0_2),
};
const struct tfc__fields tfc__agent_opened_fields = TFC__FIELDS(opened_rows,
								struct tfc__call_opened, NULL);

#define MESSAGE(...) TFC__FIELD(struct tfc__agent_message, __VA_ARGS__)
static const struct tfc__field message_rows[] = {
	MESSAGE("instance", TFC__UINT, instance, TFC__V0_2),
	MESSAGE("handle", TFC__UINT, handle, TFC__V0_2),
	MESSAGE("ack", TFC__UINT, ack, TFC__V0_2),
	MESSAGE("n", TFC__UINT, number, TFC__V0_2),
	MESSAGE("gone", TFC__TEXT, gone, TFC__V0_2),
};
static const struct tfc__fields message_fields = TFC__FIELDS(message_rows,
							     struct tfc__agent_message, NULL);

int tfc__agent_message_read(const msgpack_object *params, tfc_error *error,
			    struct tfc__agent_message *ret_message)
{
	int code = tfc__fields_read(NULL, &message_fields, params, error, ret_message);
	ret_message->body = tfc__msg_get(params, "body");
	return code;
}

void tfc__agent_message_write(struct tfc__buf *buf, const struct tfc__agent_message *message)
{
	tfc__fields_write(buf, &message_fields, message);
}

void tfc__link_write(struct tfc__buf *buf, uint64_t instance, uint64_t handle,
		     struct tfc__agent_link *link, const struct tfc__agent_link_message *message)
{
	const struct tfc__agent_message sent = {
		.instance = instance,
		.handle = handle,
		.ack = tfc__agent_link_ack(link),
		.number = message ? message->number : 0,
	};
	tfc__msg_map(buf, tfc__fields_pairs(&message_fields, &sent) + !!message);
	tfc__fields_put(buf, &message_fields, &sent);
	if (!message)
		return;
	tfc__msg_str(buf, "body");
	tfc__buf_add(buf, message->data, message->len);
}

int tfc__link_flush(struct tfc__agent_link *link, uint64_t instance, uint64_t handle,
		    int (*send)(void *user, const struct tfc__buf *params), void *user)
{
	const struct tfc__agent_link_message *message;
	while ((message = tfc__agent_link_next(link)) || tfc__agent_link_needs_ack(link)) {
		struct tfc__buf params = {0};
		tfc__link_write(&params, instance, handle, link, message);
		int code = send(user, &params);
		tfc__buf_fini(&params);
		if (code < 0) {
			tfc__agent_link_undo(link, message);
			return code;
		}
	}
	return TFC_OK;
}

int tfc__link_receive(struct tfc__agent_link *link, const struct tfc__agent_message *message)
{
	int code = tfc__agent_link_clear(link, message->ack);
	return code < 0 || !message->body ? code : tfc__agent_link_receive(link, message->number);
}

/* ---- logs */

#define LOG(...) TFC__FIELD(struct tfc__agent_log_call, __VA_ARGS__)
static const struct tfc__field log_rows[] = {
	LOG("id", TFC__TEXT, id, TFC__V0_2),
	LOG("task", TFC__UINT, task, TFC__V0_2),
	LOG("name", TFC__TEXT, name, TFC__V0_2),
	LOG("position", TFC__UINT, position, TFC__V0_2),
};
const struct tfc__fields tfc__agent_log_fields = TFC__FIELDS(log_rows, struct tfc__agent_log_call,
							     NULL);

void tfc__log_record_write(struct tfc__buf *buf, const tfc_log_record *record)
{
	tfc__msg_array(buf, 7);
	tfc__msg_u64(buf, record->stream);
	tfc__msg_u64(buf, record->attempt);
	tfc__msg_u64(buf, record->time_ns);
	tfc__msg_u64(buf, record->position);
	tfc__msg_u64(buf, record->next);
	tfc__msg_u64(buf, record->len);
	if (record->data)
		tfc__msg_bin(buf, record->data, record->len);
	else
		tfc__msg_nil(buf);
}

bool tfc__log_record_read(const msgpack_object *object, tfc_log_record *ret_record)
{
	if (object->type != MSGPACK_OBJECT_ARRAY || object->via.array.size < 7)
		return false;
	const msgpack_object *parts = object->via.array.ptr, *data = &parts[6];
	for (int i = 0; i < 6; i++)
		if (parts[i].type != MSGPACK_OBJECT_POSITIVE_INTEGER)
			return false;
	bool is_gap = data->type == MSGPACK_OBJECT_NIL;
	if (!is_gap && (data->type != MSGPACK_OBJECT_BIN || data->via.bin.size != parts[5].via.u64))
		return false;
	*ret_record = (tfc_log_record){
		.size = sizeof(*ret_record),
		.stream = (uint32_t)parts[0].via.u64,
		.attempt = (uint32_t)parts[1].via.u64,
		.time_ns = parts[2].via.u64,
		.position = parts[3].via.u64,
		.next = parts[4].via.u64,
		.data = is_gap ? NULL : data->via.bin.ptr,
		.len = parts[5].via.u64,
	};
	return true;
}

/* ---- nodes */

static const struct tfc__field drain_rows[] = {
	TFC__FIELD(struct tfc__drain_params, "off", TFC__BOOL, is_off, TFC__V0_2),
};
const struct tfc__fields tfc__drain_fields = TFC__FIELDS(drain_rows, struct tfc__drain_params,
							 NULL);

static const struct tfc__field ids_rows[] = {
	TFC__FIELD(struct tfc__ids, "ids", TFC__LINES, ids, TFC__V0_2),
};
const struct tfc__fields tfc__ids_fields = TFC__FIELDS(ids_rows, struct tfc__ids, NULL);
