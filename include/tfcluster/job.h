/*
 * The job: what a user asks to be run, as a value. A job file is JSON; doc/guide/job-file.md lists
 * every key. A job can also be built key by key with tfc_job_set, which knows the same keys, types
 * and error sentences as the parser.
 *
 * A job holds no descriptor and needs no context. Thread: one at a time per job.
 */
#ifndef TFCLUSTER_JOB_H
#define TFCLUSTER_JOB_H

#include <stddef.h>
#include <stdint.h>
#include <tfcluster/error.h>
#include <tfcluster/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfc_job tfc_job;

/** An empty job: all defaults, no role. The caller ends it with tfc_job_free. Errors: TFC_ENOMEM.
 */
TFC_API int tfc_job_new(tfc_job **ret_job);

/**
 * Reads a job file's text. `file` is the name to put into error sentences ("job.json"). The result
 * is complete and validated. The caller owns *ret_job. Errors: TFC_EPARSE (not JSON: "job.json:3:
 * ..."), TFC_EINVAL (unknown key, wrong type, impossible value or combination: "job.json:12:
 * roles.worker.cuont: unknown key; did you mean count?"), TFC_ENOTSUP (a key or value that only a
 * later version offers), TFC_ENOMEM. `file` may be NULL: "line 12: ...".
 */
TFC_API int tfc_job_parse(const char *json, size_t len, const char *file, tfc_error *error,
			  tfc_job **ret_job);

/**
 * Sets one key from text: "roles.worker.count" "2", "restart.max" "3", "env.EPOCHS" "5",
 * "name" "digits". A list takes JSON text or, with "[]" behind its path, one more element:
 * "argv[]" "train.py"; an environment takes one more variable so: "env[]" "EPOCHS=5",
 * "secret_env[]" "TOKEN" (its value comes from what the task's node gives it). Naming a role
 * ("roles.chief" "{}") creates it with its defaults; so does setting any key below it. Other values
 * are read as JSON where the key is not a string; "" unsets a string that may be null.
 * Errors: TFC_EINVAL (names the key), TFC_ENOTSUP (a later version's key or value), TFC_ENOMEM. On
 * failure the job is unchanged.
 */
TFC_API int tfc_job_set(tfc_job *job, const char *path, const char *value, tfc_error *error);

/**
 * Makes the job's relative paths absolute, as seen from `base_dir` (absolute): the host's current
 * directory, or the job file's. Without a bundle that is `cwd`, which becomes base_dir itself when
 * it is null, and the roles' `cwd`, and each is checked: a directory that the caller may enter.
 * With a bundle only `bundle` is meant: each `cwd` then lies in a task's copy of it. To be called
 * where the tasks will run, and after the last tfc_job_set.
 * Errors: TFC_EINVAL (base_dir is not absolute), TFC_ENOENT, TFC_EACCES ("roles.worker.cwd: data
 * cannot be entered: No such file or directory"), TFC_ENOMEM. On failure the job is unchanged.
 */
TFC_API int tfc_job_resolve(tfc_job *job, const char *base_dir, tfc_error *error);

/**
 * Checks what spans several keys: two chiefs, ps without worker, mirrored with ps, no program.
 * Errors: TFC_EINVAL (one sentence that names the keys).
 */
TFC_API int tfc_job_validate(const tfc_job *job, tfc_error *error);

enum tfc_json_flags {
	TFC_JSON_SECRETS = 1, /* write the values of secret_env too; else null stands for each */
};

/**
 * The job as a job file with all defaults filled in; parsing it gives an equal job. The caller
 * frees *ret_json with tfc_free. Errors: TFC_ENOMEM.
 */
TFC_API int tfc_job_json(const tfc_job *job, uint32_t flags, char **ret_json);

/** Frees a job. NULL is a no-op. */
TFC_API void tfc_job_free(tfc_job *job);

#ifdef __cplusplus
}
#endif
#endif
