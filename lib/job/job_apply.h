/*
 * Applies JSON values to a job, following the table of keys: shared by the parser and tfc_job_set.
 */
#ifndef TFC_JOB_JOB_APPLY_H
#define TFC_JOB_JOB_APPLY_H

#include "job/job.h"
#include "job/job_keys.h"
#include <jansson.h>

/* An application in progress. After a failure `path` names the key that the error is about. */
struct tfc__apply {
	tfc_job *job;
	struct tfc__key_path path;
	tfc_error *error;
};

/* Applies all members of an object: the job or role `base` itself (group ""), or a group of its
 * keys ("restart"). */
int tfc__apply_object(struct tfc__apply *apply, const struct tfc__json_keys *keys, void *base,
		      const char *group, json_t *value);

/* Applies one key's value. */
int tfc__apply_value(struct tfc__apply *apply, const struct tfc__json_key *key, void *base,
		     json_t *value);

/* Each replaces a field's value: a list of strings, an environment or secrets, a set of limits. */
int tfc__apply_list(struct tfc__apply *apply, const struct tfc__json_key *key,
		    struct tfc__strv *field, json_t *value);
int tfc__apply_env(struct tfc__apply *apply, const struct tfc__json_key *key, void *base,
		   json_t *value);
int tfc__apply_rlimits(struct tfc__apply *apply, const struct tfc__json_key *key, void *base,
		       json_t *value);

/* Sets one limit of a set. The value is a number, "unlimited", or a list of the soft and the hard
 * limit. */
int tfc__apply_rlimit(struct tfc__apply *apply, const struct tfc__json_key *key, void *base,
		      const char *name, json_t *value);

/* Reports that a value is not of the wanted kind, such as "a string". Returns TFC_EINVAL. */
int tfc__apply_wrong(struct tfc__apply *apply, const char *wanted, json_t *value);

/* Adds one element to a list ("train.py") or environment ("NAME=value"; for secrets also
 * "NAME"). */
int tfc__apply_element(struct tfc__apply *apply, const struct tfc__json_key *key, void *base,
		       const char *text);

/* Sets one variable of an environment. A NULL value is allowed for secrets only: the value is the
 * host's. */
int tfc__apply_variable(struct tfc__apply *apply, const struct tfc__json_key *key, void *base,
			const char *name, const char *value);

/* Refuses text that a job file cannot contain: text that is not UTF-8. */
int tfc__apply_check_text(struct tfc__apply *apply, const char *text);

/* Reports an unknown key, with a hint: the object that has such a key, or a similar name. */
int tfc__apply_unknown(struct tfc__apply *apply, const struct tfc__json_keys *keys,
		       const char *group, const char *name);

/* Returns the role of that name; creates it with default values if it does not exist. */
int tfc__apply_role(struct tfc__apply *apply, const char *name, struct tfc__role **ret_role);

/* Copies the job's value of each "restart" key to every role that does not override the key. Must
 * be called after every change. */
void tfc__job_inherit(tfc_job *job);

/*
 * Checks the rules that involve several keys. On failure *where is the key that *error is about.
 */
int tfc__job_check(const tfc_job *job, struct tfc__key_path *where, tfc_error *error);

/* Checks for names that are probably mistyped, and for variables that would have no effect
 * (job_typos.c). *where as above; a part of it may be stored in *where itself. The job need not
 * have passed tfc__job_check. */
int tfc__job_check_typos(const tfc_job *job, struct tfc__key_path *where, tfc_error *error);

#endif
