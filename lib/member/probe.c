#include "member/probe.h"

#include "base/clock.h"

void tfc__probes_init(struct tfc__probes *probes, const struct tfc__probe_times *times)
{
	*probes = (struct tfc__probes){.times = *times};
	tfc__list_init(&probes->all);
	if (!probes->times.period_ns)
		probes->times.period_ns = TFC__SECOND;
	if (!probes->times.suspect_ns)
		probes->times.suspect_ns = 3 * TFC__SECOND;
	if (!probes->times.down_ns)
		probes->times.down_ns = 8 * TFC__SECOND;
}

static struct tfc__probe *probe_of(struct tfc__link *link)
{
	return tfc__container_of(link, struct tfc__probe, link);
}

void tfc__probe_add(struct tfc__probes *probes, struct tfc__probe *probe, uint64_t now)
{
	*probe = (struct tfc__probe){.state = TFC_MEMBER_SUSPECT, .received_at = now};
	tfc__list_append(&probes->all, &probe->link);
	if (!probes->next_at)
		probes->next_at = now + probes->times.period_ns;
}

void tfc__probe_remove(struct tfc__probes *probes, struct tfc__probe *probe)
{
	tfc__list_remove(&probe->link);
	if (!tfc__list_is_empty(&probes->all))
		return;
	probes->next_at = 0;
	probes->is_cut_off = false;
}

void tfc__probe_received(struct tfc__probe *probe, uint64_t now)
{
	probe->state = TFC_MEMBER_ALIVE;
	probe->received_at = now;
	probe->is_connected = true;
}

void tfc__probe_broken(struct tfc__probe *probe)
{
	probe->is_connected = false;
	if (probe->state == TFC_MEMBER_ALIVE)
		probe->state = TFC_MEMBER_SUSPECT;
}

void tfc__probe_refused(struct tfc__probe *probe)
{
	if (!probe->is_connected && probe->state == TFC_MEMBER_SUSPECT)
		probe->state = TFC_MEMBER_DOWN;
}

void tfc__probe_left(struct tfc__probe *probe)
{
	probe->is_connected = false;
	probe->state = TFC_MEMBER_LEFT;
}

static bool probe_is_silent(const struct tfc__probe *probe, uint64_t length, uint64_t now)
{
	return now - probe->received_at >= length;
}

/* Relative to all members that are not down or left, including this node. */
static bool are_too_many_silent(const struct tfc__probes *probes, uint64_t now)
{
	uint32_t silent = 0, all = 1;
	TFC__LIST_EACH (link, &probes->all) {
		const struct tfc__probe *probe = probe_of(link);
		if (probe->state == TFC_MEMBER_DOWN || probe->state == TFC_MEMBER_LEFT)
			continue;
		all++;
		silent += probe_is_silent(probe, probes->times.suspect_ns, now);
	}
	return silent >= 2 && 3 * silent > all;
}

void tfc__probes_tick(struct tfc__probes *probes, uint64_t now)
{
	const struct tfc__probe_times *times = &probes->times;
	/* A silence does not count for the time in which this process did not receive. */
	uint64_t late = now > probes->next_at ? now - probes->next_at : 0;
	if (late && late >= times->period_ns) {
		TFC__LIST_EACH (link, &probes->all) {
			struct tfc__probe *probe = probe_of(link);
			probe->received_at += late;
			if (probe->received_at > now)
				probe->received_at = now;
		}
	}
	probes->is_cut_off = are_too_many_silent(probes, now);
	TFC__LIST_EACH (link, &probes->all) {
		struct tfc__probe *probe = probe_of(link);
		bool is_there = probe->state == TFC_MEMBER_ALIVE ||
				probe->state == TFC_MEMBER_SUSPECT;
		probe->is_due = is_there && probe_is_silent(probe, times->period_ns / 2, now);
		if (probe->state == TFC_MEMBER_ALIVE &&
		    probe_is_silent(probe, times->suspect_ns, now))
			probe->state = TFC_MEMBER_SUSPECT;
		else if (probe->state == TFC_MEMBER_SUSPECT && !probes->is_cut_off &&
			 probe_is_silent(probe, times->down_ns, now))
			probe->state = TFC_MEMBER_DOWN;
	}
	probes->next_at = now + times->period_ns;
}
