#include "guard.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "port/door.h"

static struct keep *find(struct guard *guard, uint32_t id)
{
	for (uint32_t i = 0; i < guard->keep_count; i++)
		if (guard->keeps[i].id == id)
			return &guard->keeps[i];
	return NULL;
}

void keep_port(struct guard *guard, uint32_t id, int fd)
{
	struct keep *keep = find(guard, 0);
	if (!keep) {
		uint32_t count = guard->keep_count ? guard->keep_count * 2 : 16;
		struct keep *keeps = realloc(guard->keeps, count * sizeof(*keeps));
		if (!keeps) {
			close(fd);
			return;
		}
		memset(keeps + guard->keep_count, 0, (count - guard->keep_count) * sizeof(*keeps));
		keep = keeps + guard->keep_count;
		guard->keeps = keeps;
		guard->keep_count = count;
	}
	*keep = (struct keep){.id = id, .fd = fd};
}

void keep_admit(struct guard *guard, uint32_t id, bool is_open)
{
	struct keep *keep = id ? find(guard, id) : NULL;
	if (keep)
		tfc__door_set(keep->fd, is_open);
}

static void close_unused(struct keep *keep)
{
	if (!keep->is_released || keep->tasks)
		return;
	close(keep->fd);
	keep->id = 0;
}

void keep_release(struct guard *guard, uint32_t id)
{
	struct keep *keep = id ? find(guard, id) : NULL;
	if (!keep)
		return;
	keep->is_released = true;
	close_unused(keep);
}

void keep_join(struct guard *guard, uint32_t id)
{
	struct keep *keep = id ? find(guard, id) : NULL;
	if (keep)
		keep->tasks++;
}

void keep_leave(struct guard *guard, uint32_t id)
{
	struct keep *keep = id ? find(guard, id) : NULL;
	if (!keep)
		return;
	keep->tasks--;
	close_unused(keep);
}
