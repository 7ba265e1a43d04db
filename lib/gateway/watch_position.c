#include "gateway/watch_position.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tfcluster/error.h>

#define NUMBERS_LEN (3 * 17) /* ":0123456789abcdef" for each number */
#define NODES_MAX 65536

static struct tfc__watch_slot *find(struct tfc__watch_position *position, const char *node)
{
	for (uint32_t i = 0; i < position->count; i++) {
		uint32_t at = (position->last + i) % position->count;
		if (strcmp(position->slots[at].node, node) == 0) {
			position->last = at;
			return &position->slots[at];
		}
	}
	return NULL;
}

static void write_numbers(struct tfc__watch_position *position, const struct tfc__watch_slot *slot)
{
	char numbers[NUMBERS_LEN + 1];
	snprintf(numbers, sizeof(numbers), ":%016llx:%016llx:%016llx",
		 (unsigned long long)slot->at.incarnation, (unsigned long long)slot->at.appeared,
		 (unsigned long long)slot->at.changed);
	memcpy(position->text.data + slot->text, numbers, NUMBERS_LEN);
}

/* Adds the slot's part to the text. */
static int add_text(struct tfc__watch_position *position, struct tfc__watch_slot *slot)
{
	struct tfc__buf *text = &position->text;
	size_t len = text->len;
	tfc__buf_addf(text, "%s%s%*s", len ? "," : "", slot->node, NUMBERS_LEN, "");
	if (text->is_failed) {
		text->is_failed = false;
		text->len = len;
		if (text->data)
			text->data[len] = '\0';
		return TFC_ENOMEM;
	}
	slot->text = text->len - NUMBERS_LEN;
	write_numbers(position, slot);
	return TFC_OK;
}

int tfc__watch_position_set(struct tfc__watch_position *position, const char *node,
			    const struct tfc__changes_position *at)
{
	struct tfc__watch_slot *slot = find(position, node);
	if (slot) {
		slot->at = *at;
		write_numbers(position, slot);
		return TFC_OK;
	}
	struct tfc__watch_slot *slots = realloc(position->slots,
						(position->count + 1) * sizeof(*slots));
	if (!slots)
		return TFC_ENOMEM;
	position->slots = slots;
	slot = &slots[position->count];
	*slot = (struct tfc__watch_slot){.at = *at};
	snprintf(slot->node, sizeof(slot->node), "%s", node);
	if (add_text(position, slot) < 0)
		return TFC_ENOMEM;
	position->last = position->count++;
	return TFC_OK;
}

void tfc__watch_position_remove(struct tfc__watch_position *position, const char *node)
{
	struct tfc__watch_slot *slot = find(position, node);
	if (!slot)
		return;
	memmove(slot, slot + 1,
		(size_t)(position->slots + position->count - (slot + 1)) * sizeof(*slot));
	position->count--;
	position->last = 0;
	position->text.len = 0;
	if (position->text.data)
		position->text.data[0] = '\0';
	for (uint32_t i = 0; i < position->count; i++)
		add_text(position, &position->slots[i]); /* there is room: it was longer */
}

const struct tfc__changes_position *tfc__watch_position_find(struct tfc__watch_position *position,
							     const char *node)
{
	const struct tfc__watch_slot *slot = find(position, node);
	return slot ? &slot->at : NULL;
}

const char *tfc__watch_position_text(const struct tfc__watch_position *position)
{
	return position->text.data ? position->text.data : "";
}

static bool read_number(const char **at, uint64_t *ret_number)
{
	static const char digits[] = "0123456789abcdef";
	if (*(*at)++ != ':')
		return false;
	*ret_number = 0;
	for (int i = 0; i < 16; i++, (*at)++) {
		const char *digit = **at ? strchr(digits, **at) : NULL;
		if (!digit)
			return false;
		*ret_number = *ret_number * 16 + (uint64_t)(digit - digits);
	}
	return true;
}

int tfc__watch_position_read(struct tfc__watch_position *position, const char *text)
{
	while (*text) {
		char node[64];
		struct tfc__changes_position at;
		size_t len = strcspn(text, ":,");
		if (len == 0 || len >= sizeof(node) || position->count == NODES_MAX)
			return TFC_EINVAL;
		memcpy(node, text, len);
		node[len] = '\0';
		text += len;
		if (!read_number(&text, &at.incarnation) || !read_number(&text, &at.appeared) ||
		    !read_number(&text, &at.changed) || (*text && *text != ',') ||
		    (*text == ',' && !text[1]) || find(position, node))
			return TFC_EINVAL;
		text += *text == ',';
		if (tfc__watch_position_set(position, node, &at) < 0)
			return TFC_ENOMEM;
	}
	return TFC_OK;
}

size_t tfc__watch_position_bytes(const struct tfc__watch_position *position)
{
	return position->count * sizeof(*position->slots) + position->text.capacity;
}

void tfc__watch_position_fini(struct tfc__watch_position *position)
{
	free(position->slots);
	tfc__buf_fini(&position->text);
	*position = (struct tfc__watch_position){.slots = NULL};
}
