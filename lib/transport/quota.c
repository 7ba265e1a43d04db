#include "transport/quota.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

static const struct tfc__quota_limits defaults = {
	.connections = 256,
	.key_connections = 128,
	.requests = 1024,
	.key_requests = 512,
	.connection_requests = 256,
	.bytes = UINT64_C(64) << 20,
	.key_bytes = UINT64_C(32) << 20,
	.connection_bytes = UINT64_C(1) << 20,
};

static bool quota_has_bytes(const struct tfc__quota *quota, const struct tfc__quota_key *key,
			    uint64_t len)
{
	return quota->bytes + len <= quota->limits.bytes &&
	       key->bytes + len <= quota->limits.key_bytes;
}

/* ---- waiting for room */

static void quota_stop_waiting(struct tfc__quota_share *share)
{
	if (tfc__list_is_empty(&share->waiting))
		return;
	tfc__list_remove(&share->waiting);
	share->quota->waiting--;
}

/*
 * Wakes one share at a time, so that it uses the room before the next one is woken. Keys are served
 * round-robin: the chosen key moves to the end of the list.
 */
static void quota_on_wake(struct tfc__work *work)
{
	struct tfc__quota *quota = tfc__container_of(work, struct tfc__quota, wake);
	struct tfc__quota_share *share = NULL;
	TFC__LIST_EACH (link, &quota->keys) {
		struct tfc__quota_key *key = tfc__container_of(link, struct tfc__quota_key, link);
		if (tfc__list_is_empty(&key->waiting) || !quota_has_bytes(quota, key, 1))
			continue;
		tfc__list_remove(link);
		tfc__list_append(&quota->keys, link);
		share = tfc__container_of(key->waiting.next, struct tfc__quota_share, waiting);
		break;
	}
	if (!share)
		return;
	quota_stop_waiting(share);
	if (quota->waiting)
		tfc__work_schedule(&quota->wake);
	share->room(share);
}

bool tfc__quota_has_room(struct tfc__quota_share *share)
{
	struct tfc__quota *quota = share->quota;
	if (!quota || quota_has_bytes(quota, share->key, 1))
		return true;
	if (tfc__list_is_empty(&share->waiting)) {
		tfc__list_append(&share->key->waiting, &share->waiting);
		quota->waiting++;
	}
	return false;
}

/* ---- bytes */

static void quota_release_bytes(struct tfc__quota_share *share, uint64_t len)
{
	share->quota->bytes -= len;
	share->key->bytes -= len;
	if (len && share->quota->waiting)
		tfc__work_schedule(&share->quota->wake);
}

void tfc__quota_set_bytes(struct tfc__quota_share *share, uint64_t bytes)
{
	struct tfc__quota *quota = share->quota;
	uint64_t before = share->bytes;
	if (!quota)
		return;
	share->bytes = bytes;
	quota->bytes += bytes;
	share->key->bytes += bytes;
	quota_release_bytes(share, before);
}

int tfc__quota_check(const struct tfc__quota_share *share, uint64_t len, tfc_error *error)
{
	const struct tfc__quota *quota = share->quota;
	if (!quota || quota_has_bytes(quota, share->key, len))
		return TFC_OK;
	if (quota->bytes + len > quota->limits.bytes)
		return tfc__fail(error, TFC_EAGAIN, "transport", 0,
				 "memory limit for all clients reached (%llu bytes in use, limit "
				 "%llu); try again later, or raise client_bytes of the node",
				 (unsigned long long)quota->bytes,
				 (unsigned long long)quota->limits.bytes);
	return tfc__fail(error, TFC_EAGAIN, "transport", 0,
			 "memory limit for one key reached (%llu bytes in use with %s, limit "
			 "%llu); try again later, or raise key_bytes of the node",
			 (unsigned long long)share->key->bytes, share->key->name,
			 (unsigned long long)quota->limits.key_bytes);
}

/* ---- requests */

int tfc__quota_begin_request(struct tfc__quota_share *share, size_t len, tfc_error *error)
{
	struct tfc__quota *quota = share->quota;
	uint64_t bytes = TFC__QUOTA_REQUEST_BYTES + (uint64_t)len;
	if (!quota)
		return TFC_OK;
	if (share->requests >= quota->limits.connection_requests)
		return tfc__fail(error, TFC_EAGAIN, "transport", 0,
				 "too many open requests and subscriptions on this connection (%u, "
				 "the limit for one connection); try again later, or raise "
				 "connection_requests of the node",
				 share->requests);
	if (share->key->requests >= quota->limits.key_requests)
		return tfc__fail(error, TFC_EAGAIN, "transport", 0,
				 "too many open requests and subscriptions (%u with %s, the limit "
				 "for one key); try again later, or raise key_requests of the node",
				 share->key->requests, share->key->name);
	if (quota->requests >= quota->limits.requests)
		return tfc__fail(
			error, TFC_EAGAIN, "transport", 0,
			"too many open requests and subscriptions of clients (%u, the limit for "
			"all clients); try again later, or raise client_requests of the node",
			quota->requests);
	int code = tfc__quota_check(share, bytes, error);
	if (code < 0)
		return code;
	share->requests++;
	share->key->requests++;
	quota->requests++;
	share->key->bytes += bytes;
	quota->bytes += bytes;
	return TFC_OK;
}

void tfc__quota_end_request(struct tfc__quota_share *share, size_t len)
{
	if (!share->quota)
		return;
	share->requests--;
	share->key->requests--;
	share->quota->requests--;
	quota_release_bytes(share, TFC__QUOTA_REQUEST_BYTES + (uint64_t)len);
}

int tfc__quota_resize_request(struct tfc__quota_share *share, size_t from, size_t to,
			      tfc_error *error)
{
	if (!share->quota)
		return TFC_OK;
	int code = to > from ? tfc__quota_check(share, to - from, error) : TFC_OK;
	if (code < 0)
		return code;
	share->quota->bytes += to;
	share->key->bytes += to;
	quota_release_bytes(share, from);
	return TFC_OK;
}

/* ---- connections */

static struct tfc__quota_key *find_quota_key(struct tfc__quota *quota, const char *name)
{
	TFC__LIST_EACH (link, &quota->keys) {
		struct tfc__quota_key *key = tfc__container_of(link, struct tfc__quota_key, link);
		if (strcmp(key->name, name) == 0)
			return key;
	}
	return NULL;
}

int tfc__quota_join(struct tfc__quota *quota, const char *name,
		    void (*room)(struct tfc__quota_share *share), struct tfc__quota_share *share,
		    tfc_error *error)
{
	struct tfc__quota_key *key = find_quota_key(quota, name);
	if (quota->connections >= quota->limits.connections)
		return tfc__fail(error, TFC_EAGAIN, "transport", 0,
				 "too many connections of clients (%u, the limit for all clients); "
				 "try again later, or raise client_connections of the node",
				 quota->connections);
	if (key && key->connections >= quota->limits.key_connections)
		return tfc__fail(error, TFC_EAGAIN, "transport", 0,
				 "too many connections with %s (%u, the limit for one key); try "
				 "again later, or raise key_connections of the node",
				 key->name, key->connections);
	if (!key) {
		key = calloc(1, sizeof(*key));
		if (!key)
			return tfc__fail_nomem(error, "transport");
		snprintf(key->name, sizeof(key->name), "%s", name);
		tfc__list_init(&key->waiting);
		tfc__list_append(&quota->keys, &key->link);
	}
	key->connections++;
	quota->connections++;
	*share = (struct tfc__quota_share){.quota = quota, .key = key, .room = room};
	tfc__list_init(&share->waiting);
	return TFC_OK;
}

void tfc__quota_leave(struct tfc__quota_share *share)
{
	struct tfc__quota *quota = share->quota;
	struct tfc__quota_key *key = share->key;
	if (!quota)
		return;
	quota_stop_waiting(share);
	tfc__quota_set_bytes(share, 0);
	quota->connections--;
	if (--key->connections == 0) {
		tfc__list_remove(&key->link);
		free(key);
	}
	share->quota = NULL;
}

/* ---- initialization */

void tfc__quota_init(struct tfc__quota *quota, tfc_ctx *ctx, const struct tfc__quota_limits *limits)
{
	struct tfc__quota_limits *own = &quota->limits;
	*quota = (struct tfc__quota){.limits = *limits};
	tfc__list_init(&quota->keys);
	tfc__work_init(&quota->wake, ctx, quota_on_wake);
	if (!own->connections)
		own->connections = defaults.connections;
	if (!own->key_connections)
		own->key_connections = defaults.key_connections;
	if (!own->requests)
		own->requests = defaults.requests;
	if (!own->key_requests)
		own->key_requests = defaults.key_requests;
	if (!own->connection_requests)
		own->connection_requests = defaults.connection_requests;
	if (!own->bytes)
		own->bytes = defaults.bytes;
	if (!own->key_bytes)
		own->key_bytes = defaults.key_bytes;
	if (!own->connection_bytes)
		own->connection_bytes = defaults.connection_bytes;
}

void tfc__quota_fini(struct tfc__quota *quota)
{
	tfc__work_cancel(&quota->wake);
}
