/*
 * The zygotes of a node: processes that have imported the modules of a job's "warm", and from which
 * its tasks are forked (doc/internals/warm.md). A zygote serves every attempt with the same
 * interpreter, modules, and variables that act at exec or import. It is no task.
 */
#ifndef TFC_WARM_ZYGOTES_H
#define TFC_WARM_ZYGOTES_H

#include "base/strv.h"
#include "proc/proc.h"
#include <tfcluster/results.h>

#define TFC__ZYGOTES 2              /* per node, if the options do not say otherwise */
#define TFC__IMPORT_MS (120 * 1000) /* how long an import may take */

struct tfc__zygotes;

/*
 * Reports a zygote to a user: its state has changed, an attempt of the user was given to it, or
 * tfc__zygotes_report was called. `number` says which zygote of the node it is; the name of the
 * node is missing. NULL: it has ended, and another one is started when it is wanted. Called in
 * dispatch, in tfc__zygotes_get and in tfc__zygotes_report.
 */
typedef void (*tfc__zygotes_fn)(void *user, uint32_t number, const tfc_zygote *zygote);

struct tfc__zygotes_options {
	tfc_ctx *ctx;
	const struct tfc__private_dir *dir; /* for its logs; its locks are shared */
	uint32_t max;                       /* 0: TFC__ZYGOTES */
	uint32_t import_ms;                 /* 0: TFC__IMPORT_MS */
	tfc__zygotes_fn fn;
};

int tfc__zygotes_open(const struct tfc__zygotes_options *options, tfc_error *error,
		      struct tfc__zygotes **ret_zygotes);
void tfc__zygotes_close(struct tfc__zygotes *zygotes); /* NULL is a no-op */

/* What an attempt would run with. Borrowed during the call. */
struct tfc__warm_attempt {
	const struct tfc__strv *modules;
	const char *const *argv;
	const char *const *env;
	const char
		*own_dirs[2]; /* directories in PYTHONPATH that are the attempt's alone; or NULL */
	uint32_t isolation;   /* enum tfc_isolation */
	const tfc_process_limits *limits;
	const char *cwd; /* its working directory */
	void *user;      /* for fn, until tfc__zygotes_leave */
};

#define TFC__WARM_TEXT 512

/*
 * Gives the attempt to a zygote, which is started if there is none. Returns the zygote, from which
 * the attempt is to be forked, or NULL: the attempt starts cold, because no zygote can serve it, or
 * because the zygote has failed. ret_text: why, or "" if there is nothing to report. ret_number: of
 * the zygote, also of one that has failed; 0: there is none.
 */
const tfc_process *tfc__zygotes_get(struct tfc__zygotes *zygotes,
				    const struct tfc__warm_attempt *attempt,
				    char ret_text[TFC__WARM_TEXT], uint32_t *ret_number);

/* Calls fn for each zygote of the user. */
void tfc__zygotes_report(struct tfc__zygotes *zygotes, const void *user);

/* Whether one of the user has not yet imported its modules. */
bool tfc__zygotes_are_importing(const struct tfc__zygotes *zygotes, const void *user);

/* The user ends. Its zygotes stay for other users, except those that have failed. */
void tfc__zygotes_leave(struct tfc__zygotes *zygotes, const void *user);

/* ---- key.c */

/* Whether a zygote can serve the attempt. If not, ret_text says why. */
bool tfc__warm_check(const struct tfc__warm_attempt *attempt, char ret_text[TFC__WARM_TEXT]);

/*
 * A text that is equal for two attempts if one zygote can serve both. The caller frees it. Adds the
 * variables of that zygote to `env`. NULL, or env->is_failed: out of memory.
 */
char *tfc__warm_key(const struct tfc__warm_attempt *attempt, struct tfc__strv *env);

/*
 * The name by which a zygote for the attempt is executed: that of the attempt's arguments; if that
 * is relative to the attempt's working directory, the absolute path. The caller frees it. NULL: out
 * of memory.
 */
char *tfc__warm_interpreter(const struct tfc__warm_attempt *attempt);

#endif
