/* Limits the number of ended jobs, their age and the size of their logs. */
#include "base/clock.h"
#include "cluster/internal.h"
#include "log/format.h"
#include "proc/proc.h"

static uint64_t record_end_time(const struct tfc__record *record)
{
	const struct tfc__journal *journal = &record->journal;
	return journal->count ? journal->entries[journal->count - 1].time_ns : record->submitted_ns;
}

/* The size of an ended job's logs as far as its journal knows: each task's log up to its last end,
 * without the part that was rotated away. Counted once, when the journal is stored. */
static uint64_t record_log_bytes(struct tfc__record *record)
{
	uint64_t bytes = 0;
	if (record->is_log_counted)
		return record->log_bytes;
	for (uint32_t i = 0; i < record->journal.task_count; i++) {
		const struct tfc__journal_entry *end = tfc__journal_last_end(&record->journal, i);
		uint64_t len = end && end->end.log_end != UINT64_MAX ? end->end.log_end : 0;
		bytes += len < TFC__LOG_KEPT ? len : TFC__LOG_KEPT;
	}
	record->log_bytes = bytes;
	record->is_log_counted = record->journal.count == record->journal.added;
	return bytes;
}

/* A job stays while it has readers, until it is stored, and if it is damaged, so that the reason
 * can be read. */
static bool record_is_removable(const struct tfc__record *record)
{
	return record->is_ended && !record->is_damaged && !record->put &&
	       tfc__observers_has_only(&record->journal.readers, &record->journal_watch) &&
	       record->journal.count == record->journal.added;
}

struct kept {
	struct tfc__record *oldest; /* the oldest that may be forgotten; NULL: none */
	uint64_t oldest_end;
	uint32_t jobs;
	uint64_t bytes;
};

static struct kept retention_count(struct tfc__directory *directory)
{
	struct kept kept = {0};
	TFC__LIST_EACH (link, &directory->records) {
		struct tfc__record *record = record_of(link);
		uint64_t end = record_end_time(record);
		if (!record->is_ended)
			continue;
		kept.jobs++;
		kept.bytes += record_log_bytes(record);
		if (record_is_removable(record) && (!kept.oldest || end < kept.oldest_end)) {
			kept.oldest = record;
			kept.oldest_end = end;
		}
	}
	return kept;
}

static bool retention_is_expired(const struct tfc__directory *directory, uint64_t end)
{
	uint64_t now = tfc__wall();
	uint64_t most = directory->options.retain_s * TFC__SECOND;
	return most && now > end && now - end >= most;
}

static void retention_schedule(struct tfc__directory *directory, const struct kept *kept)
{
	uint64_t most = directory->options.retain_s * TFC__SECOND;
	uint64_t now = tfc__wall();
	tfc__timer_cancel(&directory->tidy_later);
	if (!most || !kept->oldest)
		return;
	uint64_t at = kept->oldest_end + most;
	tfc__timer_set(&directory->tidy_later, tfc__now() + (at > now ? at - now : 0));
}

/* Forgets one job per turn, and schedules another turn. */
static void retention_run(struct tfc__work *work)
{
	struct tfc__directory *directory = tfc__container_of(work, struct tfc__directory, tidy);
	const struct tfc__directory_options *options = &directory->options;
	struct kept kept = retention_count(directory);
	const char *limit = NULL;
	if (options->retain_jobs && kept.jobs > options->retain_jobs)
		limit = "retain_jobs";
	else if (options->retain_bytes && kept.bytes > options->retain_bytes)
		limit = "retain_bytes";
	else if (kept.oldest && retention_is_expired(directory, kept.oldest_end))
		limit = "retain_s";
	if (!kept.oldest || !limit) {
		retention_schedule(directory, &kept);
		return;
	}
	tfc__log(directory->ctx, TFC_LOG_INFO, "cluster", kept.oldest->id,
		 "removing the oldest ended job: %s is exceeded", limit);
	if (tfc__record_forget(kept.oldest, NULL) == TFC_OK)
		tfc__work_schedule(&directory->tidy);
}

static void retention_on_timer(struct tfc__timer *timer)
{
	struct tfc__directory *directory = tfc__container_of(timer, struct tfc__directory,
							     tidy_later);
	tfc__work_schedule(&directory->tidy);
}

void tfc__retention_init(struct tfc__directory *directory)
{
	tfc__work_init(&directory->tidy, directory->ctx, retention_run);
	tfc__timer_init(&directory->tidy_later, directory->ctx, retention_on_timer);
}

void tfc__retention_check(struct tfc__directory *directory)
{
	tfc__work_schedule(&directory->tidy);
}
