/* The order of everything: the queue of events, chance, and what is written down. */
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef SIM_COVERAGE
#include <gcov.h>
#endif

struct sim sim;

/* xorshift64* */
uint64_t sim_draw(uint64_t below)
{
	sim.random ^= sim.random >> 12;
	sim.random ^= sim.random << 25;
	sim.random ^= sim.random >> 27;
	return ((sim.random * UINT64_C(0x2545f4914f6cdd1d)) >> 16) % below;
}

static void print_line(FILE *file, const char *text)
{
	fprintf(file, "%9.4f %c %s\n", (double)sim.now / 1e9,
		sim.kernel ? "abcxy"[sim.kernel->number] : '-', text);
}

/* FNV-1a over what happened and when. */
static void hash(const void *data, size_t len)
{
	const unsigned char *at = data;
	for (size_t i = 0; i < len; i++)
		sim.hash = (sim.hash ^ at[i]) * UINT64_C(0x100000001b3);
}

/* Where the files of this run lie is another place each time. */
static void strip_dir(char *text)
{
	size_t len = strlen(sim.dir);
	for (char *at; len && (at = strstr(text, sim.dir));)
		memmove(at, at + len, strlen(at + len) + 1);
}

void sim_note(const char *format, ...)
{
	char text[512];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	strip_dir(text);
	hash(&sim.now, sizeof(sim.now));
	hash(text, strlen(text));
	if (!sim.is_loud)
		return;
	print_line(stdout, text);
}

void sim_exit(int status)
{
#ifdef SIM_COVERAGE
	__gcov_dump(); /* _exit does not */
#endif
	_exit(status);
}

void sim_broken(const char *promise, const char *format, ...)
{
	static char lines[8192]; /* written at once: other worlds may write beside this one */
	va_list args;
	fflush(stdout);
	setvbuf(stderr, lines, _IOFBF, sizeof(lines));
	fprintf(stderr, "seed %llu: broken: %s\n", (unsigned long long)sim.seed, promise);
	char text[1024];
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	print_line(stderr, text);
	sim_faults_report();
	sim_requests_report();
	fflush(stderr);
	sim_exit(1);
}

/* ---- the queue: a binary heap by time, then by the order of asking */

struct event {
	uint64_t at;
	uint64_t serial;
	sim_event_fn fn;
	void *user;
	uint64_t number;
};

static struct event *heap;
static size_t heap_count, heap_capacity;
static uint64_t last_serial;

static bool is_before(const struct event *a, const struct event *b)
{
	return a->at != b->at ? a->at < b->at : a->serial < b->serial;
}

static void swap(size_t a, size_t b)
{
	struct event event = heap[a];
	heap[a] = heap[b];
	heap[b] = event;
}

void sim_at(uint64_t at, sim_event_fn fn, void *user, uint64_t number)
{
	if (heap_count == heap_capacity) {
		heap_capacity = heap_capacity ? 2 * heap_capacity : 256;
		heap = realloc(heap, heap_capacity * sizeof(*heap));
		if (!heap)
			abort();
	}
	heap[heap_count] = (struct event){at > sim.now ? at : sim.now, ++last_serial, fn, user,
					  number};
	for (size_t i = heap_count++; i && is_before(&heap[i], &heap[(i - 1) / 2]); i = (i - 1) / 2)
		swap(i, (i - 1) / 2);
}

uint64_t sim_next_event(void)
{
	return heap_count ? heap[0].at : UINT64_MAX;
}

bool sim_run_event(void)
{
	if (!heap_count || heap[0].at > sim.now)
		return false;
	struct event event = heap[0];
	heap[0] = heap[--heap_count];
	for (size_t i = 0, least = 0;; i = least) {
		for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < heap_count; child++)
			if (is_before(&heap[child], &heap[least]))
				least = child;
		if (least == i)
			break;
		swap(i, least);
	}
	event.fn(event.user, event.number);
	return true;
}

void sim_wait(uint64_t until)
{
	struct sim_host *waiting = sim.current;
	bool was_waiting = sim.is_waiting;
	sim_leave();
	sim.is_waiting = true;
	if (sim_guards_are_ready())
		sim_guards_step();
	else if (!sim_run_event())
		sim.now = sim_next_event() < until ? sim_next_event() : until;
	sim.is_waiting = was_waiting;
	sim.waited_at = sim.now;
	if (waiting)
		sim_enter(waiting);
}
