/*
 * Fills a tfc_error. `error` may be NULL everywhere. All functions return `code`, so that a failure
 * is one statement: return tfc__fail(error, TFC_EINVAL, "port", 0, "..."). The text is converted to
 * one line of UTF-8 without control characters.
 */
#ifndef TFC_BASE_FAIL_H
#define TFC_BASE_FAIL_H

#include <stdarg.h>
#include <tfcluster/error.h>

int tfc__fail(tfc_error *error, int code, const char *component, int sys_errno, const char *format,
	      ...) TFC_PRINTF(5, 6);

int tfc__vfail(tfc_error *error, int code, const char *component, int sys_errno, const char *format,
	       va_list args);

/* Like tfc__fail, with the code that corresponds to `sys_errno`; appends ": " and the text of
 * `sys_errno` to the message. */
int tfc__fail_errno(tfc_error *error, const char *component, int sys_errno, const char *format, ...)
	TFC_PRINTF(4, 5);

/* Prepends context to the message in `error`, such as "roles.worker: ". */
int tfc__fail_prefix(tfc_error *error, int code, const char *format, ...) TFC_PRINTF(3, 4);

/* The enum tfc_err that corresponds to an errno (ENOMEM, EMFILE, ENOENT, EACCES, ENOSPC ...);
 * TFC_ESYS for any other. */
int tfc__err_from_errno(int sys_errno);

/* The message for out of memory, without allocating. */
int tfc__fail_nomem(tfc_error *error, const char *component);

#endif
