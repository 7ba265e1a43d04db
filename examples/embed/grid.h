/*
 * A toy of a partitioned store such as a data grid: nodes, each with a directory, and partitions,
 * each a file of numbers in the directory of the node that owns it. Partitions can move.
 */
#ifndef EMBED_GRID_H
#define EMBED_GRID_H

#include <stdbool.h>
#include <stdint.h>

#define GRID_NODES 3
#define GRID_PARTITIONS 6

struct grid {
	char dir[256];                    /* contains the directories of all nodes */
	uint32_t owners[GRID_PARTITIONS]; /* by partition: the number of its node */
	uint64_t version;                 /* grows with each move */
};

/* "a", "b", "c" */
const char *grid_node_name(uint32_t node);
/* The directory with a node's partitions. */
void grid_node_dir(const struct grid *grid, uint32_t node, char *ret_path, uint32_t size);

/* Creates a store in a new directory below `parent`. Partition p contains the numbers 10p to
 * 10p + 9. False, and errno. */
bool grid_open(struct grid *grid, const char *parent);
bool grid_move(struct grid *grid, uint32_t partition, uint32_t to);
void grid_close(struct grid *grid);

#endif
