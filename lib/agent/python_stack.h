/*
 * What a Python process is doing, read from the dump that Python's faulthandler has printed. Pure.
 */
#ifndef TFC_AGENT_PYTHON_STACK_H
#define TFC_AGENT_PYTHON_STACK_H

#include "agent/activity.h"

struct tfc__python_stack {
	enum tfc__activity activity; /* NONE: the text holds no whole dump of the main thread */
	char place[80];              /* "in load_shard (train.py:31)"; empty: not known */
};

/* `text` is changed. It may hold other output around the dump; of several dumps the last counts. */
void tfc__python_stack_read(char *text, struct tfc__python_stack *ret_stack);

#endif
