#include <stdio.h>

#include "base/fail.h"
#include "ctx/internal.h"

void tfc__handle_open(tfc_ctx *ctx, struct tfc__handle *handle, enum tfc__handle_kind kind,
		      void (*close_fn)(struct tfc__handle *handle))
{
	handle->kind = kind;
	handle->close = close_fn;
	tfc__list_append(&ctx->handles, &handle->link);
}

void tfc__handle_closed(struct tfc__handle *handle)
{
	if (handle->close)
		tfc__list_remove(&handle->link);
}

void tfc__ctx_close_handles(tfc_ctx *ctx)
{
	while (!tfc__list_is_empty(&ctx->handles)) {
		struct tfc__handle *handle = tfc__container_of(ctx->handles.prev,
							       struct tfc__handle, link);
		tfc__list_remove(&handle->link);
		handle->close(handle);
	}
}

int tfc__ctx_check_handles(tfc_ctx *ctx)
{
	static const char *const names[] = {
		[TFC__HANDLE_PORT_POOL] = "port pool",
		[TFC__HANDLE_PORT_HOLD] = "port hold",
		[TFC__HANDLE_PROCESS] = "process",
		[TFC__HANDLE_NODE] = "node",
		[TFC__HANDLE_MEMBER_WATCH] = "member watch",
		[TFC__HANDLE_GATEWAY] = "gateway",
		[TFC__HANDLE_SUBSCRIPTION] = "subscription",
		[TFC__HANDLE_FEED_PRODUCER] = "feed producer",
		[TFC__HANDLE_FEED_CONSUMER] = "feed consumer",
		[TFC__HANDLE_ALLOCATION] = "allocation",
	};
	uint32_t counts[TFC__HANDLE_KINDS] = {0};
	char open[200] = "";
	size_t len = 0;
	if (tfc__list_is_empty(&ctx->handles))
		return TFC_OK;
	TFC__LIST_EACH (link, &ctx->handles)
		counts[tfc__container_of(link, struct tfc__handle, link)->kind]++;
	for (int kind = TFC__HANDLE_KINDS - 1; kind >= 0; kind--)
		if (counts[kind])
			len += (size_t)snprintf(open + len, sizeof(open) - len, "%s%s %u",
						len ? ", " : "", names[kind], counts[kind]);
	return tfc__fail(&ctx->error, TFC_EBUSY, "ctx", 0,
			 "cannot close the context, handles are open: %s; "
			 "close them, or call tfc_ctx_free, which closes them itself",
			 open);
}
