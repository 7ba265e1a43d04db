/*
 * The resource limits of a task, and the user it runs as. The child runs this between vfork and
 * exec, so it only makes system calls, and those of setuid(2) without libc, which would involve
 * other threads.
 */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static rlim_t rlim_of(uint64_t value)
{
	return value == UINT64_MAX ? RLIM_INFINITY : (rlim_t)value;
}

static int limits_set_rlimits(const struct shim_launch *launch, volatile struct tfc__report *report)
{
	for (uint32_t i = 0; i < launch->head->rlimit_count; i++) {
		const struct tfc__launch_rlimit *wanted = &launch->rlimits[i];
		struct rlimit limit = {rlim_of(wanted->soft), rlim_of(wanted->hard)}, old;
		if (setrlimit((int)wanted->resource, &limit) == 0)
			continue;
		int error = errno;
		report->resource = (uint32_t)wanted->resource;
		report->requested = (int64_t)wanted->hard;
		report->allowed = getrlimit((int)wanted->resource, &old) == 0
					  ? (int64_t)old.rlim_max
					  : 0;
		return error;
	}
	return 0;
}

static int limits_set_nice(const struct shim_launch *launch, volatile struct tfc__report *report)
{
	int add = launch->head->nice;
	report->requested = add;
	errno = 0;
	if (!add)
		return 0;
	int old = getpriority(PRIO_PROCESS, 0);
	if (errno)
		return errno;
	return setpriority(PRIO_PROCESS, 0, old + add) < 0 ? errno : 0;
}

static int limits_set_oom_score(const struct shim_launch *launch,
				volatile struct tfc__report *report)
{
	char text[16], *end = text + sizeof(text), *begin = end;
	int score = launch->head->oom_score_adj;
	if (!(launch->head->limit_flags & TFC__LIMIT_OOM_SCORE_ADJ))
		return 0;
	unsigned value = score < 0 ? 0u - (unsigned)score : (unsigned)score;
	do
		*--begin = (char)('0' + value % 10);
	while (value /= 10);
	if (score < 0)
		*--begin = '-';
	report->requested = score;
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	int error = write(fd, begin, (size_t)(end - begin)) < 0 ? errno : 0;
	close(fd);
	return error;
}

/* The groups first: afterwards the process has no permission to change them. */
static int limits_set_user(const struct shim_launch *launch, volatile struct tfc__report *report)
{
	const struct tfc__launch *head = launch->head;
	if (!(head->limit_flags & TFC__LIMIT_USER))
		return 0;
	report->requested = head->uid;
	if (syscall(SYS_setgroups, (size_t)head->group_count, launch->groups) < 0 ||
	    syscall(SYS_setresgid, head->gid, head->gid, head->gid) < 0 ||
	    syscall(SYS_setresuid, head->uid, head->uid, head->uid) < 0)
		return errno;
	return 0;
}

/* ---- limits that need a cgroup: of the task and all that it starts, together */

static int limits_write_group_file(const struct shim *shim, const char *name, const char *text)
{
	int fd = shim->group < 0 ? -1 : openat(shim->group, name, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return shim->group < 0 ? ENOTSUP : errno;
	int error = write(fd, text, strlen(text)) < 0 ? errno : 0;
	close(fd);
	return error;
}

int limits_group(struct shim *shim, const struct shim_launch *launch)
{
	char text[40];
	uint64_t bytes = launch->head->memory;
	uint32_t milli = launch->head->cpu_milli;
	int error = 0;
	if (bytes) {
		shim->report.step = TFC__STEP_MEMORY;
		shim->report.requested = (int64_t)bytes;
		snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
		shim->memory_limit = (int64_t)bytes;
		error = limits_write_group_file(shim, "memory.max", text);
		/* A task that goes on without some of its processes may wait for them for ever. */
		if (!error)
			limits_write_group_file(shim, "memory.oom.group", "1");
		if (launch->head->limit_flags & TFC__LIMIT_MEMORY_IF_POSSIBLE) {
			shim->memory_error = error;
			error = 0;
		}
	}
	if (!error && milli) {
		shim->report.step = TFC__STEP_CPUS;
		shim->report.requested = milli;
		/* cgroup-v2.rst: microseconds of CPU time in each period of 100,000 */
		snprintf(text, sizeof(text), "%llu 100000", milli * 100ull);
		error = limits_write_group_file(shim, "cpu.max", text);
	}
	return error;
}

/* A counter of a file with a line "NAME N" for each; -1: the cgroup does not have this file. */
static long long limits_read_counter(const struct shim *shim, const char *file, const char *name)
{
	char text[512];
	size_t name_len = strlen(name);
	int fd = shim->group < 0 ? -1 : openat(shim->group, file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t len = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[len > 0 ? len : 0] = '\0';
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, name_len) == 0 && line[name_len] == ' ')
			return strtoll(line + name_len, NULL, 10);
	}
	return -1;
}

/*
 * cgroup-v2.rst: "oom_kill" counts the killed processes of this cgroup and those below it, whatever
 * limit was reached; "oom" of the local file counts how often this cgroup reached its own limit.
 */
void limits_report_oom(struct shim *shim)
{
	struct tfc__report *report = &shim->report;
	long long kills = limits_read_counter(shim, "memory.events", "oom_kill");
	bool is_killed = report->reason == TFC__END_SIGNAL && report->status == SIGKILL;
	report->oom = kills < 0                ? TFC__OOM_UNKNOWN
		      : kills > 0 && is_killed ? TFC__OOM_KILLED
					       : TFC__OOM_NONE;
	if (report->oom != TFC__OOM_KILLED || shim->memory_error || !shim->memory_limit ||
	    limits_read_counter(shim, "memory.events.local", "oom") <= 0)
		return;
	report->oom = TFC__OOM_LIMIT;
	report->requested = shim->memory_limit;
}

/* ---- */

int limits_apply(const struct shim_launch *launch, volatile struct tfc__report *report)
{
	static const struct {
		uint32_t step;
		int (*set)(const struct shim_launch *launch, volatile struct tfc__report *report);
	} limits[] = {
		{TFC__STEP_NICE, limits_set_nice},
		{TFC__STEP_OOM_SCORE, limits_set_oom_score},
		{TFC__STEP_RLIMIT, limits_set_rlimits},
		{TFC__STEP_USER, limits_set_user},
	};
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		int error = limits[i].set(launch, report);
		report->step = limits[i].step;
		if (error)
			return error;
	}
	return 0;
}
