/*
 * The file in which rank 0 publishes where it is. It belongs to its writer, has mode 0600, and
 * replaces an older one of the same name at once:
 *
 *     tfcluster-rendezvous 1
 *     address HOST:PORT
 *     key tfcluster-key 1 node ID HEX64
 *
 * The last line is missing if all ranks were given the key.
 */
#ifndef TFC_ALLOCATION_RENDEZVOUS_H
#define TFC_ALLOCATION_RENDEZVOUS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <tfcluster/error.h>

struct tfc__rendezvous {
	char address[INET6_ADDRSTRLEN + 16];
	char key[256]; /* a line of a key file; "": none */
};

/*
 * *ret_lock is a descriptor: as long as it is open, nobody else can write the file, as far as the
 * file system has locks. Errors: TFC_EBUSY (another run has the file), TFC_ENOENT, TFC_EACCES,
 * TFC_ENOSPC, TFC_ESYS, TFC_ENOMEM.
 */
int tfc__rendezvous_write(const char *path, const struct tfc__rendezvous *rendezvous,
			  tfc_error *error, int *ret_lock);

/* Errors: TFC_ENOENT (not written yet), TFC_EACCES (of another user, or open to others),
 * TFC_EPARSE, TFC_ENOMEM. */
int tfc__rendezvous_read(const char *path, tfc_error *error, struct tfc__rendezvous *ret);

/* Removes the file if it still has this address. */
void tfc__rendezvous_remove(const char *path, const char *address);

/* Whether `text` is "HOST:PORT", and not a directory; *ret_host_len is the length of HOST, without
 * the brackets of an IPv6 address in *ret_host. */
bool tfc__rendezvous_is_address(const char *text, const char **ret_host, size_t *ret_host_len,
				uint16_t *ret_port);

/*
 * The address of this machine from which it reaches the numeric address `peer`, or any other
 * machine if `peer` is NULL or no address. Sends nothing. "127.0.0.1" if there is no interface.
 */
void tfc__route_source(const char *peer, char ret_host[INET6_ADDRSTRLEN]);

#endif
