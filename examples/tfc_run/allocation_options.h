/* The options of `allocation`. */
#ifndef TFC_RUN_ALLOCATION_OPTIONS_H
#define TFC_RUN_ALLOCATION_OPTIONS_H

#include <tfcluster/allocation.h>

#include "local_options.h"

struct allocation_options {
	struct local_options local; /* the job and the output */
	tfc_allocation_options library;
	/* What the library's options point to: */
	char *rendezvous;
	char *agreement;
	char *node;
};

/* Reads the command line. Call allocation_options_end in every case. */
enum options_result allocation_options_read(int argc, char **argv,
					    struct allocation_options *ret_options);
void allocation_options_end(struct allocation_options *options);

#endif
