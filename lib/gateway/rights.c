#include "gateway/rights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "gateway/request_params.h"
#include "job/job.h"

static bool is_read_only(enum tfc_verb verb)
{
	return verb == TFC_VERB_JOBS || verb == TFC_VERB_DESCRIBE || verb == TFC_VERB_SPEC ||
	       verb == TFC_VERB_MEMBERS || verb == TFC_VERB_SUBSCRIBE || verb == TFC_VERB_FIND ||
	       verb == TFC_VERB_WATCH;
}

_Static_assert((int)TFC_PEER_NODE == (int)TFC__KEY_NODE &&
		       (int)TFC_PEER_SUBMIT == (int)TFC__KEY_SUBMIT &&
		       (int)TFC_PEER_READ == (int)TFC__KEY_READ,
	       "a host sees the roles of keys as they are");

const char *tfc_peer_role_name(uint32_t role)
{
	return tfc__key_role_name((enum tfc__key_role)role);
}

int tfc__rights_check(const struct tfc__gateway_service_options *options,
		      const struct tfc__peer_id *requester,
		      const struct tfc__request_params *params, tfc_error *error)
{
	const tfc_node_hooks *hooks = &options->hooks;
	const char *verb = tfc_verb_name(params->verb);
	const tfc_peer_info info = {
		.size = sizeof(info),
		.role = (enum tfc_peer_role)requester->role,
		.uid = requester->uid,
		.gid = requester->gid,
		.pid = requester->pid,
		.node_id = requester->node_id,
		.key_id = requester->key_id,
		.address = requester->address,
	};
	if (requester->role != TFC__KEY_NODE &&
	    (params->is_forwarded ||
	     (requester->role != TFC__KEY_SUBMIT && !is_read_only(params->verb))))
		return tfc__fail(error, TFC_EACCES, "gateway", 0,
				 "a %s key has no permission to %s; use a %s key",
				 tfc__key_role_name(requester->role), verb,
				 params->is_forwarded ? "node" : "submit");
	if (hooks->authorize && hooks->authorize(hooks->user, &info, params->verb, params->job) < 0)
		return tfc__fail(error, TFC_EACCES, "gateway", 0,
				 "permission to %s denied by the host", verb);
	return TFC_OK;
}

/* ---- the submitter */

void tfc__rights_write_submitter(const struct tfc__peer_id *requester,
				 char as[TFC__SUBMITTER_AS_SIZE])
{
	if (requester->uid != UINT32_MAX)
		snprintf(as, TFC__SUBMITTER_AS_SIZE, "%u:%u", requester->uid, requester->gid);
	else
		snprintf(as, TFC__SUBMITTER_AS_SIZE, "%s", tfc__key_role_name(requester->role));
}

/* Returns what follows the number; NULL if there is none below UINT32_MAX, which means "no id". */
static const char *read_id(const char *text, uint32_t *ret_id)
{
	uint64_t id = 0;
	const char *at = text;
	for (; *at >= '0' && *at <= '9' && id < UINT32_MAX; at++)
		id = id * 10 + (uint64_t)(*at - '0');
	*ret_id = (uint32_t)id;
	return at > text && id < UINT32_MAX ? at : NULL;
}

static bool read_user(const char *as, uint32_t *ret_uid, uint32_t *ret_gid)
{
	const char *at = read_id(as, ret_uid);
	at = at && *at == ':' ? read_id(at + 1, ret_gid) : NULL;
	return at && !*at;
}

int tfc__rights_submitter(const char *as, struct tfc__peer_id *requester, tfc_error *error)
{
	uint32_t uid, gid;
	requester->uid = requester->gid = UINT32_MAX;
	requester->pid = 0;
	if (read_user(as, &uid, &gid)) {
		requester->uid = uid;
		requester->gid = gid;
		requester->role = uid == 0 || uid == geteuid() ? TFC__KEY_NODE : TFC__KEY_SUBMIT;
		return TFC_OK;
	}
	if (!tfc__key_role_parse(as, &requester->role) || requester->role == TFC__KEY_READ)
		return tfc__fail(error, TFC_EINVAL, "gateway", 0, "invalid submitter \"%.40s\"",
				 as);
	return TFC_OK;
}

uint32_t tfc__rights_owner(const struct tfc__gateway_service_options *options,
			   const struct tfc__peer_id *requester)
{
	if (requester->uid != UINT32_MAX)
		return requester->uid;
	return requester->role == TFC__KEY_SUBMIT && options->submit_uid != UINT32_MAX
		       ? options->submit_uid
		       : geteuid();
}

/* ---- what a job may contain */

/*
 * Tasks run as the submitter. Root, and the node's own user if the node does not run as root,
 * choose the user in the job; for all others it is set here.
 */
static int set_users(const struct tfc__gateway_service_options *options,
		     const struct tfc__peer_id *requester, tfc_job *job, tfc_error *error)
{
	char user[32];
	bool is_remote = requester->uid == UINT32_MAX;
	uint32_t uid = is_remote ? options->submit_uid : requester->uid;
	uint32_t gid = is_remote ? options->submit_gid : requester->gid;
	if (requester->role != TFC__KEY_NODE && uid == UINT32_MAX && geteuid() == 0)
		return tfc__fail(error, TFC_EACCES, "gateway", 0,
				 "the node runs as root and has no user for the tasks of submit "
				 "keys; set its option submit_user");
	if (requester->role == TFC__KEY_NODE || uid == UINT32_MAX || uid == 0 || uid == geteuid())
		return TFC_OK;
	snprintf(user, sizeof(user), "%u:%u", uid, gid);
	for (uint32_t i = 0; i < job->role_count; i++) {
		struct tfc__role *role = &job->roles[i];
		if (role->user && strcmp(role->user, user) != 0)
			return tfc__fail(error, TFC_EACCES, "gateway", 0,
					 "roles.%.60s.user: only root may submit tasks of another "
					 "user (\"%.60s\")",
					 role->name, role->user);
		free(role->user);
		role->user = strdup(user);
		if (!role->user)
			return tfc__fail_nomem(error, "gateway");
	}
	return TFC_OK;
}

int tfc__rights_apply(const struct tfc__gateway_service_options *options,
		      const struct tfc__peer_id *requester, tfc_job *job, tfc_error *error)
{
	int code = set_users(options, requester, job, error);
	if (code < 0 || !job->bundle || tfc__bundle_named(job->bundle))
		return code;
	/* It would be read with the node's permissions, on the node's machine. */
	return tfc__fail(error, TFC_EACCES, "gateway", 0,
			 "bundle: a client cannot name a path on the node; send the bundle and "
			 "name its hash");
}
