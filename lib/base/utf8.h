/* UTF-8 as RFC 3629 defines it: nothing overlong, no surrogates, nothing above U+10FFFF. */
#ifndef TFC_BASE_UTF8_H
#define TFC_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Length of the well-formed sequence at the start of `len` bytes, len > 0; 0 when there is none. */
size_t tfc__utf8_len(const char *text, size_t len);

/* The code point of a well-formed sequence, and its length. */
uint32_t tfc__utf8_read(const char *text, size_t *ret_len);

/* Writes 1 to 4 bytes; returns how many. */
size_t tfc__utf8_write(uint32_t code, char *text);

#endif
