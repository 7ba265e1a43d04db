/* Between tfc-shim and its core, which the linker wraps. */
#include "trace.h"

struct shim_result __real_shim_core_step(struct shim_core *core, const struct shim_event *event);
struct shim_result __wrap_shim_core_step(struct shim_core *core, const struct shim_event *event);

struct shim_result __wrap_shim_core_step(struct shim_core *core, const struct shim_event *event)
{
	struct trace_record record = trace_shim_event(event);
	trace_write(&record);
	struct shim_result result = __real_shim_core_step(core, event);
	record = trace_shim_answer(core, &result);
	trace_write(&record);
	return result;
}
