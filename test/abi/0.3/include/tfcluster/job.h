/*
 * The definition of a job, as a value. A job file is JSON; doc/guide/job-file.md lists every key.
 * tfc_job_set builds a job key by key, with the same keys, types and messages as the parser.
 *
 * A job has no descriptor and needs no context. Thread: one at a time per job.
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

/** Makes an empty job: all defaults, no role. The caller frees it with tfc_job_free. Errors:
 * TFC_ENOMEM. */
TFC_API int tfc_job_new(tfc_job **ret_job);

/**
 * Parses the text of a job file. `file` is the name for messages ("job.json"). The result is
 * complete and valid. The caller owns *ret_job. Errors: TFC_EPARSE (not JSON: "job.json:3:
 * ..."), TFC_EINVAL (unknown key, wrong type, impossible value or combination: "job.json:12:
 * roles.worker.cuont: unknown key; did you mean count?"), TFC_ENOTSUP (a key or value that only a
 * later version offers), TFC_ENOMEM. `file` may be NULL: "line 12: ...".
 */
TFC_API int tfc_job_parse(const char *json, size_t len, const char *file, tfc_error *error,
			  tfc_job **ret_job);

/**
 * Sets one key from text: "roles.worker.count" "2", "restart.max" "3", "env.EPOCHS" "5",
 * "name" "digits". A list is set by JSON text; with "[]" after its path, one element is appended:
 * "argv[]" "train.py". In the same way one variable is added to an environment: "env[]" "EPOCHS=5",
 * "secret_env[]" "TOKEN" (its value comes from the environment of the task's node). A role is
 * created with its defaults by naming it ("roles.chief" "{}") or by setting any key below it. A
 * value whose key is not a string is read as JSON; "" unsets a string that may be null. Errors:
 * TFC_EINVAL (names the key), TFC_ENOTSUP (a later version's key or value), TFC_ENOMEM. On failure
 * the job is unchanged.
 */
TFC_API int tfc_job_set(tfc_job *job, const char *path, const char *value, tfc_error *error);

/**
 * Makes the job's relative paths absolute. They are relative to `base_dir`, an absolute path: the
 * current directory of the host, or the directory of the job file. In a job without a bundle these
 * are `cwd`, which becomes base_dir when it is null, and the `cwd` of each role; each must be a
 * directory that the caller may enter. In a job with a bundle it is `bundle` alone: each `cwd` is a
 * path in the task's copy of the bundle. Call it on the machine where the tasks will run, after the
 * last tfc_job_set. Errors: TFC_EINVAL (base_dir is not absolute), TFC_ENOENT, TFC_EACCES
 * ("roles.worker.cwd: data cannot be entered: No such file or directory"), TFC_ENOMEM. On failure
 * the job is unchanged.
 */
TFC_API int tfc_job_resolve(tfc_job *job, const char *base_dir, tfc_error *error);

/**
 * Checks the combinations of keys: two chiefs, ps without worker, mirrored with ps, no program.
 * Errors: TFC_EINVAL (the text names the keys).
 */
TFC_API int tfc_job_validate(const tfc_job *job, tfc_error *error);

enum tfc_json_flags {
	TFC_JSON_SECRETS = 1, /* write the values of secret_env too; else null stands for each */
};

/**
 * Returns the job as a job file with all defaults filled in; parsing it gives an equal job. The
 * caller frees *ret_json with tfc_free. Errors: TFC_ENOMEM.
 */
TFC_API int tfc_job_json(const tfc_job *job, uint32_t flags, char **ret_json);

/** Frees a job. NULL is a no-op. */
TFC_API void tfc_job_free(tfc_job *job);

#ifdef __cplusplus
}
#endif
#endif
