/*
 * The signals that end a node. A service manager, a terminal or a batch system sends them to every
 * process of a cgroup, session or process group at once. Only the node acts on them; its helper
 * programs block them. The helpers do not ignore them, because a task would inherit an ignored
 * signal through exec.
 */
#ifndef TFC_BASE_SIGNALS_H
#define TFC_BASE_SIGNALS_H

#include <signal.h>

static inline void tfc__node_signals(sigset_t *ret_set)
{
	sigemptyset(ret_set);
	sigaddset(ret_set, SIGHUP);
	sigaddset(ret_set, SIGINT);
	sigaddset(ret_set, SIGQUIT);
	sigaddset(ret_set, SIGTERM);
}

/* For a helper program that runs as a task and therefore starts with an empty signal mask. */
static inline void tfc__block_node_signals(void)
{
	sigset_t set;
	tfc__node_signals(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

#endif
