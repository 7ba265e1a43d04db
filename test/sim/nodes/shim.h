/*
 * Shims and their tasks (shim.c), as the guard that started them has them.
 */
#ifndef TEST_SIM_NODES_SHIM_H
#define TEST_SIM_NODES_SHIM_H

#include "proc/log_write.h"
#include "proc/protocol.h"
#include "sim.h"

/* What a task does, as the words of its command line say. */
struct sim_program {
	uint32_t lines, line;
	uint32_t pace_ms;
	uint32_t save_ms; /* after TERM, then it exits with 143 */
	bool is_stubborn; /* ignores TERM */
	int32_t exit_code;
	uint64_t next; /* monotonic: when it does the next thing */
	bool is_saving;
};

struct sim_shim {
	struct sim_guard *guard;
	struct sim_machine *machine;
	bool is_alive;
	uint64_t serial; /* of its events: older ones are nobody's */
	uint64_t id;
	int32_t pid; /* of the task */
	char job[17];
	char name[80];
	uint32_t attempt;
	int lock; /* of the state directory; -1: none */
	struct tfc__log_writer log;
	uint32_t grace_ms, lease_grace_ms;
	uint64_t lease;
	uint32_t silent_ms;
	uint64_t kill_at; /* boot clock; 0: no stop under way */
	struct sim_program program;
};

/* Starts the task of a launch, the content of the memfd of a SPAWN. */
void sim_shim_start(struct sim_shim *shim, const char *launch);
/* TERM, and KILL at the deadline: a second stop can only shorten it. */
void sim_shim_stop(struct sim_shim *shim, uint64_t kill_at);
void sim_shim_kill(struct sim_shim *shim); /* SIGKILL to its task */
void sim_shim_wake(struct sim_shim *shim); /* its machine runs again */
void sim_shim_lose_power(struct sim_shim *shim);

/* guard.c: takes over what a shim says. After EXITED the shim is the guard's to use again. */
void sim_guard_report(struct sim_guard *guard, struct tfc__report *report);
int32_t sim_next_pid(void);

#endif
