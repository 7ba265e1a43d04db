/* gateway: a client of 0.2 is refused at its first request, and a node of 0.2 gets no submit; both
 * versions are named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <tfcluster/version.h>
#include <unistd.h>

#include "base/clock.h"
#include "golden.h"
#include "node_run.h"
#include "served.h"

/* As 0.2.0 sent them: the preamble and the hello, then a request of each kind. */
#define HELLO                                                              \
	"895446430100000000000000000000000000002b93060183a66f6c6465737401" \
	"ab6d6573736167655f6d6178ce01000000a76c696272617279a5302e322e30"
#define NIL_TO_TAG                                                                 \
	"a47461736bc0a46e6f6465c0a36b6579c0aa646566696e6974696f6ec0a3746167c400ac" \
	"696e746572727570745f6d7300a46b696c6cc2a9666f72776172646564c2a36f6666c2a7" \
	"656e7669726f6ec2ae776974686f75745f6f7574707574c2"
static const char *const requests[] = {
	/* gateway.jobs */
	HELLO "0000007e960001ac676174657761792e6a6f62738da36a6f62c0" NIL_TO_TAG "a46c697665c20000",
	/* gateway.subscribe */
	HELLO "00000084960001b1676174657761792e7375627363726962658da36a6f62a178" NIL_TO_TAG
	      "a46c697665c30008",
};

static int connect_to(const char *address)
{
	struct sockaddr_un local = {.sun_family = AF_UNIX};
	struct sockaddr_in loopback = {.sin_family = AF_INET};
	bool is_unix = strncmp(address, "unix:", 5) == 0;
	int fd = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	if (is_unix) {
		snprintf(local.sun_path, sizeof(local.sun_path), "%s", address + 5);
		assert_int_equal(connect(fd, (struct sockaddr *)&local, sizeof(local)), 0);
	} else {
		loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		loopback.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
		assert_int_equal(connect(fd, (struct sockaddr *)&loopback, sizeof(loopback)), 0);
	}
	return fd;
}

/* The response to request 1, with this error and no result. */
static void write_refusal(const struct node_run *run, struct tfc__buf *buf)
{
	tfc_error error = TFC_ERROR_INIT;
	uint32_t own = tfc_version();
	tfc__fail(&error, TFC_ENOTSUP, "gateway", 0,
		  "incompatible versions: node \"%s\" has %u.%u.%u and the client has 0.2.0; "
		  "update the client",
		  "local", own >> 16, own >> 8 & 0xff, own & 0xff);
	tfc__msg_array(buf, 4);
	tfc__msg_u64(buf, 1);
	tfc__msg_u64(buf, 1);
	tfc__msg_error(buf, &error);
	tfc__msg_nil(buf);
	assert_false(buf->is_failed);
}

static void expect_refusal(struct node_run *run, const char *address, const char *request)
{
	char received[1024];
	size_t len = 0;
	struct tfc__buf sent = golden_bytes(request), refusal = {0};
	int fd = connect_to(address);
	write_refusal(run, &refusal);
	assert_int_equal(send(fd, sent.data, sent.len, MSG_NOSIGNAL), sent.len);
	for (uint64_t end = tfc__now() + 30 * TFC__SECOND;
	     len < refusal.len ||
	     memcmp(received + len - refusal.len, refusal.data, refusal.len) != 0;) {
		assert_true(tfc__now() < end);
		assert_true(tfc_ctx_run(run->ctx, 10) >= 0);
		ssize_t n = recv(fd, received + len, sizeof(received) - len, MSG_DONTWAIT);
		assert_true(n > 0 || errno == EAGAIN);
		len += n > 0 ? (size_t)n : 0;
	}
	close(fd);
	tfc__buf_fini(&sent);
	tfc__buf_fini(&refusal);
}

static void a_client_of_0_2_gets_both_versions(void **state)
{
	struct node_run run;
	char local[300];
	node_run_begin_served(&run, NULL);
	snprintf(local, sizeof(local), "unix:%s/old.sock", run.dir);
	const char *const addresses[] = {local, "tcp://127.0.0.1:0"};
	for (size_t i = 0; i < 2; i++) {
		struct served *served = served_begin(run.ctx, run.node, addresses[i], NULL, NULL);
		for (size_t j = 0; j < sizeof(requests) / sizeof(requests[0]); j++)
			expect_refusal(&run, served_address(served), requests[j]);
		served_end(served);
	}
	node_run_end(&run);
}

/* As a node of 0.2.0 answered gateway.hello. */
static const char hello_refused[] =
	"0000005994010184a4636f6465fda56572726e6f00a4726f6f6da767617465776179a474657874d9"
	"33676174657761792e68656c6c6f3a2074686973206e6f646527732076657273696f6e20646f6573"
	"206e6f74206b6e6f77206974c0";

static void send_bytes(int fd, const char *hex)
{
	struct tfc__buf bytes = golden_bytes(hex);
	assert_int_equal(send(fd, bytes.data, bytes.len, MSG_NOSIGNAL), bytes.len);
	tfc__buf_fini(&bytes);
}

/* Greets the client, and answers its first request. Adds what it sends to `received`. */
static void play_old_node(struct node_run *run, int listener, struct answer *answer,
			  struct tfc__buf *received)
{
	static const char hello[] = "gateway.hello";
	char bytes[1024];
	int fd = -1;
	bool has_answered = false;
	for (uint64_t end = tfc__now() + 30 * TFC__SECOND; !answer->count;) {
		assert_true(tfc__now() < end);
		assert_true(tfc_ctx_run(run->ctx, 10) >= 0);
		if (fd < 0 && (fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
			send_bytes(fd, HELLO);
		ssize_t n = fd < 0 ? 0 : recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		if (n > 0)
			tfc__buf_add(received, bytes, (size_t)n);
		if (!has_answered && received->len &&
		    memmem(received->data, received->len, hello, strlen(hello))) {
			send_bytes(fd, hello_refused);
			has_answered = true;
		}
	}
	close(fd);
}

static void a_node_of_0_2_gets_no_submit(void **state)
{
	static const char submit[] = "gateway.submit";
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	tfc_gateway_options options = TFC_GATEWAY_OPTIONS_INIT;
	tfc_gateway *gateway;
	struct node_run run;
	struct answer answer = {0};
	struct tfc__buf received = {0};
	char name[300], expected[600];
	tfc_job *job;
	uint32_t own = tfc_version();
	node_run_begin(&run, NULL);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/old.sock", run.dir);
	snprintf(name, sizeof(name), "unix:%s", address.sun_path);
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(listener, 1), 0);
	options.address = name;
	assert_int_equal(tfc_gateway_open(run.ctx, &options, &gateway), 0);
	char *json = node_script(1, "true");
	assert_int_equal(tfc_job_parse(json, strlen(json), NULL, NULL, &job), 0);
	assert_int_equal(tfc_gateway_submit(gateway, job, NULL, node_answer, &answer, NULL), 0);
	play_old_node(&run, listener, &answer, &received);
	assert_int_equal(answer.code, TFC_ENOTSUP);
	snprintf(expected, sizeof(expected),
		 "incompatible versions: node \"%s\" has 0.2.0 and the client has %u.%u.%u; update "
		 "the node",
		 name, own >> 16, own >> 8 & 0xff, own & 0xff);
	if (!strstr(answer.error, expected))
		fail_msg("%s", answer.error);
	assert_null(memmem(received.data, received.len, submit, strlen(submit)));
	node_answer_clear(&answer);
	tfc__buf_fini(&received);
	tfc_job_free(job);
	free(json);
	tfc_gateway_close(gateway);
	close(listener);
	node_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_of_0_2_gets_both_versions),
		cmocka_unit_test(a_node_of_0_2_gets_no_submit),
	};
	return cmocka_run_group_tests_name("gateway_old_peer", tests, NULL, NULL);
}
