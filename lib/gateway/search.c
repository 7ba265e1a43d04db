#include "gateway/search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/names.h"
#include "gateway/member_calls.h"

#define RESPONSE_MS 3000 /* a member that has not responded by then counts as unreachable */

#define MATCHES(...) TFC__FIELD(struct tfc__matches, __VA_ARGS__)
static const struct tfc__field rows[] = {
	MATCHES("name", TFC__TEXT, by_name, TFC__V0_2),
	MATCHES("submitted_ns", TFC__UINT, submitted_ns, TFC__V0_2),
	MATCHES("names", TFC__UINT, names, TFC__V0_3),
	MATCHES("name_ids", TFC__TEXT, name_ids, TFC__V0_3),
	MATCHES("prefix", TFC__TEXT, by_prefix, TFC__V0_2),
	MATCHES("prefixes", TFC__UINT, prefixes, TFC__V0_2),
	MATCHES("ids", TFC__TEXT, ids, TFC__V0_2),
};
const struct tfc__fields tfc__matches_fields = TFC__FIELDS(rows, struct tfc__matches, NULL);

struct tfc__search {
	tfc__search_fn fn;
	void *user;
	char *job;
	const char *self; /* the name of this node */
	struct tfc__matches matches;
	struct tfc__member_calls *calls;
	size_t bytes;                /* of the calls */
	struct tfc__buf matching;    /* by prefix: "IDS on NODE; IDS on NODE" */
	struct tfc__buf named;       /* by name, likewise */
	struct tfc__buf unreachable; /* names of the nodes that did not respond */
	bool are_joining;            /* this node did not know the other nodes */
};

/* ---- on one node */

static void match_own_jobs(struct tfc__directory *directory, const char *job,
			   struct tfc__matches *matches)
{
	struct tfc__directory_match here;
	tfc__directory_match(directory, job, &here);
	matches->prefixes = here.prefixes;
	snprintf(matches->ids, sizeof(matches->ids), "%s", here.ids);
	if (here.prefixes)
		memcpy(matches->by_prefix, here.by_prefix ? here.by_prefix->id : here.damaged->id,
		       sizeof(matches->by_prefix));
	if (here.by_name) {
		memcpy(matches->by_name, here.by_name->id, sizeof(matches->by_name));
		matches->submitted_ns = here.by_name->submitted_ns;
		matches->names = here.names;
		memcpy(matches->name_ids, here.name_ids, sizeof(matches->name_ids));
	}
}

void tfc__search_respond(struct tfc__directory *directory, const char *job, struct tfc__buf *buf)
{
	struct tfc__matches matches = {.submitted_ns = 0};
	match_own_jobs(directory, job, &matches);
	tfc__fields_write(buf, &tfc__matches_fields, &matches);
}

/* ---- over all nodes */

static void search_add_ids(const struct tfc__search *search, struct tfc__buf *text, const char *ids,
			   uint32_t count, const char *node)
{
	tfc__buf_addf(text, "%s%s%s on %.40s", text->len ? "; " : "", ids, count > 3 ? " ..." : "",
		      *node ? node : search->self);
}

static void search_merge(struct tfc__search *search, const struct tfc__matches *one,
			 const char *node)
{
	struct tfc__matches *all = &search->matches;
	bool is_later = one->submitted_ns > all->submitted_ns;
	bool is_better = !one->names == !all->names ? is_later : one->names;
	if (one->by_name[0] && is_better) {
		memcpy(all->by_name, one->by_name, sizeof(all->by_name));
		all->submitted_ns = one->submitted_ns;
		snprintf(all->name_node, sizeof(all->name_node), "%s", node);
	}
	if (one->prefixes) {
		memcpy(all->by_prefix, one->by_prefix, sizeof(all->by_prefix));
		snprintf(all->prefix_node, sizeof(all->prefix_node), "%s", node);
		search_add_ids(search, &search->matching, one->ids, one->prefixes, node);
	}
	if (one->names)
		search_add_ids(search, &search->named, one->name_ids, one->names, node);
	all->prefixes += one->prefixes;
	all->names += one->names;
}

/* All known jobs of the name have ended, and an unreachable node may have one that has not. */
static bool search_may_miss_job(const struct tfc__search *search)
{
	return search->matches.by_name[0] && !search->matches.names && search->unreachable.len;
}

static int search_fail(const struct tfc__search *search, tfc_error *error)
{
	if (search->matches.names > 1)
		return tfc__fail(error, TFC_EINVAL, "gateway", 0,
				 "job name \"%.60s\" is ambiguous: %u jobs of this name have not "
				 "ended; give an id: %s",
				 search->job, search->matches.names,
				 search->named.len ? search->named.data : "");
	if (search->matches.prefixes > 1)
		return tfc__fail(error, TFC_EINVAL, "gateway", 0,
				 "job id \"%.60s\" is ambiguous: %u job ids begin with it; give "
				 "more of the id: %s",
				 search->job, search->matches.prefixes,
				 search->matching.len ? search->matching.data : "");
	if (search_may_miss_job(search))
		return tfc__fail(error, TFC_EINVAL, "gateway", 0,
				 "job name \"%.60s\" is ambiguous: unreachable nodes (%.120s) may "
				 "have a job of this name that has not ended; give an id; the "
				 "latest known job of this name is %s on %.60s, and has ended",
				 search->job, search->unreachable.data, search->matches.by_name,
				 *search->matches.name_node ? search->matches.name_node
							    : search->self);
	if (search->unreachable.len)
		return tfc__fail(error, TFC_ELOST, "gateway", 0,
				 "job \"%.60s\" not found; it may be a job of a node that is "
				 "unreachable: %.120s",
				 search->job, search->unreachable.data);
	if (search->are_joining)
		return tfc__fail(error, TFC_ELOST, "gateway", 0,
				 "job \"%.60s\" not found; it may be a job of a node that node "
				 "%.40s has not found yet",
				 search->job, search->self);
	return tfc__fail(error, TFC_ENOENT, "gateway", 0, "job \"%.60s\" not found", search->job);
}

static void search_on_response(void *user, const char *node, const msgpack_object *result,
			       const tfc_error *error)
{
	struct tfc__search *search = user;
	struct tfc__matches one = {.submitted_ns = 0};
	if (result && tfc__fields_read(NULL, &tfc__matches_fields, result, NULL, &one) == TFC_OK)
		search_merge(search, &one, node);
	else
		tfc__buf_addf(&search->unreachable, "%s%s", search->unreachable.len ? ", " : "",
			      node);
}

static void search_on_end(void *user)
{
	struct tfc__search *search = user;
	const struct tfc__matches *matches = &search->matches;
	tfc_error error = TFC_ERROR_INIT;
	if (matches->by_name[0] && matches->names < 2 && !search_may_miss_job(search))
		search->fn(search->user, matches->name_node, matches->by_name, NULL);
	else if (!matches->by_name[0] && matches->prefixes == 1)
		search->fn(search->user, matches->prefix_node, matches->by_prefix, NULL);
	else {
		search_fail(search, &error);
		search->fn(search->user, NULL, NULL, &error);
	}
	tfc__search_drop(search);
}

int tfc__search_begin(tfc_ctx *ctx, struct tfc__directory *directory,
		      const struct tfc__gateway_members *members, const char *job,
		      tfc__search_fn fn, void *user, struct tfc__search **ret_search)
{
	static const struct tfc__member_calls_ops ops = {search_on_response, search_on_end};
	const struct tfc__request_params params = {.verb = TFC_VERB_FIND,
						   .job = job,
						   .is_forwarded = true};
	struct tfc__search *search = calloc(1, sizeof(*search));
	struct tfc__matches here = {.submitted_ns = 0};
	if (!search)
		return TFC_ENOMEM;
	search->fn = fn;
	search->user = user;
	search->job = strdup(job);
	search->self = tfc__agent_name(tfc__directory_agent(directory));
	search->are_joining = tfc__gateway_members_are_joining(members);
	match_own_jobs(directory, job, &here);
	search_merge(search, &here, "");
	if (here.prefixes == 1 && tfc__is_job_id(job))
		members = NULL; /* it is a whole id */
	search->bytes = tfc__member_calls_bytes(members);
	if (!search->job || tfc__member_calls_begin(ctx, members, &params, RESPONSE_MS, &ops,
						    search, &search->calls) < 0) {
		tfc__search_drop(search);
		return TFC_ENOMEM;
	}
	*ret_search = search;
	return TFC_OK;
}

size_t tfc__search_bytes(const struct tfc__search *search)
{
	return search->bytes;
}

void tfc__search_drop(struct tfc__search *search)
{
	if (!search)
		return;
	tfc__member_calls_drop(search->calls);
	tfc__buf_fini(&search->matching);
	tfc__buf_fini(&search->named);
	tfc__buf_fini(&search->unreachable);
	free(search->job);
	free(search);
}
