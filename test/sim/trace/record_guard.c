/* Between tfc-guard and its core, which the linker wraps. */
#include "trace.h"

uint32_t __real_guard_core_step(struct guard_core *core, const struct guard_event *event,
				guard_act_fn act, void *user);
uint32_t __wrap_guard_core_step(struct guard_core *core, const struct guard_event *event,
				guard_act_fn act, void *user);

struct carrier {
	guard_act_fn act;
	void *user;
};

static void note_and_act(void *user, const struct guard_action *action)
{
	const struct carrier *carrier = user;
	struct trace_record record = trace_guard_action(action);
	trace_write(&record);
	carrier->act(carrier->user, action);
}

uint32_t __wrap_guard_core_step(struct guard_core *core, const struct guard_event *event,
				guard_act_fn act, void *user)
{
	struct carrier carrier = {act, user};
	struct trace_record record = trace_guard_event(event);
	trace_write(&record);
	uint32_t slot = __real_guard_core_step(core, event, note_and_act, &carrier);
	record = trace_guard_answer(core, slot);
	trace_write(&record);
	return slot;
}
