/*
 * A byte buffer that grows. The first allocation that fails is remembered (is_failed); every later
 * call does nothing, so that a writer checks once at the end. Zero-initialized is empty and valid.
 * The bytes are always followed by a NUL that is not counted.
 */
#ifndef TFC_BASE_BUF_H
#define TFC_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <tfcluster/export.h>

struct tfc__buf {
	char *data; /* NULL while nothing was added */
	size_t len;
	size_t capacity;
	bool is_failed;
};

void tfc__buf_add(struct tfc__buf *buf, const void *data, size_t len);
void tfc__buf_add_str(struct tfc__buf *buf, const char *text);
void tfc__buf_add_char(struct tfc__buf *buf, char c);
void tfc__buf_addf(struct tfc__buf *buf, const char *format, ...) TFC_PRINTF(2, 3);

/* Adds text as a JSON string, quotes included; bytes that are not UTF-8 become U+FFFD. */
void tfc__buf_add_json(struct tfc__buf *buf, const char *text, size_t len);

/* The same of any bytes, without losing one: what is not UTF-8 becomes the four letters "\xNN". */
void tfc__buf_add_json_bytes(struct tfc__buf *buf, const char *data, size_t len);

/* Makes room for `len` more bytes (for no more than them, when it is the first) and returns where
 * they go, or NULL; follow with tfc__buf_grow. */
char *tfc__buf_reserve(struct tfc__buf *buf, size_t len);
void tfc__buf_grow(struct tfc__buf *buf, size_t len); /* counts bytes written into the reserve */

void tfc__buf_clear(struct tfc__buf *buf); /* keeps the memory */

/* Gives back what was reserved for more, where that is much: the buffer will be kept for a while.
 */
void tfc__buf_trim(struct tfc__buf *buf);

/* Hands the bytes over (never NULL unless an allocation failed); the buffer is empty afterwards. */
char *tfc__buf_steal(struct tfc__buf *buf);
void tfc__buf_fini(struct tfc__buf *buf);

#endif
