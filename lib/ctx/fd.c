#include <unistd.h>

#include "ctx/internal.h"

void tfc__fd_note(tfc_ctx *ctx, struct tfc__noted_fd *note, int fd)
{
	note->fd = fd;
	tfc__list_append(&ctx->fds, &note->link);
}

void tfc__fd_close(struct tfc__noted_fd *note)
{
	if (note->fd < 0)
		return;
	tfc__list_remove(&note->link);
	close(note->fd);
	note->fd = -1;
}

void tfc__ctx_close_fds(tfc_ctx *ctx)
{
	TFC__LIST_EACH (link, &ctx->fds)
		close(tfc__container_of(link, struct tfc__noted_fd, link)->fd);
}
