/*
 * An allocation: several machines that an engine (Slurm, Open MPI, Kubernetes) has granted, and on
 * each of which it started the same program. Each of these processes is a rank. The ranks find each
 * other and become nodes of one cluster, which lives as long as the allocation does.
 *
 * Every rank opens the allocation and receives its events in dispatch. After TFC_ALLOCATION_READY,
 * rank 0 opens a gateway on tfc_allocation_node and submits its jobs; the other ranks only run
 * tasks. Rank 0 announces the end with tfc_allocation_end; the others then receive
 * TFC_ALLOCATION_ENDED and call tfc_allocation_end, too. After TFC_ALLOCATION_FAILED every rank
 * calls it. A job that rank 0 submits by such a gateway has two defaults of its own:
 * pending_deadline_s is wait_ms, because no engine adds a node later, and with Slurm the first
 * restart.backoff_s is one second, because Slurm signals the tasks as well as the ranks. The
 * library handles no signals: what an engine announces by SIGTERM is the host's.
 * doc/guide/embedding.md has a whole program.
 */
#ifndef TFCLUSTER_ALLOCATION_H
#define TFCLUSTER_ALLOCATION_H

#include <stdint.h>
#include <tfcluster/ctx.h>
#include <tfcluster/node.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What has started the ranks. */
enum tfc_engine {
	TFC_ENGINE_NONE = 1, /* the host itself: rank and rank_count are options */
	TFC_ENGINE_SLURM = 2,
	TFC_ENGINE_OPEN_MPI = 3,
	TFC_ENGINE_KUBERNETES = 4, /* an indexed job */
};

/** "Slurm", "Open MPI", "Kubernetes", "no engine"; "?" for an unknown one. Static string. Thread:
 * any. Errors: none. */
TFC_API const char *tfc_engine_name(uint32_t engine);

typedef struct tfc_allocation tfc_allocation;

/* What was recognized. Borrowed: valid as long as the allocation. */
typedef struct tfc_allocation_info {
	uint32_t size;
	uint32_t engine;       /* enum tfc_engine */
	uint32_t rank;         /* of this process, from 0 */
	uint32_t rank_count;   /* of the allocation */
	const char *id;        /* of this run of the engine's, such as "slurm-17.0" */
	const char *node_name; /* of this rank's node: "rank-1" */
	uint32_t slots;        /* the CPUs that the engine has granted: tasks at one time */
	uint32_t wait_ms;      /* until all ranks must have joined */
	uint64_t memory_bytes; /* that the engine has granted; 0: no limit */
	const char *gpus;      /* that the engine has granted, as tfc_node_options.gpus */
	const char *text;      /* all of this for people, in one line */
} tfc_allocation_info;

enum tfc_allocation_event_kind {
	/* Some ranks have not joined yet; the event comes after 3 s, and then every 30 s. */
	TFC_ALLOCATION_WAITING = 1,
	/* Rank 0: all ranks have joined. Other ranks: rank 0 has. The node may be used. */
	TFC_ALLOCATION_READY = 2,
	/* `rank` has died, left, or is unreachable. Its tasks move to other ranks. */
	TFC_ALLOCATION_LOST = 3,
	/* `rank` has joined, or joined again, after READY. */
	TFC_ALLOCATION_RETURNED = 4,
	/* Not on rank 0: rank 0 has called tfc_allocation_end. Nothing more is reported. */
	TFC_ALLOCATION_ENDED = 5,
	/* The ranks cannot work together: `code` and `text` say why. Nothing more is reported. The
	 * node, if there is one, still runs its tasks until tfc_allocation_end has completed. */
	TFC_ALLOCATION_FAILED = 6,
};

/* An event. Borrowed: valid during the callback. */
typedef struct tfc_allocation_event {
	uint32_t size;
	uint32_t kind;        /* enum tfc_allocation_event_kind */
	uint32_t rank;        /* LOST, RETURNED */
	int32_t code;         /* FAILED: enum tfc_err */
	uint32_t exit_status; /* ENDED: as rank 0 has announced it */
	uint32_t reserved;
	const char *text; /* for people; never NULL. ENDED: as rank 0 has announced it, or "" */
} tfc_allocation_event;

/** Runs in dispatch. It may close the allocation. */
typedef void (*tfc_allocation_fn)(void *user, const tfc_allocation_event *event);

/* Options of an allocation. Zero is the default of every field but `env`. Everything is copied. */
typedef struct tfc_allocation_options {
	uint32_t size;
	/* The number of this rank, and of all (up to 16384). With rank_count 0 both are the
	 * engine's. Kubernetes states only the rank: set rank_count, and has_rank to 0. */
	uint32_t rank;
	uint32_t rank_count; /* see rank */
	uint32_t has_rank;   /* 1: `rank` is set, and no engine is recognized */
	/* With fewer ranks the allocation fails. If only so many have joined after wait_ms, it is
	 * READY all the same. 0: all must join, and one must remain. */
	uint32_t min_ranks;
	/* The tasks of the job: with fewer slots on the remaining ranks the allocation fails. 0: is
	 * not checked. */
	uint32_t needed_slots;
	uint32_t wait_ms;     /* until all ranks must have joined; 0: 300000 */
	uint32_t needed_gpus; /* as needed_slots: the GPUs of the job's tasks */
	/* "NAME=value": the environment by which the engine is recognized. Tasks begin with it,
	 * except for the variables of MPI and TFC_KEY_DATA. Required. */
	const char *const *env;
	/* Where the ranks find rank 0: a directory that all ranks share, in which rank 0 writes a
	 * file with its address and a key (mode 0600); or "HOST:PORT", at which rank 0 listens.
	 * Required. */
	const char *rendezvous;
	/* The numeric address of this machine that the other ranks use; NULL: the one from which
	 * this machine reaches the other ranks */
	const char *host;
	/* The cluster's key: a key file, or the text of one. NULL: rank 0 makes one and writes it
	 * to the directory; with "HOST:PORT" there is none, which only the loopback permits. */
	const char *key_file;
	const char *key_data; /* see key_file */
	/* Text that must be the same on all ranks, such as the job: rank 0 fails with TFC_EINVAL if
	 * another has another one. NULL: none. rank_count must be the same in any case. */
	const char *agreement;
	/* Other options of the node: one JSON object, as for tfc_node_open_json; NULL: none. The
	 * allocation itself sets name, advertise, listen, key, gossip, join, base-env and label,
	 * and slots, memory and gpus where they are missing. */
	const char *node;
} tfc_allocation_options;

#define TFC_ALLOCATION_OPTIONS_INIT                                                      \
	{                                                                                \
		sizeof(tfc_allocation_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_allocation_options_init(tfc_allocation_options *options, uint32_t size);

/**
 * Recognizes where this process runs, and begins to find the other ranks; fn reports how that
 * proceeds. The caller owns *ret_allocation. Thread: the context's. Errors: TFC_ENOENT (no engine
 * is recognized, or the directory does not exist), TFC_EINVAL (a field or a variable, named),
 * TFC_EACCES or TFC_ENOSPC (rank 0 cannot write to the directory), TFC_EBUSY (another run of this
 * id has its file there), TFC_EPARSE (key_data); those of tfc_node_open; TFC_ENOMEM, TFC_EFORK.
 */
TFC_API int tfc_allocation_open(tfc_ctx *ctx, const tfc_allocation_options *options,
				tfc_allocation_fn fn, void *user, tfc_allocation **ret_allocation);

/** Returns what was recognized. Borrowed: valid until the allocation is closed. Thread: the
 * context's. Errors: none; NULL for NULL. */
TFC_API const tfc_allocation_info *tfc_allocation_describe(const tfc_allocation *allocation);

/** Returns this rank's node, NULL before TFC_ALLOCATION_READY. Borrowed: valid until the allocation
 * is closed, which closes the node. Thread: the context's. Errors: none; NULL for NULL. */
TFC_API tfc_node *tfc_allocation_node(const tfc_allocation *allocation);

/** Runs once, in dispatch, when this rank has left the others. It may close the allocation. */
typedef void (*tfc_allocation_ended_fn)(void *user);

/**
 * Ends this rank's part in the allocation. Rank 0 announces `exit_status` and `text` (NULL: none)
 * to the other ranks, waits some seconds at most until they have left, and leaves. Any other rank
 * leaves as with tfc_node_leave: its tasks are moved, or get their grace period; exit_status and
 * text are ignored. No other event comes after this call. Thread: the context's. Errors:
 * TFC_EINVAL, TFC_ESTATE (it was called before), TFC_ENOMEM, TFC_EFORK.
 */
TFC_API int tfc_allocation_end(tfc_allocation *allocation, uint32_t exit_status, const char *text,
			       tfc_allocation_ended_fn fn, void *user);

/**
 * Closes the allocation and its node at once, as tfc_node_close: tasks that still run here are
 * killed. Rank 0 removes its file in the directory. Without tfc_allocation_end before it, this rank
 * is lost for the others, and rank 0 waits about 16 s before it starts the tasks elsewhere or ends
 * its job. Legal inside a callback. NULL is a no-op. Thread: the context's.
 */
TFC_API void tfc_allocation_close(tfc_allocation *allocation);

#ifdef __cplusplus
}
#endif
#endif
