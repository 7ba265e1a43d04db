/*
 * Launches are written ahead: an attempt is launched only after the entry that reports it was
 * stored. So a later epoch knows every node where an attempt may be alive, and never uses the
 * number of an attempt twice.
 *
 * A PyTorch process that connects to rank 0 before rank 0 listens sleeps for a second, and only
 * then tries again (torch/csrc/distributed/c10d/socket.cpp). All ranks take equally long until
 * then, so half of the starts would lose this second. Therefore rank 0 gets a head start: the
 * others are launched when it listens, or HEAD_START later. On a busy machine with two cores, ranks
 * that were launched together arrived up to 0.25 s apart.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "cluster/maintainer_state.h"

#define HEAD_START (250 * TFC__MS)

static struct launch *launch_of(struct tfc__link *link)
{
	return tfc__container_of(link, struct launch, link);
}

void tfc__maintainer_drop_spec(struct tfc__maintainer *maintainer)
{
	if (!maintainer->spec_generation)
		return;
	maintainer->spec_generation = 0;
	for (uint32_t i = 0; i < maintainer->link_count; i++)
		maintainer->links[i]->spec_generation = 0;
}

static const char *seen_address(const void *user, uint32_t task)
{
	const struct tfc__maintainer *maintainer = user;
	return maintainer->seen[task].address;
}

/* Makes the cluster spec of a generation from the addresses that the agents have reported. */
static int make_cluster_spec(struct tfc__maintainer *maintainer, uint32_t generation,
			     tfc_error *error)
{
	const tfc_job *job = maintainer->info.job;
	const struct seen *seen = maintainer->seen;
	struct tfc__strv hosts = {0};
	tfc_spec *spec;
	int code = TFC_OK;
	if (maintainer->spec && maintainer->spec_generation == generation)
		return TFC_OK;
	if (tfc_spec_new(&spec) < 0)
		return tfc__fail_nomem(error, "cluster");
	for (uint32_t r = 0; r < job->role_count; r++) {
		const struct tfc__role *role = &job->roles[r];
		bool is_in_cluster = tfc__role_is_in_cluster(role->name);
		for (uint32_t i = 0; i < role->count && code == TFC_OK; i++, seen++)
			if (is_in_cluster && seen->address)
				code = tfc_spec_add(spec, role->name, i, seen->address, error);
	}
	tfc__job_hosts(job, seen_address, maintainer, &hosts);
	if (code == TFC_OK && hosts.is_failed)
		code = tfc__fail_nomem(error, "cluster");
	if (code < 0) {
		tfc_spec_free(spec);
		tfc__strv_fini(&hosts);
		return code;
	}
	tfc_spec_free(maintainer->spec);
	tfc__strv_fini(&maintainer->hosts);
	maintainer->spec = spec;
	maintainer->hosts = hosts;
	maintainer->spec_generation = generation;
	return TFC_OK;
}

static void order_launch(struct tfc__maintainer *maintainer, uint32_t task)
{
	struct seen *seen = &maintainer->seen[task];
	const struct tfc__task_order launch = {.kind = TFC__ORDER_LAUNCH,
					       .task = task,
					       .attempt = seen->launch.attempt,
					       .generation = seen->launch.generation};
	tfc_error error = TFC_ERROR_INIT;
	tfc__list_remove(&seen->launch.link);
	seen->pid = 0;
	seen->isolation = 0;
	seen->memory_limit = 0;
	seen->started_ns = 0;
	free(seen->output_loss);
	seen->output_loss = NULL;
	seen->is_stopped = false;
	int code = tfc__journal_promise(maintainer->journal, maintainer->task_count);
	if (code < 0)
		tfc__fail_nomem(&error, "cluster");
	else if ((code = make_cluster_spec(maintainer, launch.generation, &error)) < 0)
		tfc__log(maintainer->ctx, TFC_LOG_ERROR, "cluster", maintainer->info.id,
			 "cannot make the cluster spec: %s", error.text);
	if (code < 0) {
		tfc__maintainer_fail(maintainer, task, TFC__AGENT_REFUSED, launch.attempt, &error);
		return;
	}
	/* The spec is sent once per generation, unless an address changes: its size grows with the
	 * cluster. */
	struct agent_link *link = seen->link;
	const struct tfc__task_order spec = {.kind = TFC__ORDER_SPEC,
					     .generation = launch.generation,
					     .spec = maintainer->spec,
					     .hosts = (const char *const *)maintainer->hosts.items};
	const struct tfc__task_order env = {.kind = TFC__ORDER_ENV,
					    .task = task,
					    .env = tfc__maintainer_extra_env(maintainer, task)};
	if (link->spec_generation != launch.generation)
		link->ops->order(link->job, &spec);
	link->spec_generation = launch.generation;
	if (env.env)
		link->ops->order(link->job, &env);
	link->ops->order(link->job, &launch);
	if (task == maintainer->first_rank)
		tfc__timer_set(&maintainer->head_start, tfc__now() + HEAD_START);
}

static bool launch_must_wait(const struct tfc__maintainer *maintainer, uint32_t task)
{
	uint32_t first = maintainer->first_rank, index;
	if (first == UINT32_MAX || task == first)
		return false;
	const char *role = tfc__job_task_role(maintainer->info.job, task, &index)->name;
	bool is_first_pending = !tfc__list_is_empty(&maintainer->seen[first].launch.link);
	return tfc__role_is_in_cluster(role) && (is_first_pending || maintainer->head_start.at);
}

void tfc__maintainer_end_head_start(struct tfc__maintainer *maintainer)
{
	tfc__timer_cancel(&maintainer->head_start);
	if (!tfc__list_is_empty(&maintainer->late_launches))
		tfc__work_schedule(&maintainer->launching);
}

void tfc__maintainer_note_launch(struct tfc__maintainer *maintainer,
				 const struct tfc__task_order *order)
{
	struct seen *seen = &maintainer->seen[order->task];
	seen->launch.attempt = order->attempt;
	seen->launch.generation = order->generation;
	seen->launch.mark = 0;
	tfc__list_append(&maintainer->launches, &seen->launch.link);
}

bool tfc__maintainer_drop_launch(struct tfc__maintainer *maintainer, uint32_t task)
{
	struct tfc__link *link = &maintainer->seen[task].launch.link;
	bool is_waiting = !tfc__list_is_empty(link);
	tfc__list_remove(link);
	if (task == maintainer->first_rank)
		tfc__maintainer_end_head_start(maintainer);
	return is_waiting;
}

void tfc__maintainer_mark_launches(struct tfc__maintainer *maintainer)
{
	struct tfc__link *link = maintainer->launches.prev;
	if (link == &maintainer->launches || launch_of(link)->mark)
		return;
	for (; link != &maintainer->launches && !launch_of(link)->mark; link = link->prev)
		launch_of(link)->mark = maintainer->journal->added;
	/* Added before all other readers, which may take long. */
	if (!tfc__observer_is_added(&maintainer->reader))
		tfc__observers_add_first(&maintainer->journal->readers, &maintainer->reader);
	tfc__work_schedule(&maintainer->launching);
}

static void on_journal_shown(struct tfc__observer *reader, const void *event)
{
	struct tfc__maintainer *maintainer = tfc__container_of(reader, struct tfc__maintainer,
							       reader);
	tfc__work_schedule(&maintainer->launching);
}

static uint32_t launch_task(const struct tfc__maintainer *maintainer, struct tfc__link *link)
{
	const struct seen *seen = tfc__container_of(launch_of(link), struct seen, launch);
	return (uint32_t)(seen - maintainer->seen);
}

static void launch_stored(struct tfc__work *work)
{
	struct tfc__maintainer *maintainer = tfc__container_of(work, struct tfc__maintainer,
							       launching);
	struct tfc__link *launches = &maintainer->launches, *late = &maintainer->late_launches;
	uint32_t kept = maintainer->journal->count;
	maintainer->busy++;
	maintainer->is_stepping = true; /* hooks of the host are called inside */
	while (!tfc__list_is_empty(launches) && launch_of(launches->next)->mark <= kept) {
		struct tfc__link *link = launches->next;
		if (!launch_must_wait(maintainer, launch_task(maintainer, link))) {
			order_launch(maintainer, launch_task(maintainer, link));
		} else {
			tfc__list_remove(link);
			tfc__list_append(late, link);
		}
	}
	while (!tfc__list_is_empty(late) &&
	       !launch_must_wait(maintainer, launch_task(maintainer, late->next)))
		order_launch(maintainer, launch_task(maintainer, late->next));
	maintainer->is_stepping = false;
	if (tfc__list_is_empty(launches))
		tfc__observer_remove(&maintainer->reader);
	tfc__maintainer_accept_stop(maintainer);
	maintainer->busy--;
	tfc__maintainer_settle(maintainer);
}

static void on_head_start_over(struct tfc__timer *timer)
{
	tfc__maintainer_end_head_start(
		tfc__container_of(timer, struct tfc__maintainer, head_start));
}

/* Rank 0 is the chief, or else the first worker. */
static uint32_t find_first_rank(const tfc_job *job)
{
	uint32_t task = 0, worker = UINT32_MAX;
	if (job->framework != TFC_FRAMEWORK_PYTORCH)
		return UINT32_MAX;
	for (uint32_t r = 0; r < job->role_count; task += job->roles[r++].count) {
		if (job->roles[r].count && strcmp(job->roles[r].name, "chief") == 0)
			return task;
		if (job->roles[r].count && strcmp(job->roles[r].name, "worker") == 0)
			worker = task;
	}
	return worker;
}

void tfc__maintainer_launch_init(struct tfc__maintainer *maintainer)
{
	tfc__list_init(&maintainer->launches);
	tfc__list_init(&maintainer->late_launches);
	tfc__work_init(&maintainer->launching, maintainer->ctx, launch_stored);
	tfc__observer_init(&maintainer->reader, on_journal_shown);
	tfc__timer_init(&maintainer->head_start, maintainer->ctx, on_head_start_over);
	maintainer->first_rank = find_first_rank(maintainer->info.job);
}

void tfc__maintainer_launch_fini(struct tfc__maintainer *maintainer)
{
	tfc__timer_cancel(&maintainer->head_start);
	tfc__work_cancel(&maintainer->launching);
	tfc__observer_remove(&maintainer->reader);
}
