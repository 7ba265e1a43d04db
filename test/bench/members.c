/*
 * Many members of gossip in one process, each with a socket for datagrams and a listener of its
 * own, but without the rest of a node: what gossip.py lets one node know.
 *
 *   members KEY STATE COUNT PORT SEED
 *
 * KEY is a key file; STATE an empty directory. The members m0, m1 ... are at 127.0.0.1:PORT and the
 * ports after it, and join at 127.0.0.1:SEED. They probe each 10 s, to use little of the CPU,
 * and respond to probes at once. They end when they are killed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <tfcluster/tfcluster.h>

#include "base/clock.h"
#include "gossip_member.h"

#define DESCRIPTORS 4 /* of one member, connections included */

static void allow_descriptors(rlim_t count)
{
	struct rlimit limit = {count, count};
	if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
		perror("members: setrlimit");
		exit(1);
	}
}

int main(int argc, char **argv)
{
	if (argc != 6)
		return 2;
	int count = atoi(argv[3]), port = atoi(argv[4]);
	struct gossip_member *members = calloc((size_t)count, sizeof(*members));
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	char name[16], address[40], state[4096], seed[40];
	tfc_error error = TFC_ERROR_INIT;
	tfc_ctx *ctx;
	allow_descriptors((rlim_t)count * DESCRIPTORS + 100);
	if (!members || tfc_ctx_new(&options, &error, &ctx) < 0) {
		fprintf(stderr, "members: %s\n", error.text);
		return 1;
	}
	snprintf(seed, sizeof(seed), "tcp://127.0.0.1:%s", argv[5]);
	for (int i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		snprintf(address, sizeof(address), "tcp://127.0.0.1:%d", port + i);
		snprintf(state, sizeof(state), "%s/%d", argv[2], i);
		const tfc_member_info self = {.size = sizeof(self),
					      .name = name,
					      .address = address,
					      .slots = 8};
		if (mkdir(state, 0700) != 0) {
			perror(state);
			return 1;
		}
		gossip_member_start(&members[i], ctx,
				    &(struct gossip_member_options){.key_file = argv[1],
								    .state_dir = state,
								    .self = &self,
								    .seed = seed,
								    .interval_ns = 10 *
										   TFC__SECOND});
		tfc_ctx_run(ctx, 0);
	}
	while (tfc_ctx_run(ctx, -1) >= 0)
		;
	return 1;
}
