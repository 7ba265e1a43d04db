#include "allocation/rendezvous.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/file.h"
#include "base/text.h"
#include "wire/secret_file.h"

#define HEAD "tfcluster-rendezvous 1\n"
#define ADDRESS "address "
#define KEY "key "
#define FILE_MAX 1024

/* ---- the file */

/* False: another process has locked it. What cannot be locked counts as locked by us. */
static bool rendezvous_lock(int fd)
{
	struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	return fcntl(fd, F_OFD_SETLK, &range) == 0 || (errno != EAGAIN && errno != EACCES);
}

static bool is_file_at(int fd, const char *path)
{
	struct stat own, there;
	return fstat(fd, &own) == 0 && lstat(path, &there) == 0 && own.st_dev == there.st_dev &&
	       own.st_ino == there.st_ino;
}

/*
 * Gives the file its name, and replaces a file that an ended run has left there. What is there is
 * locked meanwhile, so that of two runs only one replaces it; where nothing is, link(2) lets only
 * one succeed.
 */
static int rendezvous_place(const char *temp, const char *path, tfc_error *error)
{
	bool is_replaced = false;
	int old = -1;
	while (!is_replaced) {
		if (link(temp, path) == 0) {
			unlink(temp);
			return TFC_OK;
		}
		bool exists = errno == EEXIST;
		old = exists ? open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
		if (exists && old < 0 && errno == ENOENT)
			continue;
		if (exists && old < 0 && errno == EACCES)
			return tfc__fail_errno(error, "allocation", errno,
					       "cannot replace \"%s\", which another user has made",
					       path);
		if (old >= 0 && !rendezvous_lock(old)) {
			close(old);
			return tfc__fail(error, TFC_EBUSY, "allocation", 0,
					 "another run has \"%s\" in use; set rendezvous to a "
					 "directory of this run's own",
					 path);
		}
		is_replaced = old < 0 || is_file_at(old, path);
		if (!is_replaced)
			close(old);
	}
	int code = rename(temp, path) == 0 ? TFC_OK
					   : tfc__fail_errno(error, "allocation", errno,
							     "cannot write \"%s\"", path);
	if (old >= 0)
		close(old);
	return code;
}

/* Writes the file under a temporary name, and locks it. */
static int rendezvous_write_temp(const char *temp, const char *path, const char *text, size_t len,
				 tfc_error *error, int *ret_fd)
{
	int fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd >= 0)
		rendezvous_lock(fd);
	if (fd < 0 || fchmod(fd, 0600) < 0 || tfc__write_all(fd, text, len) < 0 || fsync(fd) < 0) {
		int code = tfc__fail_errno(error, "allocation", errno, "cannot write \"%s\"", path);
		if (fd >= 0)
			close(fd);
		return code;
	}
	*ret_fd = fd;
	return TFC_OK;
}

/* The file appears complete: it gets its name after it was written and locked. */
int tfc__rendezvous_write(const char *path, const struct tfc__rendezvous *rendezvous,
			  tfc_error *error, int *ret_lock)
{
	char text[FILE_MAX], suffix[17], *temp = NULL;
	bool has_key = rendezvous->key[0];
	int fd = -1;
	int len = snprintf(text, sizeof(text), "%s%s%s\n%s%s%s", HEAD, ADDRESS, rendezvous->address,
			   has_key ? KEY : "", rendezvous->key, has_key ? "\n" : "");
	if (tfc__random_hex(suffix) < 0)
		return tfc__fail_errno(error, "allocation", errno, "cannot read random bytes");
	if (asprintf(&temp, "%s.%s", path, suffix) < 0)
		return tfc__fail_nomem(error, "allocation");
	int code = rendezvous_write_temp(temp, path, text, (size_t)len, error, &fd);
	if (code == TFC_OK)
		code = rendezvous_place(temp, path, error);
	if (code == TFC_OK) {
		*ret_lock = fd;
	} else {
		unlink(temp);
		if (fd >= 0)
			close(fd);
	}
	sodium_memzero(text, sizeof(text));
	free(temp);
	return code;
}

/* Reads the line that begins with `head` at *at into `field`, and advances *at. */
static bool rendezvous_read_line(const char **at, const char *head, char *field, size_t size)
{
	size_t head_len = strlen(head);
	if (strncmp(*at, head, head_len) != 0)
		return false;
	size_t len = strcspn(*at + head_len, "\n");
	if (!(*at)[head_len + len] || !len || len >= size)
		return false;
	memcpy(field, *at + head_len, len);
	field[len] = '\0';
	*at += head_len + len + 1;
	return true;
}

int tfc__rendezvous_read(const char *path, tfc_error *error, struct tfc__rendezvous *ret)
{
	struct tfc__rendezvous read = {{0}, {0}};
	const char *host;
	char *text;
	size_t len, host_len;
	uint16_t port;
	int code = tfc__secret_read(path, FILE_MAX, error, &text, &len);
	if (code < 0)
		return code;
	const char *at = text + (sizeof(HEAD) - 1);
	bool is_whole = strncmp(text, HEAD, sizeof(HEAD) - 1) == 0 &&
			rendezvous_read_line(&at, ADDRESS, read.address, sizeof(read.address)) &&
			tfc__rendezvous_is_address(read.address, &host, &host_len, &port) &&
			(!*at || rendezvous_read_line(&at, KEY, read.key, sizeof(read.key))) &&
			!*at;
	if (is_whole)
		*ret = read;
	else
		code = tfc__fail(error, TFC_EPARSE, "allocation", 0,
				 "\"%s\" is not a rendezvous file of this version; remove it",
				 path);
	sodium_memzero(&read, sizeof(read));
	tfc__secret_free(text, len);
	return code;
}

void tfc__rendezvous_remove(const char *path, const char *address)
{
	struct tfc__rendezvous now;
	if (tfc__rendezvous_read(path, NULL, &now) == TFC_OK && strcmp(now.address, address) == 0)
		unlink(path);
	sodium_memzero(&now, sizeof(now));
}

/* ---- addresses */

bool tfc__rendezvous_is_address(const char *text, const char **ret_host, size_t *ret_host_len,
				uint16_t *ret_port)
{
	const char *colon = strrchr(text, ':');
	if (!colon || strchr(text, '/'))
		return false;
	int port = tfc__port_read(colon + 1);
	bool has_brackets = *text == '[' && colon > text && colon[-1] == ']';
	size_t len = (size_t)(colon - text) - 2 * has_brackets;
	if (port <= 0 || colon == text || !len)
		return false;
	*ret_host = text + has_brackets;
	*ret_host_len = len;
	*ret_port = (uint16_t)port;
	return true;
}

/* Connecting a datagram socket only chooses a route. */
static bool route_find(const char *peer, char ret_host[INET6_ADDRSTRLEN])
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
				 .ai_socktype = SOCK_DGRAM},
			*found = NULL;
	struct sockaddr_storage own;
	socklen_t len = sizeof(own);
	if (getaddrinfo(peer, "9", &hints, &found) != 0)
		return false;
	int fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool is_found = fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) == 0 &&
			getsockname(fd, (struct sockaddr *)&own, &len) == 0 &&
			getnameinfo((struct sockaddr *)&own, len, ret_host, INET6_ADDRSTRLEN, NULL,
				    0, NI_NUMERICHOST) == 0;
	if (fd >= 0)
		close(fd);
	freeaddrinfo(found);
	return is_found;
}

/* The first address of an interface that is up and leads out of this machine. */
static bool interface_find(int family, char ret_host[INET6_ADDRSTRLEN])
{
	struct ifaddrs *all = NULL, *at;
	if (getifaddrs(&all) < 0)
		return false;
	for (at = all; at; at = at->ifa_next) {
		const struct sockaddr_in6 *six = (const void *)at->ifa_addr;
		if (at->ifa_addr && at->ifa_addr->sa_family == family && at->ifa_flags & IFF_UP &&
		    !(at->ifa_flags & IFF_LOOPBACK) &&
		    !(family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr)) &&
		    getnameinfo(at->ifa_addr,
				family == AF_INET ? sizeof(struct sockaddr_in)
						  : sizeof(struct sockaddr_in6),
				ret_host, INET6_ADDRSTRLEN, NULL, 0, NI_NUMERICHOST) == 0)
			break;
	}
	freeifaddrs(all);
	return at;
}

void tfc__route_source(const char *peer, char ret_host[INET6_ADDRSTRLEN])
{
	/* Addresses for documentation, RFC 5737 and 3849: only a default route leads there. */
	if (!(peer && route_find(peer, ret_host)) && !route_find("192.0.2.1", ret_host) &&
	    !route_find("2001:db8::1", ret_host) && !interface_find(AF_INET, ret_host) &&
	    !interface_find(AF_INET6, ret_host))
		strcpy(ret_host, "127.0.0.1");
}
