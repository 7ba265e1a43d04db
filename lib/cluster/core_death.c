/* The class of a death and its text. */
#include "cluster/core_state.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define SHELL_SIGNAL 128 /* a shell in between turns signal N into exit 128 + N */
/* PreemptionCheckpointHandler, after it has saved: distribute/failure_handling. */
#define EXIT_PREEMPTED 42
#define EXIT_PREEMPTED_GCE 143

static const char *signal_name(int number)
{
	static const struct {
		int number;
		const char *name;
	} names[] = {
		{SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"},
		{SIGILL, "SIGILL"},   {SIGTRAP, "SIGTRAP"}, {SIGABRT, "SIGABRT"},
		{SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},   {SIGKILL, "SIGKILL"},
		{SIGUSR1, "SIGUSR1"}, {SIGSEGV, "SIGSEGV"}, {SIGUSR2, "SIGUSR2"},
		{SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"}, {SIGTERM, "SIGTERM"},
		{SIGXCPU, "SIGXCPU"}, {SIGXFSZ, "SIGXFSZ"}, {SIGSYS, "SIGSYS"},
	};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].number == number)
			return names[i].name;
	return NULL;
}

static bool is_signal_retryable(int number)
{
	return number == SIGKILL || number == SIGTERM || number == SIGINT || number == SIGHUP;
}

enum death_class tfc__death_class(const struct tfc__core *core,
				  const struct tfc__attempt_end *death)
{
	if (death->is_oom)
		return CLASS_PERMANENT;
	if (death->is_port_occupied || death->is_bind_failed)
		return CLASS_RETRYABLE;
	bool is_retryable = false;
	switch (death->reason) {
	case TFC_EXIT_CODE:
		if (death->status == 0)
			return CLASS_DONE;
		is_retryable = (core->policy.is_tensorflow && death->status == EXIT_PREEMPTED) ||
			       is_signal_retryable(death->status - SHELL_SIGNAL);
		break;
	case TFC_EXIT_SIGNAL:
		is_retryable = is_signal_retryable(death->status);
		break;
	case TFC_EXIT_LOST:
		is_retryable = true;
		break;
	case TFC_EXIT_NOT_STARTED:
		is_retryable = death->status == TFC_EAGAIN || death->status == TFC_EMFILE ||
			       death->status == TFC_ENOMEM;
		break;
	}
	return is_retryable ? CLASS_RETRYABLE : CLASS_PERMANENT;
}

bool tfc__death_is_preemption(const struct tfc__core *core, const struct task *t)
{
	const struct tfc__attempt_end *death = &t->death;
	return core->policy.is_tensorflow && t->ready_at && !death->is_port_occupied &&
	       death->reason == TFC_EXIT_CODE &&
	       (death->status == EXIT_PREEMPTED || death->status == EXIT_PREEMPTED_GCE);
}

bool tfc__death_is_loss(const struct tfc__core *core, const struct task *t)
{
	return t->death.reason == TFC_EXIT_LOST || tfc__death_is_preemption(core, t);
}

/* A signal as the kernel reports it, or a shell in between. */
static bool death_is_crash(const struct tfc__attempt_end *death)
{
	int number = death->reason == TFC_EXIT_SIGNAL ? death->status
		     : death->reason == TFC_EXIT_CODE ? death->status - SHELL_SIGNAL
						      : 0;
	return death->is_oom || number == SIGKILL || number == SIGSEGV || number == SIGABRT ||
	       number == SIGBUS;
}

static bool death_is_notice(const struct tfc__core *core, const struct task *t)
{
	return tfc__death_is_preemption(core, t) || t->death.had_notice;
}

/*
 * A mirrored worker whose peer was killed waits in a collective operation that never ends. It does
 * not end on SIGTERM and has nothing to save, and each second is lost training. If a member of the
 * group was preempted, this does not hold: the notice reached all members, which save their state.
 */
enum grace tfc__death_grace(const struct tfc__core *core, const struct task *t)
{
	bool is_mirrored = core->policy.strategy == TFC_STRATEGY_MULTI_WORKER_MIRRORED;
	bool is_preempted = death_is_notice(core, t);
	if (tfc__task_role(core, t)->scope != TFC__SCOPE_GROUP)
		return GRACE_ABORT;
	for (const struct task *u = core->judged; u; u = u->judged)
		is_preempted |= death_is_notice(core, u);
	if (is_preempted)
		return GRACE_SAVE;
	return core->policy.is_abort_auto && is_mirrored && death_is_crash(&t->death) ? GRACE_NONE
										      : GRACE_ABORT;
}

bool tfc__death_is_explainable(const struct tfc__attempt_end *death)
{
	if (death->is_oom)
		return false;
	return death->reason == TFC_EXIT_CODE || death->reason == TFC_EXIT_SIGNAL;
}

uint32_t tfc__death_reason(const struct tfc__attempt_end *death)
{
	if (death->is_port_occupied)
		return TFC_END_FOREIGN_LISTENER;
	switch (death->reason) {
	case TFC_EXIT_CODE:
		return TFC_END_EXIT;
	case TFC_EXIT_SIGNAL:
		return TFC_END_SIGNAL;
	case TFC_EXIT_NOT_STARTED:
		if (death->status == TFC_ENOENT)
			return TFC_END_NOT_FOUND;
		if (death->status == TFC_ENOEXEC || death->status == TFC_EACCES)
			return TFC_END_NOT_EXECUTABLE;
		return TFC_END_REFUSED;
	default:
		return TFC_END_LOST;
	}
}

void tfc__text_add(char *text, size_t size, const char *format, ...)
{
	size_t len = strlen(text);
	va_list args;
	va_start(args, format);
	vsnprintf(text + len, size - len, format, args);
	va_end(args);
}

void tfc__text_name(const struct tfc__core *core, const struct task *t, char *text, size_t size)
{
	snprintf(text, size, "%s/%u", tfc__task_role(core, t)->name, t->index);
}

static void death_text_add_status(const struct tfc__attempt_end *death, char *text, size_t size)
{
	char limit[TFC__MEMORY_TEXT_SIZE];
	bool is_signal = death->reason == TFC_EXIT_SIGNAL;
	const char *name = signal_name(is_signal ? death->status : death->status - SHELL_SIGNAL);
	if (!is_signal)
		tfc__text_add(text, size, " exited with %d", death->status);
	if (!is_signal && name)
		tfc__text_add(text, size, " (%s)", name);
	if (is_signal && name)
		tfc__text_add(text, size, " died of %s", name);
	if (is_signal && !name)
		tfc__text_add(text, size, " died of signal %d", death->status);
	if (death->is_oom)
		tfc__text_add(text, size, ": it was out of memory");
	if (death->is_oom && death->memory_limit) {
		tfc__memory_text(death->memory_limit, limit);
		tfc__text_add(text, size, ": it used more than its memory_limit of %s", limit);
	}
}

void tfc__death_status_text(const struct tfc__core *core, const struct task *t, char *text,
			    size_t size)
{
	const struct tfc__attempt_end *death = &t->death;
	tfc__text_name(core, t, text, size);
	if (death->is_port_occupied)
		tfc__text_add(text, size, " has a foreign listener on its port");
	else if (death->reason == TFC_EXIT_NOT_STARTED)
		tfc__text_add(text, size, " could not be started");
	else if (death->reason == TFC_EXIT_LOST)
		tfc__text_add(text, size, " was lost");
	else
		death_text_add_status(death, text, size);
}

void tfc__death_text_add_why(const struct task *t, char *text, size_t size)
{
	if (t->why[0])
		tfc__text_add(text, size, ": %s", t->why);
}

void tfc__death_text(const struct tfc__core *core, const struct task *t, char *text, size_t size)
{
	tfc__death_status_text(core, t, text, size);
	tfc__death_text_add_why(t, text, size);
}
