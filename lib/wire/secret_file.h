/*
 * Small files that hold secrets: of their owner alone (0600), there as a whole or not at all.
 */
#ifndef TFC_WIRE_SECRET_FILE_H
#define TFC_WIRE_SECRET_FILE_H

#include <stddef.h>
#include <tfcluster/error.h>

/*
 * Reads up to `max` bytes of a regular file that belongs to the caller and is closed to all others;
 * a NUL follows them. TFC_ENOENT, TFC_EACCES, TFC_ETOOBIG, TFC_EPARSE (no regular file),
 * TFC_ENOMEM.
 */
int tfc__secret_read(const char *path, size_t max, tfc_error *error, char **ret_text,
		     size_t *ret_len);
void tfc__secret_free(char *text, size_t len); /* wipes it */

/* Makes the file, synced; its directory must be there. TFC_EEXIST when something has that name. */
int tfc__secret_write(const char *path, const char *text, size_t len, tfc_error *error);

#endif
