/* JOBS: one list of the jobs of all nodes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "gateway/forward.h"
#include "gateway/question.h"

#define LIST_MS 3000 /* a member that does not respond within this time is left out */

struct listing;

struct lister {
	struct listing *listing;
	char name[64];
	struct tfc__rpc_call *call;
};

struct listing {
	struct tfc__request *request;
	struct lister *listers;
	uint32_t count;
	uint32_t pending;
	size_t bytes;            /* that it holds besides the text of the request */
	struct tfc__buf missing; /* members that are missing in the list, as JSON */
	int code;                /* below 0: the error is in the request */
};

static void free_listing(struct listing *listing)
{
	for (uint32_t i = 0; i < listing->count; i++)
		if (listing->listers[i].call)
			tfc__rpc_drop(listing->listers[i].call);
	tfc__buf_fini(&listing->missing);
	free(listing->listers);
	free(listing);
}

static void forget_listing(struct tfc__request *request)
{
	free_listing(request->doing);
}

/* "[a]" and "[b,c]" become "[a,b,c]". */
static void join_lists(struct tfc__buf *all, const char *text, size_t len)
{
	if (len <= 2 || text[0] != '[')
		return;
	all->len--;
	if (all->len > 1)
		tfc__buf_add_char(all, ',');
	tfc__buf_add(all, text + 1, len - 1);
}

/* Wraps the list of jobs in an object that also lists the nodes that are missing. */
static void wrap(struct listing *listing)
{
	struct tfc__buf *text = &listing->request->text, all = {0};
	tfc__buf_add_str(&all, "{\"jobs\":");
	tfc__buf_add(&all, text->data, text->len);
	tfc__buf_add_str(&all, ",\"not_asked\":[");
	tfc__buf_add(&all, listing->missing.data, listing->missing.len);
	tfc__buf_add_str(&all, "]}");
	all.is_failed = all.is_failed || text->is_failed || listing->missing.is_failed;
	tfc__buf_fini(text);
	*text = all;
}

static void end_listing(struct listing *listing)
{
	struct tfc__request *request = listing->request;
	int code = listing->code;
	if (code == TFC_OK)
		wrap(listing);
	free_listing(listing);
	tfc__request_end(request, code);
}

static void note_missing(struct listing *listing, const char *name, const char *reason)
{
	struct tfc__buf *missing = &listing->missing;
	tfc__buf_add_str(missing, missing->len ? ",{\"node\":" : "{\"node\":");
	tfc__buf_add_json(missing, name, strlen(name));
	tfc__buf_add_str(missing, ",\"reason\":");
	tfc__buf_add_json(missing, reason, strlen(reason));
	tfc__buf_add_char(missing, '}');
}

static void on_listed(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	struct lister *lister = user;
	struct listing *listing = lister->listing;
	size_t len;
	lister->call = NULL;
	const char *text = code == TFC_OK && result ? tfc__msg_bytes(result, &len) : NULL;
	if (text) {
		join_lists(&listing->request->text, text, len);
		listing->code = tfc__request_reserve(listing->request, listing->bytes);
	} else if (code < 0) {
		note_missing(listing, lister->name, error->text);
	}
	if (--listing->pending == 0 || listing->code < 0)
		end_listing(listing);
}

static void ask_for_list(struct listing *listing, const char *name, struct tfc__rpc *rpc,
			 const struct tfc__buf *params)
{
	struct lister *lister = &listing->listers[listing->count];
	char method[TFC__METHOD_SIZE];
	tfc_error error = TFC_ERROR_INIT;
	const struct tfc__rpc_options call = {
		.method = method,
		.params = params,
		.timeout_ms = LIST_MS,
		.end = on_listed,
		.user = lister,
	};
	tfc__verb_method(TFC_VERB_JOBS, method);
	lister->listing = listing;
	snprintf(lister->name, sizeof(lister->name), "%s", name);
	if (!rpc) {
		note_missing(listing, name, "unreachable");
	} else if (tfc__rpc_call(rpc, &call, &lister->call, &error) < 0) {
		note_missing(listing, name, error.text);
	} else {
		listing->count++;
		listing->pending++;
	}
}

static uint32_t count_members(const struct tfc__gateway_members *members)
{
	struct tfc__gateway_member member = {NULL};
	uint32_t count = 0;
	while (tfc__gateway_members_next(members, &member))
		count++;
	return count;
}

static struct listing *new_listing(struct tfc__request *request, uint32_t count)
{
	struct listing *listing = calloc(1, sizeof(*listing));
	if (!listing)
		return NULL;
	listing->request = request;
	listing->bytes = count * (sizeof(*listing->listers) + TFC__RPC_CALL_BYTES);
	listing->listers = calloc(count ? count : 1, sizeof(*listing->listers));
	if (listing->listers)
		return listing;
	free(listing);
	return NULL;
}

void tfc__forward_jobs(struct tfc__forwarder *forwarder, struct tfc__request *request)
{
	const struct tfc__question question = {.verb = TFC_VERB_JOBS, .is_forwarded = true};
	const struct tfc__gateway_members *members = &forwarder->members;
	uint32_t count = count_members(members);
	struct listing *listing = new_listing(request, count);
	struct tfc__buf params = {0};
	struct tfc__gateway_member member = {NULL};
	tfc__question_write(&params, &question);
	int code = listing && !params.is_failed ? tfc__request_reserve(request, listing->bytes)
						: tfc__fail_nomem(&request->error, "gateway");
	if (code < 0) {
		tfc__buf_fini(&params);
		if (listing)
			free_listing(listing);
		tfc__request_end(request, code);
		return;
	}
	while (tfc__gateway_members_next(members, &member))
		ask_for_list(listing, member.name, member.rpc, &params);
	tfc__buf_fini(&params);
	if (!listing->pending) {
		end_listing(listing);
		return;
	}
	request->doing = listing;
	request->forget = forget_listing;
}
