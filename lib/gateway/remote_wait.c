#include "gateway/remote_wait.h"

#include <stdio.h>

#include "base/clock.h"
#include "gateway/sub.h"

void tfc__remote_wait_lose(struct tfc__remote_wait *wait, const tfc_error *why, uint64_t patience,
			   uint64_t unknown_patience)
{
	if (wait->kind != TFC__WAIT_LOST) {
		wait->lost_since = wait->relayed_since ? wait->relayed_since : tfc__now();
		wait->unknown_since = 0;
		wait->is_logged = false;
	}
	if (why->code != TFC_ENOENT)
		wait->unknown_since = 0;
	else if (!wait->unknown_since)
		wait->unknown_since = tfc__now();
	wait->kind = TFC__WAIT_LOST;
	wait->until = wait->lost_since + patience;
	if (wait->unknown_since && wait->unknown_since + unknown_patience < wait->until)
		wait->until = wait->unknown_since + unknown_patience;
	wait->error = *why;
}

void tfc__remote_wait_connect(struct tfc__remote_wait *wait)
{
	if (wait->kind == TFC__WAIT_LOST)
		wait->kind = TFC__WAIT_NONE;
	wait->is_logged = wait->is_due = false;
}

bool tfc__remote_wait_silence(struct tfc__remote_wait *wait, const char *node,
			      const tfc_error *error)
{
	if (wait->is_reported)
		return false;
	wait->kind = TFC__WAIT_SILENT;
	wait->error = *error;
	snprintf(wait->neighbor, sizeof(wait->neighbor), "%s", node);
	return true;
}

bool tfc__remote_wait_respond(struct tfc__remote_wait *wait)
{
	if (wait->kind != TFC__WAIT_SILENT)
		return false;
	wait->kind = TFC__WAIT_NONE;
	wait->is_due = false;
	return true;
}

void tfc__remote_wait_relay(struct tfc__remote_wait *wait)
{
	if (!wait->relayed_since)
		wait->relayed_since = tfc__now();
}

bool tfc__remote_wait_end(struct tfc__remote_wait *wait)
{
	bool was_reported = wait->is_reported;
	if (wait->kind == TFC__WAIT_SILENT)
		wait->kind = TFC__WAIT_NONE;
	wait->is_reported = false;
	wait->relayed_since = 0;
	return was_reported;
}

bool tfc__remote_wait_make_due(struct tfc__remote_wait *wait)
{
	wait->is_due = !wait->is_reported || wait->reported_code != wait->error.code;
	return wait->is_due;
}

void tfc__remote_wait_event(struct tfc__remote_wait *wait, const char *text, tfc_event *ret_event)
{
	wait->is_due = false;
	*ret_event = (tfc_event)TFC__EVENT_INIT;
	ret_event->kind = TFC_EVENT_RECONNECTING;
	ret_event->time_ns = tfc__wall();
	ret_event->error_code = wait->error.code;
	ret_event->node = wait->kind == TFC__WAIT_SILENT ? wait->neighbor : wait->node;
	ret_event->text = text;
}

void tfc__remote_wait_note_report(struct tfc__remote_wait *wait, const tfc_event *event)
{
	wait->is_reported = true;
	wait->reported_code = event->error_code;
}

void tfc__remote_wait_text(const struct tfc__remote_wait *wait, const char *what,
			   char ret_text[TFC__WAIT_TEXT_SIZE])
{
	uint64_t now = tfc__now(), left = wait->until > now ? wait->until - now : 0;
	if (wait->kind == TFC__WAIT_SILENT)
		snprintf(ret_text, TFC__WAIT_TEXT_SIZE, "%s: %s; still waiting", what,
			 wait->error.text);
	else
		snprintf(ret_text, TFC__WAIT_TEXT_SIZE, "%s; retrying for %llu s at most: %s", what,
			 (unsigned long long)((left + TFC__SECOND - 1) / TFC__SECOND),
			 wait->error.text);
}
