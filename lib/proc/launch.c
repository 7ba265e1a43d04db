#include <stdlib.h>
#include <string.h>

#include "log/format.h"
#include "proc/guard.h"

#define LAUNCH_MAX (UINT64_C(256) << 20)

/* The position of the next string. */
struct writer {
	char *base;
	uint64_t at;
};

static uint64_t launch_write_text(struct writer *writer, const char *text)
{
	uint64_t at = writer->at;
	size_t size = strlen(text) + 1;
	memcpy(writer->base + at, text, size);
	writer->at += size;
	return at;
}

static void launch_write_strings(struct writer *writer, uint64_t array, const char *const *strings,
				 uint32_t count)
{
	uint64_t *offsets = (uint64_t *)(void *)(writer->base + array);
	for (uint32_t i = 0; i < count; i++)
		offsets[i] = launch_write_text(writer, strings[i]);
}

static uint64_t launch_strings_size(const char *const *strings, uint32_t *ret_count)
{
	uint64_t size = sizeof(uint64_t);
	uint32_t count = 0;
	for (; strings && strings[count]; count++)
		size += sizeof(uint64_t) + strlen(strings[count]) + 1;
	*ret_count = count;
	return size;
}

_Static_assert((int)TFC__LIMIT_OOM_SCORE_ADJ == (int)TFC_LIMIT_OOM_SCORE_ADJ &&
		       (int)TFC__LIMIT_USER == (int)TFC_LIMIT_USER &&
		       (int)TFC__LIMIT_MEMORY_IF_POSSIBLE == (int)TFC_LIMIT_MEMORY_IF_POSSIBLE,
	       "the flags travel as they are");

/*
 * Directly behind the pointers, so that the arrays are aligned; without limits nothing is written.
 */
static void launch_write_limits(struct writer *writer, struct tfc__launch *head,
				const tfc_process_limits *limits)
{
	struct tfc__launch_rlimit *rlimits = (void *)(writer->base + writer->at);
	head->limit_flags = limits->flags;
	head->nice = limits->nice;
	head->cpu_milli = limits->cpu_milli;
	head->memory = limits->memory_bytes;
	head->oom_score_adj = limits->oom_score_adj;
	head->uid = limits->uid;
	head->gid = limits->gid;
	head->rlimits = writer->at;
	head->rlimit_count = limits->rlimit_count;
	for (uint32_t i = 0; i < limits->rlimit_count; i++)
		rlimits[i] = (struct tfc__launch_rlimit){limits->rlimits[i].resource,
							 limits->rlimits[i].soft,
							 limits->rlimits[i].hard};
	head->groups = head->rlimits + limits->rlimit_count * sizeof(*rlimits);
	head->group_count = limits->group_count;
	if (limits->group_count)
		memcpy(writer->base + head->groups, limits->groups,
		       limits->group_count * sizeof(uint32_t));
	writer->at = head->groups + limits->group_count * sizeof(uint32_t);
}

int tfc__launch_build(const tfc_process_options *options, tfc_error *error, void **ret_data,
		      size_t *ret_len)
{
	struct tfc__launch head = {
		.magic = TFC__LAUNCH_MAGIC,
		.version = TFC__PROTOCOL_VERSION,
		.argv = sizeof(head),
		.attempt = options->attempt ? options->attempt : 1,
		.stall_ms = options->stall_ms,
		.suspend_ms = options->suspend_ms,
		.reports_lost_output = options->reports_lost_output != 0,
		.has_reports = options->has_reports != 0,
		.isolation = options->isolation,
		.log_segments = options->log_segments ? options->log_segments : TFC__LOG_SEGMENTS,
		.log_segment_bytes = options->log_segment_bytes ? options->log_segment_bytes
								: TFC__LOG_SEGMENT_BYTES,
	};
	static const tfc_process_limits none = TFC_PROCESS_LIMITS_INIT;
	const tfc_process_limits *limits = options->limits ? options->limits : &none;
	const char *cwd = options->cwd ? options->cwd : "/";
	const char *log_dir = options->log_dir ? options->log_dir : "";
	const char *log_name = options->log_dir ? options->log_name : "";
	head.size = sizeof(head) + launch_strings_size(options->argv, &head.argc) +
		    launch_strings_size(options->env, &head.envc) + strlen(cwd) + strlen(log_dir) +
		    strlen(log_name) + 3 +
		    limits->rlimit_count * sizeof(struct tfc__launch_rlimit) +
		    limits->group_count * sizeof(uint32_t);
	if (head.size > LAUNCH_MAX)
		return tfc__fail(error, TFC_ETOOBIG, "proc", 0,
				 "arguments and environment of \"%s\" are too large (%llu bytes)",
				 options->argv[0], (unsigned long long)head.size);
	char *data = calloc(1, head.size);
	if (!data)
		return tfc__fail_nomem(error, "proc");
	head.env = head.argv + (head.argc + UINT64_C(1)) * sizeof(uint64_t);
	struct writer writer = {data, head.env + (head.envc + UINT64_C(1)) * sizeof(uint64_t)};
	launch_write_limits(&writer, &head, limits);
	launch_write_strings(&writer, head.argv, options->argv, head.argc);
	launch_write_strings(&writer, head.env, options->env, head.envc);
	head.cwd = launch_write_text(&writer, cwd);
	head.log_dir = launch_write_text(&writer, log_dir);
	head.log_name = launch_write_text(&writer, log_name);
	if (!options->log_dir)
		head.log_dir = 0;
	memcpy(data, &head, sizeof(head));
	*ret_data = data;
	*ret_len = head.size;
	return TFC_OK;
}
