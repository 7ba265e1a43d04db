/*
 * Workers that follow the host's data: which partitions each one has, the node on which it
 * therefore must run, and what happens when partitions move.
 *
 * Partitions are assigned anew only when all workers are placed. A worker that moves alone keeps
 * its own partitions; otherwise two workers might have the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "cluster/maintainer_state.h"

/* The partitions of one worker. */
struct part {
	char *partitions; /* NULL: not assigned yet */
	struct tfc__strv env;
};

struct following {
	struct tfc__maintainer *maintainer;
	struct tfc__upstreams *upstreams;
	struct tfc__observer watch;
	uint32_t first; /* number of the first worker task; the others follow it */
	uint32_t count;
	struct part *parts;                   /* of the workers */
	char **wanted;                        /* per task of the job; NULL: anywhere */
	const struct tfc__upstream *response; /* while tasks are placed */
};

static const tfc_job *following_job(const struct following *following)
{
	return following->maintainer->info.job;
}

/* ---- changes */

static bool is_same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool is_same_share(const struct following *following,
			  const struct tfc__upstream_share *shares)
{
	for (uint32_t i = 0; i < following->count; i++)
		if (!is_same_text(following->wanted[following->first + i], shares[i].node) ||
		    !is_same_text(following->parts[i].partitions, shares[i].partitions))
			return false;
	return true;
}

/* Moves all workers: one that stayed could have partitions that another one gets now. */
static void move_workers(struct following *following)
{
	struct tfc__upstream_share *shares;
	const struct tfc__upstream *response;
	tfc_error error = TFC_ERROR_INIT;
	char text[160];
	if (tfc__upstreams_get(following->upstreams, following_job(following)->upstream, &error,
			       &response) < 0 ||
	    tfc__upstream_share(response, following->count, &shares) < 0)
		return; /* the next change retries */
	bool is_same = is_same_share(following, shares);
	tfc__upstream_shares_free(shares, following->count);
	if (is_same)
		return;
	snprintf(text, sizeof(text), "the partitions of %.80s have moved", response->name);
	tfc__maintainer_step(following->maintainer,
			     &(struct tfc__core_event){.kind = TFC__CORE_LEAVE,
						       .task = following->first,
						       .count = following->count,
						       .text = text});
}

static void on_upstream_event(struct tfc__observer *watch, const void *event)
{
	struct following *following = tfc__container_of(watch, struct following, watch);
	const struct tfc__upstream_event *upstream_event = event;
	struct tfc__maintainer *maintainer = following->maintainer;
	if (maintainer->end ||
	    strcmp(upstream_event->name, following_job(following)->upstream) != 0)
		return;
	maintainer->busy++;
	if (upstream_event->is_changed && following->parts[0].partitions &&
	    following_job(following)->on_upstream_change == TFC__UPSTREAM_RESTART)
		move_workers(following);
	tfc__maintainer_step(maintainer, &(struct tfc__core_event){.kind = TFC__CORE_ROOM});
	maintainer->busy--;
	tfc__maintainer_settle(maintainer);
}

/* ---- assigning partitions */

static bool is_following_worker(const struct following *following, uint32_t task)
{
	return task >= following->first && task - following->first < following->count;
}

static bool replace_text(char **field, const char *text)
{
	char *copy = text ? strdup(text) : NULL;
	if (text && !copy)
		return false;
	free(*field);
	*field = copy;
	return true;
}

static int assign_shares(struct following *following, const uint32_t *tasks, uint32_t task_count)
{
	struct tfc__upstream_share *shares;
	bool is_whole = true;
	if (tfc__upstream_share(following->response, following->count, &shares) < 0)
		return TFC_ENOMEM;
	for (uint32_t i = 0; i < task_count && is_whole; i++) {
		if (!is_following_worker(following, tasks[i]))
			continue;
		uint32_t worker = tasks[i] - following->first;
		is_whole = replace_text(&following->wanted[tasks[i]], shares[worker].node) &&
			   replace_text(&following->parts[worker].partitions,
					shares[worker].partitions);
	}
	tfc__upstream_shares_free(shares, following->count);
	return is_whole ? TFC_OK : TFC_ENOMEM;
}

typedef const struct tfc__upstream_partition *partition_ref;

static int partition_compare_names(const void *a, const void *b)
{
	const partition_ref *x = a, *y = b;
	return strcmp((*x)->name, (*y)->name);
}

/* key: a name in a list such as "0,3,7". */
static int partition_compare_listed(const void *key, const void *partition)
{
	const char *listed = key, *name = (*(const partition_ref *)partition)->name;
	size_t len = strcspn(listed, ",");
	int order = strncmp(listed, name, len);
	return order ? order : -(name[len] != '\0');
}

static int partition_compare_nodes(const void *a, const void *b)
{
	const partition_ref *x = a, *y = b;
	int order = strcmp((*x)->node, (*y)->node);
	return order ? order : (*x > *y) - (*x < *y);
}

/* The node that has most of the listed partitions; of several ones the owner of the first
 * partition; NULL: none has any. by_name: all partitions; owned: memory for as many. */
static const char *find_home_node(const char *list, const partition_ref *by_name, uint32_t count,
				  partition_ref *owned)
{
	partition_ref home = NULL; /* the first one there */
	uint32_t owned_count = 0, most = 0;
	for (const char *name = list; *name; name += strcspn(name, ","), name += *name == ',') {
		const partition_ref *found = bsearch(name, by_name, count, sizeof(*by_name),
						     partition_compare_listed);
		if (found && (*found)->node)
			owned[owned_count++] = *found;
	}
	qsort(owned, owned_count, sizeof(*owned), partition_compare_nodes);
	for (uint32_t first = 0, end = 0; first < owned_count; first = end) {
		while (end < owned_count && strcmp(owned[end]->node, owned[first]->node) == 0)
			end++;
		if (end - first > most || (end - first == most && owned[first] < home)) {
			home = owned[first];
			most = end - first;
		}
	}
	return home ? home->node : NULL;
}

static int keep_shares(struct following *following, const uint32_t *tasks, uint32_t task_count)
{
	const struct tfc__upstream *response = following->response;
	partition_ref *by_name = calloc(response->count, sizeof(*by_name));
	partition_ref *owned = calloc(response->count, sizeof(*owned));
	bool is_whole = by_name && owned;
	for (uint32_t i = 0; is_whole && i < response->count; i++)
		by_name[i] = &response->partitions[i];
	if (is_whole)
		qsort(by_name, response->count, sizeof(*by_name), partition_compare_names);
	for (uint32_t i = 0; is_whole && i < task_count; i++) {
		if (!is_following_worker(following, tasks[i]))
			continue;
		const struct part *part = &following->parts[tasks[i] - following->first];
		is_whole = replace_text(&following->wanted[tasks[i]],
					find_home_node(part->partitions, by_name, response->count,
						       owned));
	}
	free(by_name);
	free(owned);
	return is_whole ? TFC_OK : TFC_ENOMEM;
}

static bool is_share_known(const struct following *following, const uint32_t *tasks,
			   uint32_t task_count)
{
	for (uint32_t i = 0; i < task_count; i++)
		if (is_following_worker(following, tasks[i]) &&
		    !following->parts[tasks[i] - following->first].partitions)
			return false;
	return true;
}

static uint32_t count_workers(const struct following *following, const uint32_t *tasks,
			      uint32_t task_count)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < task_count; i++)
		count += is_following_worker(following, tasks[i]);
	return count;
}

int tfc__maintainer_follow(struct tfc__maintainer *maintainer, const uint32_t *tasks,
			   uint32_t task_count, tfc_error *error)
{
	struct following *following = maintainer->following;
	uint32_t workers = following ? count_workers(following, tasks, task_count) : 0;
	if (!workers)
		return TFC_OK;
	int code = tfc__upstreams_get(following->upstreams, following_job(following)->upstream,
				      error, &following->response);
	if (code < 0)
		return code;
	if (workers == following->count || !is_share_known(following, tasks, task_count))
		code = assign_shares(following, tasks, task_count);
	else
		code = keep_shares(following, tasks, task_count);
	return code < 0 ? tfc__fail_nomem(error, "cluster") : TFC_OK;
}

const char *const *tfc__maintainer_wanted(const struct tfc__maintainer *maintainer)
{
	return maintainer->following ? (const char *const *)maintainer->following->wanted : NULL;
}

int tfc__maintainer_followed(struct tfc__maintainer *maintainer, uint32_t task, const char *node)
{
	struct following *following = maintainer->following;
	if (!following || !is_following_worker(following, task))
		return TFC_OK;
	struct part *part = &following->parts[task - following->first];
	const struct tfc__upstream_share share = {.partitions = part->partitions};
	struct tfc__strv env = {0};
	tfc__upstream_environ(following->response, &share, node, &env);
	if (env.is_failed) {
		tfc__strv_fini(&env);
		return TFC_ENOMEM;
	}
	tfc__strv_fini(&part->env);
	part->env = env;
	return TFC_OK;
}

const char *const *tfc__maintainer_extra_env(const struct tfc__maintainer *maintainer,
					     uint32_t task)
{
	const struct following *following = maintainer->following;
	if (!following || !is_following_worker(following, task))
		return NULL;
	return (const char *const *)following->parts[task - following->first].env.items;
}

/* ---- opening and closing */

/* Returns the number of tasks of the role "worker", or 0. */
static uint32_t find_workers(const tfc_job *job, uint32_t *ret_first)
{
	*ret_first = 0;
	for (uint32_t i = 0; i < job->role_count; i++) {
		if (strcmp(job->roles[i].name, "worker") == 0)
			return job->roles[i].count;
		*ret_first += job->roles[i].count;
	}
	return 0;
}

int tfc__maintainer_follow_begin(struct tfc__maintainer *maintainer, tfc_error *error)
{
	const tfc_job *job = maintainer->info.job;
	uint32_t first, count = find_workers(job, &first);
	if (job->placement != TFC__PLACE_UPSTREAM || !count)
		return TFC_OK;
	struct following *following = calloc(1, sizeof(*following));
	if (!following)
		return tfc__fail_nomem(error, "cluster");
	maintainer->following = following;
	following->maintainer = maintainer;
	following->upstreams = tfc__nodes_upstreams(maintainer->nodes);
	following->first = first;
	following->count = count;
	tfc__observer_init(&following->watch, on_upstream_event);
	tfc__upstreams_watch(following->upstreams, &following->watch);
	following->parts = calloc(count, sizeof(*following->parts));
	following->wanted = calloc(maintainer->task_count, sizeof(*following->wanted));
	return following->parts && following->wanted ? TFC_OK : tfc__fail_nomem(error, "cluster");
}

void tfc__maintainer_follow_end(struct tfc__maintainer *maintainer)
{
	struct following *following = maintainer->following;
	if (!following)
		return;
	tfc__observer_remove(&following->watch);
	for (uint32_t i = 0; following->parts && i < following->count; i++) {
		free(following->parts[i].partitions);
		tfc__strv_fini(&following->parts[i].env);
	}
	for (uint32_t i = 0; following->wanted && i < maintainer->task_count; i++)
		free(following->wanted[i]);
	free(following->parts);
	free(following->wanted);
	free(following);
	maintainer->following = NULL;
}
