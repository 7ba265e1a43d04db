/*
 * Shims (shim.c), each with its task, as the guard that started them knows them: two processes that
 * exchange messages, and end separately.
 */
#ifndef TEST_SIM_NODES_SHIM_H
#define TEST_SIM_NODES_SHIM_H

#include "log/writer.h"
#include "proc/protocol.h"
#include "proc/shim/core.h"
#include "sim.h"

#define SIM_SHIM_MESSAGES 16 /* that fit into the socket between guard and shim, each way */

/* What a task does, as the words of its command line say. */
struct sim_program {
	uint32_t lines, line;
	uint32_t pace_ms;
	uint32_t save_ms; /* after TERM, then it exits with 143 */
	bool is_stubborn; /* ignores TERM */
	int32_t exit_code;
	uint16_t port; /* 0: it does not listen */
	bool is_listening;
	uint64_t listen_at;    /* monotonic */
	uint32_t refused_line; /* that says that it cannot bind the port; UINT32_MAX: none */
	uint32_t fail_line;    /* where it exits with fail_code; UINT32_MAX: nowhere */
	int32_t fail_code;
	uint64_t next; /* monotonic: when it does the next thing */
	bool is_saving;
};

struct sim_shim {
	struct sim_shim *next; /* of all that are not over */
	struct sim_machine *machine;
	const struct sim_guard *guard;
	const struct sim_host *host;
	const struct tfc__lease_entry *leases; /* that the guard shares */
	uint32_t owner;                        /* of its descriptors: locks, lifeline, log */
	int32_t pid;
	bool is_stopped; /* SIGSTOP */
	bool is_over;
	int launch; /* the memfd of SPAWN, until the task has started; or -1 */
	struct tfc__command spawn;
	struct shim_core core;
	uint64_t timer_at; /* of the core, for which an event is set */
	struct tfc__log_writer log;
	/* messages in the sockets, from the first one that was not read */
	struct tfc__command commands[SIM_SHIM_MESSAGES];
	struct tfc__report reports[SIM_SHIM_MESSAGES];
	uint32_t command_count, report_count;
	uint16_t port; /* that the task was given; 0: none */
	uint32_t hold; /* inode of the socket that holds it */
	/* the task */
	int32_t task; /* pid */
	bool is_alive;
	struct tfc__report end; /* of a task that is dead: reason and status */
	char job[17];
	char name[80];
	uint32_t attempt;
	uint32_t copied; /* lines that the shim has put into the log */
	struct sim_program program;
};

/* What the guard does to a shim, and hands to a new one; descriptors are the shim's from then on.
 */
struct sim_shim_options {
	struct sim_machine *machine;
	const struct sim_guard *guard;
	const struct sim_host *host;
	const struct tfc__lease_entry *leases;
	const struct tfc__command *spawn;
	int launch;
	int lifeline;
	int locks[TFC__LOCKS]; /* or -1 */
	uint16_t port;         /* of the task; 0: none */
	uint32_t hold;
};
struct sim_shim *sim_shim_new(const struct sim_shim_options *options);
void sim_shim_send(struct sim_shim *shim, const struct tfc__command *command);
bool sim_shim_receive(struct sim_shim *shim, struct tfc__report *ret_report);
void sim_shim_kill(struct sim_shim *shim); /* SIGKILL: its task dies with it */
void sim_task_kill(struct sim_shim *shim); /* SIGKILL to its task alone */

/* All shims. */
bool sim_shims_are_ready(void);
void sim_shims_step(void);
void sim_shims_wake(const struct sim_machine *machine);
void sim_shims_lose_power(const struct sim_machine *machine);

/* guard.c */
int32_t sim_next_pid(void);
int32_t sim_guard_pid(const struct sim_guard *guard);
bool sim_guard_is_dead(const struct sim_guard *guard);
bool sim_guard_is_stopped(const struct sim_guard *guard);

#endif
