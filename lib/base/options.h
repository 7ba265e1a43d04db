/*
 * Size-first option structs, older and newer than this library.
 */
#ifndef TFC_BASE_OPTIONS_H
#define TFC_BASE_OPTIONS_H

#include <stddef.h>
#include <tfcluster/error.h>

/*
 * Copies what host and library both know of an options struct into `copy` (of `known` bytes), zero
 * beyond. `options` may be NULL: all zero. `name` is the struct's name for the sentence.
 * TFC_EINVAL: a size below 4 (the host forgot the initializer). TFC_ENOTSUP: a tail that this
 * library does not know and that is not zero.
 */
int tfc__options_copy(void *copy, size_t known, const void *options, const char *component,
		      const char *name, tfc_error *error);

/* Body of every tfc_x_options_init: zeroes `size` bytes and writes the size. */
int tfc__options_init(void *options, uint32_t size, size_t known);

#endif
