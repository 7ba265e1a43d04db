/*
 * Names that become a part of a path. What comes over a connection, or out of a file, is checked
 * here before a path is made of it; nothing else decides what is a name.
 */
#ifndef TFC_BASE_NAMES_H
#define TFC_BASE_NAMES_H

#include <stdbool.h>

#define TFC__JOB_ID_SIZE 17 /* with its NUL */
#define TFC__ROLE_NAME_MAX 63
#define TFC__LOG_NAME_MAX 200
#define TFC__STORE_KEY_MAX 255

/* 16 lower-case hex digits. In a request, what is not an id is the name of a job, or a prefix. */
bool tfc__is_job_id(const char *text);

/* The SHA-256 of a bundle: 64 lower-case hex digits. */
bool tfc__is_bundle_hash(const char *text);

/* 1 to TFC__ROLE_NAME_MAX of a-z, 0-9 and '_', a letter first. */
bool tfc__is_role_name(const char *text);

/* 1 to TFC__LOG_NAME_MAX bytes without '/', not beginning with '.'. */
bool tfc__is_log_name(const char *text);

/* Parts of [A-Za-z0-9._-] with '/' between them, none of which begins with '.'; a prefix is empty
 * or ends in '/'. At most TFC__STORE_KEY_MAX bytes. */
bool tfc__is_store_key(const char *text);
bool tfc__is_store_prefix(const char *text);

#endif
