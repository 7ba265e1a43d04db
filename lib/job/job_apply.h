/*
 * Putting JSON values into a job, by the table of keys: what the parser and tfc_job_set share.
 */
#ifndef TFC_JOB_JOB_APPLY_H
#define TFC_JOB_JOB_APPLY_H

#include "job/job.h"
#include "job/job_keys.h"
#include <jansson.h>

/* One application under way. After a failure `path` still names the key that it is about. */
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

/* A list of strings, an environment or secrets, a set of limits, in place of what was there. */
int tfc__apply_list(struct tfc__apply *apply, const struct tfc__json_key *key,
		    struct tfc__strv *field, json_t *value);
int tfc__apply_env(struct tfc__apply *apply, const struct tfc__json_key *key, void *base,
		   json_t *value);
int tfc__apply_rlimits(struct tfc__apply *apply, const struct tfc__json_key *key, void *base,
		       json_t *value);

/* Sets one limit of a set: a number or "unlimited", or a list of the soft and the hard one. */
int tfc__apply_rlimit(struct tfc__apply *apply, const struct tfc__json_key *key, void *base,
		      const char *name, json_t *value);

/* A value that is not what it must be ("a string"). Returns TFC_EINVAL. */
int tfc__apply_wrong(struct tfc__apply *apply, const char *wanted, json_t *value);

/* Adds one element to a list ("train.py") or environment ("NAME=value"; of secrets also "NAME"). */
int tfc__apply_element(struct tfc__apply *apply, const struct tfc__json_key *key, void *base,
		       const char *text);

/* Sets one variable of an environment; a NULL value is only for secrets: from the host's. */
int tfc__apply_variable(struct tfc__apply *apply, const struct tfc__json_key *key, void *base,
			const char *name, const char *value);

/* Refuses text that a job file could not hold: what is not UTF-8. */
int tfc__apply_check_text(struct tfc__apply *apply, const char *text);

/* The sentence for a key that is not there: who has it, or which one is near. */
int tfc__apply_unknown(struct tfc__apply *apply, const struct tfc__json_keys *keys,
		       const char *group, const char *name);

/* The role of that name, made with its defaults when it is new. */
int tfc__apply_role(struct tfc__apply *apply, const char *name, struct tfc__role **ret_role);

/* Gives every role the job's value of each "restart" key that it does not override. After any
 * change. */
void tfc__job_inherit(tfc_job *job);

/*
 * Checks what spans several keys. On failure *where names the key that *error is about.
 */
int tfc__job_check(const tfc_job *job, struct tfc__key_path *where, tfc_error *error);

#endif
