#include "proc/helper.h"

#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>

#include "base/signals.h"

int tfc__helper_signals(void)
{
	sigset_t watched, blocked;
	sigemptyset(&watched);
	sigaddset(&watched, SIGCHLD);
	tfc__node_signals(&blocked);
	sigaddset(&blocked, SIGCHLD);
	sigprocmask(SIG_SETMASK, &blocked, NULL);
	return signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
}
