/*
 * The figures of doc/internals/gossip.md.
 *
 *     gossip_frontier                   parameters against detection, false positives and bytes
 *     gossip_frontier N SECONDS [META]  one world of N members with META bytes of metadata (60):
 *                                       time, memory, messages and bytes
 */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

#include "gossip_sim.h"
#include "wire/sealed.h"

static double cpu_s(void)
{
	struct timespec now;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int by_value(const void *a, const void *b)
{
	uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
	return (first > second) - (first < second);
}

enum {
	MEMBERS = 100,
	KILLS = 20,
	OVERHEAD = TFC__SEALED_OVERHEAD + 28, /* of a datagram, with the headers of IPv4 and UDP */
};

static struct gossip_sim *new_world(uint64_t interval_ms, uint32_t alpha, uint32_t beta,
				    uint32_t loss_percent)
{
	struct gossip_sim_options o = {.nodes = MEMBERS,
				       .seed = 1,
				       .loss_ppm = loss_percent * 10000,
				       .jitter_ns = 2 * GS_MS,
				       .meta_len = 60,
				       .is_warm = true};
	o.core.interval_ns = interval_ms * GS_MS;
	o.core.alpha = alpha;
	o.core.beta = beta;
	struct gossip_sim *s = gossip_sim_new(&o);
	gossip_sim_start_all(s, 60 * GS_SECOND);
	return s;
}

static void print_row(uint64_t interval_ms, uint32_t alpha, uint32_t beta)
{
	static uint64_t times[MEMBERS * KILLS];
	uint32_t count = 0;
	struct gossip_sim *s = new_world(interval_ms, alpha, beta, 0);
	for (uint32_t victim = 1; victim <= KILLS; victim++) {
		const uint64_t *found;
		gossip_sim_kill(s, victim, true);
		gossip_sim_run(s, 60 * GS_SECOND);
		uint32_t found_count = gossip_sim_detections(s, victim, &found);
		memcpy(times + count, found, found_count * sizeof(*times));
		count += found_count;
	}
	gossip_sim_free(s);
	qsort(times, count, sizeof(*times), by_value);

	s = new_world(interval_ms, alpha, beta, 0);
	gossip_sim_run(s, 60 * GS_SECOND);
	double datagrams = (double)gossip_sim_counts(s)->datagrams / 60 / MEMBERS;
	double bytes = (double)gossip_sim_counts(s)->datagram_bytes / 60 / MEMBERS;
	gossip_sim_free(s);

	uint64_t lost[2];
	for (int i = 0; i < 2; i++) {
		s = new_world(interval_ms, alpha, beta, i ? 25 : 10);
		gossip_sim_run(s, 1200 * GS_SECOND);
		lost[i] = gossip_sim_counts(s)->false_downs;
		gossip_sim_free(s);
	}

	uint64_t slept[3];
	for (uint32_t i = 0; i < 3; i++) { /* of 10 members, for 2, 3 and 5 s */
		static const uint64_t lengths[] = {2, 3, 5};
		slept[i] = 0;
		for (uint64_t round = 0; round < 4; round++) {
			s = new_world(interval_ms, alpha, beta, 0);
			gossip_sim_run(s, round * 100 * GS_MS);
			for (uint32_t node = 0; node < 10; node++)
				gossip_sim_stall(s, node * 10, lengths[i] * GS_SECOND, false);
			gossip_sim_run(s, 20 * GS_SECOND);
			slept[i] += gossip_sim_counts(s)->stalled_downs +
				    gossip_sim_counts(s)->false_downs;
			gossip_sim_free(s);
		}
	}
	printf("| %.1f s | %u | %u | %.1f | %.1f | %llu | %llu | %llu, %llu, %llu | %.1f | %.0f "
	       "|\n",
	       (double)interval_ms / 1e3, alpha, beta, (double)times[count / 2] / 1e9,
	       (double)times[count * 99 / 100] / 1e9, (unsigned long long)lost[0],
	       (unsigned long long)lost[1], (unsigned long long)slept[0],
	       (unsigned long long)slept[1], (unsigned long long)slept[2], datagrams,
	       bytes + datagrams * OVERHEAD);
	fflush(stdout);
}

static void print_world(uint32_t nodes, uint64_t seconds, uint32_t meta_len)
{
	struct rusage usage;
	struct gossip_sim *s = gossip_sim_new(&(struct gossip_sim_options){.nodes = nodes,
									   .seed = 1,
									   .loss_ppm = 10000,
									   .meta_len = meta_len,
									   .is_warm = true});
	gossip_sim_start_all(s, 60 * GS_SECOND);
	getrusage(RUSAGE_SELF, &usage);
	struct mallinfo2 heap = mallinfo2();
	double members = (double)nodes * nodes, begin_s = cpu_s();
	printf("%u members known to each other: %.1f s of cpu, at most %ld MiB; "
	       "allocated: %.0f bytes for each member at each node\n",
	       nodes, begin_s, usage.ru_maxrss / 1024,
	       (double)(heap.uordblks + heap.hblkhd) / members);
	fflush(stdout);
	gossip_sim_run(s, seconds * GS_SECOND);
	const struct gossip_sim_counts *c = gossip_sim_counts(s);
	double per_node = (double)nodes * (double)seconds;
	printf("%llu s: %.1f s of cpu; per node and second: %.2f datagrams, "
	       "%.0f bytes of plain text, %.1f bytes over streams; %llu false deaths\n",
	       (unsigned long long)seconds, cpu_s() - begin_s, (double)c->datagrams / per_node,
	       (double)c->datagram_bytes / per_node, (double)c->stream_bytes / per_node,
	       (unsigned long long)c->false_downs);
	gossip_sim_kill(s, 1, true);
	gossip_sim_run(s, 20 * GS_SECOND);
	const uint64_t *times;
	uint32_t count = gossip_sim_detections(s, 1, &times);
	if (count)
		printf("a silent member is down for %u after %.1f s (first), %.1f s (last)\n",
		       count, (double)times[0] / 1e9, (double)times[count - 1] / 1e9);
	gossip_sim_free(s);
}

int main(int argc, char **argv)
{
	if (argc >= 3) {
		print_world((uint32_t)atoi(argv[1]), (uint64_t)atoll(argv[2]),
			    argc > 3 ? (uint32_t)atoi(argv[3]) : 60);
		return 0;
	}
	printf("| interval | alpha | beta | down p50, s | p99, s | false at 10 %% loss | at 25 %% "
	       "| after a "
	       "stall of 2, 3, 5 s | datagrams/s | bytes/s "
	       "|\n|---|---|---|---|---|---|---|---|---|---|\n");
	static const uint64_t intervals[] = {200, 500, 1000};
	for (size_t i = 0; i < 3; i++)
		for (uint32_t alpha = 3; alpha <= 5; alpha++)
			for (uint32_t beta = 3; beta <= 6; beta += 3)
				print_row(intervals[i], alpha, beta);
	return 0;
}
