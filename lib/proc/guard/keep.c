#include "guard.h"

#include <stdlib.h>
#include <unistd.h>

#include "port/bind_window.h"

static struct keep *keep_find(const struct guard *guard, uint32_t id)
{
	uint32_t at = tfc__map_get(&guard->keeps_by_id, id, UINT32_MAX);
	return at == UINT32_MAX ? NULL : &guard->keeps[at];
}

/* False: out of memory. */
static bool keep_grow_table(struct guard *guard)
{
	uint32_t count = guard->keep_count ? guard->keep_count * 2 : 16;
	struct keep *keeps = realloc(guard->keeps, count * sizeof(*keeps));
	if (!keeps)
		return false;
	guard->keeps = keeps;
	if (!tfc__map_reserve(&guard->keeps_by_id, count))
		return false;
	for (; guard->keep_count < count; guard->free_keep = ++guard->keep_count)
		keeps[guard->keep_count] = (struct keep){.next_free = guard->free_keep};
	return true;
}

void keep_port(struct guard *guard, uint32_t id, int fd)
{
	if (!guard->free_keep && !keep_grow_table(guard)) {
		host_report(guard, &(struct tfc__report){.kind = TFC__MSG_NOT_KEPT, .id = id});
		close(fd);
		return;
	}
	uint32_t at = guard->free_keep - 1;
	guard->free_keep = guard->keeps[at].next_free;
	guard->keeps[at] = (struct keep){.id = id, .fd = fd};
	tfc__map_set(&guard->keeps_by_id, id, at); /* keep_grow_table has reserved an entry */
}

void keep_set_bind_window(struct guard *guard, uint32_t id, bool is_open)
{
	struct keep *keep = id ? keep_find(guard, id) : NULL;
	if (keep)
		tfc__bind_window_set(keep->fd, is_open);
}

static void keep_close_unused(struct guard *guard, struct keep *keep)
{
	if (!keep->is_released || keep->tasks)
		return;
	close(keep->fd);
	tfc__map_remove(&guard->keeps_by_id, keep->id);
	*keep = (struct keep){.next_free = guard->free_keep};
	guard->free_keep = (uint32_t)(keep - guard->keeps) + 1;
}

void keep_release(struct guard *guard, uint32_t id)
{
	struct keep *keep = id ? keep_find(guard, id) : NULL;
	if (!keep)
		return;
	keep->is_released = true;
	keep_close_unused(guard, keep);
}

void keep_join(struct guard *guard, uint32_t id)
{
	struct keep *keep = id ? keep_find(guard, id) : NULL;
	if (keep)
		keep->tasks++;
}

void keep_leave(struct guard *guard, uint32_t id)
{
	struct keep *keep = id ? keep_find(guard, id) : NULL;
	if (!keep)
		return;
	keep->tasks--;
	keep_close_unused(guard, keep);
}

void keep_close_all(struct guard *guard)
{
	for (uint32_t i = 0; i < guard->keep_count; i++)
		if (guard->keeps[i].id)
			close(guard->keeps[i].fd);
	guard->keep_count = 0;
}
