/*
 * The generation of a node: a number that is higher at each of its starts. It is kept in the file
 * "generation" of the state directory:
 *
 *     tfcluster-generation 1 N
 */
#ifndef TFC_MEMBER_GENERATION_H
#define TFC_MEMBER_GENERATION_H

#include <stdint.h>
#include <tfcluster/error.h>

/*
 * Stores the next generation, at least `least`, in the directory and syncs it before it returns.
 * directory NULL: the generation is the seconds since the beginning of 2026, or `least` if that is
 * higher; a node without a state directory has another id at each start, so that this number orders
 * nothing but the changes within one run. Errors: TFC_EINVAL (`least` is not below
 * TFC__GOSSIP_LIMIT), TFC_EPARSE (the file is damaged), TFC_EACCES, and those of writing the file.
 */
int tfc__generation_next(const char *directory, uint32_t least, tfc_error *error,
			 uint32_t *ret_generation);

#endif
