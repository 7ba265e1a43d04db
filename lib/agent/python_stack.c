/*
 * A dump has one block per thread, the innermost frame first:
 *
 *     Thread 0x00007f0d97c022c0 (most recent call first):
 *       File "/usr/lib/python3.11/threading.py", line 320 in wait
 *       File "/home/me/train.py", line 31 in <module>
 *
 * The main thread is the one whose outermost frame is a module. Its activity follows from the
 * innermost frame outside of Python's own library: the program waits for the other members where
 * TensorFlow, PyTorch or JAX wait for them, and does its own work where it is in its own code. A
 * frame of a framework that shows neither decides nothing, because a wrong answer is worse than
 * none.
 */
#include "agent/python_stack.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CURRENT_BLOCK "Current thread 0x"
#define OTHER_BLOCK "Thread 0x"

enum frame_kind {
	FRAME_SKIPPED,  /* works for the frame below it */
	FRAME_WAITING,  /* waits for the other members, or computes together with them */
	FRAME_INPUT,    /* waits for this task's own input */
	FRAME_CALLBACK, /* TensorFlow calls Python: generators of tf.data, tf.py_function */
	FRAME_FRAMEWORK,
	FRAME_OWN,
};

struct frame {
	const char *path;
	const char *function;
	int line;
};

struct block {
	enum frame_kind kind; /* of the innermost frame that decides; FRAME_SKIPPED: none yet */
	struct frame first;   /* the innermost frame of the program's own code */
	bool has_own;
	bool is_callback; /* called by TensorFlow, and in the program's code now */
	bool is_main;
	bool is_broken; /* other output is mixed into it */
};

/* The first match decides. NULL: any function. */
static const struct {
	const char *path;
	const char *function;
	enum frame_kind kind;
} frame_kinds[] = {
	{"<frozen ", NULL, FRAME_SKIPPED},
	{"/tensorflow/python/ops/script_ops.py", NULL, FRAME_CALLBACK},
	{"/tensorflow/python/eager/execute.py", NULL, FRAME_SKIPPED},
	{"/tensorflow/python/eager/context.py", "call_function", FRAME_WAITING},
	{"/tensorflow/python/framework/ops.py", "_numpy", FRAME_WAITING},
	{"/tensorflow/python/framework/ops.py", "_numpy_internal", FRAME_WAITING},
	{"/tensorflow/python/ops/gen_collective_ops.py", NULL, FRAME_WAITING},
	{"/tensorflow/python/ops/collective_ops.py", NULL, FRAME_WAITING},
	{"/tensorflow/python/distribute/cross_device_", NULL, FRAME_WAITING},
	{"/tensorflow/python/ops/gen_dataset_ops.py", NULL, FRAME_INPUT},
	{"/tensorflow/python/data/ops/iterator_ops.py", NULL, FRAME_INPUT},
	{"/torch/distributed/", NULL, FRAME_WAITING},
	{"/jax/_src/array.py", NULL, FRAME_WAITING},
	{"/jax/_src/distributed.py", NULL, FRAME_WAITING},
	{"/tensorflow/", NULL, FRAME_FRAMEWORK},
	{"/keras/", NULL, FRAME_FRAMEWORK},
	{"/tf_keras/", NULL, FRAME_FRAMEWORK},
	{"/torch/", NULL, FRAME_FRAMEWORK},
	{"/jax/", NULL, FRAME_FRAMEWORK},
	{"/horovod/", NULL, FRAME_FRAMEWORK},
};

static bool is_python_library(const char *path)
{
	const char *found = strstr(path, "/lib/python");
	return found && !strstr(found, "-packages/");
}

/*
 * A framework is recognized only among installed packages: a program may lie in a directory of the
 * same name.
 */
static enum frame_kind frame_kind_of(const struct frame *frame)
{
	const char *package = strstr(frame->path, "-packages/");
	const char *where = package ? strchr(package, '/') : frame->path;
	if (is_python_library(frame->path))
		return FRAME_SKIPPED;
	for (size_t i = 0; i < sizeof(frame_kinds) / sizeof(frame_kinds[0]); i++) {
		const char *path = frame_kinds[i].path, *function = frame_kinds[i].function;
		bool is_there = strncmp(where, path, strlen(path)) == 0;
		if (is_there && (package || path[0] == '<') &&
		    (!function || strcmp(function, frame->function) == 0))
			return frame_kinds[i].kind;
	}
	return FRAME_OWN;
}

/* Reads ` File "PATH", line N in FUNCTION`. */
static bool frame_read(char *line, struct frame *ret_frame)
{
	static const char begin[] = "  File \"", middle[] = "\", line ";
	if (strncmp(line, begin, strlen(begin)) != 0)
		return false;
	char *path = line + strlen(begin), *end = strstr(path, middle);
	char *function = end ? strstr(end, " in ") : NULL;
	if (!function)
		return false;
	*ret_frame = (struct frame){path, function + 4, atoi(end + strlen(middle))};
	*end = '\0';
	return true;
}

static void block_add(struct block *block, const struct frame *frame)
{
	enum frame_kind kind = frame_kind_of(frame);
	if (kind == FRAME_CALLBACK)
		block->is_callback = block->kind == FRAME_OWN;
	if (kind == FRAME_OWN && !block->has_own) {
		block->first = *frame;
		block->has_own = true;
	}
	if (block->kind == FRAME_SKIPPED && kind != FRAME_CALLBACK)
		block->kind = kind;
	/* The last frame is the outermost one. */
	block->is_main = strcmp(frame->function, "<module>") == 0 ||
			 strcmp(frame->function, "_run_module_as_main") == 0;
}

static void place_write(const struct block *block, const char *prefix, char *place, size_t size)
{
	const char *slash = strrchr(block->first.path, '/');
	snprintf(place, size, "%sin %.32s (%.24s:%d)", prefix, block->first.function,
		 slash ? slash + 1 : block->first.path, block->first.line);
}

static void main_thread_judge(const struct block *block, struct tfc__python_stack *stack)
{
	switch (block->kind) {
	case FRAME_WAITING:
		stack->activity = TFC__ACTIVITY_WAITING;
		break;
	case FRAME_INPUT:
		stack->activity = TFC__ACTIVITY_OWN_WORK;
		snprintf(stack->place, sizeof(stack->place), "waits for its input");
		return;
	case FRAME_OWN:
		stack->activity = TFC__ACTIVITY_OWN_WORK;
		break;
	default:
		stack->activity = TFC__ACTIVITY_UNKNOWN;
		break;
	}
	if (block->has_own)
		place_write(block, "", stack->place, sizeof(stack->place));
}

void tfc__python_stack_read(char *text, struct tfc__python_stack *ret_stack)
{
	struct block block = {0}, input = {0}, main_thread = {0};
	struct frame frame;
	bool is_in_block = false;
	char *rest = text, *line;
	*ret_stack = (struct tfc__python_stack){.activity = TFC__ACTIVITY_NONE};
	do {
		line = strsep(&rest, "\n");
		if (line && is_in_block && frame_read(line, &frame)) {
			block_add(&block, &frame);
			continue;
		}
		bool is_header = line &&
				 (strncmp(line, CURRENT_BLOCK, strlen(CURRENT_BLOCK)) == 0 ||
				  strncmp(line, OTHER_BLOCK, strlen(OTHER_BLOCK)) == 0);
		bool is_end = !line || is_header || !*line;
		if (is_in_block && is_end) {
			if (block.is_main && !block.is_broken)
				main_thread = block;
			else if (block.is_callback)
				input = block;
			is_in_block = false;
		}
		block.is_broken |= is_in_block;
		if (is_header) {
			block = (struct block){0};
			is_in_block = true;
		}
	} while (line);
	if (!main_thread.is_main)
		return;
	main_thread_judge(&main_thread, ret_stack);
	/* A callback thread produces this task's input, whatever the main thread waits for. */
	if (input.is_callback) {
		ret_stack->activity = TFC__ACTIVITY_OWN_WORK;
		place_write(&input, "its input ", ret_stack->place, sizeof(ret_stack->place));
	}
}
