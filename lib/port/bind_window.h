/*
 * The bind window of a port hold. The window is open while the hold's socket has SO_REUSEADDR. Part
 * of the library and of the guard program.
 */
#ifndef TFC_PORT_BIND_WINDOW_H
#define TFC_PORT_BIND_WINDOW_H

#include <stdbool.h>

/* Opens or closes the bind window of the socket. Returns 0, or -1 and errno. */
int tfc__bind_window_set(int fd, bool is_open);

#endif
