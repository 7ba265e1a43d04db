/*
 * The decisions of a shim: when its task is stopped and killed, when a silence is reported, and
 * whether the task ended because of its lease. A state machine without descriptors, clocks or
 * allocation: events with their time come in, actions go out as flags. tfc-shim and the simulator
 * of nodes (doc/internals/simulation.md) carry the actions out.
 */
#ifndef TFC_SHIM_CORE_H
#define TFC_SHIM_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "proc/protocol.h"

enum shim_event_kind {
	SHIM_SPAWN = 1,   /* command, lease: start the task if the result has SHIM_START */
	SHIM_NOT_STARTED, /* error: the errno of the start; 0: the lease was over */
	SHIM_STARTED,     /* lease: the task was started */
	SHIM_STOP,        /* command */
	SHIM_GUARD_GONE,
	SHIM_HOST_GONE,
	SHIM_TIMER,            /* lease: timer_at has come, or may have come */
	SHIM_WATCH_SILENCE,    /* silence_ms: a silence of this length is to be reported */
	SHIM_SIGN,             /* a sign of life of the task */
	SHIM_SILENCE,          /* silence_at may have come */
	SHIM_WATCH_SUSPENSION, /* silence_ms: report that the task was suspended for so long */
	SHIM_SUSPENDED,        /* a signal has stopped the task */
	SHIM_CONTINUED,
	SHIM_SUSPENSION, /* suspension_at may have come */
	SHIM_DIED,       /* the task itself; its descendants may be alive */
	SHIM_ENDED,      /* nothing of the task is left */
};

struct shim_event {
	enum shim_event_kind kind;
	uint64_t now; /* CLOCK_BOOTTIME; from WATCH_SILENCE to SUSPENSION CLOCK_MONOTONIC */
	const struct tfc__command *command;
	const struct tfc__lease_entry *lease; /* the task's lease now; NULL: none */
	uint32_t silence_ms;
	int error; /* an errno */
};

enum shim_action {
	SHIM_START = 1,
	SHIM_TERM = 2, /* and CONT */
	SHIM_KILL = 4,
	SHIM_STALLED = 8,           /* report the silence, with silent_ms */
	SHIM_REPORT_SUSPENDED = 16, /* this and the next: with silent_ms */
	SHIM_REPORT_CONTINUED = 32,
};

struct shim_result {
	uint32_t actions;
	uint32_t reason;    /* NOT_STARTED: enum tfc__end */
	uint32_t silent_ms; /* as in struct tfc__report */
};

struct shim_core {
	/* for the driver: when TIMER, SILENCE and SUSPENSION are due; 0: never */
	uint64_t timer_at;      /* CLOCK_BOOTTIME */
	uint64_t silence_at;    /* CLOCK_MONOTONIC */
	uint64_t suspension_at; /* CLOCK_MONOTONIC */
	bool is_orphan;         /* the guard is gone */
	bool is_host_gone;
	bool is_dead;     /* the task is dead */
	bool is_stopping; /* TERM was sent */
	/* private */
	uint32_t grace_ms;
	uint32_t lease_grace_ms;
	uint64_t lease;      /* 0: none */
	uint64_t kill_at;    /* 0: no deadline */
	uint64_t lease_at;   /* when the lease is checked next; 0: never */
	uint32_t lost_ms;    /* length of the lease that ended, or 0 */
	uint64_t silence;    /* the length of silence to report; 0: none, and SIGN may be omitted */
	uint64_t last_sign;  /* time of the last sign of life */
	uint64_t silent_at;  /* when the silence, or its next multiple, reaches this length */
	uint64_t suspension; /* the length of a suspension to report; 0: none */
	uint64_t suspended_since; /* 0: the task is not suspended */
	bool is_suspension_reported;
};

/* The core is zeroed before the first step. */
struct shim_result shim_core_step(struct shim_core *core, const struct shim_event *event);

#endif
