/* gateway: a client of 0.2 is refused at its first request, with both versions. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_of_0_2_gets_both_versions),
	};
	return cmocka_run_group_tests_name("gateway_old_client", tests, NULL, NULL);
}
