#include "cluster/upstream.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/utf8.h"

#define FRESH_NS TFC__SECOND           /* an answer of this age is up to date */
#define ASK_AGAIN_NS (5 * TFC__SECOND) /* after a refusal */
#define NAME_MAX_LEN 63

/* The state of one upstream. Entries are never removed; there are as many as jobs have named. */
struct entry {
	struct tfc__link link;
	struct tfc__upstreams *upstreams;
	struct tfc__upstream *answer; /* NULL: no valid answer */
	uint64_t wanted_version;      /* the latest version that the host has reported */
	uint64_t answered_at;         /* time of the answer or refusal */
	tfc_error refusal;            /* code 0: none */
	tfc_upstream_request *question;
	struct tfc__timer timer; /* a change has settled, or a refusal is retried */
	uint64_t changing_since; /* 0: no change is pending */
	bool is_to_be_followed;  /* the next answer follows a change */
	struct tfc__work reporting;
	char name[];
};

struct tfc_upstream_request {
	struct entry *entry;
	struct tfc__upstream *answer; /* being made */
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

/* ---- answers */

static void free_answer(struct tfc__upstream *answer)
{
	if (!answer)
		return;
	for (uint32_t i = 0; i < answer->count; i++) {
		free(answer->partitions[i].name);
		free(answer->partitions[i].node);
	}
	for (uint32_t i = 0; i < answer->env_count; i++) {
		free(answer->envs[i].node);
		free(answer->envs[i].text);
	}
	free(answer->partitions);
	free(answer->envs);
	free(answer->name);
	free(answer);
}

static void free_question(tfc_upstream_request *question)
{
	free_answer(question->answer);
	free(question);
}

static struct tfc__upstream *new_answer(const char *name)
{
	struct tfc__upstream *answer = calloc(1, sizeof(*answer));
	if (!answer)
		return NULL;
	answer->name = strdup(name);
	if (answer->name)
		return answer;
	free_answer(answer);
	return NULL;
}

/* ---- notifying observers */

static void leave(struct tfc__upstreams *upstreams);

static void report_upstream(struct tfc__work *work)
{
	struct entry *entry = tfc__container_of(work, struct entry, reporting);
	struct tfc__upstreams *upstreams = entry->upstreams;
	bool is_changed = entry->is_to_be_followed && entry->answer;
	if (entry->answer)
		entry->is_to_be_followed = false;
	upstreams->busy++;
	tfc__observers_notify(&upstreams->watches,
			      &(struct tfc__upstream_event){entry->name, is_changed});
	leave(upstreams);
}

void tfc__upstreams_watch(struct tfc__upstreams *upstreams, struct tfc__observer *observer)
{
	tfc__observers_add(&upstreams->watches, observer);
}

/* ---- requests */

static void ask(struct entry *entry)
{
	struct tfc__upstreams *upstreams = entry->upstreams;
	tfc_upstream_request *question = calloc(1, sizeof(*question));
	if (question)
		question->answer = new_answer(entry->name);
	if (!question || !question->answer) {
		free(question);
		return; /* the caller retries */
	}
	question->entry = entry;
	entry->question = question;
	upstreams->ops.resolve(upstreams->user, entry->name, question);
}

/* A change has settled, or a refusal can be retried. */
static void on_timer(struct tfc__timer *timer)
{
	struct entry *entry = tfc__container_of(timer, struct entry, timer);
	if (entry->changing_since) {
		entry->changing_since = 0;
		entry->is_to_be_followed = true;
		if (!entry->question && !entry->answer)
			ask(entry);
	}
	if (!entry->question)
		tfc__work_schedule(&entry->reporting);
}

static struct entry *find_entry(struct tfc__upstreams *upstreams, const char *name)
{
	TFC__LIST_EACH (link, &upstreams->entries) {
		struct entry *entry = tfc__container_of(link, struct entry, link);
		if (strcmp(entry->name, name) == 0)
			return entry;
	}
	return NULL;
}

static struct entry *make_entry(struct tfc__upstreams *upstreams, const char *name)
{
	struct entry *entry = find_entry(upstreams, name);
	if (entry)
		return entry;
	entry = calloc(1, sizeof(*entry) + strlen(name) + 1);
	if (!entry)
		return NULL;
	entry->upstreams = upstreams;
	strcpy(entry->name, name);
	tfc__timer_init(&entry->timer, upstreams->ctx, on_timer);
	tfc__work_init(&entry->reporting, upstreams->ctx, report_upstream);
	tfc__list_append(&upstreams->entries, &entry->link);
	return entry;
}

static bool is_fresh(const struct entry *entry)
{
	return entry->answered_at && tfc__now() - entry->answered_at < FRESH_NS;
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
	struct entry *entry = make_entry(upstreams, name);
	if (!entry)
		return tfc__fail_nomem(error, "cluster");
	if (!entry->question && !is_fresh(entry)) {
		entry->refusal.code = 0;
		ask(entry);
		if (!entry->question && !is_fresh(entry))
			return tfc__fail_nomem(error, "cluster");
	}
	if (entry->question)
		return WAIT(error, "waiting for the host to locate the partitions of \"%.80s\"",
			    name);
	if (!entry->answer)
		return WAIT(error, "upstream \"%.80s\": %s", name, entry->refusal.text);
	*ret_upstream = entry->answer;
	return TFC_OK;
}

void tfc__upstreams_changed(struct tfc__upstreams *upstreams, const char *name, uint64_t version)
{
	struct entry *entry = find_entry(upstreams, name);
	uint64_t now = tfc__now();
	if (!entry || (entry->answer && version <= entry->answer->version))
		return;
	if (version > entry->wanted_version)
		entry->wanted_version = version;
	if (!entry->changing_since)
		entry->changing_since = now;
	uint64_t settled = now + TFC__UPSTREAM_SETTLE_MS * TFC__MS;
	uint64_t at_last = entry->changing_since + TFC__UPSTREAM_SETTLE_MAX * TFC__MS;
	tfc__timer_set(&entry->timer, settled < at_last ? settled : at_last);
	free_answer(entry->answer);
	entry->answer = NULL;
	entry->answered_at = 0;
	tfc__work_schedule(&entry->reporting); /* waiting jobs request it at once */
}

/* ---- functions for the host */

static int enter(tfc_upstream_request *question)
{
	return tfc__ctx_enter(question ? question->entry->upstreams->ctx : NULL);
}

static int invalid(const tfc_upstream_request *question, const char *text)
{
	return tfc__ctx_fail(question->entry->upstreams->ctx, TFC_EINVAL, "cluster", 0, "%s", text);
}

static int nomem(const tfc_upstream_request *question)
{
	return tfc__fail_nomem(tfc__ctx_error(question->entry->upstreams->ctx), "cluster");
}

static bool is_partition_name(const char *name)
{
	size_t len = name ? strlen(name) : 0;
	return len && len <= NAME_MAX_LEN && tfc__is_plain_text(name) && !strpbrk(name, " ,");
}

/* Grows an array with `count` elements for one more, by doubling. */
static void *grow(void *items, uint32_t count, size_t size)
{
	if (count & (count - 1)) /* not a power of two: there is space */
		return items;
	return realloc(items, (count ? 2 * (size_t)count : 1) * size);
}

int tfc_upstream_add_partition(tfc_upstream_request *question, const char *partition,
			       const char *node)
{
	int code = enter(question);
	if (code < 0)
		return code;
	if (!is_partition_name(partition))
		return invalid(question, "a partition's name must have 1 to 63 bytes, without "
					 "commas, blanks and control characters");
	if (node && !*node)
		return invalid(question, "node is empty; NULL stands for any node");
	struct tfc__upstream *answer = question->answer;
	void *grown = grow(answer->partitions, answer->count, sizeof(answer->partitions[0]));
	char *name = strdup(partition), *owner = node ? strdup(node) : NULL;
	if (grown)
		answer->partitions = grown;
	if (!grown || !name || (node && !owner)) {
		free(name);
		free(owner);
		return nomem(question);
	}
	answer->partitions[answer->count++] = (struct tfc__upstream_partition){name, owner};
	return TFC_OK;
}

int tfc_upstream_add_env(tfc_upstream_request *question, const char *node, const char *name,
			 const char *value)
{
	int code = enter(question);
	if (code < 0)
		return code;
	if (!name || !*name || strchr(name, '=') || !value)
		return invalid(question, "a variable must have a name without '=', and a value");
	struct tfc__upstream *answer = question->answer;
	void *grown = grow(answer->envs, answer->env_count, sizeof(answer->envs[0]));
	char *text = malloc(strlen(name) + strlen(value) + 2), *where = node ? strdup(node) : NULL;
	if (grown)
		answer->envs = grown;
	if (!grown || !text || (node && !where)) {
		free(text);
		free(where);
		return nomem(question);
	}
	stpcpy(stpcpy(stpcpy(text, name), "="), value);
	answer->envs[answer->env_count++] = (struct tfc__upstream_env){where, text};
	return TFC_OK;
}

/* Ends the request; observers are notified in a turn of their own. */
static void settle(tfc_upstream_request *question)
{
	struct entry *entry = question->entry;
	entry->question = NULL;
	entry->answered_at = tfc__now();
	free_question(question);
	tfc__work_schedule(&entry->reporting);
}

static int refuse(tfc_upstream_request *question, const char *text)
{
	struct entry *entry = question->entry;
	tfc__fail(&entry->refusal, TFC_EAGAIN, "cluster", 0, "%.200s", text);
	free_answer(entry->answer);
	entry->answer = NULL;
	if (!entry->changing_since)
		tfc__timer_set(&entry->timer, tfc__now() + ASK_AGAIN_NS);
	settle(question);
	return TFC_OK;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Returns 1 if a name occurs twice. */
static int has_twins(const struct tfc__upstream *answer)
{
	const char **names = calloc(answer->count, sizeof(*names));
	int found = 0;
	if (!names)
		return TFC_ENOMEM;
	for (uint32_t i = 0; i < answer->count; i++)
		names[i] = answer->partitions[i].name;
	qsort(names, answer->count, sizeof(*names), compare_names);
	for (uint32_t i = 1; i < answer->count && !found; i++)
		found = strcmp(names[i], names[i - 1]) == 0;
	free(names);
	return found;
}

/* An invalid answer also ends the request, which would stay open otherwise. */
static int spoil(tfc_upstream_request *question, int code, const char *text)
{
	tfc_ctx *ctx = question->entry->upstreams->ctx;
	refuse(question, text);
	return tfc__ctx_fail(ctx, code, "cluster", 0, "%s", text);
}

int tfc_upstream_complete(tfc_upstream_request *question, uint64_t version)
{
	int code = enter(question);
	if (code < 0)
		return code;
	struct entry *entry = question->entry;
	if (!question->answer->count)
		return spoil(question, TFC_EINVAL, "the host's response names no partition");
	if ((code = has_twins(question->answer)) < 0)
		return spoil(question, code, "out of memory");
	if (code > 0)
		return spoil(question, TFC_EINVAL, "the host's response names a partition twice");
	if (version < entry->wanted_version)
		return refuse(question, "the host's response is older than the reported change");
	free_answer(entry->answer);
	entry->answer = question->answer;
	entry->answer->version = version;
	question->answer = NULL;
	settle(question);
	return TFC_OK;
}

int tfc_upstream_fail(tfc_upstream_request *question, const char *text)
{
	int code = enter(question);
	if (code < 0)
		return code;
	return refuse(question, text && *text ? text : "unknown to the host");
}

/* ---- opening and closing */

int tfc__upstreams_open(tfc_ctx *ctx, const tfc_upstream_ops *ops, void *user, tfc_error *error,
			struct tfc__upstreams **ret_upstreams)
{
	tfc_upstream_ops known;
	int code = tfc__options_copy(&known, sizeof(known), ops, "cluster", "tfc_upstream_ops",
				     error);
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

static void free_entry(struct entry *entry)
{
	free_answer(entry->answer);
	tfc__list_remove(&entry->link);
	free(entry);
}

static void leave(struct tfc__upstreams *upstreams)
{
	if (--upstreams->busy || !upstreams->is_closed)
		return;
	TFC__LIST_EACH (link, &upstreams->entries)
		free_entry(tfc__container_of(link, struct entry, link));
	free(upstreams);
}

static void close_entry(struct entry *entry)
{
	tfc_upstream_request *question = entry->question;
	tfc__timer_cancel(&entry->timer);
	tfc__work_cancel(&entry->reporting);
	if (!question)
		return;
	entry->question = NULL;
	entry->upstreams->ops.cancel(entry->upstreams->user, question);
	free_question(question);
}

void tfc__upstreams_close(struct tfc__upstreams *upstreams)
{
	if (!upstreams)
		return;
	upstreams->is_closed = true;
	upstreams->busy++;
	tfc__observers_close(&upstreams->watches);
	TFC__LIST_EACH (link, &upstreams->entries)
		close_entry(tfc__container_of(link, struct entry, link));
	leave(upstreams);
}
