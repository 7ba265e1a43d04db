/*
 * Zip archives made without libzip: names, modes and bytes that a test chooses. hostile_zips.py
 * makes those that are out to hurt.
 */
#ifndef TFC_TEST_LIB_RAW_ZIP_H
#define TFC_TEST_LIB_RAW_ZIP_H

#include <stddef.h>
#include <stdint.h>

struct raw_entry {
	const char *name;
	uint32_t mode;     /* Unix mode with type; 0: packed on a system without modes */
	const char *data;  /* the bytes as they stand in the archive; NULL: none */
	uint32_t crc_flip; /* spoils the checksum when not 0 */
};

/* Writes an archive of the entries to a file. Fails the test when it cannot. */
void raw_zip_write(const char *path, const struct raw_entry *entries, size_t count);

#endif
