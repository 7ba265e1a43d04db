/*
 * The backends that are built in: the one place where they are named. A table is walked by the
 * module whose header declares it.
 */
#include <stddef.h>

#include "transport/builtin.h"
#include "transport/pipe.h"

const struct tfc__builtin_transport tfc__builtin_transports[] = {
	{&tfc__tcp_ops, NULL, true},
	{&tfc__unix_ops, NULL, true},
	{&tfc__memory_ops, tfc__memory_open, false},
	{NULL, NULL, false},
};
