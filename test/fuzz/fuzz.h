/*
 * What the fuzz targets share. A target is one file with LLVMFuzzerTestOneInput; it is linked to
 * libFuzzer (meson option "fuzz"), or to replay.c, which runs it over the files of its corpus.
 * doc/internals/fuzzing.md says how to run both.
 */
#ifndef TFC_TEST_FUZZ_FUZZ_H
#define TFC_TEST_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <tfcluster/error.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A property that did not hold: the fuzzer keeps the input, a replay fails. */
#define CHECK(claim)                                                                          \
	do {                                                                                  \
		if (!(claim)) {                                                               \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #claim); \
			abort();                                                              \
		}                                                                             \
	} while (0)

/* The bytes of an input, taken from its front. */
struct fuzz_input {
	const uint8_t *at;
	size_t len;
};

/* The next 1 to 8 bytes, the lowest first; what is missing is 0. */
uint64_t fuzz_number(struct fuzz_input *input, size_t bytes);

/* Up to `len` bytes; the rest when there are fewer. *ret_len is how many. Borrowed. */
const uint8_t *fuzz_bytes(struct fuzz_input *input, size_t len, size_t *ret_len);

/* What is before the next `end`, as a string, and the rest without it; NULL when nothing is left.
 * A NUL in it ends it early. The caller frees it. */
char *fuzz_line(struct fuzz_input *input, char end);

/* A failure has its code and one line of text. */
void fuzz_check_error(int code, const tfc_error *error);

/* A private directory that is removed when the process exits. */
const char *fuzz_dir(void);

/* Writes a file anew. */
void fuzz_write(const char *path, const void *data, size_t len);

#endif
