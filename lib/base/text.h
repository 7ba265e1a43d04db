/* What is computed from a text: its hash, the port that it names, its distance from another.
 * Amounts as text. */
#ifndef TFC_BASE_TEXT_H
#define TFC_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* FNV-1a, with its upper half mixed into the lower one, which tables use. */
static inline uint32_t tfc__text_hash(const char *text, size_t len)
{
	uint32_t hash = 2166136261U;
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ (uint8_t)text[i]) * 16777619U;
	return hash ^ hash >> 16;
}

/* Reads a port: 0 to 65535 in decimal. Returns -1 for any other text. */
int tfc__port_read(const char *text);

/*
 * The edit distance of two texts, in which swapping two neighbors is one edit (optimal string
 * alignment). A text longer than TFC__EDITED_MAX bytes is SIZE_MAX edits away.
 */
#define TFC__EDITED_MAX 79
size_t tfc__edit_distance(const char *a, size_t a_len, const char *b, size_t b_len);

/* An amount of memory: "8 GiB", "1.5 GiB", "512 MiB"; rounded down. */
#define TFC__MEMORY_TEXT_SIZE 32
void tfc__memory_text(uint64_t bytes, char ret_text[TFC__MEMORY_TEXT_SIZE]);

#endif
