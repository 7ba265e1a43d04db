/* Checks limits that a host sets, and describes limits that the system refused. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/rlimit.h"
#include "base/text.h"
#include "proc/guard.h"

#define MAX_GROUPS 65536 /* NGROUPS_MAX of Linux */
#define NICE_MAX 40      /* the distance from the lowest to the highest priority */
#define OOM_SCORE_MAX 1000
#define CPU_MILLI_MIN 10 /* the kernel's minimum quota is 1 ms per 100 ms */

static int limits_refuse(tfc_error *error, const char *field, const char *why)
{
	return tfc__fail(error, TFC_EINVAL, "proc", 0, "tfc_process_limits.%s %s", field, why);
}

int tfc__limits_check(const tfc_process_limits *limits, tfc_error *error)
{
	if (limits->flags &
	    ~(uint32_t)(TFC_LIMIT_OOM_SCORE_ADJ | TFC_LIMIT_USER | TFC_LIMIT_MEMORY_IF_POSSIBLE))
		return limits_refuse(error, "flags",
				     "has a bit that is not in enum tfc_limit_flags");
	if (limits->nice < -NICE_MAX || limits->nice > NICE_MAX)
		return limits_refuse(error, "nice", "must be -40 to 40");
	if (limits->oom_score_adj < -OOM_SCORE_MAX || limits->oom_score_adj > OOM_SCORE_MAX)
		return limits_refuse(error, "oom_score_adj", "must be -1000 to 1000");
	if (limits->cpu_milli && limits->cpu_milli < CPU_MILLI_MIN)
		return limits_refuse(error, "cpu_milli",
				     "must be 10 or more, a hundredth of a CPU");
	if (limits->memory_bytes > INT64_MAX)
		return limits_refuse(error, "memory_bytes", "exceeds the address space");
	if (limits->flags & TFC_LIMIT_USER &&
	    (limits->uid == UINT32_MAX || limits->gid == UINT32_MAX))
		return limits_refuse(error, "uid", "and gid must be ids, not -1");
	if (limits->group_count > MAX_GROUPS || (limits->group_count && !limits->groups))
		return limits_refuse(error, "groups", "is NULL or too long for its group_count");
	if (limits->rlimit_count && !limits->rlimits)
		return limits_refuse(error, "rlimits", "is NULL, but rlimit_count is not 0");
	if (limits->rlimit_count > RLIM_NLIMITS)
		return limits_refuse(error, "rlimit_count",
				     "exceeds the number of resource limits");
	for (uint32_t i = 0; i < limits->rlimit_count; i++) {
		const tfc_rlimit *rlimit = &limits->rlimits[i];
		if (!tfc__rlimit_name(rlimit->resource))
			return tfc__fail(error, TFC_EINVAL, "proc", 0,
					 "tfc_process_limits.rlimits[%u].resource is %u, which is "
					 "not a RLIMIT_ of <sys/resource.h>",
					 i, rlimit->resource);
		if (rlimit->reserved)
			return tfc__fail(
				error, TFC_EINVAL, "proc", 0,
				"tfc_process_limits.rlimits[%u].reserved is %u; it must be 0", i,
				rlimit->reserved);
		if (rlimit->soft > rlimit->hard)
			return tfc__fail(error, TFC_EINVAL, "proc", 0,
					 "tfc_process_limits.rlimits[%u]: the soft limit of %s "
					 "exceeds the hard limit",
					 i, tfc__rlimit_name(rlimit->resource));
	}
	return TFC_OK;
}

/* ---- error texts */

bool tfc__limits_is_step(uint32_t step)
{
	return step >= TFC__STEP_RLIMIT && step <= TFC__STEP_CPUS;
}

static const char *limit_text(int64_t value, char text[24])
{
	if (value < 0)
		return "unlimited";
	snprintf(text, 24, "%lld", (long long)value);
	return text;
}

static void describe_rlimit(const struct tfc__report *report, const char *reason, char *text,
			    size_t size)
{
	char requested[24], allowed[24];
	const char *name = tfc__rlimit_name(report->resource);
	bool is_raised = report->allowed >= 0 &&
			 (report->requested < 0 || report->requested > report->allowed);
	if (is_raised)
		snprintf(text, size, "cannot raise rlimit %s to %s: hard limit is %s; %s",
			 name ? name : "?", limit_text(report->requested, requested),
			 limit_text(report->allowed, allowed),
			 report->resource == RLIMIT_NOFILE && geteuid() == 0
				 ? "fs.nr_open of the system allows no more"
				 : "only root can raise it");
	else
		snprintf(text, size, "cannot set rlimit %s to %s: %s", name ? name : "?",
			 limit_text(report->requested, requested), reason);
}

static void describe_group_limit(const struct tfc__report *report, const char *controller,
				 const char *reason, char *text, size_t size)
{
	size_t len = strlen(text);
	if (report->status == ENOTSUP)
		snprintf(text + len, size - len,
			 "the task has no cgroup v2 of its own; isolation \"cgroup\" requires one "
			 "that is delegated to the host");
	else if (report->status == ENOENT)
		snprintf(text + len, size - len,
			 "the %s controller of cgroup v2 is not delegated to the host (systemd: "
			 "Delegate=yes and DelegateSubgroup=)",
			 controller);
	else
		snprintf(text + len, size - len, "%s", reason);
}

void tfc__limits_describe_unlimited(const struct tfc__report *report, char *text, size_t size)
{
	char buffer[64];
	snprintf(text, size, "memory is not limited to %lld bytes: ", (long long)report->requested);
	describe_group_limit(report, "memory", strerror_r(report->status, buffer, sizeof(buffer)),
			     text, size);
}

void tfc__limits_describe_oom(const char *program, const struct tfc__report *report, char *text,
			      size_t size)
{
	char limit[TFC__MEMORY_TEXT_SIZE];
	tfc__memory_text((uint64_t)report->requested, limit);
	if (report->oom == TFC__OOM_LIMIT)
		snprintf(text, size,
			 "%s was killed by the kernel: out of memory: it used more than its memory "
			 "limit of %s",
			 program, limit);
	else
		snprintf(text, size, "%s was killed by the kernel: out of memory", program);
}

void tfc__limits_describe(const char *program, const struct tfc__report *report, char *text,
			  size_t size)
{
	char buffer[64];
	const char *reason = strerror_r(report->status, buffer, sizeof(buffer));
	int len = snprintf(text, size, "cannot start \"%.400s\": ", program);
	text += len;
	size -= (size_t)len;
	switch (report->step) {
	case TFC__STEP_RLIMIT:
		describe_rlimit(report, reason, text, size);
		break;
	case TFC__STEP_NICE:
		snprintf(text, size, "cannot change nice by %lld: %s; only root can lower it",
			 (long long)report->requested, reason);
		break;
	case TFC__STEP_OOM_SCORE:
		snprintf(text, size, "cannot set oom_score_adj to %lld: %s; only root can lower it",
			 (long long)report->requested, reason);
		break;
	case TFC__STEP_MEMORY:
		snprintf(text, size,
			 "cannot limit memory to %lld bytes: ", (long long)report->requested);
		describe_group_limit(report, "memory", reason, text, size);
		break;
	case TFC__STEP_CPUS:
		snprintf(text, size,
			 "cannot limit CPUs to %.12g: ", (double)report->requested / 1000);
		describe_group_limit(report, "cpu", reason, text, size);
		break;
	default:
		snprintf(text, size,
			 "cannot run as user %lld: %s; only a host that runs as root can",
			 (long long)report->requested, reason);
	}
}
