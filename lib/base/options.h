/*
 * Options structs whose first field is their size; they may be older or newer than this library.
 */
#ifndef TFC_BASE_OPTIONS_H
#define TFC_BASE_OPTIONS_H

#include <stddef.h>
#include <tfcluster/error.h>

/*
 * Copies the part of an options struct that both host and library know into `copy` (of `known`
 * bytes) and zeroes the rest. `options` may be NULL, which means all zero. `name` is the struct's
 * name, for the message; `reserved` the offset of its 32-bit field of that name, 0: it has none.
 * Errors: TFC_EINVAL when the size is below 4 (the host did not use the initializer), or the
 * reserved field is not 0; TFC_ENOTSUP when a part that this library does not know is nonzero.
 */
int tfc__options_copy(void *copy, size_t known, const void *options, const char *component,
		      const char *name, size_t reserved, tfc_error *error);

/* Implements every tfc_x_options_init: zeroes `size` bytes and stores the size. */
int tfc__options_init(void *options, uint32_t size, size_t known);

#endif
