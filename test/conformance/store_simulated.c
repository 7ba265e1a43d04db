/* The store of test/sim/nodes, which stands for the local one there. */
#include "store_alone.h"
#include "store_kinds.h"

const struct store_kind test_store_kinds[] = {
	{"simulated", store_alone_open, true},
};
const size_t test_store_kind_count = 1;
