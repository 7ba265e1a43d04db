/*
 * The internal representation of a cluster spec: one sorted array of tasks for each task type, so
 * that a lookup is a binary search and adding tasks by rising index is an append. A hash table of
 * addresses finds duplicates. Adding n tasks costs O(n) if the indices of each type rise.
 */
#ifndef TFC_SPEC_SPEC_H
#define TFC_SPEC_SPEC_H

#include <stdbool.h>
#include <tfcluster/spec.h>

/* In the order of rendering and iteration. */
enum tfc__task_type {
	TFC__CHIEF,
	TFC__WORKER,
	TFC__PS,
	TFC__EVALUATOR,
	TFC__TYPE_COUNT,
};

/* The index is an int32 in protobuf (core/protobuf/cluster.proto). */
#define TFC__TASK_INDEX_MAX INT32_MAX

/* Longest host:port: a DNS name (RFC 1035, section 2.3.4), a colon, five digits, a NUL. */
#define TFC__ADDRESS_SIZE (253 + 1 + 5 + 1)

struct tfc__ranks;

struct tfc__spec_task {
	uint32_t index;
	char *address; /* as given; owned */
	char *key;     /* canonical form: equal for all spellings of one address; owned */
};

struct tfc__spec_list {
	struct tfc__spec_task *items; /* by rising index */
	uint32_t count;
	uint32_t capacity;
};

/*
 * The data that all tasks of a spec share, rendered on first use. It is a cache, not part of the
 * spec's value; it may therefore change in a const spec.
 */
struct tfc__spec_common {
	char *cluster; /* JSON without the evaluator; NULL: not rendered since the last change */
	size_t cluster_len;
	char *workers; /* TF_WORKERS */
	struct tfc__ranks *ranks;
	uint64_t render_count; /* number of renderings of the two, for tests of the cost */
};

struct tfc_spec {
	struct tfc__spec_list lists[TFC__TYPE_COUNT];
	const char **seen;      /* keys by hash, open addressing; borrowed from the tasks */
	uint32_t seen_capacity; /* a power of two, or 0 */
	uint32_t task_count;
	struct tfc__spec_common *common;
	bool is_part; /* made by tfc_spec_part: its only worker may have any index */
};

/* ---- spec.c */

const char *tfc__task_type_name(enum tfc__task_type type);

/* The type with that name, or TFC__TYPE_COUNT if there is none or `name` is NULL. */
enum tfc__task_type tfc__task_type_find(const char *name);

const struct tfc__spec_task *tfc__spec_find(const tfc_spec *spec, enum tfc__task_type type,
					    uint32_t task_index);

/* Whether the indices are 0 to count - 1 without gaps. */
bool tfc__spec_is_dense(const struct tfc__spec_list *list);

/* ---- address.c */

/*
 * Checks host:port, 192.0.2.1:port or [v6]:port and writes its canonical form, which is equal for
 * all spellings of one address. `task_type` and `task_index` are used in the error message. Returns
 * 0 or TFC_ESPEC.
 */
int tfc__address_check(const char *task_type, uint32_t task_index, const char *address,
		       tfc_error *error, char ret_key[TFC__ADDRESS_SIZE]);

/* ---- rules.c */

/* Finds the type with that name. TFC_ESPEC, with the nearest known type in the message, if there is
 * none. */
int tfc__rules_type(const char *task_type, uint32_t task_index, tfc_error *error,
		    enum tfc__task_type *ret_type);

/* The known task type that `name` is probably a misspelling or synonym of, or NULL. */
const char *tfc__rules_similar_type(const char *name);

/* Checks whether tasks of a type may have this index at all. Returns 0 or TFC_ESPEC. */
int tfc__rules_index(enum tfc__task_type type, uint32_t task_index, tfc_error *error);

/* In the order of the enum, then NULL. */
extern const char *const tfc__strategy_names[];

/* Resolves TFC_STRATEGY_AUTO; any other strategy resolves to itself. TFC_EINVAL for a value outside
 * the enum. */
int tfc__rules_strategy(const tfc_spec *spec, enum tfc_strategy strategy, tfc_error *error,
			enum tfc_strategy *ret_strategy);

/* Checks the cluster alone under a strategy other than AUTO; the task is used in the message. */
int tfc__rules_cluster(const tfc_spec *spec, enum tfc_strategy strategy, const char *task_type,
		       uint32_t task_index, tfc_error *error);

/* Checks one task of the cluster under a strategy other than AUTO. */
int tfc__rules_task(const tfc_spec *spec, enum tfc_strategy strategy, enum tfc__task_type type,
		    uint32_t task_index, tfc_error *error);

/* Refuses the task types that only TensorFlow has in its cluster: ps and evaluator. */
int tfc__rules_ranks(const tfc_spec *spec, enum tfc_framework framework, tfc_error *error);

/* ---- render.c */

/* The longest "NAME=value" that execve accepts, with its NUL: MAX_ARG_STRLEN, 32 pages of 4 KiB. */
#define TFC__ENV_STRING_MAX 131072

/* Discards the rendered data. */
void tfc__spec_common_clear(struct tfc__spec_common *common);

#endif
