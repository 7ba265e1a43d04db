/*
 * The decisions of a guard: when a shim is requested to stop its task and when the stop is forced,
 * when a lease is over, whether a task is started, and what is reported to the host. A state
 * machine without descriptors, clocks or allocation: events with their time come in, actions go
 * out. tfc-guard and the simulator of nodes (doc/internals/simulation.md) carry the actions out and
 * own the memory.
 */
#ifndef TFC_GUARD_CORE_H
#define TFC_GUARD_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "proc/protocol.h"

#define NO_SLOT UINT32_MAX

enum guard_event_kind {
	GUARD_SPAWN = 1,    /* command, error: an errno if the start has failed already. Returns the
			       slot of the task to start, or NO_SLOT. */
	GUARD_SPAWN_FAILED, /* slot, error: the start failed */
	GUARD_STOP,         /* command */
	GUARD_LEASE,        /* command */
	GUARD_KILL_ALL,
	GUARD_HOST_GONE,
	GUARD_SHIM_REPORT, /* slot, report */
	GUARD_SHIM_DIED,   /* slot; all its reports have been passed in */
	GUARD_NONE_LEFT,   /* no process is left of the tasks of shims that died unreported */
	GUARD_TIMER,       /* timer_at has come, or may have come */
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
	GUARD_SEND_REPORT = 1, /* report, to the host */
	GUARD_SEND_STOP,       /* slot, kill_at: to the shim */
	GUARD_KILL_TASK,       /* slot, pid: the shim has not stopped it; pid 0: not started */
	GUARD_KILL_SHIM,       /* slot: the shim does not end */
	GUARD_KILL_REST,       /* slot: processes left by a shim that died without a report */
	GUARD_FREE_SLOT,       /* slot: it is free from now on */
};

struct guard_action {
	enum guard_action_kind kind;
	uint32_t slot;
	uint64_t kill_at; /* CLOCK_BOOTTIME */
	int32_t pid;
	bool may_be_oom; /* no stop was requested: a SIGKILL may be the kernel's OOM killer */
	const struct tfc__report *report; /* time_ns 0: the time of sending */
};

typedef void (*guard_act_fn)(void *user, const struct guard_action *action);

/* The next step of forcing a stop that the shim does not carry out. */
enum guard_force { FORCE_NONE, FORCE_TASK, FORCE_SHIM };

struct guard_task {
	uint64_t id;       /* assigned by the host */
	uint64_t lease;    /* 0: none */
	uint64_t force_at; /* CLOCK_BOOTTIME: when `force` is due; 0: no stop is in progress */
	uint32_t grace_ms;
	uint32_t lease_grace_ms;
	uint32_t silent_ms; /* length of the lease that ended, or 0 */
	uint32_t keep_id;   /* the task's held port, used by the driver only; 0: none */
	int32_t pid;        /* of the task; 0: not started */
	/* Neighbors in the slot's list, + 1; 0: none. A slot is in one list at most: free,
	 * stopping or lost; of a free one only `next` is used. */
	uint32_t next, prev;
	uint8_t force; /* enum guard_force */
	bool is_used;
	bool is_reported; /* its end was reported */
	bool is_lost;     /* the shim died without a report */
};

/* A list of slots, each + 1; 0: it is empty. */
struct guard_slots {
	uint32_t first, last;
};

struct guard_core {
	/* for the driver (tfc-guard, simulator) */
	uint64_t timer_at;       /* when TIMER is due, CLOCK_BOOTTIME; 0: never */
	uint32_t task_count;     /* slots in use */
	struct guard_slots lost; /* tasks that wait for NONE_LEFT */
	/* memory, which the driver grows between two events; new memory is zeroed */
	struct guard_task *tasks; /* before a SPAWN without error there must be a free slot, */
	uint32_t task_capacity;
	uint32_t *slots; /* and room for the index in the low half of the command's id */
	uint32_t index_capacity;
	struct tfc__lease_entry *leases; /* before a LEASE there must be room for its index, if that
					    is below TFC__LEASES_MAX */
	/* private */
	uint32_t slot_count;         /* slots from this one on were never used */
	uint32_t free_slot;          /* the first free slot below slot_count, + 1; 0: none */
	struct guard_slots stopping; /* tasks whose `force` is due at force_at */
	uint32_t lease_count;
};

uint32_t guard_core_step(struct guard_core *core, const struct guard_event *event, guard_act_fn act,
			 void *user);

/* The slot of the task with the host's id, or NO_SLOT. */
uint32_t guard_core_find(const struct guard_core *core, uint64_t id);

#endif
