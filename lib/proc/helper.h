/* What guard and shim have in common. Uses nothing but system calls. */
#ifndef TFC_PROC_HELPER_H
#define TFC_PROC_HELPER_H

/*
 * Returns a signalfd of SIGCHLD, close-on-exec, or -1 and errno. Blocks SIGCHLD and the signals
 * that end a node (base/signals.h), and unblocks all others.
 */
int tfc__helper_signals(void);

#endif
