#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "allocation/internal.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/text.h"
#include "wire/keyring.h"

#define WAIT_MS 300000

static void allocation_describe(tfc_allocation *allocation, const tfc_allocation_options *options)
{
	tfc_allocation_info *info = &allocation->info;
	const struct tfc__engine_place *place = &allocation->place;
	char memory[TFC__MEMORY_TEXT_SIZE] = "all memory";
	snprintf(allocation->node_name, sizeof(allocation->node_name), "rank-%u", place->rank);
	*info = (tfc_allocation_info){
		.size = sizeof(*info),
		.engine = place->engine,
		.rank = place->rank,
		.rank_count = place->rank_count,
		.id = place->id,
		.node_name = allocation->node_name,
		.slots = allocation->grant.slots,
		.wait_ms = options->wait_ms ? options->wait_ms : WAIT_MS,
		.memory_bytes = allocation->grant.memory_bytes,
		.gpus = allocation->gpus,
		.text = allocation->text,
	};
	if (info->memory_bytes)
		tfc__memory_text(info->memory_bytes, memory);
	char engine[TFC__ENGINE_ID_SIZE + 32];
	if (info->engine == TFC_ENGINE_NONE)
		snprintf(engine, sizeof(engine), "without an engine");
	else
		snprintf(engine, sizeof(engine), "in %s (%s)", tfc_engine_name(info->engine),
			 info->id);
	snprintf(allocation->text, sizeof(allocation->text),
		 "rank %u of %u %s, with %u %s, %s, GPUs: %s", info->rank, info->rank_count, engine,
		 info->slots, info->slots == 1 ? "CPU" : "CPUs", memory,
		 strcmp(info->gpus, "auto") == 0 ? "all" : info->gpus);
}

static bool json_lacks(const json_t *object, const char *name)
{
	return !json_object_get(object, name);
}

/* The host's options of the node, and what the engine has granted where they do not say. */
static int allocation_read_node(tfc_allocation *allocation, const tfc_allocation_options *options,
				tfc_error *error)
{
	const char *text = options->node ? options->node : "{}";
	struct tfc__grant *grant = &allocation->grant;
	json_t *node = NULL;
	int code = tfc_node_check_json(text, strlen(text), NULL, error);
	if (code == TFC_OK)
		code = tfc__json_load(text, strlen(text), 0, NULL, &node);
	if (code < 0)
		return code == TFC_ENOMEM ? tfc__fail_nomem(error, "allocation") : code;
	allocation->node_options = node;
	int failed = 0;
	if (json_lacks(node, "slots"))
		failed |= json_object_set_new(node, "slots", json_integer(grant->slots));
	if (json_lacks(node, "memory") && grant->memory_bytes)
		failed |= json_object_set_new(node, "memory",
					      json_integer((json_int_t)grant->memory_bytes));
	allocation->has_granted_gpus = json_lacks(node, "gpus");
	if (allocation->has_granted_gpus)
		failed |= json_object_set_new(node, "gpus", json_string(allocation->gpus));
	return failed ? tfc__fail_nomem(error, "allocation") : TFC_OK;
}

static int allocation_read_rendezvous(tfc_allocation *allocation,
				      const tfc_allocation_options *options, tfc_error *error)
{
	const char *host;
	size_t len;
	uint16_t port;
	struct stat stat_;
	if (tfc__rendezvous_is_address(options->rendezvous, &host, &len, &port)) {
		allocation->fixed = strdup(options->rendezvous);
		return allocation->fixed ? TFC_OK : tfc__fail_nomem(error, "allocation");
	}
	if (stat(options->rendezvous, &stat_) < 0)
		return tfc__fail_errno(
			error, "allocation", errno,
			"rendezvous \"%s\" is neither HOST:PORT nor a directory that "
			"can be used",
			options->rendezvous);
	if (!S_ISDIR(stat_.st_mode))
		return tfc__fail(error, TFC_EINVAL, "allocation", 0,
				 "rendezvous \"%s\" is neither HOST:PORT nor a directory",
				 options->rendezvous);
	if (asprintf(&allocation->rendezvous, "%s/tfcluster-%s", options->rendezvous,
		     allocation->place.id) < 0) {
		allocation->rendezvous = NULL;
		return tfc__fail_nomem(error, "allocation");
	}
	return TFC_OK;
}

static int allocation_read_key(tfc_allocation *allocation, const tfc_allocation_options *options,
			       tfc_error *error)
{
	if (options->key_file)
		return tfc__keyring_read(options->key_file, error, &allocation->key);
	if (!options->key_data)
		return TFC_OK;
	if (!options->key_data[strspn(options->key_data, " \t\r\n")])
		return tfc__fail(error, TFC_EPARSE, "allocation", 0,
				 "key_data is empty; set it to the text of a key file");
	allocation->key = strdup(options->key_data);
	return allocation->key ? tfc__keyring_check(allocation->key, "key_data", error)
			       : tfc__fail_nomem(error, "allocation");
}

static void allocation_hash_agreement(tfc_allocation *allocation, const char *agreement)
{
	uint8_t hash[16];
	crypto_generichash_state state;
	char rank_count[16] = "";
	snprintf(rank_count, sizeof(rank_count), "%u", allocation->place.rank_count);
	crypto_generichash_init(&state, NULL, 0, sizeof(hash));
	crypto_generichash_update(&state, (const uint8_t *)rank_count, sizeof(rank_count));
	if (agreement)
		crypto_generichash_update(&state, (const uint8_t *)agreement, strlen(agreement));
	crypto_generichash_final(&state, hash, sizeof(hash));
	sodium_bin2hex(allocation->command, sizeof(allocation->command), hash, 8);
}

int tfc__allocation_init(tfc_allocation *allocation, const tfc_allocation_options *options,
			 tfc_error *error)
{
	int code = tfc__engine_recognize(options->env, options, error, &allocation->place);
	if (code < 0)
		return code;
	const struct tfc__grant_limits limits = tfc__grant_read("/proc/self/cgroup",
								"/sys/fs/cgroup");
	allocation->grant = tfc__grant_compute(&allocation->place, options->env, &limits);
	for (const char *const *at = options->env; *at; at++)
		if (!tfc__engine_hides(*at))
			tfc__strv_add(&allocation->env, *at);
	allocation->ranks = calloc(allocation->place.rank_count, sizeof(*allocation->ranks));
	allocation->gpus = tfc__grant_gpu_list(allocation->grant.gpus);
	allocation->host = options->host ? strdup(options->host) : NULL;
	if (allocation->env.is_failed || !allocation->ranks || !allocation->gpus ||
	    (options->host && !allocation->host))
		return tfc__fail_nomem(error, "allocation");
	allocation->min_ranks = options->min_ranks;
	allocation->needed_slots = options->needed_slots;
	allocation->needed_gpus = options->needed_gpus;
	allocation->has_given_key = options->key_file || options->key_data;
	allocation_hash_agreement(allocation, options->agreement);
	if ((code = allocation_read_node(allocation, options, error)) < 0 ||
	    (code = allocation_read_rendezvous(allocation, options, error)) < 0 ||
	    (code = allocation_read_key(allocation, options, error)) < 0)
		return code;
	allocation_describe(allocation, options);
	return TFC_OK;
}
