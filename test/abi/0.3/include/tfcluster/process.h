/*
 * A supervised process. A guard starts it and a shim watches it: it never becomes an orphan, and
 * its exit status is exact whatever the host does with SIGCHLD or waitpid.
 *
 * The first spawn under a context starts that context's guard. The process runs in a session of its
 * own, with stdin from /dev/null, default signal dispositions, an empty signal mask, no descriptors
 * but 0, 1 and 2 (and 3 and 4, see stall_ms and has_reports), and exactly the given environment.
 * When the host dies, for whatever reason, the guard stops the process as tfc_process_stop does,
 * with a grace period of tfc_process_options.grace_ms.
 */
#ifndef TFCLUSTER_PROCESS_H
#define TFCLUSTER_PROCESS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <tfcluster/ctx.h>
#include <tfcluster/port.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfc_process tfc_process;

/* How a process ended. */
enum tfc_exit_reason {
	TFC_EXIT_NONE = 0,   /* it has not ended */
	TFC_EXIT_CODE = 1,   /* exited by itself: `status` is its code, 0-255 */
	TFC_EXIT_SIGNAL = 2, /* died of a signal: `status` is its number */
	TFC_EXIT_LOST = 3, /* its shim or guard died; it and every process it started have ended */
	TFC_EXIT_NOT_STARTED = 4, /* never ran: `status` is an enum tfc_err, `text` says why */
};

enum tfc_process_event_kind {
	TFC_PROCESS_STARTED = 1, /* the program runs (exec has succeeded): `pid` is set */
	TFC_PROCESS_EXITED =
		2, /* terminal: it, and all it started, are reaped; the log is complete */
	TFC_PROCESS_STALLED = 3, /* it has given no sign of life for `silent_ms`; see stall_ms */
	/* the signal `status` (SIGSTOP, SIGTSTP, ...) stopped it `silent_ms` ago; see suspend_ms */
	TFC_PROCESS_SUSPENDED = 4,
	/* it continues; `silent_ms`: how long it was stopped. Only after SUSPENDED. */
	TFC_PROCESS_CONTINUED = 5,
	/* its output is being lost, because it cannot be written to the log: `status` and `text`
	 * say why; see reports_lost_output */
	TFC_PROCESS_OUTPUT_LOST = 6,
	/* its output is written again; `log_dropped` and `dropped_lines`: what was lost. Only after
	 * OUTPUT_LOST. */
	TFC_PROCESS_OUTPUT_RESUMED = 7,
};

/*
 * How the library finds the processes that a process has started, so that none of them is left when
 * it ends (doc/guide/isolation.md).
 */
enum tfc_isolation {
	TFC_ISOLATION_AUTO = 0,   /* CGROUP where one can be created, else PLAIN */
	TFC_ISOLATION_PLAIN = 1,  /* its process group, and the orphans that the guard adopts */
	TFC_ISOLATION_CGROUP = 2, /* also by a cgroup v2, which is killed as a whole */
	TFC_ISOLATION_PIDNS = 3,  /* a PID namespace and /proc of its own: all its processes end
				     even when guard and shim are killed at the same moment */
};

/* An event of a process. Borrowed: valid during the callback. */
typedef struct tfc_process_event {
	uint32_t size;
	uint32_t kind;    /* enum tfc_process_event_kind */
	int32_t pid;      /* of the process; 0 when it never started */
	uint32_t reason;  /* enum tfc_exit_reason */
	int32_t status;   /* see enum tfc_exit_reason; SUSPENDED: the signal; OUTPUT_LOST: an enum
			     tfc_err */
	uint32_t is_oom;  /* 1: the kernel killed it because memory ran out */
	uint64_t time_ns; /* when it happened, CLOCK_REALTIME */
	/* CPU time in user mode, microseconds: of the process and of the children that it has
	 * waited for (wait4(2)) */
	uint64_t user_us;
	uint64_t system_us;   /* the same, in the kernel */
	uint64_t max_rss_kib; /* largest resident set of one of them */
	uint64_t log_end;     /* log position after its last output, see log.h */
	/* output bytes that could not be written (full disk); OUTPUT_RESUMED: since OUTPUT_LOST */
	uint64_t log_dropped;
	/* a message about the end; STARTED: why memory is not limited; OUTPUT_LOST: why; or "" */
	const char *text;
	uint32_t silent_ms; /* STALLED: time since its last sign of life; see also SUSPENDED */
	uint32_t isolation; /* enum tfc_isolation in effect, never AUTO; 0: it never started */
	uint64_t log_gap; /* of log_dropped: bytes missing at the end of the log, where the disk had
			     no room for a gap record: a reader of the log does not see the loss */
	/* STARTED: the memory limit in force, in bytes; 0: none. EXITED with is_oom: the memory
	 * limit, if the process and its descendants used more than that; 0: memory ran out
	 * otherwise, or the kernel does not report it */
	uint64_t memory_limit;
	uint64_t dropped_lines; /* OUTPUT_RESUMED: the lines among log_dropped */
} tfc_process_event;

/** Runs in dispatch. TFC_PROCESS_EXITED is the last event; close the process all the same. */
typedef void (*tfc_process_fn)(void *user, const tfc_process_event *event);

#define TFC_UNLIMITED UINT64_MAX

/* A resource limit as setrlimit(2) takes it. */
typedef struct tfc_rlimit {
	uint32_t resource; /* RLIMIT_NOFILE, RLIMIT_AS, ... of <sys/resource.h> */
	uint32_t reserved; /* 0 */
	uint64_t soft;     /* in the unit of the resource; TFC_UNLIMITED: none */
	uint64_t hard;     /* as soft, and not below it */
} tfc_rlimit;

/* Which of the fields below are set, where zero is a valid value. */
enum tfc_limit_flags {
	TFC_LIMIT_OOM_SCORE_ADJ = 1,
	TFC_LIMIT_USER = 2, /* uid, gid and groups, all three */
	/* memory_bytes is applied where the system permits it. Elsewhere the process runs without
	 * this limit, and the text of TFC_PROCESS_STARTED says why. */
	TFC_LIMIT_MEMORY_IF_POSSIBLE = 4,
};

/*
 * Resource limits of a process, and its user. A field that is 0 leaves the host's own. If the
 * system refuses a limit, or a cgroup for it cannot be made, the process does not start:
 * TFC_EXIT_NOT_STARTED with TFC_ELIMIT, and the text names the limit.
 */
typedef struct tfc_process_limits {
	uint32_t size;
	uint32_t flags;            /* enum tfc_limit_flags */
	const tfc_rlimit *rlimits; /* rlimit_count of them; NULL: the host's own */
	uint32_t rlimit_count;     /* entries of rlimits */
	int32_t nice;              /* added to the host's, as nice(1) does; -40 to 40 */
	int32_t oom_score_adj;     /* -1000 to 1000, see proc(5); only root may lower it */
	uint32_t cpu_milli;        /* thousandths of a CPU, 10 or more, by cgroup; 0: no limit */
	uint64_t memory_bytes;     /* by cgroup; 0: no limit */
	uint32_t uid;              /* only a host that is root can set another uid than its own */
	uint32_t gid;              /* with uid: see TFC_LIMIT_USER */
	const uint32_t *groups;    /* all supplementary groups, in place of the host's */
	uint32_t group_count;      /* entries of groups */
	uint32_t reserved;         /* 0 */
} tfc_process_limits;

#define TFC_PROCESS_LIMITS_INIT                                                      \
	{                                                                            \
		sizeof(tfc_process_limits), 0, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_process_limits_init(tfc_process_limits *limits, uint32_t size);

/* What to run. Strings, lists and limits are copied. */
typedef struct tfc_process_options {
	uint32_t size;
	uint32_t grace_ms;          /* between TERM and KILL when the host dies; 0: 10 s */
	const char *const *argv;    /* NULL-terminated, at least one; found through PATH of env */
	const char *const *env;     /* NULL-terminated "NAME=value"; NULL: empty */
	const char *cwd;            /* NULL: "/" */
	const char *log_dir;        /* existing directory of the log; NULL: output is discarded */
	const char *log_name;       /* name of the log in it, see log.h; needed with log_dir */
	uint64_t log_segment_bytes; /* a segment file is full at this size; 0: 16 MiB */
	uint32_t log_segments;      /* this many segment files are kept; 0: 8 */
	uint32_t attempt;           /* written into each log record; 0: 1 */
	/* The port of the process: its bind window opens just before exec. The guard holds the port
	 * until the process is reaped, even if it is released before. NULL: none. */
	tfc_port_hold *hold;
	const tfc_process_limits *limits; /* NULL: the host's own */
	/* Report TFC_PROCESS_STALLED when the process has given no sign of life for this many
	 * milliseconds, and again each time the silence has doubled; 0: never. Signs of life are
	 * output, and bytes written to descriptor 3, a pipe that the process has if this is not 0.
	 */
	uint32_t stall_ms;
	uint32_t isolation; /* enum tfc_isolation */
	/* Report TFC_PROCESS_SUSPENDED when a signal has stopped the process for this many
	 * milliseconds, and TFC_PROCESS_CONTINUED when it continues; 0: never. The process itself
	 * counts, not its children; a process held by a debugger is not reported. */
	uint32_t suspend_ms;
	/* 1: report TFC_PROCESS_OUTPUT_LOST as soon as output cannot be written to the log, and
	 * TFC_PROCESS_OUTPUT_RESUMED when output was written without a loss for 1 s, or at the end
	 * of the process. The time doubles with each loss, up to 64 s. */
	uint32_t reports_lost_output;
	/* 1: descriptor 4 of the process is a pipe for reports: lines for programs, which are kept
	 * in the log as TFC_STREAM_REPORT. Requires log_dir. A report is a sign of life. */
	uint32_t has_reports;
	uint32_t reserved; /* 0 */
} tfc_process_options;

#define TFC_PROCESS_OPTIONS_INIT                                                               \
	{                                                                                      \
		sizeof(tfc_process_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_process_options_init(tfc_process_options *options, uint32_t size);

/**
 * Starts a process, and returns at once. fn(user, event) reports its start and, exactly once, its
 * end. For a program that cannot be started, the only event is TFC_PROCESS_EXITED with
 * TFC_EXIT_NOT_STARTED and a status: TFC_ENOENT (not found), TFC_ENOEXEC, TFC_EACCES, TFC_ECWD (no
 * working directory), TFC_ELIMIT (a limit cannot be set), TFC_EMFILE, TFC_EAGAIN, TFC_ENOMEM or
 * TFC_ESYS. The caller owns *ret_process. Thread: the context's. Errors: TFC_EINVAL, TFC_ENOTSUP,
 * TFC_ETOOBIG, TFC_ENOMEM, TFC_EMFILE, TFC_EFORK, TFC_ESYS, TFC_ELOST (the guard ended at once);
 * TFC_ENOENT when the guard's program is missing.
 */
TFC_API int tfc_process_spawn(tfc_ctx *ctx, const tfc_process_options *options, tfc_process_fn fn,
			      void *user, tfc_process **ret_process);

/**
 * Stops the process: SIGTERM and SIGCONT to its process group, SIGKILL after `grace_ms`, then
 * SIGKILL to every process that it left behind. A second call can shorten the grace period but not
 * extend it; 0 kills at once. The end is reported as TFC_PROCESS_EXITED. Stopping a process that
 * has ended is a success. Thread: the context's. Errors: TFC_EINVAL, TFC_EFORK.
 */
TFC_API int tfc_process_stop(tfc_process *process, uint32_t grace_ms);

/** Sends a signal to the process group. A process that has ended gets none, which is a success.
 * Thread: the context's. Errors: TFC_EINVAL, TFC_EFORK, TFC_ENOMEM, TFC_ESYS. */
TFC_API int tfc_process_signal(tfc_process *process, int signal_number);

/** The pid; 0 before TFC_PROCESS_STARTED and from TFC_PROCESS_EXITED on. Thread: the context's.
 * Errors: none. */
TFC_API pid_t tfc_process_pid(const tfc_process *process);

/**
 * Closes the handle: no further event comes. A process that still runs is killed at once, with all
 * that it started. Legal inside a callback. NULL is a no-op. Thread: the context's.
 */
TFC_API void tfc_process_close(tfc_process *process);

#ifdef __cplusplus
}
#endif
#endif
