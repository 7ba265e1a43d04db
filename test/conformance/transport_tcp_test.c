/* transport: what only tcp has: names, the loopback, addresses in use. */
#include "transports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sockets.h"
#include "transport/address.h"

static int listen_on(struct world *world, const char *address, struct peer_side *in,
		     struct tfc__peer_listener **ret_listener, tfc_error *error)
{
	const struct tfc__listen_options options = {.address = address, .keyring = world->keyring};
	return tfc__peer_listen(world->ctx, &options, peer_side_accept, in, error, ret_listener);
}

static int dial_to(struct world *world, const char *address, struct peer_side *out,
		   tfc_error *error)
{
	const struct tfc__dial_options options = {.address = address,
						  .keyring = world->keyring,
						  .timeout_ms = 15000};
	return tfc__peer_dial(world->ctx, &options, &peer_side_ops, out, error, &out->peer);
}

static uint32_t port_of(const char *address)
{
	return (uint32_t)strtoul(strrchr(address, ':') + 1, NULL, 10);
}

/* ---- addresses */

static void an_address_that_is_none_is_refused_with_a_sentence(void **state)
{
	static const struct {
		const char *address, *text;
	} bad[] = {
		{"", "write tcp://HOST:PORT"},
		{"nonsense", "write tcp://HOST:PORT"},
		{"http://a:1", "write tcp://HOST:PORT"},
		{"tcp:127.0.0.1:1", "// is missing"},
		{"tcp://127.0.0.1", "the port is missing"},
		{"tcp://127.0.0.1:", "must be a number"},
		{"tcp://127.0.0.1:65536", "must be a number"},
		{"tcp://127.0.0.1:-1", "must be a number"},
		{"tcp://127.0.0.1:1x", "must be a number"},
		{"tcp://:1", "the host name must have"},
		{"tcp://::1:1", "in brackets"},
		{"tcp://[::1]", "the port is missing"},
		{"tcp://[::1]1", "the port is missing"},
		{"tcp://[1.2.3.4]:1", "brackets do not hold an IPv6 address"},
		{"tcp://[]:1", "the host name must have"},
		{"tcp://[::x]:1", "brackets do not hold an IPv6 address"},
		{"tcp://1.2.3:1", "not a valid IPv4 address"},
		{"tcp://1.2.3.256:1", "not a valid IPv4 address"},
		{"tcp://a b:1", "letters, digits"},
		{"tcp://-a:1", "letters, digits"},
		{"tcp://a/b:1", "letters, digits"},
		{"tcp://127.0.0.1:0", "port 0"},
		{"unix:relative", "absolute path"},
		{"memory:", "write memory:NAME"},
	};
	struct world world;
	world_begin(&world, *state);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		tfc_error error = TFC_ERROR_INIT;
		struct peer_side out = {0};
		assert_int_equal(dial_to(&world, bad[i].address, &out, &error), TFC_EINVAL);
		if (!strstr(error.text, bad[i].text))
			fail_msg("%s: %s", bad[i].address, error.text);
	}
	world_end(&world);
}

static void every_loopback_address_is_one(void **state)
{
	static const struct {
		const char *address;
		bool is_loopback;
	} cases[] = {
		{"tcp://127.0.0.1:1", true},
		{"tcp://127.255.0.3:1", true},
		{"tcp://[::1]:1", true},
		{"tcp://[::ffff:127.0.0.1]:1", true},
		{"tcp://localhost:1", true},
		{"tcp://128.0.0.1:1", false},
		{"tcp://0.0.0.0:1", false},
		{"tcp://[::]:1", false},
		{"tcp://[::ffff:10.0.0.1]:1", false},
		{"tcp://[fe80::1]:1", false},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct tfc__tcp_host host;
		assert_int_equal(tfc__tcp_parse(cases[i].address, NULL, &host), TFC_OK);
		assert_int_equal(tfc__tcp_is_loopback(&host.addresses[0]), cases[i].is_loopback);
	}
}

/* ---- no key, no door to other machines */

static void without_a_key_only_the_loopback_is_listened_on(void **state)
{
	static const char *const open[] = {"tcp://0.0.0.0:0", "tcp://[::]:0", "tcp://192.0.2.1:0"};
	struct world world;
	struct peer_side in = {0};
	struct tfc__peer_listener *listener = NULL;
	world_begin(&world, *state);
	for (size_t i = 0; i < 3; i++) {
		tfc_error error = TFC_ERROR_INIT;
		assert_int_equal(listen_on(&world, open[i], &in, &listener, &error), TFC_EINVAL);
		assert_non_null(strstr(error.text, "tfc_run keygen"));
		assert_non_null(strstr(error.text, open[i]));
		assert_null(listener);
	}
	world_end(&world);
}

static void without_a_key_only_the_loopback_is_dialed(void **state)
{
	struct world world;
	struct peer_side out = {0};
	world_begin(&world, *state);
	assert_int_equal(dial_to(&world, "tcp://192.0.2.1:4711", &out, NULL), TFC_OK);
	AWAIT(&world, out.is_down);
	assert_int_equal(out.why.code, TFC_EINVAL);
	assert_non_null(strstr(out.why.text, "key_file"));
	tfc__peer_close(out.peer);
	world_end(&world);
}

static void with_a_key_all_addresses_may_be_listened_on(void **state)
{
	static const char *const all[] = {"tcp://0.0.0.0:0", "tcp://[::]:0"};
	struct world world;
	world_begin(&world, *state);
	for (size_t i = 0; i < 2; i++) {
		struct peer_side in = {0}, out = {0};
		struct tfc__peer_listener *listener;
		char address[64];
		assert_int_equal(listen_on(&world, all[i], &in, &listener, NULL), TFC_OK);
		snprintf(address, sizeof(address), "tcp://127.0.0.1:%u",
			 port_of(tfc__peer_listener_address(listener)));
		assert_int_equal(dial_to(&world, address, &out, NULL), TFC_OK);
		AWAIT(&world, out.is_up && in.is_up);
		assert_non_null(strstr(in.id.address, "tcp://127.0.0.1:"));
		tfc__peer_close(out.peer);
		tfc__peer_close(in.peer);
		tfc__peer_listener_close(listener);
	}
	world_end(&world);
}

/* ---- who is there */

static void a_port_in_use_is_said(void **state)
{
	struct world world;
	struct peer_side in = {0};
	struct tfc__peer_listener *listener = NULL;
	struct test_hold held;
	char address[64];
	tfc_error error = TFC_ERROR_INIT;
	world_begin(&world, *state);
	assert_int_equal(test_hold_open(&held), 0);
	snprintf(address, sizeof(address), "tcp://127.0.0.1:%u", held.port);
	assert_int_equal(listen_on(&world, address, &in, &listener, &error), TFC_EBUSY);
	assert_non_null(strstr(error.text, address));
	assert_null(listener);
	assert_int_equal(listen_on(&world, "tcp://192.0.2.7:4711", &in, &listener, &error),
			 TFC_EINVAL);
	assert_int_equal(listen_on(&world, "tcp://somewhere:4711", &in, &listener, &error),
			 TFC_EINVAL);
	assert_non_null(strstr(error.text, "tcp://0.0.0.0:4711"));
	test_hold_close(&held);
	world_end(&world);
}

static void a_port_of_nobody_is_unreachable(void **state)
{
	struct world world;
	struct peer_side out = {0};
	struct test_hold held; /* bound, and nobody listens */
	char address[64];
	world_begin(&world, *state);
	assert_int_equal(test_hold_open(&held), 0);
	snprintf(address, sizeof(address), "tcp://127.0.0.1:%u", held.port);
	assert_int_equal(dial_to(&world, address, &out, NULL), TFC_OK);
	AWAIT(&world, out.is_down);
	assert_int_equal(out.why.code, TFC_EUNREACH);
	assert_non_null(strstr(out.why.text, address));
	assert_non_null(strstr(out.why.text, "refused"));
	tfc__peer_close(out.peer);
	test_hold_close(&held);
	world_end(&world);
}

/* Another user connects over the loopback, without a key: the kernel names the user, and the
 * connection is refused.
 */
static void another_user_of_this_machine_is_refused(void **state)
{
	struct world world;
	struct peer_side in = {0};
	struct tfc__peer_listener *listener;
	int status;
	if (geteuid() != 0)
		skip();
	world_begin(&world, *state);
	assert_int_equal(listen_on(&world, "tcp://127.0.0.1:0", &in, &listener, NULL), TFC_OK);
	uint16_t port = (uint16_t)port_of(tfc__peer_listener_address(listener));
	pid_t pid = fork();
	if (pid == 0) {
		char answer[16];
		int fd = setresuid(12345, 12345, 12345) < 0 ? -1 : test_connect(port);
		if (fd < 0)
			_exit(3);
		/* it may be refused before */
		send(fd, "\x89TFC\x01\0\0\0\0\0\0\0\0\0\0\0", 16, MSG_NOSIGNAL);
		_exit(read(fd, answer, 16) == 16 && answer[5] != 2 ? 4 : 0);
	}
	AWAIT(&world, world.logs == 1);
	assert_non_null(strstr(world.log, "user 12345"));
	assert_false(in.is_up);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	tfc__peer_listener_close(listener);
	world_end(&world);
}

/* ---- no descriptor is left */

static int highest_fd(void)
{
	int fd = dup(0);
	close(fd);
	return fd;
}

static void a_listener_without_descriptors_goes_on_later(void **state)
{
	struct world world;
	struct raw accepted;
	struct raw_listener listener;
	struct rlimit before, none;
	world_begin(&world, *state);
	raw_listen(&world, world.address, &listener, &accepted);
	int fd = test_connect((uint16_t)port_of(tfc__listener_address(listener.listener)));
	assert_true(fd >= 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){(rlim_t)highest_fd(), before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	AWAIT(&world, world.logs == 1);
	world_settle(&world); /* it rests: no turn is left to do */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_non_null(strstr(world.log, "cannot accept a connection"));
	AWAIT(&world, accepted.pipe);
	close(fd);
	raw_close(&accepted);
	tfc__listener_close(listener.listener);
	world_end(&world);
}

/* ---- names */

/* A stand-in for tfc-resolve that says what the test wants. */
static void resolve_with(struct world *world, const char *script)
{
	char path[LEAKS_PATH + 32];
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	snprintf(path, sizeof(path), "%s/tfc-resolve", world->dir);
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	fprintf(file, "#!/bin/sh\n%s\n", script);
	fclose(file);
	assert_int_equal(chmod(path, 0700), 0);
	tfc_ctx_free(world->ctx);
	options.helper_dir = world->dir;
	assert_int_equal(tfc_ctx_new(&options, NULL, &world->ctx), TFC_OK);
}

static void a_name_is_resolved_and_every_address_tried(void **state)
{
	struct world world;
	struct peer_side in = {0}, out = {0};
	struct tfc__peer_listener *listener;
	char address[64];
	world_begin(&world, *state);
	resolve_with(&world, "test \"$1\" = some.host && echo 127.0.0.2 && echo nonsense && "
			     "echo ::1 && echo 127.0.0.1 && echo .");
	assert_int_equal(listen_on(&world, "tcp://127.0.0.1:0", &in, &listener, NULL), TFC_OK);
	snprintf(address, sizeof(address), "tcp://some.host:%u",
		 port_of(tfc__peer_listener_address(listener)));
	assert_int_equal(dial_to(&world, address, &out, NULL), TFC_OK);
	AWAIT(&world, out.is_up && in.is_up);
	tfc__peer_close(out.peer);
	tfc__peer_close(in.peer);
	tfc__peer_listener_close(listener);

	out = (struct peer_side){0};
	assert_int_equal(dial_to(&world, address, &out, NULL), TFC_OK);
	AWAIT(&world, out.is_down);
	assert_int_equal(out.why.code, TFC_EUNREACH);
	assert_non_null(strstr(out.why.text, address));
	assert_non_null(strstr(out.why.text, "3 addresses tried"));
	tfc__peer_close(out.peer);
	world_end(&world);
}

static void a_name_that_is_none_is_said(void **state)
{
	static const struct {
		const char *script, *text;
	} cases[] = {
		{"echo '!Name or service not known'; echo .", "Name or service not known"},
		{"echo .", "no address"},
		{"exit 1", "no address"},
		{"head -c 100000 /dev/zero", "no address"},
		{"echo nonsense; echo .", "no address"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct world world;
		struct peer_side out = {0};
		world_begin(&world, *state);
		resolve_with(&world, cases[i].script);
		assert_int_equal(dial_to(&world, "tcp://some.host:4711", &out, NULL), TFC_OK);
		AWAIT(&world, out.is_down);
		assert_int_equal(out.why.code, TFC_ENOENT);
		assert_non_null(strstr(out.why.text, "some.host"));
		assert_non_null(strstr(out.why.text, cases[i].text));
		tfc__peer_close(out.peer);
		world_end(&world);
	}
}

/* A resolver that hangs costs the loop nothing, and is gone with the one who asked. */
static void a_slow_resolver_keeps_nobody_waiting(void **state)
{
	struct world world;
	struct peer_side in = {0}, out = {0}, slow = {0};
	struct tfc__peer_listener *listener;
	world_begin(&world, *state);
	resolve_with(&world, "exec sleep 1000");
	assert_int_equal(dial_to(&world, "tcp://slow.host:4711", &slow, NULL), TFC_OK);
	assert_int_equal(listen_on(&world, "tcp://127.0.0.1:0", &in, &listener, NULL), TFC_OK);
	assert_int_equal(dial_to(&world, tfc__peer_listener_address(listener), &out, NULL), TFC_OK);
	AWAIT(&world, out.is_up && in.is_up);
	assert_false(slow.is_down);
	tfc__peer_close(slow.peer); /* leaks.c looks for the sleep */
	tfc__peer_close(out.peer);
	tfc__peer_close(in.peer);
	tfc__peer_listener_close(listener);
	world_end(&world);
}

static void no_resolver_is_said(void **state)
{
	struct world world;
	struct peer_side out = {0};
	world_begin(&world, *state);
	resolve_with(&world, "");
	char path[LEAKS_PATH + 32];
	snprintf(path, sizeof(path), "%s/tfc-resolve", world.dir);
	unlink(path);
	assert_int_equal(dial_to(&world, "tcp://some.host:4711", &out, NULL), TFC_OK);
	AWAIT(&world, out.is_down);
	assert_non_null(strstr(out.why.text, path));
	tfc__peer_close(out.peer);
	world_end(&world);
}

static void the_resolver_asks_the_system(void **state)
{
	char command[512], line[256] = "";
	snprintf(command, sizeof(command), "%s/tfc-resolve localhost", getenv("TFC_HELPER_DIR"));
	FILE *output = popen(command, "r");
	assert_non_null(output);
	assert_non_null(fgets(line, sizeof(line), output));
	assert_true(strcmp(line, "127.0.0.1\n") == 0 || strcmp(line, "::1\n") == 0);
	while (fgets(line, sizeof(line), output))
		;
	assert_string_equal(line, ".\n");
	assert_int_equal(pclose(output), 0);
	/* a label that is too long for DNS (RFC 1035, section 2.3.4): no server is asked */
	snprintf(command, sizeof(command), "%s/tfc-resolve %064d.example", getenv("TFC_HELPER_DIR"),
		 0);
	output = popen(command, "r");
	assert_non_null(fgets(line, sizeof(line), output));
	assert_int_equal(line[0], '!');
	assert_int_equal(pclose(output), 0);
}

static bool is_tcp(const struct transport_kind *kind)
{
	return strcmp(kind->scheme, "tcp") == 0;
}

static bool is_plain_tcp(const struct transport_kind *kind)
{
	return is_tcp(kind) && !kind->is_noise;
}

static bool is_noisy_tcp(const struct transport_kind *kind)
{
	return is_tcp(kind) && kind->is_noise;
}

int main(void)
{
	const struct transport_test tests[] = {
		{"an address that is none is refused with a sentence",
		 an_address_that_is_none_is_refused_with_a_sentence, is_tcp},
		{"every loopback address is one", every_loopback_address_is_one, is_plain_tcp},
		{"without a key only the loopback is listened on",
		 without_a_key_only_the_loopback_is_listened_on, is_plain_tcp},
		{"without a key only the loopback is dialed",
		 without_a_key_only_the_loopback_is_dialed, is_plain_tcp},
		{"with a key all addresses may be listened on",
		 with_a_key_all_addresses_may_be_listened_on, is_noisy_tcp},
		{"a port in use is said", a_port_in_use_is_said, is_tcp},
		{"a port of nobody is unreachable", a_port_of_nobody_is_unreachable, is_tcp},
		{"another user of this machine is refused", another_user_of_this_machine_is_refused,
		 is_plain_tcp},
		{"a listener without descriptors goes on later",
		 a_listener_without_descriptors_goes_on_later, is_tcp},
		{"a name is resolved, and every address tried",
		 a_name_is_resolved_and_every_address_tried, is_tcp},
		{"a name that is none is said", a_name_that_is_none_is_said, is_plain_tcp},
		{"a slow resolver keeps nobody waiting", a_slow_resolver_keeps_nobody_waiting,
		 is_tcp},
		{"no resolver is said", no_resolver_is_said, is_plain_tcp},
		{"the resolver asks the system", the_resolver_asks_the_system, is_plain_tcp},
	};
	return transport_run("transport_tcp", tests, sizeof(tests) / sizeof(*tests));
}
