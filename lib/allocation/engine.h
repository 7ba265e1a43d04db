/*
 * Recognizes what has started this process, by its environment. Pure: reads nothing else.
 */
#ifndef TFC_ALLOCATION_ENGINE_H
#define TFC_ALLOCATION_ENGINE_H

#include <stdbool.h>
#include <tfcluster/allocation.h>

#define TFC__ENGINE_ID_SIZE 192 /* with what is added, the name of a file */
#define TFC__RANKS_MAX 16384u   /* as many members as gossip knows */

/* Where this process is among the ranks. */
struct tfc__engine_place {
	enum tfc_engine engine;
	uint32_t rank;
	uint32_t rank_count;
	uint32_t ranks_here;          /* on this machine, as far as the engine says; at least 1 */
	char id[TFC__ENGINE_ID_SIZE]; /* of the run; part of a file's name */
	const char *launcher; /* a numeric address that every rank can reach; of `env`; or NULL */
};

/* Errors: TFC_ENOENT (no engine), TFC_EINVAL (a variable or an option). */
int tfc__engine_recognize(const char *const *env, const tfc_allocation_options *options,
			  tfc_error *error, struct tfc__engine_place *ret_place);

/* Whether tasks do not inherit the variable ("NAME=value"): one by which a process would take
 * itself for a rank of MPI, or the key. */
bool tfc__engine_hides(const char *variable);

#endif
