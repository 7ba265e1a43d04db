/* What is computed from a text: its hash, and the port that it names. */
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

#endif
