/* JOBS: one list of the jobs of all nodes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "gateway/forward.h"
#include "gateway/question.h"
#include "gateway/results.h"

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
	size_t bytes; /* that it holds besides the jobs */
	struct tfc__result_items jobs;
	struct tfc__result_items missing; /* members that are missing in the list */
	int code;                         /* below 0: the error is in the request */
};

static void free_listing(struct listing *listing)
{
	for (uint32_t i = 0; i < listing->count; i++)
		if (listing->listers[i].call)
			tfc__rpc_drop(listing->listers[i].call);
	tfc__buf_fini(&listing->jobs.items);
	tfc__buf_fini(&listing->missing.items);
	free(listing->listers);
	free(listing);
}

static void forget_listing(struct tfc__request *request)
{
	free_listing(request->doing);
}

static void end_listing(struct listing *listing)
{
	struct tfc__request *request = listing->request;
	int code = listing->code;
	if (code == TFC_OK)
		tfc__jobs_write(&request->text, &listing->jobs, &listing->missing);
	free_listing(listing);
	tfc__request_end(request, code);
}

static void note_missing(struct listing *listing, const char *name, const char *reason)
{
	tfc__missing_node_write(&listing->missing.items, name, reason);
	listing->missing.count++;
}

static void on_listed(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	struct lister *lister = user;
	struct listing *listing = lister->listing;
	tfc_error unread = TFC_ERROR_INIT;
	size_t len = 0;
	lister->call = NULL;
	if (code == TFC_OK) {
		const void *data = tfc__msg_bytes(result, &len);
		code = tfc__jobs_append(&listing->jobs, data ? data : "", len, &unread);
		error = &unread;
	}
	if (code == TFC_OK)
		listing->code = tfc__request_reserve(listing->request,
						     listing->bytes + listing->jobs.items.len);
	else
		note_missing(listing, lister->name, error->text);
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

void tfc__list_jobs(struct tfc__forwarder *forwarder, uint32_t count, bool is_forwarded,
		    struct tfc__request *request)
{
	const struct tfc__question question = {.verb = TFC_VERB_JOBS, .is_forwarded = true};
	const struct tfc__gateway_members *members = &forwarder->members;
	struct listing *listing = new_listing(request, is_forwarded ? 0 : count_members(members));
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
	listing->jobs = (struct tfc__result_items){request->text, count};
	request->text = (struct tfc__buf){0};
	while (!is_forwarded && tfc__gateway_members_next(members, &member))
		ask_for_list(listing, member.name, member.rpc, &params);
	tfc__buf_fini(&params);
	if (!listing->pending) {
		end_listing(listing);
		return;
	}
	request->doing = listing;
	request->forget = forget_listing;
}
