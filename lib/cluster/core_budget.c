/* How many restarts are left in a sliding window, and how long to wait before the next. */
#include "base/random.h"
#include "cluster/core_state.h"

#define ENTRIES 62 /* a budget of more restarts counts them by slices of its window */
#define SLICES 60
#define BACKOFF_FIRST_NS 500000000ull
#define BACKOFF_DOUBLINGS 20

uint32_t tfc__budget_capacity(uint32_t max)
{
	return max < ENTRIES ? max : ENTRIES;
}

static uint64_t budget_slice(uint32_t max, uint64_t window)
{
	return max > ENTRIES ? window / SLICES : 0;
}

/* A window of 0 is the whole life of the job. */
uint32_t tfc__budget_spent(const struct budget *b, uint32_t max, uint64_t window, uint64_t now)
{
	uint64_t spent = 0;
	for (uint32_t i = 0; i < b->used; i++) {
		const struct budget_entry *entry = &b->entries[i];
		if (window == 0 || now - entry->from < window + budget_slice(max, window))
			spent += entry->count;
	}
	return spent < UINT32_MAX ? (uint32_t)spent : UINT32_MAX;
}

void tfc__budget_charge(struct budget *b, uint32_t max, uint64_t window, uint64_t now)
{
	if (b->capacity == 0)
		return;
	if (max > ENTRIES && b->used) {
		struct budget_entry *newest =
			&b->entries[(b->head + b->capacity - 1) % b->capacity];
		if (window == 0 || now - newest->from < budget_slice(max, window)) {
			newest->count++;
			return;
		}
	}
	b->entries[b->head] = (struct budget_entry){now, 1};
	b->head = (b->head + 1) % b->capacity;
	if (b->used < b->capacity)
		b->used++;
}

/* Jitter takes up to a quarter off, so that backoff_max is never passed. */
uint64_t tfc__budget_backoff(struct tfc__core *core, const struct tfc__core_role *role,
			     uint32_t spent)
{
	if (spent == 0)
		return role->backoff_min_ns;
	uint32_t doublings = spent - 1 < BACKOFF_DOUBLINGS ? spent - 1 : BACKOFF_DOUBLINGS;
	uint64_t base = role->backoff_min_ns > BACKOFF_FIRST_NS ? role->backoff_min_ns
								: BACKOFF_FIRST_NS;
	uint64_t wait = base << doublings;
	if (wait >> doublings != base || wait > role->backoff_max_ns)
		wait = role->backoff_max_ns;
	return wait - (wait / 4 / 1024) * (tfc__random_next(&core->random) % 1024);
}
