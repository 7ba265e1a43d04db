/*
 * A file that replaces a host's resolver, to place workers near data without writing a program:
 *
 *   {"grid": {"partitions": {"0": "a", "1": "b", "2": null},
 *             "env": {"GRID_PORT": "10800"},
 *             "nodes": {"a": {"GRID_HOST": "10.0.0.1"}}}}
 *
 * Each upstream has its partitions with the member that owns each, variables for its workers, and
 * variables for the workers on a node. The file is reread when it changes; every upstream whose
 * text differs then counts as changed.
 */
#ifndef TFC_NODE_UPSTREAM_MAP_H
#define TFC_NODE_UPSTREAM_MAP_H

#include "cluster/upstream.h"

struct tfc__upstream_map;
extern const tfc_upstream_ops tfc__upstream_map_ops; /* user: the map */

/* Reads the file. TFC_EPARSE, TFC_EINVAL, with "FILE:LINE: "; TFC_ENOENT and other errors of open;
 * TFC_ENOMEM. */
int tfc__upstream_map_open(tfc_ctx *ctx, const char *path, tfc_error *error,
			   struct tfc__upstream_map **ret_map);
/* Sets the upstreams to notify of changes; borrowed. */
void tfc__upstream_map_report(struct tfc__upstream_map *map, struct tfc__upstreams *upstreams);
/* Close the upstreams first. NULL is a no-op. */
void tfc__upstream_map_close(struct tfc__upstream_map *map);

#endif
