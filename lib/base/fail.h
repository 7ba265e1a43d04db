/*
 * Filling a tfc_error. `error` may be NULL everywhere; all functions return `code`, so that a
 * failure is one statement: return tfc__fail(error, TFC_EINVAL, "port", 0, "..."). The text becomes
 * one line of UTF-8 without control characters, whatever was put into it.
 */
#ifndef TFC_BASE_FAIL_H
#define TFC_BASE_FAIL_H

#include <stdarg.h>
#include <tfcluster/error.h>

int tfc__fail(tfc_error *error, int code, const char *component, int sys_errno, const char *format,
	      ...) TFC_PRINTF(5, 6);

int tfc__vfail(tfc_error *error, int code, const char *component, int sys_errno, const char *format,
	       va_list args);

/* As tfc__fail with the code that fits `sys_errno`, and ": " and its text behind the sentence. */
int tfc__fail_errno(tfc_error *error, const char *component, int sys_errno, const char *format, ...)
	TFC_PRINTF(4, 5);

/* Puts context in front of the sentence that is there ("roles.worker: "). */
int tfc__fail_prefix(tfc_error *error, int code, const char *format, ...) TFC_PRINTF(3, 4);

/* The enum tfc_err that an errno means: ENOMEM, EMFILE, ENOENT, EACCES, ENOSPC ...; else TFC_ESYS.
 */
int tfc__err_from_errno(int sys_errno);

/* The sentence for out of memory, without allocating. */
int tfc__fail_nomem(tfc_error *error, const char *component);

#endif
