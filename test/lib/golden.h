/*
 * Bytes as they were once written, in hexadecimal: what is on a disk or comes from another version
 * is read for ever, whatever the code is that reads it.
 */
#ifndef TEST_LIB_GOLDEN_H
#define TEST_LIB_GOLDEN_H

#include "base/buf.h"
#include "wire/fields.h"

/* Fails the test, and prints what was written, unless it is that. Ends the buffer. */
void golden_expect(struct tfc__buf *written, const char *hex);

/* The bytes; the caller ends the buffer. */
struct tfc__buf golden_bytes(const char *hex);

/* The same, parsed: the caller ends both. */
struct tfc__buf golden_parse(const char *hex, struct tfc__msg *ret_msg);

/* Fails the test unless the message is written as `hex`, and what is read from `hex` and from
 * `earlier`, which the code before the table wrote, is written as `hex` again. */
void golden_expect_message(const struct tfc__fields *table, const void *message, const char *hex,
			   const char *earlier);

#endif
