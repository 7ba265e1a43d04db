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
 * Parses the text of a job file, `len` bytes. `file` is its name in messages ("job.json"); with
 * NULL they begin with "line 12: ". Keys that the text leaves out have their defaults. The job has
 * passed tfc_job_validate. The caller owns *ret_job. Errors: TFC_EPARSE (not JSON: "job.json:3:
 * ..."), TFC_EINVAL (unknown key, wrong type, impossible value or combination: "job.json:12:
 * roles.worker.cuont: unknown key; did you mean count?"), TFC_ENOTSUP (a key or value that only a
 * later version offers), TFC_ENOMEM.
 */
TFC_API int tfc_job_parse(const char *json, size_t len, const char *file, tfc_error *error,
			  tfc_job **ret_job);

/**
 * Sets the key at `path` to `value`, such as "name" to "digits", "roles.worker.count" to "2" or
 * "env.EPOCHS" to "5". `value` is the string itself if the key is a string, and JSON text
 * otherwise. For a string that may be null, "" means null. With "[]" after the path, one element is
 * appended to a list ("argv[]", "train.py"), or one variable is added to an environment ("env[]",
 * "EPOCHS=5"). A secret without a value ("secret_env[]", "TOKEN") comes from the environment of the
 * task's node. A role is created with its defaults when it is named ("roles.chief", "{}") or a key
 * below it is set. On failure the job is unchanged. Errors: TFC_EINVAL (names the key), TFC_ENOTSUP
 * (a later version's key or value), TFC_ENOMEM.
 */
TFC_API int tfc_job_set(tfc_job *job, const char *path, const char *value, tfc_error *error);

/**
 * Makes the job's relative paths absolute: they start at `base_dir`, an absolute path, such as the
 * current directory of the host or the directory of the job file. Call it after the last
 * tfc_job_set. On failure the job is unchanged.
 *
 * Without a bundle, the paths are `cwd` (null becomes base_dir) and the `cwd` of each role. Each
 * must be a directory that the caller may enter: call it on the machine where the tasks will run.
 * With a bundle, the path is `bundle` alone, on the machine that submits the job: each `cwd` is a
 * path in the task's copy of the bundle. Errors: TFC_EINVAL (base_dir is not absolute), TFC_ENOENT,
 * TFC_EACCES ("roles.worker.cwd: cannot enter directory "data": Permission denied"), TFC_ENOMEM.
 */
TFC_API int tfc_job_resolve(tfc_job *job, const char *base_dir, tfc_error *error);

/**
 * Checks that the keys fit together. It refuses, for example, two chiefs, ps without worker, a
 * mirrored job with ps, a job without a program, an unknown role that is no sidecar, or a mistyped
 * placeholder. Errors: TFC_EINVAL (the text names the keys).
 */
TFC_API int tfc_job_validate(const tfc_job *job, tfc_error *error);

enum tfc_json_flags {
	TFC_JSON_SECRETS = 1, /* write the values of secret_env too; else null stands for each */
};

/**
 * Returns the job as a job file with all defaults filled in. `flags` is of enum tfc_json_flags.
 * Parsing the text gives an equal job, apart from the values of secrets that it leaves out. The
 * caller frees *ret_json with tfc_free. Errors: TFC_EINVAL (an unknown flag), TFC_ENOMEM.
 */
TFC_API int tfc_job_json(const tfc_job *job, uint32_t flags, char **ret_json);

/** Frees a job. NULL is a no-op. */
TFC_API void tfc_job_free(tfc_job *job);

#ifdef __cplusplus
}
#endif
#endif
