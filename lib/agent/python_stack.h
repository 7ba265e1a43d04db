/* The activity of a Python process, read from a dump of Python's faulthandler. Pure. */
#ifndef TFC_AGENT_PYTHON_STACK_H
#define TFC_AGENT_PYTHON_STACK_H

#include "agent/activity.h"

struct tfc__python_stack {
	enum tfc__activity activity; /* NONE: no complete dump of the main thread */
	char place[80];              /* "in load_shard (train.py:31)"; empty: unknown */
};

/*
 * `text` is modified. It may contain other output around the dump; of several dumps the last
 * counts.
 */
void tfc__python_stack_read(char *text, struct tfc__python_stack *ret_stack);

#endif
