/*
 * The addresses and ids of gossip_core.h, as the socket calls and people write them.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sodium.h>
#include <string.h>

#include "member/gossip_internal.h"

bool tfc__gossip_address_from(const struct sockaddr_storage *address,
			      struct tfc__gossip_address *ret_address)
{
	const struct sockaddr_in *v4 = (const void *)address;
	const struct sockaddr_in6 *v6 = (const void *)address;
	memset(ret_address, 0, sizeof(*ret_address));
	if (address->ss_family == AF_INET6) {
		memcpy(ret_address->ip, &v6->sin6_addr, sizeof(ret_address->ip));
		ret_address->port = ntohs(v6->sin6_port);
		return true;
	}
	ret_address->ip[10] = ret_address->ip[11] = 0xff;
	memcpy(&ret_address->ip[12], &v4->sin_addr, 4);
	ret_address->port = ntohs(v4->sin_port);
	return address->ss_family == AF_INET;
}

void tfc__gossip_address_to(const struct tfc__gossip_address *address,
			    struct sockaddr_storage *ret_address)
{
	static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
	struct sockaddr_in *v4 = (void *)ret_address;
	struct sockaddr_in6 *v6 = (void *)ret_address;
	memset(ret_address, 0, sizeof(*ret_address));
	if (memcmp(address->ip, mapped, sizeof(mapped)) == 0) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(address->port);
		memcpy(&v4->sin_addr, &address->ip[12], 4);
	} else {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(address->port);
		memcpy(&v6->sin6_addr, address->ip, sizeof(address->ip));
	}
}

void tfc__gossip_address_write(const struct tfc__gossip_address *address,
			       char text[TFC__GOSSIP_ADDRESS_TEXT])
{
	struct sockaddr_storage storage;
	tfc__gossip_address_to(address, &storage);
	tfc__tcp_write(&storage, text, TFC__GOSSIP_ADDRESS_TEXT);
}

void tfc__gossip_id_write(const struct tfc__gossip_id *id, char hex[2 * TFC__GOSSIP_ID_SIZE + 1])
{
	sodium_bin2hex(hex, 2 * TFC__GOSSIP_ID_SIZE + 1, id->bytes, sizeof(id->bytes));
}
