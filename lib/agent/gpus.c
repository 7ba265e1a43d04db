/*
 * The GPUs of this machine; each belongs to at most one task at a time. They are named in the
 * options or listed by a small program (tfc-gpus), because the driver's library would start threads
 * in the host.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/internal.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/text.h"
#include "log/tail.h"

#define GPUS_MAX 1024
#define ID_MAX 95 /* NVML_DEVICE_UUID_V2_BUFFER_SIZE */
#define FIND_LOG "gpus"
#define FIND_NS (60 * TFC__SECOND) /* a driver that is not loaded takes long to start */
#define VISIBLE "CUDA_VISIBLE_DEVICES"
#define DEVICE_ORDER "CUDA_DEVICE_ORDER"

/* ---- the list */

/* An index, or a UUID as CUDA has it: "GPU-...", "MIG-...", "MIG-GPU-.../1/0". */
static bool is_gpu_id(const char *id)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789-/";
	size_t len = strlen(id);
	bool is_index = strspn(id, "0123456789") == len;
	bool is_uuid = strncmp(id, "GPU-", 4) == 0 || strncmp(id, "MIG-", 4) == 0;
	return len && len <= ID_MAX && (is_index || (is_uuid && strspn(id, letters) == len));
}

static int gpus_refuse_id(const char *id, tfc_error *error)
{
	static const char *const values[] = {"auto", "none"};
	for (size_t i = 0; i < 2; i++) {
		size_t edits = tfc__edit_distance(id, strlen(id), values[i], strlen(values[i]));
		if (edits > 0 && edits <= 2) /* 0: "auto" is in a list */
			return tfc__fail(error, TFC_EINVAL, "agent", 0,
					 "gpus: \"%.40s\" is not a GPU; did you mean %s?", id,
					 values[i]);
	}
	return tfc__fail(error, TFC_EINVAL, "agent", 0,
			 "gpus: \"%.40s\" is not a GPU; write auto, none, or a list such as 0,1 or "
			 "GPU-8932f937-d72c-...",
			 id);
}

static int gpus_add_id(struct tfc__strv *ids, char *id, tfc_error *error)
{
	if (!is_gpu_id(id))
		return gpus_refuse_id(id, error);
	for (size_t i = 0; i < ids->count; i++)
		if (strcmp(ids->items[i], id) == 0)
			return tfc__fail(error, TFC_EINVAL, "agent", 0,
					 "gpus: duplicate GPU \"%s\"", id);
	if (ids->count == GPUS_MAX)
		return tfc__fail(error, TFC_EINVAL, "agent", 0, "gpus: more than %d GPUs",
				 GPUS_MAX);
	tfc__strv_add(ids, id);
	return ids->is_failed ? tfc__fail_nomem(error, "agent") : TFC_OK;
}

/* A list such as "0,1" or "GPU-...,GPU-...". */
static int gpus_add_list(struct tfc__strv *ids, const char *text, tfc_error *error)
{
	char *copy = strdup(text), *rest = copy, *id;
	int code = copy ? TFC_OK : tfc__fail_nomem(error, "agent");
	while (code == TFC_OK && (id = strsep(&rest, ",")))
		code = gpus_add_id(ids, id, error);
	free(copy);
	return code;
}

/* Takes ownership of the list, of which nothing is claimed yet. */
static int gpus_set_ids(struct gpus *gpus, struct tfc__strv *ids, tfc_error *error)
{
	struct agent_task **owners = calloc(ids->count + 1, sizeof(*owners));
	if (!owners) {
		tfc__strv_fini(ids);
		return tfc__fail_nomem(error, "agent");
	}
	gpus->ids = *ids;
	gpus->owners = owners;
	gpus->free_count = (uint32_t)ids->count;
	return TFC_OK;
}

/* ---- listing */

static void gpus_offer_none(struct tfc__agent *agent, const char *text)
{
	tfc__log(agent->ctx, TFC_LOG_WARNING, "agent", "",
		 "this node offers no GPUs because they could not be listed: %s",
		 *text ? text : "tfc-gpus ended without a result");
	agent->gpus.fn(agent->gpus.user, 0);
}

static void gpus_end_listing(struct gpus *gpus)
{
	tfc__timer_cancel(&gpus->patience);
	tfc_process_close(gpus->finding);
	gpus->finding = NULL;
}

static void gpus_on_listed(void *user, const tfc_process_event *process)
{
	struct tfc__agent *agent = user;
	struct tfc__strv ids = {0};
	tfc_error error = TFC_ERROR_INIT;
	char **lines = NULL;
	if (process->kind != TFC_PROCESS_EXITED)
		return;
	bool is_good = process->reason == TFC_EXIT_CODE && process->status == 0;
	int code = tfc__log_tail(agent->run_dir, FIND_LOG, 0, 0, is_good ? GPUS_MAX + 1 : 1,
				 &lines);
	if (!is_good || code < 0) {
		gpus_offer_none(agent, code >= 0 && lines[0] ? lines[0] : process->text);
	} else {
		for (char **line = lines; code >= 0 && *line; line++)
			code = gpus_add_id(&ids, *line, &error);
		if (code >= 0)
			code = gpus_set_ids(&agent->gpus, &ids, &error);
		else
			tfc__strv_fini(&ids);
		if (code >= 0)
			agent->gpus.fn(agent->gpus.user, agent->gpus.free_count);
		else
			gpus_offer_none(agent, error.text);
	}
	if (lines)
		tfc_strv_free(lines);
	gpus_end_listing(&agent->gpus);
}

static void gpus_on_timeout(struct tfc__timer *timer)
{
	struct tfc__agent *agent = tfc__container_of(timer, struct tfc__agent, gpus.patience);
	gpus_offer_none(agent, "the driver does not respond");
	gpus_end_listing(&agent->gpus);
}

static int gpus_start_listing(struct tfc__agent *agent, tfc_error *error)
{
	char *program = tfc__path_join(tfc__ctx_helper_dir(agent->ctx), "tfc-gpus");
	if (!program)
		return tfc__fail_nomem(error, "agent");
	const char *const argv[] = {program, NULL};
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	options.argv = argv;
	options.grace_ms = TFC__HELPER_GRACE_MS;
	options.env = (const char *const *)agent->env.items; /* it may locate the driver */
	options.log_dir = agent->run_dir;
	options.log_name = FIND_LOG;
	int code = tfc__process_spawn(agent->ctx, &options, NULL, gpus_on_listed, agent,
				      &agent->gpus.finding);
	free(program);
	if (code == TFC_OK)
		tfc__timer_set(&agent->gpus.patience, tfc__now() + FIND_NS);
	return code;
}

/* The GPUs that another scheduler assigned to this process, if it started it. */
static const char *gpus_assigned(const struct tfc__agent *agent)
{
	const char *list = tfc__env_get((const char *const *)agent->env.items, VISIBLE);
	if (!list)
		return NULL;
	return !*list || *list == '-' || strcmp(list, "NoDevFiles") == 0 ? "none" : list;
}

int tfc__gpus_open(struct tfc__agent *agent, const struct tfc__agent_options *options,
		   tfc_error *error)
{
	struct tfc__strv ids = {0};
	const char *text = options->gpus;
	int code = TFC_OK;
	agent->gpus.fn = options->gpus_fn;
	agent->gpus.user = options->gpus_user;
	tfc__timer_init(&agent->gpus.patience, agent->ctx, gpus_on_timeout);
	if (text && strcmp(text, "auto") == 0 && !(text = gpus_assigned(agent)))
		return gpus_start_listing(agent, error);
	if (text && strcmp(text, "none") == 0)
		return TFC_OK;
	if (text)
		code = gpus_add_list(&ids, text, error);
	for (uint32_t i = 0; !text && code == TFC_OK && i < options->gpu_count; i++) {
		char id[16];
		snprintf(id, sizeof(id), "%u", i);
		code = gpus_add_id(&ids, id, error);
	}
	if (code < 0)
		tfc__strv_fini(&ids);
	return code < 0 ? code : gpus_set_ids(&agent->gpus, &ids, error);
}

void tfc__gpus_close(struct tfc__agent *agent)
{
	if (agent->gpus.finding)
		gpus_end_listing(&agent->gpus);
	tfc__strv_fini(&agent->gpus.ids);
	free(agent->gpus.owners);
}

bool tfc__agent_is_finding_gpus(const struct tfc__agent *agent)
{
	return agent->gpus.finding;
}

uint32_t tfc__agent_gpus(const struct tfc__agent *agent)
{
	return (uint32_t)agent->gpus.ids.count;
}

/* ---- assignment */

void tfc__gpus_claim(struct agent_task *task)
{
	struct gpus *gpus = &task->job->agent->gpus;
	uint32_t left = task->role->gpus;
	gpus->free_count -= left;
	for (size_t i = 0; left; i++) {
		if (gpus->owners[i])
			continue;
		gpus->owners[i] = task;
		left--;
	}
}

void tfc__gpus_release(struct agent_task *task)
{
	struct gpus *gpus = &task->job->agent->gpus;
	gpus->free_count += task->role->gpus;
	for (size_t i = 0; i < gpus->ids.count; i++)
		if (gpus->owners[i] == task)
			gpus->owners[i] = NULL;
}

/* Set also for a task without GPUs: otherwise it would use GPUs of other tasks. */
void tfc__gpus_add_environ(const struct agent_task *task, struct tfc__strv *env)
{
	const struct gpus *gpus = &task->job->agent->gpus;
	struct tfc__buf list = {0};
	bool has_numbers = false;
	if (!gpus->ids.count || (task->job->is_plan && task->role->gpus))
		return; /* a plan claims no GPUs, so its list is unknown */
	for (size_t i = 0; i < gpus->ids.count; i++) {
		const char *id = gpus->ids.items[i];
		if (gpus->owners[i] != task)
			continue;
		has_numbers |= !id[strspn(id, "0123456789")];
		tfc__buf_addf(&list, "%s%s", list.len ? "," : "", id);
	}
	tfc__strv_set_env(env, VISIBLE, list.data ? list.data : "");
	/* CUDA numbers GPUs in the driver's order only with this variable */
	if (has_numbers && !tfc__env_get((const char *const *)env->items, DEVICE_ORDER))
		tfc__strv_set_env(env, DEVICE_ORDER, "PCI_BUS_ID");
	env->is_failed |= list.is_failed;
	tfc__buf_fini(&list);
}
