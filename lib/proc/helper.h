/*
 * What guard and shim do alike. Needs nothing but system calls.
 */
#ifndef TFC_PROC_HELPER_H
#define TFC_PROC_HELPER_H

/*
 * A signalfd, close-on-exec, of SIGCHLD. Blocked from now on are SIGCHLD and the signals that end a
 * node (base/signals.h), no others. -1 and errno.
 */
int tfc__helper_signals(void);

#endif
