/*
 * The door of a hold: SO_REUSEADDR on its socket. Part of the library and of the guard's program.
 */
#ifndef TFC_PORT_DOOR_H
#define TFC_PORT_DOOR_H

#include <stdbool.h>

/* 0, or -1 and errno. */
int tfc__door_set(int fd, bool is_open);

#endif
