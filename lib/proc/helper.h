/*
 * What guard and shim do alike. Needs nothing but system calls.
 */
#ifndef TFC_PROC_HELPER_H
#define TFC_PROC_HELPER_H

/*
 * A signalfd, close-on-exec, of the signals that a helper hears: SIGCHLD, and SIGTERM, SIGINT and
 * SIGHUP. They are blocked from now on, and no others are. -1 and errno.
 */
int tfc__helper_signals(void);

#endif
