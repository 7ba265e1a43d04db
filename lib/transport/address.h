/*
 * TCP addresses: "tcp://HOST:PORT". HOST is a name, an IPv4 address, or an IPv6 address in
 * brackets.
 */
#ifndef TFC_TRANSPORT_ADDRESS_H
#define TFC_TRANSPORT_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <tfcluster/error.h>

#define TFC__TCP_ADDRESSES 16 /* maximum per name; the others are not tried */

struct tfc__tcp_host {
	char name[254]; /* as given, without brackets */
	uint16_t port;
	uint32_t count; /* 0: the name is not resolved yet */
	struct sockaddr_storage addresses[TFC__TCP_ADDRESSES];
};

/* Returns TFC_EINVAL if the address is malformed. Numeric addresses and "localhost" are resolved at
 * once; for any other name ret_host->count is 0. */
int tfc__tcp_parse(const char *address, tfc_error *error, struct tfc__tcp_host *ret_host);

/* Adds the numeric address in `text`. Returns false if `text` is not one, or if the host has
 * TFC__TCP_ADDRESSES addresses. */
bool tfc__tcp_add(struct tfc__tcp_host *host, const char *text);

socklen_t tfc__tcp_len(const struct sockaddr_storage *address);
bool tfc__tcp_is_loopback(const struct sockaddr_storage *address);
bool tfc__tcp_is_equal(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

/* Writes the address as text, such as "tcp://[::1]:4711". */
void tfc__tcp_write(const struct sockaddr_storage *address, char *text, size_t size);

#endif
