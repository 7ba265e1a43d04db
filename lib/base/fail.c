#include "base/fail.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

static const struct {
	int code;
	const char *name;
	const char *text;
} codes[] = {
#define CODE(name, number, text) {name, #name, text},
	TFC_ERR_MAP(CODE)
#undef CODE
};

#define CODE_COUNT (sizeof(codes) / sizeof(codes[0]))

const char *tfc_err_name(int code)
{
	if (code >= 0)
		return "TFC_OK";
	for (size_t i = 0; i < CODE_COUNT; i++)
		if (codes[i].code == code)
			return codes[i].name;
	return "TFC_E?";
}

const char *tfc_err_text(int code)
{
	if (code >= 0)
		return "success";
	for (size_t i = 0; i < CODE_COUNT; i++)
		if (codes[i].code == code)
			return codes[i].text;
	return "unknown error";
}

int tfc__err_from_errno(int sys_errno)
{
	switch (sys_errno) {
	case ENOMEM:
		return TFC_ENOMEM;
	case EMFILE:
	case ENFILE:
		return TFC_EMFILE;
	case ENOENT:
	case ENOTDIR:
		return TFC_ENOENT;
	case EACCES:
	case EISDIR:
	case EPERM:
	case EROFS:
		return TFC_EACCES;
	case ENOSPC:
	case EDQUOT:
		return TFC_ENOSPC;
	case EEXIST:
	case ENOTEMPTY:
		return TFC_EEXIST;
	case EADDRINUSE:
	case EBUSY:
		return TFC_EBUSY;
	case EAGAIN:
		return TFC_EAGAIN;
	case E2BIG:
		return TFC_ETOOBIG;
	case ENOEXEC:
		return TFC_ENOEXEC;
	default:
		return TFC_ESYS;
	}
}

int tfc__vfail(tfc_error *error, int code, const char *component, int sys_errno, const char *format,
	       va_list args)
{
	if (!error)
		return code;
	error->code = code;
	error->sys_errno = sys_errno;
	error->component = component;
	vsnprintf(error->text, sizeof(error->text), format, args);
	tfc__make_plain_text(error->text);
	return code;
}

int tfc__fail(tfc_error *error, int code, const char *component, int sys_errno, const char *format,
	      ...)
{
	va_list args;
	va_start(args, format);
	tfc__vfail(error, code, component, sys_errno, format, args);
	va_end(args);
	return code;
}

int tfc__fail_errno(tfc_error *error, const char *component, int sys_errno, const char *format, ...)
{
	int code = tfc__err_from_errno(sys_errno);
	va_list args;
	va_start(args, format);
	tfc__vfail(error, code, component, sys_errno, format, args);
	va_end(args);
	if (error) {
		size_t len = strlen(error->text);
		char reason[64];
		snprintf(error->text + len, sizeof(error->text) - len, ": %s",
			 strerror_r(sys_errno, reason, sizeof(reason)));
	}
	return code;
}

int tfc__fail_prefix(tfc_error *error, int code, const char *format, ...)
{
	if (!error)
		return code;
	char inner[sizeof(error->text)];
	memcpy(inner, error->text, sizeof(inner));
	va_list args;
	va_start(args, format);
	int len = vsnprintf(error->text, sizeof(error->text), format, args);
	va_end(args);
	if (len >= 0 && (size_t)len < sizeof(error->text))
		snprintf(error->text + len, sizeof(error->text) - (size_t)len, "%s", inner);
	tfc__make_plain_text(error->text);
	return code;
}

int tfc__fail_nomem(tfc_error *error, const char *component)
{
	return tfc__fail(error, TFC_ENOMEM, component, ENOMEM, "out of memory");
}
