#include "cluster/upstream.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/utf8.h"

#define FRESH_NS TFC__SECOND       /* a response of this age is up to date */
#define RETRY_NS (5 * TFC__SECOND) /* after a refusal */
#define NAME_MAX_LEN 63

/* The state of one upstream. Entries are never removed; there are as many as jobs have named. */
struct entry {
	struct tfc__link link;
	struct tfc__upstreams *upstreams;
	struct tfc__upstream *response; /* NULL: no valid response */
	uint64_t wanted_version;        /* the latest version that the host has reported */
	uint64_t responded_at;          /* time of the response or refusal */
	tfc_error refusal;              /* code 0: none */
	tfc_upstream_request *request;
	struct tfc__timer timer; /* a change has settled, or a refusal is retried */
	uint64_t changing_since; /* 0: no change is pending */
	bool is_to_be_followed;  /* the next response follows a change */
	struct tfc__work reporting;
	char name[];
};

struct tfc_upstream_request {
	struct entry *entry;
	struct tfc__upstream *response; /* being made */
};

struct tfc__upstreams {
	tfc_ctx *ctx;
	tfc_upstream_ops ops; /* zeros: none */
	void *user;
	struct tfc__link entries;
	struct tfc__observers watches; /* of struct tfc__upstream_event */
	uint32_t busy;                 /* observers are being notified: memory is not freed */
	bool is_closed;
};

int tfc_upstream_ops_init(tfc_upstream_ops *ops, uint32_t size)
{
	return tfc__options_init(ops, size, sizeof(*ops));
}

/* ---- responses */

static void upstream_response_free(struct tfc__upstream *response)
{
	if (!response)
		return;
	for (uint32_t i = 0; i < response->count; i++) {
		free(response->partitions[i].name);
		free(response->partitions[i].node);
	}
	for (uint32_t i = 0; i < response->env_count; i++) {
		free(response->envs[i].node);
		free(response->envs[i].text);
	}
	free(response->partitions);
	free(response->envs);
	free(response->name);
	free(response);
}

static void upstream_request_free(tfc_upstream_request *request)
{
	upstream_response_free(request->response);
	free(request);
}

/* ---- notifying observers */

static void upstreams_leave(struct tfc__upstreams *upstreams);

static void upstream_report(struct tfc__work *work)
{
	struct entry *entry = tfc__container_of(work, struct entry, reporting);
	struct tfc__upstreams *upstreams = entry->upstreams;
	bool is_changed = entry->is_to_be_followed && entry->response;
	if (entry->response)
		entry->is_to_be_followed = false;
	upstreams->busy++;
	tfc__observers_notify(&upstreams->watches,
			      &(struct tfc__upstream_event){entry->name, is_changed});
	upstreams_leave(upstreams);
}

void tfc__upstreams_watch(struct tfc__upstreams *upstreams, struct tfc__observer *observer)
{
	tfc__observers_add(&upstreams->watches, observer);
}

/* ---- requests */

static void upstream_query(struct entry *entry)
{
	struct tfc__upstreams *upstreams = entry->upstreams;
	tfc_upstream_request *request = calloc(1, sizeof(*request));
	struct tfc__upstream *response = calloc(1, sizeof(*response));
	if (response)
		response->name = strdup(entry->name);
	if (!request || !response || !response->name) {
		upstream_response_free(response);
		free(request);
		return; /* the caller retries */
	}
	request->entry = entry;
	request->response = response;
	entry->request = request;
	upstreams->ops.resolve(upstreams->user, entry->name, request);
}

/* A change has settled, or a refusal can be retried. */
static void upstream_on_timer(struct tfc__timer *timer)
{
	struct entry *entry = tfc__container_of(timer, struct entry, timer);
	if (entry->changing_since) {
		entry->changing_since = 0;
		entry->is_to_be_followed = true;
		if (!entry->request && !entry->response)
			upstream_query(entry);
	}
	if (!entry->request)
		tfc__work_schedule(&entry->reporting);
}

static struct entry *upstream_find(struct tfc__upstreams *upstreams, const char *name)
{
	TFC__LIST_EACH (link, &upstreams->entries) {
		struct entry *entry = tfc__container_of(link, struct entry, link);
		if (strcmp(entry->name, name) == 0)
			return entry;
	}
	return NULL;
}

static struct entry *upstream_find_or_add(struct tfc__upstreams *upstreams, const char *name)
{
	struct entry *entry = upstream_find(upstreams, name);
	if (entry)
		return entry;
	entry = calloc(1, sizeof(*entry) + strlen(name) + 1);
	if (!entry)
		return NULL;
	entry->upstreams = upstreams;
	strcpy(entry->name, name);
	tfc__timer_init(&entry->timer, upstreams->ctx, upstream_on_timer);
	tfc__work_init(&entry->reporting, upstreams->ctx, upstream_report);
	tfc__list_append(&upstreams->entries, &entry->link);
	return entry;
}

static bool upstream_is_fresh(const struct entry *entry)
{
	return entry->responded_at && tfc__now() - entry->responded_at < FRESH_NS;
}

#define WAIT(error, ...) tfc__fail(error, TFC_EAGAIN, "cluster", 0, __VA_ARGS__)

int tfc__upstreams_get(struct tfc__upstreams *upstreams, const char *name, tfc_error *error,
		       const struct tfc__upstream **ret_upstream)
{
	if (!upstreams->ops.resolve)
		return tfc__fail(error, TFC_ENOENT, "cluster", 0,
				 "unknown upstream \"%.80s\": the node has no upstreams (options "
				 "upstream_map, upstream)",
				 name);
	struct entry *entry = upstream_find_or_add(upstreams, name);
	if (!entry)
		return tfc__fail_nomem(error, "cluster");
	if (!entry->request && !upstream_is_fresh(entry)) {
		entry->refusal.code = 0;
		upstream_query(entry);
		if (!entry->request && !upstream_is_fresh(entry))
			return tfc__fail_nomem(error, "cluster");
	}
	if (entry->request)
		return WAIT(error, "waiting for the host to locate the partitions of \"%.80s\"",
			    name);
	if (!entry->response)
		return WAIT(error, "upstream \"%.80s\": %s", name, entry->refusal.text);
	*ret_upstream = entry->response;
	return TFC_OK;
}

void tfc__upstreams_changed(struct tfc__upstreams *upstreams, const char *name, uint64_t version)
{
	struct entry *entry = upstream_find(upstreams, name);
	uint64_t now = tfc__now();
	if (!entry || (entry->response && version <= entry->response->version))
		return;
	if (version > entry->wanted_version)
		entry->wanted_version = version;
	if (!entry->changing_since)
		entry->changing_since = now;
	uint64_t settled = now + TFC__UPSTREAM_SETTLE_MS * TFC__MS;
	uint64_t at_last = entry->changing_since + TFC__UPSTREAM_SETTLE_MAX * TFC__MS;
	tfc__timer_set(&entry->timer, settled < at_last ? settled : at_last);
	upstream_response_free(entry->response);
	entry->response = NULL;
	entry->responded_at = 0;
	tfc__work_schedule(&entry->reporting); /* waiting jobs request it at once */
}

/* ---- functions for the host */

static int upstream_enter(tfc_upstream_request *request)
{
	return tfc__ctx_enter(request ? request->entry->upstreams->ctx : NULL);
}

static int upstream_fail_invalid(const tfc_upstream_request *request, const char *text)
{
	return tfc__ctx_fail(request->entry->upstreams->ctx, TFC_EINVAL, "cluster", 0, "%s", text);
}

static int upstream_fail_nomem(const tfc_upstream_request *request)
{
	return tfc__fail_nomem(tfc__ctx_error(request->entry->upstreams->ctx), "cluster");
}

static bool is_partition_name(const char *name)
{
	size_t len = name ? strlen(name) : 0;
	return len && len <= NAME_MAX_LEN && tfc__is_plain_text(name) && !strpbrk(name, " ,");
}

/* Grows an array with `count` elements for one more, by doubling. */
static void *upstream_grow(void *items, uint32_t count, size_t size)
{
	if (count & (count - 1)) /* not a power of two: there is space */
		return items;
	return realloc(items, (count ? 2 * (size_t)count : 1) * size);
}

int tfc_upstream_add_partition(tfc_upstream_request *request, const char *partition,
			       const char *node)
{
	int code = upstream_enter(request);
	if (code < 0)
		return code;
	if (!is_partition_name(partition))
		return upstream_fail_invalid(request,
					     "a partition's name must have 1 to 63 bytes, without "
					     "commas, blanks and control characters");
	if (node && !*node)
		return upstream_fail_invalid(request, "node is empty; NULL stands for any node");
	struct tfc__upstream *response = request->response;
	void *grown = upstream_grow(response->partitions, response->count,
				    sizeof(response->partitions[0]));
	char *name = strdup(partition), *owner = node ? strdup(node) : NULL;
	if (grown)
		response->partitions = grown;
	if (!grown || !name || (node && !owner)) {
		free(name);
		free(owner);
		return upstream_fail_nomem(request);
	}
	response->partitions[response->count++] = (struct tfc__upstream_partition){name, owner};
	return TFC_OK;
}

int tfc_upstream_add_env(tfc_upstream_request *request, const char *node, const char *name,
			 const char *value)
{
	int code = upstream_enter(request);
	if (code < 0)
		return code;
	if (!name || !*name || strchr(name, '=') || !value)
		return upstream_fail_invalid(
			request, "a variable must have a name without '=', and a value");
	struct tfc__upstream *response = request->response;
	void *grown = upstream_grow(response->envs, response->env_count, sizeof(response->envs[0]));
	char *text = malloc(strlen(name) + strlen(value) + 2), *where = node ? strdup(node) : NULL;
	if (grown)
		response->envs = grown;
	if (!grown || !text || (node && !where)) {
		free(text);
		free(where);
		return upstream_fail_nomem(request);
	}
	stpcpy(stpcpy(stpcpy(text, name), "="), value);
	response->envs[response->env_count++] = (struct tfc__upstream_env){where, text};
	return TFC_OK;
}

/* Ends the request; observers are notified in a turn of their own. */
static void upstream_request_end(tfc_upstream_request *request)
{
	struct entry *entry = request->entry;
	entry->request = NULL;
	entry->responded_at = tfc__now();
	upstream_request_free(request);
	tfc__work_schedule(&entry->reporting);
}

static int upstream_refuse(tfc_upstream_request *request, const char *text)
{
	struct entry *entry = request->entry;
	tfc__fail(&entry->refusal, TFC_EAGAIN, "cluster", 0, "%.200s", text);
	upstream_response_free(entry->response);
	entry->response = NULL;
	if (!entry->changing_since)
		tfc__timer_set(&entry->timer, tfc__now() + RETRY_NS);
	upstream_request_end(request);
	return TFC_OK;
}

static int compare_partition_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Returns 1 if a name occurs twice. */
static int has_duplicate_partition(const struct tfc__upstream *response)
{
	const char **names = calloc(response->count, sizeof(*names));
	int found = 0;
	if (!names)
		return TFC_ENOMEM;
	for (uint32_t i = 0; i < response->count; i++)
		names[i] = response->partitions[i].name;
	qsort(names, response->count, sizeof(*names), compare_partition_names);
	for (uint32_t i = 1; i < response->count && !found; i++)
		found = strcmp(names[i], names[i - 1]) == 0;
	free(names);
	return found;
}

/* An invalid response also ends the request, which would stay open otherwise. */
static int upstream_refuse_invalid(tfc_upstream_request *request, int code, const char *text)
{
	tfc_ctx *ctx = request->entry->upstreams->ctx;
	upstream_refuse(request, text);
	return tfc__ctx_fail(ctx, code, "cluster", 0, "%s", text);
}

int tfc_upstream_complete(tfc_upstream_request *request, uint64_t version)
{
	int code = upstream_enter(request);
	if (code < 0)
		return code;
	struct entry *entry = request->entry;
	if (!request->response->count)
		return upstream_refuse_invalid(request, TFC_EINVAL,
					       "the host's response names no partition");
	if ((code = has_duplicate_partition(request->response)) < 0)
		return upstream_refuse_invalid(request, code, "out of memory");
	if (code > 0)
		return upstream_refuse_invalid(request, TFC_EINVAL,
					       "the host's response names a partition twice");
	if (version < entry->wanted_version)
		return upstream_refuse(request,
				       "the host's response is older than the reported change");
	upstream_response_free(entry->response);
	entry->response = request->response;
	entry->response->version = version;
	request->response = NULL;
	upstream_request_end(request);
	return TFC_OK;
}

int tfc_upstream_fail(tfc_upstream_request *request, const char *text)
{
	int code = upstream_enter(request);
	if (code < 0)
		return code;
	return upstream_refuse(request, text && *text ? text : "unknown to the host");
}

/* ---- opening and closing */

int tfc__upstreams_open(tfc_ctx *ctx, const tfc_upstream_ops *ops, void *user, tfc_error *error,
			struct tfc__upstreams **ret_upstreams)
{
	tfc_upstream_ops known;
	int code = tfc__options_copy(&known, sizeof(known), ops, "cluster", "tfc_upstream_ops",
				     offsetof(tfc_upstream_ops, reserved), error);
	if (code < 0)
		return code;
	if (ops && (!known.resolve || !known.cancel))
		return tfc__fail(error, TFC_EINVAL, "cluster", 0, "tfc_upstream_ops.%s is NULL",
				 known.resolve ? "cancel" : "resolve");
	struct tfc__upstreams *upstreams = calloc(1, sizeof(*upstreams));
	if (!upstreams)
		return tfc__fail_nomem(error, "cluster");
	upstreams->ctx = ctx;
	upstreams->ops = known;
	upstreams->user = user;
	tfc__list_init(&upstreams->entries);
	tfc__observers_init(&upstreams->watches);
	*ret_upstreams = upstreams;
	return TFC_OK;
}

static void upstreams_leave(struct tfc__upstreams *upstreams)
{
	if (--upstreams->busy || !upstreams->is_closed)
		return;
	TFC__LIST_EACH (link, &upstreams->entries) {
		struct entry *entry = tfc__container_of(link, struct entry, link);
		upstream_response_free(entry->response);
		free(entry);
	}
	free(upstreams);
}

static void upstream_close(struct entry *entry)
{
	tfc_upstream_request *request = entry->request;
	tfc__timer_cancel(&entry->timer);
	tfc__work_cancel(&entry->reporting);
	if (!request)
		return;
	entry->request = NULL;
	entry->upstreams->ops.cancel(entry->upstreams->user, request);
	upstream_request_free(request);
}

void tfc__upstreams_close(struct tfc__upstreams *upstreams)
{
	if (!upstreams)
		return;
	upstreams->is_closed = true;
	upstreams->busy++;
	tfc__observers_close(&upstreams->watches);
	TFC__LIST_EACH (link, &upstreams->entries)
		upstream_close(tfc__container_of(link, struct entry, link));
	upstreams_leave(upstreams);
}
