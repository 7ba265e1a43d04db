/* UTF-8 as RFC 3629 defines it: nothing overlong, no surrogates, nothing above U+10FFFF. */
#ifndef TFC_BASE_UTF8_H
#define TFC_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the well-formed sequence at the start of `len` bytes, len > 0; 0 when there is none. */
size_t tfc__utf8_len(const char *text, size_t len);

/* The code point of a well-formed sequence, and its length. */
uint32_t tfc__utf8_read(const char *text, size_t *ret_len);

/* Writes 1 to 4 bytes; returns how many. */
size_t tfc__utf8_write(uint32_t code, char *text);

/*
 * What speaks to a terminal in place of standing on it: C0, DEL, C1, and the characters that change
 * the order of those around them (Unicode: Bidi_Control).
 */
bool tfc__utf8_is_control(uint32_t code);

/* Well-formed, and without any of these. */
bool tfc__is_plain_text(const char *text);

/* Makes a text of any bytes a plain one: a space for each control of ASCII, else a '?' for each
 * byte that does not belong there. */
void tfc__make_plain_text(char *text);

#endif
