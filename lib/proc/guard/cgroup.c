#include "guard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/proc_stat.h"
#include "proc/group.h"

#define CLEAR_PATIENCE TFC__SECOND
#define CLEAR_AGAIN_MS 50 /* a safety net: the event wakes poll */

/*
 * One directory per guard, "tfc-NAMESPACE-PID", in the guard's own cgroup, and one per task below
 * it, named after the shim's pid. NAMESPACE is the inode of the PID namespace in which the pids are
 * valid.
 */

/* ---- finding the guard's own cgroup */

/* Whether a list such as "cpu,memory" contains this controller. */
static bool list_has_controller(const char *list, const char *name)
{
	size_t len = strlen(name);
	for (; *list; list += strcspn(list, ",") + (list[strcspn(list, ",")] == ','))
		if (strncmp(list, name, len) == 0 && (list[len] == ',' || !list[len]))
			return true;
	return false;
}

bool cgroup_name(const char *controller, char ret_name[PATH_MAX])
{
	char text[4096], *rest = text;
	tfc__read_text("/proc/self/cgroup", text, sizeof(text));
	/* cgroups(7): each line is "ID:CONTROLLERS:PATH", and v2 is "0::PATH" */
	for (char *line; (line = strsep(&rest, "\n"));) {
		strsep(&line, ":");
		char *list = strsep(&line, ":");
		if (!list || !line ||
		    (*controller ? !list_has_controller(list, controller) : *list))
			continue;
		snprintf(ret_name, PATH_MAX, "%s", line);
		return true;
	}
	return false;
}

/* proc(5): "ID PARENT MAJOR:MINOR ROOT POINT OPTIONS... - TYPE SOURCE OPTIONS". */
bool cgroup_dir(char ret_path[PATH_MAX])
{
	char group[PATH_MAX], line[4096], root[1024], point[1024];
	bool is_found = false;
	if (!cgroup_name("", group))
		return false;
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	while (mounts && !is_found && fgets(line, sizeof(line), mounts)) {
		if (!strstr(line, " - cgroup2 ") ||
		    sscanf(line, "%*d %*d %*s %1023s %1023s", root, point) != 2)
			continue;
		size_t len = strcmp(root, "/") == 0 ? 0 : strlen(root);
		is_found = strncmp(group, root, len) == 0 && (group[len] == '/' || !group[len]);
		const char *below = group + len + (group[len] == '/');
		if (is_found)
			snprintf(ret_path, PATH_MAX, "%s/%s%s", point, below, *below ? "/" : "");
	}
	if (mounts)
		fclose(mounts);
	return is_found;
}

/* systemd marks a cgroup that it delegates. Only root can read the attribute of older versions. */
static bool dir_is_delegated(const char *path)
{
	static const char *const attributes[] = {"user.delegate", "trusted.delegate"};
	char value = '0';
	for (int i = 0; i < 2 && value != '1'; i++)
		if (getxattr(path, attributes[i], &value, 1) < 0)
			value = '0';
	return value == '1';
}

/*
 * The cgroup in which the guard makes its directory: its own, or the one above, if systemd has
 * delegated that and started the host in a subgroup (DelegateSubgroup=). cgroup-v2.rst, "No
 * Internal Process Constraint": except for the root, a cgroup that contains processes cannot pass
 * the memory controller on.
 */
static bool cgroup_dir_of_guards(char ret_path[PATH_MAX])
{
	char above[PATH_MAX];
	if (!cgroup_dir(ret_path))
		return false;
	size_t len = strlen(ret_path) - 1; /* without the last slash */
	while (len > 0 && ret_path[len - 1] != '/')
		len--;
	snprintf(above, sizeof(above), "%.*s", (int)len, ret_path);
	if (!dir_is_delegated(ret_path) && dir_is_delegated(above))
		memcpy(ret_path, above, len + 1);
	return true;
}

static unsigned long long pid_namespace(void)
{
	struct stat status;
	return stat("/proc/self/ns/pid", &status) < 0 ? 0 : (unsigned long long)status.st_ino;
}

/* ---- groups of dead shims and guards */

/* A process that may not be inspected counts as alive, to be safe. */
static bool program_is_alive(pid_t pid, const char *name)
{
	struct tfc__proc_stat process;
	if (kill(pid, 0) < 0 && errno == ESRCH)
		return false;
	if (tfc__proc_stat_read(pid, &process) < 0)
		return true;
	return strcmp(process.name, name) == 0 && process.state != 'Z' && process.state != 'X';
}

static void cgroup_kill_group(int dir, const char *name)
{
	char path[64];
	snprintf(path, sizeof(path), "%.40s/cgroup.kill", name);
	int fd = openat(dir, path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (write(fd, "1", 1) < 0)
		errno = 0; /* the next clearing tries again */
	close(fd);
}

/*
 * The kernel kills asynchronously and reports when the group is empty. A task that is started after
 * a clearing must not coexist with the processes before it, so the end is awaited, up to `until`.
 */
static void cgroup_remove_once_empty(int node, const char *name, uint64_t until)
{
	char path[64], text[256];
	snprintf(path, sizeof(path), "%.40s/cgroup.events", name);
	struct pollfd events = {.fd = openat(node, path, O_RDONLY | O_CLOEXEC), .events = POLLPRI};
	while (events.fd >= 0 && pread(events.fd, text, sizeof(text), 0) > 0 &&
	       tfc__group_remove(node, name) < 0 && errno == EBUSY && tfc__now() < until)
		poll(&events, 1, CLEAR_AGAIN_MS);
	if (events.fd >= 0)
		close(events.fd);
}

/* The groups whose shims are dead: kills their processes, or with `until` removes the groups. */
static void cgroup_each_dead_group(int node, uint64_t until)
{
	int copy = openat(node, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		pid_t shim = atoi(entry->d_name);
		if (shim <= 0 || program_is_alive(shim, "tfc-shim"))
			continue;
		if (until)
			cgroup_remove_once_empty(node, entry->d_name, until);
		else
			cgroup_kill_group(node, entry->d_name);
	}
	if (dir)
		closedir(dir);
	else if (copy >= 0)
		close(copy);
}

/* The groups of guards of this PID namespace that were killed together with their shims. */
static void cgroup_each_dead_node(const char *above, uint64_t until)
{
	unsigned long long space;
	int pid;
	DIR *dir = opendir(above);
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		if (sscanf(entry->d_name, "tfc-%llu-%d", &space, &pid) != 2 ||
		    space != pid_namespace() || program_is_alive(pid, "tfc-guard"))
			continue;
		int node = openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (node < 0)
			continue;
		cgroup_each_dead_group(node, until);
		close(node);
		unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
	}
	if (dir)
		closedir(dir);
}

static void cgroup_clear_dead_nodes(const char *above)
{
	cgroup_each_dead_node(above, 0);
	cgroup_each_dead_node(above, tfc__now() + CLEAR_PATIENCE);
}

/* ---- the guard's group */

/*
 * For limits of memory and CPUs. Whether the controllers can be passed on is up to the system; if
 * not, a task that asks for a limit fails with a message. A cgroup that contains processes is left
 * as it is: with the CPU controller alone it would become the root of a threaded subtree, in which
 * no process can be started.
 */
static void cgroup_pass_controllers(int dir, const char *path)
{
	static const char *const controllers[] = {"+memory", "+cpu"};
	char file[PATH_MAX + 32], first;
	snprintf(file, sizeof(file), "%scgroup.type", path);
	bool is_root = faccessat(dir, file, F_OK, 0) < 0;
	snprintf(file, sizeof(file), "%scgroup.procs", path);
	int procs = openat(dir, file, O_RDONLY | O_CLOEXEC);
	bool has_processes = procs < 0 || read(procs, &first, 1) != 0;
	if (procs >= 0)
		close(procs);
	if (has_processes && !is_root)
		return;
	snprintf(file, sizeof(file), "%scgroup.subtree_control", path);
	int fd = openat(dir, file, O_WRONLY | O_CLOEXEC);
	for (int i = 0; i < 2 && fd >= 0; i++)
		if (write(fd, controllers[i], strlen(controllers[i])) < 0)
			errno = 0;
	if (fd >= 0)
		close(fd);
}

static int cgroup_open_node(struct guard *guard)
{
	char above[PATH_MAX];
	if (!cgroup_dir_of_guards(above) || access(above, W_OK) < 0)
		return -1;
	cgroup_clear_dead_nodes(above);
	if (asprintf(&guard->group_path, "%stfc-%llu-%d", above, pid_namespace(), getpid()) < 0) {
		guard->group_path = NULL;
		return -1;
	}
	if (mkdir(guard->group_path, 0755) < 0 && errno != EEXIST)
		return -1;
	int node = open(guard->group_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cgroup_pass_controllers(AT_FDCWD, above);
	cgroup_pass_controllers(node, "");
	/* cgroup.kill: Linux 5.14 and later */
	if (node < 0 || faccessat(node, "cgroup.kill", W_OK, 0) < 0) {
		if (node >= 0)
			close(node);
		rmdir(guard->group_path);
		return -1;
	}
	return node;
}

bool cgroup_create(struct guard *guard)
{
	if (guard->group_is_tried)
		return false;
	guard->group_is_tried = true;
	int node = cgroup_open_node(guard);
	guard->group = node < 0 ? -1 : dup3(node, guard->group_end, O_CLOEXEC);
	if (node < 0)
		return false;
	close(node);
	return guard->group >= 0;
}

void cgroup_kill(const struct guard *guard, pid_t shim)
{
	char name[16];
	snprintf(name, sizeof(name), "%d", (int)shim);
	if (guard->group >= 0)
		cgroup_kill_group(guard->group, name);
}

/*
 * All groups are killed before the first is awaited: all that do not empty cost one delay together.
 */
void cgroup_remove_lost(const struct guard *guard)
{
	const struct guard_core *core = &guard->core;
	uint64_t until = tfc__now() + CLEAR_PATIENCE;
	char name[16];
	for (uint32_t at = core->lost.first; at && guard->group >= 0;
	     at = core->tasks[at - 1].next) {
		snprintf(name, sizeof(name), "%d", (int)-guard->pids[at - 1]);
		cgroup_remove_once_empty(guard->group, name, until);
	}
}

void cgroup_clear_dead(void)
{
	char above[PATH_MAX];
	if (cgroup_dir_of_guards(above))
		cgroup_clear_dead_nodes(above);
}

void cgroup_end(struct guard *guard)
{
	if (guard->group < 0)
		return;
	cgroup_each_dead_group(guard->group, 0);
	cgroup_each_dead_group(guard->group, tfc__now() + CLEAR_PATIENCE);
	tfc__group_remove(AT_FDCWD, guard->group_path); /* no task and no shim is left */
	*strrchr(guard->group_path, '/') = 0;
	/* Again, because what was killed at the start has ended by now. */
	cgroup_clear_dead_nodes(guard->group_path);
}
