/*
 * The error file of a PyTorch task, as under torchrun: a function decorated with
 * torch.distributed.elastic.multiprocessing.errors.record writes the exception that it raises into
 * the file TORCHELASTIC_ERROR_FILE (torch/distributed/elastic/multiprocessing/errors/
 * error_handler.py):
 *
 *   {"message": {"message": "ValueError: ...", "extraInfo": {...}}}
 *
 * A task of another user than the node's has no such file: it cannot write to the job's directory.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/internal.h"
#include "base/json.h"

#define ERROR_FILE_MAX (64u << 10)

char *tfc__error_file_path(const struct agent_task *task)
{
	const struct tfc__agent_job *job = task->job;
	char owner[LIMITS_OWNER_SIZE], name[TFC__LOG_NAME_SIZE], *path;
	tfc__limits_owner(task, owner);
	if (owner[0] || job->info.job->framework != TFC_FRAMEWORK_PYTORCH ||
	    !tfc__role_is_in_cluster(task->role->name))
		return NULL;
	tfc__agent_log_name(job, task->number, name);
	return asprintf(&path, "%s/%s.error.json", job->run_dir, name) < 0 ? NULL : path;
}

void tfc__error_file_remove(const struct agent_task *task)
{
	char *path = tfc__error_file_path(task);
	if (path)
		unlink(path);
	free(path);
}

/* The file is the task's: it may be anything. Reading a FIFO must not block the node. */
static size_t error_file_load(const char *path, char *text)
{
	struct stat status;
	ssize_t len = 0;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
		len = read(fd, text, ERROR_FILE_MAX);
	close(fd);
	return len > 0 ? (size_t)len : 0;
}

bool tfc__error_file_find(const struct agent_task *task, struct tfc__error_line *ret_line)
{
	char *text = malloc(ERROR_FILE_MAX);
	char *path = tfc__error_file_path(task);
	size_t len = path && text ? error_file_load(path, text) : 0;
	json_t *root = NULL;
	bool is_found = false;
	int code = len ? tfc__json_load(text, len, 0, NULL, &root) : TFC_ENOENT;
	free(path);
	free(text);
	if (code < 0)
		return false;
	const json_t *message = json_object_get(root, "message");
	if (json_is_object(message))
		message = json_object_get(message, "message");
	if (json_is_string(message)) {
		char *line = strndup(json_string_value(message),
				     strcspn(json_string_value(message), "\n"));
		char *const lines[] = {line, NULL};
		is_found = tfc__error_line_find(lines, TFC__ERROR_LAST, ret_line);
		free(line);
	}
	json_decref(root);
	return is_found;
}
