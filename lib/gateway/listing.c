/* JOBS: one list of the jobs of all nodes. */
#include <stdio.h>
#include <stdlib.h>

#include "base/fail.h"
#include "gateway/forward.h"
#include "gateway/member_calls.h"
#include "gateway/results.h"

#define LIST_MS 3000 /* a member that does not respond within this time is left out */

struct listing {
	struct tfc__request *request;
	struct tfc__member_calls *calls;
	size_t bytes; /* of the calls */
	struct tfc__result_items jobs;
	struct tfc__result_items missing; /* members that are missing in the list */
};

static void listing_free(struct listing *listing)
{
	tfc__member_calls_drop(listing->calls);
	tfc__buf_fini(&listing->jobs.items);
	tfc__buf_fini(&listing->missing.items);
	free(listing);
}

static void listing_cancel(struct tfc__request *request)
{
	listing_free(request->impl);
}

static void listing_end(struct listing *listing, int code)
{
	struct tfc__request *request = listing->request;
	if (code == TFC_OK)
		tfc__jobs_write(&request->text, &listing->jobs, &listing->missing);
	listing_free(listing);
	tfc__request_end(request, code);
}

static void listing_on_response(void *user, const char *node, const msgpack_object *result,
				const tfc_error *error)
{
	struct listing *listing = user;
	tfc_error unread = TFC_ERROR_INIT;
	size_t len = 0;
	const void *data = result ? tfc__msg_bytes(result, &len) : NULL;
	if (result && tfc__jobs_append(&listing->jobs, data ? data : "", len, &unread) < 0)
		error = &unread;
	if (error) {
		tfc__missing_node_write(&listing->missing.items, node, error->text);
		listing->missing.count++;
		return;
	}
	int code = tfc__request_reserve(listing->request, listing->bytes + listing->jobs.items.len);
	if (code < 0)
		listing_end(listing, code);
}

static void listing_on_end(void *user)
{
	listing_end(user, TFC_OK);
}

/* With gossip, a node that has just started may not know any other node yet. */
static void listing_add_unfound(struct listing *listing, const char *self)
{
	char reason[192];
	snprintf(reason, sizeof(reason), "node %s has not found the other nodes yet", self);
	tfc__missing_node_write(&listing->missing.items, "", reason);
	listing->missing.count++;
}

void tfc__list_jobs(struct tfc__forwarder *forwarder, uint32_t count, bool is_forwarded,
		    struct tfc__request *request)
{
	static const struct tfc__member_calls_ops ops = {listing_on_response, listing_on_end};
	const struct tfc__request_params params = {.verb = TFC_VERB_JOBS, .is_forwarded = true};
	const struct tfc__gateway_members *members = is_forwarded ? NULL : &forwarder->members;
	struct listing *listing = calloc(1, sizeof(*listing));
	size_t bytes = tfc__member_calls_bytes(members);
	int code = listing ? tfc__request_reserve(request, bytes)
			   : tfc__fail_nomem(&request->error, "gateway");
	if (code < 0) {
		free(listing);
		tfc__request_end(request, code);
		return;
	}
	listing->request = request;
	listing->bytes = bytes;
	listing->jobs = (struct tfc__result_items){request->text, count};
	request->text = (struct tfc__buf){0};
	if (members && tfc__gateway_members_are_joining(members))
		listing_add_unfound(listing,
				    tfc__agent_name(tfc__directory_agent(forwarder->directory)));
	code = tfc__member_calls_begin(forwarder->ctx, members, &params, LIST_MS, &ops, listing,
				       &listing->calls);
	if (code < 0) {
		listing_end(listing, tfc__fail_nomem(&request->error, "gateway"));
		return;
	}
	request->impl = listing;
	request->cancel = listing_cancel;
}
