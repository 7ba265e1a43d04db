#include "warm/zygotes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/file.h"
#include "base/list.h"
#include "base/text.h"
#include "log/tail.h"
#include "zygote_source.h"
#include <tfcluster/memory.h>

#define TEXT_SIZE TFC__WARM_TEXT

struct zygote_entry {
	struct tfc__link link; /* in the order of use: the first was not used for longest */
	struct tfc__zygotes *zygotes;
	tfc_process *process; /* NULL: it has failed */
	char *key;
	char *modules;
	char log_name[24];
	void **users;
	size_t user_count;
	bool is_ready;
	char failure[TEXT_SIZE];
};

struct tfc__zygotes {
	struct tfc__zygotes_options options;
	struct tfc__link list;
	uint32_t count;
	uint32_t serial; /* of log names */
};

int tfc__zygotes_open(const struct tfc__zygotes_options *options, tfc_error *error,
		      struct tfc__zygotes **ret_zygotes)
{
	struct tfc__zygotes *zygotes = calloc(1, sizeof(*zygotes));
	if (!zygotes)
		return tfc__fail_nomem(error, "warm");
	zygotes->options = *options;
	if (!options->max)
		zygotes->options.max = TFC__ZYGOTES;
	tfc__list_init(&zygotes->list);
	*ret_zygotes = zygotes;
	return TFC_OK;
}

static void zygote_free(struct zygote_entry *zygote)
{
	tfc__list_remove(&zygote->link);
	zygote->zygotes->count--;
	tfc_process_close(zygote->process);
	free(zygote->key);
	free(zygote->modules);
	free(zygote->users);
	free(zygote);
}

void tfc__zygotes_close(struct tfc__zygotes *zygotes)
{
	if (!zygotes)
		return;
	TFC__LIST_EACH (link, &zygotes->list)
		zygote_free(tfc__container_of(link, struct zygote_entry, link));
	free(zygotes);
}

/* ---- its import */

/* proc(5): the second number of statm is the resident memory, in pages. */
static void zygote_log_ready(const struct zygote_entry *zygote)
{
	char path[64], text[128], memory[TFC__MEMORY_TEXT_SIZE];
	unsigned long long pages = 0;
	pid_t pid = tfc_process_pid(zygote->process);
	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	tfc__read_text(path, text, sizeof(text));
	sscanf(text, "%*u %llu", &pages);
	tfc__memory_text(pages * (uint64_t)sysconf(_SC_PAGESIZE), memory);
	tfc__log(zygote->zygotes->options.ctx, TFC_LOG_INFO, "warm", "",
		 "process %d has imported %s and uses %s; tasks are forked from it", (int)pid,
		 zygote->modules, memory);
}

/* ---- its end */

/* The last line of its output says why it cannot serve. */
static void zygote_describe_end(struct zygote_entry *zygote, const tfc_process_event *event)
{
	char **lines = NULL;
	const char *line = NULL;
	if (tfc__log_tail(tfc__private_dir_path(zygote->zygotes->options.dir), zygote->log_name, 0,
			  0, 1, &lines) >= 0)
		line = lines[0];
	if (event->reason == TFC_EXIT_SIGNAL)
		snprintf(zygote->failure, TEXT_SIZE,
			 "the process was killed by signal %d before it had imported %.200s; an "
			 "import may take 120 s",
			 event->status, zygote->modules);
	else if (event->reason == TFC_EXIT_NOT_STARTED)
		snprintf(zygote->failure, TEXT_SIZE, "%s", event->text);
	else if (line && *line)
		snprintf(zygote->failure, TEXT_SIZE, "%s", line);
	else
		snprintf(zygote->failure, TEXT_SIZE, "the process ended with status %d",
			 event->status);
	if (lines)
		tfc_strv_free(lines);
}

/*
 * One that ends by itself, or takes too long to import, would do so again, and stays in the list as
 * failed. One that was killed later is replaced when it is wanted.
 */
static void zygote_on_event(void *user, const tfc_process_event *event)
{
	struct zygote_entry *zygote = user;
	struct tfc__zygotes *zygotes = zygote->zygotes;
	if (event->kind == TFC__PROCESS_READY) {
		zygote->is_ready = true;
		zygote_log_ready(zygote);
	}
	if (event->kind != TFC_PROCESS_EXITED)
		return;
	bool is_killed = event->reason == TFC_EXIT_SIGNAL && zygote->is_ready;
	if (is_killed || event->reason == TFC_EXIT_LOST) {
		zygote_free(zygote);
		return;
	}
	zygote_describe_end(zygote, event);
	tfc_process_close(zygote->process);
	zygote->process = NULL;
	for (size_t i = 0; i < zygote->user_count && zygotes->options.fn; i++)
		zygotes->options.fn(zygote->users[i], zygote->failure);
}

/* ---- its start */

static char *join_modules(const struct tfc__strv *modules)
{
	char *text = strdup("");
	for (size_t i = 0; i < modules->count && text; i++) {
		char *longer = NULL;
		if (asprintf(&longer, "%s%s%s", text, i ? " " : "", modules->items[i]) < 0)
			longer = NULL;
		free(text);
		text = longer;
	}
	return text;
}

static int zygote_spawn(struct zygote_entry *zygote, const struct tfc__warm_attempt *attempt,
			const struct tfc__strv *env)
{
	struct tfc__zygotes *zygotes = zygote->zygotes;
	const struct tfc__run_terms terms = {.dir = zygotes->options.dir, .is_zygote = true};
	struct tfc__strv argv = {0};
	tfc__strv_add(&argv, attempt->argv[0]);
	tfc__strv_add(&argv, "-c");
	tfc__strv_add(&argv, tfc__zygote_source);
	tfc__strv_add_all(&argv, (const char *const *)attempt->modules->items);
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	options.argv = (const char *const *)argv.items;
	options.env = (const char *const *)env->items;
	options.log_dir = tfc__private_dir_path(zygotes->options.dir);
	options.log_name = zygote->log_name;
	options.grace_ms = TFC__HELPER_GRACE_MS;
	options.isolation = TFC_ISOLATION_PLAIN;
	int code = argv.is_failed ? TFC_ENOMEM
				  : tfc__process_spawn(zygotes->options.ctx, &options, &terms,
						       zygote_on_event, zygote, &zygote->process);
	tfc__strv_fini(&argv);
	return code;
}

static struct zygote_entry *zygote_new(struct tfc__zygotes *zygotes,
				       const struct tfc__warm_attempt *attempt, char *key)
{
	struct zygote_entry *zygote = calloc(1, sizeof(*zygote));
	char *modules = join_modules(attempt->modules);
	if (!zygote || !modules) {
		free(zygote);
		free(modules);
		free(key);
		return NULL;
	}
	zygote->zygotes = zygotes;
	zygote->key = key;
	zygote->modules = modules;
	snprintf(zygote->log_name, sizeof(zygote->log_name), "zygote-%u", ++zygotes->serial);
	tfc__list_append(&zygotes->list, &zygote->link);
	zygotes->count++;
	return zygote;
}

/* ---- its users */

static bool zygote_add_user(struct zygote_entry *zygote, void *user)
{
	for (size_t i = 0; i < zygote->user_count; i++)
		if (zygote->users[i] == user)
			return true;
	void **users = realloc(zygote->users, (zygote->user_count + 1) * sizeof(*users));
	if (!users)
		return false;
	users[zygote->user_count++] = user;
	zygote->users = users;
	return true;
}

void tfc__zygotes_leave(struct tfc__zygotes *zygotes, const void *user)
{
	if (!zygotes)
		return;
	TFC__LIST_EACH (link, &zygotes->list) {
		struct zygote_entry *zygote = tfc__container_of(link, struct zygote_entry, link);
		for (size_t i = zygote->user_count; i-- > 0;)
			if (zygote->users[i] == user)
				zygote->users[i] = zygote->users[--zygote->user_count];
	}
}

static struct zygote_entry *zygotes_find(struct tfc__zygotes *zygotes, const char *key)
{
	TFC__LIST_EACH (link, &zygotes->list) {
		struct zygote_entry *zygote = tfc__container_of(link, struct zygote_entry, link);
		if (strcmp(zygote->key, key) == 0)
			return zygote;
	}
	return NULL;
}

/* One that a job uses stays: otherwise two jobs would import in turn. */
static bool zygotes_make_room(struct tfc__zygotes *zygotes)
{
	if (zygotes->count < zygotes->options.max)
		return true;
	TFC__LIST_EACH (link, &zygotes->list) {
		struct zygote_entry *zygote = tfc__container_of(link, struct zygote_entry, link);
		if (zygote->user_count)
			continue;
		zygote_free(zygote);
		return true;
	}
	return false;
}

static struct zygote_entry *zygotes_make(struct tfc__zygotes *zygotes,
					 const struct tfc__warm_attempt *attempt, char *key,
					 const struct tfc__strv *env, char *text)
{
	if (!zygotes_make_room(zygotes)) {
		snprintf(text, TEXT_SIZE,
			 "all %u of the node's zygotes are in use by jobs; jobs with the same "
			 "modules, "
			 "interpreter and variables share one, and the node's option zygotes sets "
			 "their number",
			 zygotes->count);
		free(key);
		return NULL;
	}
	struct zygote_entry *zygote = zygote_new(zygotes, attempt, key);
	if (!zygote)
		return NULL;
	if (zygote_spawn(zygote, attempt, env) < 0) {
		snprintf(text, TEXT_SIZE, "%.500s", tfc_ctx_error(zygotes->options.ctx)->text);
		zygote_free(zygote);
		return NULL;
	}
	return zygote;
}

const tfc_process *tfc__zygotes_get(struct tfc__zygotes *zygotes,
				    const struct tfc__warm_attempt *attempt,
				    char ret_text[TFC__WARM_TEXT])
{
	struct tfc__strv env = {0};
	if (!tfc__warm_check(attempt, ret_text))
		return NULL;
	char *key = tfc__warm_key(attempt, &env);
	struct zygote_entry *zygote = key ? zygotes_find(zygotes, key) : NULL;
	if (zygote)
		free(key);
	else if (key && !env.is_failed)
		zygote = zygotes_make(zygotes, attempt, key, &env, ret_text);
	else
		free(key);
	tfc__strv_fini(&env);
	if (!zygote || !zygote_add_user(zygote, attempt->user))
		return NULL;
	tfc__list_remove(&zygote->link);
	tfc__list_append(&zygotes->list, &zygote->link);
	if (*zygote->failure)
		snprintf(ret_text, TEXT_SIZE, "%s", zygote->failure);
	return zygote->process;
}
