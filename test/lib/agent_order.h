/* Orders to an agent, as a maintainer gives them. */
#ifndef TEST_LIB_AGENT_ORDER_H
#define TEST_LIB_AGENT_ORDER_H

#include "agent/agent_ops.h"

static inline void agent_hold(const struct tfc__agent_ops *ops, void *job, uint32_t task,
			      uint32_t number)
{
	ops->order(job, &(struct tfc__task_order){.kind = TFC__ORDER_HOLD,
						  .task = task,
						  .number = number});
}

static inline void agent_release(const struct tfc__agent_ops *ops, void *job, uint32_t task)
{
	ops->order(job, &(struct tfc__task_order){.kind = TFC__ORDER_RELEASE, .task = task});
}

/* Attempt 1 of generation 1. */
static inline void agent_launch(const struct tfc__agent_ops *ops, void *job, uint32_t task,
				tfc_spec *spec)
{
	ops->order(job, &(struct tfc__task_order){.kind = TFC__ORDER_SPEC,
						  .generation = 1,
						  .spec = spec});
	ops->order(job, &(struct tfc__task_order){.kind = TFC__ORDER_LAUNCH,
						  .task = task,
						  .attempt = 1,
						  .generation = 1});
}

static inline void agent_stop(const struct tfc__agent_ops *ops, void *job, uint32_t task,
			      uint32_t grace_ms)
{
	ops->order(job, &(struct tfc__task_order){.kind = TFC__ORDER_STOP,
						  .task = task,
						  .number = grace_ms});
}

static inline void agent_query(const struct tfc__agent_ops *ops, void *job, uint32_t number)
{
	ops->order(job, &(struct tfc__task_order){.kind = TFC__ORDER_QUERY, .number = number});
}

#endif
