/*
 * An agent that a test plays: it writes the orders that it receives, a line each ("a: hold 0",
 * "b: spec g1 b:1 a:1", "b: launch 1 #1 g1"), and the test answers through fn.
 */
#ifndef TEST_PLAYED_AGENT_H
#define TEST_PLAYED_AGENT_H

#include "agent/agent_ops.h"
#include "base/buf.h"

struct played_agent {
	const char *name;
	struct tfc__buf *orders; /* of all agents of a test */
	tfc__agent_fn fn;
	void *user;
	uint32_t holds[8]; /* number of the last one of each task */
	uint64_t epoch;
	bool is_open;
	bool is_refusing;         /* job_open fails */
	struct tfc__work *parked; /* by after_previous: the test schedules it */
};

/* A handle's user is a struct played_agent. */
extern const struct tfc__agent_ops played_agent_ops;

#endif
