/*
 * Error codes and messages.
 *
 * A call that can fail returns an int: 0 or more is success, below 0 is one of enum tfc_err. A call
 * that fails leaves its outputs (ret_x) unchanged. A parameter `error`, which may be NULL, receives
 * the message of a failure. Other calls on a context, or on a handle under it, leave the message in
 * the context (tfc_ctx_error). A call with neither sets no message, nor do tfc_ctx_post and
 * tfc_ctx_wake.
 *
 * A call may fail with TFC_EINVAL for a NULL argument also where its comment does not list it.
 */
#ifndef TFCLUSTER_ERROR_H
#define TFCLUSTER_ERROR_H

#include <stddef.h>
#include <stdint.h>
#include <tfcluster/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* name, number, what it means. Numbers never change; new ones are added at the end. */
#define TFC_ERR_MAP(X)                                                     \
	X(TFC_EINVAL, -1, "an argument or option is not valid")            \
	X(TFC_ENOMEM, -2, "out of memory")                                 \
	X(TFC_ENOTSUP, -3, "not supported by this version of the library") \
	X(TFC_EFORK, -4, "the context belongs to another process")         \
	X(TFC_ECANCELED, -5, "canceled")                                   \
	X(TFC_ETIMEDOUT, -6, "deadline exceeded")                          \
	X(TFC_EPARSE, -7, "the text is not well-formed")                   \
	X(TFC_ESPEC, -8, "not a valid cluster spec for TensorFlow")        \
	X(TFC_ETOOBIG, -9, "too large for the system or the format")       \
	X(TFC_ENOENT, -10, "not found")                                    \
	X(TFC_ENOEXEC, -11, "not executable")                              \
	X(TFC_ECWD, -12, "cannot change to the working directory")         \
	X(TFC_EACCES, -13, "permission denied")                            \
	X(TFC_EBUSY, -14, "already in use")                                \
	X(TFC_EEXHAUSTED, -15, "no free port in the pool")                 \
	X(TFC_EMFILE, -16, "too many open files")                          \
	X(TFC_EAGAIN, -17, "resource temporarily unavailable")             \
	X(TFC_ENOSPC, -18, "no space left on device")                      \
	X(TFC_ESYS, -19, "system call failed")                             \
	X(TFC_ELOST, -20, "lost: its supervisor or connection ended")      \
	X(TFC_ESTATE, -21, "not possible in this state")                   \
	X(TFC_EEXIST, -22, "already exists")                               \
	X(TFC_EARCHIVE, -23, "archive damaged or not allowed")             \
	X(TFC_ELIMIT, -24, "the system refused a requested limit or user") \
	X(TFC_EUNREACH, -25, "no server at that address")

enum tfc_err {
	TFC_OK = 0,
#define TFC_ERR_ENUM(name, number, text) name = number,
	TFC_ERR_MAP(TFC_ERR_ENUM)
#undef TFC_ERR_ENUM
};

/**
 * One failure. The layout never changes. `text` is one line: what failed, why, and the remedy where
 * there is one. It includes the message of the cause. `component` is a static string; NULL or
 * "" while nothing has failed. A struct of zeros is as good as TFC_ERROR_INIT.
 */
typedef struct tfc_error {
	int32_t code;          /* enum tfc_err; 0 when nothing failed yet */
	int32_t sys_errno;     /* the errno behind it, or 0 */
	const char *component; /* part of the library that failed: "spec", "port", ... */
	char text[1024];       /* one line, no newline, always terminated */
} tfc_error;

#define TFC_ERROR_INIT         \
	{                      \
		0, 0, NULL, "" \
	}

/**
 * The name of a code ("TFC_EINVAL"); "TFC_OK" for 0 and above, "TFC_E?" for an unknown one.
 * Static string. Thread: any. Errors: none.
 */
TFC_API const char *tfc_err_name(int code);

/**
 * What a code means in general, as in the map above. Prefer tfc_error.text where there is one.
 * Static string. Thread: any. Errors: none.
 */
TFC_API const char *tfc_err_text(int code);

#ifdef __cplusplus
}
#endif
#endif
