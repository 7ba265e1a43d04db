#include "grid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_SIZE 320

const char *grid_node_name(uint32_t node)
{
	static const char *const names[GRID_NODES] = {"a", "b", "c"};
	return names[node];
}

void grid_node_dir(const struct grid *grid, uint32_t node, char *ret_path, uint32_t size)
{
	snprintf(ret_path, size, "%s/%s", grid->dir, grid_node_name(node));
}

static void partition_path(const struct grid *grid, uint32_t partition, uint32_t node,
			   char path[PATH_SIZE])
{
	snprintf(path, PATH_SIZE, "%s/%s/p%u", grid->dir, grid_node_name(node), partition);
}

static bool write_partition(const struct grid *grid, uint32_t partition)
{
	char path[PATH_SIZE];
	partition_path(grid, partition, grid->owners[partition], path);
	FILE *file = fopen(path, "we");
	if (!file)
		return false;
	for (uint32_t i = 0; i < 10; i++)
		fprintf(file, "%u\n", 10 * partition + i);
	return fclose(file) == 0;
}

bool grid_open(struct grid *grid, const char *parent)
{
	char path[PATH_SIZE];
	*grid = (struct grid){.version = 1};
	snprintf(grid->dir, sizeof(grid->dir), "%.200s/grid-XXXXXX", parent);
	if (!mkdtemp(grid->dir)) {
		grid->dir[0] = '\0';
		return false;
	}
	for (uint32_t i = 0; i < GRID_NODES; i++) {
		grid_node_dir(grid, i, path, sizeof(path));
		if (mkdir(path, 0700) < 0)
			return false;
	}
	for (uint32_t i = 0; i < GRID_PARTITIONS; i++) {
		grid->owners[i] = i % GRID_NODES;
		if (!write_partition(grid, i))
			return false;
	}
	return true;
}

bool grid_move(struct grid *grid, uint32_t partition, uint32_t to)
{
	char from_path[PATH_SIZE], to_path[PATH_SIZE];
	partition_path(grid, partition, grid->owners[partition], from_path);
	partition_path(grid, partition, to, to_path);
	if (rename(from_path, to_path) < 0)
		return false;
	grid->owners[partition] = to;
	grid->version++;
	return true;
}

void grid_close(struct grid *grid)
{
	char path[PATH_SIZE];
	if (!grid->dir[0])
		return;
	for (uint32_t i = 0; i < GRID_PARTITIONS; i++) {
		partition_path(grid, i, grid->owners[i], path);
		unlink(path);
	}
	for (uint32_t i = 0; i < GRID_NODES; i++) {
		grid_node_dir(grid, i, path, sizeof(path));
		rmdir(path);
	}
	rmdir(grid->dir);
}
