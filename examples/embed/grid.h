/*
 * A toy of a partitioned store, as a data grid is one: nodes, each with a directory, and
 * partitions, each a file of numbers in the directory of the node that owns it. Partitions move.
 */
#ifndef EMBED_GRID_H
#define EMBED_GRID_H

#include <stdbool.h>
#include <stdint.h>

#define GRID_NODES 3
#define GRID_PARTITIONS 6

struct grid {
	char dir[256];                    /* of all */
	uint32_t owners[GRID_PARTITIONS]; /* numbers of nodes */
	uint64_t version;                 /* grows with each move */
};

/* "a", "b", "c" */
const char *grid_node_name(uint32_t node);
/* Where a node's partitions are. */
void grid_node_dir(const struct grid *grid, uint32_t node, char *ret_path, uint32_t size);

/* Makes a store in a fresh directory in `parent`: partition p has the numbers 10p to 10p + 9.
 * False, and errno. */
bool grid_open(struct grid *grid, const char *parent);
bool grid_move(struct grid *grid, uint32_t partition, uint32_t to);
void grid_close(struct grid *grid);

#endif
