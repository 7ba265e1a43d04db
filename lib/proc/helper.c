#include "proc/helper.h"

#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>

int tfc__helper_signals(void)
{
	sigset_t watched;
	sigemptyset(&watched);
	sigaddset(&watched, SIGCHLD);
	sigaddset(&watched, SIGTERM);
	sigaddset(&watched, SIGINT);
	sigaddset(&watched, SIGHUP);
	sigprocmask(SIG_SETMASK, &watched, NULL);
	return signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
}
