#include "gateway/forward.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "gateway/errand.h"
#include "gateway/question.h"
#include "gateway/search.h"

#define LIST_MS 3000       /* a member that says nothing for so long is left out */
#define PATIENCE_MS 600000 /* for a member that has gone away: it comes back, or is down */

/* ---- a question about one job */

struct forwarding {
	struct tfc__forwarder *forwarder;
	struct tfc__request *request;
	struct tfc__search *search;
	struct tfc__heard heard; /* a copy of the question */
	struct tfc__buf params;
	struct tfc__msg msg;
	bool has_msg;
};

static void free_forwarding(struct forwarding *forwarding)
{
	tfc__search_drop(forwarding->search);
	tfc__heard_fini(&forwarding->heard);
	if (forwarding->has_msg)
		tfc__msg_fini(&forwarding->msg);
	tfc__buf_fini(&forwarding->params);
	free(forwarding);
}

static void forget(struct tfc__request *request)
{
	free_forwarding(request->doing);
}

static void ask_node(struct tfc__forwarder *forwarder, const struct tfc__question *question,
		     const char *node, struct tfc__request *request)
{
	struct tfc__rpc *rpc = tfc__member_rpc(&forwarder->members, node);
	struct tfc__errand *errand;
	if (!rpc)
		tfc__request_end(request,
				 tfc__fail(&request->error, TFC_ELOST, "gateway", 0,
					   "node %.60s, which has job %s, cannot be asked now",
					   node, question->job));
	else if ((errand = tfc__errand_new(request, question)))
		tfc__errand_go(errand, rpc);
}

static void on_found(void *user, const char *node, const char *id, const tfc_error *error)
{
	struct forwarding *forwarding = user;
	struct tfc__request *request = forwarding->request;
	struct tfc__question question = forwarding->heard.question;
	forwarding->search = NULL;
	request->forget = NULL;
	question.job = id;
	question.is_forwarded = true;
	if (error) {
		request->error = *error;
		tfc__request_end(request, error->code);
	} else if (*node) {
		ask_node(forwarding->forwarder, &question, node, request);
	} else {
		tfc__request_end(request,
				 forwarding->forwarder->answer(forwarding->forwarder->directory,
							       &question, request));
	}
	free_forwarding(forwarding);
}

static int copy_question(struct forwarding *forwarding, const struct tfc__question *question)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc__question_write(&forwarding->params, question);
	if (forwarding->params.is_failed ||
	    tfc__msg_parse(&forwarding->msg, forwarding->params.data, forwarding->params.len, NULL,
			   &error) < 0)
		return TFC_ENOMEM;
	forwarding->has_msg = true;
	return tfc__question_read(&forwarding->heard, question->verb, &forwarding->msg.root,
				  &error);
}

void tfc__forward(struct tfc__forwarder *forwarder, const struct tfc__question *question,
		  struct tfc__request *request)
{
	struct forwarding *forwarding = calloc(1, sizeof(*forwarding));
	int code = forwarding ? copy_question(forwarding, question) : TFC_ENOMEM;
	if (code == TFC_OK) {
		forwarding->forwarder = forwarder;
		forwarding->request = request;
		code = tfc__search_begin(forwarder->ctx, forwarder->directory, &forwarder->members,
					 question->job, on_found, forwarding, &forwarding->search);
	}
	if (code < 0) {
		if (forwarding)
			free_forwarding(forwarding);
		tfc__request_end(request, tfc__fail_nomem(&request->error, "gateway"));
		return;
	}
	request->doing = forwarding;
	request->forget = forget;
}

/* ---- LIST */

struct listing;

struct lister {
	struct listing *listing;
	struct tfc__rpc_call *call;
};

struct listing {
	struct tfc__request *request;
	struct lister *listers;
	uint32_t count;
	uint32_t pending;
};

static void free_listing(struct listing *listing)
{
	for (uint32_t i = 0; i < listing->count; i++)
		if (listing->listers[i].call)
			tfc__rpc_drop(listing->listers[i].call);
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

static void on_listed(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	struct lister *lister = user;
	struct listing *listing = lister->listing;
	struct tfc__request *request = listing->request;
	size_t len;
	lister->call = NULL;
	const char *text = code == TFC_OK && result ? tfc__msg_bytes(result, &len) : NULL;
	if (text)
		join_lists(&request->text, text, len);
	if (--listing->pending)
		return;
	free_listing(listing);
	tfc__request_end(request, TFC_OK);
}

static void ask_for_list(struct listing *listing, struct lister *lister, struct tfc__rpc *rpc,
			 const struct tfc__buf *params)
{
	const struct tfc__rpc_options call = {
		.method = "gateway.list",
		.params = params,
		.timeout_ms = LIST_MS,
		.end = on_listed,
		.user = lister,
	};
	lister->listing = listing;
	if (tfc__rpc_call(rpc, &call, &lister->call, NULL) == TFC_OK)
		listing->pending++;
}

void tfc__forward_list(struct tfc__forwarder *forwarder, struct tfc__request *request)
{
	const struct tfc__question question = {.verb = TFC__LIST, .is_forwarded = true};
	const struct tfc__gateway_members *members = &forwarder->members;
	struct listing *listing = calloc(1, sizeof(*listing));
	struct tfc__buf params = {0};
	const char *name;
	struct tfc__rpc *rpc;
	uint32_t count = 0;
	while (members->ops->at(members->user, count, &name, &rpc))
		count++;
	tfc__question_write(&params, &question);
	if (listing)
		listing->listers = calloc(count ? count : 1, sizeof(*listing->listers));
	if (!listing || !listing->listers || params.is_failed) {
		tfc__buf_fini(&params);
		free(listing ? listing->listers : NULL);
		free(listing);
		tfc__request_end(request, tfc__fail_nomem(&request->error, "gateway"));
		return;
	}
	listing->request = request;
	for (uint32_t i = 0; i < count; i++)
		if (members->ops->at(members->user, i, &name, &rpc) && rpc)
			ask_for_list(listing, &listing->listers[listing->count++], rpc, &params);
	tfc__buf_fini(&params);
	if (listing->pending) {
		request->doing = listing;
		request->forget = forget_listing;
		return;
	}
	free_listing(listing);
	tfc__request_end(request, TFC_OK);
}

/* ---- subscriptions */

static void on_route(void *user, const char *node, const char *id, const tfc_error *error);

/* What a subscription waits for; its slot. */
struct routing {
	struct tfc__forwarder *forwarder;
	struct tfc__remote_sub *sub;
	struct tfc__search *search;
};

static void forget_route(struct tfc__route *route, struct tfc__remote_sub *sub)
{
	struct routing *routing = tfc__remote_sub_slot(sub);
	tfc__search_drop(routing->search);
	free(routing);
}

static void find_route(struct tfc__route *route, struct tfc__remote_sub *sub, const char *job)
{
	struct tfc__forwarder *forwarder = tfc__container_of(route, struct tfc__forwarder, route);
	struct routing *routing = calloc(1, sizeof(*routing));
	tfc_error error = TFC_ERROR_INIT;
	if (!routing || tfc__search_begin(forwarder->ctx, forwarder->directory, &forwarder->members,
					  job, on_route, routing, &routing->search) < 0) {
		free(routing);
		tfc__fail_nomem(&error, "gateway");
		tfc__remote_sub_failed(sub, &error);
		return;
	}
	routing->forwarder = forwarder;
	routing->sub = sub;
	tfc__remote_sub_set_slot(sub, routing);
}

static void on_route(void *user, const char *node, const char *id, const tfc_error *error)
{
	struct routing *routing = user;
	struct tfc__remote_sub *sub = routing->sub;
	const struct tfc__gateway_members *members = &routing->forwarder->members;
	struct tfc__rpc *rpc = error ? NULL : tfc__member_rpc(members, node);
	tfc_error lost = TFC_ERROR_INIT;
	free(routing);
	if (!error && !rpc)
		tfc__fail(&lost, TFC_ELOST, "gateway", 0,
			  *node ? "node %.60s cannot be asked now" : "job %.60s has moved here",
			  *node ? node : id);
	if (rpc)
		tfc__remote_sub_go(sub, rpc, id);
	else
		tfc__remote_sub_failed(sub, error ? error : &lost);
}

void tfc__forwarder_init(struct tfc__forwarder *forwarder)
{
	forwarder->route = (struct tfc__route){
		.find = find_route,
		.forget = forget_route,
		.patience_ms = PATIENCE_MS,
		.is_forwarded = true,
	};
}
