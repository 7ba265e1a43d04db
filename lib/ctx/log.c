#include "ctx/internal.h"

#include <stdio.h>

#include "base/utf8.h"

static bool log_is_enabled(const tfc_ctx *ctx, uint32_t level)
{
	return ctx->log && level != TFC_LOG_NONE && level <= ctx->log_level;
}

static void log_entry_report(tfc_ctx *ctx, uint32_t level, const char *component,
			     const char *subject, const char *text, const tfc_error *error)
{
	tfc_log_entry entry = {
		.size = sizeof(entry),
		.level = level,
		.component = component,
		.subject = subject ? subject : "",
		.text = text,
		.code = error ? error->code : 0,
		.sys_errno = error ? error->sys_errno : 0,
	};
	ctx->log(ctx->log_user, &entry);
}

void tfc__log(tfc_ctx *ctx, enum tfc_log_level level, const char *component, const char *subject,
	      const char *format, ...)
{
	char text[1024];
	if (!log_is_enabled(ctx, level))
		return;
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	tfc__make_plain_text(text); /* makes it one line of printable UTF-8 */
	log_entry_report(ctx, level, component, subject, text, NULL);
}

/* A failure that is reported to the host by a return value is also logged, for debugging the
 * host. */
int tfc__ctx_fail(tfc_ctx *ctx, int code, const char *component, int sys_errno, const char *format,
		  ...)
{
	va_list args;
	va_start(args, format);
	tfc__vfail(&ctx->error, code, component, sys_errno, format, args);
	va_end(args);
	if (log_is_enabled(ctx, TFC_LOG_DEBUG))
		log_entry_report(ctx, TFC_LOG_DEBUG, component, "", ctx->error.text, &ctx->error);
	return code;
}
