#include "gateway/watch_position.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "member/member.h"

#define NUMBERS_LEN (3 * 17) /* ":0123456789abcdef" for each number */

bool tfc__watch_position_is_node(const char *name)
{
	const tfc_member_info info = {.size = sizeof(info), .name = name};
	return tfc__member_check(&info, NULL) == TFC_OK;
}

static struct tfc__watch_slot *find_slot(const struct tfc__watch_position *position,
					 const char *node)
{
	uint32_t at = tfc__map_get(&position->index, tfc__text_hash(node, strlen(node)), 0);
	while (at && strcmp(position->slots[at - 1].node, node) != 0)
		at = position->slots[at - 1].same;
	return at ? &position->slots[at - 1] : NULL;
}

static bool index_slot(struct tfc__watch_position *position, uint32_t at)
{
	struct tfc__watch_slot *slot = &position->slots[at];
	uint64_t hash = tfc__text_hash(slot->node, strlen(slot->node));
	slot->same = tfc__map_get(&position->index, hash, 0);
	return tfc__map_set(&position->index, hash, at + 1);
}

static void write_slot_numbers(struct tfc__watch_position *position,
			       const struct tfc__watch_slot *slot)
{
	char numbers[NUMBERS_LEN + 1];
	snprintf(numbers, sizeof(numbers), ":%016llx:%016llx:%016llx",
		 (unsigned long long)slot->at.incarnation, (unsigned long long)slot->at.appeared,
		 (unsigned long long)slot->at.changed);
	memcpy(position->text.data + slot->text, numbers, NUMBERS_LEN);
}

/* Adds the slot's part to the text. */
static int add_slot_text(struct tfc__watch_position *position, struct tfc__watch_slot *slot)
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
	write_slot_numbers(position, slot);
	return TFC_OK;
}

int tfc__watch_position_set(struct tfc__watch_position *position, const char *node,
			    const struct tfc__changes_position *at)
{
	struct tfc__watch_slot *slot = find_slot(position, node);
	if (slot) {
		slot->at = *at;
		write_slot_numbers(position, slot);
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
	if (!tfc__map_reserve(&position->index, position->count + 1) ||
	    add_slot_text(position, slot) < 0)
		return TFC_ENOMEM;
	index_slot(position, position->count++);
	return TFC_OK;
}

void tfc__watch_position_remove(struct tfc__watch_position *position, const char *node)
{
	struct tfc__watch_slot *slot = find_slot(position, node);
	struct tfc__buf *text = &position->text;
	if (!slot)
		return;
	size_t end = slot->text + NUMBERS_LEN + 1; /* with the comma, or the NUL */
	size_t cut = strlen(slot->node) + NUMBERS_LEN + 1;
	size_t begin = end - cut;
	bool is_last = end > text->len;
	memmove(text->data + begin, text->data + end, is_last ? 0 : text->len + 1 - end);
	text->len = is_last ? (begin ? begin - 1 : 0) : text->len - cut;
	text->data[text->len] = '\0';
	uint32_t at = (uint32_t)(slot - position->slots);
	memmove(slot, slot + 1, (position->count - at - 1) * sizeof(*slot));
	position->count--;
	for (uint32_t i = at; i < position->count; i++)
		position->slots[i].text -= cut;
	tfc__map_clear(&position->index);
	for (uint32_t i = 0; i < position->count; i++)
		index_slot(position, i); /* there is room: it had more */
}

int tfc__watch_position_apply(struct tfc__watch_position *position, const char *node,
			      const struct tfc__mark *mark)
{
	if (mark->watch == TFC__WATCH_SET)
		return tfc__watch_position_set(position, node, &mark->at);
	if (mark->watch == TFC__WATCH_REMOVE)
		tfc__watch_position_remove(position, node);
	return TFC_OK;
}

const struct tfc__changes_position *
tfc__watch_position_find(const struct tfc__watch_position *position, const char *node)
{
	const struct tfc__watch_slot *slot = find_slot(position, node);
	return slot ? &slot->at : NULL;
}

const char *tfc__watch_position_text(const struct tfc__watch_position *position)
{
	return position->text.data ? position->text.data : "";
}

static bool read_slot_number(const char **at, uint64_t *ret_number)
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
	uint32_t commas = 0;
	for (const char *comma = text; (comma = strchr(comma, ',')); comma++)
		if (++commas == TFC__WATCH_NODES_MAX)
			return TFC_EINVAL;
	while (*text) {
		char node[64];
		struct tfc__changes_position at;
		size_t len = strcspn(text, ":,");
		if (len >= sizeof(node))
			return TFC_EINVAL;
		memcpy(node, text, len);
		node[len] = '\0';
		text += len;
		if (!tfc__watch_position_is_node(node) ||
		    !read_slot_number(&text, &at.incarnation) ||
		    !read_slot_number(&text, &at.appeared) ||
		    !read_slot_number(&text, &at.changed) || (*text && *text != ',') ||
		    (*text == ',' && !text[1]) || find_slot(position, node))
			return TFC_EINVAL;
		text += *text == ',';
		if (tfc__watch_position_set(position, node, &at) < 0)
			return TFC_ENOMEM;
	}
	return TFC_OK;
}

size_t tfc__watch_position_bytes(const struct tfc__watch_position *position)
{
	return position->count * sizeof(*position->slots) + position->text.capacity +
	       position->index.capacity * sizeof(*position->index.entries);
}

void tfc__watch_position_fini(struct tfc__watch_position *position)
{
	free(position->slots);
	tfc__map_fini(&position->index);
	tfc__buf_fini(&position->text);
	*position = (struct tfc__watch_position){.slots = NULL};
}
