#include "shim.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/pass.h"

/*
 * The array of offsets must lie inside, behind the head, which is still needed, and each offset
 * must point inside.
 */
static char **launch_map_strings(char *base, size_t size, uint64_t at, uint64_t count)
{
	if (at % sizeof(uint64_t) || at < sizeof(struct tfc__launch) || at > size ||
	    count >= (size - at) / sizeof(uint64_t))
		return NULL;
	const uint64_t *offsets = (const uint64_t *)(void *)(base + at);
	char **strings = (char **)(void *)(base + at);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t offset = offsets[i];
		if (offset >= size)
			return NULL;
		strings[i] = base + offset;
	}
	strings[count] = NULL;
	return strings;
}

static bool launch_head_is_valid(const struct tfc__launch *head, size_t size)
{
	return size >= sizeof(*head) && head->magic == TFC__LAUNCH_MAGIC &&
	       head->version == TFC__PROTOCOL_VERSION && head->size == size &&
	       ((const char *)head)[size - 1] == 0 && head->argc > 0 && head->cwd > 0 &&
	       head->cwd < size && head->log_dir < size && head->log_name < size;
}

static bool launch_array_is_inside(size_t size, uint64_t at, uint64_t count, size_t item)
{
	return at % _Alignof(uint32_t) == 0 && at <= size && count <= (size - at) / item;
}

bool launch_await(struct shim *shim)
{
	ssize_t len;
	int fds[2 + TFC__LOCKS];
	do
		len = tfc__pass_recv(TFC__SHIM_GUARD, &shim->command, sizeof(shim->command), 0, fds,
				     2 + TFC__LOCKS);
	while (len < 0 && errno == EINTR);
	uint32_t locks = shim->command.locks;
	uint32_t last = locks + (shim->command.is_zygote ? 1 : 0);
	if (locks <= TFC__LOCKS && fds[last] >= 0) /* else launch_map fails: no memfd */
		dup2(fds[0], TFC__SHIM_LAUNCH);
	if (locks <= TFC__LOCKS && shim->command.is_zygote) {
		shim->zygote = fds[last];
		fds[last] = -1;
	}
	if (fds[0] >= 0)
		close(fds[0]);
	memcpy(shim->locks, fds + 1, sizeof(shim->locks));
	return len > 0;
}

int launch_map(struct shim_launch *launch)
{
	struct stat status;
	if (fstat(TFC__SHIM_LAUNCH, &status) < 0)
		return errno;
	if (!S_ISREG(status.st_mode))
		return EMFILE; /* the memfd or a lock could not be received */
	size_t size = (size_t)status.st_size;
	if (size < sizeof(struct tfc__launch))
		return EINVAL;
	char *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, TFC__SHIM_LAUNCH, 0);
	if (base == MAP_FAILED)
		return errno;
	launch->head = (struct tfc__launch *)(void *)base;
	launch->size = size;
	if (!launch_head_is_valid(launch->head, size))
		return EINVAL;
	launch->argv = launch_map_strings(base, size, launch->head->argv, launch->head->argc);
	launch->env = launch_map_strings(base, size, launch->head->env, launch->head->envc);
	launch->cwd = base + launch->head->cwd;
	launch->log_dir = launch->head->log_dir ? base + launch->head->log_dir : NULL;
	launch->log_name = base + launch->head->log_name;
	const struct tfc__launch *head = launch->head;
	if (head->rlimits % sizeof(uint64_t) ||
	    !launch_array_is_inside(size, head->rlimits, head->rlimit_count,
				    sizeof(*launch->rlimits)) ||
	    !launch_array_is_inside(size, head->groups, head->group_count, sizeof(*launch->groups)))
		return EINVAL;
	launch->rlimits = (const void *)(base + head->rlimits);
	launch->groups = (const void *)(base + head->groups);
	if (!launch->argv || !launch->env ||
	    (launch->log_dir && !tfc__is_log_name(launch->log_name)))
		return EINVAL;
	return 0;
}

void launch_unmap(struct shim_launch *launch)
{
	if (launch->head)
		munmap(launch->head, launch->size);
	launch->head = NULL;
	close(TFC__SHIM_LAUNCH);
}
