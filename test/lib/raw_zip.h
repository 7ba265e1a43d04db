/*
 * Zip archives written byte by byte, so that a test can say anything in them, also what no packer
 * would.
 */
#ifndef TFC_TEST_LIB_RAW_ZIP_H
#define TFC_TEST_LIB_RAW_ZIP_H

#include <stddef.h>
#include <stdint.h>

struct raw_entry {
	const char *name;
	size_t name_len;        /* 0: strlen(name) */
	const char *local_name; /* NULL: the same */
	uint32_t mode;          /* Unix mode with type; 0: packed on a system without modes */
	uint16_t flags;         /* bit 0: encrypted */
	const char *data;       /* the bytes as they stand in the archive; NULL: none */
	size_t data_len;        /* 0: strlen(data) */
	uint32_t method;        /* how data is packed; 0: not at all */
	const char *plain;      /* what data unpacks to; NULL: the same */
	uint32_t declared;      /* unpacked size to declare; 0: the true one */
	uint32_t packed;        /* packed size to declare; 0: the true one */
	uint32_t crc_flip;      /* spoils the checksum when not 0 */
	int32_t same_place_as;  /* share the bytes of entry N - 1; 0: own bytes */
};

/* Writes an archive of the entries to a file. Fails the test when it cannot. */
void raw_zip_write(const char *path, const struct raw_entry *entries, size_t count);

#endif
