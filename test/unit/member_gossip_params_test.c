/* member: a message over a stream is that of its connection's node, and of this version. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "member/gossip_internal.h"
#include <tfcluster/error.h>

#define ID_A "000102030405060708090a0b0c0d0e0f"
#define ID_B "ff0102030405060708090a0b0c0d0e0f"

/* A message as a node writes it, but for what the case changes. */
static void write_message(struct tfc__buf *buf, uint32_t version, const char *node_id,
			  const char *data)
{
	tfc__msg_map(buf, data ? 6 : 5);
	tfc__msg_put_str(buf, "name", "n");
	tfc__msg_put_str(buf, "node_id", node_id);
	tfc__msg_put_str(buf, "address", "tcp://10.0.0.1:7400");
	tfc__msg_put_u64(buf, "version", version);
	tfc__msg_put_u64(buf, "generation", 7);
	if (data)
		tfc__msg_put_bin(buf, "data", data, strlen(data));
	assert_false(buf->is_failed);
}

static void sender_is_that_of_the_connection(void **state)
{
	static const struct {
		uint32_t version;
		const char *node_id, *data, *connection;
		int code;
	} cases[] = {
		{TFC__GOSSIP_VERSION, ID_A, "frame", ID_A, TFC_OK},
		{TFC__GOSSIP_VERSION, ID_A, "frame", "", TFC_OK}, /* plain, on the loopback */
		{TFC__GOSSIP_VERSION, ID_A, "frame", ID_B, TFC_EACCES},
		{TFC__GOSSIP_VERSION + 1, ID_A, "frame", ID_A, TFC_EINVAL},
		{0, ID_A, "frame", ID_A, TFC_EINVAL},
		{TFC__GOSSIP_VERSION, ID_A, NULL, ID_A, TFC_EINVAL},
		{TFC__GOSSIP_VERSION, "0001", "frame", "", TFC_EINVAL},
		{TFC__GOSSIP_VERSION, "not a node id", "frame", "", TFC_EINVAL},
		{TFC__GOSSIP_VERSION, "", "frame", "", TFC_EINVAL},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tfc__buf buf = {0};
		struct tfc__msg msg;
		struct tfc__gossip_params params;
		struct tfc__gossip_event event = {.kind = TFC__GOSSIP_REQUEST};
		tfc_error error = TFC_ERROR_INIT;
		write_message(&buf, cases[i].version, cases[i].node_id, cases[i].data);
		assert_int_equal(tfc__msg_parse(&msg, buf.data, buf.len, NULL, &error), TFC_OK);
		int code = tfc__gossip_params_read(&msg.root, cases[i].connection, &error, &params,
						   &event);
		assert_int_equal(code, cases[i].code);
		if (code == TFC_OK) {
			for (uint8_t at = 0; at < TFC__GOSSIP_ID_SIZE; at++)
				assert_int_equal(event.id.bytes[at], at);
			assert_int_equal(event.generation, 7);
			assert_int_equal(event.len, strlen("frame"));
			assert_memory_equal(event.bytes, "frame", event.len);
			assert_string_equal(params.name, "n");
		} else {
			assert_null(event.bytes);
		}
		tfc__msg_fini(&msg);
		tfc__buf_fini(&buf);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sender_is_that_of_the_connection),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
