/*
 * Small files that contain secrets: accessible to their owner only (0600), and written completely
 * or not at all.
 */
#ifndef TFC_WIRE_SECRET_FILE_H
#define TFC_WIRE_SECRET_FILE_H

#include <stddef.h>
#include <tfcluster/error.h>

/*
 * Reads a regular file of up to `max` bytes that belongs to the caller and is inaccessible to all
 * other users; appends a NUL. Errors: TFC_ENOENT, TFC_EACCES, TFC_ETOOBIG, TFC_EPARSE (not a
 * regular file), TFC_ENOMEM.
 */
int tfc__secret_read(const char *path, size_t max, tfc_error *error, char **ret_text,
		     size_t *ret_len);
void tfc__secret_free(char *text, size_t len); /* wipes it */

/* Creates and syncs the file; its directory must exist. TFC_EEXIST if the name exists. */
int tfc__secret_write(const char *path, const char *text, size_t len, tfc_error *error);

#endif
