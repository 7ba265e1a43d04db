#include "freezer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "proc_run.h"

#define PATIENCE (20 * TFC__SECOND)

static void path_of(const struct freezer *freezer, const char *name, char path[4200])
{
	snprintf(path, 4200, "%s/%s", freezer->dir, name);
}

static bool put(const struct freezer *freezer, const char *name, const char *text)
{
	char path[4200];
	path_of(freezer, name, path);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : write(fd, text, strlen(text));
	if (fd >= 0)
		close(fd);
	return len == (ssize_t)strlen(text);
}

bool freezer_make(struct freezer *freezer, enum freezer_kind kind)
{
	char own[4096], path[4200];
	*freezer = (struct freezer){.kind = kind};
	if (kind == FREEZER_STOP)
		return true;
	proc_group(getpid(), own);
	if (kind == FREEZER_V1)
		snprintf(own, sizeof(own), "/sys/fs/cgroup/freezer");
	snprintf(freezer->dir, sizeof(freezer->dir), "%.4000s/tfc-freezer-%d", own, (int)getpid());
	if (mkdir(freezer->dir, 0755) < 0)
		return false;
	path_of(freezer, kind == FREEZER_V2 ? "cgroup.freeze" : "freezer.state", path);
	if (access(path, W_OK) == 0)
		return true;
	rmdir(freezer->dir);
	return false;
}

void freezer_join(const struct freezer *freezer)
{
	if (freezer->kind != FREEZER_STOP && !put(freezer, "cgroup.procs", "0"))
		_exit(50);
}

static bool is_frozen(const struct freezer *freezer)
{
	char path[4200], text[256] = "";
	path_of(freezer, freezer->kind == FREEZER_V2 ? "cgroup.events" : "freezer.state", path);
	tfc__read_text(path, text, sizeof(text));
	return strstr(text, freezer->kind == FREEZER_V2 ? "frozen 1" : "FROZEN");
}

/* No event comes of the v1 freezer: its state is polled. */
static void await_frozen(const struct freezer *freezer)
{
	for (uint64_t end = tfc__now() + PATIENCE; !is_frozen(freezer); poll(NULL, 0, 1))
		assert_true(tfc__now() < end);
}

void freezer_freeze(struct freezer *freezer, pid_t root)
{
	if (freezer->kind == FREEZER_V2)
		assert_true(put(freezer, "cgroup.freeze", "1"));
	else if (freezer->kind == FREEZER_V1)
		assert_true(put(freezer, "freezer.state", "FROZEN"));
	if (freezer->kind != FREEZER_STOP) {
		await_frozen(freezer);
		return;
	}
	freezer->count = proc_family(root, freezer->pids, 64);
	for (size_t i = 0; i < freezer->count; i++) {
		proc_stop(freezer->pids[i]);
	}
}

/* Stopped ones go on from the last to the first: tasks before those that are to end them. */
void freezer_thaw(struct freezer *freezer)
{
	if (freezer->kind == FREEZER_V2)
		assert_true(put(freezer, "cgroup.freeze", "0"));
	else if (freezer->kind == FREEZER_V1)
		assert_true(put(freezer, "freezer.state", "THAWED"));
	while (freezer->count > 0)
		kill(freezer->pids[--freezer->count], SIGCONT);
}

void freezer_remove(struct freezer *freezer)
{
	if (freezer->kind == FREEZER_STOP)
		return;
	for (uint64_t end = tfc__now() + PATIENCE; rmdir(freezer->dir) < 0; poll(NULL, 0, 1))
		assert_true(tfc__now() < end);
}
