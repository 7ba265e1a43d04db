/*
 * The decisions of a guard: when shims are asked to stop their tasks and when that is forced, when
 * a lease is over, what is started at all, and what is reported to the host. A state machine
 * without descriptors, clocks or allocation: what happens comes in as events with their time, what
 * is to be done goes out as actions. tfc-guard and the simulator of nodes
 * (doc/internals/simulation.md) carry them out, and own the memory.
 */
#ifndef TFC_GUARD_CORE_H
#define TFC_GUARD_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "proc/protocol.h"

#define NO_SLOT UINT32_MAX

enum guard_event_kind {
	GUARD_SPAWN = 1,    /* command, error: an errno with which it has failed already. The answer
			       is the slot of what is to be started now, or NO_SLOT. */
	GUARD_SPAWN_FAILED, /* slot, error: it could not be */
	GUARD_STOP,         /* command */
	GUARD_LEASE,        /* command */
	GUARD_KILL_ALL,
	GUARD_HOST_GONE,
	GUARD_SHIM_REPORT, /* slot, report */
	GUARD_SHIM_DIED,   /* slot: its last report was given before */
	GUARD_NONE_LEFT,   /* nothing lives of what shims that died without a report have left */
	GUARD_TIMER,       /* timer_at has come, or it may have */
};

struct guard_event {
	enum guard_event_kind kind;
	uint32_t slot;
	uint64_t now; /* CLOCK_BOOTTIME */
	const struct tfc__command *command;
	const struct tfc__report *report;
	int error;
};

enum guard_action_kind {
	GUARD_SEND_REPORT = 1, /* report, to the host: */
	GUARD_SEND_STOP,       /* slot, kill_at: to the shim */
	GUARD_KILL_TASK,       /* slot, pid: the shim has not done it; pid 0: none was started */
	GUARD_KILL_SHIM,       /* slot: it does not end */
	GUARD_KILL_REST,       /* slot: what a shim that died without a report has left */
	GUARD_FREE_SLOT,       /* slot: it means nothing from now on */
};

struct guard_action {
	enum guard_action_kind kind;
	uint32_t slot;
	uint64_t kill_at; /* CLOCK_BOOTTIME */
	int32_t pid;
	bool may_be_oom; /* nobody asked for this end: a SIGKILL may be the kernel's */
	const struct tfc__report *report; /* time_ns 0: of now */
};

typedef void (*guard_act_fn)(void *user, const struct guard_action *action);

/* How far a stop that the shim does not carry out has been taken. */
enum guard_force { FORCE_NONE, FORCE_TASK, FORCE_SHIM };

struct guard_task {
	uint64_t id;       /* the host's */
	uint64_t lease;    /* 0: none */
	uint64_t force_at; /* CLOCK_BOOTTIME: when `force` is done; 0: no stop is under way */
	uint32_t grace_ms;
	uint32_t lease_grace_ms;
	uint32_t silent_ms; /* length of the lease that was over, or 0 */
	uint32_t keep_id;   /* the port that it was given, for who drives this; 0: none */
	int32_t pid;        /* of the task; 0: not started */
	uint32_t next_free; /* of a free slot: the next one + 1; 0: it is the last */
	uint8_t force;      /* enum guard_force */
	bool is_used;
	bool is_reported; /* its end */
	bool is_lost;     /* the shim died without a report */
};

struct guard_core {
	/* for who drives it */
	uint64_t timer_at;   /* when TIMER is due, CLOCK_BOOTTIME; 0: it is not */
	uint32_t task_count; /* slots in use */
	uint32_t lost_count; /* of them: they wait for NONE_LEFT */
	/* memory, grown between two events; what is new is zeros */
	struct guard_task *tasks; /* before a SPAWN without error there is a free slot, */
	uint32_t task_capacity;
	uint32_t *slots; /* and room for the index in the low half of its id */
	uint32_t index_capacity;
	struct tfc__lease_entry *leases; /* before a LEASE, there is room for its index if that is
					    below TFC__LEASES_MAX */
	/* its own */
	uint32_t slot_count; /* slots from here on were never used */
	uint32_t free_slot;  /* + 1, the first of those that were; 0: none */
	uint32_t lease_count;
};

uint32_t guard_core_step(struct guard_core *core, const struct guard_event *event, guard_act_fn act,
			 void *user);

/* The slot of a task by the host's id, or NO_SLOT. */
uint32_t guard_core_find(const struct guard_core *core, uint64_t id);

#endif
