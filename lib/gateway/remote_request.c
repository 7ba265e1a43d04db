#include "gateway/remote_request.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/names.h"
#include "gateway/request_params.h"
#include "job/job.h"

static void remote_request_free(struct tfc__remote_request *remote_request)
{
	if (remote_request->call)
		tfc__rpc_drop(remote_request->call);
	tfc__upload_close(remote_request->upload);
	tfc__list_remove(&remote_request->wait.link);
	if (remote_request->home)
		remote_request->free_home(remote_request->home);
	tfc__list_remove(&remote_request->link);
	tfc__buf_fini(&remote_request->params);
	free(remote_request);
}

static void remote_request_cancel(struct tfc__request *request)
{
	remote_request_free(request->impl);
}

struct tfc__remote_request *tfc__remote_request_new(struct tfc__request *request,
						    const struct tfc__request_params *params)
{
	struct tfc__remote_request *remote_request = calloc(1, sizeof(*remote_request));
	if (remote_request)
		tfc__request_params_write(&remote_request->params, params);
	if (!remote_request || remote_request->params.is_failed) {
		if (remote_request)
			tfc__buf_fini(&remote_request->params);
		free(remote_request);
		tfc__request_end(request, tfc__fail_nomem(&request->error, "gateway"));
		return NULL;
	}
	tfc__list_init(&remote_request->link);
	tfc__list_init(&remote_request->wait.link);
	remote_request->request = request;
	remote_request->verb = params->verb;
	remote_request->progress = params->progress;
	remote_request->has_secrets = params->definition &&
				      tfc__job_has_secrets(params->definition);
	request->impl = remote_request;
	request->cancel = remote_request_cancel;
	return remote_request;
}

void tfc__remote_request_fail(struct tfc__remote_request *remote_request, const tfc_error *error)
{
	struct tfc__request *request = remote_request->request;
	request->error = *error;
	remote_request_free(remote_request);
	tfc__request_end(request, error->code);
}

/* Whether the outcome is unknown and the owner may repeat the call. */
static bool remote_request_may_repeat(const struct tfc__remote_request *remote_request, int code)
{
	return remote_request->lost &&
	       (code == TFC_ELOST || (remote_request->is_outcome_unknown &&
				      remote_request->is_outcome_unknown(remote_request, code)));
}

static bool is_job_id(const char *text, size_t len)
{
	char id[17] = "";
	if (text && len == sizeof(id) - 1)
		memcpy(id, text, len);
	return tfc__is_job_id(id);
}

static void remote_request_on_end(void *user, int code, const msgpack_object *result,
				  const tfc_error *error)
{
	struct tfc__remote_request *remote_request = user;
	struct tfc__request *request = remote_request->request;
	size_t len = 0;
	remote_request->call = NULL;
	if (remote_request_may_repeat(remote_request, code)) {
		if (remote_request->upload)
			tfc__upload_leave(remote_request->upload);
		remote_request->lost(remote_request, error);
		return;
	}
	/* A repeated forget finds no job: the first one removed it, and its response was lost. */
	bool is_done = remote_request->verb == TFC_VERB_FORGET && remote_request->tries &&
		       code == TFC_ENOENT;
	if (code < 0 && !is_done) {
		tfc__remote_request_fail(remote_request, error);
		return;
	}
	const char *text = result ? tfc__msg_bytes(result, &len) : NULL;
	if (remote_request->verb == TFC_VERB_SUBMIT && !is_job_id(text, len)) {
		tfc_error no_id;
		tfc__fail(&no_id, TFC_EPARSE, "gateway", 0,
			  "the node's response to the submit is not a job id");
		tfc__remote_request_fail(remote_request, &no_id);
		return;
	}
	if (text)
		tfc__buf_add(&request->text, text, len);
	remote_request_free(remote_request);
	tfc__request_end(request, TFC_OK);
}

static void remote_request_call(struct tfc__remote_request *remote_request)
{
	char method[TFC__METHOD_SIZE];
	tfc_error error = TFC_ERROR_INIT;
	const struct tfc__rpc_options call = {
		.method = method,
		.params = &remote_request->params,
		.end = remote_request_on_end,
		.user = remote_request,
	};
	tfc__verb_method(remote_request->verb, method);
	if (remote_request->before_send)
		remote_request->before_send(remote_request);
	if (remote_request->params.is_failed) {
		tfc__fail_nomem(&error, "gateway");
		tfc__remote_request_fail(remote_request, &error);
		return;
	}
	int code = tfc__rpc_call(remote_request->rpc, &call, &error, &remote_request->call);
	if (remote_request_may_repeat(remote_request, code))
		remote_request->lost(remote_request, &error);
	else if (code < 0)
		tfc__remote_request_fail(remote_request, &error);
}

/* False: the remote request has secrets, the connection is not encrypted, and the remote request
 * has failed. */
static bool remote_request_set_rpc(struct tfc__remote_request *remote_request, struct tfc__rpc *rpc)
{
	tfc_error error = TFC_ERROR_INIT;
	remote_request->rpc = rpc;
	if (!remote_request->has_secrets || !tfc__rpc_is_exposed(rpc))
		return true;
	tfc__fail(&error, TFC_EACCES, "gateway", 0,
		  "secret_env: the connection to the node is not encrypted, so others could read "
		  "the values; use a key (key_file) or the node's unix socket");
	tfc__remote_request_fail(remote_request, &error);
	return false;
}

void tfc__remote_request_send_alone(struct tfc__remote_request *remote_request,
				    struct tfc__rpc *rpc)
{
	if (remote_request_set_rpc(remote_request, rpc))
		remote_request_call(remote_request);
}

void tfc__remote_request_send(struct tfc__remote_request *remote_request, struct tfc__rpc *rpc)
{
	if (!remote_request_set_rpc(remote_request, rpc))
		return;
	if (remote_request->upload)
		tfc__upload_offer(remote_request->upload, rpc);
	else
		remote_request_call(remote_request);
}

/* ---- upload of the bundle */

static void remote_request_on_packed(void *user)
{
	struct tfc__remote_request *remote_request = user;
	tfc_error error = TFC_ERROR_INIT;
	tfc__request_params_add_bundle(&remote_request->params,
				       tfc__upload_hash(remote_request->upload));
	if (remote_request->params.is_failed) {
		tfc__fail_nomem(&error, "gateway");
		tfc__remote_request_fail(remote_request, &error);
	} else {
		remote_request->packed(remote_request);
	}
}

static void remote_request_on_bundle_ready(void *user)
{
	struct tfc__remote_request *remote_request = user;
	if (!remote_request->call)
		remote_request_call(remote_request);
}

/* During the call, the end of the call reports a failure. */
static void remote_request_on_upload_failed(void *user, const tfc_error *error)
{
	struct tfc__remote_request *remote_request = user;
	if (remote_request->call)
		return;
	if (error->code == TFC_ELOST && remote_request->lost)
		remote_request->lost(remote_request, error);
	else
		tfc__remote_request_fail(remote_request, error);
}

static void remote_request_on_progress(void *user, uint64_t sent, uint64_t total)
{
	struct tfc__remote_request *remote_request = user;
	if (remote_request->progress)
		remote_request->progress(remote_request->request->user, sent, total);
}

void tfc__remote_request_add_bundle(struct tfc__remote_request *remote_request,
				    struct tfc__uploads *uploads, const char *path)
{
	static const struct tfc__upload_ops ops = {remote_request_on_packed,
						   remote_request_on_bundle_ready,
						   remote_request_on_upload_failed,
						   remote_request_on_progress};
	tfc_error error = TFC_ERROR_INIT;
	if (tfc__upload_open(uploads, path, &ops, remote_request, &error, &remote_request->upload) <
	    0)
		tfc__remote_request_fail(remote_request, &error);
}
