/* The names of states and reasons, as the command line shows them. */
#include <stddef.h>

#include <tfcluster/gateway.h>

#define NAME(table, number) \
	((number) < sizeof(table) / sizeof((table)[0]) && (table)[number] ? (table)[number] : "?")

const char *tfc_job_state_name(uint32_t state)
{
	static const char *const names[] = {
		[TFC_JOB_PENDING] = "pending",   [TFC_JOB_STARTING] = "starting",
		[TFC_JOB_RUNNING] = "running",   [TFC_JOB_RESTARTING] = "restarting",
		[TFC_JOB_STOPPING] = "stopping", [TFC_JOB_SUCCEEDED] = "succeeded",
		[TFC_JOB_FAILED] = "failed",     [TFC_JOB_STOPPED] = "stopped",
		[TFC_JOB_DAMAGED] = "damaged",
	};
	return NAME(names, state);
}

const char *tfc_task_state_name(uint32_t state)
{
	static const char *const names[] = {
		[TFC_TASK_PENDING] = "pending",   [TFC_TASK_HOLDING] = "holding",
		[TFC_TASK_STARTING] = "starting", [TFC_TASK_RUNNING] = "running",
		[TFC_TASK_READY] = "ready",       [TFC_TASK_EXITED] = "exited",
		[TFC_TASK_FAILED] = "failed",     [TFC_TASK_LOST] = "lost",
		[TFC_TASK_STOPPED] = "stopped",
	};
	return NAME(names, state);
}

const char *tfc_zygote_state_name(uint32_t state)
{
	static const char *const names[] = {
		[TFC_ZYGOTE_IMPORTING] = "importing",
		[TFC_ZYGOTE_READY] = "ready",
		[TFC_ZYGOTE_FAILED] = "failed",
	};
	return NAME(names, state);
}

const char *tfc_end_reason_name(uint32_t reason)
{
	static const char *const names[] = {
		[TFC_END_NONE] = "none",
		[TFC_END_EXIT] = "exit",
		[TFC_END_SIGNAL] = "signal",
		[TFC_END_DEADLINE] = "deadline",
		[TFC_END_STOPPED] = "stopped",
		[TFC_END_LOST] = "lost",
		[TFC_END_NOT_FOUND] = "not_found",
		[TFC_END_NOT_EXECUTABLE] = "not_executable",
		[TFC_END_REFUSED] = "refused",
		[TFC_END_FOREIGN_LISTENER] = "stranger",
		[TFC_END_CONSEQUENCE] = "consequence",
		[TFC_END_STALLED] = "stalled",
		[TFC_END_UNSCHEDULABLE] = "unschedulable",
	};
	return NAME(names, reason);
}
