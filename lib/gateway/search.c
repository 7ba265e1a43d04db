#include "gateway/search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/names.h"
#include "gateway/member_calls.h"

#define ANSWER_MS 3000 /* a member that does not respond within this time counts as unreachable */

#define MATCHES(...) TFC__FIELD(struct tfc__matches, __VA_ARGS__)
static const struct tfc__field rows[] = {
	MATCHES("name", TFC__TEXT, by_name, TFC__V0_2),
	MATCHES("submitted_ns", TFC__UINT, submitted_ns, TFC__V0_2),
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
	size_t bytes;            /* of the calls */
	struct tfc__buf fitting; /* "IDS on NODE; IDS on NODE" */
	struct tfc__buf silent;  /* names of the nodes that did not respond */
};

/* ---- on one node */

static void match(struct tfc__directory *directory, const char *job, struct tfc__matches *matches)
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
	}
}

void tfc__search_respond(struct tfc__directory *directory, const char *job, struct tfc__buf *buf)
{
	struct tfc__matches matches = {.submitted_ns = 0};
	match(directory, job, &matches);
	tfc__fields_write(buf, &tfc__matches_fields, &matches);
}

/* ---- over all nodes */

static void merge(struct tfc__search *search, const struct tfc__matches *one, const char *node)
{
	struct tfc__matches *all = &search->matches;
	if (one->by_name[0] && (!all->by_name[0] || one->submitted_ns > all->submitted_ns)) {
		memcpy(all->by_name, one->by_name, sizeof(all->by_name));
		all->submitted_ns = one->submitted_ns;
		snprintf(all->name_node, sizeof(all->name_node), "%s", node);
	}
	if (one->prefixes) {
		memcpy(all->by_prefix, one->by_prefix, sizeof(all->by_prefix));
		snprintf(all->prefix_node, sizeof(all->prefix_node), "%s", node);
		tfc__buf_addf(&search->fitting, "%s%s%s on %.40s", all->prefixes ? "; " : "",
			      one->ids, one->prefixes > 3 ? " ..." : "",
			      *node ? node : search->self);
	}
	all->prefixes += one->prefixes;
}

static int fail_search(const struct tfc__search *search, tfc_error *error)
{
	if (search->matches.prefixes > 1)
		return tfc__fail(error, TFC_EINVAL, "gateway", 0,
				 "job id \"%.60s\" is ambiguous: %u job ids begin with it; give "
				 "more of the id: %s",
				 search->job, search->matches.prefixes,
				 search->fitting.len ? search->fitting.data : "");
	if (search->silent.len)
		return tfc__fail(error, TFC_ELOST, "gateway", 0,
				 "job \"%.60s\" not found; unreachable nodes: %.120s", search->job,
				 search->silent.data);
	return tfc__fail(error, TFC_ENOENT, "gateway", 0, "job \"%.60s\" not found", search->job);
}

static void on_responded(void *user, const char *node, const msgpack_object *result,
			 const tfc_error *error)
{
	struct tfc__search *search = user;
	struct tfc__matches one = {.submitted_ns = 0};
	if (result && tfc__fields_read(NULL, &tfc__matches_fields, result, NULL, &one) == TFC_OK)
		merge(search, &one, node);
	else
		tfc__buf_addf(&search->silent, "%s%s", search->silent.len ? ", " : "", node);
}

static void on_ended(void *user)
{
	struct tfc__search *search = user;
	const struct tfc__matches *matches = &search->matches;
	tfc_error error = TFC_ERROR_INIT;
	if (matches->by_name[0])
		search->fn(search->user, matches->name_node, matches->by_name, NULL);
	else if (matches->prefixes == 1)
		search->fn(search->user, matches->prefix_node, matches->by_prefix, NULL);
	else
		search->fn(search->user, NULL, NULL, (fail_search(search, &error), &error));
	tfc__search_drop(search);
}

struct tfc__rpc *tfc__member_rpc(const struct tfc__gateway_members *members, const char *node)
{
	struct tfc__gateway_member member = {NULL};
	while (tfc__gateway_members_next(members, &member))
		if (strcmp(member.name, node) == 0)
			return member.rpc;
	return NULL;
}

int tfc__search_begin(tfc_ctx *ctx, struct tfc__directory *directory,
		      const struct tfc__gateway_members *members, const char *job,
		      tfc__search_fn fn, void *user, struct tfc__search **ret_search)
{
	static const struct tfc__member_calls_ops ops = {on_responded, on_ended};
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
	match(directory, job, &here);
	merge(search, &here, "");
	if (here.prefixes == 1 && tfc__is_job_id(job))
		members = NULL; /* it is a whole id */
	search->bytes = tfc__member_calls_bytes(members);
	if (!search->job || tfc__member_calls_begin(ctx, members, &params, ANSWER_MS, &ops, search,
						    &search->calls) < 0) {
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
	tfc__buf_fini(&search->fitting);
	tfc__buf_fini(&search->silent);
	free(search->job);
	free(search);
}
