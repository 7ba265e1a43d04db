/*
 * A program in the place of tfc-guard that is none. What it does is the name of the directory it
 * was started from: the guard's only argument is the path of the shim beside it.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/pass.h"
#include "proc/protocol.h"

static char mode[64];

static bool is_mode(const char *name)
{
	return strcmp(mode, name) == 0;
}

static void find_mode(char *shim)
{
	char *slash = strrchr(shim, '/');
	*slash = 0;
	snprintf(mode, sizeof(mode), "%s", strrchr(shim, '/') + 1);
}

static void say_hello(int32_t version)
{
	int ends[2] = {-1, -1};
	if (pipe(ends) < 0)
		return;
	int fds[2] = {ends[0], (int)syscall(SYS_pidfd_open, getpid(), 0)};
	struct tfc__report hello = {.kind = TFC__MSG_HELLO, .pid = getpid(), .status = version};
	struct iovec part = {&hello, sizeof(hello)};
	tfc__pass_send(TFC__GUARD_HOST, &part, 1, fds, 2, MSG_NOSIGNAL);
	close(ends[0]);
}

static void say(const void *data, size_t len)
{
	send(TFC__GUARD_HOST, data, len, MSG_NOSIGNAL);
}

/* A process with much memory takes long to die. */
static void become_heavy(void)
{
	const size_t size = 512u << 20;
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return;
	madvise(memory, size, MADV_NOHUGEPAGE);
	for (size_t at = 0; at < size; at += 4096)
		memory[at] = 1;
}

static void answer(const struct tfc__command *command)
{
	struct tfc__report report = {.kind = TFC__MSG_EXITED, .id = command->id, .pid = getpid()};
	if (command->kind == TFC__MSG_KEEP && is_mode("portless"))
		say(&(struct tfc__report){.kind = TFC__MSG_NOT_KEPT, .id = command->keep_id},
		    sizeof(report));
	if (command->kind != TFC__MSG_SPAWN)
		return;
	if (is_mode("short"))
		say("abc", 3);
	if (is_mode("huge")) {
		static const char huge[65536];
		say(huge, sizeof(huge));
	}
	if (is_mode("kind")) {
		report.kind = 4711;
		say(&report, sizeof(report));
	}
	if (is_mode("reason")) {
		report.reason = 99;
		say(&report, sizeof(report));
	}
	if (is_mode("signal")) {
		report.reason = TFC__END_SIGNAL;
		report.status = 9999;
		say(&report, sizeof(report));
	}
	if (is_mode("twice") || is_mode("stranger")) {
		report.reason = TFC__END_CODE;
		report.id += is_mode("stranger") ? 5 : 0;
		for (int i = 0; i < 3; i++)
			say(&report, sizeof(report));
	}
}

int main(int argc, char **argv)
{
	struct {
		struct tfc__command command;
		char rest[4096];
	} request;
	if (argc != 2)
		return 1;
	find_mode(argv[1]);
	if (is_mode("useless"))
		return 1;
	if (is_mode("heavy"))
		become_heavy();
	if (is_mode("version"))
		say_hello(TFC__PROTOCOL_VERSION + 1);
	else if (is_mode("again"))
		say_hello(TFC__PROTOCOL_VERSION);
	if (!is_mode("version") && !is_mode("silent") && !is_mode("heavy"))
		say_hello(TFC__PROTOCOL_VERSION);
	if (is_mode("garbled") || is_mode("heavy"))
		say("", 1);
	while (is_mode("mute") || is_mode("silent") || is_mode("heavy"))
		pause();
	while (recv(TFC__GUARD_HOST, &request, sizeof(request), 0) > 0)
		answer(&request.command);
	return 0;
}
