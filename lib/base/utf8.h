/* UTF-8 as RFC 3629 defines it: nothing overlong, no surrogates, nothing above U+10FFFF. */
#ifndef TFC_BASE_UTF8_H
#define TFC_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the well-formed sequence at the start of `len` bytes, len > 0; 0 if there is none. */
size_t tfc__utf8_len(const char *text, size_t len);

/* Returns the code point of a well-formed sequence and stores its length. */
uint32_t tfc__utf8_read(const char *text, size_t *ret_len);

/* Writes 1 to 4 bytes and returns their number. */
size_t tfc__utf8_write(uint32_t code, char *text);

/*
 * Whether a character can control a terminal: C0, DEL, C1, and the characters that change the
 * direction of text (Unicode: Bidi_Control).
 */
bool tfc__utf8_is_control(uint32_t code);

/* Whether the text is well-formed UTF-8 without control characters. */
bool tfc__is_plain_text(const char *text);

/* Makes arbitrary bytes plain text in place: each ASCII control character becomes a space, each
 * byte of any other control character or of a malformed sequence becomes '?'. */
void tfc__make_plain_text(char *text);

#endif
