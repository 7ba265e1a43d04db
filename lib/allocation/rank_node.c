#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocation/internal.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "wire/keyring.h"
#include "wire/secret_file.h"

#define REREAD_NS TFC__SECOND /* while rank 0 does not respond at the address in the file */

/* ---- the node */

static void allocation_on_refused(void *user, const tfc_error *error)
{
	tfc_allocation *allocation = user;
	allocation->refused = *error;
	tfc__work_schedule(&allocation->work);
}

/* The key in memory only, as a file that the node reads while it opens. The caller closes it. */
static int allocation_open_key(const tfc_allocation *allocation, tfc_error *error, int *ret_fd)
{
	int fd = memfd_create("tfcluster-key", MFD_CLOEXEC);
	if (fd < 0 || fchmod(fd, 0600) < 0 ||
	    tfc__write_all(fd, allocation->key, strlen(allocation->key)) < 0) {
		int code = tfc__fail_errno(error, "allocation", errno,
					   "cannot keep the key in memory");
		if (fd >= 0)
			close(fd);
		return code;
	}
	*ret_fd = fd;
	return TFC_OK;
}

void tfc__allocation_close_node(tfc_allocation *allocation)
{
	tfc__observer_remove(&allocation->watch);
	tfc_node_close(allocation->node);
	allocation->node = NULL;
	allocation->alive = 0;
	allocation->refused.code = 0;
	memset(allocation->ranks, 0, allocation->info.rank_count * sizeof(*allocation->ranks));
}

static bool is_loopback(const char *host)
{
	return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
}

/* The machine from which the engine starts the ranks; if it is this one, the loopback says nothing
 * about how others reach it. */
static const char *allocation_launcher(const tfc_allocation *allocation)
{
	const char *launcher = allocation->place.launcher;
	return launcher && !is_loopback(launcher) ? launcher : NULL;
}

/* The options that depend on where rank 0 is. */
static json_t *allocation_node_json(const tfc_allocation *allocation, const char *key_path)
{
	json_t *node = json_deep_copy(allocation->node_options);
	bool is_first = allocation->info.rank == 0;
	const char *peer_host = NULL;
	size_t len = 0;
	uint16_t port = 0;
	char own[INET6_ADDRSTRLEN], peer[INET6_ADDRSTRLEN] = "", address[INET6_ADDRSTRLEN + 24];
	const char *rank_0 = allocation->fixed ? allocation->fixed : allocation->at.address;
	if (*rank_0 && tfc__rendezvous_is_address(rank_0, &peer_host, &len, &port))
		snprintf(peer, sizeof(peer), "%.*s", (int)len, peer_host);
	if (allocation->host)
		snprintf(own, sizeof(own), "%s", allocation->host);
	else
		tfc__route_source(is_first && !*peer ? allocation_launcher(allocation) : peer, own);
	int failed = !node;
	failed |= json_object_set_new(node, "name", json_string(allocation->node_name));
	failed |= json_object_set_new(node, "advertise", json_string(own));
	failed |= json_object_set_new(node, "base-env", json_string("node"));
	json_t *log_dir = json_object_get(node, "log-dir");
	if (log_dir)
		failed |= json_object_set_new(node, "log-dir",
					      json_pack("s++", json_string_value(log_dir), "/",
							allocation->node_name));
	if (key_path)
		failed |= json_object_set_new(node, "key", json_string(key_path));
	failed |= json_object_set_new(node, "label",
				      json_pack("[s+]", LABEL_COMMAND, allocation->command));
	bool is_fixed = is_first && allocation->fixed;
	const char *any = strchr(own, ':') ? "::" : "0.0.0.0";
	const char *listen = is_fixed && !is_loopback(own) ? any : own;
	snprintf(address, sizeof(address), strchr(listen, ':') ? "tcp://[%s]:%u" : "tcp://%s:%u",
		 listen, is_fixed ? port : 0);
	failed |= json_object_set_new(node, "listen", json_pack("[s]", address));
	failed |= json_object_set_new(node, "gossip", json_true());
	if (!is_first)
		failed |= json_object_set_new(node, "join", json_pack("[s]", rank_0));
	if (failed) {
		json_decref(node);
		return NULL;
	}
	return node;
}

/* What holds in an allocation unless the job sets it. The engine adds no node: tasks wait as long
 * for a slot as the ranks wait for each other, because a rank may come back. And Slurm sends its
 * signals to all processes of all ranks: a task that ends because of one must not start again
 * before rank 0 has received the same signal. */
static void allocation_set_job_defaults(tfc_allocation *allocation)
{
	const struct tfc__job_defaults defaults = {
		.first_backoff_s = allocation->info.engine == TFC_ENGINE_SLURM ? 1 : 0,
		.pending_deadline_s = allocation->info.wait_ms / 1000.0,
	};
	tfc__directory_set_job_defaults(allocation->node->directory, &defaults);
}

static int allocation_open_node(tfc_allocation *allocation, tfc_error *error)
{
	const tfc_node_hooks hooks = {.size = sizeof(hooks),
				      .user = allocation,
				      .refused = allocation_on_refused};
	char path[40] = "";
	int fd = -1, code = TFC_OK;
	if (allocation->key && (code = allocation_open_key(allocation, error, &fd)) < 0)
		return code;
	if (fd >= 0)
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	json_t *node = allocation_node_json(allocation, *path ? path : NULL);
	char *json = node ? tfc__json_dump(node, JSON_COMPACT) : NULL;
	code = json ? tfc_node_open_json(allocation->ctx, json, strlen(json), NULL,
					 (const char *const *)allocation->env.items, &hooks,
					 &allocation->node)
		    : tfc__fail_nomem(error, "allocation");
	free(json);
	json_decref(node);
	if (fd >= 0)
		close(fd);
	tfc_error *why = tfc__ctx_error(allocation->ctx); /* tfc_node_open_json has set it */
	if (code == TFC_EINVAL && allocation->has_granted_gpus &&
	    strncmp(why->text, "gpus: ", 6) == 0)
		return tfc__fail_prefix(why, code, "CUDA_VISIBLE_DEVICES: ");
	if (code < 0)
		return code;
	tfc__handle_closed(&allocation->node->handle); /* the allocation closes it */
	allocation_set_job_defaults(allocation);
	const struct tfc__link *all = tfc__members_all(allocation->node->members);
	for (const struct tfc__link *link = all->next; link != all; link = link->next)
		tfc__allocation_set_member(allocation,
					   tfc__container_of(link, struct tfc__member, link));
	tfc__members_watch(allocation->node->members, &allocation->watch);
	return TFC_OK;
}

/* ---- rank 0: the key and the file */

static int allocation_make_key(tfc_allocation *allocation, tfc_error *error)
{
	char line[TFC__KEY_LINE_SIZE] = "";
	int code = tfc__key_make_line(TFC__KEY_NODE, error, line);
	if (code == TFC_OK && !(allocation->key = strdup(line)))
		code = tfc__fail_nomem(error, "allocation");
	sodium_memzero(line, sizeof(line));
	return code;
}

static int allocation_publish(tfc_allocation *allocation, tfc_error *error)
{
	const char *address = tfc_node_address(allocation->node, 0);
	struct tfc__rendezvous *at = &allocation->at;
	snprintf(at->address, sizeof(at->address), "%s", address + strlen("tcp://"));
	if (!allocation->has_given_key)
		snprintf(at->key, sizeof(at->key), "%.*s", (int)strcspn(allocation->key, "\n"),
			 allocation->key);
	int code = tfc__rendezvous_write(allocation->rendezvous, at, error, &allocation->lock);
	sodium_memzero(at->key, sizeof(at->key));
	return code;
}

int tfc__allocation_open_first(tfc_allocation *allocation, tfc_error *error)
{
	int code = TFC_OK;
	if (!allocation->key && allocation->rendezvous &&
	    (code = allocation_make_key(allocation, error)) < 0)
		return code;
	code = allocation_open_node(allocation, error);
	if (code == TFC_OK && allocation->rendezvous &&
	    (code = allocation_publish(allocation, error)) < 0)
		return tfc__fail_prefix(error, code, "rendezvous: ");
	return code;
}

/* ---- other ranks: waiting for rank 0 */

int tfc__allocation_find_first(tfc_allocation *allocation, tfc_error *error)
{
	struct tfc__rendezvous now;
	uint64_t time = tfc__now();
	if (allocation->node && (allocation->fixed || time < allocation->reread_at))
		return TFC_OK;
	allocation->reread_at = time + REREAD_NS;
	int code = allocation->fixed ? TFC_OK
				     : tfc__rendezvous_read(allocation->rendezvous, error, &now);
	if (code == TFC_ENOENT || (code < 0 && error->sys_errno == ESTALE)) /* replaced over NFS */
		return TFC_OK;
	if (code < 0)
		return code;
	if (!allocation->fixed) {
		if (allocation->node && strcmp(now.address, allocation->at.address) == 0)
			return TFC_OK;
		tfc__allocation_close_node(allocation);
		strcpy(allocation->at.address, now.address);
		if (!allocation->has_given_key) {
			if (allocation->key)
				tfc__secret_free(allocation->key, strlen(allocation->key));
			allocation->key = *now.key ? strdup(now.key) : NULL;
			if (*now.key)
				code = allocation->key
					       ? tfc__keyring_check(allocation->key,
								    allocation->rendezvous, error)
					       : tfc__fail_nomem(error, "allocation");
		}
		sodium_memzero(&now, sizeof(now));
	}
	return code < 0 ? code : allocation_open_node(allocation, error);
}
