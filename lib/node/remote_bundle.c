#include <stdlib.h>
#include <string.h>

#include "gateway/bundle_send.h"
#include "node/internal.h"

/* However many jobs want an archive there, it goes once. */
struct upload {
	struct tfc__link link; /* of the agent */
	struct tfc__remote_agent *agent;
	const struct tfc__bundle *bundle;
	struct tfc__bundle_send *send;
};

static void free_upload(struct upload *upload)
{
	tfc__list_remove(&upload->link);
	tfc__bundle_send_close(upload->send);
	free(upload);
}

static void complain(const struct tfc__remote_agent *agent, const tfc_error *error)
{
	tfc__log(agent->ctx, TFC_LOG_ERROR, "node", agent->node, "a bundle could not be sent: %s",
		 error->text);
}

/* What it lacks it asks for again. */
static void on_end(void *user, const tfc_error *error)
{
	struct upload *upload = user;
	upload->send = NULL;
	if (error && error->code != TFC_ELOST)
		complain(upload->agent, error);
	free_upload(upload);
}

static struct upload *find(struct tfc__remote_agent *agent, const struct tfc__bundle *bundle)
{
	TFC__LIST_EACH (link, &agent->uploads) {
		struct upload *upload = tfc__container_of(link, struct upload, link);
		if (strcmp(upload->bundle->hash, bundle->hash) == 0)
			return upload;
	}
	return NULL;
}

static int begin(struct tfc__remote_agent *agent, struct tfc__bundle *bundle, uint64_t at,
		 tfc_error *error)
{
	struct upload *upload = calloc(1, sizeof(*upload));
	if (!upload)
		return tfc__fail_nomem(error, "node");
	upload->agent = agent;
	upload->bundle = bundle;
	tfc__list_append(&agent->uploads, &upload->link);
	const struct tfc__bundle_send_options options = {.rpc = agent->rpc,
							 .method = "agent.bundle",
							 .instance = agent->instance,
							 .at = at,
							 .end = on_end,
							 .user = upload};
	int code = tfc__bundle_send(bundle, &options, error, &upload->send);
	if (!upload->send)
		free_upload(upload);
	return code;
}

void tfc__remote_upload(struct remote_job *job, uint64_t at)
{
	struct tfc__remote_agent *agent = job->agent;
	tfc_error error = TFC_ERROR_INIT;
	if (!job->bundle || job->bundle->state != TFC__BUNDLE_READY || find(agent, job->bundle))
		return;
	if (begin(agent, job->bundle, at, &error) < 0)
		complain(agent, &error);
}

void tfc__remote_uploads_end(struct tfc__remote_agent *agent)
{
	TFC__LIST_EACH (link, &agent->uploads)
		free_upload(tfc__container_of(link, struct upload, link));
}
