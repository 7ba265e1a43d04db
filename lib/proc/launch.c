#include <stdlib.h>
#include <string.h>

#include "proc/guard.h"
#include "proc/log_format.h"

#define LAUNCH_MAX (UINT64_C(256) << 20)
#define SEGMENT_BYTES (UINT64_C(16) << 20)
#define SEGMENTS 8
#define GRACE_MS 10000

/* Where the next string goes. */
struct writer {
	char *base;
	uint64_t at;
};

static uint64_t put(struct writer *writer, const char *text)
{
	uint64_t at = writer->at;
	size_t size = strlen(text) + 1;
	memcpy(writer->base + at, text, size);
	writer->at += size;
	return at;
}

static void put_all(struct writer *writer, uint64_t array, const char *const *strings,
		    uint32_t count)
{
	uint64_t *offsets = (uint64_t *)(void *)(writer->base + array);
	for (uint32_t i = 0; i < count; i++)
		offsets[i] = put(writer, strings[i]);
}

static uint64_t measure(const char *const *strings, uint32_t *ret_count)
{
	uint64_t size = sizeof(uint64_t);
	uint32_t count = 0;
	for (; strings && strings[count]; count++)
		size += sizeof(uint64_t) + strlen(strings[count]) + 1;
	*ret_count = count;
	return size;
}

int tfc__launch_build(const tfc_process_options *options, tfc_error *error, void **ret_data,
		      size_t *ret_len)
{
	struct tfc__launch head = {
		.magic = TFC__LAUNCH_MAGIC,
		.version = TFC__PROTOCOL_VERSION,
		.argv = sizeof(head),
		.attempt = options->attempt ? options->attempt : 1,
		.grace_ms = options->grace_ms ? options->grace_ms : GRACE_MS,
		.log_segments = options->log_segments ? options->log_segments : SEGMENTS,
		.log_segment_bytes = options->log_segment_bytes ? options->log_segment_bytes
								: SEGMENT_BYTES,
	};
	const char *cwd = options->cwd ? options->cwd : "/";
	const char *log_dir = options->log_dir ? options->log_dir : "";
	const char *log_name = options->log_dir ? options->log_name : "";
	head.size = sizeof(head) + measure(options->argv, &head.argc) +
		    measure(options->env, &head.envc) + strlen(cwd) + strlen(log_dir) +
		    strlen(log_name) + 3;
	if (head.size > LAUNCH_MAX)
		return tfc__fail(error, TFC_ETOOBIG, "proc", 0,
				 "arguments and environment of %s take %llu bytes: the system "
				 "allows far less",
				 options->argv[0], (unsigned long long)head.size);
	char *data = calloc(1, head.size);
	if (!data)
		return tfc__fail_nomem(error, "proc");
	head.env = head.argv + (head.argc + UINT64_C(1)) * sizeof(uint64_t);
	struct writer writer = {data, head.env + (head.envc + UINT64_C(1)) * sizeof(uint64_t)};
	put_all(&writer, head.argv, options->argv, head.argc);
	put_all(&writer, head.env, options->env, head.envc);
	head.cwd = put(&writer, cwd);
	head.log_dir = put(&writer, log_dir);
	head.log_name = put(&writer, log_name);
	if (!options->log_dir)
		head.log_dir = 0;
	memcpy(data, &head, sizeof(head));
	*ret_data = data;
	*ret_len = head.size;
	return TFC_OK;
}
