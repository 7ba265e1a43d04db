#include "port/owner.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/proc_stat.h"

/* ---- entries of /proc */

static DIR *open_proc_dir(const char *format, pid_t pid, pid_t thread)
{
	char path[64];
	snprintf(path, sizeof(path), format, (int)pid, (int)thread);
	return opendir(path);
}

/* Whether an error is a lack of descriptors or memory: the search is then incomplete, and "not
 * found" would be wrong. */
static bool is_resource_lack(int sys_errno)
{
	return sys_errno == EMFILE || sys_errno == ENFILE || sys_errno == ENOMEM;
}

/* The number that a directory entry's name is, or 0. */
static pid_t dirent_pid(const struct dirent *entry)
{
	char *end = NULL;
	long number = strtol(entry->d_name, &end, 10);
	return *end || number <= 0 ? 0 : (pid_t)number;
}

void tfc__owner_program(pid_t pid, char ret_program[64])
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	ssize_t n = tfc__read_text(path, ret_program, 64);
	if (n <= 0)
		ret_program[0] = 0;
	else if (ret_program[n - 1] == '\n')
		ret_program[n - 1] = 0;
}

/* ---- the descriptors of one process */

static void sought_set_owner(struct tfc__sought *sought, size_t count, unsigned long inode,
			     pid_t pid)
{
	for (size_t i = 0; i < count; i++)
		if (sought[i].inode == inode && !sought[i].pid)
			sought[i].pid = pid;
}

/*
 * Reads at most *left descriptors of a process, from the position *ret_at (a telldir(3) value, or
 * 0). Returns 1 when *left is used up, with the position at which to continue in *ret_at; 0 at the
 * end, or when the descriptors are not readable; -1 and errno for a lack of resources.
 */
static int search_descriptors(pid_t pid, struct tfc__sought *sought, size_t count, uint32_t *left,
			      long *ret_at)
{
	DIR *dir = open_proc_dir("/proc/%d/fd", pid, 0);
	if (!dir)
		return is_resource_lack(errno) ? -1 : 0;
	if (*ret_at)
		seekdir(dir, *ret_at);
	*ret_at = 0;
	for (struct dirent *entry; !*ret_at && (entry = readdir(dir));) {
		char target[64];
		unsigned long inode = 0;
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
		if (n > 0) {
			target[n] = 0;
			if (sscanf(target, "socket:[%lu]", &inode) == 1)
				sought_set_owner(sought, count, inode, pid);
		}
		if (--*left == 0)
			*ret_at = telldir(dir);
	}
	closedir(dir);
	return *ret_at != 0;
}

/* ---- the tree of processes */

struct pids {
	pid_t *items;
	size_t count;
	size_t capacity;
};

static int pids_add(struct pids *pids, pid_t pid)
{
	if (pids->count == pids->capacity) {
		size_t capacity = pids->capacity ? 2 * pids->capacity : 32;
		pid_t *items = realloc(pids->items, capacity * sizeof(*items));
		if (!items)
			return -1;
		pids->items = items;
		pids->capacity = capacity;
	}
	pids->items[pids->count++] = pid;
	return 0;
}

/* Adds the children of one thread. Returns -1 and ENOENT when the kernel does not provide the
 * file. */
static int pids_add_thread_children(pid_t pid, pid_t thread, struct pids *pids)
{
	char path[64], buffer[1024];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)thread);
	FILE *file = fopen(path, "re");
	if (!file)
		return -1;
	setvbuf(file, buffer, _IOFBF, sizeof(buffer)); /* stdio's own could fail to allocate */
	int child = 0;
	int result = 0;
	while (!result && fscanf(file, "%d", &child) == 1)
		result = pids_add(pids, child);
	fclose(file);
	return result;
}

/* Adds the children of all threads of a process; a process that has ended meanwhile has none. */
static int pids_add_children(pid_t pid, struct pids *pids)
{
	DIR *dir = open_proc_dir("/proc/%d/task", pid, 0);
	if (!dir)
		return errno == ENOENT || errno == ESRCH ? 0 : -1;
	int result = 0;
	for (struct dirent *entry; !result && (entry = readdir(dir));) {
		pid_t thread = dirent_pid(entry);
		if (thread && pids_add_thread_children(pid, thread, pids) && errno != ENOENT &&
		    errno != ESRCH)
			result = -1;
	}
	closedir(dir);
	return result;
}

/* For kernels without the children files: every process and its parent, read once. */
struct family {
	struct pids pids;
	struct pids parents;
};

static int family_read(struct family *family)
{
	DIR *dir = opendir("/proc");
	if (!dir)
		return -1;
	int result = 0;
	for (struct dirent *entry; !result && (entry = readdir(dir));) {
		struct tfc__proc_stat process = {.parent = 0}; /* stays 0 if it has ended */
		pid_t pid = dirent_pid(entry);
		if (!pid)
			continue;
		if (tfc__proc_stat_read(pid, &process) < 0 && is_resource_lack(errno))
			result = -1;
		else if (pids_add(&family->pids, pid) || pids_add(&family->parents, process.parent))
			result = -1;
	}
	closedir(dir);
	return result;
}

static int family_add_children(const struct family *family, pid_t pid, struct pids *pids)
{
	for (size_t i = 0; i < family->pids.count; i++)
		if (family->parents.items[i] == pid && pids_add(pids, family->pids.items[i]))
			return -1;
	return 0;
}

/* Calls visit for each process of the tree. visit returns 1 to continue, 0 to stop, or -1 and
 * errno. */
static int process_tree_walk(pid_t root, bool by_parents, int (*visit)(void *user, pid_t pid),
			     void *user)
{
	struct pids pids = {0};
	struct family family = {0};
	int result = by_parents ? family_read(&family) : 0;
	if (!result)
		result = pids_add(&pids, root);
	for (size_t i = 0; !result && i < pids.count; i++) {
		pid_t pid = pids.items[i];
		int visited = visit(user, pid);
		if (visited == 0)
			break;
		if (visited < 0)
			result = -1;
		else
			result = by_parents ? family_add_children(&family, pid, &pids)
					    : pids_add_children(pid, &pids);
	}
	int saved = errno;
	free(family.pids.items);
	free(family.parents.items);
	free(pids.items);
	errno = saved;
	return result;
}

struct search {
	struct tfc__sought *items;
	size_t count;
};

static int visit_sought(void *user, pid_t pid)
{
	const struct search *search = user;
	size_t found = 0;
	while (found < search->count && search->items[found].pid)
		found++;
	if (found == search->count)
		return 0;
	uint32_t left = UINT32_MAX;
	long at = 0;
	return search_descriptors(pid, search->items, search->count, &left, &at) < 0 ? -1 : 1;
}

int tfc__owner_find_in_tree(pid_t root, struct tfc__sought *sought, size_t count)
{
	struct search search = {sought, count};
	return process_tree_walk(root, false, visit_sought, &search);
}

int tfc__owner_find_by_parents(pid_t root, struct tfc__sought *sought, size_t count)
{
	struct search search = {sought, count};
	return process_tree_walk(root, true, visit_sought, &search);
}

struct each {
	tfc__owner_fn fn;
	void *user;
};

static int visit_each(void *user, pid_t pid)
{
	const struct each *each = user;
	return each->fn(each->user, pid);
}

int tfc__owner_each_in_tree(pid_t root, tfc__owner_fn fn, void *user)
{
	struct each each = {fn, user};
	return process_tree_walk(root, !tfc__owner_kernel_lists_children(), visit_each, &each);
}

bool tfc__owner_kernel_lists_children(void)
{
	return !access("/proc/thread-self/children", F_OK);
}

void tfc__owner_find(struct tfc__owner_search *search, uint32_t inode, uint32_t most,
		     struct tfc__owner *ret_owner)
{
	struct tfc__sought sought = {.inode = inode};
	DIR *dir = opendir("/proc");
	if (search->inode != inode)
		*search = (struct tfc__owner_search){.inode = inode};
	if (dir && search->process)
		seekdir(dir, search->process);
	bool is_cut = false;
	for (struct dirent *entry; dir && !sought.pid && !is_cut;) {
		long at = telldir(dir);
		if (!(entry = readdir(dir)))
			break;
		pid_t pid = dirent_pid(entry);
		/* A process counts as one descriptor. */
		is_cut = pid && search_descriptors(pid, &sought, 1, &most, &search->descriptor) > 0;
		search->process = is_cut ? at : telldir(dir);
		is_cut = is_cut || --most == 0;
	}
	if (dir)
		closedir(dir);
	if (sought.pid || !is_cut)
		*search = (struct tfc__owner_search){0};
	if (!sought.pid)
		return;
	ret_owner->pid = sought.pid;
	tfc__owner_program(sought.pid, ret_owner->program);
}
