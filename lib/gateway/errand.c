#include "gateway/errand.h"

#include <stdlib.h>

#include "base/fail.h"
#include "gateway/question.h"
#include "job/job.h"

static void free_errand(struct tfc__errand *errand)
{
	if (errand->call)
		tfc__rpc_drop(errand->call);
	tfc__upload_close(errand->upload);
	if (errand->home)
		errand->free_home(errand->home);
	tfc__list_remove(&errand->link);
	tfc__buf_fini(&errand->params);
	free(errand);
}

static void forget(struct tfc__request *request)
{
	free_errand(request->doing);
}

struct tfc__errand *tfc__errand_new(struct tfc__request *request,
				    const struct tfc__question *question)
{
	struct tfc__errand *errand = calloc(1, sizeof(*errand));
	if (errand)
		tfc__question_write(&errand->params, question);
	if (!errand || errand->params.is_failed) {
		if (errand)
			tfc__buf_fini(&errand->params);
		free(errand);
		tfc__request_end(request, tfc__fail_nomem(&request->error, "gateway"));
		return NULL;
	}
	tfc__list_init(&errand->link);
	errand->request = request;
	errand->verb = question->verb;
	errand->progress = question->progress;
	errand->has_secrets = question->definition && tfc__job_has_secrets(question->definition);
	request->doing = errand;
	request->forget = forget;
	return errand;
}

void tfc__errand_fail(struct tfc__errand *errand, const tfc_error *error)
{
	struct tfc__request *request = errand->request;
	request->error = *error;
	free_errand(errand);
	tfc__request_end(request, error->code);
}

/* Whether the outcome is unknown and the owner may repeat the call. */
static bool leaves_open(const struct tfc__errand *errand, int code)
{
	return errand->lost &&
	       (code == TFC_ELOST || (errand->is_open && errand->is_open(errand, code)));
}

static void on_end(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	struct tfc__errand *errand = user;
	struct tfc__request *request = errand->request;
	size_t len;
	errand->call = NULL;
	if (leaves_open(errand, code)) {
		if (errand->upload)
			tfc__upload_leave(errand->upload);
		errand->lost(errand, error);
		return;
	}
	/* A repeated forget finds no job: the first one removed it, and its response was lost. */
	bool is_done = errand->verb == TFC_VERB_FORGET && errand->tries && code == TFC_ENOENT;
	if (code < 0 && !is_done) {
		tfc__errand_fail(errand, error);
		return;
	}
	const char *text = result ? tfc__msg_bytes(result, &len) : NULL;
	if (text)
		tfc__buf_add(&request->text, text, len);
	free_errand(errand);
	tfc__request_end(request, TFC_OK);
}

static void put(struct tfc__errand *errand)
{
	char method[TFC__METHOD_SIZE];
	tfc_error error = TFC_ERROR_INIT;
	const struct tfc__rpc_options call = {
		.method = method,
		.params = &errand->params,
		.end = on_end,
		.user = errand,
	};
	tfc__verb_method(errand->verb, method);
	if (errand->putting)
		errand->putting(errand);
	if (errand->params.is_failed) {
		tfc__fail_nomem(&error, "gateway");
		tfc__errand_fail(errand, &error);
		return;
	}
	int code = tfc__rpc_call(errand->rpc, &call, &errand->call, &error);
	if (leaves_open(errand, code))
		errand->lost(errand, &error);
	else if (code < 0)
		tfc__errand_fail(errand, &error);
}

/* False: the errand has secrets, the connection is not encrypted, and the errand has failed. */
static bool set_rpc(struct tfc__errand *errand, struct tfc__rpc *rpc)
{
	tfc_error error = TFC_ERROR_INIT;
	errand->rpc = rpc;
	if (!errand->has_secrets || !tfc__rpc_is_exposed(rpc))
		return true;
	tfc__fail(&error, TFC_EACCES, "gateway", 0,
		  "secret_env: the connection to the node is not encrypted, so others could read "
		  "the values; use a key (key_file) or the node's unix socket");
	tfc__errand_fail(errand, &error);
	return false;
}

void tfc__errand_put(struct tfc__errand *errand, struct tfc__rpc *rpc)
{
	if (set_rpc(errand, rpc))
		put(errand);
}

void tfc__errand_go(struct tfc__errand *errand, struct tfc__rpc *rpc)
{
	if (!set_rpc(errand, rpc))
		return;
	if (errand->upload)
		tfc__upload_offer(errand->upload, rpc);
	else
		put(errand);
}

/* ---- upload of the bundle */

static void on_packed(void *user)
{
	struct tfc__errand *errand = user;
	tfc_error error = TFC_ERROR_INIT;
	tfc__question_write_bundle(&errand->params, tfc__upload_hash(errand->upload));
	if (errand->params.is_failed) {
		tfc__fail_nomem(&error, "gateway");
		tfc__errand_fail(errand, &error);
	} else {
		errand->packed(errand);
	}
}

static void on_there(void *user)
{
	struct tfc__errand *errand = user;
	if (!errand->call)
		put(errand);
}

/* During the call, the end of the call reports a failure. */
static void on_failed(void *user, const tfc_error *error)
{
	struct tfc__errand *errand = user;
	if (errand->call)
		return;
	if (error->code == TFC_ELOST && errand->lost)
		errand->lost(errand, error);
	else
		tfc__errand_fail(errand, error);
}

static void on_moved(void *user, uint64_t sent, uint64_t total)
{
	struct tfc__errand *errand = user;
	if (errand->progress)
		errand->progress(errand->request->user, sent, total);
}

void tfc__errand_bring(struct tfc__errand *errand, struct tfc__uploads *uploads, const char *path)
{
	static const struct tfc__upload_ops ops = {on_packed, on_there, on_failed, on_moved};
	tfc_error error = TFC_ERROR_INIT;
	if (tfc__upload_open(uploads, path, &ops, errand, &error, &errand->upload) < 0)
		tfc__errand_fail(errand, &error);
}
