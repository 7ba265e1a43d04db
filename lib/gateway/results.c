#include <stddef.h>

#include <tfcluster/gateway.h>

static const void *item_at(const void *items, uint32_t size, uint32_t count, uint32_t index)
{
	return items && index < count ? (const char *)items + (size_t)index * size : NULL;
}

const tfc_job_task *tfc_job_info_task(const tfc_job_info *job, uint32_t index)
{
	return job ? item_at(job->tasks, job->task_size, job->described_tasks, index) : NULL;
}
