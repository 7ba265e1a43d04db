/*
 * What the files of the node share.
 */
#ifndef TFC_NODE_INSIDE_H
#define TFC_NODE_INSIDE_H

#include <tfcluster/node.h>

#include "cluster/directory.h"
#include "member/static_file.h"

struct tfc_node {
	tfc_ctx *ctx;
	struct tfc__agent *agent;
	struct tfc__nodes *nodes;
	struct tfc__directory *directory;

	struct tfc__static_file *file; /* NULL: none */
	struct tfc__members *members;
	struct tfc__link watches; /* struct tfc_member_watch */
};

/* ---- open.c: the parts, in the order in which they are opened */

int tfc__node_open_parts(tfc_node *node, const tfc_node_options *options, tfc_error *error);
void tfc__node_close_parts(tfc_node *node);

/* ---- members.c */

int tfc__node_open_members(tfc_node *node, const tfc_node_options *options, tfc_error *error);
void tfc__node_close_members(tfc_node *node);
/* It takes no new task, or takes them again; everybody is told. */
void tfc__node_set_draining(tfc_node *node, bool is_draining);

#endif
