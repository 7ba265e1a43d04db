/* The simulated store without the rest of the simulator: its events happen in dispatch of the
 * context that has it, one at a time. */
#ifndef TEST_SIM_NODES_STORE_ALONE_H
#define TEST_SIM_NODES_STORE_ALONE_H

#include "store/store.h"

/* A place has one disk for as long as the program runs. As struct store_kind has it. */
int store_alone_open(tfc_ctx *ctx, const char *place, tfc_error *error,
		     struct tfc__store **ret_store);
/* Nothing happens from then on. UINT64_MAX: time goes on. */
void store_alone_stop_at(uint64_t at);
struct sim_store *store_alone_at(const char *place);

#endif
