/*
 * The inside of a cluster spec: its tasks in sorted arrays, one array a type, so that a lookup is a
 * binary search and adding by rising index is an append; a hash of the addresses finds duplicates.
 * Adding n tasks costs O(n), whatever n, as long as each type's indices rise.
 */
#ifndef TFC_SPEC_SPEC_H
#define TFC_SPEC_SPEC_H

#include <stdbool.h>
#include <tfcluster/spec.h>

/* In the order in which they are rendered and walked. */
enum tfc__task_type {
	TFC__CHIEF,
	TFC__WORKER,
	TFC__PS,
	TFC__EVALUATOR,
	TFC__TYPE_COUNT,
};

/* protobuf's int32 carries the index (core/protobuf/cluster.proto). */
#define TFC__TASK_INDEX_MAX INT32_MAX

/* Longest host:port: a DNS name (RFC 1035, section 2.3.4), a colon, five digits, a NUL. */
#define TFC__ADDRESS_SIZE (253 + 1 + 5 + 1)

struct tfc__ranks;

struct tfc__spec_task {
	uint32_t index;
	char *address; /* as given; owned */
	char *key;     /* the same for all spellings of one address; owned */
};

struct tfc__spec_list {
	struct tfc__spec_task *items; /* by rising index */
	uint32_t count;
	uint32_t capacity;
};

/*
 * What all tasks of a spec share, rendered on first use. It is not part of the value, which is why
 * it may change behind a const spec.
 */
struct tfc__spec_common {
	char *cluster; /* JSON without the evaluator; NULL: not rendered since the last change */
	size_t cluster_len;
	char *workers; /* TF_WORKERS */
	struct tfc__ranks *ranks;
	uint64_t render_count; /* how often the two were made, for tests of the cost */
};

struct tfc_spec {
	struct tfc__spec_list lists[TFC__TYPE_COUNT];
	const char **seen;      /* keys by hash, open addressing; borrowed from the tasks */
	uint32_t seen_capacity; /* a power of two, or 0 */
	uint32_t task_count;
	struct tfc__spec_common *common;
	bool is_part; /* made by tfc_spec_part: its one worker may have any index */
};

/* ---- spec.c */

const char *tfc__task_type_name(enum tfc__task_type type);

/* The type of that name, or TFC__TYPE_COUNT. NULL is no type. */
enum tfc__task_type tfc__task_type_find(const char *name);

const struct tfc__spec_task *tfc__spec_find(const tfc_spec *spec, enum tfc__task_type type,
					    uint32_t task_index);

/* Whether the indices are 0 to count - 1. */
bool tfc__spec_is_dense(const struct tfc__spec_list *list);

/* ---- address.c */

/*
 * Checks host:port, 192.0.2.1:port or [v6]:port and writes one spelling for all of the same
 * address. `task_type` and `task_index` are for the sentence. TFC_ESPEC.
 */
int tfc__address_check(const char *task_type, uint32_t task_index, const char *address,
		       tfc_error *error, char ret_key[TFC__ADDRESS_SIZE]);

/* ---- rules.c */

/* The type of that name, or TFC_ESPEC with the nearest one named. */
int tfc__rules_type(const char *task_type, uint32_t task_index, tfc_error *error,
		    enum tfc__task_type *ret_type);

/* Whether a type may have this index at all. */
int tfc__rules_index(enum tfc__task_type type, uint32_t task_index, tfc_error *error);

/* What TFC_STRATEGY_AUTO stands for; another one is itself. TFC_EINVAL: no strategy at all. */
int tfc__rules_strategy(const tfc_spec *spec, enum tfc_strategy strategy, tfc_error *error,
			enum tfc_strategy *ret_strategy);

/* The cluster alone, under a strategy other than AUTO; the task is for the sentence. */
int tfc__rules_cluster(const tfc_spec *spec, enum tfc_strategy strategy, const char *task_type,
		       uint32_t task_index, tfc_error *error);

/* One task in the cluster, under a strategy other than AUTO. */
int tfc__rules_task(const tfc_spec *spec, enum tfc_strategy strategy, enum tfc__task_type type,
		    uint32_t task_index, tfc_error *error);

/* What only TensorFlow has in its cluster: ps and evaluator. */
int tfc__rules_ranks(const tfc_spec *spec, enum tfc_framework framework, tfc_error *error);

/* ---- render.c */

/* The longest "NAME=value" with its NUL that execve takes: MAX_ARG_STRLEN, 32 pages of 4 KiB. */
#define TFC__ENV_STRING_MAX 131072

/* Forgets what was rendered. */
void tfc__spec_common_clear(struct tfc__spec_common *common);

#endif
