/*
 * Launches, written ahead: an attempt is ordered only when the entry that reports it is kept. So a
 * later term knows every node where one may still be alive, and gives no attempt a number that
 * another one had.
 */
#include "base/fail.h"
#include "cluster/maintainer_state.h"

static void order_launch(struct tfc__maintainer *maintainer, uint32_t task)
{
	struct seen *seen = &maintainer->seen[task];
	const struct launch what = seen->launch;
	tfc_error error = TFC_ERROR_INIT;
	*seen = (struct seen){.link = seen->link,
			      .taken = seen->taken,
			      .address = seen->address,
			      .failed = seen->failed,
			      .failed_number = seen->failed_number,
			      .failure = seen->failure,
			      .log_end = seen->log_end};
	maintainer->launches--;
	int code = tfc__journal_promise(maintainer->journal, maintainer->task_count);
	if (code < 0)
		tfc__fail_nomem(&error, "cluster");
	else if ((code = tfc__maintainer_make_spec(maintainer, what.generation, &error)) < 0)
		tfc__log(maintainer->ctx, TFC_LOG_ERROR, "cluster", maintainer->info.id,
			 "cluster spec: %s", error.text);
	if (code < 0) {
		tfc__maintainer_fail(maintainer, task, TFC__CORE_REFUSED, what.attempt, &error);
		return;
	}
	const char *const *env = tfc__maintainer_extra_env(maintainer, task);
	if (env)
		seen->link->ops->set_env(seen->link->job, task, env);
	seen->link->ops->launch(seen->link->job, task, what.attempt, what.generation,
				maintainer->spec);
}

void tfc__maintainer_note_launch(struct tfc__maintainer *maintainer,
				 const struct tfc__core_action *action)
{
	struct seen *seen = &maintainer->seen[action->task];
	seen->launch = (struct launch){action->attempt, action->generation, 0};
	maintainer->launches++;
	maintainer->has_unmarked = true;
}

bool tfc__maintainer_drop_launch(struct tfc__maintainer *maintainer, uint32_t task)
{
	struct seen *seen = &maintainer->seen[task];
	if (!seen->launch.attempt)
		return false;
	seen->launch.attempt = 0;
	maintainer->launches--;
	return true;
}

void tfc__maintainer_mark_launches(struct tfc__maintainer *maintainer)
{
	if (!maintainer->has_unmarked)
		return;
	maintainer->has_unmarked = false;
	for (uint32_t i = 0; i < maintainer->task_count; i++)
		if (maintainer->seen[i].launch.attempt && !maintainer->seen[i].launch.mark)
			maintainer->seen[i].launch.mark = maintainer->journal->added;
	/* Before all other readers: they take their time. */
	if (tfc__list_is_empty(&maintainer->reader.link))
		tfc__list_append(maintainer->journal->readers.next, &maintainer->reader.link);
	tfc__work_schedule(&maintainer->launching);
}

void tfc__maintainer_on_shown(struct tfc__journal_reader *reader)
{
	struct tfc__maintainer *maintainer = tfc__container_of(reader, struct tfc__maintainer,
							       reader);
	tfc__work_schedule(&maintainer->launching);
}

void tfc__maintainer_launch_kept(struct tfc__work *work)
{
	struct tfc__maintainer *maintainer = tfc__container_of(work, struct tfc__maintainer,
							       launching);
	uint32_t kept = maintainer->journal->count;
	maintainer->busy++;
	maintainer->is_stepping = true; /* hooks of the host run inside */
	for (uint32_t i = 0; i < maintainer->task_count && maintainer->launches; i++) {
		const struct launch *launch = &maintainer->seen[i].launch;
		if (launch->attempt && launch->mark <= kept)
			order_launch(maintainer, i);
	}
	maintainer->is_stepping = false;
	if (maintainer->launches == 0)
		tfc__list_remove(&maintainer->reader.link);
	tfc__maintainer_accept_stop(maintainer);
	maintainer->busy--;
	tfc__maintainer_settle(maintainer);
}
