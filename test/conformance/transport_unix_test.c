/* transport: what only unix has: files, their owners, and users. */
#include "transports.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTSIDER 12345
#define GROUP 54321

static int listen_for(struct world *world, const char *address, const uint32_t *groups,
		      uint32_t group_count, struct peer_side *in,
		      struct tfc__peer_listener **ret_listener, tfc_error *error)
{
	const struct tfc__listen_options options = {.address = address,
						    .groups = groups,
						    .group_count = group_count};
	return tfc__peer_listen(world->ctx, &options, peer_side_accept, in, error, ret_listener);
}

static int dial_to(struct world *world, const char *address, struct peer_side *out,
		   tfc_error *error)
{
	const struct tfc__dial_options options = {.address = address, .timeout_ms = 15000};
	return tfc__peer_dial(world->ctx, &options, &peer_side_ops, out, error, &out->peer);
}

static const char *path_of(const char *address)
{
	return address + strlen("unix:");
}

static unsigned mode_of(const char *path)
{
	struct stat status;
	assert_int_equal(lstat(path, &status), 0);
	return status.st_mode & 07777;
}

static void a_socket_is_its_owners_alone_and_goes_with_the_listener(void **state)
{
	struct world world;
	struct peer_side in = {0};
	struct tfc__peer_listener *listener;
	char address[128], dir[96];
	world_begin(&world, *state);
	snprintf(dir, sizeof(dir), "%s/made", world.dir);
	snprintf(address, sizeof(address), "unix:%s/s", dir);
	assert_int_equal(listen_for(&world, address, NULL, 0, &in, &listener, NULL), TFC_OK);
	assert_string_equal(tfc__peer_listener_address(listener), address);
	assert_int_equal(mode_of(path_of(address)), 0600);
	assert_int_equal(mode_of(dir), 0700);
	tfc__peer_listener_close(listener);
	assert_int_equal(access(path_of(address), F_OK), -1);
	world_end(&world);
}

static void a_stale_socket_is_replaced_and_a_live_one_is_not(void **state)
{
	struct world world;
	struct peer_side in = {0};
	struct tfc__peer_listener *listener, *second = NULL;
	struct sockaddr_un stale = {.sun_family = AF_UNIX};
	tfc_error error = TFC_ERROR_INIT;
	world_begin(&world, *state);
	strcpy(stale.sun_path, path_of(world.address));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&stale, sizeof(stale)), 0);
	close(fd);
	assert_int_equal(listen_for(&world, world.address, NULL, 0, &in, &listener, NULL), TFC_OK);
	assert_int_equal(listen_for(&world, world.address, NULL, 0, &in, &second, &error),
			 TFC_EBUSY);
	assert_non_null(strstr(error.text, world.address));
	assert_null(second);

	/* somebody takes the place: what is there now is not ours to remove */
	assert_int_equal(unlink(stale.sun_path), 0);
	fd = open(stale.sun_path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	close(fd);
	tfc__peer_listener_close(listener);
	assert_int_equal(access(stale.sun_path, F_OK), 0);
	world_end(&world);
}

static void other_files_are_left_alone(void **state)
{
	struct world world;
	struct peer_side in = {0};
	struct tfc__peer_listener *listener = NULL;
	tfc_error error = TFC_ERROR_INIT;
	world_begin(&world, *state);
	int fd = open(path_of(world.address), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, "data", 4), 4);
	close(fd);
	assert_int_equal(listen_for(&world, world.address, NULL, 0, &in, &listener, &error),
			 TFC_EEXIST);
	assert_null(listener);
	struct stat status;
	assert_int_equal(stat(path_of(world.address), &status), 0);
	assert_int_equal(status.st_size, 4);
	world_end(&world);
}

static void a_directory_that_others_write_into_is_refused(void **state)
{
	struct world world;
	struct peer_side in = {0};
	struct tfc__peer_listener *listener = NULL;
	tfc_error error = TFC_ERROR_INIT;
	world_begin(&world, *state);
	assert_int_equal(chmod(world.dir, 0777), 0);
	assert_int_equal(listen_for(&world, world.address, NULL, 0, &in, &listener, &error),
			 TFC_EACCES);
	assert_non_null(strstr(error.text, "mode 0700"));
	assert_null(listener);
	if (geteuid() == 0) {
		assert_int_equal(chmod(world.dir, 0700), 0);
		assert_int_equal(chown(world.dir, OUTSIDER, OUTSIDER), 0);
		assert_int_equal(listen_for(&world, world.address, NULL, 0, &in, &listener, &error),
				 TFC_EACCES);
		assert_int_equal(chown(world.dir, 0, 0), 0);
	}
	world_end(&world);
}

static void a_missing_directory_and_a_long_path_are_said(void **state)
{
	struct world world;
	struct peer_side in = {0};
	struct tfc__peer_listener *listener = NULL;
	char address[300];
	tfc_error error = TFC_ERROR_INIT;
	world_begin(&world, *state);
	snprintf(address, sizeof(address), "unix:%s/no/such/socket", world.dir);
	assert_int_equal(listen_for(&world, address, NULL, 0, &in, &listener, &error), TFC_ENOENT);
	snprintf(address, sizeof(address), "unix:%s/%0200d", world.dir, 0);
	assert_int_equal(listen_for(&world, address, NULL, 0, &in, &listener, &error), TFC_EINVAL);
	assert_non_null(strstr(error.text, "too long"));
	world_end(&world);
}

/* Another one is just opening its socket there. */
static void a_directory_is_locked_for_a_moment_only(void **state)
{
	struct world world;
	struct peer_side in = {0};
	struct tfc__peer_listener *listener = NULL;
	tfc_error error = TFC_ERROR_INIT;
	world_begin(&world, *state);
	int dir = open(world.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(dir, LOCK_EX), 0);
	assert_int_equal(listen_for(&world, world.address, NULL, 0, &in, &listener, &error),
			 TFC_EBUSY);
	close(dir);
	assert_int_equal(listen_for(&world, world.address, NULL, 0, &in, &listener, &error),
			 TFC_OK);
	tfc__peer_listener_close(listener);
	world_end(&world);
}

/* ---- users */

/* Says its preamble as another user; 0: it was accepted. */
static pid_t knock_as(const char *address, uid_t uid, gid_t gid, const gid_t *groups, size_t count)
{
	struct sockaddr_un there = {.sun_family = AF_UNIX};
	char answer[16];
	pid_t pid = fork();
	if (pid)
		return pid;
	strcpy(there.sun_path, path_of(address));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (setgroups(count, groups) < 0 || setresgid(gid, gid, gid) < 0 ||
	    setresuid(uid, uid, uid) < 0)
		_exit(3);
	if (connect(fd, (struct sockaddr *)&there, sizeof(there)) < 0)
		_exit(errno == EACCES ? 5 : 6);
	if (send(fd, "\x89TFC\x01\0\0\0\0\0\0\0\0\0\0\0", 16, MSG_NOSIGNAL) != 16)
		_exit(1); /* refused before */
	_exit(read(fd, answer, 16) == 16 && answer[5] == 0 ? 0 : 1);
}

static int outcome(struct world *world, pid_t pid)
{
	int status;
	pid_t reaped = 0;
	AWAIT(world, (reaped = waitpid(pid, &status, WNOHANG)) != 0);
	assert_int_equal(reaped, pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* So that another user can get as far as the socket's own directory. */
static void open_way(struct world *world)
{
	assert_int_equal(chmod(world->dir, 0711), 0);
}

static void only_the_own_user_is_let_in(void **state)
{
	struct world world;
	struct peer_side in = {0};
	struct tfc__peer_listener *listener;
	if (geteuid() != 0)
		skip();
	world_begin(&world, *state);
	open_way(&world);
	assert_int_equal(listen_for(&world, world.address, NULL, 0, &in, &listener, NULL), TFC_OK);
	assert_int_equal(outcome(&world, knock_as(world.address, OUTSIDER, OUTSIDER, NULL, 0)), 5);
	assert_int_equal(chmod(path_of(world.address), 0666), 0); /* even so */
	assert_int_equal(outcome(&world, knock_as(world.address, OUTSIDER, OUTSIDER, NULL, 0)), 1);
	assert_false(in.is_up);
	assert_int_equal(world.logs, 1);
	assert_non_null(strstr(world.log, "user 12345"));
	tfc__peer_listener_close(listener);
	world_end(&world);
}

static void members_of_a_listed_group_may_submit(void **state)
{
	const uint32_t listed[] = {7, GROUP};
	const gid_t member[] = {3, GROUP}, other[] = {3};
	struct world world;
	if (geteuid() != 0)
		skip();
	world_begin(&world, *state);
	open_way(&world);
	for (int by_first = 0; by_first < 2; by_first++) {
		struct peer_side in = {0};
		struct tfc__peer_listener *listener;
		assert_int_equal(listen_for(&world, world.address, listed, 2, &in, &listener, NULL),
				 TFC_OK);
		assert_int_equal(mode_of(path_of(world.address)), 0666);
		assert_int_equal(outcome(&world,
					 knock_as(world.address, OUTSIDER, OUTSIDER, other, 1)),
				 1);
		assert_false(in.is_up);
		pid_t pid = by_first ? knock_as(world.address, OUTSIDER, GROUP, other, 1)
				     : knock_as(world.address, OUTSIDER, OUTSIDER, member, 2);
		assert_int_equal(outcome(&world, pid), 0);
		AWAIT(&world, in.is_up);
		assert_int_equal(in.id.role, TFC__KEY_SUBMIT);
		assert_int_equal(in.id.uid, OUTSIDER);
		assert_int_equal(in.id.pid, pid);
		tfc__peer_close(in.peer);
		tfc__peer_listener_close(listener);
	}
	world_end(&world);
}

/* In a directory where everybody may make files, somebody else may wait in the node's place. */
static void a_dialer_does_not_trust_an_outsiders_socket(void **state)
{
	struct world world;
	struct peer_side out = {0};
	struct sockaddr_un trap = {.sun_family = AF_UNIX};
	int ready[2], status;
	char byte;
	if (geteuid() != 0)
		skip();
	world_begin(&world, *state);
	assert_int_equal(chmod(world.dir, 01777), 0);
	strcpy(trap.sun_path, path_of(world.address));
	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	if (pid == 0) {
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (setresuid(OUTSIDER, OUTSIDER, OUTSIDER) < 0 ||
		    bind(fd, (struct sockaddr *)&trap, sizeof(trap)) < 0 || listen(fd, 5) < 0 ||
		    write(ready[1], "x", 1) != 1)
			_exit(1);
		close(ready[1]);
		int taken = accept(fd, NULL, NULL);
		_exit(read(taken, &byte, 1) > 0 ? 2 : 0); /* not a byte */
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	assert_int_equal(dial_to(&world, world.address, &out, NULL), TFC_OK);
	AWAIT(&world, out.is_down);
	assert_int_equal(out.why.code, TFC_EACCES);
	assert_non_null(strstr(out.why.text, "user 12345"));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	tfc__peer_close(out.peer);
	world_end(&world);
}

static bool is_unix(const struct transport_kind *kind)
{
	return strcmp(kind->scheme, "unix") == 0;
}

int main(void)
{
#define UNIX(name)                   \
	{                            \
#name, name, is_unix \
	}
	const struct transport_test tests[] = {
		UNIX(a_socket_is_its_owners_alone_and_goes_with_the_listener),
		UNIX(a_stale_socket_is_replaced_and_a_live_one_is_not),
		UNIX(other_files_are_left_alone),
		UNIX(a_directory_that_others_write_into_is_refused),
		UNIX(a_missing_directory_and_a_long_path_are_said),
		UNIX(a_directory_is_locked_for_a_moment_only),
		UNIX(only_the_own_user_is_let_in),
		UNIX(members_of_a_listed_group_may_submit),
		UNIX(a_dialer_does_not_trust_an_outsiders_socket),
	};
	return transport_run("transport_unix", tests, sizeof(tests) / sizeof(*tests));
}
