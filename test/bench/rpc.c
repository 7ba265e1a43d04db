/*
 * What calls cost: a round trip of 64 bytes, or bulk, between two pinned processes.
 *
 *     rpc trip raw|plain|noise same|two     microseconds of a round trip: raw is a bare epoll loop
 *     rpc bulk plain|noise same|two         bytes a second
 *     rpc bulk memory|seal same             the same in one process, both ends: over the memory
 *                                           transport, with Noise; libsodium alone, seal and open
 *
 * same: both on one core; two: each on its own. A figure is the median of the rounds.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "median.h"
#include "transport/peer.h"

enum {
	TRIP_BYTES = 64,
	TRIPS = 2000, /* a round */
	BULK_BYTES = 256 << 10,
	BULKS = 400,
	WINDOW = 8, /* bulk calls under way */
	ROUNDS = 15,
	RECORD = 65519,
};

/* Of one process alone its own time is counted: what else runs there does not weigh on it. */
static clockid_t watch_used = CLOCK_MONOTONIC;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void fail(const char *what, const tfc_error *error)
{
	fprintf(stderr, "%s: %s\n", what, error ? error->text : "");
	exit(1);
}

static void pin(int core)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(core, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		die("sched_setaffinity");
}

/* ---- raw: nothing but epoll, read and write */

static void watch(int epoll, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		die("epoll_ctl");
}

static void get(int epoll, int fd, char *data)
{
	struct epoll_event event;
	for (ssize_t have = 0; have < TRIP_BYTES;) {
		if (epoll_wait(epoll, &event, 1, -1) < 0)
			die("epoll_wait");
		ssize_t n = read(fd, data + have, (size_t)(TRIP_BYTES - have));
		if (n <= 0)
			exit(0);
		have += n;
	}
}

static void put(int fd, const char *data)
{
	if (write(fd, data, TRIP_BYTES) != TRIP_BYTES)
		exit(0);
}

static int raw_socket(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		die("socket");
	return fd;
}

static void no_delay(int fd)
{
	int on = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static void serve_raw(int listener)
{
	char data[TRIP_BYTES];
	int epoll = epoll_create1(EPOLL_CLOEXEC), fd = accept(listener, NULL, NULL);
	no_delay(fd);
	watch(epoll, fd);
	for (;;) {
		get(epoll, fd, data);
		put(fd, data);
	}
}

static double raw_trips(int fd, int epoll)
{
	char data[TRIP_BYTES] = {0};
	uint64_t begin = tfc__now();
	for (int i = 0; i < TRIPS; i++) {
		put(fd, data);
		get(epoll, fd, data);
	}
	return (double)(tfc__now() - begin) / 1e3 / TRIPS;
}

static double measure_raw(int server_core)
{
	double rounds[ROUNDS];
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t len = sizeof(address);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int listener = raw_socket(), fd = raw_socket(), epoll = epoll_create1(EPOLL_CLOEXEC);
	if (bind(listener, (struct sockaddr *)&address, len) < 0 || listen(listener, 1) < 0 ||
	    getsockname(listener, (struct sockaddr *)&address, &len) < 0)
		die("listen");
	pid_t server = fork();
	if (server == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fd);
		pin(server_core);
		serve_raw(listener);
	}
	if (connect(fd, (struct sockaddr *)&address, len) < 0)
		die("connect");
	no_delay(fd);
	watch(epoll, fd);
	raw_trips(fd, epoll);
	for (int i = 0; i < ROUNDS; i++)
		rounds[i] = raw_trips(fd, epoll);
	close(fd);
	waitpid(server, NULL, 0);
	return median(rounds, ROUNDS);
}

/* ---- ours, serving */

static tfc_ctx *ctx;
static struct tfc__keyring *keyring;
static struct tfc__identity *identity;

static void serve(struct tfc__peer *peer, void *user, struct tfc__rpc_request *request,
		  const char *method, const msgpack_object *params)
{
	struct tfc__buf result = {0};
	size_t len = 0;
	const void *bytes = tfc__msg_bytes(params, &len);
	if (len == TRIP_BYTES)
		tfc__msg_bin(&result, bytes, len);
	tfc__rpc_reply(request, result.len ? &result : NULL);
	tfc__buf_fini(&result);
}

static void on_down(struct tfc__peer *peer, void *user, const tfc_error *why)
{
	exit(0);
}

static void on_accept(void *user, struct tfc__peer *peer)
{
	static const struct tfc__peer_ops ops = {.serve = serve, .down = on_down};
	tfc__peer_accept(peer, &ops, NULL);
}

static struct tfc__peer_listener *listen_at(const char *address)
{
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__peer_listener *listener = NULL;
	const struct tfc__listen_options options = {.address = address,
						    .keyring = keyring,
						    .identity = identity};
	if (tfc__peer_listen(ctx, &options, on_accept, NULL, &error, &listener) < 0)
		fail("listen", &error);
	return listener;
}

static void open_ctx(void)
{
	tfc_error error = TFC_ERROR_INIT;
	if (tfc_ctx_new(NULL, &error, &ctx) < 0)
		fail("context", &error);
}

/* Tells its address, then serves until it is killed. */
static void run_server(int address_fd)
{
	open_ctx();
	struct tfc__peer_listener *listener = listen_at("tcp://127.0.0.1:0");
	const char *address = tfc__peer_listener_address(listener);
	if (write(address_fd, address, strlen(address) + 1) < 0)
		die("write");
	for (;;)
		tfc_ctx_run(ctx, -1);
}

/* ---- ours, calling */

struct caller {
	struct tfc__peer *peer;
	bool is_up;
	struct tfc__buf params;
	int to_begin, to_end;
};

static void on_up(struct tfc__peer *peer, void *user)
{
	((struct caller *)user)->is_up = true;
}

static void on_failure(struct tfc__peer *peer, void *user, const tfc_error *why)
{
	fail("connect", why);
}

static void begin_call(struct caller *caller);

static void on_end(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	struct caller *caller = user;
	if (code < 0)
		fail("call", error);
	caller->to_end--;
	if (caller->to_begin)
		begin_call(caller);
}

static void begin_call(struct caller *caller)
{
	const struct tfc__rpc_options options = {.method = "bench.echo",
						 .params = &caller->params,
						 .end = on_end,
						 .user = caller};
	tfc_error error = TFC_ERROR_INIT;
	caller->to_begin--;
	if (tfc__rpc_call(tfc__peer_rpc(caller->peer), &options, &error, NULL) < 0)
		fail("call", &error);
}

static double make_calls(struct caller *caller, int count, int window)
{
	uint64_t begin = tfc__clock_ns(watch_used);
	caller->to_begin = caller->to_end = count;
	for (int i = 0; i < window; i++)
		begin_call(caller);
	while (caller->to_end)
		tfc_ctx_run(ctx, -1);
	return (double)(tfc__clock_ns(watch_used) - begin) / 1e9;
}

static void dial(struct caller *caller, const char *address)
{
	static const struct tfc__peer_ops ops = {.up = on_up, .serve = serve, .down = on_failure};
	tfc_error error = TFC_ERROR_INIT;
	const struct tfc__dial_options options = {.address = address,
						  .keyring = keyring,
						  .identity = identity};
	if (tfc__peer_dial(ctx, &options, &ops, caller, &error, &caller->peer) < 0)
		fail("dial", &error);
	while (!caller->is_up)
		tfc_ctx_run(ctx, -1);
}

static pid_t start_server(int core, char address[128])
{
	int fds[2];
	if (pipe(fds) < 0)
		die("pipe");
	pid_t server = fork();
	if (server == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin(core);
		run_server(fds[1]);
	}
	if (read(fds[0], address, 128) <= 0)
		die("read");
	return server;
}

/* Bytes a second, or microseconds a call. */
static double measure_rounds(struct caller *caller, bool is_bulk)
{
	char *bytes = calloc(1, BULK_BYTES);
	double rounds[ROUNDS];
	size_t len = is_bulk ? BULK_BYTES : TRIP_BYTES;
	int count = is_bulk ? BULKS : TRIPS, window = is_bulk ? WINDOW : 1;
	tfc__msg_bin(&caller->params, bytes, len);
	make_calls(caller, count, window);
	for (int i = 0; i < ROUNDS; i++) {
		double seconds = make_calls(caller, count, window);
		rounds[i] = is_bulk ? (double)len * count / seconds : seconds * 1e6 / count;
	}
	tfc__buf_fini(&caller->params);
	free(bytes);
	return median(rounds, ROUNDS);
}

static double measure_calls(bool is_bulk, int server_core)
{
	struct caller caller = {0};
	char address[128];
	pid_t server = start_server(server_core, address);
	open_ctx();
	dial(&caller, address);
	double figure = measure_rounds(&caller, is_bulk);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	return figure; /* the rest goes with the process */
}

static double measure_memory(void)
{
	struct caller caller = {0};
	open_ctx();
	listen_at("memory:bench");
	dial(&caller, "memory:bench");
	return measure_rounds(&caller, true);
}

/* ---- libsodium alone */

static double measure_seal(void)
{
	static uint8_t plain[RECORD], sealed[RECORD + 16], nonce[12], key[32];
	double rounds[ROUNDS];
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t begin = tfc__clock_ns(watch_used);
		for (int n = 0; n < 1000; n++) {
			crypto_aead_chacha20poly1305_ietf_encrypt(sealed, NULL, plain, RECORD, NULL,
								  0, NULL, nonce, key);
			if (crypto_aead_chacha20poly1305_ietf_decrypt(plain, NULL, NULL, sealed,
								      sizeof(sealed), NULL, 0,
								      nonce, key) < 0)
				exit(1);
		}
		rounds[i] = 1000.0 * RECORD / ((double)(tfc__clock_ns(watch_used) - begin) / 1e9);
	}
	return median(rounds, ROUNDS);
}

/* ---- */

static void load_keys(void)
{
	char dir[] = "/tmp/tfc-bench-XXXXXX", path[64];
	tfc_error error = TFC_ERROR_INIT;
	if (!mkdtemp(dir))
		die("mkdtemp");
	snprintf(path, sizeof(path), "%s/key", dir);
	if (tfc__keyring_generate(path, TFC__KEY_NODE, &error) < 0 ||
	    tfc__keyring_load(path, &error, &keyring) < 0 ||
	    tfc__identity_open(NULL, &error, &identity) < 0)
		fail("keys", &error);
	unlink(path);
	rmdir(dir);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	bool is_bulk = strcmp(argv[1], "bulk") == 0;
	int server_core = strcmp(argv[3], "two") == 0;
	if (sodium_init() < 0)
		return 1;
	pin(0);
	if (strcmp(argv[2], "memory") == 0 || strcmp(argv[2], "seal") == 0)
		watch_used = CLOCK_PROCESS_CPUTIME_ID;
	if (strcmp(argv[2], "noise") == 0 || strcmp(argv[2], "memory") == 0)
		load_keys();
	if (strcmp(argv[2], "raw") == 0)
		printf("%.3f\n", measure_raw(server_core));
	else if (strcmp(argv[2], "seal") == 0)
		printf("%.0f\n", measure_seal());
	else if (strcmp(argv[2], "memory") == 0)
		printf("%.0f\n", measure_memory());
	else if (is_bulk)
		printf("%.0f\n", measure_calls(true, server_core));
	else
		printf("%.3f\n", measure_calls(false, server_core));
	return 0;
}
