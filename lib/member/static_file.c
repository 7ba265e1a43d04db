#include "member/static_file.h"

#include <stdlib.h>
#include <string.h>

#include "member/watched_file.h"

struct tfc__static_file {
	struct tfc__watched_file watched;
	struct tfc__members *members;
};

/* ---- applying a new version */

static const tfc_member_info *static_list_find(const struct tfc__static_list *list,
					       const char *name)
{
	uint32_t low = 0, high = list->count;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		int order = strcmp(list->items[middle].name, name);
		if (order == 0)
			return &list->items[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

static int static_list_apply(struct tfc__static_file *file, const struct tfc__static_list *list,
			     tfc_error *error)
{
	tfc_membership *membership = tfc__members_face(file->members);
	const char *self = tfc__members_self(file->members)->name;
	int code = TFC_OK;
	if (!static_list_find(list, self))
		return tfc__fail(error, TFC_ENOENT, "member", 0,
				 "members file \"%.80s\" does not list this node, \"%s\"; add it, "
				 "or give the node one of the %u names listed, such as \"%s\"",
				 file->watched.watch.path, self, list->count, list->items[0].name);
	/* Members that are no longer listed are removed first: another may have their address. */
	TFC__LIST_EACH (link, tfc__members_all(file->members)) {
		struct tfc__member *member = tfc__container_of(link, struct tfc__member, link);
		if (!member->is_out && !static_list_find(list, member->name))
			tfc_membership_remove(membership, member->name);
	}
	for (uint32_t i = 0; code == TFC_OK && i < list->count; i++)
		code = tfc_membership_put(membership, &list->items[i]);
	if (code < 0)
		*error = *tfc__ctx_error(file->watched.watch.ctx);
	return code;
}

static int static_file_on_text(struct tfc__watched_file *watched, const char *text, size_t len,
			       tfc_error *error)
{
	struct tfc__static_file *file = tfc__container_of(watched, struct tfc__static_file,
							  watched);
	struct tfc__static_list list;
	int code = tfc__static_parse(text, len, watched->watch.path, error, &list);
	if (code == TFC_OK)
		code = static_list_apply(file, &list, error);
	if (code == TFC_OK)
		watched->item_count = list.count;
	tfc__static_list_free(&list);
	return code;
}

/* ---- opening and closing */

int tfc__static_file_new(const char *path, tfc_error *error, struct tfc__static_file **ret_file)
{
	struct tfc__static_file *file = calloc(1, sizeof(*file));
	if (!file)
		return tfc__fail_nomem(error, "member");
	file->watched.component = "member";
	file->watched.kept = "members not changed";
	file->watched.items = "nodes";
	file->watched.fn = static_file_on_text;
	if (tfc__watched_file_init(&file->watched, path, error) < 0) {
		free(file);
		return TFC_ENOMEM;
	}
	*ret_file = file;
	return TFC_OK;
}

void tfc__static_file_free(struct tfc__static_file *file)
{
	if (!file)
		return;
	tfc__watched_file_fini(&file->watched);
	free(file);
}

static int static_file_start(void *impl, tfc_ctx *ctx, tfc_membership *membership, tfc_error *error)
{
	struct tfc__static_file *file = impl;
	file->members = tfc__members_of(membership);
	return tfc__watched_file_start(&file->watched, ctx, error);
}

static void static_file_stop(void *impl, tfc_membership *membership)
{
	struct tfc__static_file *file = impl;
	tfc__watched_file_stop(&file->watched);
}

const tfc_membership_ops tfc__static_file_ops = {
	.size = sizeof(tfc_membership_ops),
	.start = static_file_start,
	.stop = static_file_stop,
};
