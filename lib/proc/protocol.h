/*
 * What host, guard and shim say to each other: fixed structs over SOCK_SEQPACKET, one per message,
 * all three built together and never mixed with another version (doc/internals/shim-protocol.md).
 *
 * What to run travels as one sealed memfd, made by the host and mapped by the shim; the guard hands
 * it on without looking inside.
 */
#ifndef TFC_PROC_PROTOCOL_H
#define TFC_PROC_PROTOCOL_H

#include <stdint.h>

#define TFC__PROTOCOL_VERSION 2

/* Descriptors of a fresh guard. */
enum tfc__guard_fd {
	TFC__GUARD_HOST = 3,     /* its end of the socket to the host */
	TFC__GUARD_PIDFD = 4,    /* the host, as a pidfd */
	TFC__GUARD_RESERVED = 8, /* everything the guard opens for tasks is at or above this */
};

/* Descriptors of a fresh shim. */
enum tfc__shim_fd {
	TFC__SHIM_GUARD = 3,  /* its end of the socket to the guard */
	TFC__SHIM_LAUNCH = 4, /* the memfd */
	TFC__SHIM_LIFELINE =
		5, /* write end of the pipe whose end tells the host that all are gone */
};

enum tfc__message_kind {
	/* host to guard */
	TFC__MSG_SPAWN = 1, /* + memfd */
	TFC__MSG_STOP,      /* also guard to shim */
	TFC__MSG_SIGNAL,    /* also guard to shim */
	TFC__MSG_KEEP,      /* + a held port's socket */
	TFC__MSG_ADMIT,
	TFC__MSG_RELEASE,
	TFC__MSG_OWN_DIR, /* the path follows the struct */
	TFC__MSG_KILL_ALL,
	/* guard to host */
	TFC__MSG_HELLO, /* + read end of the lifeline, + pidfd of the guard */
	/* shim to guard, guard to host */
	TFC__MSG_STARTED,
	TFC__MSG_EXITED,
	TFC__MSG_PING, /* host to guard: say something */
	TFC__MSG_PONG, /* guard to host */
};

/* Where a start failed; with it goes an errno. */
enum tfc__step {
	TFC__STEP_NONE = 0,
	TFC__STEP_GUARD,  /* the guard made no shim */
	TFC__STEP_LAUNCH, /* the shim cannot use the memfd */
	TFC__STEP_LOG,
	TFC__STEP_PIPE,
	TFC__STEP_FORK,
	TFC__STEP_CWD,
	TFC__STEP_EXEC,
};

/* How a process ended, as enum tfc_exit_reason. */
enum tfc__end {
	TFC__END_CODE = 1,
	TFC__END_SIGNAL = 2,
	TFC__END_LOST = 3,
	TFC__END_NOT_STARTED = 4,
};

/* Host to guard, guard to shim. */
struct tfc__command {
	uint32_t kind;
	uint32_t
		keep_id; /* SPAWN: port whose door is opened first, 0: none; KEEP, ADMIT, RELEASE */
	uint64_t id;     /* SPAWN, STOP, SIGNAL: of the process; the host chooses it */
	uint32_t grace_ms; /* SPAWN: when the host dies; STOP */
	uint32_t value;    /* SIGNAL: number; ADMIT: is_open; OWN_DIR: is_wanted */
};

/* Shim to guard, guard to host. */
struct tfc__report {
	uint32_t kind;
	uint32_t reason; /* EXITED: enum tfc__end */
	uint64_t id;     /* filled in by the guard */
	int32_t pid;
	int32_t shim;   /* pid, filled in by the guard */
	int32_t status; /* exit code, signal, or errno when it was not started; HELLO: version */
	uint32_t step;  /* enum tfc__step when it was not started */
	uint32_t is_oom;
	uint32_t reserved;
	uint64_t time_ns;
	uint64_t user_us;
	uint64_t system_us;
	uint64_t max_rss_kib;
	uint64_t log_end;
	uint64_t log_dropped;
};

/*
 * Head of the memfd. All offsets are from its beginning; strings end with a NUL. At `argv` and
 * `env` are arrays of `argc` and `envc` 64-bit offsets, each followed by a zero: the shim turns
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
	uint32_t grace_ms;
	uint32_t reserved;
};

#endif
