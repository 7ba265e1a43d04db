/*
 * Unpacks a job's bundle (bundle/cache.h) once per task, in a supervised tfc-bundle process. The
 * host's loop never waits for a disk, and a malicious archive can only harm that process.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/internal.h"
#include "base/fail.h"
#include "base/file.h"
#include "log/tail.h"

#define BUNDLE_LOG "bundle"

/* Contains one directory per task. */
#define BUNDLE_DIR "bundle"

char *tfc__bundle_dir(const struct agent_task *task)
{
	char name[sizeof(BUNDLE_DIR) + TFC__LOG_NAME_SIZE] = BUNDLE_DIR "/";
	tfc__agent_log_name(task->job, task->number, name + strlen(name));
	return tfc__path_join(task->job->run_dir, name);
}

/*
 * Runs tfc-bundle VERB FROM [TO [OWNER]]; the last line of its output has the reason of a failure.
 */
static int bundle_run_tool(struct tfc__agent_job *job, const char *const words[4],
			   const char *log_name, const struct tfc__run_terms *run_terms,
			   tfc_process_fn fn, void *user, tfc_process **ret_process)
{
	tfc_ctx *ctx = job->agent->ctx;
	char *program = tfc__path_join(tfc__ctx_helper_dir(ctx), "tfc-bundle");
	if (!program || !words[1]) {
		free(program);
		return tfc__ctx_fail(ctx, TFC_ENOMEM, "agent", 0, "out of memory");
	}
	const char *const argv[] = {program, words[0], words[1], words[2], words[3], NULL};
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	options.argv = argv;
	options.grace_ms = TFC__HELPER_GRACE_MS;
	options.log_dir = job->run_dir;
	options.log_name = log_name;
	int code = tfc__process_spawn(ctx, &options, run_terms, fn, user, ret_process);
	free(program);
	return code;
}

/* ---- the archive */

static void bundle_on_state(struct tfc__observer *waiter, const void *event)
{
	struct tfc__agent_job *job = tfc__container_of(waiter, struct tfc__agent_job,
						       bundle_waiter);
	const struct tfc__bundle *bundle = job->bundle;
	if (bundle->state != TFC__BUNDLE_READY && bundle->state != TFC__BUNDLE_FAILED)
		return;
	tfc__observer_remove(waiter);
	for (uint32_t i = 0; i < job->task_count; i++)
		if (job->tasks[i].attempt_state == ATTEMPT_QUEUED)
			tfc__bundle_launch(&job->tasks[i]);
}

int tfc__bundle_begin(struct tfc__agent_job *job, tfc_error *error)
{
	const char *from = job->info.job->bundle;
	if (!from)
		return TFC_OK;
	char *dir = tfc__path_join(job->run_dir, BUNDLE_DIR);
	int code = dir ? TFC_OK : tfc__fail_nomem(error, "agent");
	if (dir && (mkdir(dir, 0700) < 0 || (job->users && chmod(dir, 0711) < 0)))
		code = tfc__fail_errno(error, "agent", errno, "cannot create \"%s\"", dir);
	free(dir);
	if (code < 0)
		return code;
	job->bundle = job->info.bundle;
	if (job->bundle)
		tfc__bundle_use(job->bundle);
	else if ((code = tfc__bundle_pack(job->agent->bundles, job->info.id, from, error,
					  &job->bundle)) < 0)
		return code;
	job->bundle_waiter.fn = bundle_on_state;
	tfc__bundle_await(job->bundle, &job->bundle_waiter);
	return TFC_OK;
}

void tfc__bundle_close(struct tfc__agent_job *job)
{
	tfc_process_close(job->removing);
	if (!job->bundle)
		return;
	tfc__observer_remove(&job->bundle_waiter);
	tfc__bundle_leave(job->bundle);
	job->bundle = NULL;
}

/* ---- unpacking */

static void bundle_on_unpacked(void *user, const tfc_process_event *process)
{
	struct agent_task *task = user;
	char name[TFC__LOG_NAME_SIZE + 16];
	if (process->kind != TFC_PROCESS_EXITED)
		return;
	tfc_process_close(task->process);
	task->process = NULL;
	task->is_unpacked = process->reason == TFC_EXIT_CODE && process->status == 0;
	if (task->attempt_state == ATTEMPT_CANCELED) {
		tfc__agent_refuse_stopped(task);
		return;
	}
	task->attempt_state = ATTEMPT_NONE;
	if (task->is_unpacked) {
		tfc__agent_spawn_attempt(task);
		return;
	}
	if (process->reason == TFC_EXIT_LOST) { /* as a lost attempt: it is retried */
		struct tfc__task_event event = tfc__agent_process_event(process);
		tfc__agent_notify(task, &event);
		return;
	}
	char **lines = NULL;
	snprintf(name, sizeof(name), BUNDLE_LOG "-%u", task->number);
	int code = tfc__log_tail(task->job->run_dir, name, 0, 0, 1, &lines);
	const char *text = code >= 0 && lines[0] ? lines[0] : process->text;
	tfc__fail(task->error, TFC_EARCHIVE, "agent", 0, "bundle: %s",
		  *text ? text : "tfc-bundle ended without a result");
	if (code >= 0)
		tfc_strv_free(lines);
	tfc__agent_reply(task, REPLY_REFUSED);
}

static int bundle_unpack(struct agent_task *task)
{
	struct tfc__agent_job *job = task->job;
	char name[TFC__LOG_NAME_SIZE + 16];
	char *dir = tfc__bundle_dir(task);
	char owner[LIMITS_OWNER_SIZE];
	tfc__limits_owner(task, owner);
	const char *const words[4] = {"unpack", job->bundle->path, dir, *owner ? owner : NULL};
	snprintf(name, sizeof(name), BUNDLE_LOG "-%u", task->number);
	const struct tfc__run_terms run_terms = tfc__agent_run_terms(job);
	int code = TFC_OK;
	if (dir)
		tfc__remove_tree(dir); /* left by an unpacking that was lost */
	if (dir && mkdir(dir, 0700) < 0)
		code = tfc__fail_errno(task->error, "agent", errno, "cannot create \"%s\"", dir);
	else if ((code = bundle_run_tool(job, words, name, &run_terms, bundle_on_unpacked, task,
					 &task->process)) < 0)
		*task->error = *tfc_ctx_error(job->agent->ctx);
	else
		task->attempt_state = ATTEMPT_UNPACKING;
	free(dir);
	return code;
}

void tfc__bundle_launch(struct agent_task *task)
{
	const struct tfc__bundle *bundle = task->job->bundle;
	bool is_packed = !bundle || bundle->state == TFC__BUNDLE_READY ||
			 bundle->state == TFC__BUNDLE_FAILED;
	task->attempt_state = is_packed ? ATTEMPT_NONE : ATTEMPT_QUEUED;
	if (!is_packed)
		return;
	if (!bundle || task->is_unpacked) {
		tfc__agent_spawn_attempt(task);
	} else if (bundle->state == TFC__BUNDLE_FAILED) {
		*task->error = bundle->error;
		tfc__agent_reply(task, REPLY_REFUSED);
	} else if (bundle_unpack(task) < 0) {
		tfc__agent_reply(task, REPLY_REFUSED);
	}
}

/* ---- removing */

static void bundle_on_removed(void *user, const tfc_process_event *process)
{
	struct tfc__agent_job *job = user;
	if (process->kind != TFC_PROCESS_EXITED)
		return;
	tfc_process_close(job->removing);
	job->removing = NULL;
}

/* The job's private directory, with anything left in it, is removed when the job is closed. */
void tfc__agent_bundle_end(struct tfc__agent_job *job)
{
	char *dir = tfc__path_join(job->run_dir, BUNDLE_DIR);
	if (!job->bundle || !dir)
		goto out;
	tfc__bundle_close(job);
	const char *const words[4] = {"remove", dir};
	if (bundle_run_tool(job, words, BUNDLE_LOG, NULL, bundle_on_removed, job, &job->removing) <
	    0)
		tfc__remove_tree(dir);
out:
	free(dir);
}
