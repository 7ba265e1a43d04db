#include "transport/registry.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/options.h"

struct transports {
	struct tfc__link list;
};

static void free_transports(void *slot, bool is_forked)
{
	struct transports *all = slot;
	TFC__LIST_EACH (link, &all->list) {
		struct tfc__transport *one = tfc__container_of(link, struct tfc__transport, link);
		tfc__list_remove(link);
		if (one->ops.fini && (one->is_builtin || !is_forked))
			one->ops.fini(one->impl);
		free(one);
	}
	free(all);
}

static struct tfc__transport *find_transport(const struct transports *all, const char *scheme,
					     size_t len)
{
	TFC__LIST_EACH (link, &all->list) {
		struct tfc__transport *one = tfc__container_of(link, struct tfc__transport, link);
		if (strlen(one->scheme) == len && memcmp(one->scheme, scheme, len) == 0)
			return one;
	}
	return NULL;
}

static struct tfc__transport *add_transport(struct transports *all, const tfc_transport_ops *ops,
					    void *impl)
{
	size_t size = strlen(ops->scheme) + 1;
	struct tfc__transport *one = malloc(sizeof(*one) + size);
	if (!one)
		return NULL;
	*one = (struct tfc__transport){.ops = *ops, .impl = impl};
	memcpy(one->scheme, ops->scheme, size);
	one->ops.scheme = one->scheme;
	tfc__list_append(&all->list, &one->link);
	return one;
}

static bool add_builtin_transport(tfc_ctx *ctx, struct transports *all,
				  const struct tfc__builtin_transport *builtin)
{
	void *impl = builtin->open ? builtin->open(ctx) : ctx;
	struct tfc__transport *one = impl ? add_transport(all, builtin->ops, impl) : NULL;
	if (!one && impl && builtin->ops->fini)
		builtin->ops->fini(impl);
	if (!one)
		return false;
	one->is_builtin = true;
	one->is_level = builtin->is_level;
	return true;
}

/* Returns the context's transports, which include the built-in ones, or NULL when out of memory. */
static struct transports *transports_of(tfc_ctx *ctx)
{
	struct transports *all = tfc__ctx_slot(ctx, TFC__SLOT_TRANSPORTS);
	if (all)
		return all;
	all = malloc(sizeof(*all));
	if (!all)
		return NULL;
	tfc__list_init(&all->list);
	for (const struct tfc__builtin_transport *one = tfc__builtin_transports; one->ops; one++) {
		if (!add_builtin_transport(ctx, all, one)) {
			free_transports(all, false);
			return NULL;
		}
	}
	tfc__ctx_set_slot(ctx, TFC__SLOT_TRANSPORTS, all, free_transports);
	return all;
}

int tfc__transport_find(tfc_ctx *ctx, const char *address, tfc_error *error,
			struct tfc__transport **ret_transport)
{
	struct transports *all = transports_of(ctx);
	if (!all)
		return tfc__fail_nomem(error, "transport");
	const char *colon = strchr(address, ':');
	struct tfc__transport *one = colon ? find_transport(all, address, (size_t)(colon - address))
					   : NULL;
	if (!one)
		return tfc__fail(error, TFC_EINVAL, "transport", 0,
				 "\"%.100s\" is not an address; write tcp://HOST:PORT or unix:PATH",
				 address);
	*ret_transport = one;
	return TFC_OK;
}

int tfc__transport_traits(tfc_ctx *ctx, const char *address, tfc_error *error, uint32_t *ret_traits)
{
	struct tfc__transport *transport;
	int code = tfc__transport_find(ctx, address, error, &transport);
	if (code == TFC_OK)
		*ret_traits = transport->ops.traits;
	return code;
}

/* RFC 3986, section 3.1, in lower case. */
static bool is_scheme(const char *text)
{
	if (!text || !islower((unsigned char)*text))
		return false;
	for (; *text; text++)
		if (!islower((unsigned char)*text) && !isdigit((unsigned char)*text) &&
		    !strchr("+-.", *text))
			return false;
	return true;
}

int tfc_transport_ops_init(tfc_transport_ops *ops, uint32_t size)
{
	return tfc__options_init(ops, size, sizeof(*ops));
}

int tfc_transport_register(tfc_ctx *ctx, const tfc_transport_ops *ops, void *impl)
{
	tfc_transport_ops own;
	int code = tfc__ctx_enter(ctx);
	if (code < 0)
		return code;
	if (!ops)
		return tfc__ctx_fail(ctx, TFC_EINVAL, "transport", 0, "ops is NULL");
	code = tfc__options_copy(&own, sizeof(own), ops, "transport", "tfc_transport_ops", 0,
				 tfc__ctx_error(ctx));
	if (code < 0)
		return code;
	if (!is_scheme(own.scheme))
		return tfc__ctx_fail(ctx, TFC_EINVAL, "transport", 0,
				     "tfc_transport_ops.scheme must be a lower-case letter "
				     "followed by letters, digits, '+', '-' and '.'");
	if (!own.dial || !own.listen || !own.listener_address || !own.listener_close ||
	    !own.describe || !own.read || !own.write || !own.want || !own.close)
		return tfc__ctx_fail(ctx, TFC_EINVAL, "transport", 0,
				     "tfc_transport_ops lacks a function; only fini may be NULL");
	struct transports *all = transports_of(ctx);
	if (all && find_transport(all, own.scheme, strlen(own.scheme)))
		return tfc__ctx_fail(ctx, TFC_EBUSY, "transport", 0,
				     "this context already has a transport for scheme \"%.60s\"",
				     own.scheme);
	if (!all || !add_transport(all, &own, impl))
		return tfc__fail_nomem(tfc__ctx_error(ctx), "transport");
	return TFC_OK;
}
