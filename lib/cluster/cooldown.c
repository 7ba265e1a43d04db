#include "cluster/cooldown.h"

#include "base/clock.h"

#define TIMES_MAX 4

void tfc__cooldown_init(struct tfc__cooldown *cooldown, const struct tfc__cooldown_rule *rule)
{
	*cooldown = (struct tfc__cooldown){.rule = *rule};
	struct tfc__cooldown_rule *own = &cooldown->rule;
	if (!own->failures)
		own->failures = 3;
	if (own->failures > TFC__COOLDOWN_FAILURES_MAX)
		own->failures = TFC__COOLDOWN_FAILURES_MAX;
	if (!own->within_ns)
		own->within_ns = 600 * TFC__SECOND;
	if (!own->cooldown_ns)
		own->cooldown_ns = 300 * TFC__SECOND;
}

bool tfc__cooldown_failed(struct tfc__cooldown *cooldown, uint64_t now)
{
	const struct tfc__cooldown_rule *rule = &cooldown->rule;
	cooldown->failed_at[cooldown->failed++ % rule->failures] = now;
	if (cooldown->failed < rule->failures)
		return false;
	/* the ring is full: the next entry is the oldest */
	uint64_t oldest = cooldown->failed_at[cooldown->failed % rule->failures];
	if (now - oldest > rule->within_ns)
		return false;
	cooldown->until = now + (rule->cooldown_ns << cooldown->times);
	cooldown->times += cooldown->times < TIMES_MAX;
	cooldown->failed = 0;
	return true;
}

void tfc__cooldown_worked(struct tfc__cooldown *cooldown)
{
	cooldown->failed = 0;
	cooldown->times = 0;
}

bool tfc__cooldown_is_on(const struct tfc__cooldown *cooldown, uint64_t now, uint64_t *ret_until)
{
	if (ret_until)
		*ret_until = cooldown->until;
	return now < cooldown->until;
}
