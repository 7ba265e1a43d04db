/*
 * unix: the kernel identifies the other end's user. The socket is in a directory that only its
 * owner can write to, so a socket of that name belongs to the directory's owner.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/proc_stat.h"
#include "transport/builtin.h"
#include "transport/socket.h"

#define SCHEME "unix:"
#define BACKLOG 1024
#define LOCK_TRIES 50 /* one per millisecond; other processes hold the lock for far less */

struct place {
	struct sockaddr_un address;
	char dir[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
};

static int unix_parse(const char *address, tfc_error *error, struct place *ret_place)
{
	const char *path = address + strlen(SCHEME);
	struct place place = {.address.sun_family = AF_UNIX};
	if (path[0] != '/')
		return tfc__fail(
			error, TFC_EINVAL, "transport", 0,
			"address \"%.100s\" is not valid; write unix: and an absolute path",
			address);
	if (strlen(path) >= sizeof(place.address.sun_path))
		return tfc__fail(error, TFC_EINVAL, "transport", 0,
				 "socket path \"%.140s\" is too long; the limit is %zu bytes",
				 address, sizeof(place.address.sun_path) - 1);
	strcpy(place.address.sun_path, path);
	strcpy(place.dir, path);
	char *slash = strrchr(place.dir, '/');
	slash[slash == place.dir] = '\0';
	*ret_place = place;
	return TFC_OK;
}

static bool is_trusted_user(uint32_t uid)
{
	return uid == 0 || uid == geteuid();
}

/* Whether only the owner of a file in the directory can replace that file. */
static bool is_private_dir(const struct stat *dir)
{
	return !(dir->st_mode & (S_IWGRP | S_IWOTH)) || dir->st_mode & S_ISVTX;
}

/* ---- connections */

struct unix_socket {
	struct tfc__socket socket; /* first */
	struct ucred user;
	uint32_t group_count;
	uint32_t groups[TFC_PIPE_GROUPS_MAX];
};

static void unix_read_user(struct unix_socket *one, int fd)
{
	gid_t groups[TFC_PIPE_GROUPS_MAX];
	socklen_t len = sizeof(one->user), size = sizeof(groups);
	one->user.uid = UINT32_MAX;
	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &one->user, &len);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) < 0)
		return; /* an older kernel, or too many groups: only the primary group counts */
	one->group_count = size / (socklen_t)sizeof(*groups);
	memcpy(one->groups, groups, size);
}

static void unix_close(void *pipe_impl)
{
	struct unix_socket *one = pipe_impl;
	tfc__socket_fini(&one->socket);
	free(one);
}

/* A pipe is connected from the beginning, since dialing does not block. */
static int unix_describe(void *pipe_impl, tfc_pipe_info *info, tfc_error *error)
{
	const struct unix_socket *one = pipe_impl;
	memcpy(info->address, one->socket.address, sizeof(info->address));
	info->flags = one->user.uid == UINT32_MAX ? 0 : TFC_PIPE_FLAG_HAS_USER;
	info->uid = one->user.uid;
	info->gid = one->user.gid;
	info->pid = (uint32_t)one->user.pid;
	info->group_count = one->group_count;
	memcpy(info->groups, one->groups, sizeof(info->groups));
	return TFC_OK;
}

/* ---- dialing */

static int unix_fail_dial(const char *path, int sys_errno, tfc_error *error)
{
	char reason[64];
	if (sys_errno == ENOENT || sys_errno == ECONNREFUSED)
		return tfc__fail(error, TFC_EUNREACH, "transport", sys_errno,
				 "cannot connect to \"unix:%.120s\": %s", path,
				 sys_errno == ENOENT ? "no such socket" : "its server has ended");
	return tfc__fail(error, sys_errno == EACCES ? TFC_EACCES : TFC_EUNREACH, "transport",
			 sys_errno, "cannot connect to \"unix:%.120s\": %s", path,
			 strerror_r(sys_errno, reason, sizeof(reason)));
}

/* If other users can write to the directory, the listener must run as this user or root: another
 * user could have created a socket there. */
static int unix_check_server(const struct place *place, const struct unix_socket *one,
			     tfc_error *error)
{
	struct stat dir;
	if (stat(place->dir, &dir) < 0)
		return unix_fail_dial(place->address.sun_path, errno, error);
	bool is_owners = is_private_dir(&dir) && !(dir.st_mode & S_ISVTX) &&
			 one->user.uid == dir.st_uid;
	if (is_trusted_user(one->user.uid) || is_owners)
		return TFC_OK;
	return tfc__fail(
		error, TFC_EACCES, "transport", 0,
		"cannot connect to \"unix:%.100s\": its server runs as user %u, who is neither "
		"this user, nor root, nor the owner of a directory that others cannot write to",
		place->address.sun_path, one->user.uid);
}

/* Connecting a unix socket never blocks; EAGAIN: the listener's backlog is full. */
static int unix_connect(struct unix_socket *one, const struct place *place, tfc_error *error)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return tfc__fail_errno(error, "transport", errno, "cannot create a socket");
	if (connect(fd, (const struct sockaddr *)&place->address, sizeof(place->address)) < 0) {
		int sys_errno = errno;
		close(fd);
		return unix_fail_dial(place->address.sun_path, sys_errno, error);
	}
	unix_read_user(one, fd);
	int code = unix_check_server(place, one, error);
	if (code < 0) {
		close(fd);
		return code;
	}
	return tfc__socket_start(&one->socket, fd, error);
}

static int unix_dial(void *impl, const char *address, uint32_t flags, tfc_pipe *pipe,
		     void **ret_pipe_impl, tfc_error *error)
{
	struct place place;
	int code = unix_parse(address, error, &place);
	if (code < 0)
		return code;
	struct unix_socket *one = calloc(1, sizeof(*one));
	if (!one)
		return tfc__fail_nomem(error, "transport");
	tfc__socket_init(&one->socket, impl, pipe);
	snprintf(one->socket.address, sizeof(one->socket.address), "%s", address);
	code = unix_connect(one, &place, error);
	if (code < 0) {
		unix_close(one);
		return code;
	}
	*ret_pipe_impl = one;
	return TFC_OK;
}

/* ---- listening */

struct listener {
	struct tfc__socket_listener base; /* first */
	struct place place;
	char address[128];
	dev_t device; /* of our own socket file */
	ino_t inode;
};

static struct tfc__socket *unix_new_socket(struct tfc__socket_listener *base, int fd,
					   const struct sockaddr_storage *from)
{
	struct unix_socket *one = calloc(1, sizeof(*one));
	if (!one)
		return NULL;
	tfc__socket_init(&one->socket, base->ctx, NULL);
	unix_read_user(one, fd);
	snprintf(one->socket.address, sizeof(one->socket.address), "unix: user %u, process %d",
		 one->user.uid, (int)one->user.pid);
	return &one->socket;
}

static void unix_free_socket(struct tfc__socket *socket)
{
	unix_close(socket);
}

static const struct tfc__socket_listener_ops listener_ops = {unix_new_socket, unix_free_socket};

/* Creates the directory if it is missing, and checks its owner. Returns a descriptor of it. */
static int open_socket_dir(const struct place *place, bool is_shared, tfc_error *error)
{
	struct stat dir;
	if (mkdir(place->dir, 0700) == 0 && is_shared)
		chmod(place->dir, 0711);
	int fd = open(place->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &dir) < 0) {
		int sys_errno = errno;
		if (fd >= 0)
			close(fd);
		return tfc__fail_errno(error, "transport", sys_errno,
				       "cannot open directory \"%.120s\"", place->dir);
	}
	if (is_trusted_user(dir.st_uid) && is_private_dir(&dir))
		return fd;
	close(fd);
	return tfc__fail(error, TFC_EACCES, "transport", 0,
			 "cannot create a socket in \"%.120s\": other users own the directory or "
			 "can write to it; use a private directory with mode 0700",
			 place->dir);
}

/* The kernel reports who listens on the socket to which `fd` is connected; pid 0: it belongs to
 * another PID namespace. */
static int unix_fail_in_use(const struct place *place, int fd, tfc_error *error)
{
	struct ucred listener = {.pid = 0};
	struct tfc__proc_stat process;
	socklen_t len = sizeof(listener);
	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &listener, &len);
	if (listener.pid <= 0 || tfc__proc_stat_read(listener.pid, &process) < 0)
		return tfc__fail(error, TFC_EBUSY, "transport", 0,
				 "cannot listen on \"unix:%.120s\": another process listens there; "
				 "stop it or use another path",
				 place->address.sun_path);
	return tfc__fail(error, TFC_EBUSY, "transport", 0,
			 "cannot listen on \"unix:%.120s\": process %d (%s) listens there; if it "
			 "is a node, use that one, or stop it; or use another path",
			 place->address.sun_path, (int)listener.pid, process.name);
}

/* Removes a socket without a listener. Any other file is left alone. */
static int remove_stale_socket(const struct place *place, tfc_error *error)
{
	struct stat there;
	const char *path = place->address.sun_path;
	if (lstat(path, &there) < 0)
		return errno == ENOENT ? TFC_OK
				       : tfc__fail_errno(error, "transport", errno,
							 "cannot stat \"%.120s\"", path);
	if (!S_ISSOCK(there.st_mode))
		return tfc__fail(error, TFC_EEXIST, "transport", 0,
				 "cannot listen on \"%.120s\": the file exists and is not a "
				 "socket; use another path",
				 path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return tfc__fail_errno(error, "transport", errno, "cannot create a socket");
	bool is_stale = connect(fd, (const struct sockaddr *)&place->address,
				sizeof(place->address)) < 0 &&
			errno == ECONNREFUSED;
	int code = is_stale ? TFC_OK : unix_fail_in_use(place, fd, error);
	close(fd);
	if (code < 0)
		return code;
	if (unlink(path) < 0 && errno != ENOENT)
		return tfc__fail_errno(error, "transport", errno,
				       "cannot remove stale socket \"%.120s\"", path);
	return TFC_OK;
}

/* Returns the descriptor. */
static int unix_bind(const struct place *place, bool is_shared, tfc_error *error)
{
	const char *path = place->address.sun_path;
	int code = remove_stale_socket(place, error);
	if (code < 0)
		return code;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool is_bound = fd >= 0 && bind(fd, (const struct sockaddr *)&place->address,
					sizeof(place->address)) == 0;
	/* No connection is possible before listen(2): the mode is right from the first one on. */
	if (is_bound && chmod(path, is_shared ? 0666 : 0600) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	int sys_errno = errno;
	if (is_bound)
		unlink(path);
	if (fd >= 0)
		close(fd);
	if (sys_errno == EADDRINUSE)
		return unix_fail_in_use(place, -1, error);
	return tfc__fail_errno(error, "transport", sys_errno, "cannot listen on \"unix:%.120s\"",
			       path);
}

static int unix_open_listener(const struct place *place, bool is_shared, tfc_error *error)
{
	const struct timespec moment = {.tv_nsec = (long)TFC__MS};
	int dir = open_socket_dir(place, is_shared, error);
	if (dir < 0)
		return dir;
	/* Of two processes that find the same stale socket only one may replace it. */
	int tries = 0;
	while (tries < LOCK_TRIES && flock(dir, LOCK_EX | LOCK_NB) < 0) {
		nanosleep(&moment, NULL);
		tries++;
	}
	int code = tries < LOCK_TRIES
			   ? unix_bind(place, is_shared, error)
			   : tfc__fail(error, TFC_EBUSY, "transport", 0,
				       "cannot lock directory \"%.120s\": another process holds a "
				       "lock; try again",
				       place->dir);
	close(dir); /* and with it the lock */
	return code;
}

static void unix_listener_close(void *listener_impl)
{
	struct listener *listener = listener_impl;
	struct stat there;
	const char *path = listener->place.address.sun_path;
	if (lstat(path, &there) == 0 && there.st_dev == listener->device &&
	    there.st_ino == listener->inode)
		unlink(path);
	tfc__socket_listener_fini(&listener->base);
	free(listener);
}

static int unix_listen(void *impl, const char *address, uint32_t flags, tfc_listener *of,
		       void **ret_listener_impl, tfc_error *error)
{
	struct place place;
	struct stat there = {0};
	int code = unix_parse(address, error, &place);
	if (code < 0)
		return code;
	struct listener *listener = calloc(1, sizeof(*listener));
	if (!listener)
		return tfc__fail_nomem(error, "transport");
	int fd = unix_open_listener(&place, flags & TFC_TRANSPORT_FLAG_OTHER_USERS, error);
	if (fd < 0) {
		free(listener);
		return fd;
	}
	listener->place = place;
	snprintf(listener->address, sizeof(listener->address), "%s", address);
	lstat(place.address.sun_path, &there);
	listener->device = there.st_dev;
	listener->inode = there.st_ino;
	code = tfc__socket_listener_open(&listener->base, impl, of, fd, &listener_ops, error);
	if (code < 0) {
		unix_listener_close(listener);
		return code;
	}
	*ret_listener_impl = listener;
	return TFC_OK;
}

static const char *unix_listener_address(void *listener_impl)
{
	return ((struct listener *)listener_impl)->address;
}

const tfc_transport_ops tfc__unix_ops = {
	.size = sizeof(tfc_transport_ops),
	.traits = TFC_TRANSPORT_TRAIT_AUTHENTIC,
	.scheme = "unix",
	.dial = unix_dial,
	.listen = unix_listen,
	.listener_address = unix_listener_address,
	.listener_close = unix_listener_close,
	.describe = unix_describe,
	.read = tfc__socket_read,
	.write = tfc__socket_write,
	.want = tfc__socket_want,
	.close = unix_close,
};
