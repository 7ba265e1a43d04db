/*
 * A byte buffer that grows. The first failed allocation sets is_failed; every later call does
 * nothing, so a writer checks for failure once, at the end. A zero-initialized buffer is empty and
 * valid. A NUL always follows the bytes; `len` does not count it.
 */
#ifndef TFC_BASE_BUF_H
#define TFC_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <tfcluster/export.h>

struct tfc__buf {
	char *data; /* NULL until something is added */
	size_t len;
	size_t capacity;
	bool is_failed;
};

void tfc__buf_add(struct tfc__buf *buf, const void *data, size_t len);
void tfc__buf_add_str(struct tfc__buf *buf, const char *text);
void tfc__buf_add_char(struct tfc__buf *buf, char c);
void tfc__buf_addf(struct tfc__buf *buf, const char *format, ...) TFC_PRINTF(2, 3);

/*
 * Reserves room for `len` more bytes and returns the address at which to write them, or NULL when
 * out of memory. The first reservation of more than 63 bytes allocates no more than it needs. The
 * caller then calls tfc__buf_grow.
 */
char *tfc__buf_reserve(struct tfc__buf *buf, size_t len);
void tfc__buf_grow(struct tfc__buf *buf, size_t len); /* counts bytes written after a reserve */

void tfc__buf_clear(struct tfc__buf *buf); /* empties the buffer, keeps its memory */

/* Releases unused capacity if the buffer is large and more than an eighth of its length is unused.
 * For a buffer that is kept for a while. */
void tfc__buf_trim(struct tfc__buf *buf);

/* Returns the bytes, which the caller frees; NULL only after a failed allocation. The buffer is
 * empty afterwards. */
char *tfc__buf_steal(struct tfc__buf *buf);
void tfc__buf_fini(struct tfc__buf *buf);

#endif
