/*
 * The messages between host, guard and shim: fixed structs over SOCK_SEQPACKET, one per message.
 * All three are built together and never mixed with another version
 * (doc/internals/shim-protocol.md).
 *
 * A launch (program, arguments, environment, limits) travels as one sealed memfd. The host makes
 * it, the guard passes it on unread, and the shim maps it.
 */
#ifndef TFC_PROC_PROTOCOL_H
#define TFC_PROC_PROTOCOL_H

#include <stdint.h>

#define TFC__PROTOCOL_VERSION 19

/* The descriptors of a guard that was just started. */
enum tfc__guard_fd {
	TFC__GUARD_HOST = 3,      /* the guard's end of the socket to the host */
	TFC__GUARD_PIDFD = 4,     /* pidfd of the host */
	TFC__GUARD_RESERVED = 10, /* descriptors passed on to every shim are at or above this */
	TFC__GUARD_SHARED = 32,   /* and below this */
};

/* The descriptors of a shim that was just started. */
enum tfc__shim_fd {
	TFC__SHIM_GUARD = 3,    /* the shim's end of the socket to the guard */
	TFC__SHIM_LAUNCH = 4,   /* /dev/null, then the memfd that comes with SPAWN */
	TFC__SHIM_LIFELINE = 5, /* write end of the pipe whose end of file shows the host that all
				   shims are gone */
	TFC__SHIM_CGROUP = 6,   /* the guard's cgroup directory; closed if there is none */
	TFC__SHIM_HOST = 7,     /* pidfd of the host */
	TFC__SHIM_LEASES = 8,   /* memfd of struct tfc__lease_entry, by index */
	TFC__SHIM_CHILD = 9,    /* only of a shim that a zygote made: the socket to its child */
};

enum tfc__message_kind {
	/* host to guard */
	TFC__MSG_SPAWN = 1, /* + memfd; also guard to shim, then + the locks of enum tfc__lock */
	TFC__MSG_STOP,      /* also guard to shim */
	TFC__MSG_SIGNAL,    /* also guard to shim */
	TFC__MSG_KEEP,      /* + a held port's socket */
	TFC__MSG_BIND_WINDOW,
	TFC__MSG_RELEASE,
	TFC__MSG_OWN_DIR, /* the path follows the struct; + the node's state directory, if any */
	TFC__MSG_KILL_ALL,
	/* guard to host */
	TFC__MSG_HELLO, /* + read end of the lifeline, + pidfd of the guard */
	/* shim to guard, guard to host */
	TFC__MSG_STARTED,
	TFC__MSG_EXITED,
	TFC__MSG_PING,    /* host to guard: request for a PONG */
	TFC__MSG_PONG,    /* guard to host */
	TFC__MSG_STALLED, /* shim to guard, guard to host: the task gave no sign of life for
			     silent_ms */
	TFC__MSG_CLEAR, /* host to guard: end what the tasks of a dead guard have left in cgroups */
	TFC__MSG_LEASE, /* host to guard: begin, renew, or (deadline 0) forget a lease */
	TFC__MSG_OVER,  /* guard to host: the lease `id` is over, its tasks are being ended */
	TFC__MSG_NOT_KEPT, /* guard to host: the port `id`, of KEEP, was closed: out of memory */
	/* both shim to guard, guard to host */
	TFC__MSG_SUSPENDED, /* the signal `status` stopped the task silent_ms ago */
	TFC__MSG_CONTINUED, /* ... and it continues, after silent_ms */
	/* host to guard */
	TFC__MSG_WILL,    /* + struct tfc__will_text; without it: the guard drops its will */
	TFC__MSG_WILL_TO, /* + `value` of struct tfc__will_address: replaces all earlier ones */
	/* both shim to guard, guard to host */
	TFC__MSG_OUTPUT_LOST,    /* output is being lost: it cannot be written, errno `status` */
	TFC__MSG_OUTPUT_RESUMED, /* ... and it is written again: log_dropped and lost_lines since
				    OUTPUT_LOST */
	TFC__MSG_BORN,  /* shim to guard: a zygote made this shim, whose process is `pid` */
	TFC__MSG_READY, /* guard to host: the zygote has imported its modules */
};

/* The node's last will (will.h). The guard sends the message unread, and awaits the response. */
#define TFC__WILL_MESSAGE 120
#define TFC__WILL_ACK 16
#define TFC__WILL_ADDRESSES 128

struct tfc__will_text {
	uint8_t message[TFC__WILL_MESSAGE];
	uint8_t ack[TFC__WILL_ACK];
};

struct tfc__will_address {
	uint8_t ip[16]; /* IPv4: the first four */
	uint32_t scope; /* IPv6 */
	uint16_t port;
	uint8_t is_ipv6;
	uint8_t has_datagrams; /* the receiver has a UDP socket with the same port */
};

/* The locks that a shim holds as long as its task may be alive; -1: none. */
enum tfc__lock {
	TFC__LOCK_DIR,  /* of the private directory of the task (dir_lock.h) */
	TFC__LOCK_TASK, /* of the node's state directory (task_lock.h) */
	TFC__LOCKS,
};

/* The step at which a start failed. An errno comes with it. */
enum tfc__step {
	TFC__STEP_NONE = 0,
	TFC__STEP_GUARD,  /* the guard could not make a shim */
	TFC__STEP_LAUNCH, /* the shim cannot use the memfd */
	TFC__STEP_LOG,
	TFC__STEP_PIPE,
	TFC__STEP_FORK,
	TFC__STEP_CWD,
	TFC__STEP_EXEC,
	TFC__STEP_RLIMIT, /* with `resource`, `requested` and `allowed` */
	TFC__STEP_NICE,   /* this and the next two: with `requested` */
	TFC__STEP_OOM_SCORE,
	TFC__STEP_USER,
	TFC__STEP_MEMORY, /* this and the next: with `requested`; ENOTSUP: the task has no cgroup of
			     its own */
	TFC__STEP_CPUS,
	TFC__STEP_NAMESPACE, /* cannot make a PID namespace */
	TFC__STEP_PROC,      /* cannot mount /proc in it */
	TFC__STEP_CGROUP,
};

/* As enum tfc_isolation. */
enum tfc__isolation {
	TFC__ISOLATION_AUTO = 0, /* only in a launch: cgroup where one can be made, else plain */
	TFC__ISOLATION_PLAIN = 1,
	TFC__ISOLATION_CGROUP = 2,
	TFC__ISOLATION_PIDNS = 3,
};

/* In the task: write end of the pipe for signs of life, if stall_ms is set. */
#define TFC__PROGRESS_FD 3
/* In the task: write end of the pipe for reports, if has_reports is set. */
#define TFC__REPORT_FD 4
/* In a zygote, which has neither of them: its socket to the guard (doc/internals/warm.md). */
#define TFC__ZYGOTE_FD 3

/* How a process ended, as enum tfc_exit_reason. */
enum tfc__end {
	TFC__END_CODE = 1,
	TFC__END_SIGNAL = 2,
	TFC__END_LOST = 3,
	TFC__END_NOT_STARTED = 4,
};

/* Whether the kernel killed the task because memory ran out. */
enum tfc__oom {
	TFC__OOM_UNKNOWN = 0, /* the task has no cgroup with the memory controller */
	TFC__OOM_NONE = 1,
	TFC__OOM_KILLED = 2,
	TFC__OOM_LIMIT = 3, /* it reached its own memory limit */
};

#define TFC__LEASES_MAX 65536 /* at one time, in a guard */

/*
 * A lease, in memory that the guard shares with the shims, at the index in the low half of its id.
 * Only the guard writes it: it stores 0 as the id first, then each field atomically, and the id
 * last. A reader that finds the same id before and after the other fields has read fields of that
 * lease.
 */
struct tfc__lease_entry {
	uint64_t id;          /* 0: the entry is free */
	uint64_t deadline_ns; /* CLOCK_BOOTTIME */
	uint32_t length_ms;
	uint32_t is_over; /* final: a later renewal has no effect */
};

/* Host to guard, guard to shim. */
struct tfc__command {
	uint32_t kind;
	uint32_t keep_id;  /* SPAWN: the port whose bind window is opened first, 0: none; KEEP,
			      BIND_WINDOW, RELEASE */
	uint64_t id;       /* SPAWN, STOP, SIGNAL: the process; chosen by the host */
	uint32_t grace_ms; /* SPAWN: the grace when the host dies */
	uint32_t value;    /* SPAWN: isolation; SIGNAL: number; BIND_WINDOW: is_open;
			      OWN_DIR: is_wanted; LEASE: its length in ms, for texts; WILL_TO: number
			      of addresses */
	uint64_t lease;    /* SPAWN: the task's lease, 0: none; LEASE: its id */
	/*
	 * CLOCK_BOOTTIME. STOP: when KILL follows TERM; if it has passed, KILL alone is sent.
	 * LEASE: when it is over; 0: forget it.
	 */
	uint64_t deadline_ns;
	uint64_t lease_grace_ms; /* SPAWN: the grace when the lease is over */
	uint32_t dir; /* SPAWN: the private directory of the task, 0: none; OWN_DIR: the directory's
			 id */
	uint32_t locks;     /* SPAWN, guard to shim: number of locks sent along */
	uint64_t zygote;    /* SPAWN: the process that the task is to be forked from, 0: none */
	uint32_t is_zygote; /* SPAWN: the task is a zygote. Guard to shim: its socket follows the
			       locks */
	uint32_t import_ms; /* SPAWN, of a zygote: how long tasks wait until it is ready */
};

/* Shim to guard, guard to host. */
struct tfc__report {
	uint32_t kind;
	uint32_t reason; /* EXITED: enum tfc__end */
	uint64_t id;     /* filled in by the guard */
	int32_t pid;
	int32_t shim;      /* pid, filled in by the guard */
	int32_t status;    /* exit code, signal, or errno if not started; SUSPENDED: signal;
			      OUTPUT_LOST: errno; HELLO: protocol version */
	uint32_t step;     /* enum tfc__step, if not started; STARTED: MEMORY if the limit that is
			      applied if possible is not, with its errno in `status`, else NONE */
	uint32_t oom;      /* EXITED: enum tfc__oom */
	uint32_t resource; /* NOT_STARTED, a limit: RLIMIT_..., */
	int64_t requested; /* the value that was requested, -1: unlimited; STARTED, OOM_LIMIT:
			      the memory limit; */
	int64_t allowed;   /* and the present hard limit */
	/* STALLED: time since the last sign of life; SUSPENDED, CONTINUED: how long the task was
	 * suspended; EXITED, LOST: length of the lease that ended, 0: another reason */
	uint32_t silent_ms;
	uint32_t isolation; /* STARTED: enum tfc__isolation, never AUTO */
	uint64_t time_ns;
	uint64_t user_us;
	uint64_t system_us;
	uint64_t max_rss_kib;
	uint64_t log_end;
	uint64_t log_dropped;
	uint64_t log_gap;    /* the part of log_dropped that no gap record reports */
	uint64_t lost_lines; /* OUTPUT_RESUMED */
};

/*
 * The head of the memfd. All offsets count from its beginning; strings end with a NUL. At `argv`
 * and `env` are arrays of `argc` and `envc` 64-bit offsets, each followed by a zero: the shim turns
 * them into pointers in place.
 */
#define TFC__LAUNCH_MAGIC 0x31434654u /* "TFC1" */

struct tfc__launch {
	uint32_t magic;
	uint32_t version;
	uint64_t size; /* of the whole memfd; its last byte is a NUL */
	uint32_t argc;
	uint32_t envc;
	uint64_t argv;
	uint64_t env;
	uint64_t cwd;
	uint64_t log_dir; /* 0: output is discarded */
	uint64_t log_name;
	uint64_t log_segment_bytes;
	uint32_t log_segments;
	uint32_t attempt;
	uint32_t cpu_milli;   /* 0: no limit */
	uint32_t limit_flags; /* enum tfc__limit_flags */
	uint64_t rlimits;     /* array of struct tfc__launch_rlimit */
	uint64_t groups;      /* array of uint32_t */
	uint32_t rlimit_count;
	uint32_t group_count;
	int32_t nice;
	int32_t oom_score_adj;
	uint32_t uid;
	uint32_t gid;
	uint32_t isolation; /* enum tfc__isolation */
	uint32_t stall_ms;  /* report a silence of this length; 0: none */
	uint64_t memory;    /* 0: no limit */
	/* report that a signal has suspended the task for this long; 0: never */
	uint32_t suspend_ms;
	uint32_t reports_lost_output; /* send OUTPUT_LOST and OUTPUT_RESUMED */
	uint32_t has_reports;
	uint32_t reserved;
};

/* As enum tfc_limit_flags. */
enum tfc__limit_flags {
	TFC__LIMIT_OOM_SCORE_ADJ = 1,
	TFC__LIMIT_USER = 2,
	TFC__LIMIT_MEMORY_IF_POSSIBLE = 4,
};

struct tfc__launch_rlimit {
	uint64_t resource;
	uint64_t soft; /* UINT64_MAX: unlimited */
	uint64_t hard;
};

#endif
