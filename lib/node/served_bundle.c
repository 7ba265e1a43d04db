#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "node/internal.h"

#define ASK_AGAIN TFC__SECOND

/* Its maintainer is asked for what there is not, also when what there was turns out damaged. */
static void on_bundle(struct tfc__bundle_waiter *waiter)
{
	struct served_job *job = tfc__container_of(waiter, struct served_job, bundle_waiter);
	if (job->bundle->state == TFC__BUNDLE_RECEIVING && !job->bundle->received)
		tfc__served_bundle_request(job);
}

int tfc__served_bundle_open(struct served_job *job, const msgpack_object *params, tfc_error *error)
{
	struct tfc__bundles *bundles = job->session->service->bundles;
	const msgpack_object *bundle = tfc__msg_get(params, "bundle");
	char hash[TFC_BUNDLE_HASH_SIZE], why[256];
	int code = TFC_OK;
	job->bundle_waiter.fn = on_bundle;
	if (!job->job->bundle)
		return TFC_OK;
	if (tfc__msg_get_text(params, "bundle_error", why, sizeof(why)))
		code = tfc__bundle_failed(bundles, why, error, &job->bundle);
	else if (tfc__msg_get_text(bundle, "hash", hash, sizeof(hash)))
		code = tfc__bundle_want(bundles, hash, tfc__msg_get_u64(bundle, "size", 0), error,
					&job->bundle);
	else
		code = tfc__fail(error, TFC_EINVAL, "node", 0, "the job's bundle is not told");
	if (code == TFC_OK)
		tfc__bundle_await(job->bundle, &job->bundle_waiter);
	return code;
}

bool tfc__served_bundle_is_wanted(const struct served_job *job)
{
	return job->bundle && job->bundle->state == TFC__BUNDLE_RECEIVING;
}

/* Whoever sends it already does not listen; whoever could not, for want of memory, tries again. */
void tfc__served_bundle_request(struct served_job *job)
{
	struct tfc__buf item = {0};
	job->asks_bundle = tfc__served_bundle_is_wanted(job);
	if (!job->asks_bundle || !job->is_up)
		return;
	tfc__msg_map(&item, 2);
	tfc__msg_put_u64(&item, "handle", job->handle);
	tfc__msg_put_u64(&item, "bundle", job->bundle->received);
	job->asks_bundle = tfc__session_notify(job->session, &item) <
			   0; /* then it is tried again */
	tfc__buf_fini(&item);
	tfc__served_job_later(job, job->asks_bundle ? SERVED_RETRY : ASK_AGAIN);
}

void tfc__served_bundle_leave(struct served_job *job)
{
	if (!job->bundle)
		return;
	tfc__bundle_unawait(&job->bundle_waiter);
	tfc__bundle_leave(job->bundle);
	job->bundle = NULL;
}
