/* transport: the process at the other end is killed. */
#include "transports.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hosted_transport.h"

/* The same world with a context of the child's own. The child never returns into the test. */
static void become_other(struct world *world, const struct world *parent)
{
	*world = *parent;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	tfc_ctx_abandon(parent->ctx);
	if (tfc_ctx_new(NULL, NULL, &world->ctx) < 0)
		_exit(1);
	if (parent->hosted)
		world->hosted = hosted_register(world->ctx);
}

static void kill_and_reap(pid_t pid)
{
	int status;
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
}

/* ---- a dialer is killed */

/* Sends for ever. */
static pid_t start_dialer(const struct world *parent, const char *address, size_t len)
{
	pid_t pid = fork();
	if (pid != 0)
		return pid;
	struct world world;
	struct end near = {0};
	char *message = calloc(1, len);
	become_other(&world, parent);
	end_dial(&world, address, &near);
	while (!near.is_down) {
		if (near.is_up && tfc__channel_backlog(near.channel) < len)
			end_send(&near, message, len);
		world_turn(&world);
	}
	_exit(2);
}

static void kill_dialer(const struct transport_kind *kind, size_t len)
{
	struct world world;
	struct end_listener listener;
	struct end far = {0};
	world_begin(&world, kind);
	end_listen(&world, world.address, &far, 1, &listener);
	pid_t pid = start_dialer(&world, tfc__listener_address(listener.listener), len);
	assert_true(pid > 0);
	AWAIT(&world, far.messages >= 3);
	assert_int_equal(far.bytes, far.messages * len);
	kill_and_reap(pid);
	AWAIT(&world, far.is_down);
	assert_int_equal(far.why.code, TFC_ELOST);
	assert_int_equal(far.bytes, far.messages * len);
	end_close(&far);
	tfc__listener_close(listener.listener);
	world_end(&world);
}

static void a_killed_dialer_is_noticed(void **state)
{
	kill_dialer(*state, 20);
	kill_dialer(*state, 3000000); /* in the middle of a message */
}

/* ---- a listener is killed */

static void listen_until_killed(const struct world *parent, int report)
{
	struct world world;
	struct end_listener listener;
	struct end far[2] = {0};
	become_other(&world, parent);
	end_listen(&world, world.address, far, 2, &listener);
	const char *address = tfc__listener_address(listener.listener);
	if (write(report, address, strlen(address) + 1) < 0)
		_exit(1);
	for (;;)
		world_turn(&world);
}

static pid_t start_listener(const struct world *parent, char address[128])
{
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	if (pid == 0)
		listen_until_killed(parent, ends[1]);
	assert_true(read(ends[0], address, 128) > 0);
	close(ends[0]);
	close(ends[1]);
	return pid;
}

static void a_killed_listener_is_noticed_and_its_place_free(void **state)
{
	struct world world;
	struct end near = {0}, again = {0}, far = {0};
	struct end_listener listener;
	char address[128];
	world_begin(&world, *state);
	pid_t pid = start_listener(&world, address);
	end_dial(&world, address, &near);
	AWAIT(&world, near.is_up);
	kill_and_reap(pid);
	AWAIT(&world, near.is_down);
	assert_int_equal(near.why.code, TFC_ELOST);

	end_dial(&world, address, &again);
	AWAIT(&world, again.is_down);
	assert_int_equal(again.why.code, TFC_EUNREACH);
	if (strcmp(world.kind->scheme, "hosted") == 0) /* which leaves that to its host */
		unlink(address + strlen("hosted:"));
	end_listen(&world, address, &far, 1, &listener);
	tfc__listener_close(listener.listener);
	end_close(&near);
	end_close(&again);
	world_end(&world);
}

/* ---- a forked child of the host lives on */

/* Its copies of the sockets are gone with tfc_ctx_abandon: it keeps nobody waiting, no place taken.
 */
static void a_forked_child_holds_no_connection(void **state)
{
	struct end_pair pair;
	struct end near = {0}, far = {0};
	struct end_listener again;
	int ready[2], go_on[2], status;
	char byte;
	end_pair_begin(&pair, *state);
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(go_on), 0);
	pid_t pid = fork();
	if (pid == 0) {
		close(go_on[1]);
		tfc_ctx_abandon(pair.world.ctx);
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		_exit(read(go_on[0], &byte, 1) == 0 ? 0 : 2);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	char address[128];
	strcpy(address, tfc__listener_address(pair.listener.listener));
	end_close(&pair.near);
	AWAIT(&pair.world, pair.far.is_down);
	tfc__listener_close(pair.listener.listener);
	pair.listener.listener = NULL;
	end_listen(&pair.world, address, &far, 1, &again);
	end_dial(&pair.world, address, &near);
	AWAIT(&pair.world, near.is_up && far.is_up);
	close(go_on[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(go_on[0]);
	close(ready[0]);
	close(ready[1]);
	end_close(&near);
	end_close(&far);
	tfc__listener_close(again.listener);
	end_pair_end(&pair);
}

static bool is_built_in(const struct transport_kind *kind)
{
	return transport_is_socket(kind) && strcmp(kind->scheme, "hosted") != 0;
}

int main(void)
{
	const struct transport_test tests[] = {
		{"a killed dialer is noticed", a_killed_dialer_is_noticed, transport_is_socket},
		{"a killed listener is noticed, and its place is free",
		 a_killed_listener_is_noticed_and_its_place_free, transport_is_socket},
		{"a forked child holds no connection", a_forked_child_holds_no_connection,
		 is_built_in},
	};
	return transport_run("transport_killed", tests, sizeof(tests) / sizeof(*tests));
}
