#include "gateway/search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "gateway/question.h"

#define ANSWER_MS 3000 /* a member that says nothing for so long is not waited for */

/* What fits on some of the nodes. */
struct matches {
	char by_name[17]; /* the latest; "": none */
	uint64_t submitted_ns;
	char name_node[256];
	char by_prefix[17]; /* one of them */
	uint32_t prefixes;
	char prefix_node[256];
};

struct asked {
	struct tfc__search *search;
	struct tfc__rpc_call *call; /* NULL: it has answered */
	char node[256];
};

struct tfc__search {
	tfc__search_fn fn;
	void *user;
	char *job;
	struct matches matches;
	struct asked *asked;
	uint32_t count;
	uint32_t pending;
	struct tfc__buf silent; /* names of those that gave no answer */
	struct tfc__work done;
};

/* ---- on one node */

static void match(struct tfc__directory *directory, const char *job, struct matches *matches)
{
	size_t len = strlen(job);
	if (!len)
		return;
	TFC__LIST_EACH (link, tfc__directory_records(directory)) {
		struct tfc__record *record = tfc__container_of(link, struct tfc__record, link);
		if (strncmp(record->id, job, len) == 0) {
			memcpy(matches->by_prefix, record->id, sizeof(record->id));
			matches->prefixes++;
		}
		if (strcmp(record->job->name, job) == 0) {
			memcpy(matches->by_name, record->id, sizeof(record->id));
			matches->submitted_ns = record->submitted_ns;
		}
	}
}

void tfc__search_answer(struct tfc__directory *directory, const char *job, struct tfc__buf *buf)
{
	struct matches matches = {.submitted_ns = 0};
	match(directory, job, &matches);
	tfc__msg_map(buf, 4);
	tfc__msg_put_str(buf, "name", matches.by_name);
	tfc__msg_put_u64(buf, "submitted_ns", matches.submitted_ns);
	tfc__msg_put_str(buf, "prefix", matches.by_prefix);
	tfc__msg_put_u64(buf, "prefixes", matches.prefixes);
}

/* ---- over all nodes */

static void merge(struct matches *all, const struct matches *one, const char *node)
{
	if (one->by_name[0] && (!all->by_name[0] || one->submitted_ns > all->submitted_ns)) {
		memcpy(all->by_name, one->by_name, sizeof(all->by_name));
		all->submitted_ns = one->submitted_ns;
		snprintf(all->name_node, sizeof(all->name_node), "%s", node);
	}
	if (one->prefixes) {
		memcpy(all->by_prefix, one->by_prefix, sizeof(all->by_prefix));
		snprintf(all->prefix_node, sizeof(all->prefix_node), "%s", node);
	}
	all->prefixes += one->prefixes;
}

static void free_search(struct tfc__search *search)
{
	tfc__work_cancel(&search->done);
	tfc__buf_fini(&search->silent);
	free(search->asked);
	free(search->job);
	free(search);
}

static int fail_search(const struct tfc__search *search, tfc_error *error)
{
	if (search->matches.prefixes > 1)
		return tfc__fail(error, TFC_EINVAL, "gateway", 0,
				 "job %.60s: %u job ids begin like that; give more of the id",
				 search->job, search->matches.prefixes);
	if (search->silent.len)
		return tfc__fail(
			error, TFC_ELOST, "gateway", 0,
			"no such job: %.60s; not asked, for they cannot be reached: %.120s",
			search->job, search->silent.data);
	return tfc__fail(error, TFC_ENOENT, "gateway", 0, "no such job: %.60s", search->job);
}

static void on_done(struct tfc__work *work)
{
	struct tfc__search *search = tfc__container_of(work, struct tfc__search, done);
	const struct matches *matches = &search->matches;
	tfc_error error = TFC_ERROR_INIT;
	if (matches->by_name[0])
		search->fn(search->user, matches->name_node, matches->by_name, NULL);
	else if (matches->prefixes == 1)
		search->fn(search->user, matches->prefix_node, matches->by_prefix, NULL);
	else
		search->fn(search->user, NULL, NULL, (fail_search(search, &error), &error));
	free_search(search);
}

static void note_silent(struct tfc__search *search, const char *node)
{
	tfc__buf_addf(&search->silent, "%s%s", search->silent.len ? ", " : "", node);
}

static void on_answer(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	struct asked *asked = user;
	struct tfc__search *search = asked->search;
	struct matches one = {.submitted_ns = 0};
	asked->call = NULL;
	if (code == TFC_OK) {
		tfc__msg_get_text(result, "name", one.by_name, sizeof(one.by_name));
		tfc__msg_get_text(result, "prefix", one.by_prefix, sizeof(one.by_prefix));
		one.submitted_ns = tfc__msg_get_u64(result, "submitted_ns", 0);
		one.prefixes = (uint32_t)tfc__msg_get_u64(result, "prefixes", 0);
		merge(&search->matches, &one, asked->node);
	} else {
		note_silent(search, asked->node);
	}
	if (--search->pending == 0)
		tfc__work_schedule(&search->done);
}

struct tfc__rpc *tfc__member_rpc(const struct tfc__gateway_members *members, const char *node)
{
	const char *name;
	struct tfc__rpc *rpc;
	for (uint32_t i = 0; members->ops && members->ops->at(members->user, i, &name, &rpc); i++)
		if (strcmp(name, node) == 0)
			return rpc;
	return NULL;
}

static void ask_member(struct tfc__search *search, struct asked *asked, const char *name,
		       struct tfc__rpc *rpc, const struct tfc__buf *params)
{
	const struct tfc__rpc_options call = {
		.method = "gateway.find",
		.params = params,
		.timeout_ms = ANSWER_MS,
		.end = on_answer,
		.user = asked,
	};
	asked->search = search;
	snprintf(asked->node, sizeof(asked->node), "%s", name);
	if (rpc && tfc__rpc_call(rpc, &call, &asked->call, NULL) == TFC_OK)
		search->pending++;
	else
		note_silent(search, name);
}

static int ask_members(struct tfc__search *search, const struct tfc__gateway_members *members)
{
	const struct tfc__question question = {.verb = TFC__FIND,
					       .job = search->job,
					       .is_forwarded = true};
	struct tfc__buf params = {0};
	const char *name;
	struct tfc__rpc *rpc;
	uint32_t count = 0;
	while (members->ops && members->ops->at(members->user, count, &name, &rpc))
		count++;
	search->asked = calloc(count ? count : 1, sizeof(*search->asked));
	tfc__question_write(&params, &question);
	bool is_failed = !search->asked || params.is_failed;
	for (uint32_t i = 0; !is_failed && i < count; i++)
		if (members->ops->at(members->user, i, &name, &rpc))
			ask_member(search, &search->asked[search->count++], name, rpc, &params);
	tfc__buf_fini(&params);
	return is_failed ? TFC_ENOMEM : TFC_OK;
}

int tfc__search_begin(tfc_ctx *ctx, struct tfc__directory *directory,
		      const struct tfc__gateway_members *members, const char *job,
		      tfc__search_fn fn, void *user, struct tfc__search **ret_search)
{
	struct tfc__search *search = calloc(1, sizeof(*search));
	struct matches here = {.submitted_ns = 0};
	if (!search)
		return TFC_ENOMEM;
	search->fn = fn;
	search->user = user;
	tfc__work_init(&search->done, ctx, on_done);
	search->job = strdup(job);
	match(directory, job, &here);
	merge(&search->matches, &here, "");
	bool is_whole_id = here.prefixes == 1 && strlen(job) == 16;
	if (!search->job || (!is_whole_id && ask_members(search, members) < 0)) {
		tfc__search_drop(search);
		return TFC_ENOMEM;
	}
	if (search->pending == 0)
		tfc__work_schedule(&search->done);
	*ret_search = search;
	return TFC_OK;
}

void tfc__search_drop(struct tfc__search *search)
{
	if (!search)
		return;
	for (uint32_t i = 0; i < search->count; i++)
		if (search->asked[i].call)
			tfc__rpc_drop(search->asked[i].call);
	free_search(search);
}
