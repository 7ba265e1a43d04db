#include "node/agent_link.h"

#include <stdlib.h>
#include <string.h>
#include <tfcluster/error.h>

typedef struct tfc__agent_link_message message;

static message *message_of(struct tfc__link *link)
{
	return tfc__container_of(link, message, link);
}

void tfc__agent_link_init(struct tfc__agent_link *link, size_t max_bytes)
{
	*link = (struct tfc__agent_link){.max_bytes = max_bytes ? max_bytes : TFC__AGENT_LINK_MAX};
	tfc__list_init(&link->kept);
	link->next = &link->kept;
}

static void agent_link_drop(struct tfc__agent_link *link, message *first)
{
	if (link->next == &first->link)
		link->next = first->link.next;
	link->kept_bytes -= first->len;
	tfc__list_remove(&first->link);
	free(first);
}

void tfc__agent_link_fini(struct tfc__agent_link *link)
{
	TFC__LIST_EACH (kept, &link->kept)
		agent_link_drop(link, message_of(kept));
}

int tfc__agent_link_post(struct tfc__agent_link *link, const struct tfc__buf *data)
{
	if (data->is_failed)
		return TFC_ENOMEM;
	if (data->len > link->max_bytes - link->kept_bytes)
		return TFC_ETOOBIG;
	message *posted = malloc(sizeof(*posted) + data->len);
	if (!posted)
		return TFC_ENOMEM;
	posted->number = ++link->last;
	posted->len = data->len;
	if (data->len)
		memcpy(posted->data, data->data, data->len);
	tfc__list_append(&link->kept, &posted->link);
	link->kept_bytes += data->len;
	if (link->next == &link->kept)
		link->next = &posted->link;
	return TFC_OK;
}

const message *tfc__agent_link_next(struct tfc__agent_link *link)
{
	if (link->next == &link->kept)
		return NULL;
	const message *next = message_of(link->next);
	link->next = link->next->next;
	return next;
}

void tfc__agent_link_undo(struct tfc__agent_link *link, const message *sent)
{
	if (sent)
		link->next = ((message *)(uintptr_t)sent)->link.prev->next;
	link->reported = 0;
}

bool tfc__agent_link_needs_ack(const struct tfc__agent_link *link)
{
	return link->reported != link->received;
}

uint64_t tfc__agent_link_ack(struct tfc__agent_link *link)
{
	link->reported = link->received;
	return link->received;
}

int tfc__agent_link_receive(struct tfc__agent_link *link, uint64_t number)
{
	if (number <= link->received)
		return 0;
	if (number != link->received + 1)
		return TFC_EPARSE;
	link->received = number;
	return 1;
}

int tfc__agent_link_clear(struct tfc__agent_link *link, uint64_t number)
{
	if (number > link->last)
		return TFC_EPARSE;
	while (link->cleared < number) {
		agent_link_drop(link, message_of(link->kept.next));
		link->cleared++;
	}
	return TFC_OK;
}

int tfc__agent_link_resume(struct tfc__agent_link *link, uint64_t received)
{
	if (received < link->cleared)
		return TFC_EPARSE;
	int code = tfc__agent_link_clear(link, received);
	if (code < 0)
		return code;
	link->next = link->kept.next;
	link->reported = 0;
	return TFC_OK;
}
