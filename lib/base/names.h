/*
 * Names that become part of a path. A name that comes from a connection or a file is
 * checked here before it is used in a path; no other code decides whether a name is valid.
 */
#ifndef TFC_BASE_NAMES_H
#define TFC_BASE_NAMES_H

#include <stdbool.h>

#define TFC__JOB_ID_SIZE 17 /* with its NUL */
#define TFC__ROLE_NAME_MAX 63
#define TFC__LOG_NAME_MAX 200
#define TFC__STORE_KEY_MAX 255

/* 16 lower-case hex digits. A request's job argument that is not an id is a job's name or a prefix
 * of an id. */
bool tfc__is_job_id(const char *text);

/* The SHA-256 of a bundle: 64 lower-case hex digits. */
bool tfc__is_bundle_hash(const char *text);

/* 1 to TFC__ROLE_NAME_MAX characters of a-z, 0-9 and '_', beginning with a letter. */
bool tfc__is_role_name(const char *text);

/* 1 to TFC__LOG_NAME_MAX bytes without '/', not beginning with '.'. */
bool tfc__is_log_name(const char *text);

/* Parts of [A-Za-z0-9._-] separated by '/'; no part begins with '.'. A prefix is empty or ends in
 * '/'. At most TFC__STORE_KEY_MAX bytes. */
bool tfc__is_store_key(const char *text);
bool tfc__is_store_prefix(const char *text);

#endif
