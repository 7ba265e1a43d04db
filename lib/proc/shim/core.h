/*
 * The decisions of a shim: when its task is stopped and killed, when a silence is reported, and
 * whether its end is that of a lease. A state machine without descriptors, clocks or allocation:
 * what happens comes in as events with their time, what is to be done goes out as flags. tfc-shim
 * and the simulator of nodes (doc/internals/simulation.md) carry it out.
 */
#ifndef TFC_SHIM_CORE_H
#define TFC_SHIM_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "proc/protocol.h"

enum shim_event_kind {
	SHIM_SPAWN = 1,   /* command, lease: the task is started if the answer says so; */
	SHIM_NOT_STARTED, /* error: it could not be, or 0, its lease was over; */
	SHIM_STARTED,     /* lease: it was */
	SHIM_STOP,        /* command */
	SHIM_GUARD_GONE,
	SHIM_HOST_GONE,
	SHIM_TIMER,         /* lease: timer_at has come, or it may have */
	SHIM_WATCH_SILENCE, /* silence_ms: of this length it is reported */
	SHIM_SIGN,          /* of life, from the task */
	SHIM_SILENCE,       /* silence_at may have come */
	SHIM_DIED,          /* the task; what it has left behind may live */
	SHIM_ENDED,         /* all of it is gone */
};

struct shim_event {
	enum shim_event_kind kind;
	uint64_t now; /* CLOCK_BOOTTIME; of WATCH_SILENCE, SIGN and SILENCE CLOCK_MONOTONIC */
	const struct tfc__command *command;
	const struct tfc__lease_entry *lease; /* the task's, as it is now; NULL: there is none */
	uint32_t silence_ms;
	int error; /* an errno */
};

enum shim_action {
	SHIM_START = 1,
	SHIM_TERM = 2, /* and CONT */
	SHIM_KILL = 4,
	SHIM_STALLED = 8, /* is reported, with silent_ms */
};

struct shim_result {
	uint32_t actions;
	uint32_t reason;    /* NOT_STARTED: enum tfc__end */
	uint32_t silent_ms; /* SILENCE, NOT_STARTED, ENDED: as in struct tfc__report */
};

struct shim_core {
	/* for who drives it: when TIMER and SILENCE are due; 0: they are not */
	uint64_t timer_at;   /* CLOCK_BOOTTIME */
	uint64_t silence_at; /* CLOCK_MONOTONIC */
	bool is_orphan;      /* the guard is gone */
	bool is_host_gone;
	bool is_dead;     /* the task is */
	bool is_stopping; /* TERM was sent */
	/* its own */
	uint32_t grace_ms;
	uint32_t lease_grace_ms;
	uint64_t lease;     /* 0: none */
	uint64_t kill_at;   /* 0: no deadline */
	uint64_t lease_at;  /* when the lease is looked at again; 0: it is not */
	uint32_t lost_ms;   /* length of the lease that was over, or 0 */
	uint64_t silence;   /* this length is reported; 0: none is, SIGN need not be told */
	uint64_t last_sign; /* of life */
	uint64_t silent_at; /* when the silence, or its next stretch, has this length */
};

/* Begins with a core of zeros. */
struct shim_result shim_core_step(struct shim_core *core, const struct shim_event *event);

#endif
