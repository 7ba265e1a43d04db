/*
 * What can go wrong, and where to read the sentence about it.
 *
 * Every call that can fail returns an int: 0 or more is success, below 0 is one of enum tfc_err.
 * The sentence goes into a struct tfc_error: calls on a context keep it there (tfc_ctx_error),
 * calls on plain values (tfc_spec, tfc_job, tfc_bundle) take a pointer to one, which may be NULL.
 */
#ifndef TFCLUSTER_ERROR_H
#define TFCLUSTER_ERROR_H

#include <stdint.h>
#include <tfcluster/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* name, number, what it means. Numbers never change; new ones are added at the end. */
#define TFC_ERR_MAP(X)                                                                      \
	X(TFC_EINVAL, -1, "an argument or option is not valid")                             \
	X(TFC_ENOMEM, -2, "out of memory")                                                  \
	X(TFC_ENOTSUP, -3, "this version of the library does not know or offer that")       \
	X(TFC_EFORK, -4, "the context belongs to another process: this one was forked off") \
	X(TFC_ECANCELED, -5, "canceled")                                                    \
	X(TFC_ETIMEDOUT, -6, "the deadline passed")                                         \
	X(TFC_EPARSE, -7, "the text is not well-formed")                                    \
	X(TFC_ESPEC, -8, "TensorFlow would refuse this cluster spec")                       \
	X(TFC_ETOOBIG, -9, "larger than the system or the format allows")                   \
	X(TFC_ENOENT, -10, "not found")                                                     \
	X(TFC_ENOEXEC, -11, "not executable")                                               \
	X(TFC_ECWD, -12, "the working directory cannot be entered")                         \
	X(TFC_EACCES, -13, "not permitted")                                                 \
	X(TFC_EBUSY, -14, "already in use")                                                 \
	X(TFC_EEXHAUSTED, -15, "no free port is left in the pool")                          \
	X(TFC_EMFILE, -16, "too many open files")                                           \
	X(TFC_EAGAIN, -17, "too many processes, or another limit that may pass")            \
	X(TFC_ENOSPC, -18, "no space left")                                                 \
	X(TFC_ESYS, -19, "a system call failed")                                            \
	X(TFC_ELOST, -20, "lost: its supervisor is gone")                                   \
	X(TFC_ESTATE, -21, "not possible in this state")                                    \
	X(TFC_EEXIST, -22, "exists already")                                                \
	X(TFC_EARCHIVE, -23, "the archive is damaged or not allowed")                       \
	X(TFC_ELIMIT, -24, "the system refuses a limit or user that was asked for")         \
	X(TFC_EUNREACH, -25, "nobody answers at that address")

enum tfc_err {
	TFC_OK = 0,
#define TFC_ERR_ENUM(name, number, text) name = number,
	TFC_ERR_MAP(TFC_ERR_ENUM)
#undef TFC_ERR_ENUM
};

/**
 * One failure. The layout is frozen. `text` is one line that names the thing and the remedy; it
 * already holds the lower layer's words. `component` is a static string. A struct of zeros is as
 * good as TFC_ERROR_INIT.
 */
typedef struct tfc_error {
	int32_t code;          /* enum tfc_err; 0 when nothing failed yet */
	int32_t sys_errno;     /* the errno behind it, or 0 */
	const char *component; /* part of the library that failed: "spec", "port", ... */
	char text[1024];       /* one line, no newline, always terminated */
} tfc_error;

#define TFC_ERROR_INIT       \
	{                    \
		0, 0, "", "" \
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
